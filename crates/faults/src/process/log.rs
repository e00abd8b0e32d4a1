//! What servers print.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Error, Result};

/// How many lines are shown.
const LINES: usize = 40;

/// Sends the output of a command to the end of a log.
pub(super) fn attach(command: &mut Command, log: &Path) -> Result<()> {
    let cannot = || Error::because(format!("cannot write {}", log.display()));
    let output = OpenOptions::new().create(true).append(true).open(log);
    let output = output.map_err(cannot())?;
    let errors = output.try_clone().map_err(cannot())?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    Ok(())
}

/// The last lines of a log.
pub(super) fn tail(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LINES);
    lines[from..].join("\n")
}
