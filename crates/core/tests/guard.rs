//! What a guard may be believed to hold, and for how long.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod common_world;

use std::time::Duration;

use leasehold_core::backend::{Release, Released};
use leasehold_core::lock::{LostCause, MIN_LOCK_TTL, RunError, State};
use leasehold_core::{Backend, Effect, Error, ErrorKind, Holder, Token, Ttl};

use common_world::troubled::{BELIEVED, MS, SECOND, Trouble, World};
use common_world::{TTL, builder, settle};

fn believed(ttl: Duration) -> Duration {
    ttl - ttl / 100 - (50 * MS).max(ttl / 20)
}

/// T0-02, T0-03, T0-04, T0-06, S0-09.
#[tokio::test]
async fn a_guard_knows_its_name_namespace_ttl_and_remaining_time() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    assert_eq!(guard.name().key(), "1");
    assert_eq!(guard.name().namespace(), "orders");
    assert_eq!(world.locks.namespace(), Some("orders"));
    assert_eq!(guard.ttl().as_duration(), TTL);
    assert_eq!(world.locks.ttl(), TTL);
    assert!(guard.remaining() > Duration::ZERO && guard.remaining() <= TTL);
    let record = world.locks.get("1").await.unwrap().unwrap();
    assert_eq!(guard.expires_at(), record.grants[0].expires_at);
    assert_eq!(guard.token(), record.grants[0].token);
    world.advance(SECOND);
    assert_eq!(guard.held_for(), SECOND);
}

/// T0-20, S0-02.
#[tokio::test]
async fn keys_and_namespaces_are_independent() {
    let world = World::new();
    let billing = world.locks.in_namespace("billing").unwrap();
    let one = world.locks.lock("1").try_acquire().await.unwrap().unwrap();
    let two = world.locks.lock("2").try_acquire().await.unwrap().unwrap();
    let other = billing.lock("1").try_acquire().await.unwrap().unwrap();
    one.release().await.unwrap();
    assert!(world.locks.is_locked("2").await.unwrap());
    assert!(billing.is_locked("1").await.unwrap());
    two.check().unwrap();
    other.check().unwrap();
}

/// T0-21: nobody ends what was never theirs.
#[tokio::test]
async fn a_release_by_somebody_who_never_held_it_changes_nothing() {
    let world = World::new();
    let request = |token| Release::grant(world.name("1"), Holder::random(), Token::new(token));
    let answers = world.store.release(&request(1)).await.unwrap();
    assert!(matches!(answers[..], [Released::NotHeld(_)]));
    assert!(
        world
            .locks
            .force_release("1", "not held at all")
            .await
            .unwrap()
            .is_empty()
    );
    let guard = world.locks.lock("1").acquire().await.unwrap();
    let answers = world.store.release(&request(guard.token().get())).await;
    assert!(matches!(answers.unwrap()[..], [Released::NotHeld(_)]));
    guard.release().await.unwrap();
}

/// D = t0 + ttl·0.99 − max(50 ms, ttl/20), to the nanosecond.
#[tokio::test]
async fn a_guard_is_believed_in_up_to_its_exact_deadline() {
    let world = World::new();
    for ttl in
        [200, 999, 1_000, 1_001, 30_000, 3_600_000, 31_622_400_000].map(Duration::from_millis)
    {
        let guard = world.locks.lock("1").ttl(ttl).acquire().await.unwrap();
        assert_eq!(guard.remaining(), believed(ttl), "{ttl:?}");
        world.clock.advance(believed(ttl) - Duration::from_nanos(1));
        guard.check().unwrap();
        assert_eq!(guard.remaining(), Duration::from_nanos(1));
        world.clock.advance(Duration::from_nanos(1));
        assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
        assert!(!guard.is_held());
        assert_eq!(guard.remaining(), Duration::ZERO);
        assert_eq!(guard.state(), State::Lost(LostCause::Expired), "{ttl:?}");
        guard.release_any().await.unwrap();
    }
    assert_eq!(believed(TTL), BELIEVED);
}

