//! What callers were told and have seen, and what must therefore be on the disk after a crash.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_conformance::history::{Bounds, Entry, Saw, judge};
use leasehold_core::{Name, Record, Token};

/// Keeps account of a run. Its moments are those of the [disk](super::Disk::moment).
#[derive(Debug, Default)]
pub struct Witness {
    /// When somebody was shown a token, as its holder, by a refusal or by an event.
    tokens: Vec<(usize, Token)>,
    states: BTreeMap<Name, Vec<State>>,
    together: Vec<Vec<(Name, Mark)>>,
    calls: Vec<Call>,
    /// When the clock was moved, and to where.
    ticks: Vec<(usize, Duration)>,
}

/// What somebody has seen of a name after an answer.
#[derive(Debug)]
struct State {
    seen_at: usize,
    /// Grows with every change of the record; the version, as long as there is one.
    rank: u64,
    record: Option<Record>,
}

/// What tells that a request over several names has reached one of them.
#[derive(Debug, Clone, Copy)]
pub enum Mark {
    /// The record has come at least to this version.
    Version(u64),
    /// The name was granted with this token, or with a later one since.
    Token(Token),
}

/// A call for the judges of histories.
#[derive(Debug, Clone)]
pub struct Call {
    pub begun: usize,
    pub answered: usize,
    pub entry: Entry,
}

/// What was found after a crash, by name.
pub type Found = BTreeMap<Name, Record>;

impl Witness {
    pub fn saw_token(&mut self, moment: usize, token: Token) {
        self.tokens.push((moment, token));
    }

    pub fn saw_state(&mut self, seen_at: usize, name: &Name, record: Option<Record>) {
        let states = self.states.entry(name.clone()).or_default();
        let before = states.iter().map(|state| state.rank).max().unwrap_or(0);
        let rank = match &record {
            Some(record) => record.version,
            // Forgetting a record is one more change of it.
            None if states.last().is_some_and(|last| last.record.is_some()) => before + 1,
            None => before,
        };
        states.push(State {
            seen_at,
            rank,
            record,
        });
    }

    pub fn saw_together(&mut self, marks: Vec<(Name, Mark)>) {
        self.together.push(marks);
    }

    pub fn saw_call(&mut self, call: Call) {
        self.calls.push(call);
    }

    pub fn saw_tick(&mut self, moment: usize, offset: Duration) {
        self.ticks.push((moment, offset));
    }

    /// Whether anybody was ever told of a name.
    pub fn has_seen(&self, name: &Name) -> bool {
        self.states.contains_key(name)
    }

    /// Where the clock stood at a moment.
    pub fn offset_at(&self, moment: usize) -> Duration {
        let before = self.ticks.iter().rev().find(|(at, _)| *at <= moment);
        before.map_or(Duration::ZERO, |(_, offset)| *offset)
    }

    /// The largest token that anybody knew at a moment.
    pub fn highest_token_at(&self, moment: usize) -> Token {
        let known = self.tokens.iter().filter(|(at, _)| *at <= moment);
        let highest = known.map(|(_, token)| *token).max();
        highest.unwrap_or(Token::new(0))
    }

    /// What is wrong with what was found after a crash at a moment: something acknowledged is missing, something is other
    /// than it was, or a request over several names has reached only some of them.
    pub fn problems(&self, moment: usize, found: &Found) -> Vec<String> {
        let mut problems: Vec<String> = self.lost(moment, found).collect();
        problems.extend(self.unlike(found));
        problems
    }

    /// Acknowledged before the crash and not there after it.
    fn lost<'a>(&'a self, moment: usize, found: &'a Found) -> impl Iterator<Item = String> + 'a {
        self.states.iter().filter_map(move |(name, states)| {
            let known = states.iter().filter(|state| state.seen_at <= moment);
            let latest = known.max_by_key(|state| state.rank)?;
            let is_there = match found.get(name) {
                Some(record) => record.version >= latest.rank,
                None => states
                    .iter()
                    .any(|state| state.rank >= latest.rank && state.record.is_none()),
            };
            let found = found.get(name);
            (!is_there).then(|| format!("{name} was acknowledged as {latest:?}, found {found:?}"))
        })
    }

    /// There, but not as it ever was; this holds for what was not acknowledged as well.
    pub fn unlike<'a>(&'a self, found: &'a Found) -> impl Iterator<Item = String> + 'a {
        let changed = found.iter().filter_map(|(name, record)| {
            let Some(states) = self.states.get(name) else {
                return Some(format!("nobody ever touched {name}: {record:?}"));
            };
            let same = states.iter().find(|state| state.rank == record.version)?;
            let is_same = same.record.as_ref() == Some(record);
            (!is_same).then(|| format!("{name} was {same:?}, found {record:?}"))
        });
        let halved = self.together.iter().filter_map(|marks| {
            let there = marks
                .iter()
                .filter(|(name, mark)| mark.is_in(found.get(name)));
            let count = there.count();
            (count != 0 && count != marks.len()).then(|| format!("half of it is there: {marks:?}"))
        });
        changed.chain(halved)
    }

    /// How many of the found records nobody has seen in just this version: for those only the order is checked.
    pub fn unseen(&self, found: &Found) -> usize {
        let is_unseen = |(name, record): &(&Name, &Record)| {
            let states = self.states.get(*name);
            states.is_none_or(|states| states.iter().all(|state| state.rank != record.version))
        };
        found.iter().filter(is_unseen).count()
    }

    /// What the judges say about the calls up to a crash, followed by what was seen after it.
    ///
    /// Who had no answer at the crash does not know what became of the call, but that it is over. `now` is the time at the
    /// crash, and the entries after it count from there.
    pub fn judge(&self, moment: usize, now: u64, after: &[Entry]) -> Vec<String> {
        let sent = self.calls.iter().filter(|call| call.begun <= moment);
        let (answered, mut open): (Vec<&Call>, Vec<&Call>) =
            sent.partition(|call| call.answered <= moment);
        let ends = answered.iter().filter_map(|call| call.entry.end);
        let last = ends.chain(open.iter().map(|call| call.entry.start)).max();
        let crash = last.unwrap_or(0).max(now) + 1;
        let cut_off = |call: &Call| Entry {
            end: Some(crash),
            saw: Saw::Unknown,
            ..call.entry.clone()
        };
        let later = |entry: &Entry| Entry {
            start: crash + entry.start,
            end: entry.end.map(|end| crash + end),
            ..entry.clone()
        };
        let mut entries: Vec<Entry> = answered.iter().map(|call| call.entry.clone()).collect();
        entries.extend(open.drain(..).map(cut_off));
        entries.extend(after.iter().map(later));
        let violations = judge(&entries, Bounds::TICKING);
        violations.iter().map(ToString::to_string).collect()
    }
}

impl Mark {
    fn is_in(self, record: Option<&Record>) -> bool {
        record.is_some_and(|record| match self {
            Self::Version(version) => record.version >= version,
            Self::Token(token) => record.last_token >= token,
        })
    }
}
