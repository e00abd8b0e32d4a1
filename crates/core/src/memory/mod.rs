//! The reference store: everything in this process, every capability, the rule run as it is written.
//!
//! Names are spread over shards, each with its own lock and token counter. Time is the process's suspend-aware
//! monotonic clock, anchored once to the wall clock, so that no wall-clock step frees or prolongs a lease.
//!
//! Ended records are kept for a while, so that repeated requests get the same answer. They leave without anybody
//! scanning for them: every new name also makes its shard look at the next few and drop what is due.

mod table;

use std::collections::BinaryHeap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use smallvec::SmallVec;

use table::Table;

use crate::backend::{
    Acquire, Acquired, AtOnce, Backend, CapacitySet, Confirm, Confirmed, Inbox, List, Page,
    Release, Releases, Renew, RenewItem, Renewed, Seen, SetCapacity, Sweep, Swept, Watch, Withdraw,
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
use crate::transition::{self, Env, Events, Request, Step};

/// The URL scheme of this store.
pub const SCHEME: &str = "memory";

/// More shards than a machine has cores, so that two of them seldom want the same one.
const SHARDS: usize = 64;

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

    /// A moment as Unix microseconds that never step.
    fn micros(&self, at: Moment) -> u64 {
        let since = at.as_nanos().saturating_sub(self.origin.0.as_nanos());
        self.origin.1 + since / 1000
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.micros(self.clock.now()) / 1000)
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
    fn env(&self, at: Moment, last_token: u64) -> Env {
        let micros = self.micros(at);
        let floor = if planted(Bug::TokenResets) {
            1
        } else {
            micros.max(last_token + 1)
        };
        Env {
            watched: self.inboxes.watches_names(),
            now: Timestamp::from_millis(micros / 1000),
            next_token: Token::new(floor),
        }
    }

    /// Runs a step over the record of one name, and says when.
    fn step_one<T>(
        &self,
        name: &Name,
        step: impl FnOnce(&mut Record, &mut Env) -> Step<T>,
    ) -> (Moment, T) {
        let mut table = self.table(Self::shard_of(name));
        let at = self.clock.now();
        let mut env = self.env(at, table.last_token);
        let before = table.entries.len();
        let mut step = table.step(name, &mut env, step);
        table.last_token = table.last_token.max(env.next_token.get() - 1);
        // Only a new entry needs the hand to move: nothing else makes the table grow.
        if table.entries.len() > before {
            table.turn_hand(&mut env, &mut step.events);
        }
        drop(table);
        self.deliver(step.events);
        (at, step.outcome)
    }

    /// Runs a step over the records of several names, with all their shards locked, and says when.
    fn step_many<'a, T>(
        &self,
        names: impl Iterator<Item = &'a Name> + Clone,
        step: impl FnOnce(&mut [Record], &mut Env) -> Step<T>,
    ) -> (Moment, T) {
        let mut shards: SmallVec<[usize; 8]> = names.clone().map(Self::shard_of).collect();
        shards.sort_unstable();
        shards.dedup();
        let mut tables: Vec<_> = shards.iter().map(|shard| self.table(*shard)).collect();
        let place = |name: &Name| {
            shards
                .binary_search(&Self::shard_of(name))
                .unwrap_or_default()
        };

        let last_token = tables.iter().map(|table| table.last_token).max();
        let at = self.clock.now();
        let mut env = self.env(at, last_token.unwrap_or_default());
        let mut records: Vec<_> = names.map(|name| tables[place(name)].take(name)).collect();
        let step = step(&mut records, &mut env);
        for record in records {
            let table = &mut tables[place(&record.name)];
            table.put(record);
        }
        for table in &mut tables {
            table.last_token = table.last_token.max(env.next_token.get() - 1);
        }
        drop(tables);
        self.deliver(step.events);
        (at, step.outcome)
    }

    fn deliver(&self, events: Events) {
        if !events.is_empty() {
            self.inboxes.deliver(events);
        }
    }
}

impl AtOnce for Memory {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn acquire_at_once(&self, request: &Acquire) -> (Moment, Result<Acquired>) {
        match request.names.single() {
            Some(name) => self.step_one(name, |record, env| {
                transition::acquire(std::slice::from_mut(record), request, env)
            }),
            None => self.step_many(request.names.as_slice().iter(), |records, env| {
                transition::acquire(records, request, env)
            }),
        }
    }

    fn release_at_once(&self, request: &Release) -> Result<Releases> {
        let (_, released) = match request.single() {
            Some(name) => self.step_one(name, |record, env| {
                transition::release(std::slice::from_mut(record), request, env)
            }),
            None => {
                let names = Request::Release(request).distinct_names()?;
                self.step_many(names.iter().copied(), |records, env| {
                    transition::release(records, request, env)
                })
            }
        };
        Ok(released)
    }
}

#[async_trait]
impl Backend for Memory {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        Some(self)
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        self.acquire_at_once(request).1
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        let renew = |item: &RenewItem| {
            let step = |record: &mut Record, env: &mut Env| transition::renew(record, item, env);
            self.step_one(&item.name, step).1
        };
        Ok(request.items.iter().map(renew).collect())
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        self.release_at_once(request)
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        let names = Request::Confirm(request).distinct_names()?;
        self.step_many(names.iter().copied(), |records, env| {
            transition::confirm(records, request, env)
        })
        .1
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        let names = request.names.as_slice().iter();
        let (_, withdrawn) = self.step_many(names, |records, env| {
            transition::withdraw(records, request, env)
        });
        Ok(withdrawn)
    }

    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet> {
        let (_, set) = self.step_one(&request.name, |record, env| {
            transition::set_capacity(record, request, env)
        });
        Ok(set)
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        let table = self.table(Self::shard_of(name));
        let now = self.now();
        let what = table.get(name).map(|record| record.seen_at(now));
        Ok(Seen { what, now })
    }

    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>> {
        let now = self.now();
        let size = request.page_size();
        // The names of the page and of one record more, the last one on top.
        let mut page = BinaryHeap::new();
        for shard in 0..SHARDS {
            let table = self.table(shard);
            for entry in &table.entries {
                let name = &entry.record.name;
                let fits = page.len() <= size || page.peek().is_some_and(|last| name < last);
                let after = request.after.as_ref().is_none_or(|after| name > after);
                if fits
                    && after
                    && request.covers(name)
                    && request.matches(&entry.record.seen_at(now))
                {
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
                    .what
                    .filter(|record| request.matches(record)),
            );
        }
        let what = Page { items, more };
        Ok(Seen { what, now })
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        let mut swept = Swept::default();
        let mut left = request.limit;
        for shard in 0..SHARDS {
            let mut events = Events::new();
            let mut table = self.table(shard);
            if request.dry_run {
                table.overdue(request, &mut left, self.now(), &mut swept);
                continue;
            }
            let mut env = self.env(self.clock.now(), table.last_token);
            table.sweep(request, &mut left, &mut env, &mut events, &mut swept);
            drop(table);
            self.deliver(events);
        }
        Ok(swept)
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        Ok(self.inboxes.watch(inbox, name))
    }
}

/// What this store is, can do and promises.
#[must_use]
pub fn description() -> Description {
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
