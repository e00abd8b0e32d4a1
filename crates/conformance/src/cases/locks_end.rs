//! Locks: how they end, and what their holders are told.

use leasehold_core::{Error, ErrorKind, LostCause, Result, State};

use crate::case::{Case, case};
use crate::scene::Scene;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_lock_that_ran_out_is_free_and_its_release_says_so,
            ["T0-05", "S0-06", "S1-05"]
        ),
        case!(
            a_lock_that_ran_out_goes_to_the_next_and_stays_there,
            ["T0-09", "S1-05", "W0-01"]
        ),
        case!(
            a_lenient_release_of_a_lock_that_ran_out_is_no_error,
            ["S4-06", "S1-05"]
        ),
        case!(a_lock_is_released_in_time_late_in_its_lease, ["S0-20"]),
        case!(
            an_overstayed_lock_is_either_released_or_found_expired,
            ["S0-20", "S0-06"]
        ),
        case!(a_guard_gives_up_no_later_than_its_store, ["S2-06", "S1"]),
        case!(
            an_extension_prolongs_and_never_revives,
            ["S2-03", "S6", "S4-05"]
        ),
        case!(tokens_grow_from_lock_to_lock, ["S2-01", "S3"], Fencing),
        case!(
            force_frees_a_lock_and_its_holder_is_told,
            ["T0-14", "S0-04"]
        ),
        case!(force_on_a_free_lock_finds_nothing, ["T0-14"]),
        case!(a_dropped_guard_releases_in_the_background, ["S2-04", "L4"]),
        case!(a_forgotten_lock_stays_until_it_runs_out, ["S0-05"]),
        case!(closing_touches_nothing_that_is_held, ["S0-18"]),
        case!(shutting_down_releases_everything, ["S0-18"]),
    ]
}

/// Why a lock was lost, by the error that said so.
pub(super) fn lost<T: std::fmt::Debug>(answer: Result<T>) -> LostCause {
    let error: Error = answer.expect_err("the lock was lost");
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    error.lost_cause().expect("it says why").clone()
}

async fn a_lock_that_ran_out_is_free_and_its_release_says_so(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k").ttl(s.brief_lock());
    let guard = lock.acquire().await.unwrap();
    s.outlive_brief_lock().await;
    assert!(!locks.is_locked("k").await.unwrap());
    assert_eq!(lost(guard.check()), LostCause::Expired);
    assert_eq!(lost(guard.release().await), LostCause::Expired);
}

async fn a_lock_that_ran_out_goes_to_the_next_and_stays_there(s: Scene) {
    let locks = s.locks();
    let late = locks.lock("k").ttl(s.brief_lock());
    let late = late.acquire().await.unwrap();
    s.outlive_brief_lock().await;
    let next = locks.lock("k").try_acquire().await.unwrap();
    let next = next.expect("the lock had run out");
    let cause = lost(late.release().await);
    assert!(
        matches!(&cause, LostCause::TakenOver { by } if by.token == next.token()),
        "{cause:?}"
    );
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
    next.release().await.unwrap();
}

async fn a_lenient_release_of_a_lock_that_ran_out_is_no_error(s: Scene) {
    let locks = s.locks();
    let take = |key| locks.lock(key).ttl(s.brief_lock());
    let (a, b) = (take("a"), take("b"));
    let (a, b) = (a.acquire().await.unwrap(), b.acquire().await.unwrap());
    s.outlive_brief_lock().await;
    assert!(!a.release_if_held().await.unwrap());
    b.release_any().await.unwrap();
    let c = take("c").acquire().await.unwrap();
    assert!(c.release_if_held().await.unwrap());
}

async fn a_lock_is_released_in_time_late_in_its_lease(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k").ttl(s.brief_lock());
    let guard = lock.acquire().await.unwrap();
    s.pass(s.brief_lock() * 7 / 10).await;
    guard.check().unwrap();
    guard.release().await.unwrap();
    assert!(!locks.is_locked("k").await.unwrap());
}

async fn an_overstayed_lock_is_either_released_or_found_expired(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k").ttl(s.brief_lock());
    let rounds = if s.is_virtual() { 10_u32 } else { 3 };
    let (mut released, mut expired) = (0, 0);
    for round in 0..rounds {
        let guard = lock.try_acquire().await.unwrap().expect("it is free");
        if round % 2 == 0 {
            s.outlive_brief_lock().await;
        }
        match guard.release().await {
            Ok(()) => released += 1,
            Err(error) => {
                assert_eq!(error.lost_cause(), Some(&LostCause::Expired), "{error}");
                expired += 1;
            }
        }
    }
    assert_eq!((released, expired), (rounds / 2, rounds.div_ceil(2)));
}

