//! Locks on the memory store with a clock that moves when told to.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_core::lock::{CancellationToken, LostCause, RunError, Scope, State};
use leasehold_core::memory::Memory;
use leasehold_core::{Backend, Clock, ErrorKind, Locks, ManualClock};

fn world() -> (Locks, ManualClock, Arc<Memory>) {
    let clock = ManualClock::new();
    let store = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    let locks = Locks::new(store.clone() as Arc<dyn Backend>)
        .namespace("orders")
        .ttl(Duration::from_secs(30))
        .clock(Arc::new(clock.clone()))
        .build()
        .unwrap();
    (locks, clock, store)
}

/// Lets every task run until none has anything to do.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// T0-01, T0-10, T0-11, T2-01.
#[tokio::test]
async fn a_lock_is_taken_refused_released_and_taken_again() {
    let (locks, _, _) = world();
    let guard = locks.lock("1").try_acquire().await.unwrap().unwrap();
    assert!(locks.is_locked("1").await.unwrap());
    assert!(locks.lock("1").try_acquire().await.unwrap().is_none());
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(!locks.is_locked("1").await.unwrap());
    let again = locks.lock("1").try_acquire().await.unwrap().unwrap();
    assert!(again.token() > token);
}

/// T0-05, S0-06: unlocking after the lease is an error that says so.
#[tokio::test]
async fn releasing_after_expiry_says_that_exclusivity_may_have_been_broken() {
    let (locks, clock, _) = world();
    let guard = locks.lock("1").acquire().await.unwrap();
    clock.advance(31 * SECOND);
    assert!(guard.check().is_err());
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(error.lost_cause(), Some(&LostCause::Expired));
}

#[tokio::test]
async fn the_guard_is_lost_before_the_store_lets_go() {
    let (locks, clock, _) = world();
    let guard = locks.lock("1").acquire().await.unwrap();
    clock.advance(Duration::from_millis(28_199));
    assert_eq!(guard.state(), State::AtRisk);
    clock.advance(Duration::from_millis(1));
    assert_eq!(guard.state(), State::Lost(LostCause::Expired));
    assert!(
        locks.is_locked("1").await.unwrap(),
        "the store still holds it for a while"
    );
}

/// T0-13, T0-22.
#[tokio::test]
async fn a_waiter_gets_the_lock_when_it_is_released() {
    let (locks, _, _) = world();
    let guard = locks.lock("1").acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = locks.lock("1");
        async move { lock.acquire().await.unwrap().token() }
    });
    settle().await;
    assert_eq!(locks.waiting(), 1);
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(waiter.await.unwrap() > token);
    assert_eq!(locks.waiting(), 0);
}

/// T0-12: and says who has it.
#[tokio::test]
async fn a_wait_ends_at_its_deadline() {
    let (locks, clock, _) = world();
    let _guard = locks.lock("1").acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = locks.lock("1");
        async move { lock.acquire_within(Duration::from_millis(500)).await }
    });
    settle().await;
    clock.advance(Duration::from_millis(500));
    let error = waiter.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAcquired);
    assert!(error.to_string().contains("held by pid-"), "{error}");
    settle().await;
    assert!(locks.get("1").await.unwrap().unwrap().tickets.is_empty());
}

/// T0-09, L1: a dead holder's lock goes to the waiter when its lease is over.
#[tokio::test]
async fn a_waiter_gets_the_lock_when_its_lease_runs_out() {
    let (locks, clock, _) = world();
    locks.lock("1").acquire().await.unwrap().forget();
    let waiter = tokio::spawn({
        let lock = locks.lock("1");
        async move { lock.acquire().await.unwrap().token() }
    });
    for _ in 0..40 {
        settle().await;
        clock.advance(SECOND);
    }
    waiter.await.unwrap();
}

/// S2-06, pain 1: the body stops when the lock is lost.
#[tokio::test]
async fn a_body_is_dropped_when_the_lock_is_lost() {
    let (locks, clock, _) = world();
    let steps = Arc::new(AtomicUsize::new(0));
    let body = {
        let (lock, steps, clock) = (locks.lock("1"), steps.clone(), clock.clone());
        tokio::spawn(async move {
            lock.run::<(), _, _>(|_| async {
                loop {
                    clock.sleep_until(clock.now().after(SECOND)).await;
                    steps.fetch_add(1, Ordering::SeqCst);
                }
            })
            .await
        })
    };
    for _ in 0..40 {
        settle().await;
        clock.advance(SECOND);
    }
    assert!(matches!(
        body.await.unwrap(),
        Err(RunError::Lost {
            cause: LostCause::Expired,
            ..
        })
    ));
    assert_eq!(steps.load(Ordering::SeqCst), 28);
}

