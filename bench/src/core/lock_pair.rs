//! Acquire and release without contention, through [`Lock`].

use std::hint::black_box;
use std::sync::Arc;

use leasehold_core::{Lock, Locks, Result};
use tokio::runtime::Runtime;

use super::floor::LeaseMap;
use super::setup::{KEYS, handles, key, keys, locks, scattered, this_thread, two_threads};
use super::{backend_pair, peers};
use crate::alloc;
use crate::bench::Outcome;
use crate::measure::{Samples, Subject, interleave};
use crate::report::{Figure, Row, Target};

const BENCH: &str = "core/lock";
const ROUNDS: usize = 15;
/// The names made per call are measured over keys whose text exists already.
type Texts = Vec<String>;

/// Measures all ways to take a free lock, and what peers need for something similar.
pub(super) fn measure() -> Outcome {
    let mut rows = one_thread()?;
    rows.extend(on_two_threads()?);
    Ok(rows)
}

fn one_thread() -> Outcome {
    let runtime = this_thread()?;
    let (locks, handles) = managed(&runtime)?;
    let (map, keys) = (LeaseMap::new(), keys(KEYS));
    let texts: Texts = (0..KEYS).map(key).collect();
    let peers = peers::Peers::new();
    let [floor, acquire, attempt, made, keyed, lockmap, dashmap] = interleave(
        ROUNDS,
        [
            Subject::on_this_thread(KEYS, || floor_pairs(&map, &keys, scattered(KEYS))),
            Subject::on_this_thread(KEYS, || {
                done(runtime.block_on(pairs(&handles, scattered(KEYS))))
            }),
            Subject::on_this_thread(KEYS, || done(runtime.block_on(tried(&handles)))),
            Subject::on_this_thread(KEYS, || done(runtime.block_on(made_each(&locks, &texts)))),
            Subject::on_this_thread(KEYS, || runtime.block_on(peers.keyed_lock(&keys))),
            Subject::on_this_thread(KEYS, || peers.lockmap(&keys)),
            Subject::on_this_thread(KEYS, || peers.dashmap(&keys)),
        ],
    );
    let target = Target::AtLeast {
        must: 0.20,
        goal: 0.50,
    };
    let row = |what: &str, ours: &Samples| Row::rates(BENCH, what, ours, &floor);
    Ok(vec![
        row("acquire + release ÷ lease map, 1 thread", &acquire).target(target),
        row("try_acquire + release ÷ lease map", &attempt),
        row("lock(key) + acquire + release ÷ lease map", &made),
        Row::rates(BENCH, "acquire + release ÷ keyed-lock", &acquire, &keyed),
        row("peer: keyed-lock ÷ lease map", &keyed),
        row("peer: lockmap ÷ lease map", &lockmap),
        row("peer: dashmap insert + remove ÷ lease map", &dashmap),
        allocations(&runtime, &handles),
    ])
}

fn on_two_threads() -> Outcome {
    let runtime = two_threads()?;
    let (_locks, handles) = managed(&runtime)?;
    let handles = Arc::new(handles);
    let (map, keys) = (Arc::new(LeaseMap::new()), Arc::new(keys(KEYS)));
    let [floor, ours] = interleave(
        ROUNDS,
        [
            Subject::timed(KEYS, || {
                backend_pair::halves(&runtime, |half| {
                    let (map, keys) = (map.clone(), keys.clone());
                    async move {
                        floor_pairs(&map, &keys, half);
                        Ok(())
                    }
                });
            }),
            Subject::timed(KEYS, || {
                backend_pair::halves(&runtime, |half| {
                    let handles = handles.clone();
                    async move { pairs(&handles, half).await }
                });
            }),
        ],
    );
    let what = "acquire + release ÷ lease map, 2 threads";
    Ok(vec![Row::rates(BENCH, what, &ours, &floor)])
}

fn managed(runtime: &Runtime) -> Outcome<(Locks, Vec<Lock>)> {
    let _inside = runtime.enter();
    let locks = locks()?;
    let handles = handles(&locks, KEYS);
    Ok((locks, handles))
}

/// One pair on the floor for each of these keys.
pub(super) fn floor_pairs(map: &LeaseMap, keys: &[Arc<str>], order: impl Iterator<Item = usize>) {
    for at in order {
        let key = &keys[at];
        let grant = map.try_acquire(key);
        assert!(grant.is_some_and(|grant| map.release(key, black_box(grant))));
    }
}

/// One pair through each of these locks.
pub(super) async fn pairs(locks: &[Lock], order: impl Iterator<Item = usize>) -> Result<()> {
    for at in order {
        let guard = locks[at].acquire().await?;
        black_box(guard).release().await?;
    }
    Ok(())
}

async fn tried(locks: &[Lock]) -> Result<()> {
    for at in scattered(KEYS) {
        if let Some(guard) = locks[at].try_acquire().await? {
            black_box(guard).release().await?;
        }
    }
    Ok(())
}

async fn made_each(locks: &Locks, keys: &[String]) -> Result<()> {
    for at in scattered(KEYS) {
        let guard = locks.lock(&keys[at]).acquire().await?;
        black_box(guard).release().await?;
    }
    Ok(())
}

fn allocations(runtime: &Runtime, locks: &[Lock]) -> Row {
    let run = || done(runtime.block_on(pairs(locks, scattered(KEYS))));
    let ((), usage) = alloc::count(run);
    let each = Figure::Number(usage.calls as f64 / KEYS as f64);
    Row::new(BENCH, "allocations per pair", each)
}

/// A pair that fails would be measured as a fast one.
fn done(result: Result<()>) {
    assert!(result.is_ok(), "{result:?}");
}
