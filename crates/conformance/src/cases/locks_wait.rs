//! Locks: waiting for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_core::{CancellationToken, ErrorKind, Guard, Locks, Result};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::case::{Case, case};
use crate::scene::Scene;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_wait_ends_at_its_deadline_and_says_who_is_in_the_way,
            ["T0-12", "S2-07", "L5"]
        ),
        case!(
            a_wait_succeeds_if_the_lock_is_released_meanwhile,
            ["T0-13", "S0-04"]
        ),
        case!(a_wait_without_end_acquires_on_release, ["T0-22", "S0-04"]),
        case!(a_wait_ends_when_the_holders_lease_runs_out, ["T0-09", "L4"]),
        case!(a_wait_of_zero_tries_once, ["W0-05", "T0-10", "T0-11"]),
        case!(
            a_cancelled_wait_is_an_error_and_takes_nothing,
            ["T0-19", "S0-04"]
        ),
        case!(cancelled_waiters_leave_nothing_behind, ["T0-19", "S0-20"]),
        case!(a_cancelled_head_lets_the_next_move_up, ["L3", "T0-19"]),
        case!(a_dropped_head_lets_the_next_move_up, ["L3"]),
        case!(a_dropped_waiter_in_the_middle_is_passed_over, ["L3"]),
        case!(closing_answers_everybody_who_waits, ["S0-18", "L5"]),
        case!(a_crowd_is_served_one_at_a_time, ["S0-20", "S1", "L3"]),
        case!(waiters_of_one_manager_are_served_in_order, ["S0-20", "L3"]),
        case!(
            waiters_of_many_managers_are_served_in_order,
            ["S0-20", "L3"],
            Fifo
        ),
    ]
}

async fn a_wait_ends_at_its_deadline_and_says_who_is_in_the_way(s: Scene) {
    let (here, there) = (s.manager(|builder| builder.owner("holder")), s.locks());
    let guard = here.lock("k").acquire().await.unwrap();
    let (clock, wait) = (s.harness().clock(), Duration::from_millis(500));
    let started = clock.now();
    let lock = there.lock("k");
    let answer = s.in_time("the deadline", lock.acquire_within(wait)).await;
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAcquired, "{error}");
    assert!(clock.now().since(started) >= wait);
    let blocked = error.blocked().expect("it says who is in the way");
    let holding = blocked.holding.as_ref().expect("somebody holds it");
    assert_eq!(
        (holding.owner.as_str(), holding.token),
        ("holder", guard.token())
    );
    assert_eq!(there.waiting(), 0);
    guard.release().await.unwrap();
    assert!(there.lock("k").try_acquire().await.unwrap().is_some());
}

async fn a_wait_succeeds_if_the_lock_is_released_meanwhile(s: Scene) {
    let locks = s.locks();
    let guard = locks.lock("k").acquire().await.unwrap();
    let lock = locks.lock("k");
    let minute = Duration::from_secs(60);
    let waiter = tokio::spawn(async move { lock.acquire_within(minute).await });
    s.eventually("the waiter waits", || (locks.waiting() == 1).then_some(()))
        .await;
    s.pass(Duration::from_millis(300)).await;
    guard.release().await.unwrap();
    let guard = s.joined("the released lock", waiter).await.unwrap();
    guard.release().await.unwrap();
}

async fn a_wait_without_end_acquires_on_release(s: Scene) {
    let (here, there) = (s.locks(), s.locks());
    let guard = here.lock("k").acquire().await.unwrap();
    let waiter = s.waiter(&there, there.lock("k")).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    let next = s.joined("the released lock", waiter).await.unwrap();
    assert!(here.lock("k").try_acquire().await.unwrap().is_none());
    next.release().await.unwrap();
}

async fn a_wait_ends_when_the_holders_lease_runs_out(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k").ttl(s.brief_lock());
    lock.acquire().await.unwrap().forget();
    let waiter = s.waiter(&locks, locks.lock("k")).await;
    let next = s.joined("the expired lock", waiter).await.unwrap();
    next.release().await.unwrap();
}

async fn a_wait_of_zero_tries_once(s: Scene) {
    let locks = s.locks();
    let lock = locks.lock("k");
    let guard = lock.acquire_within(Duration::ZERO).await.unwrap();
    let error = lock.acquire_within(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAcquired);
    assert!(error.blocked().is_some());
    guard.release().await.unwrap();
    let guard = lock.acquire_within(Duration::ZERO).await.unwrap();
    guard.release().await.unwrap();
}

/// Somebody who waits until cancelled.
async fn cancellable(s: &Scene, locks: &Locks) -> (CancellationToken, JoinHandle<Result<Guard>>) {
    let token = CancellationToken::new();
    let lock = locks.lock("k").cancelled_by(token.clone());
    let waiter = s.waiter(locks, lock).await;
    (token, waiter)
}

async fn a_cancelled_wait_is_an_error_and_takes_nothing(s: Scene) {
    let locks = s.locks();
    let guard = locks.lock("k").acquire().await.unwrap();
    let (token, waiter) = cancellable(&s, &locks).await;
    token.cancel();
    let error = s.joined("the cancelled wait", waiter).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    guard.check().unwrap();
    guard.release().await.unwrap();
    // What the store may have handed to the cancelled one is given back in the background.
    s.until_free(&locks, "k").await;
}

