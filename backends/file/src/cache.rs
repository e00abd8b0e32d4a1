//! Records in memory: those that are not on the disk yet, and some that were used lately.
//!
//! Whoever changes a record changes it here. The disk gets it with the next commit, once, however often it has changed
//! since the last one. A record that is not here is on the disk as it was last committed.

use std::collections::HashMap;

use leasehold_core::{Name, Record};

use crate::error::Trouble;
use crate::tables;
use crate::value::{NOT_INDEXED, Value};

/// Records that are kept although they are on the disk; enough for those that are in use at the same time.
const KEPT: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: HashMap<Name, Entry>,
    /// The names of what has changed since it was last taken to be written.
    changed: Vec<Name>,
    /// Entries of the index that belong to nothing.
    orphans: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Entry {
    record: Record,
    /// What the index knows it by.
    indexed: u64,
    /// If it has changed since it was last taken to be written: what to write. Made by whoever changed it, while the
    /// committer is with the disk.
    unwritten: Option<Write>,
    /// Whether it was taken and is not on the disk yet.
    on_its_way: bool,
}

/// What a commit writes.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) writes: Vec<Write>,
    /// Entries of the index that belong to nothing.
    pub(crate) orphans: Vec<Vec<u8>>,
}

/// A record to be written.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) name: Name,
    /// The record, unless it is blank and to be deleted.
    pub(crate) record: Option<Vec<u8>>,
    /// When something is to be done about it, in milliseconds.
    pub(crate) due: u64,
    /// What the index knows it by; afterwards, what it knows it by then.
    pub(crate) indexed: u64,
    /// Whether the index is to be put right.
    pub(crate) put_right: bool,
}

impl Write {
    pub(crate) fn of(record: &Record, indexed: u64, put_right: bool) -> Result<Self, Trouble> {
        let bytes = (!record.is_blank()).then(|| record.encode()).transpose();
        Ok(Self {
            name: record.name.clone(),
            record: bytes.map_err(Trouble::Ours)?,
            due: tables::due_at(record),
            indexed,
            put_right,
        })
    }
}

impl Cache {
    /// Those of some names that have to be looked up on the disk.
    pub(crate) fn missing<'n>(&self, names: &[&'n Name]) -> Vec<&'n Name> {
        let known = |name: &&Name| self.entries.contains_key(*name);
        names.iter().copied().filter(|name| !known(name)).collect()
    }

    /// Keeps what the disk has under a name.
    pub(crate) fn keep(&mut self, name: &Name, value: Option<Value>) {
        let (record, indexed) = match value {
            Some(value) => (value.record, value.indexed),
            None => (Record::new(name.clone()), NOT_INDEXED),
        };
        let entry = Entry {
            record,
            indexed,
            unwritten: None,
            on_its_way: false,
        };
        self.entries.insert(name.clone(), entry);
    }

    /// The record of a name, if it is here.
    pub(crate) fn get(&self, name: &Name) -> Option<&Record> {
        self.entries.get(name).map(|entry| &entry.record)
    }

    /// Keeps changed records, which were here before; all of them or none.
    pub(crate) fn change(&mut self, records: Vec<Record>) -> Result<(), Trouble> {
        let write = |record: &Record| {
            let entry = self.entries.get(&record.name);
            let put_right = entry.is_some_and(Entry::is_to_be_put_right);
            Write::of(
                record,
                entry.map_or(NOT_INDEXED, |entry| entry.indexed),
                put_right,
            )
        };
        let writes: Result<Vec<_>, _> = records.iter().map(write).collect();
        for (record, write) in records.into_iter().zip(writes?) {
            if let Some(entry) = self.entries.get_mut(&record.name) {
                entry.record = record;
                entry.note(write, &mut self.changed);
            }
        }
        Ok(())
    }

    /// Has the index put right by the next commit, if this entry of it is still there. Its record must be here.
    pub(crate) fn put_right(&mut self, name: &Name, found: &[u8]) -> Result<(), Trouble> {
        match self.entries.get_mut(name) {
            Some(entry) if found == tables::due_key(entry.indexed, name) => {
                let write = Write::of(&entry.record, entry.indexed, true)?;
                entry.note(write, &mut self.changed);
            }
            // The commit that is on its way may move it, or has; whoever finds it again will see.
            Some(entry) if entry.on_its_way => {}
            _ => self.orphans.push(found.to_vec()),
        }
        Ok(())
    }

    /// Whether there is something to write.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty() || !self.orphans.is_empty()
    }

    /// Takes what is to be written. It stays here until it is [done](Self::done).
    pub(crate) fn take(&mut self) -> Batch {
        let mut writes = Vec::with_capacity(self.changed.len());
        for name in self.changed.drain(..) {
            if let Some(entry) = self.entries.get_mut(&name) {
                writes.extend(entry.take());
            }
        }
        let orphans = std::mem::take(&mut self.orphans);
        Batch { writes, orphans }
    }

    /// What was taken is on the disk.
    pub(crate) fn done(&mut self, batch: &Batch) {
        for write in &batch.writes {
            if let Some(entry) = self.entries.get_mut(&write.name) {
                entry.indexed = write.indexed;
                entry.on_its_way = false;
            }
        }
        if self.entries.len() > KEPT {
            self.entries.retain(|_, entry| entry.unwritten.is_some());
        }
    }

    /// Forgets everything, on the disk or not.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Entry {
    fn is_to_be_put_right(&self) -> bool {
        self.unwritten.as_ref().is_some_and(|write| write.put_right)
    }

    /// Notes that it has to be written.
    fn note(&mut self, write: Write, changed: &mut Vec<Name>) {
        if self.unwritten.replace(write).is_none() {
            changed.push(self.record.name.clone());
        }
    }

    fn take(&mut self) -> Option<Write> {
        let mut write = self.unwritten.take()?;
        // A commit that was on its way when this was noted may have moved it in the index.
        write.indexed = self.indexed;
        self.on_its_way = true;
        Some(write)
    }
}

impl Batch {
    /// Writes it all.
    pub(crate) fn write(&mut self, books: &mut tables::Books<'_>) -> Result<(), Trouble> {
        for write in &mut self.writes {
            write.indexed = books.write(write)?;
        }
        self.orphans
            .iter()
            .try_for_each(|orphan| books.drop_entry(orphan))
    }
}
