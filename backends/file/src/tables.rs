//! What is in the file: the records, an index of when each is due, and what concerns all of them.

use std::ops::Bound;
use std::time::Duration;

use leasehold_core::backend::{List, Sweep};
use leasehold_core::record_store::RETENTION;
use leasehold_core::{Error, ErrorKind, Grant, Name, Record, Timestamp};
use redb::{ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction};

use crate::cache::Write;
use crate::error::Trouble;
use crate::meta::{self, Meta};
use crate::value::{self, NOT_INDEXED, Value};

type Bytes = &'static [u8];

/// Encoded name to [`Value`], and in front of all names what concerns all of them.
pub(crate) const RECORDS: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("records");
/// The moment and the name to nothing, so that what is due stands in front.
pub(crate) const DUE: TableDefinition<'_, Bytes, ()> = TableDefinition::new("due");

/// As many entries of the index are put right by one sweep: others wait meanwhile.
const MOST_EARLY: usize = 512;

/// Makes the tables of a new file.
pub(crate) fn create(txn: &WriteTransaction, meta: &Meta) -> Result<(), Trouble> {
    txn.open_table(DUE)?;
    Books::open(txn)?.write_meta(meta)
}

/// Writes everything that is in one file into another.
pub(crate) fn copy(from: &ReadTransaction, to: &WriteTransaction) -> Result<(), Trouble> {
    let mut records = to.open_table(RECORDS)?;
    for row in from.open_table(RECORDS)?.iter()? {
        let (key, value) = row?;
        records.insert(key.value(), value.value())?;
    }
    let mut due = to.open_table(DUE)?;
    for row in from.open_table(DUE)?.iter()? {
        due.insert(row?.0.value(), ())?;
    }
    Ok(())
}

/// Reads what concerns all records.
pub(crate) fn read_meta(txn: &WriteTransaction) -> Result<Meta, Trouble> {
    let records = txn.open_table(RECORDS)?;
    let bytes = records.get(meta::KEY)?;
    Meta::decode(bytes.as_ref().map(|bytes| bytes.value())).map_err(Trouble::Ours)
}

fn broken(what: String) -> Trouble {
    Trouble::Ours(Error::new(ErrorKind::Corrupt, what))
}

/// What is stored under a name.
pub(crate) fn read(
    records: &impl ReadableTable<Bytes, Bytes>,
    name: &Name,
) -> Result<Option<Value>, Trouble> {
    let key = name.encoded().as_bytes();
    match records.get(key)? {
        Some(bytes) => Ok(Some(decode(key, bytes.value())?)),
        None => Ok(None),
    }
}

fn decode(key: &[u8], bytes: &[u8]) -> Result<Value, Trouble> {
    value::decode(key, bytes).map_err(Trouble::Ours)
}

/// The tables that change with a record.
pub(crate) struct Books<'t> {
    txn: &'t WriteTransaction,
    records: Table<'t, Bytes, Bytes>,
    /// Opened when it is needed, which is seldom.
    due: Option<Table<'t, Bytes, ()>>,
}

impl<'t> Books<'t> {
    pub(crate) fn open(txn: &'t WriteTransaction) -> Result<Self, Trouble> {
        Ok(Self {
            txn,
            records: txn.open_table(RECORDS)?,
            due: None,
        })
    }

    fn due(&mut self) -> Result<&mut Table<'t, Bytes, ()>, Trouble> {
        let due = match self.due.take() {
            Some(due) => due,
            None => self.txn.open_table(DUE)?,
        };
        Ok(self.due.insert(due))
    }

    pub(crate) fn write_meta(&mut self, meta: &Meta) -> Result<(), Trouble> {
        self.records.insert(meta::KEY, &meta.encode()[..])?;
        Ok(())
    }

    /// Writes a record, or deletes it. Says what the index knows it by afterwards.
    ///
    /// The index is only touched if it would be late, or is to be put right: a lease that is renewed, or taken and
    /// released over and over, is found early by the index, and put right by whoever finds it. That saves two writes of
    /// three.
    pub(crate) fn write(&mut self, write: &Write) -> Result<u64, Trouble> {
        let key = write.name.encoded().as_bytes();
        let Some(record) = &write.record else {
            self.records.remove(key)?;
            self.unindex(&write.name, write.indexed)?;
            return Ok(NOT_INDEXED);
        };
        let early = write.due > write.indexed;
        let indexed = if early && !write.put_right {
            write.indexed
        } else {
            write.due
        };
        if indexed != write.indexed {
            self.unindex(&write.name, write.indexed)?;
            if indexed != NOT_INDEXED {
                let entry = due_key(indexed, &write.name);
                self.due()?.insert(&entry[..], ())?;
            }
        }
        let bytes = value::encode(key, record, indexed);
        self.records.insert(key, &bytes[..])?;
        Ok(indexed)
    }

    fn unindex(&mut self, name: &Name, indexed: u64) -> Result<(), Trouble> {
        if indexed != NOT_INDEXED {
            self.due()?.remove(&due_key(indexed, name)[..])?;
        }
        Ok(())
    }

    /// Removes an entry of the index that belongs to no record.
    pub(crate) fn drop_entry(&mut self, entry: &[u8]) -> Result<(), Trouble> {
        self.due()?.remove(entry)?;
        Ok(())
    }

    /// Gives whatever was live at `last` so much more time.
    pub(crate) fn prolong(&mut self, last: Timestamp, by: Duration) -> Result<(), Trouble> {
        let mut entries = Vec::new();
        for entry in self.due()?.iter()? {
            entries.push(entry?.0.value().to_vec());
        }
        for entry in entries {
            if let Some(mut value) = read(&self.records, &entry_name(&entry)?)? {
                prolong(&mut value.record, last, by);
                self.write(&Write::of(&value.record, value.indexed, true)?)?;
            }
        }
        Ok(())
    }
}

