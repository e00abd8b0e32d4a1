//! The meters of the lock layer: the five of the documents and ours, with labels from closed sets.

#![cfg(feature = "observe")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::lock::{CancellationToken, LocksBuilder, Warnings};
use leasehold_core::memory::Memory;
use leasehold_core::{Backend, Locks, ManualClock};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);

/// A manager under meters that only this thread writes to.
struct World {
    locks: Locks,
    clock: ManualClock,
    store: Arc<Memory>,
    snapshotter: Snapshotter,
    totals: BTreeMap<String, f64>,
}

/// Runs a test on one thread, under a recorder of its own.
fn run(observed: bool, test: impl AsyncFnOnce(World)) {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let clock = ManualClock::new();
        let store = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
        let mut builder = builder(&store, &clock);
        if observed {
            builder = builder.observed(Warnings::default());
        }
        let locks = builder.build().unwrap();
        test(World {
            locks,
            clock,
            store,
            snapshotter,
            totals: BTreeMap::new(),
        })
        .await;
    });
}

fn builder(store: &Arc<Memory>, clock: &ManualClock) -> LocksBuilder {
    Locks::new(store.clone() as Arc<dyn Backend>)
        .namespace("orders")
        .ttl(TTL)
        .sweep_every(None)
        .clock(Arc::new(clock.clone()))
}

impl World {
    /// Every meter so far: counters and gauges by their value, histograms by how many values they got.
    fn meters(&mut self) -> &BTreeMap<String, f64> {
        // A snapshot empties every meter, so they are added up here.
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let mut labels: Vec<_> = key
                .key()
                .labels()
                .map(|label| format!("{}={}", label.key(), label.value()))
                .collect();
            labels.sort();
            let meter = format!("{}{{{}}}", key.key().name(), labels.join(","));
            let total = self.totals.entry(meter).or_default();
            match value {
                DebugValue::Counter(count) => *total += count as f64,
                DebugValue::Gauge(change) => *total += change.into_inner(),
                DebugValue::Histogram(values) => *total += values.len() as f64,
            }
        }
        &self.totals
    }

    /// A meter of the manager's own namespace.
    fn meter(&mut self, name: &str, label: &str) -> f64 {
        let labels = ["backend=memory", label, "namespace=orders"];
        let mut labels: Vec<_> = labels
            .into_iter()
            .filter(|label| !label.is_empty())
            .collect();
        labels.sort_unstable();
        let meter = format!("leasehold_{name}{{{}}}", labels.join(","));
        self.meters().get(&meter).copied().unwrap_or_default()
    }

    async fn pass(&self, time: Duration) {
        let step = Duration::from_millis(100);
        settle().await;
        for _ in 0..time.as_millis() / step.as_millis() {
            self.clock.advance(step);
            settle().await;
        }
    }
}

/// Lets every task run until none has anything to do.
async fn settle() {
    for _ in 0..30 {
        tokio::task::yield_now().await;
    }
}

/// S0-17: time to acquire and attempts, by result.
#[test]
fn acquisitions_are_counted_and_timed_by_result() {
    run(true, async |mut world| {
        let guard = world.locks.lock("1").acquire().await.unwrap();
        assert!(world.locks.lock("1").try_acquire().await.unwrap().is_none());
        let cancel = CancellationToken::new();
        let cancelled = tokio::spawn({
            let lock = world.locks.lock("1").cancelled_by(cancel.clone());
            async move { lock.acquire().await.map(drop) }
        });
        let late = tokio::spawn({
            let lock = world.locks.lock("1");
            async move { lock.acquire_within(SECOND).await.map(drop) }
        });
        settle().await;
        assert_eq!(world.meter("waiters", ""), 2.0);
        cancel.cancel();
        world.pass(SECOND).await;
        assert!(cancelled.await.unwrap().is_err() && late.await.unwrap().is_err());
        guard.release().await.unwrap();
        for result in ["acquired", "unavailable", "interrupted", "timeout"] {
            let label = format!("result={result}");
            assert_eq!(
                world.meter("acquire_attempts_total", &label),
                1.0,
                "{result}"
            );
            assert_eq!(world.meter("acquire_seconds", &label), 1.0, "{result}");
        }
        assert_eq!(world.meter("acquire_attempts_total", "result=error"), 0.0);
        assert_eq!(world.meter("waiters", ""), 0.0);
    });
}

