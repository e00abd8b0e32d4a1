//! Many at once, in real time, judged by what goes wrong and never by how long it takes (requirements 3.9, S0-20).

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::lock::{
    CancellationToken, LockEvent, LocksBuilder, LostCause, ReleaseOutcome, Scope,
};
use leasehold_core::memory::Memory;
use leasehold_core::{Backend, Clock, ErrorKind, Guard, Lock, Locks, SystemClock};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(30);

fn builder(store: &Arc<Memory>) -> LocksBuilder {
    Locks::new(store.clone() as Arc<dyn Backend>)
        .namespace("orders")
        .ttl(TTL)
}

fn manager() -> Locks {
    builder(&Arc::new(Memory::new())).build().unwrap()
}

/// Counts who is inside, and remembers the most there ever were.
#[derive(Debug, Default)]
struct Occupancy {
    inside: AtomicUsize,
    most: AtomicUsize,
    entered: AtomicUsize,
}

impl Occupancy {
    async fn visit(&self) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        self.entered.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn never_above_one(&self, entered: usize) {
        assert_eq!(self.most.load(Ordering::SeqCst), 1);
        assert_eq!(self.entered.load(Ordering::SeqCst), entered);
    }
}

async fn all(mut tasks: JoinSet<()>) {
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
}

/// Waits until something is so, for work that is done in the background.
async fn eventually(so: impl AsyncFn() -> bool) {
    while !so().await {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_tasks_on_one_key_are_never_inside_together() {
    let (locks, occupancy) = (manager(), Arc::new(Occupancy::default()));
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let (lock, occupancy) = (locks.lock("1"), occupancy.clone());
        tasks.spawn(async move {
            for _ in 0..20 {
                let guard = lock.acquire().await.unwrap();
                occupancy.visit().await;
                guard.release().await.unwrap();
            }
        });
    }
    all(tasks).await;
    occupancy.never_above_one(1000);
    assert_eq!((locks.held(), locks.waiting()), (0, 0));
}

/// The same, but between managers that know nothing of each other, and with guards that are dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn managers_of_one_store_are_never_inside_together() {
    let store = Arc::new(Memory::new());
    let occupancy = Arc::new(Occupancy::default());
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        let (locks, occupancy) = (builder(&store).build().unwrap(), occupancy.clone());
        tasks.spawn(async move {
            for round in 0..30 {
                let guard = locks.lock("1").acquire().await.unwrap();
                occupancy.visit().await;
                if (n + round) % 2 == 0 {
                    guard.release().await.unwrap();
                }
            }
        });
    }
    all(tasks).await;
    occupancy.never_above_one(300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thirty_keys_are_each_held_by_one_at_a_time() {
    let locks = manager();
    let occupancy: Vec<_> = (0..30).map(|_| Arc::new(Occupancy::default())).collect();
    let mut tasks = JoinSet::new();
    for n in 0..120 {
        let (lock, occupancy) = (locks.lock((n % 30).to_string()), occupancy[n % 30].clone());
        tasks.spawn(async move {
            for _ in 0..15 {
                lock.run(|_| occupancy.visit()).await.unwrap();
            }
        });
    }
    all(tasks).await;
    for occupancy in occupancy {
        occupancy.never_above_one(60);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thundering_herd_is_served_one_at_a_time() {
    let (locks, occupancy) = (manager(), Arc::new(Occupancy::default()));
    let guard = locks.lock("1").acquire().await.unwrap();
    let mut herd = JoinSet::new();
    for _ in 0..100 {
        let (lock, occupancy) = (locks.lock("1"), occupancy.clone());
        herd.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            occupancy.visit().await;
            guard.release().await.unwrap();
        });
    }
    eventually(async || locks.waiting() == 100).await;
    assert_eq!(occupancy.entered.load(Ordering::SeqCst), 0);
    guard.release().await.unwrap();
    all(herd).await;
    occupancy.never_above_one(100);
}

/// All at the very same moment, round after round: exactly one gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_those_who_try_at_once_exactly_one_succeeds() {
    const TASKS: usize = 16;
    const ROUNDS: usize = 50;
    let (locks, barrier) = (manager(), Arc::new(Barrier::new(TASKS)));
    let wins = Arc::new(Mutex::new(vec![0; ROUNDS]));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (locks, barrier, wins) = (locks.clone(), barrier.clone(), wins.clone());
        tasks.spawn(async move {
            for round in 0..ROUNDS {
                barrier.wait().await;
                let guard = locks.lock("1").try_acquire().await.unwrap();
                wins.lock().unwrap()[round] += usize::from(guard.is_some());
                barrier.wait().await;
                if let Some(guard) = guard {
                    guard.release().await.unwrap();
                }
            }
        });
    }
    all(tasks).await;
    assert_eq!(*wins.lock().unwrap(), [1; ROUNDS]);
}

