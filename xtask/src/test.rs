//! `cargo xtask test`: what the tests need is started, the tests run, and it is stopped again.

use std::process::Command;

use crate::Result;
use crate::check;
use crate::cmd::{Steps, cargo};
use crate::metadata::{FACADE, Metadata};
use crate::services::{self, Session};

/// The package with the planted bugs. It is tested by itself, so that its features reach no other test.
const SEEDED: &str = "leasehold-seeded";

/// What to test, and how much.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only the tests of these backends; empty for everything.
    pub(crate) backends: Vec<String>,
    /// The nightly amounts.
    pub(crate) long: bool,
    /// Run the remaining steps after a failed one.
    pub(crate) keep_going: bool,
}

/// Runs the tests.
pub(crate) fn run(options: &Options) -> Result {
    let metadata = Metadata::load()?;
    let backends = chosen(&metadata, &options.backends)?;
    let mut steps = Steps::new(options.keep_going);
    let outcome = if options.backends.is_empty() {
        everything(&mut steps, &metadata, &backends, options.long)
    } else {
        some(&mut steps, &metadata, &backends, options.long)
    };
    steps.finish(outcome)
}

fn everything(steps: &mut Steps, metadata: &Metadata, backends: &[String], long: bool) -> Result {
    check::steps_of_check(steps)?;
    let surroundings = Surroundings::prepare(steps, metadata, backends, long)?;
    let features = metadata.public_features().join(",");
    let mut tests = cargo(["test", "--workspace", "--features", &features]);
    let seeded = metadata.member(SEEDED).is_some();
    if seeded {
        tests.args(["--exclude", SEEDED]);
    }
    steps.command("tests and doc tests", surroundings.give(&mut tests))?;
    if seeded {
        let mut tests = cargo(["test", "--package", SEEDED]);
        steps.command("planted bugs are found", surroundings.give(&mut tests))?;
    }
    let mut schedules = thread_schedules(metadata);
    steps.command(
        "the waiters' line under many thread schedules",
        &mut schedules,
    )?;
    examples(steps, metadata, &surroundings)
}

/// The tests that replace the locks of the core by ones whose schedule is explored. They are another build of it, in a
/// folder of its own, so that the flag does not throw the ordinary build away.
fn thread_schedules(metadata: &Metadata) -> Command {
    let mut tests = cargo([
        "test",
        "--package",
        "leasehold-core",
        "--lib",
        "shuttle_tests",
    ]);
    tests.env("RUSTFLAGS", "--cfg shuttle");
    tests.env(
        "CARGO_TARGET_DIR",
        metadata.target_directory.join("shuttle"),
    );
    tests
}

fn examples(steps: &mut Steps, metadata: &Metadata, surroundings: &Surroundings) -> Result {
    let facade = metadata.member(FACADE);
    for name in facade.into_iter().flat_map(|package| package.examples()) {
        let args = ["run", "--quiet", "--package", FACADE, "--all-features"];
        let mut example = cargo(args.into_iter().chain(["--example", name]));
        steps.command(&format!("example {name}"), surroundings.give(&mut example))?;
    }
    Ok(())
}

fn some(steps: &mut Steps, metadata: &Metadata, backends: &[String], long: bool) -> Result {
    let surroundings = Surroundings::prepare(steps, metadata, backends, long)?;
    for backend in backends {
        let package = package_of(backend);
        let features = metadata.public_features_of(&package).join(",");
        let mut tests = cargo(["test", "--package", &package, "--features", &features]);
        steps.command(
            &format!("tests of {backend}"),
            surroundings.give(&mut tests),
        )?;
    }
    Ok(())
}

/// The backends asked for, or all there are.
fn chosen(metadata: &Metadata, asked: &[String]) -> Result<Vec<String>> {
    let known = metadata.backends();
    if asked.is_empty() {
        return Ok(known);
    }
    match asked.iter().find(|name| !known.contains(name)) {
        Some(name) => Err(format!(
            "there is no backend {name:?}; there are: {}",
            known.join(", ")
        )),
        None => Ok(asked.to_vec()),
    }
}

fn package_of(backend: &str) -> String {
    match backend {
        "memory" => "leasehold-core".to_owned(),
        other => format!("leasehold-{other}"),
    }
}

/// The services the tests need, up as long as this lives, and the environment that leads to them.
struct Surroundings {
    session: Session,
    require: String,
    long: bool,
}

impl Surroundings {
    fn prepare(
        steps: &mut Steps,
        metadata: &Metadata,
        backends: &[String],
        long: bool,
    ) -> Result<Self> {
        let mut session = Session::new(metadata);
        for name in services::needed(backends) {
            steps.step(&format!("start {name}"), || session.start(name))?;
        }
        Ok(Self {
            session,
            require: backends.join(","),
            long,
        })
    }

    fn give<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("LEASEHOLD_REQUIRE", &self.require);
        command.envs(self.session.env().iter().cloned());
        if self.long {
            command.env("LEASEHOLD_LONG", "1");
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::tests::workspace;

    #[test]
    fn an_unknown_backend_is_refused_with_the_known_ones() {
        let metadata = workspace(&[("backends/redis", &[])]);
        let why = chosen(&metadata, &["rediss".to_owned()]).unwrap_err();
        assert!(why.contains("memory, redis"), "{why}");
    }

    #[test]
    fn without_a_choice_all_backends_are_required() {
        let metadata = workspace(&[("backends/redis", &[])]);
        assert_eq!(chosen(&metadata, &[]).unwrap(), ["memory", "redis"]);
    }

    #[test]
    fn memory_is_tested_in_core() {
        assert_eq!(package_of("memory"), "leasehold-core");
        assert_eq!(package_of("etcd"), "leasehold-etcd");
    }
}
