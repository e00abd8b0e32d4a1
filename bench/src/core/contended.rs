//! Eight tasks that try one key: whoever gets it keeps it for one turn of the scheduler.

use std::sync::Arc;

use leasehold_core::{Lock, Result};
use tokio::runtime::Runtime;
use tokio::task::yield_now;

use super::floor::LeaseMap;
use super::setup::{locks, two_threads};
use crate::bench::Outcome;
use crate::measure::{Subject, interleave};
use crate::report::Row;

const BENCH: &str = "core/contended";
const TASKS: usize = 8;
const TRIES: usize = 2_000;
const ROUNDS: usize = 15;

/// Measures tries per second, most of them refused.
pub(super) fn measure() -> Outcome {
    let runtime = two_threads()?;
    let inside = runtime.enter();
    let lock = locks()?.lock("one");
    drop(inside);
    let (lock, map) = (Arc::new(lock), Arc::new(LeaseMap::new()));
    let [floor, ours] = interleave(
        ROUNDS,
        [
            Subject::timed(TASKS * TRIES, || all(&runtime, || floor_tries(map.clone()))),
            Subject::timed(TASKS * TRIES, || all(&runtime, || tries(lock.clone()))),
        ],
    );
    let what = "try_acquire, 8 tasks on one key ÷ lease map";
    Ok(vec![Row::rates(BENCH, what, &ours, &floor)])
}

async fn floor_tries(map: Arc<LeaseMap>) -> Result<()> {
    let key: Arc<str> = "one".into();
    for _ in 0..TRIES {
        let grant = map.try_acquire(&key);
        yield_now().await;
        assert!(grant.is_none_or(|grant| map.release(&key, grant)));
    }
    Ok(())
}

async fn tries(lock: Arc<Lock>) -> Result<()> {
    for _ in 0..TRIES {
        let guard = lock.try_acquire().await?;
        yield_now().await;
        if let Some(guard) = guard {
            guard.release().await?;
        }
    }
    Ok(())
}

/// Runs all tasks until each has made its tries.
fn all<F>(runtime: &Runtime, task: impl Fn() -> F)
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let tasks: Vec<_> = (0..TASKS).map(|_| runtime.spawn(task())).collect();
    for task in tasks {
        let result = runtime.block_on(task);
        assert!(matches!(result, Ok(Ok(()))), "{result:?}");
    }
}
