//! What else could bring entries to a disk: another engine, and files without one.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::engine::{Engine, Entry};
use crate::bench::Outcome;

/// `fjall`, which appends to a journal and syncs once per commit.
pub(super) struct Fjall {
    database: Database,
    keyspace: Keyspace,
}

impl Fjall {
    /// A new database in a folder.
    pub(super) fn create(folder: &Path) -> Outcome<Self> {
        let database = Database::builder(folder).open()?;
        let keyspace = database.keyspace("records", KeyspaceCreateOptions::default)?;
        Ok(Self { database, keyspace })
    }
}

impl Engine for Fjall {
    fn commit(&mut self, entries: &[Entry<'_>]) -> Outcome<()> {
        let durable = Some(PersistMode::SyncData);
        let mut batch = self.database.batch().durability(durable);
        for (key, value) in entries {
            batch.insert(&self.keyspace, *key, *value);
        }
        Ok(batch.commit()?)
    }
}

/// A file that grows with every commit. The length is part of what must be synced.
pub(super) struct Growing(File);

impl Growing {
    /// A new file.
    pub(super) fn create(path: &Path) -> Outcome<Self> {
        Ok(Self(File::create_new(path)?))
    }
}

impl Engine for Growing {
    fn commit(&mut self, entries: &[Entry<'_>]) -> Outcome<()> {
        self.0.write_all(&together(entries))?;
        Ok(self.0.sync_data()?)
    }
}

/// A file that was filled with zeros before, so that a commit changes nothing but bytes.
pub(super) struct Prepared {
    file: File,
    at: usize,
}

impl Prepared {
    const LENGTH: usize = 64 * 1024 * 1024;

    /// A new file of full length.
    pub(super) fn create(path: &Path) -> Outcome<Self> {
        let mut file = File::create_new(path)?;
        file.write_all(&vec![0; Self::LENGTH])?;
        file.sync_all()?;
        Ok(Self { file, at: 0 })
    }
}

impl Engine for Prepared {
    fn commit(&mut self, entries: &[Entry<'_>]) -> Outcome<()> {
        let bytes = together(entries);
        if self.at + bytes.len() > Self::LENGTH {
            self.at = 0;
        }
        self.file.write_all_at(&bytes, self.at as u64)?;
        self.at += bytes.len();
        Ok(self.file.sync_data()?)
    }
}

fn together(entries: &[Entry<'_>]) -> Vec<u8> {
    let parts = entries.iter().flat_map(|(key, value)| [*key, *value]);
    parts.collect::<Vec<_>>().concat()
}
