//! A process of its own that opens a file and says what that took.
//!
//! Memory is only comparable in a process that has done nothing else, and only a process that is killed leaves a file
//! as a crash does.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use leasehold_core::{Backend as _, SystemClock};
use leasehold_file::{File, Options};

use super::ours::pair;
use crate::bench::Outcome;
use crate::setup::{name, runtime};

/// On the command line of this program, in front of what the child is to do.
const MARK: &str = "--open";
/// How many records are looked at after opening.
pub(super) const LOOKS: usize = 10_000;

/// What to open, and how.
pub(super) struct Opening {
    /// The file.
    pub(super) path: PathBuf,
    /// How many names it holds.
    pub(super) records: usize,
    /// Whether the machine is to look as if it had been started again since.
    pub(super) rebooted: bool,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Opened {
    /// The time to open, in nanoseconds.
    pub(super) nanos: f64,
    /// The time of the first acquire and release after that, in nanoseconds.
    pub(super) first_nanos: f64,
    /// The time of one look at a record, in nanoseconds.
    pub(super) look_nanos: f64,
    /// Growth of the process by opening, in bytes.
    pub(super) opened_bytes: f64,
    /// Growth of the process by opening and looking, in bytes.
    pub(super) looked_bytes: f64,
}

impl Opened {
    fn to_line(self) -> String {
        let Self {
            nanos,
            first_nanos,
            look_nanos,
            opened_bytes,
            looked_bytes,
        } = self;
        format!("{nanos} {first_nanos} {look_nanos} {opened_bytes} {looked_bytes}")
    }

    fn from_line(line: &str) -> Option<Self> {
        let figures: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
        let [nanos, first_nanos, look_nanos, opened_bytes, looked_bytes] = figures.ok()?[..] else {
            return None;
        };
        Some(Self {
            nanos,
            first_nanos,
            look_nanos,
            opened_bytes,
            looked_bytes,
        })
    }
}

/// A process that has a file open.
pub(super) struct Opener {
    child: Child,
    /// What it said.
    pub(super) opened: Opened,
}

impl Opener {
    /// Starts the process and waits until it has opened the file and looked around.
    pub(super) fn start(opening: &Opening) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let command = command.arg(MARK).arg(&opening.path);
        let command = command.arg(opening.records.to_string());
        let command = command.arg(opening.rebooted.to_string());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        match Opened::from_line(&line) {
            Some(opened) => Ok(Self { child, opened }),
            None => Err(format!("the process that opens ended with {}", child.wait()?).into()),
        }
    }

    /// Has the file closed as it should be.
    pub(super) fn close(mut self) -> Outcome<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("the process that closes ended with {status}").into());
        }
        Ok(())
    }

    /// Kills the process while the file is open.
    pub(super) fn kill(mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

/// Does what [`Opener::start`] asks for, if this process is such a child.
pub(crate) fn run(args: &[String]) -> Option<ExitCode> {
    let [mark, path, records, rebooted] = args else {
        return None;
    };
    if mark != MARK {
        return None;
    }
    let opening = Opening {
        path: path.into(),
        records: records.parse().unwrap_or_default(),
        rebooted: rebooted == "true",
    };
    Some(match open(&opening) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    })
}

/// Opens, looks, tells, and stays until told to close.
fn open(opening: &Opening) -> Outcome<()> {
    let runtime = runtime()?;
    let before = resident()?;
    let (store, nanos) = timed(|| Ok(runtime.block_on(options(opening).open())?))?;
    let opened_bytes = resident()? - before;
    // What opening has changed goes to the disk with whatever comes first.
    let ((), first_nanos) = timed(|| Ok(runtime.block_on(pair(&store, opening.records))?))?;
    let ((), look_nanos) = timed(|| runtime.block_on(look(&store, opening.records)))?;
    let opened = Opened {
        nanos,
        first_nanos,
        look_nanos: look_nanos / LOOKS as f64,
        opened_bytes,
        looked_bytes: resident()? - before,
    };
    let mut out = std::io::stdout();
    writeln!(out, "{}", opened.to_line())?;
    out.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Does something, and says how many nanoseconds it took.
fn timed<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, f64)> {
    let start = Instant::now();
    let result = work()?;
    Ok((result, start.elapsed().as_nanos() as f64))
}

fn options(opening: &Opening) -> Options {
    let options = Options::new(&opening.path);
    if opening.rebooted {
        options.clock(SystemClock::shared(), Some("after another start"))
    } else {
        options
    }
}

async fn look(store: &File, records: usize) -> Outcome<()> {
    for _ in 0..LOOKS {
        let at = rand::random_range(0..records);
        let seen = store.get(&name(at)?).await?.what;
        if seen.is_none_or(|record| record.grants.is_empty()) {
            return Err(format!("record {at} was lost").into());
        }
    }
    Ok(())
}

/// How much memory this process has, in bytes.
fn resident() -> Outcome<f64> {
    let status = std::fs::read_to_string(Path::new("/proc/self/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    Ok(kibibytes.ok_or("the system does not say how much memory this process has")? * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_through_the_pipe_as_they_were() {
        let opened = Opened {
            nanos: 1.5e9,
            first_nanos: 2e6,
            look_nanos: 3000.25,
            opened_bytes: 65536.0,
            looked_bytes: -4096.0,
        };
        assert_eq!(Opened::from_line(&opened.to_line()), Some(opened));
        assert_eq!(Opened::from_line("1 2 3 4"), None);
        assert_eq!(Opened::from_line(""), None);
    }
}
