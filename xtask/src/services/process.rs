//! Processes that outlive the command that started them, remembered in a file each.
//!
//! A process is known by its id and its start time, so that a stranger who was given the same id later is never
//! stopped. The start time comes from `/proc`; services run on Linux only.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Place;
use crate::Result;

/// How long a service may take to answer.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long a service may take to end when asked to, before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// How often to look.
const PAUSE: Duration = Duration::from_millis(20);

/// A process that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Running {
    /// Its id, which is also the id of its process group.
    pub(super) pid: u32,
    /// When it was started, in ticks since boot.
    born: String,
    /// Where it runs.
    pub(super) place: Place,
}

/// Starts a command in a process group of its own, with its output in `log`.
pub(super) fn start(mut command: Command, place: Place, log: &Path) -> Result<Running> {
    let program = command.get_program().to_owned();
    let cannot = |error| format!("cannot start {program:?}: {error}");
    let output = File::create(log).map_err(cannot)?;
    let errors = output.try_clone().map_err(cannot)?;
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let mut child = command.spawn().map_err(cannot)?;
    let pid = child.id();
    let born = born(pid).unwrap_or_default();
    thread::spawn(move || child.wait());
    Ok(Running { pid, born, place })
}

/// Waits until the service answers; `false` if it ended or took too long.
pub(super) fn wait_until_ready(running: &Running, ready: fn(&Place) -> bool) -> bool {
    poll(READY_WITHIN, || ready(&running.place) || !is_alive(running)) && is_alive(running)
}

/// Asks the process group to end, and kills it if it does not.
pub(super) fn stop(running: &Running) -> Result {
    for signal in ["TERM", "KILL"] {
        send(signal, running.pid)?;
        if poll(GRACE, || !is_alive(running)) {
            return Ok(());
        }
    }
    Err(format!("process {} does not end", running.pid))
}

/// Writes down that a process runs.
pub(super) fn remember(running: &Running, file: &Path) -> Result {
    let text = serde_json::to_string(running).map_err(|error| error.to_string())?;
    fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// The process written down in a file, if it still runs.
pub(super) fn find(file: &Path) -> Result<Option<Running>> {
    if !file.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let running: Running = serde_json::from_str(&text)
        .map_err(|error| format!("{} is damaged ({error}); delete it", file.display()))?;
    Ok(Some(running).filter(is_alive))
}

/// Removes what [`remember`] wrote.
pub(super) fn forget(file: &Path) -> Result {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", file.display()))
        }
        _ => Ok(()),
    }
}

fn is_alive(running: &Running) -> bool {
    born(running.pid).is_some_and(|born| born == running.born)
}

/// When a process was started; `None` if it is gone.
fn born(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything; the rest are plain words.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let gone = matches!(fields.first(), Some(&"Z" | &"X"));
    (!gone).then(|| fields.get(19).map(|&ticks| ticks.to_owned()))?
}

fn send(signal: &str, pid: u32) -> Result {
    let group = format!("-{pid}");
    let status = Command::new("kill")
        .args(["-s", signal, "--", &group])
        .status();
    status
        .map(drop)
        .map_err(|error| format!("cannot run kill: {error}"))
}

fn poll(limit: Duration, done: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if done() {
            return true;
        }
        thread::sleep(PAUSE);
    }
    done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start_time_too() {
        let pid = std::process::id();
        let place = Place {
            port: 1,
            data: std::env::temp_dir(),
        };
        let born = born(pid).unwrap();
        let mut running = Running { pid, born, place };
        assert!(is_alive(&running));
        running.born = "1".to_owned();
        assert!(!is_alive(&running));
    }
}
