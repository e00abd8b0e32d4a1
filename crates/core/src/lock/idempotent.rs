//! Doing something once: one caller does the work, the others get its stored result.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::guard::{Guard, Held, lost};
use super::handle::Lock;
use super::hold::Hold;
use super::line::Place;
use super::run::RunError;
use super::shared::Shared;
use crate::backend::{Acquired, Blocked, Renewed, Watch};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::lease::{Metadata, Ttl};

/// How long a result is kept unless told otherwise.
const DEFAULT_KEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// The wait before a result that could not be stored is stored again.
const RETRY_STORE: Duration = Duration::from_millis(50);
/// The wait before asking again where nothing better is known.
const LONGEST_RECHECK: Duration = Duration::from_secs(5);
/// Marks free text that is a result, as opposed to that of a lock somebody works under.
const DONE: &str = "done:";

/// Work to be done once per key; made by [`Locks::idempotent`](super::Locks::idempotent).
#[derive(Debug, Clone)]
#[must_use = "nothing is done until it is run"]
pub struct Idempotent {
    lock: Lock,
    keep: Duration,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The result.
    pub value: String,
    /// Whether this call did the work, rather than finding it done.
    pub fresh: bool,
}

/// Why there is no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum IdempotentError<E> {
    /// The work failed. Nothing is stored, and the next caller tries again.
    Body(E),
    /// The lock could not be had, or was lost on the way.
    Lock(RunError),
    /// The work was done, but its result could not be stored: another caller may do it again. If it is
    /// [unknown](Effect::Unknown) whether it was stored, the lock is left to run out, so that a result that is there
    /// stays there.
    NotStored {
        /// The result.
        value: String,
        /// Why it could not be stored.
        error: Error,
    },
}

impl<E: fmt::Display> fmt::Display for IdempotentError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(error) => error.fmt(f),
            Self::Lock(error) => error.fmt(f),
            Self::NotStored { error, .. } => write!(
                f,
                "the work was done, but its result could not be stored: {error}"
            ),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for IdempotentError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Body(error) => Some(error),
            Self::Lock(error) => Some(error),
            Self::NotStored { error, .. } => Some(error),
        }
    }
}

impl Idempotent {
    pub(super) fn new(lock: Lock) -> Self {
        Self {
            lock: lock.renewing(),
            keep: DEFAULT_KEEP,
        }
    }

    /// Keeps the result for this long; a day by default.
    pub fn keep_for(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Sets the ttl of the lock the work runs under: how long others wait if the worker dies.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.lock = self.lock.ttl(ttl);
        self
    }

    /// Returns the stored result, or does the work and stores it.
    ///
    /// The work runs under a lock that is renewed; a caller that comes meanwhile waits for its result. If the worker dies,
    /// the next caller takes over when the lease has run out. The result is kept as text of at most 4091 bytes; for more,
    /// store it elsewhere and keep a reference.
    ///
    /// # Errors
    /// See [`IdempotentError`].
    ///
    /// # Cancel safety
    /// Dropped midway, the work is dropped and the lock given back; the next caller starts afresh.
    pub async fn run<E, F, Fut>(&self, work: F) -> Result<Answer, IdempotentError<E>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = Result<String, E>>,
    {
        let keep = Ttl::new(self.keep).map_err(lock_error)?;
        self.lock.manager().check_ttl(keep).map_err(lock_error)?;
        match self.claim_or_find().await.map_err(lock_error)? {
            Found::Done(value) => Ok(Answer {
                value,
                fresh: false,
            }),
            Found::Ours(guard) => do_once(guard, keep, work).await,
        }
    }

    /// Takes the lock, or waits until somebody else has stored a result.
    async fn claim_or_find(&self) -> Result<Found> {
        let names = self.lock.names()?;
        let shared = self.lock.manager();
        let started = shared.clock.now();
        let request = self.lock.request(names)?;
        let mut onlooker = Onlooker::new(shared, request.holder.digest());
        let mut attempt = Attempt::new(shared, request);
        loop {
            onlooker.arm(names.first()).await?;
            let blocked = match attempt.ask(false).await? {
                Acquired::Granted(leases) => {
                    let hold = Hold::new(&self.lock.terms, attempt.granted(leases)?);
                    return Ok(Found::Ours(self.lock.guard(hold, started)));
                }
                Acquired::Held(blocked) => blocked.into_iter().next(),
                Acquired::Queued(queued) => Some(queued.blocked),
            };
            match blocked.as_ref().and_then(stored_result) {
                Some(value) => return Ok(Found::Done(value)),
                None => {
                    onlooker
                        .pause(blocked.as_ref().and_then(|blocked| blocked.change_in))
                        .await?
                }
            }
        }
    }
}

