//! The smallest store that compares on commit.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use leasehold_core::backend::{Inbox, List, Page, Seen, Sweep, Watch};
use leasehold_core::inboxes::Inboxes;
use leasehold_core::memory::Memory;
use leasehold_core::record_store::{Change, Committed, Loaded, RecordStore};
use leasehold_core::transition::Env;
use leasehold_core::{
    Backend, Clock, Description, Error, ErrorKind, ExpiryClock, ManualClock, Name, Record, Result,
    Timestamp, Token,
};

/// Records in a map, compared by version on commit. Leases run out by the wall reading of its clock. Conflicts come at
/// random, from a seed.
#[derive(Debug)]
pub(crate) struct CasStore {
    clock: ManualClock,
    pub(crate) table: Mutex<Table>,
    inboxes: Arc<Inboxes>,
    description: Description,
    pub(crate) commits: AtomicUsize,
    /// How many of 100 commits meet a conflict that is not there.
    conflicts: u64,
}

#[derive(Debug)]
pub(crate) struct Table {
    records: BTreeMap<Name, Record>,
    next_token: Token,
    seed: u64,
    /// A name whose record cannot be read.
    pub(crate) corrupt: Option<Name>,
}

impl CasStore {
    pub(crate) fn new(clock: &ManualClock, conflicts: u64) -> Self {
        let table = Table {
            records: BTreeMap::new(),
            next_token: Token::new(1),
            seed: 0x5eed,
            corrupt: None,
        };
        let mut description = Memory::new().describe().clone();
        description.guarantees.expiry_clock = ExpiryClock::StoreWall;
        Self {
            clock: clock.clone(),
            table: Mutex::new(table),
            inboxes: Arc::default(),
            description,
            commits: AtomicUsize::new(0),
            conflicts,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.wall()
    }
}

impl Table {
    fn version(&self, name: &Name) -> u64 {
        self.records.get(name).map_or(0, |record| record.version)
    }

    fn check(&self, name: &Name) -> Result<()> {
        if self.corrupt.as_ref() == Some(name) {
            return Err(Error::new(ErrorKind::Corrupt, "not a record"));
        }
        Ok(())
    }

    fn chance(&mut self, of_100: u64) -> bool {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % 100 < of_100
    }
}

#[async_trait]
impl RecordStore for CasStore {
    type Stamp = Vec<(Name, u64)>;

    fn describe(&self) -> &Description {
        &self.description
    }

    async fn load(&self, names: &[&Name]) -> Result<Loaded<Self::Stamp>> {
        // As a remote store would, let others in between.
        tokio::task::yield_now().await;
        let table = self.table.lock().unwrap();
        let mut records = Vec::new();
        for name in names {
            table.check(name)?;
            let record = table.records.get(*name).cloned();
            records.push(record.unwrap_or_else(|| Record::new((*name).clone())));
        }
        let stamp = records.iter().map(|r| (r.name.clone(), r.version));
        Ok(Loaded {
            stamp: stamp.collect(),
            records,
            env: Env {
                watched: true,
                now: self.now(),
                next_token: table.next_token,
            },
        })
    }

    async fn commit(&self, stamp: Self::Stamp, change: Change) -> Result<Committed> {
        tokio::task::yield_now().await;
        {
            let mut table = self.table.lock().unwrap();
            let same = stamp.iter().all(|(name, v)| table.version(name) == *v);
            if !same || table.chance(self.conflicts) {
                return Ok(Committed::Conflict);
            }
            self.commits.fetch_add(1, Ordering::SeqCst);
            table.next_token = table.next_token.max(change.next_token);
            for record in change.records {
                if record.is_blank() {
                    table.records.remove(&record.name);
                } else {
                    table.records.insert(record.name.clone(), record);
                }
            }
        }
        self.inboxes.deliver(change.events);
        Ok(Committed::Done)
    }

    async fn read(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        let table = self.table.lock().unwrap();
        table.check(name)?;
        Ok(Seen {
            what: table.records.get(name).cloned(),
            now: self.now(),
        })
    }

    /// Three records at a time, so that lists have to come back for more.
    async fn scan(&self, request: &List) -> Result<Seen<Page<Record>>> {
        let table = self.table.lock().unwrap();
        let prefix = request.encoded_prefix();
        let after = match &request.after {
            Some(name) => Bound::Excluded(name),
            None => Bound::Unbounded,
        };
        let range = table.records.range::<Name, _>((after, Bound::Unbounded));
        let mut items: Vec<_> = range
            .filter(|(name, _)| {
                let prefix = prefix.as_deref();
                prefix.is_some_and(|prefix| name.encoded().starts_with(prefix))
            })
            .map(|(_, record)| record.clone())
            .take(4)
            .collect();
        let more = items.len() > 3;
        items.truncate(3);
        Ok(Seen {
            what: Page { items, more },
            now: self.now(),
        })
    }

    async fn due(&self, sweep: &Sweep, limit: usize) -> Result<Vec<Name>> {
        let table = self.table.lock().unwrap();
        let now = self.now();
        let records = table.records.values();
        let due = records.filter(|record| sweep.wants(record, now));
        Ok(due.take(limit).map(|record| record.name.clone()).collect())
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        Ok(self.inboxes.watch(inbox, name))
    }
}
