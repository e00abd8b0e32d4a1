//! What a pair costs while other names are held.

use leasehold_core::{Guard, Lock, Locks, Result};
use tokio::runtime::Runtime;

use super::lock_pair::pairs;
use super::setup::{KEYS, handles, locks, scattered, this_thread};
use crate::bench::Outcome;
use crate::measure::{Subject, interleave};
use crate::report::{Row, Target};

const BENCH: &str = "core/held";
const ROUNDS: usize = 15;
const HELD: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// Measures the same pairs beside a thousand to a million names held through the same manager.
pub(super) fn measure() -> Outcome {
    let runtime = this_thread()?;
    let mut crowds = Vec::new();
    for count in HELD {
        crowds.push(runtime.block_on(Crowd::gather(count))?);
    }
    let (runtime, beside) = (&runtime, &crowds);
    let subject =
        |at: usize| Subject::on_this_thread(KEYS, move || pair_beside(runtime, &beside[at]));
    let [k1, k10, k100, m1] = interleave(ROUNDS, [subject(0), subject(1), subject(2), subject(3)]);
    let row = |what: &str, ours| Row::times(BENCH, what, ours, &k1);
    let rows = vec![
        row("pair beside 10 k held ÷ beside 1 k", &k10),
        row("pair beside 100 k held ÷ beside 1 k", &k100),
        row("pair beside 1 M held ÷ beside 1 k", &m1).target(Target::AtMost {
            must: 2.0,
            goal: 1.2,
        }),
    ];
    crowds.into_iter().for_each(Crowd::leave);
    Ok(rows)
}

fn pair_beside(runtime: &Runtime, crowd: &Crowd) {
    let result = runtime.block_on(pairs(&crowd.free, scattered(KEYS)));
    assert!(result.is_ok(), "{result:?}");
}

/// Names that are held, and locks that are free.
struct Crowd {
    guards: Vec<Guard>,
    free: Vec<Lock>,
    _locks: Locks,
}

impl Crowd {
    async fn gather(count: usize) -> Result<Self> {
        let locks = locks()?;
        let mut guards = Vec::with_capacity(count);
        for at in 0..count {
            guards.push(locks.lock(format!("held-{at:08}")).acquire().await?);
        }
        Ok(Self {
            guards,
            free: handles(&locks, KEYS),
            _locks: locks,
        })
    }

    /// Nobody needs these leases to be released one by one.
    fn leave(self) {
        self.guards.into_iter().for_each(Guard::forget);
    }
}
