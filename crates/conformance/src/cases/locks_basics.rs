//! Locks: taking, asking about and letting go.

use std::time::Duration;

use leasehold_core::{ErrorKind, Locks};

use crate::case::{Case, case};
use crate::scene::Scene;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            acquiring_and_releasing_toggles_is_locked,
            ["T0-01", "S0-04", "S0-09"]
        ),
        case!(
            a_guard_says_what_it_holds,
            ["T0-02", "T0-03", "S0-09", "S0-12"]
        ),
        case!(a_lock_lasts_as_long_as_its_manager_says, ["T0-04", "S0-05"]),
        case!(
            a_ttl_of_its_own_goes_before_that_of_the_manager,
            ["S2-10", "S0-05"]
        ),
        case!(a_lock_lasts_a_minute_if_nobody_says_otherwise, ["S0-05"]),
        case!(
            what_remains_is_more_than_nothing_and_at_most_the_ttl,
            ["T0-06", "S0-09", "W0-10"]
        ),
        case!(a_lock_that_is_free_is_taken_by_a_try, ["T0-10", "S0-04"]),
        case!(
            a_lock_that_is_held_refuses_a_try_until_it_is_released,
            ["T0-07", "T0-08", "T0-11", "S2-01"]
        ),
        case!(
            all_handles_and_managers_of_one_key_share_its_lock,
            ["S0-03", "S0-02", "S0-08"]
        ),
        case!(keys_do_not_know_each_other, ["T0-20"]),
        case!(namespaces_do_not_know_each_other, ["S0-02", "S1-06"]),
        case!(
            a_manager_without_a_namespace_takes_one_per_call,
            ["S1-01", "S0-10"]
        ),
        case!(
            wrong_input_is_refused_before_the_store_is_asked,
            ["T0-17", "S0-10", "S0-11"]
        ),
        case!(
            managers_of_other_settings_live_side_by_side,
            ["S1-06", "S0-02"]
        ),
    ]
}

async fn acquiring_and_releasing_toggles_is_locked(s: Scene) {
    let locks = s.locks();
    assert!(!locks.is_locked("k").await.unwrap());
    let guard = locks.lock("k").acquire().await.unwrap();
    assert!(locks.is_locked("k").await.unwrap());
    guard.check().unwrap();
    guard.release().await.unwrap();
    assert!(!locks.is_locked("k").await.unwrap());
    assert_eq!((locks.held(), locks.waiting()), (0, 0));
}

async fn a_guard_says_what_it_holds(s: Scene) {
    let locks = s.manager(|builder| builder.owner("somebody"));
    assert_eq!(locks.namespace(), Some(s.namespace()));
    let guard = locks.lock("k").acquire().await.unwrap();
    assert_eq!(guard.name(), &s.name("k"));
    assert_eq!(guard.name().encoded(), s.name("k").encoded());
    let holder = locks.holder("k").await.unwrap().expect("it is held");
    assert_eq!(
        (holder.owner.as_str(), holder.token),
        ("somebody", guard.token())
    );
    guard.release().await.unwrap();
    assert_eq!(locks.holder("k").await.unwrap(), None);
}

async fn a_lock_lasts_as_long_as_its_manager_says(s: Scene) {
    let ttl = s.brief_lock();
    let locks = s.manager(|builder| builder.ttl(ttl));
    assert_eq!(locks.ttl(), ttl);
    let guard = locks.lock("k").acquire().await.unwrap();
    assert_eq!(guard.ttl().as_duration(), ttl);
    let holder = locks.holder("k").await.unwrap().expect("it is held");
    s.assert_ttl(holder.expires_at.since(holder.acquired_at), guard.ttl());
}

async fn a_ttl_of_its_own_goes_before_that_of_the_manager(s: Scene) {
    let locks = s.locks();
    let ttl = s.brief_lock();
    let guard = locks.lock("k").ttl(ttl).acquire().await.unwrap();
    assert_eq!(guard.ttl().as_duration(), ttl);
    let usual = locks.lock("usual").acquire().await.unwrap();
    assert_eq!(usual.ttl(), s.long());
    s.outlive_brief_lock().await;
    assert!(!locks.is_locked("k").await.unwrap());
    assert!(locks.is_locked("usual").await.unwrap());
}

async fn a_lock_lasts_a_minute_if_nobody_says_otherwise(s: Scene) {
    let locks = Locks::new(s.backend().clone()).namespace(s.namespace());
    assert_eq!(locks.build().unwrap().ttl(), Duration::from_secs(60));
}

async fn what_remains_is_more_than_nothing_and_at_most_the_ttl(s: Scene) {
    let guard = s.locks().lock("k").acquire().await.unwrap();
    let held = guard.held();
    let before = held.remaining();
    assert!(!before.is_zero() && before <= s.long().as_duration());
    s.pass(Duration::from_millis(100)).await;
    assert!(held.remaining() < before);
    guard.release().await.unwrap();
    assert!(held.remaining().is_zero());
}

