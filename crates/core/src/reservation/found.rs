//! What is known about a reservation, for onlookers: everything but the secret.

use std::fmt;
use std::time::Duration;

use super::id::ReservationId;
use super::key::Key;
use super::notes::Notes;
use super::shared::Shared;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::holder::Owner;
use crate::lease::{Kind, Token, Units};
use crate::record::{Claim, End, Ending, Grant, Record};

/// The four states of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReservationStatus {
    /// Taken for a while.
    Reserved,
    /// Taken for good.
    Confirmed,
    /// Let go, by its holder or by force.
    Released,
    /// Its time ran out.
    Expired,
}

impl ReservationStatus {
    /// The state as a permanent word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Confirmed => "confirmed",
            Self::Released => "released",
            Self::Expired => "expired",
        }
    }

    /// Reads the permanent word of a state.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for any other word.
    pub fn parse(word: &str) -> Result<Self> {
        let known = super::schema::STATUSES.iter();
        known
            .copied()
            .find(|status| status.as_str() == word)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "{word:?} is no status; use reserved, confirmed, released or expired"
                ))
            })
    }
}

impl fmt::Display for ReservationStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much is left of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remaining {
    /// This long; zero once it is over.
    For(Duration),
    /// It is confirmed and does not end by itself.
    Forever,
}

/// A reservation as onlookers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// Its id.
    pub id: ReservationId,
    /// What is or was reserved.
    pub key: Key,
    /// Its state.
    pub status: ReservationStatus,
    /// When it ends, by the store's clock; `None` once confirmed. For one that has ended, when it did.
    pub expires_at: Option<Timestamp>,
    /// What it belongs to; only once confirmed.
    pub entity: Option<String>,
    /// When it was confirmed.
    pub confirmed_at: Option<Timestamp>,
    /// When it was released or ran out.
    pub ended_at: Option<Timestamp>,
    /// When it was reserved; not known of one that was confirmed or has ended.
    pub created_at: Option<Timestamp>,
    /// What ties it to a request or a saga; not known of one that has ended.
    pub correlation: Option<String>,
    /// Its free text; not known of one that has ended.
    pub text: Option<String>,
    /// The label of who made it; not known of one that has ended.
    pub owner: Option<Owner>,
    /// How many units it takes; none once it has ended.
    pub units: Option<Units>,
    /// Its token.
    pub token: Token,
    /// The version of the record it is in.
    pub version: u64,
    /// When it was looked at, by the store's clock.
    pub seen_at: Timestamp,
}

impl Found {
    /// Whether it takes its value right now, reserved or confirmed.
    #[must_use]
    pub fn is_active(&self) -> bool {
        matches!(
            self.status,
            ReservationStatus::Reserved | ReservationStatus::Confirmed
        )
    }

    /// Whether its end is a moment that has come, whatever its state.
    #[must_use]
    pub fn is_expired_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// How much was left of it when it was looked at.
    #[must_use]
    pub fn remaining(&self) -> Remaining {
        self.remaining_at(self.seen_at)
    }

    /// How much is left of it at this moment of the store's clock.
    #[must_use]
    pub fn remaining_at(&self, now: Timestamp) -> Remaining {
        match (self.status, self.expires_at) {
            (ReservationStatus::Confirmed, _) => Remaining::Forever,
            (ReservationStatus::Reserved, Some(end)) => Remaining::For(end.since(now)),
            _ => Remaining::For(Duration::ZERO),
        }
    }

    /// Everything a record has to say: what is reserved, what is confirmed, and how the latest of them ended if that
    /// is all that is left of it.
    pub(super) fn all(record: &Record, now: Timestamp) -> Vec<Self> {
        let Some(key) = Shared::key_of(&record.name) else {
            return Vec::new();
        };
        if record.kind != Kind::Reservation {
            return Vec::new();
        }
        let blank = Self {
            id: ReservationId::of(&record.name),
            key,
            status: ReservationStatus::Reserved,
            expires_at: None,
            entity: None,
            confirmed_at: None,
            ended_at: None,
            created_at: None,
            correlation: None,
            text: None,
            owner: None,
            units: None,
            token: Token::new(0),
            version: record.version,
            seen_at: now,
        };
        let grants = record
            .grants
            .iter()
            .map(|grant| blank.clone().granted(grant));
        let claims = record
            .claims
            .iter()
            .map(|claim| blank.clone().claimed(claim));
        let end = record.last_end.as_ref();
        let ended = end.and_then(|end| blank.clone().ended(end));
        grants.chain(claims).chain(ended).collect()
    }

    fn granted(self, grant: &Grant) -> Self {
        let notes = Notes::read(grant.metadata.as_ref());
        Self {
            expires_at: Some(grant.expires_at),
            created_at: Some(grant.acquired_at),
            correlation: notes.correlation,
            text: notes.text,
            owner: Some(grant.owner.clone()),
            units: Some(grant.units),
            token: grant.token,
            ..self
        }
    }

    fn claimed(self, claim: &Claim) -> Self {
        let notes = Notes::read(claim.metadata.as_ref());
        Self {
            status: ReservationStatus::Confirmed,
            entity: Some(claim.entity.clone()),
            confirmed_at: Some(claim.confirmed_at),
            correlation: notes.correlation,
            text: notes.text,
            owner: Some(claim.owner.clone()),
            units: Some(claim.units),
            token: claim.token,
            ..self
        }
    }

    /// A grant that became a claim, or changed hands, has not ended.
    fn ended(self, end: &End) -> Option<Self> {
        let status = match &end.how {
            Ending::Released | Ending::Spent | Ending::Forced(_) => ReservationStatus::Released,
            Ending::Expired => ReservationStatus::Expired,
            Ending::Confirmed | Ending::HandedOver => return None,
        };
        Some(Self {
            status,
            expires_at: Some(end.at),
            ended_at: Some(end.at),
            token: end.token,
            ..self
        })
    }
}
