//! Locks: several names at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_core::{ErrorKind, LostCause};

use super::locks_end::lost;
use crate::case::{Case, case};
use crate::scene::Scene;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(several_names_are_sorted_and_end_together, ["S2-09", "S13"]),
        case!(several_names_are_taken_all_or_none, ["S2-09", "S13"]),
        case!(
            a_wait_for_several_names_ends_when_the_last_is_free,
            ["S2-09", "T0-22"]
        ),
        case!(
            a_wait_for_several_names_is_told_of_each_that_was_in_the_way,
            ["S2-09", "L3"],
            Watch,
            VirtualTime
        ),
        case!(
            losing_one_of_several_names_loses_them_all,
            ["S2-09", "S2-06"]
        ),
        case!(
            sets_that_cross_never_wait_in_a_circle,
            ["S2-09", "S0-20", "W2-10"]
        ),
        case!(a_crowd_on_many_keys_never_shares_one, ["S0-20", "S1"]),
    ]
}

async fn several_names_are_sorted_and_end_together(s: Scene) {
    let locks = s.locks();
    let guard = locks.all(["c", "a", "b"]).acquire().await.unwrap();
    let keys: Vec<_> = guard.tokens().map(|(name, _)| name.key()).collect();
    assert_eq!(keys, ["a", "b", "c"]);
    let mut ends = Vec::new();
    for key in ["a", "b", "c"] {
        let holder = locks.holder(key).await.unwrap().expect("it is held");
        assert_eq!(Some(holder.token), guard.token_of(key));
        ends.push(holder.expires_at);
    }
    assert_eq!(guard.expires_at(), *ends.iter().min().unwrap());
    if s.is_virtual() {
        assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
    }
    guard.release().await.unwrap();
    for key in ["a", "b", "c"] {
        assert!(!locks.is_locked(key).await.unwrap());
    }
}

async fn several_names_are_taken_all_or_none(s: Scene) {
    let locks = s.locks();
    let b = locks.lock("b").acquire().await.unwrap();
    let all = locks.all(["a", "b", "c"]);
    assert!(all.try_acquire().await.unwrap().is_none());
    let error = all.acquire_within(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAcquired);
    let blocked = error.blocked().expect("it says what is in the way");
    assert_eq!(&blocked.name, b.name());
    assert!(!locks.is_locked("a").await.unwrap());
    assert!(!locks.is_locked("c").await.unwrap());
    b.release().await.unwrap();
    assert!(all.try_acquire().await.unwrap().is_some());
}

async fn a_wait_for_several_names_ends_when_the_last_is_free(s: Scene) {
    let (here, there) = (s.locks(), s.locks());
    let a = here.lock("a").acquire().await.unwrap();
    let b = here.lock("b").acquire().await.unwrap();
    let waiter = s.waiter(&there, there.all(["a", "b"])).await;
    a.release().await.unwrap();
    assert!(!waiter.is_finished());
    b.release().await.unwrap();
    let both = s.joined("both names", waiter).await.unwrap();
    assert_eq!(both.tokens().count(), 2);
    both.release().await.unwrap();
}

/// Time stands still here: whoever is not told waits for ever.
async fn a_wait_for_several_names_is_told_of_each_that_was_in_the_way(s: Scene) {
    let (here, there) = (s.locks(), s.locks());
    let mut guards = Vec::new();
    for key in ["a", "b", "c"] {
        guards.push(here.lock(key).acquire().await.unwrap());
    }
    let waiter = s.waiter(&there, there.all(["a", "b", "c"])).await;
    for guard in guards {
        guard.release().await.unwrap();
        // Enough for the waiter to look at the next name.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
    }
    s.eventually("all names", || waiter.is_finished().then_some(()))
        .await;
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

async fn losing_one_of_several_names_loses_them_all(s: Scene) {
    let (locks, ttl) = (s.locks(), s.brief_lock());
    let lock = locks.all(["a", "b"]).ttl(ttl).renewing();
    let guard = lock.acquire().await.unwrap();
    locks.force_release("b", "stuck").await.unwrap();
    s.pass(ttl / 2).await;
    let cause = s.in_time("the loss", guard.lost()).await;
    assert!(matches!(cause, LostCause::Forced { .. }), "{cause:?}");
    lost(guard.check());
    drop(guard);
    s.until_free(&locks, "a").await;
}

async fn sets_that_cross_never_wait_in_a_circle(s: Scene) {
    let limits = s.contention();
    let managers = [s.locks(), s.locks()];
    let sets = [["a", "b"], ["b", "c"], ["c", "a"], ["b", "a"]];
    let inside: Arc<[AtomicUsize; 3]> = Arc::default();
    let cross = |at: usize| {
        let (set, inside) = (sets[at % sets.len()], Arc::clone(&inside));
        let lock = managers[at % 2].all(set);
        tokio::spawn(async move {
            let counts = set.map(|key| usize::from(key.as_bytes()[0] - b'a'));
            for _ in 0..limits.rounds.div_ceil(10) {
                let guard = lock.acquire().await.unwrap();
                for at in counts {
                    assert_eq!(inside[at].fetch_add(1, Ordering::SeqCst), 0, "two at once");
                }
                tokio::task::yield_now().await;
                for at in counts {
                    inside[at].fetch_sub(1, Ordering::SeqCst);
                }
                guard.release().await.unwrap();
            }
        })
    };
    for task in (0..sets.len()).map(cross).collect::<Vec<_>>() {
        s.joined("everybody's turn", task).await;
    }
}

async fn a_crowd_on_many_keys_never_shares_one(s: Scene) {
    let limits = s.contention();
    let managers = [s.locks(), s.locks()];
    let inside: Arc<[AtomicUsize; 5]> = Arc::default();
    let visit = |task: usize| {
        let (locks, inside) = (managers[task % 2].clone(), Arc::clone(&inside));
        tokio::spawn(async move {
            for round in 0..limits.rounds.div_ceil(5) {
                let at = (task + round * 3) % inside.len();
                let guard = locks.lock(format!("k{at}")).acquire().await.unwrap();
                assert_eq!(inside[at].fetch_add(1, Ordering::SeqCst), 0, "two at once");
                tokio::task::yield_now().await;
                inside[at].fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        })
    };
    for task in (0..limits.tasks).map(visit).collect::<Vec<_>>() {
        s.joined("everybody's turn", task).await;
    }
}