enum Found {
    Ours(Guard),
    Done(String),
}

/// Somebody who waits for a name to change without wanting to be next.
struct Onlooker<'a> {
    shared: &'a Arc<Shared>,
    place: Place<'a>,
    watch: Option<Watch>,
}

impl<'a> Onlooker<'a> {
    fn new(shared: &'a Arc<Shared>, holder: crate::HolderDigest) -> Self {
        Self {
            shared,
            place: shared.line.stand_aside(holder),
            watch: None,
        }
    }

    /// Armed before the name is looked at, so that no change in between goes unseen.
    async fn arm(&mut self, name: &crate::Name) -> Result<()> {
        if self.watch.is_none() && self.shared.can().watch {
            self.place.look_at(name);
            self.watch = Some(
                self.shared
                    .backend
                    .watch(&self.shared.inbox, Some(name))
                    .await?,
            );
        }
        Ok(())
    }

    async fn pause(&self, change_in: Option<Duration>) -> Result<()> {
        let recheck = change_in.unwrap_or(LONGEST_RECHECK).min(LONGEST_RECHECK);
        let at = self
            .shared
            .clock
            .now()
            .after(recheck.max(Duration::from_millis(10)));
        tokio::select! {
            biased;
            _ = self.place.signal() => {}
            () = self.shared.clock.sleep_until(at) => {}
        }
        self.shared.refuse_if_closed()
    }
}

fn stored_result(blocked: &Blocked) -> Option<String> {
    let metadata = blocked.holding.as_ref()?.metadata.as_ref()?;
    metadata.as_str().strip_prefix(DONE).map(str::to_owned)
}

async fn do_once<E, F, Fut>(guard: Guard, keep: Ttl, work: F) -> Result<Answer, IdempotentError<E>>
where
    F: FnOnce(Held) -> Fut,
    Fut: Future<Output = Result<String, E>>,
{
    let held = guard.held();
    let done = {
        let work = work(held.clone());
        tokio::select! {
            biased;
            cause = held.lost() => Err(IdempotentError::Lock(RunError::Lost { cause, after: held.held_for() })),
            value = work => value.map_err(IdempotentError::Body),
        }
    };
    match done {
        Ok(value) => match store_while_held(&guard, keep, &value).await {
            Ok(()) => {
                guard.forget();
                Ok(Answer { value, fresh: true })
            }
            Err(error) => {
                // The result may be there after all: giving the lock back would take it away, and the work with it.
                if error.effect() == Effect::Unknown {
                    guard.forget();
                }
                Err(IdempotentError::NotStored { value, error })
            }
        },
        Err(error) => {
            // What the work said matters more than trouble with the release, which the background finishes.
            let _ = guard.release_any().await;
            Err(error)
        }
    }
}

/// Stores the result, trying again as long as the lock is ours: the work is done and must not be done twice.
async fn store_while_held(guard: &Guard, keep: Ttl, value: &str) -> Result<()> {
    let clock = guard.hold().manager().clock.clone();
    let mut in_doubt = false;
    loop {
        let stored = tokio::select! {
            biased;
            stored = store(guard, keep, value) => stored,
            cause = guard.lost() => Err(lost(guard.name(), cause).with_effect(Effect::Unknown)),
        };
        let Err(error) = stored else {
            return Ok(());
        };
        in_doubt |= error.effect() == Effect::Unknown;
        let again = clock.now().after(RETRY_STORE);
        if !error.is_retryable() || again >= guard.hold().deadline() {
            let effect = if in_doubt {
                Effect::Unknown
            } else {
                Effect::None
            };
            return Err(error.with_effect(effect));
        }
        clock.sleep_until(again).await;
    }
}

/// Puts the result in the place of the lock, which stays until it need not be kept any more.
async fn store(guard: &Guard, keep: Ttl, value: &str) -> Result<()> {
    let metadata = Metadata::new(format!("{DONE}{value}"))?;
    let items = super::renew::items(guard.hold(), keep).map(|item| item.metadata(metadata.clone()));
    let answers = guard.hold().manager().renew(items.collect()).await;
    for answer in answers {
        match answer? {
            Renewed::Renewed(_) => {}
            Renewed::NotHeld(not_held) => {
                return Err(lost(guard.name(), guard.hold().why_not_held(&not_held)));
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::Internal,
                    "the store gave an answer that makes no sense",
                ));
            }
        }
    }
    Ok(())
}

fn lock_error<E>(error: Error) -> IdempotentError<E> {
    IdempotentError::Lock(error.into())
}
