//! Taking a lock again, closing and shutting down.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod common_world;

use std::sync::Arc;

use leasehold_core::lock::{LostCause, RunError, Scope, State};
use leasehold_core::memory::Memory;
use leasehold_core::{Backend, Effect, ErrorKind, Locks, ManualClock};

use common_world::troubled::{SECOND, Trouble, World};
use common_world::{TTL, settle};

/// S0-07, G-15: a scope that reads does not write by taking the lock again.
#[tokio::test]
async fn a_shared_lock_is_not_taken_again_as_an_exclusive_one() {
    let world = World::new();
    let (ours, theirs) = (Scope::new(), Scope::new());
    let lock = |scope: &Scope| world.locks.lock("1").scope(scope);
    let mine = lock(&ours).shared().acquire().await.unwrap();
    let reader = lock(&theirs).shared().acquire().await.unwrap();
    let writer = lock(&ours).try_acquire().await;
    assert!(
        !matches!(writer, Ok(Some(_))),
        "an exclusive lock was given while another reader holds it"
    );
    reader.release().await.unwrap();
    mine.release().await.unwrap();
}

/// S0-07: nor are more units had than were taken.
#[tokio::test]
async fn taking_a_permit_again_does_not_give_more_than_was_taken() {
    let world = World::new();
    let scope = Scope::new();
    let gpu = world.locks.semaphore("gpu", 3);
    let one = gpu.clone().scope(&scope).acquire().await.unwrap();
    let rest = gpu.clone().units(2).acquire().await.unwrap();
    let more = gpu.clone().scope(&scope).units(3).try_acquire().await;
    assert!(
        !matches!(more, Ok(Some(_))),
        "three units were promised where one is held"
    );
    rest.release().await.unwrap();
    one.release().await.unwrap();
}

/// S0-07, S1-04: every name of a set is held, not only the first; taking one of them again must not wait for itself.
#[tokio::test]
async fn a_scope_does_not_wait_for_its_own_set_of_names() {
    let world = World::new();
    let scope = Scope::new();
    let both = world.locks.all(["a", "b"]).scope(&scope);
    let guard = both.acquire().await.unwrap();
    assert!(world.locks.lock("a").is_held_by(&scope));
    assert!(
        world.locks.lock("b").is_held_by(&scope),
        "the second name is held as well"
    );
    for key in ["a", "b"] {
        let again = world.locks.lock(key).scope(&scope);
        let error = tokio::select! {
            biased;
            answer = again.acquire_within(SECOND) => answer.map(drop).map_err(|error| error.kind()),
            () = settle() => panic!("{key}: it waits for itself"),
        };
        assert_eq!(error, Err(ErrorKind::InvalidInput), "{key}");
    }
    guard.release().await.unwrap();
}

/// The books count locks that are held, not views of them that somebody kept.
#[tokio::test]
async fn a_view_of_a_released_lock_is_not_counted_as_held() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    assert_eq!(world.locks.held(), 1);
    let view = guard.held();
    guard.release().await.unwrap();
    assert_eq!(view.state(), State::Released);
    assert_eq!(world.locks.held(), 0);
}

/// S0-18, S2-06: a body must not go on without the lock that shutdown gave back.
#[tokio::test]
async fn shutdown_stops_the_bodies_that_run_under_its_locks() {
    let world = World::new();
    let body = tokio::spawn({
        let lock = world.locks.lock("1");
        async move { lock.run(|_| std::future::pending::<()>()).await }
    });
    settle().await;
    world.locks.shutdown(SECOND).await.unwrap();
    settle().await;
    assert_eq!(world.grants("1").await, 0);
    assert!(
        body.is_finished(),
        "the body goes on although the lock is free"
    );
    assert!(matches!(body.await.unwrap(), Err(RunError::Lost { .. })));
}

/// S0-18: whoever waits when a manager shuts down leaves nothing behind either.
#[tokio::test]
async fn shutdown_waits_until_its_waiters_have_left_the_queue() {
    let world = World::new();
    let _guard = world.locks.lock("1").acquire().await.unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let lock = world.locks.lock("1");
            tokio::spawn(async move { lock.acquire().await.map(drop).map_err(|e| e.kind()) })
        })
        .collect();
    settle().await;
    world.locks.shutdown(SECOND).await.unwrap();
    assert_eq!(
        world.grants("1").await,
        0,
        "it went to a waiter of the same manager"
    );
    let record = world.store.inner.get(&world.name("1")).await.unwrap();
    assert!(record.what.is_none_or(|record| record.tickets.is_empty()));
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), Err(ErrorKind::Closed));
    }
}

/// S0-18: a closed manager takes no lock any more, also if one becomes free in the same moment.
#[tokio::test]
async fn a_waiter_gets_no_lock_from_a_manager_that_was_closed() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let lock = world.locks.lock("1");
            tokio::spawn(async move { lock.acquire().await.map(drop).map_err(|e| e.kind()) })
        })
        .collect();
    settle().await;
    world.locks.close();
    guard.release().await.unwrap();
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), Err(ErrorKind::Closed));
    }
    settle().await;
    assert_eq!(world.grants("1").await, 0);
}

/// S0-18: what is known of a lock after shutdown is that the shutdown ended it.
#[tokio::test]
async fn a_guard_that_outlives_its_manager_is_released_without_a_false_alarm() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    world.locks.shutdown(SECOND).await.unwrap();
    assert_eq!(guard.state(), State::Lost(LostCause::ShutDown));
    let text = guard.check().unwrap_err().to_string();
    assert!(!text.contains("never granted"), "{text}");
}

/// S0-18: a store that does not answer is reported, and shutdown ends nevertheless.
#[tokio::test]
async fn shutdown_ends_on_a_store_that_does_not_answer() {
    let world = World::new();
    world.store.always("withdraw", Trouble::Hangs);
    let _guard = world.locks.lock("1").acquire().await.unwrap();
    let shutdown = tokio::spawn({
        let locks = world.locks.clone();
        async move { locks.shutdown(SECOND).await }
    });
    world.pass(SECOND).await;
    assert!(shutdown.is_finished());
    let error = shutdown.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Timeout, Effect::Unknown)
    );
}

/// A guard that outlives its runtime leaves its lease to run out, and does not panic.
#[test]
fn a_guard_may_be_dropped_after_its_runtime() {
    let clock = ManualClock::new();
    let store = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    let build = || {
        Locks::new(store.clone() as Arc<dyn Backend>)
            .namespace("orders")
            .ttl(TTL)
            .clock(Arc::new(clock.clone()))
            .build()
            .unwrap()
    };
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    };
    let first = runtime();
    let (locks, dropped, told) = first.block_on(async {
        let locks = build();
        let dropped = locks.lock("dropped").renewing().acquire().await.unwrap();
        let told = locks.lock("told").acquire().await.unwrap();
        (locks, dropped, told)
    });
    drop(first);
    dropped.check().unwrap();
    drop(dropped);
    runtime().block_on(async {
        assert!(locks.is_locked("dropped").await.unwrap());
        told.release().await.unwrap();
        assert!(!locks.is_locked("told").await.unwrap());
        clock.advance(TTL);
        assert!(!locks.is_locked("dropped").await.unwrap());
        let fresh = build();
        fresh
            .lock("dropped")
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        locks.shutdown(SECOND).await.unwrap();
    });
}