/// 3.9: read and written apart, so that two at once would lose a step; and in the order of the tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_unprotected_counter_and_list_are_exact() {
    let (locks, count) = (manager(), Arc::new(AtomicUsize::new(0)));
    let list = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let (lock, count, list) = (locks.lock("1"), count.clone(), list.clone());
        tasks.spawn(async move {
            for _ in 0..50 {
                let guard = lock.acquire().await.unwrap();
                let seen = count.load(Ordering::Relaxed);
                tokio::task::yield_now().await;
                count.store(seen + 1, Ordering::Relaxed);
                list.lock().unwrap().push((seen, guard.token()));
                guard.release().await.unwrap();
            }
        });
    }
    all(tasks).await;
    assert_eq!(count.load(Ordering::Relaxed), 1000);
    let list = list.lock().unwrap();
    assert!(list.iter().enumerate().all(|(n, (seen, _))| n == *seen));
    assert!(
        list.is_sorted_by(|a, b| a.1 < b.1),
        "tokens grow with every grant"
    );
}

/// Acquires, as often as it takes a machine that may stall to get there before so short a lease is over.
async fn acquire_in_time(lock: &Lock) -> Guard {
    loop {
        match lock.acquire().await {
            Ok(guard) => return guard,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{error}"),
        }
    }
}

/// 3.9: a holder that overstays a lease of 200 ms while another takes over; every hold ends as expired or released.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_overstayed_lease_is_reported_and_taken_over() {
    let tally: Arc<[AtomicUsize; 3]> = Arc::default();
    let store = Arc::new(Memory::new());
    let locks = builder(&store)
        .ttl(Duration::from_millis(200))
        .on_event({
            let tally = tally.clone();
            move |event| {
                let of = match event {
                    LockEvent::Acquired { .. } => 0,
                    LockEvent::Lost {
                        cause: LostCause::Expired | LostCause::TakenOver { .. },
                        ..
                    } => 1,
                    LockEvent::Released {
                        outcome: ReleaseOutcome::Released,
                        ..
                    } => 2,
                    _ => return,
                };
                tally[of].fetch_add(1, Ordering::SeqCst);
            }
        })
        .build()
        .unwrap();
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        let lock = locks.lock(n.to_string());
        tasks.spawn(async move {
            let overstayed = acquire_in_time(&lock).await;
            let next = acquire_in_time(&lock).await;
            assert!(!overstayed.is_held(), "two believe that they hold it");
            assert!(next.token() > overstayed.token());
            let error = overstayed.release().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Lost);
            // Whether this comes in time is for the machine to say; it is one or the other.
            let _ = next.release().await;
        });
    }
    all(tasks).await;
    let [acquired, expired, released] = [0, 1, 2].map(|n| tally[n].load(Ordering::SeqCst));
    assert_eq!(acquired, 20);
    assert_eq!(acquired, expired + released);
    assert!(expired >= 10, "{expired}");
}

/// S2-05: many leases that are renewed often, and none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn leases_that_are_renewed_often_are_not_lost() {
    let locks = manager();
    let mut tasks = JoinSet::new();
    for n in 0..50 {
        let lock = locks
            .lock(n.to_string())
            .renew_every(Duration::from_millis(50));
        tasks.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            let first = guard.expires_at();
            while guard.expires_at().since(first) < Duration::from_millis(300) {
                SystemClock
                    .sleep_until(SystemClock.now().after(Duration::from_millis(20)))
                    .await;
            }
            guard.check().unwrap();
            guard.release().await.unwrap();
        });
    }
    all(tasks).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rapid_cycles_never_fail() {
    let locks = manager();
    let mut tasks = JoinSet::new();
    for n in 0..5 {
        let lock = locks.lock(n.to_string());
        tasks.spawn(async move {
            for _ in 0..300 {
                lock.try_acquire()
                    .await
                    .unwrap()
                    .unwrap()
                    .release()
                    .await
                    .unwrap();
            }
        });
    }
    all(tasks).await;
    assert_eq!((locks.held(), locks.waiting()), (0, 0));
}

