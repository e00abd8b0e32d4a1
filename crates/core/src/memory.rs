//! The reference store: everything in this process, every capability, the rule run as it is written.
//!
//! Names are spread over shards, each with its own lock and token counter. Time is the process's suspend-aware
//! monotonic clock, anchored once to the wall clock, so that no wall-clock step frees or prolongs a lease.
//!
//! Ended records are kept for a while, so that repeated requests get the same answer. They leave without anybody
//! scanning for them: every operation also looks at the next two entries of its shard and drops what is due.

use std::collections::BinaryHeap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use indexmap::IndexMap;
use smallvec::SmallVec;

use crate::backend::{
    Acquire, Acquired, Backend, CapacitySet, Confirm, Confirmed, Inbox, List, Page, Release,
    Released, Renew, RenewItem, Renewed, SetCapacity, Status, Sweep, Swept, Watch, Withdraw,
    Withdrawn,
};
use crate::clock::{Clock, Moment, SystemClock, Timestamp};
use crate::error::Result;
use crate::guarantees::{
    AtomicNames, Capabilities, Class, Description, ExpiryClock, Fairness, Fencing, Guarantees,
    Survival,
};
use crate::inboxes::Inboxes;
use crate::lease::{Token, Ttl};
use crate::name::Name;
use crate::record::Record;
use crate::seeded::{Bug, planted};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::transition::{self, Env, Events, Step};

/// The URL scheme of this store.
pub const SCHEME: &str = "memory";

/// More shards than a machine has cores, so that two of them seldom want the same one.
const SHARDS: usize = 64;
/// How long an ended record is remembered.
const RETENTION: Duration = Duration::from_secs(60);
/// Ended records a shard may always keep; beyond that only as many as it has live ones.
const IDLE_ALLOWANCE: usize = 1024;

/// A store inside this process.
pub struct Memory {
    clock: Arc<dyn Clock>,
    /// The moment and the Unix microseconds at which this store was made.
    origin: (Moment, u64),
    shards: Box<[Shard]>,
    inboxes: Arc<Inboxes>,
    description: Description,
}

/// Aligned so that two shards never share a cache line.
#[repr(align(128))]
#[derive(Default)]
struct Shard(Mutex<Table>);

#[derive(Default)]
struct Table {
    entries: IndexMap<Name, Entry, BuildHasherDefault<NameHasher>>,
    last_token: u64,
    idle: usize,
    /// The entry the next operation looks at.
    hand: usize,
    /// No entry is due before this.
    earliest_due: u64,
}

struct Entry {
    /// When something is to be done about the record: a lease to end, or a memory to drop.
    due: u64,
    record: Box<Record>,
}

