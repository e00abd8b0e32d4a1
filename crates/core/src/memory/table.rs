//! One shard of the memory store: its records, their books, and the hand that tidies up in passing.

use hashbrown::HashTable;

use crate::backend::{Sweep, Swept};
use crate::clock::Timestamp;
use crate::lease::Token;
use crate::name::Name;
use crate::record::Record;
use crate::record_store::RETENTION;
use crate::seeded::{Bug, planted};
use crate::transition::{self, Env, Events, Step};

/// Ended records a shard may always keep; beyond that only as many as it has live ones.
const IDLE_ALLOWANCE: usize = 1024;

#[derive(Default)]
pub(super) struct Table {
    pub(super) entries: HashTable<Entry>,
    pub(super) last_token: u64,
    pub(super) idle: usize,
    /// The bucket the next operation looks at.
    hand: usize,
    /// No entry is due before this.
    pub(super) earliest_due: u64,
}

pub(super) struct Entry {
    /// When something is to be done about the record: a lease to end, or a memory to drop.
    pub(super) due: u64,
    pub(super) record: Box<Record>,
}

impl Entry {
    fn hash(&self) -> u64 {
        self.record.name.process_hash()
    }
}

impl Table {
    /// The record of a name.
    pub(super) fn get(&self, name: &Name) -> Option<&Record> {
        let entry = self
            .entries
            .find(name.process_hash(), |entry| entry.record.name == *name)?;
        Some(&entry.record)
    }

    /// The bucket in which the record of a name is.
    fn find(&self, name: &Name) -> Option<usize> {
        self.entries
            .find_bucket_index(name.process_hash(), |entry| entry.record.name == *name)
    }

    pub(super) fn step<T>(
        &mut self,
        name: &Name,
        env: &mut Env,
        step: impl FnOnce(&mut Record, &mut Env) -> Step<T>,
    ) -> Step<T> {
        let found = self.find(name);
        let Some((at, entry)) = found.and_then(|at| Some((at, self.entries.get_bucket_mut(at)?)))
        else {
            let mut record = Record::new(name.clone());
            let step = step(&mut record, env);
            self.add(record);
            return step;
        };
        let was_idle = entry.record.is_idle();
        let step = step(&mut entry.record, env);
        self.account(at, was_idle);
        step
    }

    /// Moves a record out for a step over several; [`put`](Self::put) brings it back.
    pub(super) fn take(&mut self, name: &Name) -> Record {
        let found = self.find(name);
        let blank = Record::new(name.clone());
        match found.and_then(|at| self.entries.get_bucket_mut(at)) {
            Some(entry) => {
                self.idle += usize::from(!entry.record.is_idle());
                std::mem::replace(&mut *entry.record, blank)
            }
            None => blank,
        }
    }

    pub(super) fn put(&mut self, record: Record) {
        let found = self.find(&record.name);
        match found.and_then(|at| Some((at, self.entries.get_bucket_mut(at)?))) {
            Some((at, entry)) => {
                let was_idle = entry.record.is_idle();
                *entry.record = record;
                self.account(at, was_idle);
            }
            None => self.add(record),
        }
    }

    /// Puts in a record that was not there, if there is something in it.
    fn add(&mut self, record: Record) {
        if record.is_blank() {
            return self.pass_by(&record);
        }
        self.idle += usize::from(record.is_idle());
        let due = due(&record, record.is_idle());
        self.earliest_due = self.earliest_due.min(due);
        let hash = record.name.process_hash();
        let record = Box::new(record);
        self.entries
            .insert_unique(hash, Entry { due, record }, Entry::hash);
    }

    /// Keeps the books after the record in the bucket `at` changed.
    fn account(&mut self, at: usize, was_idle: bool) {
        let Some(entry) = self.entries.get_bucket_mut(at) else {
            return;
        };
        if planted(Bug::TokenResets) && entry.record.is_idle() {
            entry.record.last_token = Token::new(0);
        }
        let idle = entry.record.is_idle();
        entry.due = due(&entry.record, idle);
        self.earliest_due = self.earliest_due.min(entry.due);
        self.idle = self.idle + usize::from(idle) - usize::from(was_idle);
        if idle && entry.record.is_blank() {
            self.forget(at);
        }
    }

