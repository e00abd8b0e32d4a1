//! Every wrapper against the conformance kit, over the memory store, on clocks that the kit moves.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::fault::{FaultBackend, Faults};
use leasehold_conformance::{Harness, VirtualStore, all, run_all_cases};
use leasehold_core::backend::Sweep;
use leasehold_core::memory::Memory;
use leasehold_core::wrap::{
    Breaker, Fallback, FallbackState, Prefix, Quorum, Retry, RetryPolicy, Timeout,
};
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

/// A quorum of stores on one clock, the first few of which have these faults.
fn quorum(name: &str, stores: usize, bad: usize, faults: Faults) -> Box<dyn Harness> {
    let clock = ManualClock::new();
    let store = |at: usize| -> Arc<dyn Backend> {
        let memory = Memory::with_clock(Arc::new(clock.clone()));
        if at < bad {
            Arc::new(faulty(memory, faults))
        } else {
            Arc::new(memory)
        }
    };
    let quorum = Quorum::new((0..stores).map(store)).unwrap();
    let quorum = quorum.with_clock(Arc::new(clock.clone()));
    Box::new(VirtualStore::new(name, clock, Arc::new(quorum)))
}

/// Two stores on one clock, of which the first has these faults, and is given up if it fails.
fn fallback(name: &str, faults: Faults, state: FallbackState) -> Box<dyn Harness> {
    let clock = ManualClock::new();
    let memory = || Memory::with_clock(Arc::new(clock.clone()));
    let first = Arc::new(faulty(memory(), faults));
    let longest = Duration::from_secs(3600);
    let fallback = Fallback::new(first, Arc::new(memory()), longest).unwrap();
    let fallback = fallback
        .after(Duration::ZERO)
        .with_clock(Arc::new(clock.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let sweep = Sweep::default();
    drop(runtime.unwrap().block_on(fallback.sweep(&sweep)));
    clock.advance(longest + Fallback::MARGIN);
    assert_eq!(fallback.state(), state);
    Box::new(VirtualStore::new(name, clock, Arc::new(fallback)))
}

/// A store that hears nothing.
const DEAD: Faults = Faults {
    lost_request: 1.0,
    ..Faults::NONE
};
/// A store that does everything and says nothing.
const MUTE: Faults = Faults {
    lost_reply: 1.0,
    ..Faults::NONE
};

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
    for size in [3, 5] {
        let mut cases = all();
        // Several steps make up an acquire here. If they are further apart than a lease is long, as on a machine that
        // is too busy to let them run, it is in the way of others before it holds anything.
        cases.retain(|case| case.name != "traffic_with_expiring_leases_is_linearizable");
        let name = format!("quorum_of_{size}");
        stages.push((quorum(&name, size, 0, Faults::NONE), cases));
    }
    for (name, faults, state) in [
        ("fallback", Faults::NONE, FallbackState::Primary),
        ("fallback_in_use", DEAD, FallbackState::Secondary),
    ] {
        let mut cases = all();
        // It refuses to add to a lease.
        cases.retain(|case| !case.name.starts_with("adding_"));
        stages.push((fallback(name, faults, state), cases));
    }
    let mut some_cases = all();
    some_cases.retain(|case| ANSWERED_AGAIN.contains(&case.topic));
    let mute = wrapped("retry_of_mute", |memory| retry(mute(memory)));
    stages.push((mute, some_cases.clone()));
    // Without the two, calls that cross and divide the other three between them all come to nothing.
    let crosses = |name: &str| name.contains("rivals") || name.contains("racing");
    some_cases.retain(|case| !crosses(case.name));
    for (name, faults) in [("2_dead", DEAD), ("2_mute", MUTE)] {
        let quorum = quorum(&format!("quorum_of_5_with_{name}"), 5, 2, faults);
        stages.push((quorum, some_cases.clone()));
    }
    run_all_cases(stages)
}
