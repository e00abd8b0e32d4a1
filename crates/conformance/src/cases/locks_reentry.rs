//! Locks: taking one again while holding it.

use leasehold_core::{ErrorKind, LostCause, Scope};

use super::locks_end::lost;
use crate::case::{Case, case};
use crate::scene::Scene;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(taking_a_lock_twice_needs_two_releases, ["T0-15", "S0-07"]),
        case!(
            reentry_works_through_any_handle_of_the_manager,
            ["S0-07", "W0-02"]
        ),
        case!(another_scope_is_kept_out, ["S0-08", "T0-07"]),
        case!(a_lock_knows_which_scope_holds_it, ["S1-04"]),
        case!(reentry_does_not_touch_the_lease, ["S0-07", "W0-03"]),
        case!(
            an_inner_release_says_that_the_lease_ran_out,
            ["S0-07", "W0-11", "S1-05"]
        ),
        case!(
            entering_again_after_the_lease_ran_out_is_refused,
            ["S0-07", "S1-05"]
        ),
        case!(every_inner_try_succeeds_under_load, ["S0-20", "S0-07"]),
    ]
}

async fn taking_a_lock_twice_needs_two_releases(s: Scene) {
    let (locks, scope) = (s.locks(), Scope::new());
    let lock = locks.lock("k").scope(&scope);
    let outer = lock.acquire().await.unwrap();
    let inner = lock.acquire().await.unwrap();
    assert_eq!((outer.depth(), inner.token()), (2, outer.token()));
    inner.release().await.unwrap();
    assert_eq!(outer.depth(), 1);
    assert!(locks.is_locked("k").await.unwrap());
    outer.release().await.unwrap();
    assert!(!locks.is_locked("k").await.unwrap());
}

async fn reentry_works_through_any_handle_of_the_manager(s: Scene) {
    let (locks, scope) = (s.locks(), Scope::new());
    let outer = locks.lock("k").scope(&scope).acquire().await.unwrap();
    let other = locks.clone().lock("k").scope(&scope.clone());
    let inner = other.try_acquire().await.unwrap().expect("the same scope");
    outer.release().await.unwrap();
    inner.check().unwrap();
    assert!(locks.is_locked("k").await.unwrap());
    inner.release().await.unwrap();
    assert!(!locks.is_locked("k").await.unwrap());
}

async fn another_scope_is_kept_out(s: Scene) {
    let locks = s.locks();
    let mine = locks.lock("k").scope(&Scope::new());
    let guard = mine.acquire().await.unwrap();
    let theirs = locks.lock("k").scope(&Scope::new());
    assert!(theirs.try_acquire().await.unwrap().is_none());
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(theirs.try_acquire().await.unwrap().is_some());
}

async fn a_lock_knows_which_scope_holds_it(s: Scene) {
    let (locks, mine, theirs) = (s.locks(), Scope::new(), Scope::new());
    let lock = locks.lock("k").scope(&mine).ttl(s.brief_lock());
    assert!(!lock.is_held_by(&mine));
    let guard = lock.acquire().await.unwrap();
    assert!(lock.is_held_by(&mine) && !lock.is_held_by(&theirs));
    assert!(!locks.lock("other").is_held_by(&mine));
    guard.release().await.unwrap();
    assert!(!lock.is_held_by(&mine));
    let guard = lock.acquire().await.unwrap();
    s.outlive_brief_lock().await;
    assert!(!lock.is_held_by(&mine));
    drop(guard);
}

async fn reentry_does_not_touch_the_lease(s: Scene) {
    let (locks, scope) = (s.locks(), Scope::new());
    let lock = locks.lock("k").scope(&scope);
    let outer = lock.acquire().await.unwrap();
    let before = s.record(outer.name()).await;
    s.pass(std::time::Duration::from_millis(50)).await;
    let inner = lock.acquire().await.unwrap();
    assert_eq!(inner.expires_at(), outer.expires_at());
    inner.release().await.unwrap();
    assert_eq!(s.record(outer.name()).await, before);
}

async fn an_inner_release_says_that_the_lease_ran_out(s: Scene) {
    let (locks, scope) = (s.locks(), Scope::new());
    let lock = locks.lock("k").scope(&scope).ttl(s.brief_lock());
    let outer = lock.acquire().await.unwrap();
    let inner = lock.acquire().await.unwrap();
    s.outlive_brief_lock().await;
    assert_eq!(lost(inner.release().await), LostCause::Expired);
    assert_eq!(lost(outer.release().await), LostCause::Expired);
}

async fn entering_again_after_the_lease_ran_out_is_refused(s: Scene) {
    let (locks, scope) = (s.locks(), Scope::new());
    let lock = locks.lock("k").scope(&scope).ttl(s.brief_lock());
    let outer = lock.acquire().await.unwrap();
    s.outlive_brief_lock().await;
    let error = lock.try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(lost(outer.release().await), LostCause::Expired);
    assert!(lock.try_acquire().await.unwrap().is_some());
}

async fn every_inner_try_succeeds_under_load(s: Scene) {
    let (locks, limits) = (s.locks(), s.contention());
    let nest = |_| {
        let lock = locks.lock("k").scope(&Scope::new());
        tokio::spawn(async move {
            for _ in 0..limits.rounds.div_ceil(5) {
                let outer = lock.acquire().await.unwrap();
                let inner = lock.try_acquire().await.unwrap().expect("held already");
                let third = lock.try_acquire().await.unwrap().expect("held already");
                assert_eq!(outer.depth(), 3);
                for guard in [third, inner, outer] {
                    guard.release().await.unwrap();
                }
            }
        })
    };
    for task in (0..limits.tasks).map(nest).collect::<Vec<_>>() {
        s.joined("every nest", task).await;
    }
    assert!(!locks.is_locked("k").await.unwrap());
}