async fn cancelled_waiters_leave_nothing_behind(s: Scene) {
    let locks = s.locks();
    let guard = locks.lock("k").acquire().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..s.contention().tasks {
        waiters.push(cancellable(&s, &locks).await);
    }
    for (token, _) in &waiters {
        token.cancel();
    }
    for (_, waiter) in waiters {
        let error = s.joined("the cancelled wait", waiter).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
    assert_eq!((locks.waiting(), locks.held()), (0, 1));
    guard.release().await.unwrap();
    s.until_free(&locks, "k").await;
}

async fn a_cancelled_head_lets_the_next_move_up(s: Scene) {
    let locks = s.locks();
    let guard = locks.lock("k").acquire().await.unwrap();
    let (token, head) = cancellable(&s, &locks).await;
    let next = s.waiter(&locks, locks.lock("k")).await;
    token.cancel();
    s.joined("the cancelled wait", head).await.unwrap_err();
    guard.release().await.unwrap();
    let guard = s.joined("the turn of the next", next).await.unwrap();
    guard.release().await.unwrap();
}

async fn a_dropped_head_lets_the_next_move_up(s: Scene) {
    let locks = s.locks();
    let guard = locks.lock("k").acquire().await.unwrap();
    let head = s.waiter(&locks, locks.lock("k")).await;
    let next = s.waiter(&locks, locks.lock("k")).await;
    guard.release().await.unwrap();
    // It may have the lock already, or be just about to.
    head.abort();
    drop(head.await);
    let guard = s.joined("the turn of the next", next).await.unwrap();
    guard.release().await.unwrap();
}

async fn a_dropped_waiter_in_the_middle_is_passed_over(s: Scene) {
    let locks = s.locks();
    let guard = locks.lock("k").acquire().await.unwrap();
    let first = s.waiter(&locks, locks.lock("k")).await;
    let middle = s.waiter(&locks, locks.lock("k")).await;
    let last = s.waiter(&locks, locks.lock("k")).await;
    middle.abort();
    assert!(middle.await.is_err());
    assert_eq!(locks.waiting(), 2);
    guard.release().await.unwrap();
    let first = s.joined("the first", first).await.unwrap();
    assert!(!last.is_finished());
    first.release().await.unwrap();
    let guard = s.joined("the last", last).await.unwrap();
    guard.release().await.unwrap();
}

async fn closing_answers_everybody_who_waits(s: Scene) {
    let (here, there) = (s.locks(), s.locks());
    let guard = here.lock("k").acquire().await.unwrap();
    let waiters = [
        s.waiter(&there, there.lock("k")).await,
        s.waiter(&there, there.lock("k")).await,
    ];
    there.close();
    for waiter in waiters {
        let error = s.joined("the answer", waiter).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
    guard.check().unwrap();
}

async fn a_crowd_is_served_one_at_a_time(s: Scene) {
    let managers = [s.locks(), s.locks(), s.locks()];
    let inside = Arc::new(AtomicUsize::new(0));
    let crowd = (0..s.contention().tasks * 4).map(|at| {
        let (lock, inside) = (managers[at % 3].lock("k"), Arc::clone(&inside));
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.unwrap();
        })
    });
    for waiter in crowd.collect::<Vec<_>>() {
        s.joined("everybody's turn", waiter).await;
    }
    assert!(!managers[0].is_locked("k").await.unwrap());
}

/// Everybody notes their number while they hold the lock.
async fn noted(
    s: &Scene,
    order: &Arc<Mutex<Vec<usize>>>,
    number: usize,
    locks: &Locks,
) -> JoinHandle<()> {
    let waiting = s.waiter(locks, locks.lock("k")).await;
    let order = Arc::clone(order);
    tokio::spawn(async move {
        let guard = waiting.await.unwrap().unwrap();
        order.lock().await.push(number);
        guard.release().await.unwrap();
    })
}

async fn waiters_of_one_manager_are_served_in_order(s: Scene) {
    let locks = s.locks();
    let order = Arc::default();
    let guard = locks.lock("k").acquire().await.unwrap();
    let mut waiters = Vec::new();
    for number in 0..6 {
        waiters.push(noted(&s, &order, number, &locks).await);
    }
    guard.release().await.unwrap();
    for waiter in waiters {
        s.joined("everybody's turn", waiter).await;
    }
    assert_eq!(*order.lock().await, [0, 1, 2, 3, 4, 5]);
}

async fn waiters_of_many_managers_are_served_in_order(s: Scene) {
    let locks = s.locks();
    let order = Arc::default();
    let guard = locks.lock("k").acquire().await.unwrap();
    let managers: Vec<_> = (0..6).map(|_| s.locks()).collect();
    let mut waiters = Vec::new();
    for (number, locks) in managers.iter().enumerate() {
        waiters.push(noted(&s, &order, number, locks).await);
        s.until_queued(&s.name("k"), number + 1).await;
    }
    guard.release().await.unwrap();
    for waiter in waiters {
        s.joined("everybody's turn", waiter).await;
    }
    assert_eq!(*order.lock().await, [0, 1, 2, 3, 4, 5]);
}
