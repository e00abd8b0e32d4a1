//! Running commands: echoed, timed, counted.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Result;

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// `cargo` with these arguments, at the root of the workspace.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// Runs a command with its output shown.
pub(crate) fn run(command: &mut Command) -> Result {
    eprintln!("$ {}", shown(command));
    let status = command
        .status()
        .map_err(|error| format!("cannot run {}: {error}", shown(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} ended with {status}", shown(command)))
    }
}

/// Runs a command and returns what it wrote to its standard output.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    eprintln!("$ {}", shown(command));
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", shown(command)))?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", shown(command), output.status));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| format!("{} printed something that is not UTF-8", shown(command)))
}

/// The command as one would type it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    let envs = command.get_envs().filter_map(|(key, value)| {
        let value = value?.to_string_lossy();
        Some(format!("{}={}", key.to_string_lossy(), quoted(&value)))
    });
    let args = command.get_args().map(|arg| quoted(&arg.to_string_lossy()));
    let words: Vec<String> = envs
        .chain([program.to_string_lossy().into_owned()])
        .chain(args)
        .collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) {
        format!("'{word}'")
    } else {
        word.to_owned()
    }
}

/// A series of steps: each one announced, timed and counted.
#[derive(Debug)]
pub(crate) struct Steps {
    keep_going: bool,
    begun: Instant,
    passed: usize,
    failed: Vec<String>,
}

impl Steps {
    /// An empty series. With `keep_going` a failed step does not stop it.
    pub(crate) fn new(keep_going: bool) -> Self {
        Self {
            keep_going,
            begun: Instant::now(),
            passed: 0,
            failed: Vec::new(),
        }
    }

    /// Runs a command as a step.
    pub(crate) fn command(&mut self, title: &str, command: &mut Command) -> Result {
        self.step(title, || run(command))
    }

    /// Runs a function as a step.
    pub(crate) fn step(&mut self, title: &str, body: impl FnOnce() -> Result) -> Result {
        let begun = Instant::now();
        eprintln!("\nxtask: {title}");
        let result = body();
        let took = spell(begun.elapsed());
        match result {
            Ok(()) => {
                eprintln!("xtask: {title}: ok in {took}");
                self.passed += 1;
                Ok(())
            }
            Err(why) => {
                eprintln!("xtask: {title}: FAILED after {took}: {why}");
                self.failed.push(title.to_owned());
                let stop = || format!("stopped at the step {title:?}");
                self.keep_going.then_some(()).ok_or_else(stop)
            }
        }
    }

    /// Prints the summary; `outcome` is how the series ended.
    pub(crate) fn finish(self, outcome: Result) -> Result {
        eprintln!("\nxtask: took {} in all", spell(self.begun.elapsed()));
        println!("{} passed, {} failed", self.passed, self.failed.len());
        outcome?;
        if self.failed.is_empty() {
            Ok(())
        } else {
            Err(format!("these steps failed: {}", self.failed.join(", ")))
        }
    }
}

fn spell(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = cargo(["doc", "--no-deps"]);
        command.env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(
            shown(&command),
            "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps"
        );
    }

    #[test]
    fn a_failed_step_stops_the_series() {
        let mut steps = Steps::new(false);
        assert!(steps.step("one", || Ok(())).is_ok());
        assert!(steps.step("two", || Err("no".to_owned())).is_err());
        assert_eq!((steps.passed, steps.failed.len()), (1, 1));
    }

    #[test]
    fn keep_going_fails_only_in_the_end() {
        let mut steps = Steps::new(true);
        assert!(steps.step("one", || Err("no".to_owned())).is_ok());
        assert!(steps.step("two", || Ok(())).is_ok());
        assert!(steps.finish(Ok(())).unwrap_err().contains("one"));
    }

    #[test]
    fn durations_are_spelled_for_people() {
        assert_eq!(spell(Duration::from_millis(1250)), "1.2 s");
        assert_eq!(spell(Duration::from_secs(184)), "3 min 04 s");
    }
}