async fn a_guard_gives_up_no_later_than_its_store(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k").ttl(s.brief_lock());
    let guard = lock.acquire().await.unwrap();
    let step = s.brief_lock() / 50;
    while guard.is_held() {
        assert_eq!(s.record(guard.name()).await.grants.len(), 1);
        s.pass(step).await;
    }
    assert_eq!(guard.state(), State::Lost(LostCause::Expired));
    assert!(guard.remaining().is_zero());
}

async fn an_extension_prolongs_and_never_revives(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k").ttl(s.brief_lock());
    let guard = lock.acquire().await.unwrap();
    guard.extend(s.long().as_duration()).await.unwrap();
    s.outlive_brief_lock().await;
    guard.check().unwrap();
    assert!(locks.is_locked("k").await.unwrap());
    guard.release().await.unwrap();
    let guard = lock.acquire().await.unwrap();
    s.outlive_brief_lock().await;
    let ttl = s.long().as_duration();
    assert_eq!(lost(guard.extend(ttl).await), LostCause::Expired);
    assert!(!locks.is_locked("k").await.unwrap());
}

async fn tokens_grow_from_lock_to_lock(s: Scene) {
    let locks = s.locks();
    let mut last = None;
    for round in 0..5 {
        let guard = locks.lock("k").acquire().await.unwrap();
        assert!(Some(guard.token()) > last, "{:?} {last:?}", guard.token());
        last = Some(guard.token());
        match round % 2 {
            0 => guard.release().await.unwrap(),
            _ => drop(locks.force_release("k", "a test").await.unwrap()),
        }
    }
}

async fn force_frees_a_lock_and_its_holder_is_told(s: Scene) {
    let locks = s.locks();
    let operator = s.manager(|builder| builder.owner("operator"));
    let guard = locks.lock("k").acquire().await.unwrap();
    let ended = operator.force_release("k", "stuck").await.unwrap();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].token, guard.token());
    assert!(!locks.is_locked("k").await.unwrap());
    let cause = lost(guard.release().await);
    assert!(
        matches!(&cause, LostCause::Forced { by, reason } if by.as_str() == "operator" && reason == "stuck"),
        "{cause:?}"
    );
}

async fn force_on_a_free_lock_finds_nothing(s: Scene) {
    let locks = s.locks();
    assert!(locks.force_release("k", "stuck").await.unwrap().is_empty());
    assert!(locks.lock("k").try_acquire().await.unwrap().is_some());
}

async fn a_dropped_guard_releases_in_the_background(s: Scene) {
    let locks = s.locks();
    drop(locks.lock("k").acquire().await.unwrap());
    s.until_free(&locks, "k").await;
}

async fn a_forgotten_lock_stays_until_it_runs_out(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k").ttl(s.brief_lock());
    lock.acquire().await.unwrap().forget();
    assert_eq!(locks.held(), 0);
    assert!(lock.try_acquire().await.unwrap().is_none());
    s.outlive_brief_lock().await;
    assert!(lock.try_acquire().await.unwrap().is_some());
}

async fn closing_touches_nothing_that_is_held(s: Scene) {
    let locks = s.locks();
    let guard = locks.lock("k").acquire().await.unwrap();
    locks.close();
    let error = locks.lock("other").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    guard.check().unwrap();
    let other = s.locks();
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(other.lock("k").try_acquire().await.unwrap().is_some());
}

async fn shutting_down_releases_everything(s: Scene) {
    let locks = s.locks();
    let guards = [locks.lock("a"), locks.lock("b")].map(|lock| async move { lock.acquire().await });
    let [a, b] = guards;
    let (a, b) = (a.await.unwrap(), b.await.unwrap());
    let done = locks.shutdown(std::time::Duration::from_secs(10));
    s.in_time("the shutdown", done).await.unwrap();
    assert!(!a.is_held() && !b.is_held());
    let other = s.locks();
    assert!(!other.is_locked("a").await.unwrap() && !other.is_locked("b").await.unwrap());
}
