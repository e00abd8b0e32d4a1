//! The floor: what an engine needs to bring as many bytes to the disk as often, and nothing else.

use std::path::Path;
use std::sync::Arc;

use redb::{Builder, Database, TableDefinition};

use crate::bench::Outcome;
use crate::measure::Subject;
use crate::setup::{NAMES, done, name, scattered};

/// The cache that the store has unless told otherwise.
const CACHE: usize = 64 * 1024 * 1024;
const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

/// A key and a value.
pub(super) type Entry<'a> = (&'a [u8], &'a [u8]);

/// Something that brings entries to the disk.
pub(super) trait Engine {
    /// Writes these entries together and comes back when they are on the disk.
    fn commit(&mut self, entries: &[Entry<'_>]) -> Outcome<()>;
}

/// The engine below the store.
pub(super) struct Redb {
    database: Database,
    /// Whether a commit syncs twice, as the store's do.
    two_phase: bool,
}

impl Redb {
    /// A new database in a file.
    pub(super) fn create(path: &Path, two_phase: bool) -> Outcome<Self> {
        Ok(Self {
            database: Builder::new().set_cache_size(CACHE).create(path)?,
            two_phase,
        })
    }
}

impl Engine for Redb {
    fn commit(&mut self, entries: &[Entry<'_>]) -> Outcome<()> {
        let mut txn = self.database.begin_write()?;
        txn.set_two_phase_commit(self.two_phase);
        let mut table = txn.open_table(TABLE)?;
        for (key, value) in entries {
            table.insert(key, value)?;
        }
        drop(table);
        Ok(txn.commit()?)
    }
}

/// The keys of all names, and what the store keeps under one of them.
pub(super) struct Contents {
    keys: Vec<String>,
    held: Vec<u8>,
    released: Vec<u8>,
}

impl Contents {
    /// Keys in scattered order, and values as large as these.
    pub(super) fn new(held: Vec<u8>, released: Vec<u8>) -> Outcome<Arc<Self>> {
        let keys = scattered(NAMES).map(|at| Ok(name(at)?.encoded().to_owned()));
        let keys = keys.collect::<leasehold_core::Result<_>>()?;
        Ok(Arc::new(Self {
            keys,
            held,
            released,
        }))
    }
}

/// An engine doing the least that pairs come down to.
pub(super) struct Raw<E> {
    engine: E,
    contents: Arc<Contents>,
    /// How many of the names it has been through.
    at: usize,
}

impl<E: Engine> Raw<E> {
    /// An engine that has every name already, as the store will.
    pub(super) fn new(mut engine: E, contents: &Arc<Contents>) -> Outcome<Self> {
        let entry = |key| (str::as_bytes(key), &contents.released[..]);
        let all: Vec<Entry<'_>> = contents.keys.iter().map(|key| entry(key)).collect();
        engine.commit(&all)?;
        Ok(Self {
            engine,
            contents: contents.clone(),
            at: 0,
        })
    }

    /// Measures pairs of which as many share each commit as there are callers.
    pub(super) fn subject<'a>(mut self, callers: usize, turns: usize) -> Subject<'a>
    where
        E: 'a,
    {
        Subject::timed(callers * turns, move || {
            for _ in 0..turns {
                done(self.turn(callers));
            }
        })
    }

    /// Each caller's name is written as held in one commit, and as released in another.
    fn turn(&mut self, callers: usize) -> Outcome<()> {
        let contents = self.contents.clone();
        let names = (self.at..self.at + callers).map(|at| contents.keys[at % NAMES].as_bytes());
        self.at += callers;
        for value in [&contents.held[..], &contents.released[..]] {
            let entries: Vec<Entry<'_>> = names.clone().map(|key| (key, value)).collect();
            self.engine.commit(&entries)?;
        }
        Ok(())
    }
}