#[tokio::test]
async fn a_guard_is_at_risk_for_the_last_tenth_of_its_ttl() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    world.clock.advance(BELIEVED - TTL / 10 - MS);
    assert_eq!(guard.state(), State::Held);
    world.clock.advance(MS);
    assert_eq!(guard.state(), State::AtRisk);
    guard.check().unwrap();
    guard.extend(TTL).await.unwrap();
    assert_eq!(guard.state(), State::Held);
    let held = guard.held();
    guard.release().await.unwrap();
    assert_eq!(held.state(), State::Released);
    assert!(held.check().is_err());
}

/// F8: the round trip counts against the holder.
#[tokio::test]
async fn the_time_the_store_took_is_not_counted_twice() {
    let world = World::new();
    world.store.plan("acquire", &[Trouble::Late(5 * SECOND)]);
    let guard = world.locks.lock("1").acquire().await.unwrap();
    assert_eq!(guard.remaining(), BELIEVED - 5 * SECOND);
    world.store.plan("renew", &[Trouble::Late(3 * SECOND)]);
    guard.extend(TTL).await.unwrap();
    assert_eq!(guard.remaining(), BELIEVED - 3 * SECOND);
}

/// F8: no grant is ever returned already past its deadline, and it is given back.
#[tokio::test]
async fn a_grant_that_comes_too_late_is_not_returned_and_given_back() {
    let world = World::new();
    for late in [BELIEVED, TTL, TTL * 10] {
        let calls = world.store.calls("withdraw");
        world.store.plan("acquire", &[Trouble::Late(late); 3]);
        let lock = world.locks.lock("1");
        let tried = lock.try_acquire().await.unwrap_err();
        assert_eq!(
            (tried.kind(), tried.effect()),
            (ErrorKind::Timeout, Effect::Unknown)
        );
        settle().await;
        assert_eq!(world.grants("1").await, 0, "late by {late:?}");
        assert_eq!(lock.acquire().await.unwrap_err().kind(), ErrorKind::Timeout);
        settle().await;
        assert_eq!(world.grants("1").await, 0, "late by {late:?}");
        let ran = lock.run(|_| async { unreachable!("the lock was never had") });
        assert!(matches!(ran.await, Err::<(), _>(RunError::Unknown(_))));
        settle().await;
        assert_eq!(world.grants("1").await, 0, "late by {late:?}");
        assert_eq!(world.store.calls("withdraw"), calls + 3);
    }
    world.store.plan("acquire", &[Trouble::Late(BELIEVED - MS)]);
    let guard = world.locks.lock("1").acquire().await.unwrap();
    assert_eq!(guard.remaining(), MS);
}

/// F8, for those who take a lease over.
#[tokio::test]
async fn an_adoption_that_comes_too_late_is_not_returned() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    let handover = guard.hand_over().unwrap();
    world.store.plan("renew", &[Trouble::Late(TTL)]);
    let adopted = world.other().adopt(&handover).await;
    assert!(adopted.is_err(), "a dead guard was returned: {adopted:?}");
}

/// F3, F15: a suspended machine wakes up long after its lease, and the first look tells.
#[tokio::test]
async fn the_first_check_after_a_long_sleep_is_false() {
    for renewing in [false, true] {
        let world = World::new();
        let lock = world.locks.lock("1");
        let lock = if renewing { lock.renewing() } else { lock };
        let guard = lock.acquire().await.unwrap();
        settle().await;
        world.advance(TTL * 10);
        assert!(!guard.is_held());
        assert_eq!(guard.lost().await, LostCause::Expired);
        let thief = world.other().lock("1").try_acquire().await.unwrap();
        settle().await;
        assert!(!guard.is_held(), "a late renewal brought it back");
        thief.unwrap().check().unwrap();
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    }
}

/// S2-06: and the body of a run is told at its deadline, neither before nor after.
#[tokio::test]
async fn lost_resolves_at_the_deadline() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    let held = guard.held();
    let told = tokio::spawn(async move { held.lost().await });
    settle().await;
    world.advance(BELIEVED - MS);
    settle().await;
    assert!(!told.is_finished());
    world.advance(MS);
    settle().await;
    assert!(told.is_finished());
    assert_eq!(told.await.unwrap(), LostCause::Expired);
    drop(guard);
}

