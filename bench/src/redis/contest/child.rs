//! The inside of a process with workers: it is told windows, works through each, and says what came of it.

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;

use tokio::runtime::Runtime;

use super::kind::Kind;
use super::section::{Section, Window};
use super::worker::{Contender, work};
use super::{ours, raw, rslock};
use crate::bench::Outcome;
use crate::redis::server::client;
use crate::setup::{runtime, together};

/// On the command line of this program, in front of what the child is to do.
const MARK: &str = "--contend";
/// What a child says once it can begin, and after the last section of a window.
pub(super) const READY: &str = "ready";

/// The work of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    /// By what its workers exclude each other.
    pub(super) kind: Kind,
    /// Where the server listens.
    pub(super) port: u16,
    /// The number of the first worker.
    pub(super) first: usize,
    /// How many workers there are.
    pub(super) workers: usize,
}

impl Job {
    /// As it stands on the command line.
    pub(super) fn to_args(self) -> [String; 5] {
        let Self {
            kind,
            port,
            first,
            workers,
        } = self;
        let [port, first, workers] = [usize::from(port), first, workers].map(|it| it.to_string());
        [
            MARK.to_owned(),
            kind.word().to_owned(),
            port,
            first,
            workers,
        ]
    }

    fn from_args(args: &[String]) -> Option<Self> {
        let [mark, kind, port, first, workers] = args else {
            return None;
        };
        (mark == MARK).then_some(Self {
            kind: Kind::of(kind)?,
            port: port.parse().ok()?,
            first: first.parse().ok()?,
            workers: workers.parse().ok()?,
        })
    }
}

/// Does its job, if this process is such a child.
pub(crate) fn run(args: &[String]) -> Option<ExitCode> {
    let job = Job::from_args(args)?;
    Some(match contend(job) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    })
}

fn contend(job: Job) -> Outcome<()> {
    let (runtime, client) = (runtime()?, client(job.port)?);
    match job.kind {
        Kind::Ours => serve(&runtime, job, ours::team(&runtime, client, job.workers)?),
        Kind::Raw => {
            let team = raw::team(client, job.first, job.workers);
            serve(&runtime, job, runtime.block_on(team)?)
        }
        Kind::Rslock => serve(&runtime, job, rslock::team(client, job.workers)),
    }
}

/// Works through every window that comes in, until none does.
fn serve<C: Contender>(runtime: &Runtime, job: Job, mut team: Vec<C>) -> Outcome<()> {
    say(&[])?;
    for line in std::io::stdin().lock().lines() {
        let window = Window::from_line(&line?).ok_or("this is no window")?;
        let tasks = (job.first..)
            .zip(team.drain(..))
            .map(|(worker, mut it)| async move {
                let sections = work(&mut it, worker, window).await;
                (it, sections)
            });
        let mut sections = Vec::new();
        for (contender, done) in together(runtime, tasks) {
            team.push(contender);
            sections.extend(done?);
        }
        say(&sections)?;
    }
    Ok(())
}

fn say(sections: &[Section]) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    for section in sections {
        writeln!(out, "{}", section.to_line())?;
    }
    writeln!(out, "{READY}")?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_comes_through_the_command_line_as_it_was() {
        let job = Job {
            kind: Kind::Raw,
            port: 20_000,
            first: 48,
            workers: 16,
        };
        let args = job.to_args();
        assert_eq!(Job::from_args(&args), Some(job));
        assert_eq!(Job::from_args(&args[..4]), None);
        assert_eq!(Job::from_args(&["redis".to_owned()]), None);
    }
}