/// 3.9: bursts, then calm; nothing of the burst is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_burst_of_two_hundred_leaves_no_trace() {
    let locks = manager();
    let mut burst = JoinSet::new();
    for n in 0..200 {
        let lock = locks.lock((n % 3).to_string());
        burst.spawn(async move {
            match n % 4 {
                0 => drop(lock.try_acquire().await.unwrap()),
                1 => drop(lock.acquire_within(Duration::from_millis(n % 20)).await),
                _ => drop(lock.acquire().await.unwrap()),
            }
        });
    }
    all(burst).await;
    for n in 0..50 {
        let guard = locks.lock((n % 3).to_string()).acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    eventually(async || (locks.held(), locks.waiting()) == (0, 0)).await;
    for key in ["0", "1", "2"] {
        eventually(async || {
            let record = locks.get(key).await.unwrap().unwrap();
            record.grants.is_empty() && record.tickets.is_empty()
        })
        .await;
    }
}

/// 3.9: four namespaces at once; the same key in each is another lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_namespaces_do_not_disturb_each_other() {
    let locks = manager();
    let mut tasks = JoinSet::new();
    let mut all_occupancy = Vec::new();
    for namespace in ["orders", "seats", "payments", "users"] {
        let occupancy = Arc::new(Occupancy::default());
        all_occupancy.push(occupancy.clone());
        let locks = locks.in_namespace(namespace).unwrap();
        for _ in 0..25 {
            let (lock, occupancy) = (locks.lock("1"), occupancy.clone());
            tasks.spawn(async move {
                for _ in 0..5 {
                    let guard = lock.acquire().await.unwrap();
                    occupancy.visit().await;
                    guard.release().await.unwrap();
                }
            });
        }
    }
    all(tasks).await;
    for occupancy in all_occupancy {
        occupancy.never_above_one(125);
    }
}

/// 3.9: reentry under load; every inner take succeeds, three deep.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reentry_succeeds_at_every_depth_under_load() {
    let (locks, occupancy) = (manager(), Arc::new(Occupancy::default()));
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let (lock, occupancy) = (locks.lock("1").scope(&Scope::new()), occupancy.clone());
        tasks.spawn(async move {
            for _ in 0..10 {
                let outer = lock.acquire().await.unwrap();
                let middle = lock.try_acquire().await.unwrap().unwrap();
                let inner = lock.acquire_within(Duration::ZERO).await.unwrap();
                assert_eq!((outer.token(), inner.depth()), (inner.token(), 3));
                occupancy.visit().await;
                outer.release().await.unwrap();
                drop(middle);
                inner.release().await.unwrap();
            }
        });
    }
    all(tasks).await;
    occupancy.never_above_one(200);
}

/// 3.9: lock, try, look and force, all mixed: nothing but clear answers, and a free lock in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_mix_of_everything_ends_with_a_free_lock() {
    let locks = manager();
    let mut tasks = JoinSet::new();
    for n in 0..20 {
        let locks = locks.clone();
        tasks.spawn(async move {
            let lock = locks.lock("1");
            for round in 0..20 {
                match (n + round) % 5 {
                    0 => drop(locks.is_locked("1").await.unwrap()),
                    1 => drop(locks.force_release("1", "chaos").await.unwrap()),
                    2 => drop(lock.try_acquire().await.unwrap()),
                    _ => {
                        let guard = lock.acquire().await.unwrap();
                        if let Err(error) = guard.release().await {
                            assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
                        }
                    }
                }
            }
        });
    }
    all(tasks).await;
    eventually(async || !locks.is_locked("1").await.unwrap()).await;
    assert_eq!(locks.waiting(), 0);
}