/// S2-06: the loss came first, so whoever watches must hear of it, also if the guard goes at once.
#[tokio::test]
async fn whoever_waits_for_a_loss_hears_of_it_although_the_guard_is_dropped_right_after() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    let held = guard.held();
    let told = tokio::spawn({
        let held = held.clone();
        async move { held.lost().await }
    });
    settle().await;
    world.advance(BELIEVED);
    assert!(!guard.is_held());
    drop(guard);
    settle().await;
    assert_eq!(held.state(), State::Lost(LostCause::Expired));
    assert!(told.is_finished(), "the loss was forgotten");
}

/// S1-08: a failed renewal is not a loss.
#[tokio::test]
async fn failed_renewals_put_a_lock_at_risk_and_the_next_good_one_takes_it_back() {
    for trouble in [Trouble::Unavailable, Trouble::ReplyLost, Trouble::Hangs] {
        let world = World::new();
        world.store.plan("renew", &[trouble; 2]);
        let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
        let token = guard.token();
        let seen = tokio::spawn({
            let held = guard.held();
            async move {
                let first = held.state_after(&State::Held).await;
                (first.clone(), held.state_after(&first).await)
            }
        });
        world.pass(9 * SECOND).await;
        assert_eq!(guard.state(), State::Held);
        world.pass(16 * SECOND).await;
        let (first, second) = seen.await.unwrap();
        assert_eq!((first, second), (State::AtRisk, State::Held), "{trouble:?}");
        world.pass(100 * SECOND).await;
        assert_eq!(guard.state(), State::Held, "{trouble:?}");
        assert_eq!(guard.token(), token);
        assert_eq!(world.grants("1").await, 1);
        guard.release().await.unwrap();
    }
}

/// F1, F6: errors in renewal do not end it, and a store that is gone costs the lock by the deadline.
#[tokio::test]
async fn a_store_that_never_answers_a_renewal_costs_the_lock_at_its_deadline() {
    for trouble in [Trouble::Unavailable, Trouble::Hangs] {
        let world = World::new();
        let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
        world.pass(15 * SECOND).await;
        assert_eq!(guard.state(), State::Held);
        let left = guard.remaining();
        world.store.always("renew", trouble);
        let held = guard.held();
        let told = tokio::spawn(async move { held.lost().await });
        world.pass(left - 50 * MS).await;
        assert_eq!(guard.state(), State::AtRisk, "{trouble:?}");
        assert!(!told.is_finished());
        world.pass(50 * MS).await;
        assert!(told.is_finished(), "{trouble:?}");
        assert_eq!(told.await.unwrap(), LostCause::Expired);
        assert!(world.store.calls("renew") > 3, "it went on trying");
    }
}

/// S1-05: "taken over", "ended by force" and "run out" are different losses.
#[tokio::test]
async fn a_renewal_that_is_refused_says_how_the_lock_was_lost() {
    let world = World::new();
    let lock = |key: &str| world.locks.lock(key).renewing();
    let taken = lock("taken").acquire().await.unwrap();
    let expired = lock("expired").acquire().await.unwrap();
    let thieves = world.take_over(&["taken"]).await;
    let forced = lock("forced").acquire().await.unwrap();
    world.force("forced", "stuck since noon").await;
    world.pass(10 * SECOND).await;
    let LostCause::Forced { by, reason } = forced.lost().await else {
        panic!("{:?}", forced.state());
    };
    assert_eq!((by.as_str(), reason.as_str()), ("them", "stuck since noon"));
    let LostCause::TakenOver { by } = taken.lost().await else {
        panic!("{:?}", taken.state());
    };
    assert_eq!((by.owner.as_str(), by.token), ("them", thieves[0].token()));
    assert_eq!(expired.lost().await, LostCause::Expired);
    for guard in [forced, taken, expired] {
        assert_eq!(guard.remaining(), Duration::ZERO);
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    }
}