impl Memory {
    /// An empty store on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(SystemClock::shared())
    }

    /// An empty store on this clock.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let origin = (clock.now(), clock.wall().as_millis().saturating_mul(1000));
        Self {
            clock,
            origin,
            shards: std::iter::repeat_with(Shard::default)
                .take(SHARDS)
                .collect(),
            inboxes: Arc::new(Inboxes::default()),
            description: description(),
        }
    }

    /// How many records are kept, ended ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| lock(&shard.0).entries.len())
            .sum()
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Unix microseconds on a clock that never steps.
    fn micros(&self) -> u64 {
        let since = self.clock.now().since(self.origin.0).as_nanos() / 1000;
        self.origin.1 + u64::try_from(since).unwrap_or(u64::MAX / 2)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.micros() / 1000)
    }

    fn shard_of(name: &Name) -> usize {
        // The table itself uses the lowest and the highest bits of the hash.
        (name.process_hash() >> 32) as usize % SHARDS
    }

    fn table(&self, shard: usize) -> MutexGuard<'_, Table> {
        lock(&self.shards[shard].0)
    }

    /// The time, and a token larger than any these tables gave: at least the microseconds of Unix time, so that
    /// tokens go on growing after a restart.
    fn env(&self, last_token: u64) -> Env {
        let micros = self.micros();
        let floor = if planted(Bug::TokenResets) {
            1
        } else {
            micros.max(last_token + 1)
        };
        Env {
            now: Timestamp::from_millis(micros / 1000),
            next_token: Token::new(floor),
        }
    }

    /// Runs a step over the record of one name.
    fn step_one<T>(&self, name: &Name, step: impl FnOnce(&mut Record, &mut Env) -> Step<T>) -> T {
        let mut table = self.table(Self::shard_of(name));
        let mut env = self.env(table.last_token);
        let mut step = table.step(name, &mut env, step);
        table.last_token = env.next_token.get() - 1;
        table.turn_hand(&mut env, &mut step.events);
        drop(table);
        self.deliver(step.events);
        step.outcome
    }

    /// Runs a step over the records of several names, with all their shards locked.
    fn step_many<'a, T>(
        &self,
        names: impl Iterator<Item = &'a Name> + Clone,
        step: impl FnOnce(&mut [Record], &mut Env) -> Step<T>,
    ) -> T {
        let mut shards: SmallVec<[usize; 8]> = names.clone().map(Self::shard_of).collect();
        shards.sort_unstable();
        shards.dedup();
        let mut tables: Vec<_> = shards.iter().map(|shard| self.table(*shard)).collect();
        let at = |name: &Name| {
            shards
                .binary_search(&Self::shard_of(name))
                .unwrap_or_default()
        };

        let mut env = self.env(
            tables
                .iter()
                .map(|table| table.last_token)
                .max()
                .unwrap_or_default(),
        );
        let mut records: Vec<_> = names.map(|name| tables[at(name)].take(name)).collect();
        let step = step(&mut records, &mut env);
        for record in records {
            let table = &mut tables[at(&record.name)];
            table.put(record);
        }
        for table in &mut tables {
            table.last_token = table.last_token.max(env.next_token.get() - 1);
        }
        drop(tables);
        self.deliver(step.events);
        step.outcome
    }

    fn deliver(&self, events: Events) {
        if !events.is_empty() {
            self.inboxes.deliver(events);
        }
    }
}

impl Table {
    fn step<T>(
        &mut self,
        name: &Name,
        env: &mut Env,
        step: impl FnOnce(&mut Record, &mut Env) -> Step<T>,
    ) -> Step<T> {
        let Some(at) = self.entries.get_index_of(name) else {
            let mut record = Record::new(name.clone());
            let step = step(&mut record, env);
            if !record.is_blank() {
                self.put(record);
            }
            return step;
        };
        let entry = &mut self.entries[at];
        let was_idle = entry.record.is_idle();
        let step = step(&mut entry.record, env);
        self.account(at, was_idle);
        step
    }

    /// Moves a record out for a step over several; [`put`](Self::put) brings it back.
    fn take(&mut self, name: &Name) -> Record {
        match self.entries.get_mut(name) {
            Some(entry) => {
                self.idle -= usize::from(entry.record.is_idle());
                let blank = Record::new(name.clone());
                let record = std::mem::replace(&mut *entry.record, blank);
                self.idle += 1;
                record
            }
            None => Record::new(name.clone()),
        }
    }

    fn put(&mut self, record: Record) {
        if let Some(at) = self.entries.get_index_of(&record.name) {
            let entry = &mut self.entries[at];
            let was_idle = entry.record.is_idle();
            *entry.record = record;
            self.account(at, was_idle);
        } else if !record.is_blank() {
            self.idle += usize::from(record.is_idle());
            let due = due(&record);
            self.earliest_due = self.earliest_due.min(due);
            self.entries.insert(
                record.name.clone(),
                Entry {
                    due,
                    record: Box::new(record),
                },
            );
        }
    }

    /// Keeps the books after the record at `at` changed.
    fn account(&mut self, at: usize, was_idle: bool) {
        let entry = &mut self.entries[at];
        if planted(Bug::TokenResets) && entry.record.is_idle() {
            entry.record.last_token = Token::new(0);
        }
        entry.due = due(&entry.record);
        self.earliest_due = self.earliest_due.min(entry.due);
        self.idle = self.idle + usize::from(entry.record.is_idle()) - usize::from(was_idle);
        if entry.record.is_blank() {
            self.forget(at);
        }
    }

