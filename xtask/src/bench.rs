//! `cargo xtask bench`: hands over to the bench crate, which knows the names and the targets.

use crate::Result;
use crate::cmd::{Steps, cargo};

/// Runs one bench.
pub(crate) fn run(args: &[String]) -> Result {
    let mut steps = Steps::new(false);
    let mut bench = cargo(["run", "--release", "--package", "leasehold-bench", "--"]);
    bench.args(args);
    let outcome = steps.command(&format!("bench {}", args.join(" ")), &mut bench);
    steps.finish(outcome)
}