/// S2-05: renewal goes on as long as the guard is there, and not longer.
#[tokio::test]
async fn renewal_ends_with_its_guard() {
    let world = World::new();
    let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
    world.pass(65 * SECOND).await;
    let renewals = world.store.calls("renew");
    assert!((6..=8).contains(&renewals), "{renewals}");
    guard.forget();
    world.pass(31 * SECOND).await;
    assert_eq!(world.store.calls("renew"), renewals);
    assert_eq!(world.grants("1").await, 0);
}

#[tokio::test]
async fn max_hold_caps_renewal_and_extension() {
    let world = World::with(|builder| builder.max_hold(40 * SECOND));
    let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
    world.pass(39 * SECOND).await;
    guard.extend(100 * SECOND).await.unwrap();
    assert_eq!(guard.remaining(), SECOND);
    let held = guard.held();
    let told = tokio::spawn(async move { held.lost().await });
    world.pass(SECOND).await;
    assert!(told.is_finished());
    assert_eq!(told.await.unwrap(), LostCause::MaxHold);
    assert_eq!(guard.state(), State::Lost(LostCause::MaxHold));
    guard.release_any().await.unwrap();
    assert_eq!(
        world.grants("1").await,
        0,
        "what was still there was given back"
    );
}

/// S0-10: an option that makes every lock useless is refused, on a lock and on a manager.
#[tokio::test]
async fn a_longest_hold_of_nothing_is_refused() {
    let world = World::new();
    let lock = world.locks.lock("1").max_hold(Duration::ZERO);
    assert_eq!(
        lock.acquire().await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let built = builder(&world.store, &world.clock)
        .max_hold(Duration::ZERO)
        .build();
    assert_eq!(
        built.map(|_| ()).map_err(|error| error.kind()),
        Err(ErrorKind::InvalidInput)
    );
}

/// S0-10, S0-16: a sweep without a pause would leave the runtime nothing else to do.
#[tokio::test]
async fn sweeping_without_a_pause_is_refused() {
    let world = World::new();
    let built = builder(&world.store, &world.clock)
        .sweep_every(Some(Duration::ZERO))
        .build();
    assert_eq!(
        built.map(|_| ()).map_err(|error| error.kind()),
        Err(ErrorKind::InvalidInput)
    );
}

/// S2-03, S2-10.
#[tokio::test]
async fn extend_prolongs_and_never_shortens() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    guard.extend(60 * SECOND).await.unwrap();
    assert_eq!(guard.remaining(), believed(60 * SECOND));
    guard.extend(SECOND).await.unwrap();
    assert_eq!(guard.remaining(), believed(60 * SECOND));
    let error = guard.extend(MIN_LOCK_TTL - MS).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    world.store.plan("renew", &[Trouble::Unavailable]);
    let error = guard.extend(90 * SECOND).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(guard.remaining(), believed(60 * SECOND));
    guard.check().unwrap();
    world.force("1", "enough").await;
    let error = guard.extend(90 * SECOND).await.unwrap_err();
    assert!(matches!(error.lost_cause(), Some(LostCause::Forced { .. })));
    assert!(!guard.is_held());
    let calls = world.store.calls("renew");
    assert!(guard.extend(TTL).await.is_err());
    assert_eq!(
        world.store.calls("renew"),
        calls,
        "nothing is left to ask for"
    );
}

/// A backend is never asked for what it said it cannot do.
#[tokio::test]
async fn a_ttl_beyond_what_the_store_can_do_never_reaches_it() {
    let world = World::limited(
        |can| can.max_ttl = Ttl::new(60 * SECOND).unwrap(),
        |builder| builder,
    );
    let long = world.locks.lock("1").ttl(61 * SECOND).acquire().await;
    assert_eq!(long.unwrap_err().kind(), ErrorKind::InvalidInput);
    let guard = world.locks.lock("1").acquire().await.unwrap();
    assert!(guard.extend(61 * SECOND).await.is_err());
    guard.release().await.unwrap();
    let kept = world.locks.idempotent("2").keep_for(61 * SECOND);
    let answer = kept.run(|_| async { Ok::<_, Error>("done".to_owned()) });
    assert!(answer.await.is_err());
    assert_eq!(world.store.excesses(), Vec::<String>::new());
}
