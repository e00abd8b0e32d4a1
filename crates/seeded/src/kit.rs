//! Cases of the conformance kit.

use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::{Case, Scene, VirtualStore, all};
use leasehold_core::memory::Memory;
use leasehold_core::{Backend, Clock, ManualClock, SystemClock};

use crate::Check;

/// What a handful of topics says about leases; the others need no bug to be slow.
const TOPICS: [&str; 6] = ["acquire", "release", "renew", "force", "expiry", "fencing"];
/// How long a case may take, in real time: a bug may make it hang.
const WATCHDOG: Duration = Duration::from_secs(10);

pub(crate) fn checks() -> Vec<Check> {
    let cases = all()
        .into_iter()
        .filter(|case| TOPICS.contains(&case.topic));
    let checks: Vec<_> = cases
        .map(|case| Check::new(format!("kit: {}", case.path()), move || run(&case)))
        .collect();
    assert!(
        checks.len() >= 20,
        "the kit has only {} of these cases",
        checks.len()
    );
    checks
}

fn run(case: &Case) {
    let clock = ManualClock::new();
    let store: Arc<dyn Backend> = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    let harness = Arc::new(VirtualStore::new("memory", clock, store.clone()));
    if case.lacks(store.describe(), &*harness).is_some() {
        return;
    }
    let scene = Scene::new(harness, store);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.unwrap().block_on(async {
        tokio::select! {
            () = (case.run)(scene) => {}
            () = SystemClock.sleep_until(SystemClock.now().after(WATCHDOG)) => panic!("it hangs"),
        }
    });
}
