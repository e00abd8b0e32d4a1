//! Keys, managers and runtimes that the benches share.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::memory::Memory;
use leasehold_core::{Backend, Lock, Locks, Name, Owner, Result, Ttl};
use tokio::runtime::{Builder, Runtime};

use crate::bench::Outcome;

/// How many keys a pair is measured over.
pub(super) const KEYS: usize = 10_000;
/// Nothing measured here may run out meanwhile.
const TTL: Duration = Duration::from_secs(3600);

/// The text of key `at`.
pub(super) fn key(at: usize) -> String {
    format!("order-{at:08}")
}

/// The first `count` keys.
pub(super) fn keys(count: usize) -> Vec<Arc<str>> {
    (0..count).map(|at| key(at).into()).collect()
}

/// The order in which `count` things are gone through: every one once, neighbours far apart.
pub(super) fn scattered(count: usize) -> impl Iterator<Item = usize> + Clone {
    const STRIDE: usize = 7919;
    (0..count).map(move |at| at * STRIDE % count)
}

/// A name in the namespace of these benches.
pub(super) fn name(key: &str) -> Result<Name> {
    Name::new("bench", key)
}

/// The label of these benches.
pub(super) fn owner() -> Result<Owner> {
    Owner::new("bench")
}

/// The ttl of these benches.
pub(super) fn ttl() -> Result<Ttl> {
    Ttl::new(TTL)
}

/// A manager on a new memory store. Must be called inside a runtime.
pub(super) fn locks() -> Result<Locks> {
    let store: Arc<dyn Backend> = Arc::new(Memory::new());
    Locks::new(store).namespace("bench").ttl(TTL).build()
}

/// The locks of the first `count` keys.
pub(super) fn handles(locks: &Locks, count: usize) -> Vec<Lock> {
    (0..count).map(|at| locks.lock(key(at))).collect()
}

/// A runtime on this thread.
pub(super) fn this_thread() -> Outcome<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// A runtime on two threads of its own.
pub(super) fn two_threads() -> Outcome<Runtime> {
    Ok(Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}
