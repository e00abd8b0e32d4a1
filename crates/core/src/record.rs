//! The state of one name, as stores keep it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::backend::{Expired, Holding, InboxId};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::holder::{HolderDigest, Owner};
use crate::lease::{Kind, Metadata, Mode, Token, Units};
use crate::name::Name;
use crate::rare::Rare;
use crate::transition::run_out;

/// The version of the stored form of a [`Record`]. Records of any other version are refused.
pub const RECORD_SCHEMA: u16 = 1;

/// Everything a store knows about one name.
///
/// One holder is a capacity of one; quantities and shared mode are more grants. A record that is
/// [blank](Self::is_blank) need not be stored at all, provided the store's next token is larger than its
/// [`last_token`](Self::last_token) and [`version`](Self::version), so that neither comes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The name this is about.
    pub name: Name,
    /// What the current grants, tickets and claims are used as.
    pub kind: Kind,
    /// The units of this name if somebody set them; otherwise each request brings its own limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// Changes with every change of the record and never comes back.
    pub version: u64,
    /// The largest token ever granted for this name that the store remembers.
    pub last_token: Token,
    /// Who holds it.
    pub grants: SmallVec<[Grant; 1]>,
    /// Who waits for it, first come first.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub tickets: Rare<VecDeque<Ticket>>,
    /// What was confirmed for good.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub claims: Rare<Vec<Claim>>,
    /// How the latest grant to end did end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_end: Option<End>,
    /// Nobody is granted anything before this: the lock delay after a lease that ran out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantined_until: Option<Timestamp>,
}

/// A live (or not yet settled) lease inside a [`Record`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Whose it is.
    pub holder: HolderDigest,
    /// Its fencing token.
    pub token: Token,
    /// When it was granted.
    pub acquired_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
    /// Alone or shared.
    pub mode: Mode,
    /// How many units it takes.
    pub units: Units,
    /// Quarantine in milliseconds if it ends by running out.
    pub lock_delay_ms: u32,
    /// The holder's label.
    pub owner: Owner,
    /// The holder's free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// A place in the queue of a [`Record`]: a lease of its own, so that dead waiters are skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Whose it is.
    pub holder: HolderDigest,
    /// Where to tell the waiter that it was granted.
    pub inbox: InboxId,
    /// When the waiter joined.
    pub since: Timestamp,
    /// When the ticket, and a grant made from it, ends unless refreshed.
    pub expires_at: Timestamp,
    /// What is asked for: alone or shared.
    pub mode: Mode,
    /// How many units are asked for.
    pub units: Units,
    /// The limit the request brought along.
    pub limit: u32,
    /// What the name would be used as.
    pub kind: Kind,
    /// Quarantine in milliseconds if the grant ends by running out.
    pub lock_delay_ms: u32,
    /// The waiter's label.
    pub owner: Owner,
    /// The waiter's free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// Units confirmed for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Who may free it or hand it over.
    pub holder: HolderDigest,
    /// The token of the grant it was confirmed from.
    pub token: Token,
    /// What it belongs to now.
    pub entity: String,
    /// When it was confirmed.
    pub confirmed_at: Timestamp,
    /// How many units it takes.
    pub units: Units,
    /// The label of who confirmed it.
    pub owner: Owner,
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// How a grant ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// In which way.
    pub how: Ending,
    /// Whose grant it was.
    pub holder: HolderDigest,
    /// Its token.
    pub token: Token,
    /// When it ended.
    pub at: Timestamp,
}

/// The ways in which a grant ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Its holder let it go.
    Released,
    /// Its time ran out.
    Expired,
    /// Somebody else ended it. Boxed, because every record has room for an ending and few were forced.
    Forced(Box<Forced>),
    /// It was confirmed and lives on as a claim.
    Confirmed,
    /// It was confirmed, and its units are gone for good.
    Spent,
    /// It was handed to another holder, who goes on with the same token.
    HandedOver,
}

/// Who ended a grant that was not theirs, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forced {
    /// Who did.
    pub by: Owner,
    /// Why.
    pub reason: String,
}

impl Record {
    /// The record of a name nobody has touched.
    #[must_use]
    pub fn new(name: Name) -> Self {
        Self {
            name,
            kind: Kind::Lock,
            capacity: None,
            version: 0,
            last_token: Token::new(0),
            grants: SmallVec::new(),
            tickets: Rare::default(),
            claims: Rare::default(),
            last_end: None,
            quarantined_until: None,
        }
    }