    fn forget(&mut self, at: usize) {
        if let Some((_, entry)) = self.entries.swap_remove_index(at) {
            self.idle -= usize::from(entry.record.is_idle());
        }
    }

    /// Looks at the next two entries. Each operation leaves at most one entry behind, so that this keeps up.
    fn turn_hand(&mut self, env: &mut Env, events: &mut Events) {
        for _ in 0..2 {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let crowded = self.idle > IDLE_ALLOWANCE + (self.entries.len() - self.idle);
            match self.entries.get_index(self.hand) {
                Some((_, entry))
                    if entry.due <= env.now.as_millis() || (crowded && entry.record.is_idle()) =>
                {
                    self.tend(self.hand, crowded, env, events);
                }
                _ => self.hand += 1,
            }
        }
    }

    /// Settles the record at `at` and forgets it if nothing but old history is left.
    fn tend(&mut self, at: usize, crowded: bool, env: &mut Env, events: &mut Events) -> Tended {
        let entry = &mut self.entries[at];
        let was_idle = entry.record.is_idle();
        let settled = transition::settle(&mut entry.record, env, events);
        self.last_token = self.last_token.max(env.next_token.get() - 1);
        let entry = &mut self.entries[at];
        let over = entry.record.is_idle() && (crowded || due(&entry.record) <= env.now.as_millis());
        if over {
            entry.record.last_end = None;
        }
        let name = entry.record.name.clone();
        self.account(at, was_idle);
        Tended {
            name,
            settled,
            forgotten: over,
        }
    }
}

struct Tended {
    name: Name,
    settled: transition::Settled,
    forgotten: bool,
}

/// When something is to be done about a record: the first lease, ticket or delay to end, or its memory to drop.
fn due(record: &Record) -> u64 {
    if record.is_idle() {
        return record
            .last_end
            .as_ref()
            .map_or(0, |end| end.at.after(RETENTION).as_millis());
    }
    let grants = record.grants.iter().map(|grant| grant.expires_at);
    let tickets = record.tickets.iter().map(|ticket| ticket.expires_at);
    let first = grants.chain(tickets).chain(record.quarantined_until).min();
    first.map_or(u64::MAX, Timestamp::as_millis)
}

#[async_trait]
impl Backend for Memory {
    fn describe(&self) -> &Description {
        &self.description
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        match request.names.single() {
            Some(name) => self.step_one(name, |record, env| {
                transition::acquire(std::slice::from_mut(record), request, env)
            }),
            None => self.step_many(request.names.as_slice().iter(), |records, env| {
                transition::acquire(records, request, env)
            }),
        }
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        let renew = |item: &RenewItem| {
            self.step_one(&item.name, |record, env| {
                transition::renew(record, item, env)
            })
        };
        Ok(request.items.iter().map(renew).collect())
    }

    async fn release(&self, request: &Release) -> Result<Vec<Released>> {
        let names = transition::Request::Release(request).names();
        Ok(match names.as_slice() {
            [name] => self.step_one(name, |record, env| {
                transition::release(std::slice::from_mut(record), request, env)
            }),
            names => self.step_many(names.iter().copied(), |records, env| {
                transition::release(records, request, env)
            }),
        })
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        let names = request.items.iter().map(|(name, _)| name);
        self.step_many(names, |records, env| {
            transition::confirm(records, request, env)
        })
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        let names = request.names.as_slice().iter();
        Ok(self.step_many(names, |records, env| {
            transition::withdraw(records, request, env)
        }))
    }

    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet> {
        Ok(self.step_one(&request.name, |record, env| {
            transition::set_capacity(record, request, env)
        }))
    }

    async fn get(&self, name: &Name) -> Result<Option<Record>> {
        let table = self.table(Self::shard_of(name));
        Ok(table
            .entries
            .get(name)
            .map(|entry| entry.record.seen_at(self.now())))
    }

