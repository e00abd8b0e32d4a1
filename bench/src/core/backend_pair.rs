//! Acquire and release without contention, at the level of [`Backend`].

use std::hint::black_box;
use std::sync::Arc;

use leasehold_core::backend::{Acquire, Acquired, Names, Release};
use leasehold_core::memory::Memory;
use leasehold_core::{Backend, Error, ErrorKind, Holder, Lease, Result, Token};
use tokio::runtime::Runtime;

use super::floor::LeaseMap;
use super::lock_pair::floor_pairs;
use super::setup::{KEYS, key, keys, name, owner, scattered, this_thread, ttl, two_threads};
use crate::alloc;
use crate::bench::Outcome;
use crate::measure::{Subject, interleave};
use crate::report::{Figure, Row, Target};

const BENCH: &str = "core/backend";
const ROUNDS: usize = 15;

/// Measures the pair with requests that exist already; each acquire brings a fresh holder, as a caller must.
pub(super) fn measure() -> Outcome {
    let runtime = this_thread()?;
    let (map, keys) = (LeaseMap::new(), keys(KEYS));
    let (memory, mut calls) = (Memory::new(), calls(0..KEYS)?);
    let [floor, ours, holder] = interleave(
        ROUNDS,
        [
            Subject::on_this_thread(KEYS, || floor_pairs(&map, &keys, scattered(KEYS))),
            Subject::on_this_thread(KEYS, || done(runtime.block_on(pairs(&memory, &mut calls)))),
            Subject::on_this_thread(KEYS, || {
                for _ in 0..KEYS {
                    black_box(Holder::random());
                }
            }),
        ],
    );
    let target = Target::AtLeast {
        must: 0.35,
        goal: 0.55,
    };
    let ((), usage) = alloc::count(|| done(runtime.block_on(pairs(&memory, &mut calls))));
    let allocations = Figure::Number(usage.calls as f64 / KEYS as f64);
    let what = "acquire + release ÷ lease map, 1 thread";
    Ok(vec![
        Row::rates(BENCH, what, &ours, &floor).target(target),
        on_two_threads()?,
        Row::new(
            BENCH,
            "of which Holder::random",
            Figure::Time(holder.median()),
        ),
        Row::new(BENCH, "allocations per pair", allocations),
    ])
}

fn on_two_threads() -> Outcome<Row> {
    let runtime = two_threads()?;
    let (map, keys) = (Arc::new(LeaseMap::new()), Arc::new(keys(KEYS)));
    let memory = Arc::new(Memory::new());
    let mut parts = vec![calls(0..KEYS / 2)?, calls(KEYS / 2..KEYS)?];
    let [floor, ours] = interleave(
        ROUNDS,
        [
            Subject::timed(KEYS, || {
                halves(&runtime, |half| {
                    let (map, keys) = (map.clone(), keys.clone());
                    async move {
                        floor_pairs(&map, &keys, half);
                        Ok(())
                    }
                });
            }),
            Subject::timed(KEYS, || {
                parts = both(&runtime, &memory, std::mem::take(&mut parts));
            }),
        ],
    );
    let what = "acquire + release ÷ lease map, 2 threads";
    Ok(Row::rates(BENCH, what, &ours, &floor))
}

/// The requests of one pair.
struct Call {
    acquire: Acquire,
    release: Release,
}

/// The requests of these keys, in scattered order.
fn calls(keys: std::ops::Range<usize>) -> Result<Vec<Call>> {
    let order = scattered(keys.len()).map(|at| keys.start + at);
    order
        .map(|at| {
            let (name, holder) = (name(&key(at))?, Holder::random());
            Ok(Call {
                acquire: Acquire::new(Names::one(name.clone()), holder.clone(), owner()?, ttl()?),
                release: Release::grant(name, holder, Token::new(0)),
            })
        })
        .collect()
}

async fn pairs(memory: &Memory, calls: &mut [Call]) -> Result<()> {
    for Call { acquire, release } in calls {
        acquire.holder = Holder::random();
        let lease = granted(memory.acquire(acquire).await?)?;
        if let Release::Grants { holder, grants } = release {
            holder.clone_from(&acquire.holder);
            grants[0].1 = lease.token;
        }
        black_box(memory.release(release).await?);
    }
    Ok(())
}

/// The lease of an acquire that cannot have been refused.
pub(super) fn granted(answer: Acquired) -> Result<Lease> {
    let Acquired::Granted(leases) = answer else {
        return Err(Error::new(ErrorKind::Internal, "a free name was refused"));
    };
    let lease = leases.into_iter().next();
    lease.ok_or_else(|| Error::new(ErrorKind::Internal, "a grant without a lease"))
}

/// Runs one task per half of the keys and waits for both.
pub(super) fn halves<F>(
    runtime: &Runtime,
    task: impl Fn(Box<dyn Iterator<Item = usize> + Send>) -> F,
) where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let even = scattered(KEYS).filter(|at| at % 2 == 0);
    let odd = scattered(KEYS).filter(|at| at % 2 == 1);
    let tasks = [
        runtime.spawn(task(Box::new(even))),
        runtime.spawn(task(Box::new(odd))),
    ];
    for task in tasks {
        let result = runtime.block_on(task);
        assert!(matches!(result, Ok(Ok(()))), "{result:?}");
    }
}

/// Runs one task per part and gives the parts back.
fn both(runtime: &Runtime, memory: &Arc<Memory>, parts: Vec<Vec<Call>>) -> Vec<Vec<Call>> {
    let run = |mut calls: Vec<Call>| {
        let memory = memory.clone();
        runtime.spawn(async move {
            done(pairs(&memory, &mut calls).await);
            calls
        })
    };
    let tasks: Vec<_> = parts.into_iter().map(run).collect();
    tasks
        .into_iter()
        .flat_map(|task| runtime.block_on(task))
        .collect()
}

/// A pair that fails would be measured as a fast one.
fn done(result: Result<()>) {
    assert!(result.is_ok(), "{result:?}");
}
