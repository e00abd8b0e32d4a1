//! What kills a server if we end without having done so: after a crash, a kill, or with a server in a `static`.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::{Error, Result};

/// Waits for the end of its input, which comes with the end of the process that holds the other side.
const SCRIPT: &str = r#"cat >/dev/null; kill -s KILL -- "-$0"; rm -rf -- "$1""#;

/// A process that kills another one's group and removes its folder when this process ends. Dropping it calls that off.
#[derive(Debug)]
pub(super) struct Reaper {
    child: Child,
}

impl Reaper {
    /// Watches over the group of this process and over this folder.
    pub(super) fn of(pid: u32, folder: &Path) -> Result<Self> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(SCRIPT).arg(pid.to_string()).arg(folder);
        shell.stdin(Stdio::piped()).stdout(Stdio::null());
        // A group of its own, so that an interrupt from the keyboard, which ends us, leaves it to do its work.
        shell.stderr(Stdio::null()).process_group(0);
        let child = shell.spawn().map_err(Error::because("cannot start sh"))?;
        Ok(Self { child })
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        // Killed before its input is closed, because that is what it waits for.
        let _ = super::signal::send_to_group(self.child.id(), rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}
