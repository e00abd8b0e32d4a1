//! No more calls to a store that is down.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::backend::{
    Acquire, Acquired, AtOnce, Backend, CapacitySet, Confirm, Confirmed, Inbox, List, Page,
    Release, Releases, Renew, Renewed, Seen, SetCapacity, Sweep, Swept, Watch, Withdraw, Withdrawn,
};
use crate::clock::{Clock, Moment, SystemClock};
use crate::error::{Error, ErrorKind, Result};
use crate::guarantees::Description;
use crate::name::Name;
use crate::record::Record;
use crate::sync::{Mutex, lock};

/// Whether a [`Breaker`] lets calls through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerState {
    /// All of them.
    Closed,
    /// None but renewals: the store has failed too often in a row.
    Open,
    /// One, to see whether the store is back.
    Probing,
}

type Hook = Box<dyn Fn(BreakerState) + Send + Sync>;

/// Fails at once while a store is down, instead of letting every caller find out for itself.
///
/// After so many failures in a row that [may pass](Error::is_retryable), calls fail with [`ErrorKind::Unavailable`] and
/// certainly without effect. After a rest, one call is let through: if it succeeds, all are again. A failure that says
/// something about the request and not about the store counts as an answer.
///
/// Renewals always go through. They are few, whoever waits for them has a lease to lose, and their success is the first
/// sign that the store is back.
pub struct Breaker<B> {
    inner: B,
    after: u32,
    rest: Duration,
    clock: Arc<dyn Clock>,
    hook: Option<Hook>,
    fuse: Mutex<Fuse>,
}

/// How the store has done lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fuse {
    /// Failures in a row.
    Whole(u32),
    /// Nobody is let through before this moment.
    Blown(Moment),
    /// Somebody is on the way.
    Probing,
}

impl Fuse {
    fn state(self) -> BreakerState {
        match self {
            Self::Whole(_) => BreakerState::Closed,
            Self::Blown(_) => BreakerState::Open,
            Self::Probing => BreakerState::Probing,
        }
    }
}

impl<B: Backend> Breaker<B> {
    /// Failures in a row after which no more calls are let through, if nothing else is said.
    pub const AFTER: u32 = 5;
    /// How long calls are refused before one is let through again, if nothing else is said.
    pub const REST: Duration = Duration::from_secs(1);

    /// Guards `inner`, on the system's clock.
    pub fn new(inner: B) -> Self {
        Self {
            inner,
            after: Self::AFTER,
            rest: Self::REST,
            clock: SystemClock::shared(),
            hook: None,
            fuse: Mutex::new(Fuse::Whole(0)),
        }
    }

    /// Lets no more calls through after this many failures in a row.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for zero.
    pub fn after(mut self, failures: u32) -> Result<Self> {
        if failures == 0 {
            return Err(Error::invalid(
                "a breaker that opens after no failure at all would never let a call through; allow at least 1",
            ));
        }
        self.after = failures;
        Ok(self)
    }

    /// Refuses calls for this long before one is let through again.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for zero.
    pub fn rest(mut self, rest: Duration) -> Result<Self> {
        if rest.is_zero() {
            return Err(Error::invalid(
                "a rest of zero lets every call through; it must be longer",
            ));
        }
        self.rest = rest;
        Ok(self)
    }

    /// Tells this function of every change of the [state](Self::state).
    #[must_use]
    pub fn on_change(mut self, hook: impl Fn(BreakerState) + Send + Sync + 'static) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// Judges time by this clock instead.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The backend inside.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// Whether calls are let through.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        lock(&self.fuse).state()
    }

    /// Lets a call through unless the store is known to be down.
    async fn guarded<T>(
        &self,
        op: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let probe = self
            .enter()
            .map_err(|error| error.during(op, self.inner.describe().scheme))?;
        let answer = call.await;
        // From here on the answer tells; until here, being dropped does.
        std::mem::forget(probe);
        self.learn(&answer);
        answer
    }

    fn enter(&self) -> Result<Option<Probe<'_, B>>> {
        let now = self.clock.now();
        let back = match *lock(&self.fuse) {
            Fuse::Whole(_) => return Ok(None),
            Fuse::Blown(back) => back,
            Fuse::Probing => now.after(self.rest),
        };
        // Of those who come at the same time, one is let through.
        let first = self.turn(|fuse| match fuse {
            Fuse::Blown(back) if back <= now => Some(Fuse::Probing),
            _ => None,
        });
        if first {
            return Ok(Some(Probe(self)));
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "the store has failed {} times in a row or more; it is asked again in {:?}",
                self.after,
                back.since(now)
            ),
        ))
    }

    fn learn<T>(&self, answer: &Result<T>) {
        let down = matches!(answer, Err(error) if error.is_retryable());
        let back = down.then(|| self.clock.now().after(self.rest));
        self.turn(|fuse| match (fuse, back) {
            (_, None) => Some(Fuse::Whole(0)),
            (Fuse::Whole(failures), Some(back)) => Some(if failures + 1 >= self.after {
                Fuse::Blown(back)
            } else {
                Fuse::Whole(failures + 1)
            }),
            (Fuse::Probing, Some(back)) => Some(Fuse::Blown(back)),
            // Who was under way before it blew says nothing new.
            (Fuse::Blown(_), Some(_)) => None,
        });
    }

    /// Changes the fuse, and says whether there was something to change.
    fn turn(&self, change: impl FnOnce(Fuse) -> Option<Fuse>) -> bool {
        let (before, after) = {
            let mut fuse = lock(&self.fuse);
            let before = *fuse;
            let Some(after) = change(before) else {
                return false;
            };
            *fuse = after;
            (before, after)
        };
        if let Some(hook) = &self.hook
            && before.state() != after.state()
        {
            hook(after.state());
        }
        true
    }
}

/// A call that was let through to see whether the store is back. If it is dropped, the next one may try.
struct Probe<'a, B: Backend>(&'a Breaker<B>);

impl<B: Backend> Drop for Probe<'_, B> {
    fn drop(&mut self) {
        let now = self.0.clock.now();
        self.0
            .turn(|fuse| (fuse == Fuse::Probing).then_some(Fuse::Blown(now)));
    }
}

impl<B: Backend> fmt::Debug for Breaker<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("state", &self.state())
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: Backend> Backend for Breaker<B> {
    fn describe(&self) -> &Description {
        self.inner.describe()
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        self.guarded("acquire", self.inner.acquire(request)).await
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        let answer = self.inner.renew(request).await;
        self.learn(&answer);
        answer
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        self.guarded("release", self.inner.release(request)).await
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        self.guarded("confirm", self.inner.confirm(request)).await
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        self.guarded("withdraw", self.inner.withdraw(request)).await
    }

    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet> {
        self.guarded("set_capacity", self.inner.set_capacity(request))
            .await
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        self.guarded("get", self.inner.get(name)).await
    }

    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>> {
        self.guarded("list", self.inner.list(request)).await
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        self.guarded("sweep", self.inner.sweep(request)).await
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        self.guarded("watch", self.inner.watch(inbox, name)).await
    }
}
