//! Waiting: stand in the local line, ask the store when it is your turn, and be told when to ask again.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::attempt::Attempt;
use super::event::LockEvent;
use super::hold::Leases;
use super::line::{Place, Signal};
use super::shared::{Shared, closed};
use crate::backend::{Acquire, Acquired, Blocked, BlockedBy, Watch};
use crate::clock::{Moment, Timestamp};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::name::Name;
use crate::seeded::{Bug, planted};

/// A waiter asks again at least this often where no better moment is known: a lost wake-up costs no more.
const LONGEST_RECHECK: Duration = Duration::from_secs(5);
const SHORTEST_RECHECK: Duration = Duration::from_millis(10);
/// Failures in a row that a waiter who was already told to wait shrugs off.
const STUMBLES: u32 = 5;
/// How far past its deadline a wait lets the store finish its last answer.
const LAST_WORD: Duration = Duration::from_millis(100);

/// How long somebody is ready to wait.
pub(super) struct Patience<'a> {
    pub(super) deadline: Option<Moment>,
    pub(super) cancel: Option<&'a CancellationToken>,
}

impl Patience<'_> {
    fn is_endless(&self) -> bool {
        self.deadline.is_none() && self.cancel.is_none()
    }
}

/// Takes the names now, or says who has them.
pub(super) async fn try_now(attempt: &mut Attempt<'_>) -> Result<Result<Leases, Blocked>> {
    let answer = match attempt.ask(false).await {
        Err(error) if planted(Bug::TimeoutAsRefusal) && error.kind() == ErrorKind::Timeout => {
            return Ok(Err(refusal_made_up(&attempt.request)));
        }
        answer => answer?,
    };
    match answer {
        Acquired::Granted(leases) => Ok(Ok(leases)),
        Acquired::Held(blocked) => Ok(Err(first(blocked)?)),
        Acquired::Queued(queued) => Ok(Err(queued.blocked)),
    }
}

/// What [`Bug::TimeoutAsRefusal`] says instead of the truth.
fn refusal_made_up(request: &Acquire) -> Blocked {
    Blocked {
        name: request.names.first().clone(),
        by: BlockedBy::Holder,
        holding: None,
        change_in: None,
        waiting: 0,
        free_units: 0,
    }
}

/// Takes the names as soon as they can be had.
pub(super) async fn wait(attempt: &mut Attempt<'_>, patience: Patience<'_>) -> Result<Leases> {
    let shared = attempt.shared;
    let mut blocked = None;
    if !shared.expects_contention() && !shared.line.is_waited_for(attempt.request.names.first()) {
        let answer = match attempt.ask_at_once(false) {
            Some(answer) => answer,
            None => at_once_or_within(shared, &patience, attempt.ask(false)).await,
        };
        match answer? {
            Acquired::Granted(leases) => return Ok(leases),
            Acquired::Held(by) => blocked = Some(worth_waiting(shared, first(by)?)?),
            Acquired::Queued(queued) => blocked = Some(queued.blocked),
        }
        shared.saw_contention(true);
    }
    // Boxed, so that those who need not wait do not carry the room for it around.
    Box::pin(stand_in_line(attempt, patience, blocked)).await
}

async fn stand_in_line(
    attempt: &mut Attempt<'_>,
    patience: Patience<'_>,
    blocked: Option<Blocked>,
) -> Result<Leases> {
    let shared = attempt.shared;
    let holder = attempt.request.holder.digest();
    let place = match attempt.request.names.single() {
        Some(name) => shared.line.join(name, holder),
        None => shared.line.stand_aside(holder),
    };
    let _announced = Announced::new(shared, attempt.request.names.first());
    let mut waiter = Waiter {
        shared,
        patience,
        place,
        attempt,
        blocked,
        ticket_ends: None,
        watch: None,
        stumbles: 0,
    };
    match waiter.stand().await? {
        Some(leases) => {
            waiter.place.served();
            Ok(leases)
        }
        None => Err(waiter.not_acquired()),
    }
}

struct Waiter<'a, 's> {
    shared: &'s Arc<Shared>,
    patience: Patience<'a>,
    place: Place<'s>,
    attempt: &'a mut Attempt<'s>,
    /// Who was last seen in the way.
    blocked: Option<Blocked>,
    /// When our ticket ends, as the store last said.
    ticket_ends: Option<Timestamp>,
    watch: Option<Watch>,
    stumbles: u32,
}

/// What ended a pause.
enum Pause {
    Signal(Signal),
    Recheck,
    Deadline,
}

