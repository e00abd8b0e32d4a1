//! The file store against the conformance kit, on a clock that the kit moves: once with every answer on the disk, once
//! with the disk following later.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::{Harness, VirtualStore, run_all};
use leasehold_core::ManualClock;
use leasehold_file::{Options, Sync};

fn main() -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let late = Sync::Every(Duration::from_millis(20));
    run_all(vec![
        store(folder.path(), "file", Sync::Always),
        store(folder.path(), "late", late),
    ])
}

fn store(folder: &Path, name: &str, sync: Sync) -> Box<dyn Harness> {
    let clock = ManualClock::new();
    let options = Options::new(folder.join(name)).sync(sync).unwrap();
    let options = options.clock(Arc::new(clock.clone()), Some("boot"));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let store = runtime.unwrap().block_on(options.open()).unwrap();
    Box::new(VirtualStore::new(name, clock, Arc::new(store)))
}
