//! The helper for load-and-commit stores against the conformance kit, over a store where every third commit meets a
//! conflict.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common_store;

use std::process::ExitCode;
use std::sync::Arc;

use leasehold_conformance::{VirtualStore, run};
use leasehold_core::ManualClock;
use leasehold_core::record_store::RecordBackend;

use common_store::CasStore;

/// How many of 100 commits meet a conflict.
const CONFLICTS: u64 = 33;
/// Enough for any run of bad luck.
const TRIES: u32 = 1000;

fn main() -> ExitCode {
    let clock = ManualClock::new();
    let store = RecordBackend::new(CasStore::new(&clock, CONFLICTS));
    let store = Arc::new(store.tries(TRIES).unwrap());
    run(VirtualStore::new("record", clock, store))
}
