//! The rule over plain records: what a backend's answers are held against.

use leasehold_core::backend::Event;
use leasehold_core::transition::{Env, Events, Outcome, Request, Settled, settle, transition};
use leasehold_core::{Name, Record, Result, Timestamp, Token};

/// The records of a few names, and the rule.
pub(super) struct Oracle {
    records: Vec<Record>,
    next_token: Token,
    /// What would be told to inboxes and watchers.
    pub(super) events: Vec<Event>,
}

impl Oracle {
    pub(super) fn new(names: &[Name]) -> Self {
        Self {
            records: names.iter().cloned().map(Record::new).collect(),
            next_token: Token::new(1),
            events: Vec::new(),
        }
    }

    /// The record as it is kept, settled or not.
    pub(super) fn record(&self, name: &Name) -> &Record {
        &self.records[self.at(name)]
    }

    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    pub(super) fn ask(&mut self, request: Request<'_>, now: Timestamp) -> Result<Outcome> {
        let places: Vec<_> = request.names().iter().map(|name| self.at(name)).collect();
        let mut records: Vec<_> = places.iter().map(|at| self.records[*at].clone()).collect();
        let mut env = self.env(now);
        let step = transition(&mut records, request, &mut env);
        for (at, record) in places.into_iter().zip(records) {
            self.put(at, record);
        }
        self.keep(env, step.events);
        step.outcome
    }

    /// Settles everything; the name of each grant that had run out, and how many tickets had.
    pub(super) fn sweep(&mut self, now: Timestamp) -> (Vec<Name>, usize) {
        let (mut expired, mut tickets) = (Vec::new(), 0);
        for at in 0..self.records.len() {
            let (mut env, mut events) = (self.env(now), Events::new());
            let mut record = self.records[at].clone();
            expired.extend(record.run_out(now).map(|expired| expired.name));
            let settled: Settled = settle(&mut record, &mut env, &mut events);
            tickets += settled.tickets;
            self.put(at, record);
            self.keep(env, events);
        }
        (expired, tickets)
    }

    fn at(&self, name: &Name) -> usize {
        let found = self.records.iter().position(|record| record.name == *name);
        found.expect("a play uses only its own names")
    }

    fn env(&self, now: Timestamp) -> Env {
        Env {
            watched: true,
            now,
            next_token: self.next_token,
        }
    }

    /// A blank record need not be stored, so it is not.
    fn put(&mut self, at: usize, record: Record) {
        self.records[at] = if record.is_blank() {
            Record::new(record.name)
        } else {
            record
        };
    }

    fn keep(&mut self, env: Env, events: Events) {
        self.next_token = env.next_token;
        self.events
            .extend(events.into_iter().map(|routed| routed.event));
    }
}
