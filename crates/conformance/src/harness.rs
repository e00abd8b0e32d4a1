//! What the kit needs to know about a store, and the few things only its author can do to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::{Backend, Clock, MAX_NAMESPACE_BYTES, SystemClock};

/// Connects the kit to one store.
///
/// Only [`name`](Self::name) and [`connect`](Self::connect) must be written. The store is never wiped: every case
/// works in a namespace of its own, so the suite may run beside other users of the store.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// The word for this backend in reports and in `LEASEHOLD_REQUIRE`.
    fn name(&self) -> &str;

    /// A connection to the store under test.
    ///
    /// Called once per case, on the runtime of that case. All calls must reach the same store; a store that lives in
    /// this process returns the same value each time.
    async fn connect(&self) -> Result<Arc<dyn Backend>, Unavailable>;

    /// Whether time passes by itself.
    fn time(&self) -> Time {
        Time::Real
    }

    /// The clock by which the store's leases run out, or one that keeps step with it.
    fn clock(&self) -> Arc<dyn Clock> {
        SystemClock::shared()
    }

    /// Lets time pass for the store: sleeps, unless a virtual clock can be moved.
    async fn pass_time(&self, by: Duration) {
        let clock = self.clock();
        clock.sleep_until(clock.now().after(by)).await;
    }

    /// The shortest lease that surely outlasts a few calls. Cases that wait for an expiry use it.
    fn shortest_ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// How late the store may notice that a lease has run out.
    fn slack(&self) -> Duration {
        match self.time() {
            Time::Real => Duration::from_millis(250),
            Time::Virtual => Duration::ZERO,
        }
    }

    /// Sets back the wall clock that callers of the store see, where that can be done; says whether it was.
    fn step_wall_back(&self, _by: Duration) -> bool {
        false
    }

    /// Whether [`sever`](Self::sever) does anything.
    fn can_sever(&self) -> bool {
        false
    }

    /// Cuts the store off from its callers until the returned value is dropped, where that can be done.
    async fn sever(&self) -> Option<Severed> {
        None
    }

    /// How many bytes a namespace may have: fewer than usual behind a prefix.
    fn longest_namespace(&self) -> usize {
        MAX_NAMESPACE_BYTES
    }

    /// How hard the cases about contention may press.
    fn contention(&self) -> Contention {
        Contention::default()
    }
}

/// Whether time passes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// Leases run out by a clock that nobody controls. Cases sleep and leave room for delays.
    Real,
    /// Time moves only in [`Harness::pass_time`]. Cases run one after another and check to the millisecond.
    Virtual,
}

/// How hard the cases about contention may press.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contention {
    /// Tasks at the same time.
    pub tasks: usize,
    /// What each of them does.
    pub rounds: usize,
}

impl Default for Contention {
    fn default() -> Self {
        Self {
            tasks: 8,
            rounds: 25,
        }
    }
}

/// The store cannot be tested here and now: no server, no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    reason: String,
}

impl Unavailable {
    /// Says why.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Unavailable {}

/// A severed connection. It heals when this is dropped.
#[must_use = "the connection heals when this is dropped"]
pub struct Severed(Option<Box<dyn FnOnce() + Send>>);

impl Severed {
    /// A cut that `heal` undoes.
    pub fn new(heal: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(heal)))
    }
}

impl Drop for Severed {
    fn drop(&mut self) {
        if let Some(heal) = self.0.take() {
            heal();
        }
    }
}

impl fmt::Debug for Severed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Severed(..)")
    }
}
