//! Acquire and release over 1,000 keys, over and over.

use super::floor::LeaseMap;
use super::lock_pair::{floor_pairs, pairs};
use super::setup::{handles, keys, locks, scattered, this_thread};
use crate::bench::Outcome;
use crate::measure::{Subject, interleave};
use crate::report::Row;

const BENCH: &str = "core/cycle";
const KEYS: usize = 1_000;
const CYCLES: usize = 10;
const ROUNDS: usize = 15;

/// Measures pairs on keys that all fit into the processor's caches.
pub(super) fn measure() -> Outcome {
    let runtime = this_thread()?;
    let inside = runtime.enter();
    let locks = locks()?;
    drop(inside);
    let (handles, map, keys) = (handles(&locks, KEYS), LeaseMap::new(), keys(KEYS));
    let order = || (0..CYCLES).flat_map(|_| scattered(KEYS));
    let [floor, ours] = interleave(
        ROUNDS,
        [
            Subject::on_this_thread(KEYS * CYCLES, || floor_pairs(&map, &keys, order())),
            Subject::on_this_thread(KEYS * CYCLES, || {
                let result = runtime.block_on(pairs(&handles, order()));
                assert!(result.is_ok(), "{result:?}");
            }),
        ],
    );
    let what = "acquire + release over 1,000 keys ÷ lease map";
    Ok(vec![Row::rates(BENCH, what, &ours, &floor)])
}
