//! A server that runs as a child process and can be treated badly.
//!
//! A [`Launch`] says how to run it. A [`Server`] has a port of the loopback interface and a folder for its files, and keeps
//! both when it is started again. Its output is in a log in that folder, whose end is in the error if it does not come up.
//!
//! A server is killed when its value is dropped, and also if this process ends without doing so; see `reaper.rs`.

mod launch;
mod log;
mod place;
mod port;
mod reaper;
mod signal;

use std::process::Child;
use std::time::Instant;

pub use launch::Launch;
pub use place::Place;
pub use port::Port;

use crate::{Error, Result};
use reaper::Reaper;
use rustix::process::Signal;

/// A running server. It is killed when this is dropped, and its folder removed, unless a test is just failing.
#[derive(Debug)]
pub struct Server {
    launch: Launch,
    place: Place,
    running: Option<Running>,
}

/// The order matters: the reaper must be gone before the id of the child may be given to somebody else.
#[derive(Debug)]
struct Running {
    child: Child,
    reaper: Option<Reaper>,
}

impl Server {
    /// Where it runs.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The port it was given.
    pub fn port(&self) -> u16 {
        self.place.port()
    }

    /// The id of its process, if it runs.
    pub fn pid(&self) -> Option<u32> {
        Some(self.running.as_ref()?.child.id())
    }

    /// Whether its process has not ended. One that was stopped runs all the same.
    pub fn is_running(&self) -> bool {
        // Whoever asks the child itself for its end takes its id away from it, and somebody else may get it.
        self.pid().is_some_and(|pid| !signal::has_ended(pid))
    }

    /// Kills it (SIGKILL). It is gone when this returns; so is every process of its group.
    pub fn kill(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        let _ = signal::send_to_group(running.child.id(), Signal::KILL);
        drop(running.reaper.take());
        let _ = running.child.wait();
    }

    /// Stops it in its tracks (SIGSTOP): it keeps its connections and does nothing. It has stopped when this returns.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn stop(&self) -> Result<()> {
        let pid = self.signal(Signal::STOP)?;
        signal::wait_until_stopped(pid).map_err(Error::because("cannot wait for a stop"))
    }

    /// Lets it go on after [`stop`](Self::stop) (SIGCONT).
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn cont(&self) -> Result<()> {
        self.signal(Signal::CONT).map(drop)
    }

    /// Kills it if it runs, and starts it again with the same port and folder. It is ready when this returns.
    ///
    /// # Errors
    ///
    /// If it does not come up.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        self.start()?;
        self.wait_until_ready()
    }

    /// The same, run in another way from now on: with other options, say.
    ///
    /// # Errors
    ///
    /// If it does not come up.
    pub fn restart_as(&mut self, launch: Launch) -> Result<()> {
        self.launch = launch;
        self.restart()
    }

    /// The end of what it has printed.
    pub fn log(&self) -> String {
        log::tail(&self.place.log())
    }

    /// Starts the process and does not wait for it to be ready.
    fn start(&mut self) -> Result<()> {
        let mut command = self.launch.command(&self.place);
        let program = command.get_program().to_string_lossy().into_owned();
        log::attach(&mut command, &self.place.log())?;
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let cannot = format!("cannot start {program}, is it installed?");
        let child = command.spawn().map_err(Error::because(cannot))?;
        let running = self.running.insert(Running {
            child,
            reaper: None,
        });
        running.reaper = Some(Reaper::of(running.child.id(), self.place.folder())?);
        Ok(())
    }

    /// Waits until the server answers. If it does not, it is killed.
    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + self.launch.deadline();
        while !self.launch.is_ready(&self.place) {
            let late = Instant::now() >= deadline;
            if late || !self.is_running() {
                return Err(self.did_not_come_up(late));
            }
            std::thread::sleep(launch::PAUSE);
        }
        // Whoever answers must be this process, and not somebody who took its port.
        match self.is_running() {
            true => Ok(()),
            false => Err(self.did_not_come_up(false)),
        }
    }

    fn did_not_come_up(&mut self, late: bool) -> Error {
        self.kill();
        let how = match late {
            true => format!("was not ready within {:?}", self.launch.deadline()),
            false => "ended by itself".to_owned(),
        };
        let name = self.launch.name(&self.place);
        let tail = self.log();
        Error::new(format!("{name} {how}; the end of its log:\n{tail}"))
    }

    fn signal(&self, signal: Signal) -> Result<u32> {
        let pid = self.pid().filter(|_| self.is_running());
        let pid = pid.ok_or_else(|| Error::new("the server does not run"))?;
        let sent = signal::send_to_group(pid, signal);
        sent.map_err(Error::because("cannot send a signal"))?;
        Ok(pid)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            self.place.keep();
        }
    }
}
