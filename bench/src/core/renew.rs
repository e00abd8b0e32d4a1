//! Renewing 100,000 leases in one call.

use std::hint::black_box;

use leasehold_core::backend::{Acquire, Names, Renew, RenewItem, Renewed};
use leasehold_core::memory::Memory;
use leasehold_core::{Backend, Clock, Holder, Result, SystemClock};

use super::backend_pair::granted;
use super::floor::LeaseMap;
use super::setup::{key, keys, name, owner, scattered, this_thread, ttl};
use crate::bench::Outcome;
use crate::measure::{Subject, interleave};
use crate::report::{Row, Target};

const BENCH: &str = "core/renew";
const LEASES: usize = 100_000;
const ROUNDS: usize = 15;

/// Measures one call against as many updates of the lease map, each under the lock of its shard.
pub(super) fn measure() -> Outcome {
    let runtime = this_thread()?;
    let (map, keys) = (LeaseMap::new(), keys(LEASES));
    let held = scattered(LEASES).map(|at| Some((&keys[at], map.try_acquire(&keys[at])?)));
    let held: Vec<_> = held.flatten().collect();
    let memory = Memory::new();
    let request = runtime.block_on(hold(&memory))?;
    let [floor, ours] = interleave(
        ROUNDS,
        [
            Subject::on_this_thread(1, || {
                let now = SystemClock.now().as_nanos();
                for (key, grant) in &held {
                    assert!(map.renew(key, *grant, now));
                }
            }),
            Subject::on_this_thread(1, || {
                let answers = runtime.block_on(memory.renew(&request));
                assert!(answers.is_ok_and(|answers| all_renewed(&black_box(answers))));
            }),
        ],
    );
    let target = Target::AtMost {
        must: 8.0,
        goal: 3.0,
    };
    let what = "one call for 100,000 ÷ as many map updates";
    Ok(vec![Row::times(BENCH, what, &ours, &floor).target(target)])
}

/// Takes all names and says how to renew them.
async fn hold(memory: &Memory) -> Result<Renew> {
    let mut items = Vec::with_capacity(LEASES);
    for at in scattered(LEASES) {
        let (name, holder) = (name(&key(at))?, Holder::random());
        let names = Names::one(name.clone());
        let request = Acquire::new(names, holder.clone(), owner()?, ttl()?);
        let lease = granted(memory.acquire(&request).await?)?;
        items.push(RenewItem::lease(name, holder, lease.token, ttl()?));
    }
    Ok(Renew { items })
}

fn all_renewed(answers: &[Result<Renewed>]) -> bool {
    answers.len() == LEASES
        && answers
            .iter()
            .all(|answer| matches!(answer, Ok(Renewed::Renewed(_))))
}