/// S2-05: renewal keeps the lock for as long as the body runs.
#[tokio::test]
async fn a_renewed_lock_outlives_its_ttl() {
    let (locks, clock, _) = world();
    let body = {
        let (lock, clock) = (locks.lock("1").renewing(), clock.clone());
        tokio::spawn(async move {
            lock.run(|held| async move {
                clock.sleep_until(clock.now().after(300 * SECOND)).await;
                held.check().unwrap();
                held.token()
            })
            .await
        })
    };
    for _ in 0..310 {
        settle().await;
        clock.advance(SECOND);
    }
    body.await.unwrap().unwrap();
    settle().await;
    assert!(!locks.is_locked("1").await.unwrap());
}

/// S14 of pains: a wedged holder is not renewed for ever.
#[tokio::test]
async fn max_hold_ends_a_renewed_lock() {
    let (locks, clock, _) = world();
    let guard = locks
        .lock("1")
        .renewing()
        .max_hold(100 * SECOND)
        .acquire()
        .await
        .unwrap();
    for _ in 0..99 {
        settle().await;
        clock.advance(SECOND);
    }
    guard.check().unwrap();
    clock.advance(SECOND);
    assert_eq!(guard.state(), State::Lost(LostCause::MaxHold));
}

/// T0-14, G-16.
#[tokio::test]
async fn a_forced_release_frees_the_lock_and_its_holder_learns_why() {
    let (locks, _, _) = world();
    let guard = locks.lock("1").acquire().await.unwrap();
    assert_eq!(
        locks
            .force_release("1", "stuck since noon")
            .await
            .unwrap()
            .len(),
        1
    );
    assert!(!locks.is_locked("1").await.unwrap());
    let error = guard.release().await.unwrap_err();
    assert!(
        matches!(error.lost_cause(), Some(LostCause::Forced { reason, .. }) if reason == "stuck since noon")
    );
    assert!(locks.force_release("1", " ").await.is_err());
}

#[tokio::test]
async fn dropping_a_guard_releases_in_the_background() {
    let (locks, _, _) = world();
    drop(locks.lock("1").acquire().await.unwrap());
    settle().await;
    assert!(!locks.is_locked("1").await.unwrap());
    assert_eq!(locks.held(), 0);
}

/// T0-15, S0-07, W0-02: counted over handles, by scope.
#[tokio::test]
async fn a_scope_takes_its_lock_again_and_releases_it_as_often() {
    let (locks, _, _) = world();
    let scope = Scope::new();
    let outer = locks.lock("1").scope(&scope).acquire().await.unwrap();
    let inner = locks.lock("1").scope(&scope).acquire().await.unwrap();
    assert_eq!((outer.token(), outer.depth()), (inner.token(), 2));
    assert!(locks.lock("1").is_held_by(&scope));
    assert!(!locks.lock("1").is_held_by(&Scope::new()));
    inner.release().await.unwrap();
    assert!(locks.is_locked("1").await.unwrap());
    outer.release().await.unwrap();
    assert!(!locks.is_locked("1").await.unwrap());
}

/// T0-19, W0-16.
#[tokio::test]
async fn a_wait_can_be_cancelled() {
    let (locks, _, _) = world();
    let _guard = locks.lock("1").acquire().await.unwrap();
    let cancel = CancellationToken::new();
    let waiter = tokio::spawn({
        let lock = locks.lock("1").cancelled_by(cancel.clone());
        async move { lock.acquire().await }
    });
    settle().await;
    cancel.cancel();
    assert_eq!(
        waiter.await.unwrap().unwrap_err().kind(),
        ErrorKind::Cancelled
    );
    settle().await;
    assert!(locks.get("1").await.unwrap().unwrap().tickets.is_empty());
}