impl Waiter<'_, '_> {
    /// Waits until the names are granted; `None` once the deadline has passed.
    async fn stand(&mut self) -> Result<Option<Leases>> {
        if !self.wait_for_turn().await? {
            return self.last_try().await;
        }
        let queue = self.shared.can().queue && self.attempt.request.names.single().is_some();
        loop {
            let recheck = match self.ask(queue).await? {
                Ok(leases) => return Ok(Some(leases)),
                Err(recheck) => recheck,
            };
            match self.pause(recheck).await? {
                Pause::Signal(Signal::Granted(lease)) if self.is_believable(&lease) => {
                    return Ok(Some(self.handed_over(lease)));
                }
                Pause::Signal(_) | Pause::Recheck => {}
                Pause::Deadline => return self.last_try().await,
            }
        }
    }

    /// A grant is told on another way than answers are given, so it may be old. It is believed if it was made from the
    /// ticket we last heard of, and if enough of it is left; otherwise the store is asked again.
    fn is_believable(&self, lease: &Lease) -> bool {
        self.ticket_ends == Some(lease.expires_at) && !self.attempt.is_stale()
    }

    /// Asks once. `Err` says when to ask again.
    async fn ask(&mut self, queue: bool) -> Result<Result<Leases, Moment>> {
        let answer = match self.prepare(queue).await {
            Ok(()) => within(self.shared, &self.patience, self.attempt.ask(queue)).await,
            Err(error) => Err(error),
        };
        let told_before = self.blocked.is_some();
        let now = self.shared.clock.now();
        match answer {
            Ok(Acquired::Granted(leases)) => {
                self.shared.saw_contention(told_before);
                Ok(Ok(leases))
            }
            Ok(Acquired::Queued(queued)) => {
                self.shared.saw_contention(true);
                self.ticket_ends = Some(queued.expires_at);
                let refresh = self.attempt.t0().after(queued.ttl / 3);
                Ok(Err(now.after(self.told(queued.blocked)).min(refresh)))
            }
            Ok(Acquired::Held(blocked)) => {
                let blocked = worth_waiting(self.shared, first(blocked)?)?;
                // Another name is in the way than the one that is watched: watch that one, and ask again.
                let unseen = self.shared.can().watch && !self.place.sees(&blocked.name);
                let recheck = now.after(self.told(blocked));
                Ok(Err(if unseen { now } else { recheck }))
            }
            Err(error) if told_before && self.shrugs_off(&error, now) => {
                self.stumbles += 1;
                Ok(Err(now.after(jittered(
                    SHORTEST_RECHECK * 2u32.pow(self.stumbles),
                ))))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a failure is no reason to stop waiting yet.
    fn shrugs_off(&self, error: &Error, now: Moment) -> bool {
        error.is_retryable()
            && self.stumbles < STUMBLES
            && self.patience.deadline.is_none_or(|deadline| now < deadline)
    }

    /// Makes sure of being told: of a grant to our ticket, or of a change of the name in the way. Done before asking, so
    /// that nothing between the answer and the wait goes unseen.
    async fn prepare(&mut self, queue: bool) -> Result<()> {
        if queue {
            return within(self.shared, &self.patience, self.shared.attach()).await;
        }
        if !self.shared.can().watch {
            return Ok(());
        }
        let name = match &self.blocked {
            Some(blocked) => blocked.name.clone(),
            None => self.attempt.request.names.first().clone(),
        };
        if self.watch.is_none() || !self.place.sees(&name) {
            self.place.look_at(&name);
            let watch = self.shared.backend.watch(&self.shared.inbox, Some(&name));
            self.watch = Some(within(self.shared, &self.patience, watch).await?);
        }
        Ok(())
    }

    /// Remembers who is in the way and says when to ask again without being told.
    fn told(&mut self, blocked: Blocked) -> Duration {
        self.stumbles = 0;
        let by_time = blocked
            .change_in
            .map_or(LONGEST_RECHECK, |change| change.max(SHORTEST_RECHECK));
        self.blocked = Some(blocked);
        let fallback = if self.shared.can().watch {
            LONGEST_RECHECK
        } else {
            SHORTEST_RECHECK * 10
        };
        by_time.min(jittered(fallback))
    }

    /// A grant by hand-over lasts as long as the ticket did when it was last refreshed.
    fn handed_over(&self, mut lease: Lease) -> Leases {
        lease.ttl = self.attempt.request.ttl.as_duration();
        Leases::from_buf([lease])
    }

    /// `false` if the deadline came first.
    async fn wait_for_turn(&mut self) -> Result<bool> {
        let in_time = tokio::select! {
            biased;
            () = self.place.turn() => Ok(true),
            stop = stopped(self.shared, &self.patience) => stop.map(|()| false),
        };
        self.shared.refuse_if_closed()?;
        in_time
    }

    /// Waits for something to act on. The keeper reminds those who stand in line of asking again; a timer for each of
    /// them would cost more than all the rest.
    async fn pause(&mut self, recheck: Moment) -> Result<Pause> {
        let timer = if self.place.remind_at(recheck) {
            self.shared.keeper.remind_by(recheck);
            None
        } else {
            Some(recheck)
        };
        if timer.is_none() && self.patience.is_endless() {
            let signal = self.place.signal().await;
            self.shared.refuse_if_closed()?;
            return Ok(Pause::Signal(signal));
        }
        let pause = tokio::select! {
            biased;
            signal = self.place.signal() => Ok(Pause::Signal(signal)),
            stop = stopped(self.shared, &self.patience) => stop.map(|()| Pause::Deadline),
            () = sleep_until(self.shared, timer) => Ok(Pause::Recheck),
        };
        self.shared.refuse_if_closed()?;
        pause
    }

    /// At the deadline one last try, without a wish to wait on.
    async fn last_try(&mut self) -> Result<Option<Leases>> {
        match within(self.shared, &self.patience, self.attempt.ask(false)).await? {
            Acquired::Granted(leases) => Ok(Some(leases)),
            Acquired::Held(blocked) => {
                self.blocked = Some(first(blocked)?);
                Ok(None)
            }
            Acquired::Queued(queued) => {
                self.blocked = Some(queued.blocked);
                Ok(None)
            }
        }
    }

    fn not_acquired(&mut self) -> Error {
        let error = Error::new(ErrorKind::NotAcquired, "it stayed taken until the deadline")
            .during("acquire", self.shared.scheme())
            .with_name(self.attempt.request.names.first());
        match self.blocked.take() {
            Some(blocked) => error.with_blocked(blocked),
            None => error,
        }
    }
}

/// Announces a wait to the hooks, and its end however it comes.
struct Announced<'a> {
    shared: &'a Shared,
    name: Name,
}

impl<'a> Announced<'a> {
    /// Nothing to announce if there are no hooks.
    fn new(shared: &'a Shared, name: &Name) -> Option<Self> {
        if !shared.has_hooks() {
            return None;
        }
        shared.emit(|| LockEvent::Waiting { name });
        let name = name.clone();
        Some(Self { shared, name })
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.shared
            .emit(|| LockEvent::WaitEnded { name: &self.name });
    }
}

fn first(blocked: Vec<Blocked>) -> Result<Blocked> {
    blocked.into_iter().next().ok_or_else(|| {
        Error::new(
            ErrorKind::Internal,
            "the store refused a request without saying why",
        )
    })
}

/// Refuses to wait for more units than a name has: waiting does not make them more.
fn worth_waiting(shared: &Shared, blocked: Blocked) -> Result<Blocked> {
    if blocked.by != BlockedBy::Capacity {
        return Ok(blocked);
    }
    Err(Error::new(
        ErrorKind::NotAcquired,
        "more units were asked for than there are",
    )
    .during("acquire", shared.scheme())
    .with_name(&blocked.name.clone())
    .with_blocked(blocked))
}

/// Resolves at the deadline with `Ok`, on cancellation with an error, and never if there is neither.
async fn stopped(shared: &Shared, patience: &Patience<'_>) -> Result<()> {
    tokio::select! {
        biased;
        () = cancelled(patience.cancel) => Err(Error::new(ErrorKind::Cancelled, "the wait was cancelled")),
        () = sleep_until(shared, patience.deadline) => Ok(()),
    }
}

/// As [`within`], for those who as a rule get their answer at once: what is needed to wait for it is made only if not.
async fn at_once_or_within<T>(
    shared: &Shared,
    patience: &Patience<'_>,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut call = pin!(call);
    match poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await {
        Poll::Ready(answer) => answer,
        Poll::Pending => Box::pin(within(shared, patience, call)).await,
    }
}

/// Lets the store answer, but not for ever: a call is given up shortly after the deadline, when the wait is cancelled, or
/// when the manager is closed.
async fn within<T>(
    shared: &Shared,
    patience: &Patience<'_>,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    let last_word = patience
        .deadline
        .map(|deadline| deadline.max(shared.clock.now()).after(LAST_WORD));
    tokio::select! {
        biased;
        answer = call => answer,
        () = cancelled(patience.cancel) => {
            Err(Error::new(ErrorKind::Cancelled, "the wait was cancelled").with_effect(Effect::Unknown))
        }
        () = shared.closing.cancelled() => Err(closed().with_effect(Effect::Unknown)),
        () = sleep_until(shared, last_word) => {
            Err(Error::new(ErrorKind::Timeout, "the store did not answer by the deadline of the wait")
                .with_effect(Effect::Unknown)
                .during("acquire", shared.scheme()))
        }
    }
}

async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => pending().await,
    }
}

async fn sleep_until(shared: &Shared, at: Option<Moment>) {
    match at {
        Some(at) => shared.clock.sleep_until(at).await,
        None => pending().await,
    }
}

/// Between half and all of a duration, so that waiters do not ask in step.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(0.5 + rand::random::<f64>() / 2.0)
}