/// S0-17, S1-07: held time, expiries, releases by outcome, losses by cause; and the active gauge comes back to zero
/// after every way a hold can end.
#[test]
fn holds_are_timed_and_the_active_gauge_comes_back_to_zero() {
    run(true, async |mut world| {
        let lock = world.locks.lock("1");
        let mut ended = 0.0;
        lock.acquire().await.unwrap().release().await.unwrap();
        ended += 1.0;
        assert_eq!(
            (world.meter("active", ""), world.meter("held_seconds", "")),
            (0.0, ended)
        );
        drop(lock.acquire().await.unwrap());
        ended += 1.0;
        settle().await;
        assert_eq!(
            (world.meter("active", ""), world.meter("held_seconds", "")),
            (0.0, ended)
        );
        let guard = lock.acquire().await.unwrap();
        assert_eq!(world.meter("active", ""), 1.0);
        world.pass(TTL).await;
        ended += 1.0;
        assert_eq!(
            (world.meter("active", ""), world.meter("held_seconds", "")),
            (0.0, ended)
        );
        assert!(guard.release().await.is_err());
        let guard = lock.acquire().await.unwrap();
        world.locks.force_release("1", "stuck").await.unwrap();
        assert!(guard.release().await.is_err());
        ended += 1.0;
        let handover = lock.acquire().await.unwrap().hand_over().unwrap();
        ended += 1.0;
        assert_eq!(
            (world.meter("active", ""), world.meter("held_seconds", "")),
            (0.0, ended)
        );
        let adopted = world.locks.adopt(&handover).await.unwrap();
        assert_eq!(world.meter("active", ""), 1.0);
        adopted.release().await.unwrap();
        ended += 1.0;
        lock.acquire().await.unwrap().forget();
        ended += 1.0;
        let _kept = world.locks.lock("2").acquire().await.unwrap();
        world.locks.shutdown(SECOND).await.unwrap();
        ended += 1.0;
        assert_eq!(
            (world.meter("active", ""), world.meter("held_seconds", "")),
            (0.0, ended)
        );
        assert_eq!(world.meter("expired_total", ""), 1.0);
        assert_eq!(world.meter("forced_total", ""), 1.0);
        assert_eq!(world.meter("lost_total", "cause=expired"), 1.0);
        assert_eq!(world.meter("lost_total", "cause=forced"), 1.0);
        assert_eq!(world.meter("releases_total", "outcome=released"), 2.0);
        assert_eq!(world.meter("releases_total", "outcome=dropped"), 1.0);
        assert_eq!(world.meter("lost_total", "cause=shut_down"), 1.0);
        assert_eq!(world.meter("releases_total", "outcome=left_behind"), 2.0);
        assert_eq!(world.meter("releases_total", "outcome=lost"), 2.0);
    });
}

/// S0-17: also if a future is dropped, a body panics or a lock is taken again.
#[test]
fn the_gauges_come_back_to_zero_after_dropped_futures_and_panics() {
    run(true, async |mut world| {
        let lock = world.locks.lock("1").renewing();
        let body = tokio::spawn({
            let lock = lock.clone();
            async move { lock.run(|_| std::future::pending::<()>()).await.is_ok() }
        });
        let waiter = tokio::spawn({
            let lock = lock.clone();
            async move { lock.run(|_| async {}).await.is_ok() }
        });
        settle().await;
        assert_eq!(
            (world.meter("active", ""), world.meter("waiters", "")),
            (1.0, 1.0)
        );
        waiter.abort();
        body.abort();
        settle().await;
        assert_eq!(
            (world.meter("active", ""), world.meter("waiters", "")),
            (0.0, 0.0)
        );
        let scoped = lock.clone().scope(&leasehold_core::lock::Scope::new());
        let (outer, inner) = (
            scoped.acquire().await.unwrap(),
            scoped.acquire().await.unwrap(),
        );
        assert_eq!(world.meter("active", ""), 1.0);
        drop((outer, inner));
        let body = tokio::spawn(async move {
            lock.run::<(), _, _>(|_| async { std::panic::resume_unwind(Box::new("as told")) })
                .await
                .is_ok()
        });
        assert!(body.await.is_err());
        let done = world.locks.idempotent("2");
        let answer = done
            .run(|_| async { Ok::<_, leasehold_core::Error>("x".into()) })
            .await;
        assert!(answer.unwrap().fresh);
        settle().await;
        assert_eq!(
            (world.meter("active", ""), world.meter("waiters", "")),
            (0.0, 0.0)
        );
    });
}

