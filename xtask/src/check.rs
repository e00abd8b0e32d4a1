//! `cargo xtask check`: everything a compiler or a rule can find without running a test.

use crate::Result;
use crate::cmd::{Steps, cargo};
use crate::metadata::{FACADE, Metadata};
use crate::tidy;

/// Runs all checks.
pub(crate) fn run(keep_going: bool) -> Result {
    let mut steps = Steps::new(keep_going);
    let outcome = steps_of_check(&mut steps);
    steps.finish(outcome)
}

/// The steps, for `test` to begin with.
pub(crate) fn steps_of_check(steps: &mut Steps) -> Result {
    steps.command("formatting", &mut cargo(["fmt", "--all", "--check"]))?;
    clippy(steps)?;
    rustdoc(steps)?;
    each_feature(steps)?;
    steps.step("tidy", || tidy::run(false))
}

fn clippy(steps: &mut Steps) -> Result {
    let args = ["clippy", "--workspace", "--all-targets", "--all-features"];
    let deny = ["--", "-D", "warnings"];
    steps.command("clippy", &mut cargo(args.into_iter().chain(deny)))
}

fn rustdoc(steps: &mut Steps) -> Result {
    let mut doc = cargo(["doc", "--workspace", "--all-features", "--no-deps"]);
    steps.command("rustdoc", doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Features must be additive and each must build alone. Only the facade has features that users combine.
fn each_feature(steps: &mut Steps) -> Result {
    let metadata = Metadata::load()?;
    let Some(facade) = metadata.member(FACADE) else {
        return Err(format!("the workspace has no package {FACADE}"));
    };
    let alone = facade.features.keys().filter(|name| *name != "default");
    for feature in std::iter::once("").chain(alone.map(String::as_str)) {
        let mut clippy = cargo(["clippy", "--quiet", "--package", FACADE]);
        clippy.args(["--no-default-features", "--features", feature]);
        clippy.args(["--", "-D", "warnings"]);
        let title = match feature {
            "" => "facade without features".to_owned(),
            name => format!("facade with only the feature {name}"),
        };
        steps.command(&title, &mut clippy)?;
    }
    Ok(())
}
