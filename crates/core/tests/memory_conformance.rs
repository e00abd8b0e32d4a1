//! The memory store against the conformance kit, on a clock that the kit moves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::{Contention, Harness, Time, Unavailable, async_trait, run};
use leasehold_core::memory::Memory;
use leasehold_core::{Backend, Clock, ManualClock, Timestamp};

struct MemoryHarness {
    clock: ManualClock,
    store: Arc<Memory>,
}

#[async_trait]
impl Harness for MemoryHarness {
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

    fn step_wall_back(&self, by: Duration) -> bool {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let wall = self.clock.wall().as_millis().saturating_sub(millis);
        self.clock.set_wall(Timestamp::from_millis(wall));
        true
    }

    fn contention(&self) -> Contention {
        Contention {
            tasks: 8,
            rounds: 50,
        }
    }
}

fn main() -> ExitCode {
    let clock = ManualClock::new();
    let store = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    run(MemoryHarness { clock, store })
}
