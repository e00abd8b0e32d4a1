//! The rule: what every request does to the records it names. No I/O, no clock, no randomness.
//!
//! This is the specification. Stores that keep [`Record`]s run it; stores that restate it in their own language are
//! held to it by the conformance kit. [`transition`] is the whole of it in one function; the typed functions beside
//! it are its parts.

mod acquire;
mod claim;
mod release;
mod renew;
mod settle;

use smallvec::SmallVec;

pub use acquire::{acquire, blocked};
pub use claim::{confirm, set_capacity};
pub use release::{forcible, not_forcible, not_held, release, withdraw};
pub use renew::renew;
pub(crate) use settle::run_out;
pub use settle::{Settled, settle};

use crate::backend::{
    Acquire, Acquired, CapacitySet, Confirm, Confirmed, Event, InboxId, Release, Releases,
    RenewItem, Renewed, SetCapacity, What, Withdraw, Withdrawn,
};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::lease::Token;
use crate::name::Name;
use crate::record::Record;

/// What the rule needs to know of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Env {
    /// The store's time.
    pub now: Timestamp,
    /// The next token the store may give; moved on as tokens are given.
    pub next_token: Token,
    /// Whether anybody watches names; if not, changes need not be told.
    pub watched: bool,
}

impl Env {
    /// Draws a token for a new grant: larger than any this store or this record has seen.
    fn draw_token(&mut self, record: &mut Record) -> Token {
        let token = Token::new(
            self.next_token
                .get()
                .max(record.last_token.get().saturating_add(1)),
        );
        self.next_token = Token::new(token.get().saturating_add(1));
        record.last_token = token;
        token
    }
}

/// What a request did.
#[derive(Debug)]
pub struct Step<T> {
    /// The answer. An `Err` means that the request itself was not acceptable and did nothing. The record may have been
    /// settled all the same; a store keeps that together with the events, or drops both.
    pub outcome: T,
    /// Whom to tell.
    pub events: Events,
}

/// The events of one step, in order.
pub type Events = Vec<Routed>;

/// An event and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// The inbox of a ticket, or `None` for everybody who watches the name.
    pub to: Option<InboxId>,
    /// What happened.
    pub event: Event,
}

/// Any request that changes records.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// See [`acquire`].
    Acquire(&'a Acquire),
    /// See [`renew`].
    Renew(&'a RenewItem),
    /// See [`release`].
    Release(&'a Release),
    /// See [`confirm`].
    Confirm(&'a Confirm),
    /// See [`withdraw`].
    Withdraw(&'a Withdraw),
    /// See [`set_capacity`].
    SetCapacity(&'a SetCapacity),
}

/// The answer to a [`Request`].
#[derive(Debug)]
pub enum Outcome {
    /// To an acquire.
    Acquired(Acquired),
    /// To a renewal.
    Renewed(Renewed),
    /// To a release, one per name.
    Released(Releases),
    /// To a confirmation.
    Confirmed(Confirmed),
    /// To a withdrawal.
    Withdrawn(Withdrawn),
    /// To a new capacity.
    CapacitySet(CapacitySet),
}

impl<'a> Request<'a> {
    /// The names the request touches, as [`names`](Self::names) gives them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if a name comes twice: the rule has one record per
    /// name, and two copies of it would overwrite each other.
    pub fn distinct_names(&self) -> Result<SmallVec<[&'a Name; 1]>> {
        let names = self.names();
        if names.len() > 1 {
            let mut sorted = names.clone();
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(
                    Error::invalid("the same name is given twice in one request")
                        .with_name(pair[0]),
                );
            }
        }
        Ok(names)
    }

    /// The names the request touches, in the order in which [`transition`] wants their records.
    #[must_use]
    pub fn names(&self) -> SmallVec<[&'a Name; 1]> {
        match *self {
            Self::Acquire(request) => request.names.as_slice().iter().collect(),
            Self::Renew(item) => SmallVec::from_buf([&item.name]),
            Self::Release(
                Release::Grants { grants: items, .. } | Release::Claims { claims: items, .. },
            ) => items.iter().map(|(name, _)| name).collect(),
            Self::Release(Release::Force { name, .. }) => SmallVec::from_buf([name]),
            Self::Confirm(request) => request.items.iter().map(|(name, _)| name).collect(),
            Self::Withdraw(request) => request.names.as_slice().iter().collect(),
            Self::SetCapacity(request) => SmallVec::from_buf([&request.name]),
        }
    }
}

/// Runs one request over the records of its [names](Request::names), in that order.
pub fn transition(
    records: &mut [Record],
    request: Request<'_>,
    env: &mut Env,
) -> Step<Result<Outcome>> {
    match request {
        Request::Acquire(request) => {
            map(acquire(records, request, env), |o| o.map(Outcome::Acquired))
        }
        Request::Renew(item) => map(renew(&mut records[0], item, env), |o| {
            o.map(Outcome::Renewed)
        }),
        Request::Release(request) => {
            map(release(records, request, env), |o| Ok(Outcome::Released(o)))
        }
        Request::Confirm(request) => map(confirm(records, request, env), |o| {
            o.map(Outcome::Confirmed)
        }),
        Request::Withdraw(request) => map(withdraw(records, request, env), |o| {
            Ok(Outcome::Withdrawn(o))
        }),
        Request::SetCapacity(request) => map(set_capacity(&mut records[0], request, env), |o| {
            Ok(Outcome::CapacitySet(o))
        }),
    }
}

fn map<T, U>(step: Step<T>, outcome: impl FnOnce(T) -> U) -> Step<U> {
    Step {
        outcome: outcome(step.outcome),
        events: step.events,
    }
}

/// Marks a record as changed. A record begins with a version from the token counter, so that a name that was
/// forgotten and comes back does not repeat a version.
fn touch(record: &mut Record, env: &Env) {
    record.version = if record.version == 0 {
        env.next_token.get().max(1)
    } else {
        record.version.saturating_add(1)
    };
}

/// Tells those who watch the name that it may have become free, or that its text has changed.
fn tell_change(record: &Record, env: &Env, events: &mut Events) {
    if env.watched {
        let event = Event {
            name: record.name.clone(),
            what: What::Changed,
        };
        events.push(Routed { to: None, event });
    }
}

#[cfg(test)]
mod tests;
