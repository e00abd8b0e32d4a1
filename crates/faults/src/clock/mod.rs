//! The wall clock of a child process, moved.
//!
//! A small library is put before the C library of the child (`LD_PRELOAD`). It answers questions for the wall clock with the
//! real time plus an offset that can be changed while the child runs. Clocks that only measure how much time passes are left
//! alone.
//!
//! It does nothing to programs that ask the kernel themselves, such as those in Go and those that are linked statically.
//! And it does not wait differently: a program that sleeps *until* a moment of the wall clock sleeps until the real clock
//! gets there.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use crate::{Error, Result};

/// The library.
const SHIM: &str = include_str!("shim.c");

/// Tells the library where its offset is. The same name is in `shim.c`.
const OFFSET_FILE: &str = "LEASEHOLD_CLOCK_OFFSET";

/// A wall clock that can be moved, for the programs it was given to. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct ShiftedClock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: TempDir,
    offset: File,
    nanos: Mutex<i64>,
}

impl ShiftedClock {
    /// A clock that shows the real time. Needs a C compiler, `cc`.
    ///
    /// # Errors
    ///
    /// If there is no compiler, or files cannot be written.
    pub fn new() -> Result<Self> {
        let folder = folder_for_all()?;
        compile(folder.path())?;
        let path = folder.path().join("offset");
        fs::write(&path, 0_i64.to_ne_bytes()).map_err(cannot_write(&path))?;
        let offset = File::options().write(true).open(&path);
        let inner = Inner {
            offset: offset.map_err(cannot_write(&path))?,
            folder,
            nanos: Mutex::new(0),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Gives this clock to a command that has not been started yet. The clock must live as long as what is started.
    pub fn apply(&self, command: &mut Command) {
        let folder = self.inner.folder.path();
        command.env("LD_PRELOAD", library(folder));
        command.env(OFFSET_FILE, folder.join("offset"));
    }

    /// How far it is ahead of the real time, in nanoseconds.
    pub fn offset(&self) -> i64 {
        *self.nanos()
    }

    /// Moves it by this many nanoseconds, forward or back. Whoever asks for the time when this has returned sees it.
    ///
    /// # Errors
    ///
    /// If the offset cannot be written, or would not fit 64 bits.
    pub fn shift(&self, by: i64) -> Result<()> {
        let mut nanos = self.nanos();
        let moved = nanos.checked_add(by).ok_or_else(too_far)?;
        let written = self.inner.offset.write_all_at(&moved.to_ne_bytes(), 0);
        written.map_err(Error::because("cannot write the offset of a clock"))?;
        *nanos = moved;
        Ok(())
    }

    /// Moves it forward.
    ///
    /// # Errors
    ///
    /// As for [`shift`](Self::shift).
    pub fn forward(&self, by: Duration) -> Result<()> {
        self.shift(nanos_of(by)?)
    }

    /// Moves it back.
    ///
    /// # Errors
    ///
    /// As for [`shift`](Self::shift).
    pub fn back(&self, by: Duration) -> Result<()> {
        self.shift(-nanos_of(by)?)
    }

    fn nanos(&self) -> std::sync::MutexGuard<'_, i64> {
        let nanos = self.inner.nanos.lock();
        nanos.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Some servers refuse to run as root and are given another user, who has to read this.
fn folder_for_all() -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("leasehold-clock-");
    builder.permissions(fs::Permissions::from_mode(0o755));
    let folder = builder.tempdir();
    folder.map_err(Error::because("cannot make a folder for a clock"))
}

fn library(folder: &Path) -> PathBuf {
    folder.join("clock.so")
}

fn compile(folder: &Path) -> Result<()> {
    let source = folder.join("clock.c");
    fs::write(&source, SHIM).map_err(cannot_write(&source))?;
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O2", "-Wall", "-shared", "-fPIC", "-o"]);
    cc.arg(library(folder)).arg(source).stdin(Stdio::null());
    let output = cc.output().map_err(Error::because(
        "cannot run `cc`, the C compiler that a clock for tests needs",
    ))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let what = format!("`cc` cannot compile the clock for tests:\n{errors}");
    Err(Error::new(what))
}

fn cannot_write(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    Error::because(format!("cannot write {}", path.display()))
}

fn nanos_of(duration: Duration) -> Result<i64> {
    i64::try_from(duration.as_nanos()).map_err(|_| too_far())
}

fn too_far() -> Error {
    Error::new("a clock can be moved by up to 292 years")
}
