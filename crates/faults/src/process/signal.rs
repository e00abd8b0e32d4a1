//! Signals to processes that we started.

use std::io;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// Sends a signal to the group that a process leads.
pub(super) fn send_to_group(leader: u32, signal: Signal) -> io::Result<()> {
    Ok(rustix::process::kill_process_group(pid(leader)?, signal)?)
}

/// Waits until a child has stopped, or ended. Its end can still be waited for.
pub(super) fn wait_until_stopped(child: u32) -> io::Result<()> {
    let what = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::process::waitid(WaitId::Pid(pid(child)?), what)?;
    Ok(())
}

/// Whether a child has ended. Its end can still be waited for.
pub(super) fn has_ended(child: u32) -> bool {
    let what = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = pid(child).map(|pid| rustix::process::waitid(WaitId::Pid(pid), what));
    !matches!(status, Ok(Ok(None)))
}

fn pid(number: u32) -> io::Result<Pid> {
    let number = i32::try_from(number).ok();
    let pid = number.and_then(Pid::from_raw);
    pid.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