    async fn list(&self, request: &List) -> Result<Page<Record>> {
        let now = self.now();
        let size = request.page_size();
        // The names of the page and of one record more, the last one on top.
        let mut page = BinaryHeap::new();
        for shard in 0..SHARDS {
            let table = self.table(shard);
            for (name, entry) in &table.entries {
                if in_range(request, name) && matches(request, &entry.record.seen_at(now)) {
                    page.push(name.clone());
                    if page.len() > size + 1 {
                        page.pop();
                    }
                }
            }
        }
        let mut names = page.into_sorted_vec();
        let more = names.len() > size;
        names.truncate(size);
        let mut items = Vec::with_capacity(names.len());
        for name in &names {
            items.extend(
                self.get(name)
                    .await?
                    .filter(|record| matches(request, record)),
            );
        }
        Ok(Page { items, more })
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        let mut swept = Swept::default();
        let mut left = request.limit;
        for shard in 0..SHARDS {
            let mut events = Events::new();
            let mut table = self.table(shard);
            let mut env = self.env(table.last_token);
            if table.earliest_due > env.now.as_millis() {
                continue;
            }
            let mut at = 0;
            let mut earliest = u64::MAX;
            while let Some((_, entry)) = table.entries.get_index(at) {
                if entry.due > env.now.as_millis() {
                    earliest = earliest.min(entry.due);
                    at += 1;
                    continue;
                }
                if left == 0 {
                    swept.more = true;
                    earliest = 0;
                    break;
                }
                left -= 1;
                let tended = table.tend(at, false, &mut env, &mut events);
                swept.tickets += tended.settled.tickets;
                swept.forgotten += usize::from(tended.forgotten);
                if tended.settled.expired > 0 {
                    swept.expired.push(tended.name);
                }
            }
            table.earliest_due = earliest;
            drop(table);
            self.deliver(events);
        }
        Ok(swept)
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        Ok(self.inboxes.watch(inbox, name))
    }
}

fn in_range(request: &List, name: &Name) -> bool {
    request.after.as_ref().is_none_or(|after| name > after)
        && request
            .namespace
            .as_ref()
            .is_none_or(|namespace| *namespace == name.namespace())
        && name.namespace().starts_with(&request.namespace_prefix)
        && name.key().starts_with(&request.key_prefix)
}

fn matches(request: &List, record: &Record) -> bool {
    let status = match request.status {
        None => !record.is_idle(),
        Some(Status::Held) => !record.grants.is_empty(),
        Some(Status::Waited) => !record.tickets.is_empty(),
        Some(Status::Confirmed) => !record.claims.is_empty(),
    };
    status
        && request.kind.is_none_or(|kind| record.kind == kind)
        && request.owner.as_ref().is_none_or(|owner| {
            record.grants.iter().any(|grant| grant.owner == *owner)
                || record.tickets.iter().any(|ticket| ticket.owner == *owner)
                || record.claims.iter().any(|claim| claim.owner == *owner)
        })
        && request
            .entity
            .as_ref()
            .is_none_or(|entity| record.claims.iter().any(|claim| claim.entity == *entity))
        && request
            .expires_before
            .is_none_or(|before| record.grants.iter().any(|grant| grant.expires_at < before))
}

fn description() -> Description {
    Description {
        scheme: SCHEME,
        capabilities: Capabilities {
            queue: true,
            watch: true,
            list: true,
            reservations: true,
            quantities: true,
            adopt: true,
            atomic_names: AtomicNames::All,
            atomic_facts: true,
            renew_batch: usize::MAX,
            min_ttl: Ttl::MIN,
            max_ttl: Ttl::MAX,
            ttl_step: Ttl::MIN,
        },
        guarantees: Guarantees {
            class: Class::P,
            fencing: Fencing::BestEffort,
            expiry_clock: ExpiryClock::ProcessMonotonic,
            durable: false,
            survives_failover: Survival::NotApplicable,
            fairness: Fairness::Fifo,
            assumes: "one process; after a restart nothing is left and tokens go on from the wall clock, \
                      so they grow unless it was set back meanwhile",
        },
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("records", &self.len())
            .finish_non_exhaustive()
    }
}

/// Passes on the hash that a name already carries.
#[derive(Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
