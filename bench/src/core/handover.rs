//! From just before a release to the next waiter running, with 64 waiters of one name in one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use leasehold_core::Result;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio::task::yield_now;

use super::setup::{locks, this_thread, two_threads};
use crate::bench::Outcome;
use crate::measure::{Subject, interleave, median};
use crate::report::{Figure, Row, Target};

const BENCH: &str = "core/handover";
const WAITERS: usize = 64;
const TURNS: usize = 100;
const ROUNDS: usize = 9;

/// Measures on two threads, which counts, and on one.
pub(super) fn measure() -> Outcome {
    let target = Target::AtMost {
        must: 6.0,
        goal: 2.0,
    };
    let mut two = on(&two_threads()?, "2 threads")?;
    two[0] = two[0].clone().target(target);
    let one = on(&this_thread()?, "1 thread")?;
    two.extend(one);
    Ok(two)
}

fn on(runtime: &Runtime, threads: &str) -> Outcome {
    let inside = runtime.enter();
    let lock = Arc::new(locks()?.lock("one"));
    drop(inside);
    let mutex = Arc::new(Mutex::new(()));
    let mut fairness = Vec::new();
    let [floor, ours] = interleave(
        ROUNDS,
        [
            Subject::new(|| {
                let mutex = mutex.clone();
                let contest = move |turn: Turn| {
                    let mutex = mutex.clone();
                    async move {
                        let guard = mutex.lock().await;
                        turn.run().await;
                        drop(guard);
                        Ok(())
                    }
                };
                runtime.block_on(contend(contest)).p50
            }),
            Subject::new(|| {
                let lock = lock.clone();
                let contest = move |turn: Turn| {
                    let lock = lock.clone();
                    async move {
                        let guard = lock.acquire().await?;
                        turn.run().await;
                        guard.release().await
                    }
                };
                let contest = runtime.block_on(contend(contest));
                fairness.push(contest.handed_over);
                contest.p50
            }),
        ],
    );
    let what = format!("p50 ÷ tokio Mutex, {threads}");
    let went_on = format!("sections that went to another waiter, {threads}");
    Ok(vec![
        Row::times(BENCH, what, &ours, &floor),
        Row::new(BENCH, went_on, Figure::Number(median(fairness))),
    ])
}

/// What came of one contest.
struct Contest {
    /// The median hand-over, in nanoseconds.
    p50: f64,
    /// How many sections, of all, came to another task than the one before.
    handed_over: f64,
}

/// Lets all tasks contend until each had its turns.
async fn contend<S, F>(section: S) -> Contest
where
    S: Fn(Turn) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let probe = Arc::new(Probe::new());
    let tasks = (0..WAITERS).map(|me| {
        let (probe, section) = (probe.clone(), section.clone());
        tokio::spawn(async move {
            for _ in 0..TURNS {
                let turn = Turn {
                    probe: probe.clone(),
                    me,
                };
                let result = section(turn).await;
                assert!(result.is_ok(), "{result:?}");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert!(task.await.is_ok(), "a task failed");
    }
    let latencies = probe.latencies.lock().await.clone();
    let handed_over = latencies.len() as f64 / (WAITERS * TURNS) as f64;
    Contest {
        p50: median(latencies),
        handed_over,
    }
}

/// Written only by whoever holds the lock.
struct Probe {
    origin: Instant,
    released_at: AtomicU64,
    last: AtomicUsize,
    latencies: Mutex<Vec<f64>>,
}

impl Probe {
    fn new() -> Self {
        Self {
            origin: Instant::now(),
            released_at: AtomicU64::new(0),
            last: AtomicUsize::new(usize::MAX),
            latencies: Mutex::new(Vec::with_capacity(WAITERS * TURNS)),
        }
    }

    fn nanos(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// One section of one task.
struct Turn {
    probe: Arc<Probe>,
    me: usize,
}

impl Turn {
    /// Holds the lock for one turn of the scheduler, so that everybody else comes to wait for it.
    async fn run(&self) {
        self.begin();
        yield_now().await;
        self.end();
    }

    /// The section begins: notes how long the hand-over took, if there was one.
    fn begin(&self) {
        let now = self.probe.nanos();
        let last = self.probe.last.swap(self.me, Ordering::Relaxed);
        if last != self.me && last != usize::MAX {
            let since = now.saturating_sub(self.probe.released_at.load(Ordering::Relaxed));
            if let Ok(mut latencies) = self.probe.latencies.try_lock() {
                latencies.push(since as f64);
            }
        }
    }

    /// The section is about to end.
    fn end(&self) {
        let now = self.probe.nanos();
        self.probe.released_at.store(now, Ordering::Relaxed);
    }
}
