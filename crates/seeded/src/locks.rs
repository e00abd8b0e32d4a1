//! Checks on the locks above the store, with a clock that moves when told to.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::FaultBackend;
use leasehold_conformance::fault::Faults;
use leasehold_core::memory::Memory;
use leasehold_core::{Backend, Effect, ErrorKind, Locks, ManualClock};

use crate::Check;

const TTL: Duration = Duration::from_secs(30);

pub(crate) fn checks() -> Vec<Check> {
    vec![
        check(
            "an old guard does not end the lease of the next holder",
            an_old_guard,
        ),
        check("tokens grow from one guard to the next", tokens_grow),
        check("a lost lease cannot be prolonged", no_revival),
        check(
            "a store that does not answer is not a lock that is taken",
            no_answer,
        ),
        check("a waiter that gives up lets the next one move up", move_up),
    ]
}

fn check<F: Future<Output = ()> + 'static>(name: &str, run: fn(World) -> F) -> Check {
    Check::new(format!("locks: {name}"), move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async { run(World::new()).await });
    })
}

struct World {
    clock: ManualClock,
    store: Arc<dyn Backend>,
    locks: Locks,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        let store: Arc<dyn Backend> = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
        let locks = manager(store.clone(), &clock);
        Self {
            clock,
            store,
            locks,
        }
    }
}

fn manager(store: Arc<dyn Backend>, clock: &ManualClock) -> Locks {
    let builder = Locks::new(store).namespace("orders").ttl(TTL);
    builder.clock(Arc::new(clock.clone())).build().unwrap()
}

/// Lets every task run until none has anything to do.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// S5.
async fn an_old_guard(world: World) {
    let old = world.locks.lock("1").acquire().await.unwrap();
    world.clock.advance(TTL);
    let new = world.locks.lock("1").acquire().await.unwrap();
    assert_eq!(old.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(world.locks.is_locked("1").await.unwrap());
    new.release().await.unwrap();
}

/// S3.
async fn tokens_grow(world: World) {
    let mut last = None;
    for _ in 0..3 {
        let guard = world.locks.lock("1").acquire().await.unwrap();
        assert!(last < Some(guard.token()));
        last = Some(guard.token());
        guard.release().await.unwrap();
    }
}

/// S6: a manager that runs on another clock than the store does not know that its lease is over, and asks.
async fn no_revival(world: World) {
    let late = ManualClock::new();
    let locks = manager(world.store.clone(), &late);
    let guard = locks.lock("1").acquire().await.unwrap();
    world.clock.advance(TTL);
    let error = guard.extend(TTL).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(!world.locks.is_locked("1").await.unwrap());
}

/// S8.
async fn no_answer(world: World) {
    let deaf = Faults {
        lost_reply: 1.0,
        ..Faults::NONE
    };
    let store = Arc::new(FaultBackend::new(world.store.clone(), deaf, 1));
    let locks = manager(store, &world.clock);
    let lock = locks.lock("1");
    for tried in [
        lock.try_acquire().await.map(drop),
        lock.acquire_within(Duration::ZERO).await.map(drop),
        lock.acquire().await.map(drop),
    ] {
        let error = tried.expect_err("a lock that was not acknowledged");
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Timeout, Effect::Unknown)
        );
    }
}

/// L2, L5.
async fn move_up(world: World) {
    let guard = world.locks.lock("1").acquire().await.unwrap();
    let wait = || {
        let lock = world.locks.lock("1");
        tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() })
    };
    let (first, second) = (wait(), wait());
    settle().await;
    first.abort();
    settle().await;
    guard.release().await.unwrap();
    settle().await;
    assert!(second.is_finished(), "the second waiter was never told");
}
