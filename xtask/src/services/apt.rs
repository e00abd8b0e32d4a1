//! Programs from the packages of Debian and its relatives.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::cmd;

/// What packages ask whether they may start their service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// The answer for as long as we install something: no. The comment is how a forgotten one is known.
const NO_SERVICES: &str =
    "#!/bin/sh\n# Written by cargo xtask services, and removed again.\nexit 101\n";

/// Makes sure that a program is on the path, if need be by installing the package that has it.
///
/// The service that the package brings is neither started nor left to start with the machine.
pub(super) fn provide(program: &str, package: &str) -> Result {
    if is_on_path(program) {
        return Ok(());
    }
    let by_hand = format!("install {program} yourself, in Debian it is in the package {package}");
    if !is_on_path("apt-get") {
        return Err(format!("there is no {program} and no apt-get; {by_hand}"));
    }
    if !is_root() {
        return Err(format!(
            "there is no {program}, and only root may install it; {by_hand}"
        ));
    }
    eprintln!(
        "xtask: there is no {program}; installing the package {package}, which may take minutes"
    );
    install(package)?;
    match is_on_path(program) {
        true => Ok(()),
        false => Err(format!(
            "the package {package} brought no {program}; {by_hand}"
        )),
    }
}

fn install(package: &str) -> Result {
    let quiet = NoServices::begin(Path::new(POLICY))?;
    // A fresh machine has no lists, or old ones.
    let installed = apt_get(&["install", package])
        .or_else(|_| apt_get(&["update"]).and_then(|()| apt_get(&["install", package])));
    drop(quiet);
    installed?;
    cmd::run(&mut to_stderr("update-rc.d", &[package, "disable"]))
}

fn apt_get(args: &[&str]) -> Result {
    let mut apt = to_stderr("apt-get", &["-y", "--no-install-recommends"]);
    // Somebody else may be installing something.
    apt.args(["-o", "DPkg::Lock::Timeout=300"]).args(args);
    cmd::run(apt.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// A command that keeps off the standard output, which is for the environment of the tests.
fn to_stderr(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    command.stdout(std::io::stderr());
    command
}

/// Packages start no services while this lives. A policy that somebody else has made stays as it is.
struct NoServices<'p> {
    ours: Option<&'p Path>,
}

impl<'p> NoServices<'p> {
    fn begin(policy: &'p Path) -> Result<Self> {
        let forgotten = fs::read_to_string(policy).is_ok_and(|text| text == NO_SERVICES);
        if policy.exists() && !forgotten {
            return Ok(Self { ours: None });
        }
        let guard = Self { ours: Some(policy) };
        let written = fs::write(policy, NO_SERVICES).and_then(|()| make_executable(policy));
        written.map_err(|error| format!("cannot write {}: {error}", policy.display()))?;
        Ok(guard)
    }
}

impl Drop for NoServices<'_> {
    fn drop(&mut self) {
        let removed = self.ours.map_or(Ok(()), fs::remove_file);
        if let Err(error) = removed {
            eprintln!("xtask: remove {POLICY} yourself: {error}");
        }
    }
}

#[cfg(unix)]
fn make_executable(file: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("xtask-policy-{name}-{}", std::process::id()))
    }

    #[test]
    fn services_are_forbidden_only_while_something_is_installed() {
        let policy = policy("own");
        let quiet = NoServices::begin(&policy).unwrap();
        let mut ask = Command::new("sh");
        let asked = ask.arg("-c").arg(r#"test -x "$0" && . "$0""#).arg(&policy);
        assert_eq!(asked.status().unwrap().code(), Some(101));
        drop(quiet);
        assert!(!policy.exists());
    }

    #[test]
    fn a_policy_that_was_forgotten_is_removed_and_that_of_somebody_else_stays() {
        let policy = policy("other");
        fs::write(&policy, NO_SERVICES).unwrap();
        drop(NoServices::begin(&policy).unwrap());
        assert!(!policy.exists());
        fs::write(&policy, "#!/bin/sh\n").unwrap();
        drop(NoServices::begin(&policy).unwrap());
        assert_eq!(fs::read_to_string(&policy).unwrap(), "#!/bin/sh\n");
        fs::remove_file(policy).unwrap();
    }

    #[test]
    fn what_is_there_is_not_installed() {
        assert_eq!(provide("sh", "no-such-package"), Ok(()));
    }
}
