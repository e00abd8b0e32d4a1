//! Records in memory: those that were written since the last commit, and some that were used lately.
//!
//! Whoever changes a record changes it here. The file gets it with the next commit, once, however often it has changed
//! since the last one; until then the transaction does not know of it.

use std::collections::HashMap;

use leasehold_core::{Name, Record};
use redb::WriteTransaction;

use crate::error::Trouble;
use crate::tables::{self, Books, RECORDS};
use crate::value::NOT_INDEXED;

/// Records that are kept although they are in the file; enough for those that are in use at the same time.
const KEPT: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: HashMap<Name, Entry>,
    /// The names of what is not in the transaction yet.
    unwritten: Vec<Name>,
    /// Entries of the index that belong to nothing.
    orphans: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Entry {
    record: Record,
    /// What the index knows it by.
    indexed: u64,
    written: bool,
    /// Whether the index is to be put right with the next commit.
    put_right: bool,
}

impl Cache {
    /// The records of these names.
    pub(crate) fn load(
        &mut self,
        txn: &WriteTransaction,
        names: &[&Name],
    ) -> Result<Vec<Record>, Trouble> {
        if names.iter().any(|name| !self.entries.contains_key(*name)) {
            self.fetch(txn, names)?;
        }
        let record = |name: &&Name| match self.entries.get(*name) {
            Some(entry) => entry.record.clone(),
            None => Record::new((*name).clone()),
        };
        Ok(names.iter().map(record).collect())
    }

    /// Reads what is missing.
    fn fetch(&mut self, txn: &WriteTransaction, names: &[&Name]) -> Result<(), Trouble> {
        let records = txn.open_table(RECORDS)?;
        for name in names {
            if self.entries.contains_key(*name) {
                continue;
            }
            let (record, indexed) = match tables::read(&records, name)? {
                Some(value) => (value.record, value.indexed),
                None => (Record::new((*name).clone()), NOT_INDEXED),
            };
            let entry = Entry {
                record,
                indexed,
                written: true,
                put_right: false,
            };
            self.entries.insert((*name).clone(), entry);
        }
        Ok(())
    }

    /// Keeps a changed record, which was loaded before.
    pub(crate) fn change(&mut self, record: Record) {
        if let Some(entry) = self.entries.get_mut(&record.name) {
            entry.record = record;
            entry.note(&mut self.unwritten);
        }
    }

    /// Has the index put right, if this entry of it is still there.
    pub(crate) fn put_right(
        &mut self,
        txn: &WriteTransaction,
        found: &[u8],
    ) -> Result<(), Trouble> {
        let name = tables::entry_name(found)?;
        self.load(txn, &[&name])?;
        match self.entries.get_mut(&name) {
            Some(entry) if found == tables::due_key(entry.indexed, &name) => {
                entry.put_right = true;
                entry.note(&mut self.unwritten);
            }
            _ => self.orphans.push(found.to_vec()),
        }
        Ok(())
    }

    /// Whether there is something that the transaction does not know.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.unwritten.is_empty() || !self.orphans.is_empty()
    }

    /// Writes into the transaction what it does not know.
    pub(crate) fn write(&mut self, txn: &WriteTransaction) -> Result<(), Trouble> {
        if !self.is_dirty() {
            return Ok(());
        }
        let mut books = Books::open(txn)?;
        for name in self.unwritten.drain(..) {
            let Some(entry) = self.entries.get_mut(&name) else {
                continue;
            };
            entry.indexed = books.write(&entry.record, entry.indexed, entry.put_right)?;
            entry.written = true;
            entry.put_right = false;
        }
        for orphan in self.orphans.drain(..) {
            books.drop_entry(&orphan)?;
        }
        if self.entries.len() > KEPT {
            self.entries.clear();
        }
        Ok(())
    }

    /// Forgets everything, written or not.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Entry {
    /// Notes that the transaction does not know it as it is.
    fn note(&mut self, unwritten: &mut Vec<Name>) {
        if std::mem::replace(&mut self.written, false) {
            unwritten.push(self.record.name.clone());
        }
    }
}
