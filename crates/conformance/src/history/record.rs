//! The recorder, and the file format: JSON lines, one operation each.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::backend::{Acquired, Released, Renewed};
use leasehold_core::{Clock, Effect, Error, Lease, Name, Result, Token};
use serde::{Deserialize, Serialize};

/// One operation of one caller on one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Who did it.
    pub client: u32,
    /// On which name, encoded.
    pub name: String,
    /// When it was sent, in nanoseconds of the recorder's clock.
    pub start: u64,
    /// When its answer came, or when it was over in any case; none if it may still happen.
    pub end: Option<u64>,
    /// What was done.
    pub did: Did,
    /// What came of it.
    pub saw: Saw,
}

/// What was done. Holders are numbers: a history holds no secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Did {
    /// An exclusive acquire.
    Acquire {
        /// By whom.
        holder: u64,
        /// For how long.
        ttl_ms: u64,
    },
    /// A renewal.
    Renew {
        /// By whom.
        holder: u64,
        /// Of which grant.
        token: u64,
        /// To how long.
        ttl_ms: u64,
    },
    /// A release.
    Release {
        /// By whom.
        holder: u64,
        /// Of which grant.
        token: u64,
    },
    /// A withdrawal.
    Withdraw {
        /// By whom.
        holder: u64,
    },
}

/// What came of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Saw {
    /// Granted or renewed.
    Held {
        /// The token.
        token: u64,
        /// How much of the lease was left when the store answered.
        ttl_ms: u64,
    },
    /// The name was somebody else's.
    Refused,
    /// Released or withdrawn.
    Done,
    /// There was no such grant.
    NotHeld,
    /// An error that certainly changed nothing.
    Nothing,
    /// Nobody can tell.
    Unknown,
}

/// Records operations on one clock.
///
/// Moments never repeat: under a virtual clock they still tell which of two operations came first.
#[derive(Debug, Clone)]
pub struct History {
    clock: Arc<dyn Clock>,
    last: Arc<AtomicU64>,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl History {
    /// An empty history.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            last: Arc::default(),
            entries: Arc::default(),
        }
    }

    /// The current moment, later than any given before.
    #[must_use]
    pub fn now(&self) -> u64 {
        let reading = self.clock.now().as_nanos();
        let later = |last: u64| Some(reading.max(last + 1));
        let before = self
            .last
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, later)
            .unwrap_or(reading);
        reading.max(before + 1)
    }

    /// Adds an operation that was sent at `start` and has just been answered, or never will be.
    pub fn add(&self, client: u32, name: &Name, start: u64, did: Did, saw: Saw) {
        let end = (saw != Saw::Unknown).then(|| self.now());
        self.push(client, name, start, end, did, saw);
    }

    /// Adds an operation of which nobody knows what it did, but which can do nothing from now on.
    pub fn add_over(&self, client: u32, name: &Name, start: u64, did: Did) {
        self.push(client, name, start, Some(self.now()), did, Saw::Unknown);
    }

    fn push(&self, client: u32, name: &Name, start: u64, end: Option<u64>, did: Did, saw: Saw) {
        let entry = Entry {
            client,
            name: name.encoded().to_owned(),
            start,
            end,
            did,
            saw,
        };
        self.entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(entry);
    }

    /// Everything so far.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Writes the history as JSON lines.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        for entry in self.entries() {
            serde_json::to_writer(&mut file, &entry)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    }

    /// Reads a history back.
    ///
    /// # Errors
    /// If the file cannot be read or a line is not an operation.
    pub fn read(path: &Path) -> std::io::Result<Vec<Entry>> {
        BufReader::new(std::fs::File::open(path)?)
            .lines()
            .filter(|line| line.as_ref().map_or(true, |text| !text.trim().is_empty()))
            .map(|line| Ok(serde_json::from_str(&line?)?))
            .collect()
    }
}

impl Saw {
    /// What a failure says: nothing happened, or nobody can tell.
    #[must_use]
    pub fn failure(error: &Error) -> Self {
        match error.effect() {
            Effect::None => Self::Nothing,
            Effect::Unknown => Self::Unknown,
        }
    }

    fn lease(lease: &Lease) -> Self {
        Self::Held {
            token: lease.token.get(),
            ttl_ms: millis(lease.ttl),
        }
    }

    /// What an acquire of one name saw.
    #[must_use]
    pub fn acquired(answer: &Result<Acquired>) -> Self {
        match answer {
            Ok(Acquired::Granted(leases)) => leases.first().map_or(Self::Refused, Self::lease),
            Ok(Acquired::Held(_) | Acquired::Queued(_)) => Self::Refused,
            Err(error) => Self::failure(error),
        }
    }

    /// What a renewal of one lease saw.
    #[must_use]
    pub fn renewed(answer: &Result<Renewed>) -> Self {
        match answer {
            Ok(Renewed::Renewed(lease) | Renewed::Changed(lease)) => Self::lease(lease),
            Ok(Renewed::NotHeld(_) | Renewed::Queued(_)) => Self::NotHeld,
            Err(error) => Self::failure(error),
        }
    }

    /// What a release of one grant saw.
    #[must_use]
    pub fn released(answer: &Result<Released>) -> Self {
        match answer {
            Ok(Released::Released | Released::Forced(_)) => Self::Done,
            Ok(Released::NotHeld(_)) => Self::NotHeld,
            Err(error) => Self::failure(error),
        }
    }

    /// The token, if something was granted.
    #[must_use]
    pub fn token(self) -> Option<Token> {
        match self {
            Self::Held { token, .. } => Some(Token::new(token)),
            _ => None,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use leasehold_core::ManualClock;

    use super::*;

    #[test]
    fn a_saved_history_reads_back() {
        let history = History::new(Arc::new(ManualClock::new()));
        let name = Name::new("n", "k").unwrap();
        let (holder, ttl_ms, token) = (1, 1000, 5);
        let start = history.now();
        let did = Did::Acquire { holder, ttl_ms };
        history.add(1, &name, start, did, Saw::Held { token, ttl_ms });
        let did = Did::Release { holder, token };
        history.add(1, &name, history.now(), did, Saw::Unknown);
        let path = std::env::temp_dir().join(format!("leasehold-history-{}", std::process::id()));
        history.save(&path).unwrap();
        assert_eq!(History::read(&path).unwrap(), history.entries());
        std::fs::remove_file(path).unwrap();
        assert_eq!(history.entries()[1].end, None);
    }

    #[test]
    fn moments_grow_even_while_the_clock_stands() {
        let history = History::new(Arc::new(ManualClock::new()));
        let moments: Vec<_> = (0..5).map(|_| history.now()).collect();
        assert!(moments.is_sorted_by(|a, b| a < b), "{moments:?}");
    }
}
