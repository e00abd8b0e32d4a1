//! Ports that stay ours while nobody listens on them.

use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::PathBuf;

use crate::{Error, Result};

/// Below the ports that systems give to clients: one of those could be taken by any connection while its server is down.
const RANGE: Range<u16> = 20_000..32_000;

/// A free port of the loopback interface. Nobody else gets it from here while this lives, in this process or another.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Locked. Never deleted: whoever waited for the deleted one and whoever made a new one would both have the port.
    _note: File,
}

impl Port {
    /// Finds one.
    ///
    /// # Errors
    ///
    /// If none is free, or the notes about ports cannot be written.
    pub fn reserve() -> Result<Self> {
        let folder = notes()?;
        let width = RANGE.end - RANGE.start;
        let first = rand::random_range(0..width);
        for step in 0..width {
            let number = RANGE.start + (first + step) % width;
            if let Some(port) = Self::try_reserve(&folder, number)? {
                return Ok(port);
            }
        }
        Err(Error::new(format!("no port of {RANGE:?} is free")))
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    fn try_reserve(folder: &std::path::Path, number: u16) -> Result<Option<Self>> {
        let path = folder.join(number.to_string());
        let cannot = format!("cannot write {}", path.display());
        let mut options = OpenOptions::new();
        let note = options.create(true).truncate(false).write(true).open(path);
        let note = note.map_err(Error::because(cannot))?;
        let ours = note.try_lock().is_ok();
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok();
        Ok((ours && free()).then_some(Self {
            number,
            _note: note,
        }))
    }
}

/// The folder with a note per port, for all processes of this user.
fn notes() -> Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let folder = std::env::temp_dir().join(format!("leasehold-ports-{user}"));
    let cannot = format!("cannot make {}", folder.display());
    fs::create_dir_all(&folder).map_err(Error::because(cannot))?;
    Ok(folder)
}
