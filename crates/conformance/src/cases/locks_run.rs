//! Locks: running a body under one, and keeping it alive meanwhile.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{ErrorKind, Guard, Held, LostCause, RunError, State};

use crate::case::{Case, case};
use crate::fault::{FaultBackend, Faults};
use crate::scene::Scene;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(a_run_returns_its_value_and_releases, ["S2-04"]),
        case!(a_run_keeps_the_error_of_its_body_and_releases, ["S2-04"]),
        case!(a_run_that_panics_releases, ["S2-04", "L4"]),
        case!(a_run_that_is_dropped_releases, ["S2-04", "L4"]),
        case!(
            a_run_that_gets_no_lock_says_so_and_runs_nothing,
            ["S2-07", "S2-04"]
        ),
        case!(a_body_is_stopped_when_its_lease_runs_out, ["S2-06"]),
        case!(
            a_body_that_ends_late_is_told_that_the_lock_was_lost,
            ["S2-06", "S0-06"]
        ),
        case!(renewal_keeps_a_lock_far_beyond_its_ttl, ["S2-05", "S2-03"]),
        case!(renewal_at_an_interval_of_ones_own_keeps_a_lock, ["S2-05"]),
        case!(
            renewal_finds_out_that_the_lock_was_forced,
            ["S2-05", "S2-06", "T0-14"]
        ),
        case!(
            renewal_that_reaches_nobody_gives_up_in_time,
            ["S2-06", "S1-08", "S1"]
        ),
        case!(
            renewal_that_was_interrupted_goes_on,
            ["S2-05", "S1-08", "L4"]
        ),
        case!(the_longest_hold_ends_renewal, ["S2-05", "W2-16"]),
    ]
}

async fn a_run_returns_its_value_and_releases(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k");
    let body = async |held: Held| {
        held.check().unwrap();
        (held.name().clone(), 7)
    };
    assert_eq!(lock.run(body).await.unwrap(), (s.name("k"), 7));
    assert!(!locks.is_locked("k").await.unwrap());
    assert_eq!(lock.try_run(async |_| 8).await.unwrap(), Some(8));
    assert!(!locks.is_locked("k").await.unwrap());
}

async fn a_run_keeps_the_error_of_its_body_and_releases(s: Scene) {
    let locks = s.locks();
    let body = async |_| Err::<(), _>("the body's own");
    let answer = locks.lock("k").run(body).await.unwrap();
    assert_eq!(answer, Err("the body's own"));
    assert!(!locks.is_locked("k").await.unwrap());
}

async fn a_run_that_panics_releases(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k");
    let body = async |_| -> () { std::panic::resume_unwind(Box::new("the body's own")) };
    let task = tokio::spawn(async move { lock.run(body).await });
    assert!(task.await.unwrap_err().is_panic());
    s.until_free(&locks, "k").await;
}

async fn a_run_that_is_dropped_releases(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k");
    let task = tokio::spawn(async move { lock.run(|_| pending::<()>()).await });
    s.eventually("the body runs", || (locks.held() == 1).then_some(()))
        .await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    s.until_free(&locks, "k").await;
}

async fn a_run_that_gets_no_lock_says_so_and_runs_nothing(s: Scene) {
    let locks = s.locks();
    let guard = locks.lock("k").acquire().await.unwrap();
    let lock = locks.lock("k");
    let body = |_| -> std::future::Ready<()> { panic!("it ran without the lock") };
    assert!(lock.try_run(body).await.unwrap().is_none());
    let run = lock.run_within(Duration::from_millis(50), body);
    match s.in_time("the deadline", run).await {
        Err(RunError::NotAcquired(error)) => {
            assert_eq!(error.kind(), ErrorKind::NotAcquired);
            assert_eq!(error.name(), Some(guard.name()));
        }
        other => panic!("{other:?}"),
    }
}

async fn a_body_is_stopped_when_its_lease_runs_out(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k").ttl(s.brief_lock());
    let run = lock.run(|_| pending::<()>());
    match s.in_time("the loss", run).await {
        Err(RunError::Lost { cause, after }) => {
            assert_eq!(cause, LostCause::Expired);
            assert!(after >= s.brief_lock() / 2, "{after:?}");
        }
        other => panic!("{other:?}"),
    }
}

