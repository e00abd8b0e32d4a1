//! The helper for load-and-commit stores against the conformance kit, over a store where every third commit meets a
//! conflict.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common_store;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::{Harness, Time, Unavailable, async_trait, run};
use leasehold_core::record_store::RecordBackend;
use leasehold_core::{Backend, Clock, ManualClock};

use common_store::CasStore;

/// How many of 100 commits meet a conflict.
const CONFLICTS: u64 = 33;
/// Enough for any run of bad luck.
const TRIES: u32 = 1000;

struct RecordHarness {
    clock: ManualClock,
    store: Arc<RecordBackend<CasStore>>,
}

#[async_trait]
impl Harness for RecordHarness {
    fn name(&self) -> &str {
        "record"
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
}

fn main() -> ExitCode {
    let clock = ManualClock::new();
    let store = RecordBackend::new(CasStore::new(&clock, CONFLICTS));
    let store = Arc::new(store.tries(TRIES).unwrap());
    run(RecordHarness { clock, store })
}
