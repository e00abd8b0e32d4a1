//! Locks: semaphores, shared locks, and locks that change hands.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_core::{Handover, LostCause};

use super::locks_end::lost;
use crate::case::{Case, case};
use crate::scene::Scene;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_semaphore_admits_as_many_as_it_has_permits,
            ["S2-12"],
            Quantities
        ),
        case!(a_semaphore_counts_units, ["S2-12"], Quantities),
        case!(
            a_crowd_at_a_semaphore_stays_within_its_permits,
            ["S2-12", "S0-20"],
            Quantities
        ),
        case!(readers_share_and_a_writer_is_alone, ["G-15"], Quantities),
        case!(
            a_writer_waits_for_all_readers,
            ["G-15", "T0-22"],
            Quantities
        ),
        case!(a_lock_handed_over_is_held_by_its_heir, ["S4-04"], Adopt),
        case!(a_handover_works_once, ["S5", "S1-05"], Adopt),
        case!(a_handover_of_a_lock_that_ran_out_is_refused, ["S6"], Adopt),
    ]
}

async fn a_semaphore_admits_as_many_as_it_has_permits(s: Scene) {
    let (here, there) = (s.locks(), s.locks());
    let first = here.semaphore("k", 2).acquire().await.unwrap();
    let second = there.semaphore("k", 2).try_acquire().await.unwrap();
    let second = second.expect("there are two permits");
    assert!(
        here.semaphore("k", 2)
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    let third = s.waiter(&here, here.semaphore("k", 2)).await;
    first.release().await.unwrap();
    let third = s.joined("the free permit", third).await.unwrap();
    second.release().await.unwrap();
    third.release().await.unwrap();
    assert!(!here.is_locked("k").await.unwrap());
}

async fn a_semaphore_counts_units(s: Scene) {
    let locks = s.locks();
    let heavy = locks.semaphore("k", 3).units(2).acquire().await.unwrap();
    let two = locks.semaphore("k", 3).units(2);
    assert!(two.try_acquire().await.unwrap().is_none());
    let one = locks.semaphore("k", 3).try_acquire().await.unwrap();
    assert!(one.is_some(), "one unit is left");
    heavy.release().await.unwrap();
    assert!(two.try_acquire().await.unwrap().is_some());
}

async fn a_crowd_at_a_semaphore_stays_within_its_permits(s: Scene) {
    let (locks, limits) = (s.locks(), s.contention());
    let inside = Arc::new(AtomicUsize::new(0));
    let visit = |_| {
        let (lock, inside) = (locks.semaphore("k", 3), Arc::clone(&inside));
        tokio::spawn(async move {
            for _ in 0..limits.rounds.div_ceil(5) {
                let guard = lock.acquire().await.unwrap();
                assert!(inside.fetch_add(1, Ordering::SeqCst) < 3, "one too many");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        })
    };
    for task in (0..limits.tasks).map(visit).collect::<Vec<_>>() {
        s.joined("everybody's turn", task).await;
    }
}

async fn readers_share_and_a_writer_is_alone(s: Scene) {
    let locks = s.locks();
    let read = locks.lock("k").shared();
    let write = locks.lock("k");
    let first = read.acquire().await.unwrap();
    let second = read.try_acquire().await.unwrap().expect("readers share");
    assert!(write.try_acquire().await.unwrap().is_none());
    first.release().await.unwrap();
    assert!(write.try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    let writer = write.try_acquire().await.unwrap().expect("it is free");
    assert!(read.try_acquire().await.unwrap().is_none());
    writer.release().await.unwrap();
}

async fn a_writer_waits_for_all_readers(s: Scene) {
    let (here, there) = (s.locks(), s.locks());
    let first = here.lock("k").shared().acquire().await.unwrap();
    let second = here.lock("k").shared().acquire().await.unwrap();
    let writer = s.waiter(&there, there.lock("k")).await;
    first.release().await.unwrap();
    assert!(!writer.is_finished());
    second.release().await.unwrap();
    let guard = s.joined("the writer's turn", writer).await.unwrap();
    guard.release().await.unwrap();
}

async fn a_lock_handed_over_is_held_by_its_heir(s: Scene) {
    let (here, there) = (s.locks(), s.manager(|builder| builder.owner("heir")));
    let guard = here.lock("k").acquire().await.unwrap();
    let token = guard.token();
    let text = guard.hand_over().unwrap().to_string();
    assert_eq!(here.held(), 0);
    let handover: Handover = text.parse().unwrap();
    let heir = there.adopt(&handover).await.unwrap();
    assert_eq!(heir.token(), token);
    let holder = here.holder("k").await.unwrap().expect("it is held");
    assert_eq!(holder.owner.as_str(), "heir");
    assert!(here.lock("k").try_acquire().await.unwrap().is_none());
    heir.release().await.unwrap();
    assert!(!here.is_locked("k").await.unwrap());
}

async fn a_handover_works_once(s: Scene) {
    let locks = s.locks();
    let guard = locks.lock("k").acquire().await.unwrap();
    let handover = guard.hand_over().unwrap();
    let heir = locks.adopt(&handover).await.unwrap();
    let cause = lost(locks.adopt(&handover).await);
    assert_ne!(cause, LostCause::Expired);
    heir.check().unwrap();
    heir.release().await.unwrap();
}

async fn a_handover_of_a_lock_that_ran_out_is_refused(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k").ttl(s.brief_lock());
    let handover = lock.acquire().await.unwrap().hand_over().unwrap();
    s.outlive_brief_lock().await;
    assert_eq!(lost(locks.adopt(&handover).await), LostCause::Expired);
    assert!(lock.try_acquire().await.unwrap().is_some());
}
