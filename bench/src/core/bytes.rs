//! Memory per held lease, names included, with a million of them.

use leasehold_core::backend::{Acquire, Names};
use leasehold_core::memory::Memory;
use leasehold_core::{Backend, Guard, Holder, Locks, Result};

use super::backend_pair::granted;
use super::floor::LeaseMap;
use super::setup::{key, locks, name, owner, this_thread, ttl};
use crate::alloc::{self, Usage};
use crate::bench::Outcome;
use crate::report::{Figure, Row, Target};

const BENCH: &str = "core/bytes";
const HELD: usize = 1_000_000;

/// Counts what stays allocated once all leases are held.
pub(super) fn measure() -> Outcome {
    let runtime = this_thread()?;
    let (map, floor) = alloc::count(fill_floor);
    drop(map);
    let (memory, store) = alloc::count(|| runtime.block_on(fill_store()));
    drop(memory?);
    let (held, guarded) = alloc::count(|| runtime.block_on(fill_locks()));
    let (locks, guards) = held?;
    guards.into_iter().for_each(Guard::forget);
    drop(locks);
    let store_target = Target::AtMost {
        must: 400.0,
        goal: 200.0,
    };
    let guard_target = Target::AtMost {
        must: 700.0,
        goal: 400.0,
    };
    Ok(vec![
        Row::new(BENCH, "per lease, lease map", each(floor)),
        Row::new(BENCH, "per lease, store side", each(store)).target(store_target),
        Row::new(BENCH, "per lease, with its guard", each(guarded)).target(guard_target),
    ])
}

fn each(usage: Usage) -> Figure {
    Figure::Bytes(usage.bytes as f64 / HELD as f64)
}

fn fill_floor() -> LeaseMap {
    let map = LeaseMap::new();
    for at in 0..HELD {
        assert!(map.try_acquire(&key(at).into()).is_some());
    }
    map
}

async fn fill_store() -> Result<Memory> {
    let (memory, owner, ttl) = (Memory::new(), owner()?, ttl()?);
    for at in 0..HELD {
        let names = Names::one(name(&key(at))?);
        let request = Acquire::new(names, Holder::random(), owner.clone(), ttl);
        granted(memory.acquire(&request).await?)?;
    }
    Ok(memory)
}

async fn fill_locks() -> Result<(Locks, Vec<Guard>)> {
    let locks = locks()?;
    let mut guards = Vec::with_capacity(HELD);
    for at in 0..HELD {
        guards.push(locks.lock(key(at)).acquire().await?);
    }
    Ok((locks, guards))
}
