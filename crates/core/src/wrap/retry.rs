//! Another try after a failure that may pass.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::backend::{
    Acquire, Acquired, AtOnce, Backend, CapacitySet, Confirm, Confirmed, Inbox, List, Page,
    Release, Releases, Renew, Renewed, Seen, SetCapacity, Sweep, Swept, Watch, Withdraw, Withdrawn,
};
use crate::clock::{Clock, Moment, SystemClock};
use crate::error::{Effect, Error, Result};
use crate::guarantees::Description;
use crate::name::Name;
use crate::record::Record;

/// How often and how soon a failed call is repeated.
///
/// The pause before attempt n + 1 is random between zero and `first * 2^(n - 1)`, and never longer than `max`:
/// callers that failed together do not come back together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    attempts: u32,
    first: Duration,
    max: Duration,
    total: Duration,
}

impl Default for RetryPolicy {
    /// Three attempts: enough for a dropped connection, too few to hold up a caller while a store is down.
    fn default() -> Self {
        Self {
            attempts: 3,
            first: Duration::from_millis(25),
            max: Duration::from_secs(1),
            total: Duration::from_secs(10),
        }
    }
}

impl RetryPolicy {
    /// The most attempts a policy may allow.
    pub const MAX_ATTEMPTS: u32 = 100;

    /// Allows this many attempts, the first one included.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for zero or more than
    /// [`MAX_ATTEMPTS`](Self::MAX_ATTEMPTS).
    pub fn attempts(mut self, attempts: u32) -> Result<Self> {
        if attempts == 0 || attempts > Self::MAX_ATTEMPTS {
            return Err(Error::invalid(format!(
                "{attempts} attempts are not between 1 and {}",
                Self::MAX_ATTEMPTS
            )));
        }
        self.attempts = attempts;
        Ok(self)
    }

    /// Sets the longest first pause and the longest pause at all.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the first is zero or longer than the longest.
    pub fn pauses(mut self, first: Duration, max: Duration) -> Result<Self> {
        if first.is_zero() || first > max {
            return Err(Error::invalid(format!(
                "the first pause {first:?} must be longer than zero and no longer than the longest, {max:?}"
            )));
        }
        (self.first, self.max) = (first, max);
        Ok(self)
    }

    /// Lets no attempt begin later than this after the first one.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for zero.
    pub fn total(mut self, total: Duration) -> Result<Self> {
        if total.is_zero() {
            return Err(Error::invalid(
                "a total of zero allows no second attempt; allow one attempt instead",
            ));
        }
        self.total = total;
        Ok(self)
    }

    fn longest_pause(&self, attempt: u32) -> Duration {
        let factor = 1u32.checked_shl(attempt - 1).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.max)
    }

    fn pause(&self, attempt: u32) -> Duration {
        let longest = self.longest_pause(attempt).as_nanos();
        let longest = u64::try_from(longest).unwrap_or(u64::MAX);
        Duration::from_nanos(rand::random_range(0..=longest))
    }
}

/// Repeats calls that failed for a reason that may pass ([`Error::is_retryable`]).
///
/// Nearly every verb may be sent again after its reply was lost; see *Repetition* at [`Backend`]. Two may not, and fail
/// with [`Effect::Unknown`] instead: a forced release without a token, which might hit the next holder, and a capacity
/// with an expected version, which would be refused for having succeeded before.
///
/// An error says [`Effect::Unknown`] if any of the attempts did, not only the last. Failures of single items of a
/// [`renew`](Backend::renew) are passed on, not repeated: whoever renews comes back for them anyway.
///
/// An attempt that got no answer may reach the store after a later one was refused. The lease it makes then is nobody's
/// and ends by its ttl, or with the [`withdraw`](Backend::withdraw) of whoever gives up.
#[derive(Debug)]
pub struct Retry<B> {
    inner: B,
    policy: RetryPolicy,
    clock: Arc<dyn Clock>,
}

/// Whether a request may follow one of its kind whose reply was lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Always,
    IfNothingHappened,
}

impl<B: Backend> Retry<B> {
    /// Repeats failed calls of `inner` by this policy, on the system's clock.
    pub fn new(inner: B, policy: RetryPolicy) -> Self {
        Self {
            inner,
            policy,
            clock: SystemClock::shared(),
        }
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

    async fn run<T, F: Future<Output = Result<T>>>(
        &self,
        repeat: Repeat,
        call: impl Fn() -> F,
    ) -> Result<T> {
        let last_start = self.clock.now().after(self.policy.total);
        let mut effect = Effect::None;
        let mut attempt = 1;
        loop {
            let error = match call().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if error.effect() == Effect::Unknown {
                effect = Effect::Unknown;
            }
            let repeatable = repeat == Repeat::Always || effect == Effect::None;
            let next = self.next_start(attempt);
            if !(error.is_retryable() && repeatable)
                || attempt >= self.policy.attempts
                || next > last_start
            {
                return Err(error.with_effect(effect));
            }
            self.clock.sleep_until(next).await;
            attempt += 1;
        }
    }

    fn next_start(&self, attempt: u32) -> Moment {
        self.clock.now().after(self.policy.pause(attempt))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: Backend> Backend for Retry<B> {
    fn describe(&self) -> &Description {
        self.inner.describe()
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        self.run(Repeat::Always, || self.inner.acquire(request))
            .await
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        self.run(Repeat::Always, || self.inner.renew(request)).await
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        let repeat = match request {
            Release::Force { token: None, .. } => Repeat::IfNothingHappened,
            _ => Repeat::Always,
        };
        self.run(repeat, || self.inner.release(request)).await
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        self.run(Repeat::Always, || self.inner.confirm(request))
            .await
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        self.run(Repeat::Always, || self.inner.withdraw(request))
            .await
    }

    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet> {
        let repeat = match request.expect_version {
            Some(_) => Repeat::IfNothingHappened,
            None => Repeat::Always,
        };
        self.run(repeat, || self.inner.set_capacity(request)).await
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        self.run(Repeat::Always, || self.inner.get(name)).await
    }

    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>> {
        self.run(Repeat::Always, || self.inner.list(request)).await
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        self.run(Repeat::Always, || self.inner.sweep(request)).await
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        self.run(Repeat::Always, || self.inner.watch(inbox, name))
            .await
    }
}
