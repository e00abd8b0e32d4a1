//! The kit against the memory store behind a network that the kit can cut.

use std::process::ExitCode;
use std::sync::Arc;

use leasehold_conformance::fault::{FaultBackend, Faults};
use leasehold_conformance::{Severed, VirtualStore, run};
use leasehold_core::ManualClock;
use leasehold_core::memory::Memory;

fn main() -> ExitCode {
    let clock = ManualClock::new();
    let memory = Memory::with_clock(Arc::new(clock.clone()));
    let cut = Faults {
        lost_request: 1.0,
        ..Faults::NONE
    };
    let store = Arc::new(FaultBackend::new(memory, cut, 1));
    store.heal();
    let harness = VirtualStore::new("memory", clock, store.clone());
    run(harness.severed_by(move || {
        store.break_again();
        let store = Arc::clone(&store);
        Severed::new(move || store.heal())
    }))
}
