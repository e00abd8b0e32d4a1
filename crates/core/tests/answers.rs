//! What callers learn when a store fails, hangs, is late or has ended their lease.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod common_world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_core::backend::{Acquire, BlockedBy};
use leasehold_core::lock::{LockEvent, LostCause, NotAcquired, RunError, Scope};
use leasehold_core::{Effect, ErrorKind};

use common_world::troubled::{BELIEVED, MS, SECOND, Trouble, World};
use common_world::{TTL, builder, settle};

/// S2-04: nobody knows, so the body does not run, and what may have been granted is given back.
#[tokio::test]
async fn an_acquisition_nobody_knows_the_end_of_is_given_back_in_the_background() {
    let world = World::new();
    world.store.plan("acquire", &[Trouble::ReplyLost]);
    world.store.plan("withdraw", &[Trouble::Unavailable; 3]);
    let ran = world
        .locks
        .lock("1")
        .run(|_| async { unreachable!("nobody knows whether the lock is ours") })
        .await;
    let Err::<(), _>(RunError::Unknown(error)) = ran else {
        panic!("{ran:?}");
    };
    assert_eq!(error.effect(), Effect::Unknown);
    settle().await;
    assert_eq!(world.grants("1").await, 1, "the store did grant it");
    world.pass(400 * MS).await;
    assert_eq!(world.grants("1").await, 0);
    assert_eq!(world.store.calls("withdraw"), 4);
    world.store.plan("acquire", &[Trouble::Unavailable]);
    let ran = world.locks.lock("1").run(|_| async {}).await;
    assert!(matches!(ran, Err(RunError::Failed(_))), "{ran:?}");
    settle().await;
    assert_eq!(
        world.store.calls("withdraw"),
        4,
        "certainly nothing to give back"
    );
}

/// A store that is down never looks like a lock that is taken, or free.
#[tokio::test]
async fn a_failing_store_is_an_error_and_not_a_refusal() {
    let world = World::new();
    world.store.always("acquire", Trouble::Unavailable);
    world.store.always("get", Trouble::Unavailable);
    let lock = world.locks.lock("1");
    let kinds = [
        lock.try_acquire().await.unwrap_err().kind(),
        lock.acquire().await.unwrap_err().kind(),
        lock.acquire_within(Duration::ZERO)
            .await
            .unwrap_err()
            .kind(),
        lock.acquire_within(SECOND).await.unwrap_err().kind(),
        world.locks.is_locked("1").await.unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::Unavailable; 5]);
}

/// A waiter that was told to wait shrugs off short trouble.
#[tokio::test]
async fn a_waiter_survives_a_store_that_stumbles() {
    let world = World::new();
    let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = world.locks.lock("1");
        async move { lock.acquire().await }
    });
    world.pass(SECOND).await;
    world.store.plan("acquire", &[Trouble::Unavailable; 4]);
    world.pass(20 * SECOND).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    world.pass(SECOND).await;
    assert!(waiter.is_finished());
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

/// A request the store cannot do is a failure in the books, not a wait that somebody gave up.
#[tokio::test]
async fn what_a_store_cannot_do_is_told_to_hooks_as_a_failure() {
    let failed = Arc::new(AtomicUsize::new(0));
    let count = failed.clone();
    let world = World::limited(
        |can| can.quantities = false,
        |builder| {
            builder.on_event(move |event| {
                if let LockEvent::NotAcquired { why, .. } = event {
                    assert!(matches!(why, NotAcquired::Failed(_)));
                    count.fetch_add(1, Ordering::SeqCst);
                }
            })
        },
    );
    let shared = world.locks.lock("1").shared();
    let kinds = [
        shared.acquire().await.unwrap_err().kind(),
        shared.try_acquire().await.unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::Unsupported; 2]);
    assert_eq!(failed.load(Ordering::SeqCst), 2);
    assert_eq!(world.store.calls("acquire"), 0);
}

