//! The memory store against the conformance kit, on a clock that the kit moves.

use std::process::ExitCode;
use std::sync::Arc;

use leasehold_conformance::{VirtualStore, run};
use leasehold_core::ManualClock;
use leasehold_core::memory::Memory;

fn main() -> ExitCode {
    let clock = ManualClock::new();
    let store = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    run(VirtualStore::new("memory", clock, store))
}
