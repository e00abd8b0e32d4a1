//! `cargo xtask bench`: hands over to the bench crate, which knows the names and the targets.

use crate::Result;
use crate::cmd::{Steps, cargo};
use crate::metadata::Metadata;
use crate::services::{self, Session};

/// Runs one bench.
pub(crate) fn run(args: &[String]) -> Result {
    let mut steps = Steps::new(false);
    let outcome = provide(&mut steps, args).and_then(|()| measure(&mut steps, args));
    steps.finish(outcome)
}

fn measure(steps: &mut Steps, args: &[String]) -> Result {
    let mut bench = cargo(["run", "--release", "--package", "leasehold-bench", "--"]);
    bench.args(args);
    steps.command(&format!("bench {}", args.join(" ")), &mut bench)
}

/// Makes sure that the servers are installed which these benches start for themselves, as those for tests are.
fn provide(steps: &mut Steps, args: &[String]) -> Result {
    let metadata = Metadata::load()?;
    for name in services::needed(&groups(args)) {
        // Up and down again: nothing else shall run while something is measured.
        let tried = || Session::new(&metadata).start(name);
        steps.step(&format!("try {name}"), tried)?;
    }
    Ok(())
}

/// What stands before the slash in the names of benches.
fn groups(args: &[String]) -> Vec<String> {
    let group = |arg: &String| arg.split('/').next().map(str::to_owned);
    args.iter().filter_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_needs_the_service_of_its_group() {
        let args = ["redis/one", "--check"].map(str::to_owned);
        let needed: Vec<_> = services::needed(&groups(&args)).collect();
        assert_eq!(needed, ["redis"]);
        assert_eq!(services::needed(&groups(&["core".to_owned()])).count(), 0);
    }
}
