//! What the tests of the lock layer on a manual clock share.

#[allow(dead_code, reason = "not every test binary needs a store in trouble")]
pub(crate) mod troubled;

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::lock::LocksBuilder;
use leasehold_core::{Backend, Locks, ManualClock};

/// The ttl of these tests.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// Locks in `orders` that sweep nothing by themselves.
pub(crate) fn builder<B: Backend>(store: &Arc<B>, clock: &ManualClock) -> LocksBuilder {
    Locks::new(store.clone() as Arc<dyn Backend>)
        .namespace("orders")
        .ttl(TTL)
        .sweep_every(None)
        .clock(Arc::new(clock.clone()))
}

/// Lets every task run until none has anything to do.
pub(crate) async fn settle() {
    for _ in 0..30 {
        tokio::task::yield_now().await;
    }
}

/// Lets time pass in steps of a tenth of a second, with everybody taking part.
#[allow(dead_code, reason = "not every test binary passes time this way")]
pub(crate) async fn pass(clock: &ManualClock, time: Duration) {
    let step = Duration::from_millis(100);
    settle().await;
    for _ in 0..time.as_millis() / step.as_millis() {
        clock.advance(step);
        settle().await;
    }
}
