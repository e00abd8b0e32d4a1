//! Eight tasks that try one key: whoever gets it keeps it for one turn of the scheduler.

use std::sync::Arc;

use leasehold_core::Result;
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
    let (map, key): (_, Arc<str>) = (Arc::new(LeaseMap::new()), "one".into());
    let [floor, ours] = interleave(
        ROUNDS,
        [
            Subject::timed(TASKS * TRIES, || {
                all(&runtime, || {
                    let (map, key) = (map.clone(), key.clone());
                    async move {
                        let grant = map.try_acquire(&key);
                        yield_now().await;
                        if let Some(grant) = grant {
                            assert!(map.release(&key, grant));
                        }
                        Ok(())
                    }
                });
            }),
            Subject::timed(TASKS * TRIES, || {
                all(&runtime, || {
                    let lock = lock.clone();
                    async move {
                        let guard = lock.try_acquire().await?;
                        yield_now().await;
                        match guard {
                            Some(guard) => guard.release().await,
                            None => Ok(()),
                        }
                    }
                });
            }),
        ],
    );
    let what = "try_acquire, 8 tasks on one key ÷ lease map";
    Ok(vec![Row::rates(BENCH, what, &ours, &floor)])
}

/// Runs all tasks until each has made its tries.
fn all<F>(runtime: &Runtime, one: impl Fn() -> F + Clone + Send + 'static)
where
    F: Future<Output = Result<()>> + Send,
{
    let tasks = (0..TASKS).map(|_| {
        let one = one.clone();
        runtime.spawn(async move {
            for _ in 0..TRIES {
                one().await?;
            }
            Result::Ok(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        let result = runtime.block_on(task);
        assert!(matches!(result, Ok(Ok(()))), "{result:?}");
    }
}
