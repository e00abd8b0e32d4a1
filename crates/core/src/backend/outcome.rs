//! What a store may answer.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::holder::Owner;
use crate::lease::{Kind, Lease, Metadata, Mode, Token, Units, millis};
use crate::name::Name;
use crate::record::{End, Grant};

/// The answer to an [`Acquire`](super::Acquire).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// All names are held now; one lease per name, in order.
    Granted(SmallVec<[Lease; 1]>),
    /// Nothing was taken. Each name that was in the way, in order.
    Held(Vec<Blocked>),
    /// Nothing was taken, but the request stands in the queue.
    Queued(Box<Queued>),
}

/// A place in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// How many stand in front.
    pub position: usize,
    /// How long the ticket, and a grant made from it, lasts from this answer on.
    pub ttl: Duration,
    /// When the ticket ends, by the store's clock. A grant made from it ends at that very moment; one that does not was
    /// made from an earlier ticket and may be over.
    pub expires_at: Timestamp,
    /// What is in the way.
    pub blocked: Blocked,
}

/// A name that could not be had, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// Which name.
    pub name: Name,
    /// What is in the way.
    pub by: BlockedBy,
    /// The holding that ends last, if somebody holds it.
    pub holding: Option<Holding>,
    /// How soon the first change by time alone can come, counted by the store's clock; `None` if none will.
    #[serde(with = "option_millis")]
    pub change_in: Option<Duration>,
    /// How many others stand in the queue.
    pub waiting: usize,
    /// How many units were free.
    pub free_units: u64,
}

/// What is in the way of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockedBy {
    /// Somebody holds it.
    Holder,
    /// Others wait for it, and came first.
    Queue,
    /// It is confirmed for good.
    Claim,
    /// Its last lease ran out a short while ago and the lock delay has not passed.
    LockDelay,
    /// More units were asked for than the name has; such a request is never queued.
    Capacity,
}

/// A lease as others see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The holder's label.
    pub owner: Owner,
    /// The fencing token.
    pub token: Token,
    /// What the name is used as.
    pub kind: Kind,
    /// Alone or shared.
    pub mode: Mode,
    /// How many units.
    pub units: Units,
    /// When it was granted, by the store's clock.
    pub acquired_at: Timestamp,
    /// When it ends, by the store's clock.
    pub expires_at: Timestamp,
    /// The holder's free text.
    pub metadata: Option<Metadata>,
}

impl Holding {
    pub(crate) fn of(kind: Kind, grant: &Grant) -> Self {
        Self {
            owner: grant.owner.clone(),
            token: grant.token,
            kind,
            mode: grant.mode,
            units: grant.units,
            acquired_at: grant.acquired_at,
            expires_at: grant.expires_at,
            metadata: grant.metadata.clone(),
        }
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is ", self.name)?;
        match (&self.holding, self.by) {
            (_, BlockedBy::Claim) => f.write_str("confirmed for good")?,
            (_, BlockedBy::Capacity) => f.write_str("smaller than what was asked for")?,
            (_, BlockedBy::LockDelay) => {
                f.write_str("in its lock delay after a lease that ran out")?
            }
            (Some(holding), _) => {
                write!(f, "held by {} with token {}", holding.owner, holding.token)?
            }
            (None, _) => f.write_str("wanted by others first")?,
        }
        if let Some(change) = self.change_in {
            write!(f, ", for up to {change:?}")?;
        }
        if self.waiting > 0 {
            write!(f, ", {} waiting", self.waiting)?;
        }
        Ok(())
    }
}

/// Why a renewal, release or confirmation found nothing to act on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotHeld {
    /// Who holds the name now, if anybody.
    pub current: Option<Holding>,
    /// How the grant that was named did end, if the store remembers.
    pub ended: Option<End>,
}

/// The answer to one item of a [`Renew`](super::Renew).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewed {
    /// The lease goes on; same token, new end. A ticket that had become a grant answers this too.
    Renewed(Lease),
    /// The ticket goes on.
    Queued(Box<Queued>),
    /// The lease ends at another moment than the caller thought, so nothing was added.
    Changed(Lease),
    /// There is no such grant or ticket.
    NotHeld(Box<NotHeld>),
}

impl Renewed {
    /// The lease, if it goes on.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        if let Self::Renewed(lease) = self {
            Some(lease)
        } else {
            None
        }
    }
}

/// The answer for one name of a [`Release`](super::Release).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// It is over. A repeated release answers the same.
    Released,
    /// What was ended by force.
    Forced(Vec<Holding>),
    /// There was no such grant.
    NotHeld(Box<NotHeld>),
}

/// The answers to a [`Release`](super::Release), one per name, in order.
pub type Releases = SmallVec<[Released; 1]>;

/// The answer to a [`Confirm`](super::Confirm).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confirmed {
    /// All are confirmed; the new version of each record, in order.
    Confirmed(Vec<u64>),
    /// Nothing changed: this name is not (or no longer) granted or claimed as said.
    NotHeld(Name, Box<NotHeld>),
    /// Nothing changed: this name has another version by now.
    VersionChanged(Name, u64),
}

/// The answer to a [`Withdraw`](super::Withdraw).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Withdrawn {
    /// Tickets taken out.
    pub tickets: usize,
    /// Grants given back.
    pub grants: usize,
}

/// The answer to a [`SetCapacity`](super::SetCapacity).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacitySet {
    /// Done; the new version.
    Set(u64),
    /// Nothing changed: the record has this version.
    VersionChanged(u64),
}

/// What was read, and when by the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<T> {
    /// What was read.
    pub what: T,
    /// The store's time.
    pub now: Timestamp,
}

impl<T> Seen<T> {
    /// The same moment, something else.
    pub fn map<U>(self, change: impl FnOnce(T, Timestamp) -> U) -> Seen<U> {
        Seen {
            what: change(self.what, self.now),
            now: self.now,
        }
    }
}

/// Part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// What was found.
    pub items: Vec<T>,
    /// Whether there is more after the last item.
    pub more: bool,
}

/// A grant that had run out when a [`Sweep`](super::Sweep) came by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expired {
    /// Of which name.
    pub name: Name,
    /// What it was.
    pub holding: Holding,
}

/// The answer to a [`Sweep`](super::Sweep).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// The grants that had run out.
    pub expired: Vec<Expired>,
    /// Dead tickets taken out.
    pub tickets: usize,
    /// Records forgotten.
    pub forgotten: usize,
    /// Whether the limit was reached and more may be left.
    pub more: bool,
}

mod option_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Millis(#[serde(with = "super::millis")] Duration);

    pub(super) fn serialize<S: Serializer>(d: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
        d.map(Millis).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Millis>::deserialize(d)?.map(|m| m.0))
    }
}