async fn a_body_that_ends_late_is_told_that_the_lock_was_lost(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k").ttl(s.brief_lock());
    let stage = s.clone();
    let run = lock.run(|_| async move {
        // As a body that computes, it does not look up in between.
        tokio::task::unconstrained(stage.outlive_brief_lock()).await;
    });
    let answer = s.in_time("the body", run).await;
    assert!(matches!(answer, Err(RunError::Lost { .. })), "{answer:?}");
}

/// Lets a lock get older than its ttl, several times over; it must be renewed meanwhile.
async fn grow_old(s: &Scene, guard: &Guard) {
    for _ in 0..4 {
        let before = guard.expires_at();
        s.pass(s.brief_lock() / 2).await;
        s.eventually("a renewal", || (guard.expires_at() > before).then_some(()))
            .await;
        guard.check().unwrap();
        let record = s.record(guard.name()).await;
        assert_eq!(record.grants[0].token, guard.token());
    }
}

async fn renewal_keeps_a_lock_far_beyond_its_ttl(s: Scene) {
    let locks = s.manager(|builder| builder.ttl(s.brief_lock()).renewing());
    let guard = locks.lock("k").acquire().await.unwrap();
    grow_old(&s, &guard).await;
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(!locks.is_locked("k").await.unwrap());
}

async fn renewal_at_an_interval_of_ones_own_keeps_a_lock(s: Scene) {
    let (locks, ttl) = (s.locks(), s.brief_lock());
    let lock = locks.lock("k").ttl(ttl).renew_every(ttl / 4);
    let guard = lock.acquire().await.unwrap();
    grow_old(&s, &guard).await;
    guard.release().await.unwrap();
}

async fn renewal_finds_out_that_the_lock_was_forced(s: Scene) {
    let (locks, ttl) = (s.locks(), s.brief_lock());
    let lock = locks.lock("k").ttl(ttl).renewing();
    let run = tokio::spawn(async move { lock.run(|_| pending::<()>()).await });
    s.eventually("the body runs", || (locks.held() == 1).then_some(()))
        .await;
    s.locks().force_release("k", "stuck").await.unwrap();
    s.pass(ttl / 2).await;
    match s.joined("the loss", run).await {
        Err(RunError::Lost { cause, .. }) => {
            assert!(matches!(cause, LostCause::Forced { .. }), "{cause:?}");
        }
        other => panic!("{other:?}"),
    }
}

/// The same stage, over a network that can be cut.
fn cuttable(s: &Scene) -> (Scene, Arc<FaultBackend<Arc<dyn leasehold_core::Backend>>>) {
    let cut = Faults {
        lost_request: 1.0,
        ..Faults::NONE
    };
    let network = Arc::new(FaultBackend::new(Arc::clone(s.backend()), cut, 1));
    network.heal();
    (s.over(network.clone()), network)
}

async fn renewal_that_reaches_nobody_gives_up_in_time(s: Scene) {
    let (s, network) = cuttable(&s);
    let (locks, ttl) = (s.locks(), s.brief_lock());
    let guard = locks.lock("k").ttl(ttl).renewing().acquire().await.unwrap();
    network.break_again();
    let cause = s.in_time("the loss", guard.lost()).await;
    assert_eq!(cause, LostCause::Expired);
    assert!(guard.held_for() <= ttl + s.harness().slack());
    network.heal();
    drop(guard);
    s.until_free(&locks, "k").await;
}

async fn renewal_that_was_interrupted_goes_on(s: Scene) {
    let (s, network) = cuttable(&s);
    let (locks, ttl) = (s.locks(), s.brief_lock());
    let guard = locks.lock("k").ttl(ttl).renewing().acquire().await.unwrap();
    network.break_again();
    s.pass(ttl * 2 / 5).await;
    s.eventually("trouble", || (guard.state() == State::AtRisk).then_some(()))
        .await;
    network.heal();
    let before = guard.expires_at();
    let renewed = async {
        while guard.expires_at() == before {
            tokio::task::yield_now().await;
        }
    };
    s.in_time("a renewal", renewed).await;
    grow_old(&s, &guard).await;
    guard.release().await.unwrap();
}

async fn the_longest_hold_ends_renewal(s: Scene) {
    let (locks, ttl) = (s.locks(), s.brief_lock());
    let lock = locks.lock("k").ttl(ttl).renewing().max_hold(ttl * 2);
    let guard = lock.acquire().await.unwrap();
    let cause = s.in_time("the end", guard.lost()).await;
    assert_eq!(cause, LostCause::MaxHold);
    assert!(guard.held_for() >= ttl, "{:?}", guard.held_for());
    drop(guard);
    s.until_free(&locks, "k").await;
}