async fn a_lock_that_is_free_is_taken_by_a_try(s: Scene) {
    let guard = s.locks().lock("k").try_acquire().await.unwrap();
    guard.expect("it was free").release().await.unwrap();
}

async fn a_lock_that_is_held_refuses_a_try_until_it_is_released(s: Scene) {
    let locks = s.locks();
    let guard = locks.lock("k").acquire().await.unwrap();
    for _ in 0..3 {
        assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
    }
    guard.release().await.unwrap();
    assert!(locks.lock("k").try_acquire().await.unwrap().is_some());
}

async fn all_handles_and_managers_of_one_key_share_its_lock(s: Scene) {
    let (here, there) = (s.locks(), s.locks());
    let handle = here.lock("k");
    let guard = handle.acquire().await.unwrap();
    for other in [
        handle,
        here.lock("k"),
        here.clone().lock("k"),
        there.lock("k"),
    ] {
        assert!(other.try_acquire().await.unwrap().is_none(), "{other:?}");
    }
    guard.release().await.unwrap();
    assert!(there.lock("k").try_acquire().await.unwrap().is_some());
}

async fn keys_do_not_know_each_other(s: Scene) {
    let locks = s.locks();
    let a = locks.lock("a").acquire().await.unwrap();
    let b = locks.lock("b").try_acquire().await.unwrap();
    let b = b.expect("another key is another lock");
    a.release().await.unwrap();
    b.check().unwrap();
    assert!(locks.is_locked("b").await.unwrap());
}

async fn namespaces_do_not_know_each_other(s: Scene) {
    let other = format!("{}-2", s.namespace());
    let (here, there) = (s.locks(), s.manager(|builder| builder.namespace(other)));
    let guard = here.lock("k").acquire().await.unwrap();
    let same_key = there.lock("k").try_acquire().await.unwrap();
    let same_key = same_key.expect("another namespace is another lock");
    same_key.release().await.unwrap();
    assert!(here.is_locked("k").await.unwrap());
    guard.release().await.unwrap();
}

async fn a_manager_without_a_namespace_takes_one_per_call(s: Scene) {
    let build = || Locks::new(s.backend().clone()).clock(s.harness().clock());
    assert_eq!(build().build().unwrap_err().kind(), ErrorKind::Config);
    let locks = build().any_namespace().build().unwrap();
    let error = locks.lock("k").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let here = locks.in_namespace(s.namespace()).unwrap();
    let there = locks.in_namespace(&format!("{}-2", s.namespace())).unwrap();
    let guard = here.lock("k").acquire().await.unwrap();
    assert_eq!(guard.name(), &s.name("k"));
    assert!(there.lock("k").try_acquire().await.unwrap().is_some());
    assert!(here.lock("k").try_acquire().await.unwrap().is_none());
}

async fn wrong_input_is_refused_before_the_store_is_asked(s: Scene) {
    let locks = s.locks();
    let too_long = "k".repeat(leasehold_core::MAX_KEY_BYTES + 1);
    let wrong = [
        locks.lock(""),
        locks.lock(too_long),
        locks.lock("k").ttl(Duration::ZERO),
        locks.lock("k").ttl(Duration::MAX),
        locks.lock("k").units(2),
        locks.all([""; 0]),
        locks.semaphore("k", 0),
    ];
    for lock in wrong {
        let error = lock.try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(!error.is_retryable());
    }
    assert!(!locks.is_locked("k").await.unwrap());
    let build = Locks::new(s.backend().clone()).namespace("").build();
    assert_eq!(build.unwrap_err().kind(), ErrorKind::InvalidInput);
}

async fn managers_of_other_settings_live_side_by_side(s: Scene) {
    let ttl = s.brief_lock();
    let brief = s.manager(|builder| builder.ttl(ttl).owner("brief"));
    let long = s.manager(|builder| builder.owner("long"));
    let a = brief.lock("a").acquire().await.unwrap();
    let b = long.lock("b").acquire().await.unwrap();
    assert_eq!(a.ttl().as_duration(), ttl);
    assert_eq!(b.ttl(), s.long());
    assert_eq!((brief.held(), long.held()), (1, 1));
    let owner = |holder: Option<leasehold_core::backend::Holding>| {
        holder.map(|holding| holding.owner.as_str().to_owned())
    };
    let seen = owner(long.holder("a").await.unwrap());
    assert_eq!(seen.as_deref(), Some("brief"));
    let seen = owner(brief.holder("b").await.unwrap());
    assert_eq!(seen.as_deref(), Some("long"));
}
