//! A file whose storage stands still in the middle of a commit, so that the process can be killed right there.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::process::{say, wait_for_parent};

/// A page of the system's cache: a write that is killed ends at the end of one.
const PAGE: usize = 4096;

/// How many changes of the file are left until the last.
#[derive(Debug, Clone, Default)]
pub struct Fuse(Arc<AtomicI64>);

impl Fuse {
    /// From now on this many changes are made; the next one never ends, or only in part.
    pub fn set(&self, changes: i64) {
        self.0.store(changes + 1, Ordering::SeqCst);
    }

    /// Whether the change that is to be made now is the one that never ends.
    fn is_burnt(&self) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) == 1
    }
}

/// The file at a path, behind a fuse.
#[derive(Debug)]
pub struct Fused {
    inner: FileBackend,
    fuse: Fuse,
}

impl Fused {
    pub fn open(path: &Path, fuse: Fuse) -> Self {
        let mut options = OpenOptions::new();
        let file: File = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .unwrap();
        Self {
            inner: FileBackend::new(file).unwrap(),
            fuse,
        }
    }

    fn check(&self) {
        if self.fuse.is_burnt() {
            stand_still();
        }
    }
}

/// Tells the parent, and waits to be killed; if the parent is killed first, this ends as suddenly.
fn stand_still() -> ! {
    say("still");
    wait_for_parent();
    std::process::abort();
}

impl StorageBackend for Fused {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check();
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check();
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.fuse.is_burnt() {
            if data.len() > PAGE {
                self.inner.write(offset, &data[..PAGE])?;
            }
            stand_still();
        }
        self.inner.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }
}
