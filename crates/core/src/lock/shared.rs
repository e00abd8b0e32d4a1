//! What everything made by one manager shares.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::event::LockEvent;
use super::keeper::Keeper;
use super::line::Line;
use super::roster::Roster;
use super::scope::Scopes;
use crate::backend::{AtOnce, Backend, Inbox, Renew, RenewItem, Renewed, Watch};
use crate::clock::Clock;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::guarantees::{AtomicNames, Capabilities};
use crate::lease::Ttl;

/// A function that is told what happens.
pub(super) type Hook = Arc<dyn Fn(&LockEvent<'_>) + Send + Sync>;

pub(super) struct Shared {
    pub(super) backend: Arc<dyn Backend>,
    /// What the backend can do, which never changes.
    can: Capabilities,
    /// Whether the backend answers at once, by the clock used here.
    answers_at_once: bool,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) line: Arc<Line>,
    pub(super) inbox: Inbox,
    pub(super) roster: Roster,
    pub(super) scopes: Scopes,
    pub(super) keeper: Keeper,
    /// Cancelled when the manager is closed: nobody may begin or go on to wait.
    pub(super) closing: CancellationToken,
    /// The same as a flag that costs nothing to read.
    closed: AtomicBool,
    attached: OnceCell<Watch>,
    hooks: Vec<Hook>,
    /// Above zero while first tries have lately been refused; see [`Shared::expects_contention`].
    heat: AtomicU8,
}

impl Shared {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        clock: Arc<dyn Clock>,
        hooks: Vec<Hook>,
        keeper: Keeper,
    ) -> Self {
        let line = Arc::new(Line::default());
        let inbox = Inbox::new({
            let line = line.clone();
            move |event| line.deliver(event)
        });
        let same_clock = |store: &dyn AtOnce| Arc::ptr_eq(store.clock(), &clock);
        Self {
            answers_at_once: backend.at_once().is_some_and(same_clock),
            can: backend.describe().capabilities.clone(),
            backend,
            clock,
            line,
            inbox,
            roster: Roster::default(),
            scopes: Scopes::default(),
            keeper,
            closing: CancellationToken::new(),
            closed: AtomicBool::new(false),
            attached: OnceCell::new(),
            hooks,
            heat: AtomicU8::new(0),
        }
    }

    pub(super) fn can(&self) -> &Capabilities {
        &self.can
    }

    /// The store, if it answers at once and moments by its clock are moments by ours.
    pub(super) fn at_once(&self) -> Option<&dyn AtOnce> {
        if self.answers_at_once {
            self.backend.at_once()
        } else {
            None
        }
    }

    /// Whether one request may name several names.
    pub(super) fn takes_names_together(&self) -> bool {
        self.can().atomic_names == AtomicNames::All
    }

    pub(super) fn scheme(&self) -> &'static str {
        self.backend.describe().scheme
    }

    /// Refuses a ttl the store cannot do before it is asked to.
    pub(super) fn check_ttl(&self, ttl: Ttl) -> Result<()> {
        self.backend.describe().check_ttl(ttl)
    }

    /// Renews any number of items, as many at a time as the store allows. One answer each; a call that fails fails
    /// only its own items.
    pub(super) async fn renew(&self, mut items: Vec<RenewItem>) -> Vec<Result<Renewed>> {
        let most = self.can().renew_batch.max(1);
        let mut answers = Vec::with_capacity(items.len());
        while !items.is_empty() {
            let rest = items.split_off(items.len().min(most));
            let request = Renew { items };
            match self.backend.renew(&request).await {
                Ok(some) if some.len() == request.items.len() => answers.extend(some),
                Ok(_) => answers.extend(request.items.iter().map(|_| Err(unanswered()))),
                Err(error) => answers.extend(request.items.iter().map(|_| Err(error.copy()))),
            }
            items = rest;
        }
        answers
    }

    /// Makes sure that the store knows where to tell this process of grants.
    pub(super) async fn attach(&self) -> Result<()> {
        self.attached
            .get_or_try_init(|| self.backend.watch(&self.inbox, None))
            .await
            .map(|_| ())
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.closing.cancel();
        self.line.close();
    }

    pub(super) fn refuse_if_closed(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            Err(closed())
        } else {
            Ok(())
        }
    }

    /// Whether a waiter should ask for a place in the queue at once, instead of trying first.
    ///
    /// Trying first is cheaper while names are free; asking at once saves a round trip when they are not.
    pub(super) fn expects_contention(&self) -> bool {
        self.heat.load(Ordering::Relaxed) > 0
    }

    pub(super) fn saw_contention(&self, contended: bool) {
        let heat = self.heat.load(Ordering::Relaxed);
        let next = if contended {
            heat.saturating_add(4).min(64)
        } else {
            heat.saturating_sub(1)
        };
        if next != heat {
            self.heat.store(next, Ordering::Relaxed);
        }
    }

    pub(super) fn has_hooks(&self) -> bool {
        !self.hooks.is_empty()
    }

    /// Tells the hooks. The event is not even made if there are none.
    pub(super) fn emit<'a>(&self, event: impl FnOnce() -> LockEvent<'a>) {
        if self.hooks.is_empty() {
            return;
        }
        let event = event();
        for hook in &self.hooks {
            // A hook that panics must not take the lock it is told about with it.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hook(&event)));
        }
    }
}

/// What a store did wrong that gave fewer or more answers than it was asked for.
pub(super) fn unanswered() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the store did not answer for every name",
    )
    .with_effect(Effect::Unknown)
}

pub(super) fn closed() -> Error {
    Error::new(
        ErrorKind::Closed,
        "this manager was closed; make a new one to go on",
    )
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("backend", &self.scheme())
            .field("held", &self.roster.len())
            .field("waiting", &self.line.waiters())
            .finish_non_exhaustive()
    }
}
