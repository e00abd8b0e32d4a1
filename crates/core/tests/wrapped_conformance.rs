//! Every wrapper against the conformance kit, over the memory store, on clocks that the kit moves.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::fault::{FaultBackend, Faults};
use leasehold_conformance::{Harness, VirtualStore, all, run_all_cases};
use leasehold_core::memory::Memory;
use leasehold_core::wrap::{Breaker, Prefix, Retry, RetryPolicy, Timeout};
use leasehold_core::{Backend, MAX_NAMESPACE_BYTES, ManualClock};

/// Far more than any call takes.
const GENEROUS: Duration = Duration::from_secs(60);
/// More than any run of bad luck needs.
const ATTEMPTS: u32 = 50;

fn wrapped<B: Backend>(name: &str, wrap: impl FnOnce(Memory) -> B) -> Box<dyn Harness> {
    let clock = ManualClock::new();
    let memory = Memory::with_clock(Arc::new(clock.clone()));
    let harness = VirtualStore::new(name, clock, Arc::new(wrap(memory)));
    Box::new(harness.longest_namespace(MAX_NAMESPACE_BYTES - "wrapped:".len()))
}

fn prefix<B: Backend>(inner: B) -> Prefix<B> {
    Prefix::new(inner, "wrapped").unwrap()
}

fn timeout<B: Backend>(inner: B) -> Timeout<B> {
    Timeout::new(inner, GENEROUS).unwrap()
}

/// Pauses by the system's clock: nobody moves the other one while a call is under way.
fn retry<B: Backend>(inner: B) -> Retry<B> {
    let tick = Duration::from_micros(10);
    let policy = RetryPolicy::default().attempts(ATTEMPTS).unwrap();
    Retry::new(inner, policy.pauses(tick, tick).unwrap())
}

/// A store that does not hear one request in five.
fn deaf<B: Backend>(inner: B) -> FaultBackend<B> {
    faulty(
        inner,
        Faults {
            lost_request: 0.2,
            delay: 0.2,
            ..Faults::NONE
        },
    )
}

/// A store whose answers get lost, one in five.
fn mute<B: Backend>(inner: B) -> FaultBackend<B> {
    faulty(
        inner,
        Faults {
            lost_reply: 0.2,
            delay: 0.2,
            ..Faults::NONE
        },
    )
}

fn faulty<B: Backend>(inner: B, faults: Faults) -> FaultBackend<B> {
    let store = FaultBackend::random(inner, faults);
    #[allow(clippy::print_stderr, reason = "a failure is looked into by its seed")]
    {
        eprintln!("faults of seed {}: {faults:?}", store.seed());
    }
    store
}

/// What is the same after a lost answer as without one. The rest is about requests that may not be sent again (an end
/// by force, a capacity at a version), about what a call says of its own doing, or about many callers: between a release
/// and its repetition the name goes through other hands.
const ANSWERED_AGAIN: [&str; 12] = [
    "acquire",
    "own",
    "renew",
    "release",
    "expiry",
    "names",
    "reservation",
    "reservation_change",
    "adopt",
    "listing",
    "repetition",
    "secrecy",
];

fn main() -> ExitCode {
    let all_cases = [
        wrapped("prefix", prefix),
        wrapped("timeout", timeout),
        wrapped("retry", retry),
        wrapped("breaker", Breaker::new),
        wrapped("arc_dyn", |memory| Arc::new(memory) as Arc<dyn Backend>),
        wrapped("retry_of_deaf", |memory| retry(deaf(memory))),
        #[cfg(feature = "observe")]
        wrapped("observe", leasehold_core::wrap::Observe::new),
        #[cfg(feature = "observe")]
        wrapped("stack", |memory| {
            leasehold_core::wrap::Observe::new(retry(timeout(prefix(memory))))
        }),
        #[cfg(not(feature = "observe"))]
        wrapped("stack", |memory| retry(timeout(prefix(memory)))),
    ];
    let mut stages: Vec<_> = all_cases.map(|harness| (harness, all())).into();
    let mut some_cases = all();
    some_cases.retain(|case| ANSWERED_AGAIN.contains(&case.topic));
    let mute = wrapped("retry_of_mute", |memory| retry(mute(memory)));
    stages.push((mute, some_cases));
    run_all_cases(stages)
}
