//! Processes with workers, seen from outside.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::child::{Job, READY};
use super::figures::Contest;
use super::kind::Kind;
use super::section::{Section, Window, now};
use crate::bench::Outcome;
use crate::redis::server::Server;

/// How long after it is announced a window begins, so that all hear of it before.
const AHEAD: Duration = Duration::from_millis(100);

/// How many workers there are, and where.
#[derive(Debug, Clone, Copy)]
pub(in crate::redis) struct Layout {
    /// So many processes.
    pub(in crate::redis) processes: usize,
    /// So many workers in each.
    pub(in crate::redis) workers: usize,
    /// How long a contest lasts.
    pub(in crate::redis) lasts: Duration,
}

/// All workers of one kind. Their processes are killed when this is dropped.
pub(in crate::redis) struct Crew {
    kind: Kind,
    layout: Layout,
    members: Vec<Member>,
}

impl Crew {
    /// Starts the processes and waits until all are connected.
    pub(in crate::redis) fn start(server: &Server, kind: Kind, layout: Layout) -> Outcome<Self> {
        let job = |process: usize| Job {
            kind,
            port: server.port(),
            first: process * layout.workers,
            workers: layout.workers,
        };
        let members = (0..layout.processes).map(|process| Member::start(job(process)));
        let mut crew = Self {
            kind,
            layout,
            members: members.collect::<Outcome<_>>()?,
        };
        crew.answers()?;
        Ok(crew)
    }

    /// Lets all workers contend once.
    pub(super) fn contest(&mut self, server: &Server) -> Outcome<Contest> {
        let before = server.calls(self.kind.commands())?;
        let from = now() + AHEAD.as_nanos() as u64;
        let window = Window {
            from,
            until: from + self.layout.lasts.as_nanos() as u64,
        };
        for member in &mut self.members {
            writeln!(member.orders, "{}", window.to_line())?;
        }
        let sections = self.answers()?;
        let requests = server.calls(self.kind.commands())? - before;
        let workers = self.layout.processes * self.layout.workers;
        Contest::new(sections, window, workers, requests)
    }

    fn answers(&mut self) -> Outcome<Vec<Section>> {
        let mut all = Vec::new();
        for member in &mut self.members {
            all.extend(member.answer()?);
        }
        Ok(all)
    }
}

struct Member {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Member {
    fn start(job: Job) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let command = command.args(job.to_args()).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (orders, answers) = pipes.ok_or("a process of workers has no pipes")?;
        Ok(Self {
            child,
            orders,
            answers: BufReader::new(answers),
        })
    }

    /// What it says until it is ready.
    fn answer(&mut self) -> Outcome<Vec<Section>> {
        let mut sections = Vec::new();
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line)? == 0 {
                let end = self.child.wait()?;
                return Err(format!("a process of workers ended with {end}").into());
            }
            match line.trim_end() {
                READY => return Ok(sections),
                line => sections.push(Section::from_line(line).ok_or("this is no section")?),
            }
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
