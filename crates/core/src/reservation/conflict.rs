//! Being refused because something is taken.

use std::fmt;

use super::claim::Claim;
use super::code::Code;
use super::id::ReservationId;
use super::key::Key;
use super::reserved::Reservation;
use super::shared::Shared;
use crate::backend::{Amount, Blocked, BlockedBy};
use crate::clock::Timestamp;
use crate::error::{Error, Result};

/// What came of a wish to reserve something.
#[derive(Debug)]
#[must_use = "a reservation that is not looked at blocks others until it runs out"]
pub enum ReserveOutcome {
    /// It is yours for as long as the ttl lasts.
    Reserved(Reservation),
    /// Nothing was reserved, because something of it is taken.
    Conflict(Conflict),
}

impl ReserveOutcome {
    /// The reservation, or the conflict as an error.
    ///
    /// # Errors
    /// [`ALREADY_RESERVED`](Code::AlreadyReserved) or [`INSUFFICIENT_STOCK`](Code::InsufficientStock).
    pub fn reserved(self) -> Result<Reservation> {
        match self {
            Self::Reserved(reservation) => Ok(reservation),
            Self::Conflict(conflict) => Err(conflict.into()),
        }
    }

    /// The conflict, if there was one.
    #[must_use]
    pub fn conflict(&self) -> Option<&Conflict> {
        match self {
            Self::Reserved(_) => None,
            Self::Conflict(conflict) => Some(conflict),
        }
    }
}

/// Everything that was in the way, and nothing that would let a stranger act on it.
#[derive(Debug, Clone)]
pub struct Conflict {
    /// What was taken or short, at least one.
    pub taken: Vec<Taken>,
    pub(super) mine: Option<Box<Claim>>,
}

/// One thing that could not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// Which.
    pub key: Key,
    /// The id under which it can be looked up.
    pub id: ReservationId,
    /// What was in the way.
    pub by: BlockedBy,
    /// When what is in the way ends by itself, by the store's clock; `None` if it is confirmed for good.
    pub expires_at: Option<Timestamp>,
    /// Whether units of a stock were asked for, rather than the thing as such.
    pub of_stock: bool,
    /// How many units were asked for.
    pub requested: u32,
    /// How many were free.
    pub available: u64,
}

impl Taken {
    pub(super) fn of(blocked: &Blocked, amount: Amount) -> Option<Self> {
        Some(Self {
            key: Shared::key_of(&blocked.name)?,
            id: ReservationId::of(&blocked.name),
            by: blocked.by,
            expires_at: blocked.holding.as_ref().map(|holding| holding.expires_at),
            of_stock: amount.limit == 0,
            requested: amount.units.get(),
            available: blocked.free_units,
        })
    }
}

impl Conflict {
    /// [`INSUFFICIENT_STOCK`](Code::InsufficientStock) if a quantity was short,
    /// [`ALREADY_RESERVED`](Code::AlreadyReserved) otherwise.
    #[must_use]
    pub fn code(&self) -> Code {
        if self.taken.iter().any(|taken| taken.of_stock) {
            Code::InsufficientStock
        } else {
            Code::AlreadyReserved
        }
    }

    /// The id of the first thing in the way.
    #[must_use]
    pub fn existing_id(&self) -> Option<ReservationId> {
        self.taken.first().map(|taken| taken.id)
    }

    /// When the first thing in the way ends by itself; `None` if it is confirmed for good.
    #[must_use]
    pub fn existing_expires_at(&self) -> Option<Timestamp> {
        self.taken.first().and_then(|taken| taken.expires_at)
    }

    /// What this very caller has confirmed before, if that is all of what it asks for now: nothing is left to do.
    /// Known only of an [idempotent](super::Reserve::caller) request.
    #[must_use]
    pub fn mine(&self) -> Option<&Claim> {
        self.mine.as_deref()
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, taken) in self.taken.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            let key = &taken.key;
            if taken.of_stock {
                let (wanted, free) = (taken.requested, taken.available);
                write!(f, "{wanted} of {key} were wanted, {free} are free")?;
            } else if taken.by == BlockedBy::Claim {
                write!(f, "{key} is confirmed for good")?;
            } else {
                write!(f, "{key} is taken")?;
            }
        }
        Ok(())
    }
}

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Self {
        conflict.code().error(conflict.to_string())
    }
}
