//! The memory store against the rule: random requests, which both must answer alike.
//!
//! At least 50,000 sequences per run, on two threads; twenty times as many if `LEASEHOLD_LONG` is set. A failure shows
//! its seed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use leasehold_conformance::model::check_model;
use leasehold_core::memory::Memory;
use leasehold_core::{Backend, ManualClock};

/// How many sequences each of the two tests plays.
const CASES: u32 = 25_000;
/// How many times as many a long run plays.
const LONG: u32 = 20;

fn memory() -> (Arc<dyn Backend>, ManualClock) {
    let clock = ManualClock::new();
    (Arc::new(Memory::with_clock(Arc::new(clock.clone()))), clock)
}

fn cases() -> u32 {
    #[allow(
        clippy::disallowed_methods,
        reason = "a test binary is told by its environment how long it may run"
    )]
    let long = std::env::var("LEASEHOLD_LONG").is_ok();
    if long { CASES * LONG } else { CASES }
}

#[test]
fn memory_answers_as_the_rule_says() {
    check_model(cases(), memory);
}

/// The same again, so that a second core has something to do.
#[test]
fn memory_answers_as_the_rule_says_on_another_thread() {
    check_model(cases(), memory);
}