    fn forget(&mut self, at: usize) {
        if let Ok(entry) = self.entries.get_bucket_entry(at) {
            let (entry, _) = entry.remove();
            self.idle -= usize::from(entry.record.is_idle());
            self.pass_by(&entry.record);
        }
    }

    /// Makes sure that neither the tokens nor the versions of a record that is not kept come back when its name does.
    fn pass_by(&mut self, record: &Record) {
        let used = record.version.max(record.last_token.get());
        self.last_token = self.last_token.max(used);
    }

    /// Looks at the next few buckets. A table that grows is nearly full, and if it is crowded, half of that is idle: of
    /// four buckets more than one can be cleared, while each new entry takes one.
    pub(super) fn turn_hand(&mut self, env: &mut Env, events: &mut Events) {
        for _ in 0..4 {
            if self.hand >= self.entries.num_buckets() {
                self.hand = 0;
            }
            let crowded = self.idle > IDLE_ALLOWANCE + (self.entries.len() - self.idle);
            match self.entries.get_bucket(self.hand) {
                Some(entry)
                    if entry.due <= env.now.as_millis() || (crowded && entry.record.is_idle()) =>
                {
                    self.tend(self.hand, crowded, env, events);
                }
                _ => {}
            }
            self.hand += 1;
        }
    }

    /// Tends what is due and covered, `left` records at most.
    pub(super) fn sweep(
        &mut self,
        request: &Sweep,
        left: &mut usize,
        env: &mut Env,
        events: &mut Events,
        swept: &mut Swept,
    ) {
        let now = env.now.as_millis();
        if self.earliest_due > now {
            return;
        }
        let mut earliest = u64::MAX;
        for at in 0..self.entries.num_buckets() {
            let Some(entry) = self.entries.get_bucket(at) else {
                continue;
            };
            if entry.due > now || !request.covers(&entry.record) {
                earliest = earliest.min(entry.due);
                continue;
            }
            if *left == 0 {
                swept.more = true;
                earliest = 0;
                break;
            }
            *left -= 1;
            swept.expired.extend(entry.record.run_out(env.now));
            let tended = self.tend(at, false, env, events);
            swept.tickets += tended.settled.tickets;
            swept.forgotten += usize::from(tended.forgotten);
            earliest = earliest.min(
                self.entries
                    .get_bucket(at)
                    .map_or(u64::MAX, |left| left.due),
            );
        }
        self.earliest_due = earliest;
    }

    /// Says what has run out, of `left` records at most, and leaves it as it is.
    pub(super) fn overdue(
        &self,
        request: &Sweep,
        left: &mut usize,
        now: Timestamp,
        swept: &mut Swept,
    ) {
        for entry in &self.entries {
            let mut run_out = entry.record.run_out(now).peekable();
            if run_out.peek().is_none() || !request.covers(&entry.record) {
                continue;
            }
            if *left == 0 {
                swept.more = true;
                return;
            }
            *left -= 1;
            swept.expired.extend(run_out);
        }
    }

    /// Settles the record at `at` and forgets it if nothing but old history is left.
    fn tend(&mut self, at: usize, crowded: bool, env: &mut Env, events: &mut Events) -> Tended {
        let Some(entry) = self.entries.get_bucket_mut(at) else {
            return Tended::default();
        };
        let was_idle = entry.record.is_idle();
        let settled = transition::settle(&mut entry.record, env, events);
        self.last_token = self.last_token.max(env.next_token.get() - 1);
        let idle = entry.record.is_idle();
        let over = idle && (crowded || due(&entry.record, idle) <= env.now.as_millis());
        if over {
            entry.record.last_end = None;
        }
        self.account(at, was_idle);
        Tended {
            settled,
            forgotten: over,
        }
    }
}

#[derive(Default)]
struct Tended {
    settled: transition::Settled,
    forgotten: bool,
}

/// When something is to be done about a record, in milliseconds.
fn due(record: &Record, idle: bool) -> u64 {
    if idle {
        record.forgotten_at(RETENTION).as_millis()
    } else {
        record.next_end().map_or(u64::MAX, Timestamp::as_millis)
    }
}