/// S2-09, G-14.
#[tokio::test]
async fn several_names_are_taken_all_or_none() {
    let (locks, _, _) = world();
    let seat = locks.lock("seat").acquire().await.unwrap();
    assert!(
        locks
            .all(["payment", "seat"])
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    assert!(!locks.is_locked("payment").await.unwrap());
    let waiter = tokio::spawn({
        let both = locks.all(["payment", "seat"]);
        async move { both.acquire().await.unwrap() }
    });
    settle().await;
    seat.release().await.unwrap();
    let both = waiter.await.unwrap();
    assert!(both.token_of("seat").is_some() && both.token_of("payment").is_some());
    both.release().await.unwrap();
    assert!(!locks.is_locked("seat").await.unwrap() && !locks.is_locked("payment").await.unwrap());
}

/// S0-18: close touches nothing held; shutdown releases it.
#[tokio::test]
async fn close_leaves_locks_alone_and_shutdown_releases_them() {
    let (locks, _, _) = world();
    let guard = locks.lock("1").acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = locks.lock("1");
        async move { lock.acquire().await }
    });
    settle().await;
    locks.close();
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(
        locks.lock("2").try_acquire().await.unwrap_err().kind(),
        ErrorKind::Closed
    );
    guard.check().unwrap();
    locks.shutdown(SECOND).await.unwrap();
    assert_eq!(guard.state(), State::Lost(LostCause::ShutDown));
    assert!(!locks.is_locked("1").await.unwrap());
}

/// Pain 23: a lease goes to another process, once.
#[tokio::test]
async fn a_lock_can_be_handed_over_once() {
    let (locks, _, _) = world();
    let guard = locks.lock("1").acquire().await.unwrap();
    let token = guard.token();
    let text = guard.hand_over().unwrap().to_string();
    let handover = text.parse().unwrap();
    let adopted = locks.adopt(&handover).await.unwrap();
    assert_eq!(adopted.token(), token);
    assert_eq!(
        locks.adopt(&handover).await.unwrap_err().kind(),
        ErrorKind::Lost
    );
    adopted.release().await.unwrap();
}

/// G-15.
#[tokio::test]
async fn readers_share_and_a_writer_waits_for_them() {
    let (locks, _, _) = world();
    let one = locks.lock("1").shared().acquire().await.unwrap();
    let two = locks.lock("1").shared().acquire().await.unwrap();
    let writer = tokio::spawn({
        let lock = locks.lock("1");
        async move { lock.acquire().await.unwrap() }
    });
    settle().await;
    assert!(
        locks
            .lock("1")
            .shared()
            .try_acquire()
            .await
            .unwrap()
            .is_none(),
        "no barging past the writer"
    );
    one.release().await.unwrap();
    two.release().await.unwrap();
    writer.await.unwrap().release().await.unwrap();
}

/// S2-12.
#[tokio::test]
async fn a_semaphore_never_gives_more_than_it_has() {
    let (locks, _, _) = world();
    let gpu = locks.semaphore("gpu", 3);
    let two = gpu.clone().units(2).try_acquire().await.unwrap().unwrap();
    let one = gpu.try_acquire().await.unwrap().unwrap();
    assert!(gpu.try_acquire().await.unwrap().is_none());
    two.release().await.unwrap();
    assert!(gpu.clone().units(2).try_acquire().await.unwrap().is_some());
    one.release().await.unwrap();
    assert_eq!(
        gpu.units(4).try_acquire().await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

/// T0-16, T0-17, S0-10: bad input is named.
#[tokio::test]
async fn bad_input_gets_an_error_that_says_what_is_allowed() {
    let (locks, _, store) = world();
    let text = |error: leasehold_core::Error| error.to_string();
    assert!(text(locks.lock("").acquire().await.unwrap_err()).contains("key is empty"));
    assert!(
        text(
            locks
                .lock("1")
                .ttl(SECOND / 10)
                .acquire()
                .await
                .unwrap_err()
        )
        .contains("at least 200ms")
    );
    assert!(
        text(
            locks
                .lock("1")
                .ttl(Duration::MAX)
                .acquire()
                .await
                .unwrap_err()
        )
        .contains("366 days")
    );
    let million = (0..1_000_000).map(|i| i.to_string());
    assert!(text(locks.all(million).acquire().await.unwrap_err()).contains("1 to 64 names"));
    assert!(text(locks.all(Vec::<String>::new()).acquire().await.unwrap_err()).contains("none"));
    assert!(text(locks.all(["a", "a"]).acquire().await.unwrap_err()).contains("twice"));
    let build = |store: Arc<Memory>| Locks::new(store as Arc<dyn Backend>);
    assert!(text(build(store.clone()).build().unwrap_err()).contains("namespace is missing"));
    assert!(text(build(store).namespace("").build().unwrap_err()).contains("namespace is empty"));
}
