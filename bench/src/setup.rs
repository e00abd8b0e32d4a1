//! Names, requests and runtimes that the benches of stores share.

use std::time::Duration;

use leasehold_core::{Name, Owner, Result, Ttl};
use tokio::runtime::{Builder, Runtime};

use crate::bench::Outcome;

/// How many names the work goes round over: more than a page of a file holds, few enough to stay in every cache.
pub(crate) const NAMES: usize = 1024;
/// Nothing held here may run out meanwhile.
pub(crate) const TTL: Duration = Duration::from_secs(3600);
/// The namespace of these benches.
pub(crate) const NAMESPACE: &str = "bench";

/// The text of key `at`.
pub(crate) fn key(at: usize) -> String {
    format!("order-{at:08}")
}

/// The name of key `at`.
pub(crate) fn name(at: usize) -> Result<Name> {
    Name::new(NAMESPACE, &key(at))
}

/// The label of these benches.
pub(crate) fn owner() -> Result<Owner> {
    Owner::new("bench")
}

/// The ttl of these benches.
pub(crate) fn ttl() -> Result<Ttl> {
    Ttl::new(TTL)
}

/// The order in which `count` things are gone through: every one once, neighbours far apart.
pub(crate) fn scattered(count: usize) -> impl Iterator<Item = usize> + Clone {
    const STRIDE: usize = 7919;
    (0..count).map(move |at| at * STRIDE % count)
}

/// The names of one of so many callers: those that call at the same time are far apart.
pub(crate) fn dealt(caller: usize, callers: usize) -> impl Iterator<Item = usize> {
    scattered(NAMES).skip(caller).step_by(callers)
}

/// A runtime on two threads of its own, as a service has one.
pub(crate) fn runtime() -> Outcome<Runtime> {
    Ok(Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}

/// Runs all tasks to their end and gives what they give.
pub(crate) fn together<T, F>(runtime: &Runtime, tasks: impl IntoIterator<Item = F>) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let tasks: Vec<_> = tasks.into_iter().map(|task| runtime.spawn(task)).collect();
    let ends = tasks.into_iter().map(|task| runtime.block_on(task));
    let done: Result<Vec<T>, _> = ends.collect();
    assert!(done.is_ok(), "a task panicked");
    done.unwrap_or_default()
}

/// Work that fails would be measured as fast work.
pub(crate) fn done<T, E: std::fmt::Debug>(result: Result<T, E>) {
    let failed = result.err();
    assert!(failed.is_none(), "{failed:?}");
}
