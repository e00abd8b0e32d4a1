//! How a disk fails.

use std::io;

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Growing and shrinking.
    SetLen,
    /// Waiting until all is safe.
    Sync,
}

impl On {
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::SetLen, Self::Sync];
}

/// What becomes of what was written when its sync fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsynced {
    /// The next sync takes it along.
    Kept,
    /// Reads find it until the system needs the memory, but it is never written: what ext4 does.
    SeenUntilEvicted,
    /// It is gone at once: what btrfs does.
    Gone,
}

/// A failure that is due.
#[derive(Debug, Clone)]
pub struct Fault {
    on: On,
    /// How many go well before.
    spared: usize,
    error: io::ErrorKind,
    /// Whether it goes on failing once it has begun.
    lasts: bool,
    unsynced: Unsynced,
    struck: bool,
}

impl Fault {
    /// The `nth` of these fails, counted from one, and so do all after it.
    pub fn at(nth: usize, on: On) -> Self {
        Self {
            on,
            spared: nth.checked_sub(1).unwrap(),
            error: match on {
                On::Write | On::SetLen => io::ErrorKind::StorageFull,
                On::Read | On::Sync => io::ErrorKind::Other,
            },
            lasts: true,
            unsynced: Unsynced::Kept,
            struck: false,
        }
    }

    /// Fails once only: the kind of trouble that invites to try again.
    pub fn once(mut self) -> Self {
        self.lasts = false;
        self
    }

    /// Loses what was written.
    pub fn losing(mut self, unsynced: Unsynced) -> Self {
        self.unsynced = unsynced;
        self
    }

    pub fn has_struck(&self) -> bool {
        self.struck
    }

    pub fn unsynced(&self) -> Unsynced {
        self.unsynced
    }

    /// Whether this one fails, and how.
    pub fn strikes(&mut self, on: On) -> Option<io::Error> {
        if on != self.on || (self.struck && !self.lasts) {
            return None;
        }
        if self.spared > 0 {
            self.spared -= 1;
            return None;
        }
        self.struck = true;
        Some(match self.error {
            io::ErrorKind::Other => io::Error::other("Input/output error"),
            kind => kind.into(),
        })
    }
}