fn prolong(record: &mut Record, last: Timestamp, by: Duration) {
    // Nobody has noticed yet that these are over; their lock delay runs all the same, and may not be over.
    let over = record
        .grants
        .iter()
        .filter(|grant| grant.expires_at <= last);
    let delay = over.filter_map(Grant::quarantine).max();
    record.quarantined_until = record.quarantined_until.max(delay);
    let mut changed = false;
    let mut more = |end: &mut Timestamp| {
        if *end > last {
            *end = end.after(by);
            changed = true;
        }
    };
    let grants = record.grants.iter_mut();
    grants.for_each(|grant| more(&mut grant.expires_at));
    record.quarantined_until.iter_mut().for_each(&mut more);
    if !record.tickets.is_empty() {
        let tickets = record.tickets.make().iter_mut();
        tickets.for_each(|ticket| more(&mut ticket.expires_at));
    }
    record.version = record.version.saturating_add(u64::from(changed));
}

/// When something is to be done about a record, in milliseconds.
pub(crate) fn due_at(record: &Record) -> u64 {
    let due = record.due_at(RETENTION);
    due.map_or(NOT_INDEXED, Timestamp::as_millis)
}

/// The entry of a record in the index.
pub(crate) fn due_key(due: u64, name: &Name) -> Vec<u8> {
    let mut key = due.to_be_bytes().to_vec();
    key.extend(name.encoded().as_bytes());
    key
}

/// The name in an entry of the index.
pub(crate) fn entry_name(entry: &[u8]) -> Result<Name, Trouble> {
    name_of(entry.get(8..).unwrap_or_default())
}

fn name_of(encoded: &[u8]) -> Result<Name, Trouble> {
    let text = std::str::from_utf8(encoded).ok();
    let name = text.and_then(|text| Name::decode(text).ok());
    let shown = || String::from_utf8_lossy(encoded).into_owned();
    name.ok_or_else(|| broken(format!("it holds {:?}, which is no name", shown())))
}

/// What a sweep finds in the index.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    /// The names it is after.
    pub(crate) wanted: Vec<Name>,
    /// Entries that stand too early in the index, or belong to nothing.
    pub(crate) early: Vec<Vec<u8>>,
    /// Whether there are so many of these that the rest was not looked at.
    pub(crate) cut_short: bool,
}

/// Goes through the index up to now, first things first.
pub(crate) fn overdue(
    index: &impl ReadableTable<Bytes, ()>,
    records: &impl ReadableTable<Bytes, Bytes>,
    sweep: &Sweep,
    limit: usize,
    now: Timestamp,
) -> Result<Overdue, Trouble> {
    let mut overdue = Overdue::default();
    let end = now.as_millis().saturating_add(1).to_be_bytes();
    for entry in index.range::<&[u8]>(..&end[..])? {
        let entry = entry?.0.value().to_vec();
        let name = entry_name(&entry)?;
        match read(records, &name) {
            Ok(Some(value)) if due_at(&value.record) <= now.as_millis() => {
                if sweep.wants(&value.record, now) {
                    overdue.wanted.push(name);
                }
            }
            Ok(_) => overdue.early.push(entry),
            // Whoever tends to it will say what is wrong with it; the others must not wait for that.
            Err(trouble) if trouble.is_harmless() => overdue.wanted.push(name),
            Err(trouble) => return Err(trouble),
        }
        overdue.cut_short = overdue.early.len() >= MOST_EARLY;
        if overdue.wanted.len() >= limit || overdue.cut_short {
            break;
        }
    }
    Ok(overdue)
}

/// Records for a list, and whether there are more.
pub(crate) fn scan(
    records: &impl ReadableTable<Bytes, Bytes>,
    request: &List,
) -> Result<(Vec<Record>, bool), Trouble> {
    let Some(prefix) = request.encoded_prefix() else {
        return Ok((Vec::new(), false));
    };
    let prefix = prefix.as_bytes();
    let after = request.after.as_ref().map(|name| name.encoded().as_bytes());
    let from = match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    };
    let size = request.page_size();
    let mut found = Vec::new();
    for item in records.range::<&[u8]>((from, Bound::Unbounded))? {
        let (key, bytes) = item?;
        if key.value() == meta::KEY {
            continue;
        }
        if !key.value().starts_with(prefix) {
            break;
        }
        if found.len() == size {
            return Ok((found, true));
        }
        found.push(decode(key.value(), bytes.value())?.record);
    }
    Ok((found, false))
}
