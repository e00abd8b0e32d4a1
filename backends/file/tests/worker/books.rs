//! The tables of a closed file, read past the store: what it keeps for itself must add up as well.

use std::collections::BTreeMap;
use std::path::Path;

use leasehold_core::record_store::RETENTION;
use leasehold_core::{Record, Timestamp};
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

type Bytes = &'static [u8];

const RECORDS: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("records");
const DUE: TableDefinition<'_, Bytes, ()> = TableDefinition::new("due");

/// In front of a stored record: a checksum, and the moment the index knows it by.
const HEAD: usize = 12;
/// What concerns all records stands in front of them.
const META: &[u8] = b"\0";
const NOT_INDEXED: u64 = u64::MAX;

#[derive(Debug)]
pub struct Books {
    /// Each record by its encoded name, with the moment it says the index knows it by.
    pub records: BTreeMap<String, (u64, Record)>,
    /// The index: moments and encoded names.
    pub due: Vec<(u64, String)>,
}

impl Books {
    /// Reads the file, which nobody may have open.
    pub fn read(path: &Path) -> Self {
        let database = Database::open(path).unwrap();
        let txn = database.begin_read().unwrap();
        let records = txn.open_table(RECORDS).unwrap();
        let records = records.iter().unwrap().map(Result::unwrap);
        let records = records
            .filter(|(key, _)| key.value() != META)
            .map(|(key, value)| (text(key.value()), stored(value.value())));
        let due = txn.open_table(DUE).unwrap();
        let due = due.iter().unwrap().map(|item| {
            let (key, _) = item.unwrap();
            let (moment, name) = key.value().split_first_chunk().unwrap();
            (u64::from_be_bytes(*moment), text(name))
        });
        Self {
            records: records.collect(),
            due: due.collect(),
        }
    }

    /// The index has each record at most once, under the moment that the record says, which is never later than the one
    /// at which something is to be done about it; and it has nothing else.
    pub fn assert_right(&self) {
        for (name, (indexed, record)) in &self.records {
            let due = record.due_at(RETENTION).map(Timestamp::as_millis);
            let due = due.unwrap_or(NOT_INDEXED);
            assert!(
                *indexed <= due,
                "{name} is indexed too late: {indexed} > {due}"
            );
        }
        let indexed = self
            .records
            .iter()
            .map(|(name, (at, _))| (*at, name.clone()));
        let mut said: Vec<_> = indexed.filter(|(at, _)| *at != NOT_INDEXED).collect();
        said.sort_unstable();
        assert_eq!(self.due, said, "the index against what the records say");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn stored(bytes: &[u8]) -> (u64, Record) {
    let (head, record) = bytes.split_first_chunk::<HEAD>().unwrap();
    let indexed = u64::from_le_bytes([4, 5, 6, 7, 8, 9, 10, 11].map(|at| head[at]));
    (indexed, Record::decode(record).unwrap())
}
