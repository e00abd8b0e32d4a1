//! The kit against the memory store behind a network that the kit can cut.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::fault::{FaultBackend, Faults};
use leasehold_conformance::{Harness, Severed, Time, Unavailable, async_trait, run};
use leasehold_core::memory::Memory;
use leasehold_core::{Backend, Clock, ManualClock};

struct FaultyMemory {
    clock: ManualClock,
    store: Arc<FaultBackend<Memory>>,
}

#[async_trait]
impl Harness for FaultyMemory {
    fn name(&self) -> &str {
        "memory"
    }

    async fn connect(&self) -> Result<Arc<dyn Backend>, Unavailable> {
        Ok(self.store.clone())
    }

    fn time(&self) -> Time {
        Time::Virtual
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    async fn pass_time(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn can_sever(&self) -> bool {
        true
    }

    async fn sever(&self) -> Option<Severed> {
        self.store.break_again();
        let store = Arc::clone(&self.store);
        Some(Severed::new(move || store.heal()))
    }
}

fn main() -> ExitCode {
    let clock = ManualClock::new();
    let memory = Memory::with_clock(Arc::new(clock.clone()));
    let cut = Faults {
        lost_request: 1.0,
        ..Faults::NONE
    };
    let store = Arc::new(FaultBackend::new(memory, cut, 1));
    store.heal();
    run(FaultyMemory { clock, store })
}