    /// Whether nothing but history is left: no grant, ticket, claim, capacity or quarantine.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.grants.is_empty()
            && self.tickets.is_empty()
            && self.claims.is_empty()
            && self.capacity.is_none()
            && self.quarantined_until.is_none()
    }

    /// Whether not even history is left.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.is_idle() && self.last_end.is_none()
    }

    /// The grant of this holder, if it has one.
    #[must_use]
    pub fn grant_of(&self, holder: HolderDigest) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.holder == holder)
    }

    /// Units taken by exclusive grants and by claims.
    #[must_use]
    pub fn units_taken(&self) -> u64 {
        let exclusive = self.grants.iter().filter(|g| g.mode == Mode::Exclusive);
        let granted: u64 = exclusive.map(|g| u64::from(g.units.get())).sum();
        let claimed: u64 = self.claims.iter().map(|c| u64::from(c.units.get())).sum();
        granted + claimed
    }

    /// What an onlooker sees at `now`: of what has run out only how it ended, and no secrets.
    #[must_use]
    pub fn seen_at(&self, now: Timestamp) -> Self {
        let mut seen = self.clone();
        run_out(&mut seen, now);
        seen
    }

    /// When there is something to do about the record although nobody asks: its first lease, ticket or delay to end, or
    /// what is left of an ended one to be forgotten after `retention`. `None` if never.
    #[must_use]
    pub fn due_at(&self, retention: Duration) -> Option<Timestamp> {
        if self.is_idle() {
            Some(self.forgotten_at(retention))
        } else {
            self.next_end()
        }
    }

    /// When what is left of an ended record is to be forgotten.
    pub(crate) fn forgotten_at(&self, retention: Duration) -> Timestamp {
        let end = self.last_end.as_ref();
        end.map_or(Timestamp::from_millis(0), |end| end.at.after(retention))
    }

    /// When the first lease, ticket or delay ends.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        let mut due = self.quarantined_until;
        let mut sooner = |at: Timestamp| due = Some(due.map_or(at, |due| due.min(at)));
        self.grants
            .iter()
            .for_each(|grant| sooner(grant.expires_at));
        self.tickets
            .iter()
            .for_each(|ticket| sooner(ticket.expires_at));
        due
    }

    /// The grants that have run out by `now` and that nobody has settled yet.
    pub fn run_out(&self, now: Timestamp) -> impl Iterator<Item = Expired> {
        self.grants
            .iter()
            .filter(move |grant| grant.expires_at <= now)
            .map(|grant| Expired {
                name: self.name.clone(),
                holding: Holding::of(self.kind, grant),
            })
    }

    /// The grant others run into first: the one that ends last.
    #[must_use]
    pub fn holding(&self) -> Option<Holding> {
        self.grants
            .iter()
            .max_by_key(|grant| grant.expires_at)
            .map(|grant| Holding::of(self.kind, grant))
    }
}

impl Grant {
    /// Until when nobody else is granted anything if this runs out; `None` if there is no lock delay.
    #[must_use]
    pub fn quarantine(&self) -> Option<Timestamp> {
        let delay = Duration::from_millis(u64::from(self.lock_delay_ms));
        (!delay.is_zero()).then(|| self.expires_at.after(delay))
    }
}

/// A record with the version of its form, as stores that keep bytes write it.
#[derive(Serialize, Deserialize)]
struct Stored<R> {
    schema: u16,
    record: R,
}

impl Record {
    /// The record as bytes (JSON), with the version of their form.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if it cannot be written, which no record should cause.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let stored = Stored {
            schema: RECORD_SCHEMA,
            record: self,
        };
        serde_json::to_vec(&stored).map_err(|error| {
            Error::new(ErrorKind::Internal, "a record could not be written").with_source(error)
        })
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the bytes are not a record, or one of a form this version does not know.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = match serde_json::from_slice::<Stored<Self>>(bytes) {
            Ok(stored) if stored.schema == RECORD_SCHEMA => return Ok(stored.record),
            Ok(stored) => return Err(unknown_form(stored.schema)),
            Err(error) => error,
        };
        // A record of another form need not look like one of ours.
        match serde_json::from_slice::<Stored<IgnoredAny>>(bytes) {
            Ok(stored) if stored.schema != RECORD_SCHEMA => Err(unknown_form(stored.schema)),
            Ok(_) => Err(corrupt("this stored record is damaged").with_source(damaged)),
            Err(error) => Err(corrupt("this is not a stored record").with_source(error)),
        }
    }
}

fn unknown_form(form: u16) -> Error {
    corrupt(format!(
        "this record has form {form}, but only {RECORD_SCHEMA} is known here"
    ))
}

fn corrupt(detail: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Corrupt, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let mut record = Record::new(Name::new("n", "k").unwrap());
        record.grants.push(Grant {
            holder: crate::Holder::random().digest(),
            token: Token::new(7),
            acquired_at: Timestamp::from_millis(1),
            expires_at: Timestamp::from_millis(2),
            mode: Mode::Exclusive,
            units: crate::ONE_UNIT,
            lock_delay_ms: 0,
            owner: Owner::new("o").unwrap(),
            metadata: None,
        });
        record
    }

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let record = record();
        assert_eq!(Record::decode(&record.encode().unwrap()).unwrap(), record);
    }

    #[test]
    fn an_unknown_or_damaged_form_is_refused_not_guessed() {
        let text = String::from_utf8(record().encode().unwrap()).unwrap();
        let newer = text.replacen("\"schema\":1", "\"schema\":2", 1);
        let kind = |bytes: &str| Record::decode(bytes.as_bytes()).unwrap_err().kind();
        assert_eq!(kind(&newer), ErrorKind::Corrupt);
        assert_eq!(kind(&text[..text.len() / 2]), ErrorKind::Corrupt);
        assert_eq!(kind(""), ErrorKind::Corrupt);
    }
}
