//! Locks over a store that answers badly, and under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_core::{Backend, Effect, ErrorKind, Guard, Lock, RunError};

use crate::case::{Case, case};
use crate::fault::{FaultBackend, Faults};
use crate::scene::Scene;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_store_that_does_not_answer_is_an_error_and_never_a_refusal,
            ["S8", "W4-01", "S2-07"]
        ),
        case!(
            a_store_that_cannot_be_asked_is_an_error_and_never_a_free_lock,
            ["W0-07", "S8", "S1-08"]
        ),
        case!(
            a_release_that_was_not_answered_is_finished_in_the_background,
            ["S4-06", "W4-03"]
        ),
        case!(
            an_unprotected_counter_comes_out_exact,
            ["S0-20", "S1", "T2-02"]
        ),
        case!(
            an_unprotected_counter_comes_out_exact_over_a_bad_network,
            ["S0-20", "S1", "S1-08", "S4-04"]
        ),
        case!(
            holders_that_overstay_are_found_out,
            ["S0-20", "S3"],
            Fencing
        ),
    ]
}

type Network = Arc<FaultBackend<Arc<dyn Backend>>>;

/// The same stage over a network with these faults, which has none yet.
fn network(s: &Scene, faults: Faults) -> (Scene, Network) {
    let network = Arc::new(FaultBackend::random(Arc::clone(s.backend()), faults));
    network.heal();
    (s.over(network.clone()), network)
}

async fn a_store_that_does_not_answer_is_an_error_and_never_a_refusal(s: Scene) {
    let mute = Faults {
        lost_reply: 1.0,
        ..Faults::NONE
    };
    let (s, network) = network(&s, mute);
    let locks = s.locks();
    network.break_again();
    let lock = locks.lock("k");
    let answers = [
        lock.try_acquire().await.map(drop),
        lock.acquire_within(Duration::ZERO).await.map(drop),
        lock.acquire_within(Duration::from_secs(1)).await.map(drop),
        lock.acquire().await.map(drop),
    ];
    let run = lock.try_run(async |_| ()).await;
    network.heal();
    for answer in answers {
        let error = answer.expect_err("nobody can tell whether it was granted");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_eq!(error.effect(), Effect::Unknown);
    }
    assert!(matches!(run, Err(RunError::Unknown(_))), "{run:?}");
    // What may have been granted is given back.
    s.until_free(&locks, "k").await;
}

async fn a_store_that_cannot_be_asked_is_an_error_and_never_a_free_lock(s: Scene) {
    let deaf = Faults {
        lost_request: 1.0,
        ..Faults::NONE
    };
    let (s, network) = network(&s, deaf);
    let locks = s.locks();
    let guard = locks.lock("k").acquire().await.unwrap();
    network.break_again();
    let answers = [
        locks.is_locked("k").await.map(drop),
        locks.holder("k").await.map(drop),
        locks.force_release("k", "stuck").await.map(drop),
        locks.lock("other").try_acquire().await.map(drop),
        guard.extend(s.long().as_duration()).await,
    ];
    network.heal();
    for answer in answers {
        let error = answer.expect_err("the store was not asked");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.is_retryable());
    }
    guard.check().unwrap();
    guard.release().await.unwrap();
}

async fn a_release_that_was_not_answered_is_finished_in_the_background(s: Scene) {
    let deaf = Faults {
        lost_request: 1.0,
        ..Faults::NONE
    };
    let (s, network) = network(&s, deaf);
    let locks = s.locks();
    let guard = locks.lock("k").acquire().await.unwrap();
    network.break_again();
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    network.heal();
    s.until_free(&locks, "k").await;
}

/// Takes the lock however often the network fails.
async fn take(lock: &Lock) -> Guard {
    loop {
        match lock.acquire().await {
            Ok(guard) => return guard,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        tokio::task::yield_now().await;
    }
}

/// Reads, pauses and writes, with nothing but the lock between the tasks, and says how far it came.
async fn count_up(s: &Scene, rounds: usize) -> (usize, usize) {
    let tasks = s.contention().tasks;
    let managers = [s.locks(), s.locks()];
    let counter = Arc::new(AtomicUsize::new(0));
    let count = |at: usize| {
        let (lock, counter) = (managers[at % 2].lock("k"), Arc::clone(&counter));
        tokio::spawn(async move {
            for _ in 0..rounds {
                let guard = take(&lock).await;
                let read = counter.load(Ordering::Relaxed);
                tokio::task::yield_now().await;
                counter.store(read + 1, Ordering::Relaxed);
                // A late copy of the request may have done it, or the answer was lost.
                drop(guard.release().await);
            }
        })
    };
    for task in (0..tasks).map(count).collect::<Vec<_>>() {
        s.joined("everybody's turn", task).await;
    }
    (counter.load(Ordering::Relaxed), tasks * rounds)
}

async fn an_unprotected_counter_comes_out_exact(s: Scene) {
    let rounds = s.contention().rounds;
    let (counted, expected) = count_up(&s, rounds).await;
    assert_eq!(counted, expected);
}

async fn an_unprotected_counter_comes_out_exact_over_a_bad_network(s: Scene) {
    let (s, network) = network(&s, Faults::SOME);
    let rounds = s.contention().rounds.div_ceil(5);
    network.break_again();
    let (counted, expected) = count_up(&s, rounds).await;
    assert_eq!(counted, expected, "fault seed {}", network.seed());
}

/// Those who go on after their lease is over are told so, and what they write is older than what their successors do.
async fn holders_that_overstay_are_found_out(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k").ttl(s.brief_lock());
    let rounds = if s.is_virtual() { 10 } else { 2 };
    let mut newest = None;
    for _ in 0..rounds {
        let late = lock.acquire().await.unwrap();
        s.outlive_brief_lock().await;
        let next = lock.try_acquire().await.unwrap().expect("it had run out");
        newest = newest.max(Some(next.token()));
        assert!(Some(late.token()) < newest);
        let error = late.release().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost);
        next.release().await.unwrap();
    }
}
