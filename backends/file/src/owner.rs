//! One process at a time owns a file. Beside it lies a note that is locked and says who.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use leasehold_core::{Error, ErrorKind, Result};

use crate::error::of_io;

/// The right to use a file, until it is dropped or the process ends, however that comes.
///
/// The note is never deleted: whoever waited for the deleted one and whoever made a new one would both own the file.
#[derive(Debug)]
pub(crate) struct Ownership {
    note: File,
}

impl Ownership {
    /// Takes the file at `path`, or says who has it.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        let beside = beside(path, ".owner");
        let mut note = create_private(&beside).map_err(|error| of_io(path, error))?;
        match note.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(taken(path, &mut note)),
            Err(TryLockError::Error(error)) => return Err(of_io(&beside, error)),
        }
        write_note(&mut note).map_err(|error| of_io(&beside, error))?;
        Ok(Self { note })
    }
}

impl Drop for Ownership {
    /// Closing the note would do, if nobody had a copy of it: a child that this process is just starting does.
    fn drop(&mut self) {
        let _ = self.note.unlock();
    }
}

/// A file of which only we may read and write, there already or not.
pub(crate) fn create_private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // No link is followed: who may put one there must not choose what we write to.
        let follow_none = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        options.mode(0o600).custom_flags(follow_none);
    }
    options.open(path)
}

/// The path with something behind its last part.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn write_note(note: &mut File) -> std::io::Result<()> {
    note.set_len(0)?;
    note.rewind()?;
    writeln!(note, "pid {}{}", std::process::id(), host())
}

#[cfg(unix)]
fn host() -> String {
    let name = rustix::system::uname();
    format!(" on {}", name.nodename().to_string_lossy())
}

#[cfg(not(unix))]
fn host() -> String {
    String::new()
}

fn taken(path: &Path, note: &mut File) -> Error {
    let mut owner = String::new();
    let _ = note.take(200).read_to_string(&mut owner);
    let owner = match owner.trim() {
        "" => "another process",
        owner => owner,
    };
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "the file {} is in use by {owner}; one process owns it. To share it, run the server on it and connect to that",
            path.display()
        ),
    )
}