/// Fairness: those who came first are served first, and nobody is overtaken.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn local_waiters_are_never_overtaken() {
    let locks = manager();
    let guard = locks.lock("1").acquire().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let cancel = CancellationToken::new();
    let mut tasks = JoinSet::new();
    for n in 0..60 {
        let (served, lock) = (served.clone(), locks.lock("1"));
        let lock = if n % 3 == 2 {
            lock.cancelled_by(cancel.clone())
        } else {
            lock
        };
        tasks.spawn(async move {
            let Ok(guard) = lock.acquire().await else {
                return;
            };
            served.lock().unwrap().push(n);
            guard.release().await.unwrap();
        });
        eventually(async || locks.waiting() == n + 1).await;
    }
    cancel.cancel();
    eventually(async || locks.waiting() == 40).await;
    guard.release().await.unwrap();
    all(tasks).await;
    let expected: Vec<_> = (0..60).filter(|n| n % 3 != 2).collect();
    assert_eq!(*served.lock().unwrap(), expected);
}

/// Fairness: with the same work for all, nobody is starved.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_starves_while_others_come_again_and_again() {
    const TASKS: usize = 20;
    let locks = manager();
    let turns: Arc<Vec<AtomicUsize>> = Arc::new((0..TASKS).map(|_| AtomicUsize::new(0)).collect());
    let total = Arc::new(AtomicUsize::new(0));
    let barrier = Arc::new(Barrier::new(TASKS));
    let mut tasks = JoinSet::new();
    for n in 0..TASKS {
        let (lock, turns, total, barrier) = (
            locks.lock("1"),
            turns.clone(),
            total.clone(),
            barrier.clone(),
        );
        tasks.spawn(async move {
            barrier.wait().await;
            while total.fetch_add(1, Ordering::SeqCst) < 2000 {
                let guard = lock.acquire().await.unwrap();
                turns[n].fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                guard.release().await.unwrap();
            }
        });
    }
    all(tasks).await;
    let turns: Vec<_> = turns
        .iter()
        .map(|turns| turns.load(Ordering::SeqCst))
        .collect();
    assert!(turns.iter().all(|turns| *turns >= 20), "{turns:?}");
}

/// S2-12: a semaphore under load is never overdrawn, and is used to the full.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_semaphore_is_never_overdrawn_under_load() {
    let locks = manager();
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for n in 0..30 {
        let units = 1 + n % 3;
        let gpu = locks.semaphore("gpu", 4).units(units);
        let (inside, most) = (inside.clone(), most.clone());
        tasks.spawn(async move {
            for _ in 0..10 {
                let guard = gpu.acquire().await.unwrap();
                let now = inside.fetch_add(units as usize, Ordering::SeqCst) + units as usize;
                most.fetch_max(now, Ordering::SeqCst);
                tokio::task::yield_now().await;
                inside.fetch_sub(units as usize, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    all(tasks).await;
    assert!(most.load(Ordering::SeqCst) <= 4);
}

/// G-14, G-15: sets of names and readers, crossing each other under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn crossing_sets_and_readers_finish_and_exclude_each_other() {
    let locks = manager();
    let occupancy: Vec<_> = (0..5).map(|_| Arc::new(Occupancy::default())).collect();
    let mut tasks = JoinSet::new();
    for n in 0..20_usize {
        let (one, two) = (n % 5, (n + 1) % 5);
        let (locks, occupancy) = (locks.clone(), occupancy[one].clone());
        tasks.spawn(async move {
            for _ in 0..20 {
                if n < 15 {
                    let guard = locks
                        .all([two.to_string(), one.to_string()])
                        .acquire()
                        .await
                        .unwrap();
                    occupancy.visit().await;
                    guard.release().await.unwrap();
                } else {
                    let guard = locks
                        .lock(one.to_string())
                        .shared()
                        .acquire()
                        .await
                        .unwrap();
                    assert_eq!(
                        occupancy.inside.load(Ordering::SeqCst),
                        0,
                        "a reader beside a writer"
                    );
                    guard.release().await.unwrap();
                }
            }
        });
    }
    all(tasks).await;
    for occupancy in occupancy {
        occupancy.never_above_one(60);
    }
    assert_eq!((locks.held(), locks.waiting()), (0, 0));
}