/// Lock delay: only after a lease that ran out, and waiters sit it out.
#[tokio::test]
async fn a_lock_delay_follows_a_lease_that_ran_out_and_no_other() {
    let world = World::new();
    let lock = world.locks.lock("1").lock_delay(10 * SECOND);
    lock.acquire().await.unwrap().release().await.unwrap();
    lock.acquire().await.unwrap().forget();
    world.advance(TTL);
    let error = lock.acquire_within(Duration::ZERO).await.unwrap_err();
    let blocked = error.blocked().unwrap();
    assert_eq!(blocked.by, BlockedBy::LockDelay);
    assert!(error.to_string().contains("lock delay"), "{error}");
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap().held_for() }
    });
    world.pass(9_900 * MS).await;
    assert!(!waiter.is_finished());
    world.pass(500 * MS).await;
    assert!(waiter.is_finished());
    waiter.await.unwrap();
    let day_and_more = Acquire::MAX_LOCK_DELAY + MS;
    let lock = world.locks.lock("2").lock_delay(day_and_more);
    assert_eq!(
        lock.acquire().await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

/// G-15: each reader has a deadline of its own.
#[tokio::test]
async fn readers_lose_their_leases_one_by_one() {
    let world = World::new();
    let lock = world.locks.lock("1").shared();
    let first = lock.acquire().await.unwrap();
    world.advance(20 * SECOND);
    let second = lock.acquire().await.unwrap();
    assert_ne!(first.token(), second.token());
    world.advance(11 * SECOND);
    assert!(!first.is_held() && second.is_held());
    let writer = world.locks.lock("1");
    assert!(writer.try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    writer
        .try_acquire()
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// S2-12: permits come back however their holders end.
#[tokio::test]
async fn permits_come_back_by_release_drop_and_expiry() {
    let world = World::new();
    let gpu = world.locks.semaphore("gpu", 3);
    let released = gpu.acquire().await.unwrap();
    let dropped = gpu.acquire().await.unwrap();
    gpu.acquire().await.unwrap().forget();
    assert!(gpu.try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn({
        let gpu = gpu.clone().units(3);
        async move { gpu.acquire().await.unwrap().token() }
    });
    settle().await;
    released.release().await.unwrap();
    drop(dropped);
    settle().await;
    assert!(!waiter.is_finished());
    world.pass(TTL).await;
    assert!(waiter.is_finished());
    waiter.await.unwrap();
    let error = world.locks.semaphore("gpu", 0).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// S0-06, S1-05, S1-07: strictly, leniently, and not caring.
#[tokio::test]
async fn a_release_says_what_it_found_as_strictly_as_it_is_asked() {
    type End = &'static str;
    let ends: [(End, bool); 4] = [
        ("held", true),
        ("expired", false),
        ("forced", false),
        ("taken", false),
    ];
    for (end, ours) in ends {
        let world = World::new();
        let keys = ["strict", "lenient", "any"];
        let mut guards = Vec::new();
        for key in keys {
            guards.push(world.locks.lock(key).acquire().await.unwrap());
        }
        let mut thieves = Vec::new();
        match end {
            "expired" => world.advance(TTL),
            "taken" => thieves = world.take_over(&keys).await,
            "forced" => {
                for key in keys {
                    world.force(key, "enough").await;
                }
            }
            _ => {}
        }
        let [strict, lenient, any] = guards.try_into().unwrap();
        let answer = strict.release().await;
        assert_eq!(answer.is_ok(), ours, "{end}");
        if let Err(error) = answer {
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Lost, Effect::None)
            );
            let cause = error.lost_cause().unwrap();
            assert!(match end {
                "expired" => *cause == LostCause::Expired,
                "forced" => matches!(cause, LostCause::Forced { .. }),
                _ => matches!(cause, LostCause::TakenOver { .. }),
            });
        }
        assert_eq!(lenient.release_if_held().await.unwrap(), ours, "{end}");
        any.release_any().await.unwrap();
        for thief in thieves {
            thief.release().await.unwrap();
        }
    }
}

/// S2-04: trouble with a release is told, and the background goes on until the store hears it.
#[tokio::test]
async fn a_failed_release_is_retried_in_the_background() {
    for (n, trouble) in [Trouble::Unavailable, Trouble::ReplyLost]
        .into_iter()
        .enumerate()
    {
        let world = World::new();
        world.store.plan("release", &[trouble]);
        world.store.plan("withdraw", &[trouble; 3]);
        let guard = world.locks.lock("1").acquire().await.unwrap();
        let error = guard.release().await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert_eq!(world.grants("1").await, 1 - n);
        world.pass(450 * MS).await;
        assert_eq!(world.grants("1").await, 0);
        assert_eq!(world.store.calls("withdraw"), 4);
    }
}

/// A background release gives up when the lease must be over by itself.
#[tokio::test]
async fn a_background_release_does_not_go_on_for_ever() {
    let world = World::new();
    world.store.always("withdraw", Trouble::Unavailable);
    drop(world.locks.lock("1").ttl(SECOND).acquire().await.unwrap());
    world.pass(3 * SECOND).await;
    let calls = world.store.calls("withdraw");
    world.pass(3 * SECOND).await;
    assert_eq!(world.store.calls("withdraw"), calls);
    assert_eq!(world.grants("1").await, 0);
}

/// S2-04: value and error of the body come back as they are, also if the release fails.
#[tokio::test]
async fn a_body_keeps_its_value_and_its_error() {
    let world = World::new();
    let lock = world.locks.lock("1");
    assert_eq!(lock.run(|held| async move { held.token() }).await.ok(), {
        let record = world.locks.get("1").await.unwrap();
        record.map(|record| record.last_token)
    });
    let result = lock.run(|_| async { Err::<(), _>("no money") }).await;
    assert_eq!(result.unwrap(), Err("no money"));
    world.store.plan("release", &[Trouble::Unavailable]);
    let result = lock.run(|_| async { Err::<(), _>("no money") }).await;
    assert_eq!(result.unwrap(), Err("no money"));
    settle().await;
    assert_eq!(world.grants("1").await, 0);
    let held = lock.acquire().await.unwrap();
    assert_eq!(lock.try_run(|_| async {}).await.unwrap(), None);
    let late = lock.run_within(Duration::ZERO, |_| async {}).await;
    assert!(matches!(late, Err(RunError::NotAcquired(_))));
    held.release().await.unwrap();
}

/// S2-04: a body that panics leaves no lock behind.
#[tokio::test]
async fn a_body_that_panics_gives_the_lock_back() {
    let world = World::new();
    let lock = world.locks.lock("1");
    let body =
        tokio::spawn(async move { lock.run::<(), _, _>(|_| async { panic!("as told") }).await });
    assert!(body.await.unwrap_err().is_panic());
    settle().await;
    assert_eq!(world.grants("1").await, 0);
    assert_eq!(world.locks.held(), 0);
}

/// Pain 23: a lease goes from one manager to another, keeps its token, and is looked after there.
#[tokio::test]
async fn a_lease_is_adopted_by_another_manager() {
    let world = World::new();
    let heirs = builder(&world.store, &world.clock)
        .namespace("elsewhere")
        .owner("heir")
        .renewing()
        .build()
        .unwrap();
    let guard = world.locks.all(["a", "b"]).acquire().await.unwrap();
    let tokens: Vec<_> = guard
        .tokens()
        .map(|(name, token)| (name.clone(), token))
        .collect();
    let text = guard.hand_over().unwrap().to_string();
    assert_eq!(world.locks.held(), 0);
    world.advance(20 * SECOND);
    let adopted = heirs.adopt(&text.parse().unwrap()).await.unwrap();
    let kept: Vec<_> = adopted
        .tokens()
        .map(|(name, token)| (name.clone(), token))
        .collect();
    assert_eq!(kept, tokens);
    assert_eq!(adopted.remaining(), BELIEVED);
    assert_eq!(
        world
            .locks
            .holder("a")
            .await
            .unwrap()
            .unwrap()
            .owner
            .as_str(),
        "heir"
    );
    world.pass(60 * SECOND).await;
    adopted.check().unwrap();
    let error = world.locks.adopt(&text.parse().unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    adopted.release().await.unwrap();
    assert_eq!(world.grants("a").await + world.grants("b").await, 0);
}

/// Adoption of several names is all or nothing, and what has run out cannot be adopted.
#[tokio::test]
async fn a_handover_of_which_a_part_is_lost_is_not_adopted() {
    let world = World::new();
    let guard = world.locks.all(["a", "b"]).acquire().await.unwrap();
    let handover = guard.hand_over().unwrap();
    world.force("b", "enough").await;
    let error = world.other().adopt(&handover).await.unwrap_err();
    assert!(
        matches!(error.lost_cause(), Some(LostCause::Forced { .. })),
        "{error}"
    );
    settle().await;
    assert_eq!(world.grants("a").await, 0, "the other half was given back");
    let guard = world.locks.lock("c").acquire().await.unwrap();
    let handover = guard.hand_over().unwrap();
    world.advance(TTL);
    let error = world.other().adopt(&handover).await.unwrap_err();
    assert_eq!(error.lost_cause(), Some(&LostCause::Expired));
    let lost = world.locks.lock("c").acquire().await.unwrap();
    world.clock.advance(TTL);
    let error = lost.hand_over().unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Lost,
        "nothing is left to hand over"
    );
    let lock = world.locks.lock("d").scope(&Scope::new());
    let (outer, inner) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
    let error = inner.hand_over().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(outer.depth(), 1);
    outer.release().await.unwrap();
}

/// A store that leaves answers out is broken, and what it did not answer is never taken for done: an empty grant is not
/// held, an unanswered release not released, an unanswered force not "free".
#[tokio::test]
async fn what_a_store_leaves_out_is_never_taken_for_done() {
    let world = World::new();
    world.store.plan("acquire", &[Trouble::LeftOut]);
    let error = world.locks.lock("1").try_acquire().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Internal, Effect::Unknown)
    );
    settle().await;
    assert_eq!(world.grants("1").await, 0, "what was granted is given back");

    let guard = world.locks.lock("1").acquire().await.unwrap();
    world.store.plan("release", &[Trouble::LeftOut]);
    assert_eq!(
        guard.release().await.unwrap_err().kind(),
        ErrorKind::Internal
    );

    let guard = world.locks.lock("2").acquire().await.unwrap();
    world.store.plan("renew", &[Trouble::LeftOut]);
    assert_eq!(
        guard.extend(TTL).await.unwrap_err().kind(),
        ErrorKind::Internal
    );
    guard.check().unwrap();
    world.store.plan("release", &[Trouble::LeftOut]);
    let forced = world.locks.force_release("2", "stuck").await;
    assert_eq!(forced.unwrap_err().kind(), ErrorKind::Internal);
}

/// S15: a withdrawal the store never answers is not waited for after the lease is over anyway.
#[tokio::test]
async fn a_withdrawal_that_hangs_is_given_up_when_the_lease_is_over() {
    let world = World::new();
    world.store.always("withdraw", Trouble::Hangs);
    drop(world.locks.lock("1").acquire().await.unwrap());
    settle().await;
    assert_eq!(world.store.calls("withdraw"), 1);
    let asleep = world.clock.sleepers();
    world.pass(2 * TTL + SECOND).await;
    assert!(world.clock.sleepers() < asleep, "it is still waited for");
    assert_eq!(world.store.calls("withdraw"), 1);
}