/// Renewals are seen, and how late they were.
#[test]
fn renewals_are_measured() {
    run(true, async |mut world| {
        let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
        world.pass(2 * TTL).await;
        let renewals = world.meter("renewal_lag_seconds", "");
        assert!((5.0..=7.0).contains(&renewals), "{renewals}");
        guard.release().await.unwrap();
    });
}

/// S0-17: labels come from closed sets, however many keys, namespaces and owners there are.
#[test]
fn labels_stay_few_with_a_thousand_keys_and_a_hundred_namespaces() {
    run(true, async |mut world| {
        for n in 0..1000 {
            let key = format!("key-{n}");
            let guard = world.locks.lock(&key).acquire().await.unwrap();
            assert!(
                world
                    .locks
                    .lock(&key)
                    .try_acquire()
                    .await
                    .unwrap()
                    .is_none()
            );
            guard.release().await.unwrap();
        }
        let few = world.meters().len();
        for n in 0..100 {
            let locks = world.locks.in_namespace(&format!("namespace-{n}")).unwrap();
            let guard = locks
                .lock("key")
                .metadata(format!("text-{n}"))
                .acquire()
                .await
                .unwrap();
            assert!(locks.lock("key").try_acquire().await.unwrap().is_none());
            locks
                .force_release("key", &format!("reason-{n}"))
                .await
                .unwrap();
            drop(guard.release().await);
        }
        let meters = world.meters();
        assert!(few < 10, "{meters:#?}");
        assert!(meters.len() < 30, "{meters:#?}");
        let namespaces: BTreeSet<_> = meters
            .keys()
            .filter_map(|meter| meter.split_once("namespace="))
            .map(|(_, rest)| rest.split([',', '}']).next().unwrap_or_default())
            .collect();
        assert_eq!(namespaces, BTreeSet::from(["orders", "other"]));
        for secret in ["key-", "namespace-", "text-", "reason-", "pid-"] {
            assert!(
                !meters.keys().any(|meter| meter.contains(secret)),
                "{secret}"
            );
        }
    });
}

/// S1-06: two managers side by side do not count for each other.
#[test]
fn managers_of_different_namespaces_are_told_apart() {
    run(true, async |mut world| {
        let billing = builder(&world.store, &world.clock)
            .namespace("billing")
            .observed(Warnings::default())
            .build()
            .unwrap();
        let _one = world.locks.lock("1").acquire().await.unwrap();
        let _two = billing.lock("1").acquire().await.unwrap();
        let _three = billing.lock("2").acquire().await.unwrap();
        assert_eq!(world.meter("active", ""), 1.0);
        let active = "leasehold_active{backend=memory,namespace=billing}";
        assert_eq!(world.meters()[active], 2.0);
    });
}

/// S0-17: zero cost when off.
#[test]
fn nothing_is_recorded_unless_it_is_asked_for() {
    run(false, async |mut world| {
        let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
        assert!(world.locks.lock("1").try_acquire().await.unwrap().is_none());
        world.pass(TTL).await;
        world.locks.force_release("1", "stuck").await.unwrap();
        drop(guard.release().await);
        assert!(world.meters().is_empty(), "{:?}", world.totals);
    });
}
