//! What a caller may ask of a store.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::watch::InboxId;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::holder::{Holder, Owner};
use crate::lease::{Kind, Metadata, Mode, ONE_UNIT, Token, Ttl, Units};
use crate::name::Name;

/// The most names one request may take.
pub const MAX_NAMES: usize = 64;
/// The most records one page may hold.
pub const MAX_LIST: usize = 1000;

/// The names of one request: at least one, at most [`MAX_NAMES`], sorted, none twice.
#[derive(Debug, PartialEq, Eq)]
pub struct Names(SmallVec<[Name; 1]>);

/// By hand, because nearly all requests have one name, and cloning a list of one takes longer than cloning the one.
impl Clone for Names {
    fn clone(&self) -> Self {
        match self.single() {
            Some(name) => Self::one(name.clone()),
            None => Self(self.0.clone()),
        }
    }
}

impl Names {
    /// A single name.
    #[must_use]
    pub fn one(name: Name) -> Self {
        Self(SmallVec::from_buf([name]))
    }

    /// Several names, in any order.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for none, too many, or the same name twice.
    pub fn new(names: impl IntoIterator<Item = Name>) -> Result<Self> {
        let mut sorted: SmallVec<[Name; 1]> = names.into_iter().take(MAX_NAMES + 1).collect();
        if sorted.is_empty() || sorted.len() > MAX_NAMES {
            return Err(Error::invalid(format!(
                "a request needs 1 to {MAX_NAMES} names, but this one has {}",
                if sorted.is_empty() { "none" } else { "more" }
            )));
        }
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(
                Error::invalid("the same name is given twice in one request").with_name(&twice[0]),
            );
        }
        Ok(Self(sorted))
    }

    /// The names, sorted.
    #[must_use]
    pub fn as_slice(&self) -> &[Name] {
        &self.0
    }

    /// The only name, if there is just one.
    #[must_use]
    pub fn single(&self) -> Option<&Name> {
        if let [name] = self.as_slice() {
            Some(name)
        } else {
            None
        }
    }

    /// The first name.
    #[must_use]
    pub fn first(&self) -> &Name {
        &self.0[0]
    }
}

/// Asks for all of some names, or none.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Acquire {
    /// What is asked for.
    pub names: Names,
    /// Who asks.
    pub holder: Holder,
    /// The label people will see.
    pub owner: Owner,
    /// How long the lease shall last.
    pub ttl: Ttl,
    /// What the names are used as.
    pub kind: Kind,
    /// Alone or shared.
    pub mode: Mode,
    /// How many units of each name.
    pub units: Units,
    /// How many units each name has where nobody set a capacity; with zero, none are to be had there.
    pub limit: u32,
    /// Units and limit of each name, in their order, where they are not the same for all; see [`amount`](Self::amount).
    pub amounts: Option<Box<[Amount]>>,
    /// What to do if this holder has the names already.
    pub own: Own,
    /// Ask for a place in the queue instead of a refusal. One name only. A refused request without this gives up the
    /// place its holder may have had.
    pub queue: Option<Queue>,
    /// Quarantine after a lease that runs out, in milliseconds.
    pub lock_delay_ms: u32,
    /// Free text kept with the grant.
    pub metadata: Option<Metadata>,
    /// The token of a new grant is at least this, also if the grant is made later, from a place in the queue. Zero asks
    /// for nothing; at most [`Token::MAX`].
    pub token_floor: Token,
}

impl Acquire {
    /// The longest [lock delay](Self::lock_delay).
    pub const MAX_LOCK_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// A plain exclusive lock request without waiting.
    #[must_use]
    pub fn new(names: Names, holder: Holder, owner: Owner, ttl: Ttl) -> Self {
        Self {
            names,
            holder,
            owner,
            ttl,
            kind: Kind::Lock,
            mode: Mode::Exclusive,
            units: ONE_UNIT,
            limit: ONE_UNIT.get(),
            amounts: None,
            own: Own::Refresh,
            queue: None,
            lock_delay_ms: 0,
            metadata: None,
            token_floor: Token::new(0),
        }
    }

    /// Sets what the names are used as.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Asks for a shared grant.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.mode = Mode::Shared;
        self
    }

    /// Asks for `units` of the `limit` units each name has where nobody set a capacity.
    #[must_use]
    pub fn units(mut self, units: Units, limit: Units) -> Self {
        self.units = units;
        self.limit = limit.get();
        self
    }

    /// Asks for another amount of each name.
    #[must_use]
    pub fn each(mut self, amount_of: impl FnMut(&Name) -> Amount) -> Self {
        self.amounts = Some(self.names.as_slice().iter().map(amount_of).collect());
        self
    }

    /// What is asked for of the name at this position.
    #[must_use]
    pub fn amount(&self, at: usize) -> Amount {
        let own = self.amounts.as_ref().and_then(|amounts| amounts.get(at));
        own.copied().unwrap_or(Amount {
            units: self.units,
            limit: self.limit,
        })
    }

    /// Says what to do if this holder has the names already.
    #[must_use]
    pub fn own(mut self, own: Own) -> Self {
        self.own = own;
        self
    }

    /// Asks for a place in the queue.
    #[must_use]
    pub fn queue(mut self, inbox: InboxId) -> Self {
        self.queue = Some(Queue { inbox });
        self
    }

    /// Keeps free text with the grant.
    #[must_use]
    pub fn metadata(mut self, metadata: Option<Metadata>) -> Self {
        self.metadata = metadata;
        self
    }

    /// Quarantines the names for this long if the lease runs out instead of being released.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if it is longer than a day.
    pub fn lock_delay(mut self, delay: Duration) -> Result<Self> {
        self.lock_delay_ms = lock_delay_millis(delay)?;
        Ok(self)
    }

    /// Wants a token of at least `floor` for a new grant: one that is larger than what other stores have given.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if it is larger than [`Token::MAX`].
    pub fn token_floor(mut self, floor: Token) -> Result<Self> {
        self.token_floor = floor;
        self.check()?;
        Ok(self)
    }

    /// Refuses what no store can be asked for. Stores that do not run the rule call this first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the token floor is larger than [`Token::MAX`].
    pub fn check(&self) -> Result<()> {
        if self.token_floor > Token::MAX {
            return Err(Error::invalid(format!(
                "a token floor of {} is larger than {}, the largest token there can be",
                self.token_floor,
                Token::MAX
            ))
            .with_name(self.names.first()));
        }
        Ok(())
    }
}

/// How much is asked for of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// How many units.
    pub units: Units,
    /// How many units the name has where nobody set a capacity; with zero, none are to be had there.
    pub limit: u32,
}

/// Checks a lock delay and turns it into milliseconds.
pub(crate) fn lock_delay_millis(delay: Duration) -> Result<u32> {
    if delay > Acquire::MAX_LOCK_DELAY {
        return Err(Error::invalid(format!(
            "a lock delay of {delay:?} is longer than 24 hours"
        )));
    }
    Ok(u32::try_from(delay.as_millis()).unwrap_or(u32::MAX))
}

/// What to do if the holder has the names already. The token stays the same, except for one that is replaced and is
/// below the [floor](Acquire::token_floor).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Own {
    /// Prolong the lease to the new ttl, but never shorten it.
    Refresh,
    /// Leave the lease as it is.
    Keep,
    /// Set the lease to the new ttl, owner and metadata, even if that is shorter. If its token is below the floor, it
    /// goes on with a new one.
    Replace,
}

/// A wish to be queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Where to tell the waiter that it was granted. It must be [watched](super::Backend::watch) first.
    pub inbox: InboxId,
}

/// Prolongs leases and tickets, many in one call.
#[derive(Debug, Clone, Default)]
pub struct Renew {
    /// What to prolong.
    pub items: Vec<RenewItem>,
}

/// One lease or ticket to prolong.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RenewItem {
    /// Of which name.
    pub name: Name,
    /// Whose it is.
    pub holder: Holder,
    /// Which grant, or the ticket.
    pub what: RenewWhat,
    /// By how much.
    pub mode: RenewMode,
    /// Replaces the free text, if given.
    pub metadata: Option<Metadata>,
    /// Hands the lease to this holder in the same step.
    pub heir: Option<Heir>,
}

impl RenewItem {
    /// Prolongs a lease to `ttl` from now.
    #[must_use]
    pub fn lease(name: Name, holder: Holder, token: Token, ttl: Ttl) -> Self {
        Self {
            name,
            holder,
            what: RenewWhat::Lease(token),
            mode: RenewMode::Set(ttl),
            metadata: None,
            heir: None,
        }
    }

    /// Prolongs a ticket to `ttl` from now.
    #[must_use]
    pub fn ticket(name: Name, holder: Holder, ttl: Ttl) -> Self {
        Self {
            what: RenewWhat::Ticket,
            ..Self::lease(name, holder, Token::new(0), ttl)
        }
    }

    /// Adds to the lease instead, if it still ends at `if_expires_at`.
    #[must_use]
    pub fn add(mut self, by: Ttl, if_expires_at: Timestamp) -> Self {
        self.mode = RenewMode::Add { by, if_expires_at };
        self
    }

    /// Replaces the free text.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Hands the lease to another holder in the same step.
    #[must_use]
    pub fn heir(mut self, holder: Holder, owner: Owner) -> Self {
        self.heir = Some(Heir { holder, owner });
        self
    }
}

/// What is prolonged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewWhat {
    /// The grant with this token.
    Lease(Token),
    /// The place in the queue, or the grant that it has become.
    Ticket,
}

/// By how much a lease is prolonged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewMode {
    /// To this long from now; never shortens.
    Set(Ttl),
    /// By this much, if the lease still ends when the caller thinks it does: a repeated request adds only once.
    /// The end is capped at [`Ttl::MAX`] from now.
    Add {
        /// How much to add.
        by: Ttl,
        /// When the caller thinks the lease ends.
        if_expires_at: Timestamp,
    },
}

/// Who takes a lease over.
#[derive(Debug, Clone)]
pub struct Heir {
    /// The new holder.
    pub holder: Holder,
    /// The new label.
    pub owner: Owner,
}

/// Ends grants or claims.
#[derive(Debug, Clone)]
pub enum Release {
    /// Ends exactly the grants named; nothing else of this holder.
    Grants {
        /// Whose they are.
        holder: Holder,
        /// Which they are.
        grants: SmallVec<[(Name, Token); 1]>,
    },
    /// Frees confirmed claims, on purpose.
    Claims {
        /// Whose they are.
        holder: Holder,
        /// Which they are.
        claims: SmallVec<[(Name, Token); 1]>,
        /// Whether their units are gone for good: a capacity that was set shrinks by as many, so that nobody else
        /// gets them.
        spend: bool,
    },
    /// Ends what a name has, whoever holds it.
    Force {
        /// Which name.
        name: Name,
        /// Only the grant or claim with this token; everything granted (but no claim) if `None`.
        token: Option<Token>,
        /// Who does this.
        by: Owner,
        /// Why; at most [`MAX_REASON_BYTES`](Release::MAX_REASON_BYTES) bytes, not empty.
        reason: String,
    },
}

impl Release {
    /// The longest reason, in bytes.
    pub const MAX_REASON_BYTES: usize = 512;

    /// Ends one grant.
    #[must_use]
    pub fn grant(name: Name, holder: Holder, token: Token) -> Self {
        Self::Grants {
            holder,
            grants: SmallVec::from_buf([(name, token)]),
        }
    }

    /// The grants or claims it ends, each with its token; none if it is forced.
    #[must_use]
    pub fn items(&self) -> &[(Name, Token)] {
        match self {
            Self::Grants { grants: items, .. } | Self::Claims { claims: items, .. } => items,
            Self::Force { .. } => &[],
        }
    }

    /// The only name it is about, if there is just one.
    #[must_use]
    pub fn single(&self) -> Option<&Name> {
        match (self, self.items()) {
            (Self::Force { name, .. }, _) | (_, [(name, _)]) => Some(name),
            _ => None,
        }
    }

    /// Ends whatever is granted of a name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the reason is empty or too long.
    pub fn force(name: Name, token: Option<Token>, by: Owner, reason: &str) -> Result<Self> {
        if reason.trim().is_empty() || reason.len() > Self::MAX_REASON_BYTES {
            return Err(Error::invalid(format!(
                "a forced release needs a reason of 1 to {} bytes",
                Self::MAX_REASON_BYTES
            ))
            .with_name(&name));
        }
        Ok(Self::Force {
            name,
            token,
            by,
            reason: reason.to_owned(),
        })
    }
}

/// Turns grants into claims, or hands claims over; all names or none.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Confirm {
    /// Which grants or claims.
    pub items: SmallVec<[(Name, Token); 1]>,
    /// Whose they are.
    pub holder: Holder,
    /// What they belong to from now on.
    pub entity: String,
    /// Whether grants are confirmed or claims handed over.
    pub from: ConfirmFrom,
    /// Every record must still have this version, if given.
    pub expect_version: Option<u64>,
    /// Replaces the free text, if given.
    pub metadata: Option<Metadata>,
}

impl Confirm {
    /// The longest entity, in bytes of UTF-8.
    pub const MAX_ENTITY_BYTES: usize = 1024;

    /// Confirms one grant for `entity`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the entity is empty or too long.
    pub fn new(name: Name, token: Token, holder: Holder, entity: &str) -> Result<Self> {
        Self::all(SmallVec::from_buf([(name, token)]), holder, entity)
    }

    /// Confirms several grants of one holder for `entity`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the entity is empty or too long, or there is no item.
    pub fn all(items: SmallVec<[(Name, Token); 1]>, holder: Holder, entity: &str) -> Result<Self> {
        if entity.trim().is_empty()
            || entity.len() > Self::MAX_ENTITY_BYTES
            || entity.contains('\0')
        {
            return Err(Error::invalid(format!(
                "the entity has {} bytes; it needs 1 to {} bytes of UTF-8 without NUL, not only spaces",
                entity.len(),
                Self::MAX_ENTITY_BYTES
            )));
        }
        if items.is_empty() || items.len() > MAX_NAMES {
            return Err(Error::invalid(format!(
                "a request needs 1 to {MAX_NAMES} names"
            )));
        }
        Ok(Self {
            items,
            holder,
            entity: entity.to_owned(),
            from: ConfirmFrom::Grant,
            expect_version: None,
            metadata: None,
        })
    }

    /// Hands the claims to another holder (and entity) instead.
    #[must_use]
    pub fn hand_over(mut self, heir: Heir) -> Self {
        self.from = ConfirmFrom::Claim(heir);
        self
    }

    /// Demands that every record still has this version.
    #[must_use]
    pub fn expect_version(mut self, version: u64) -> Self {
        self.expect_version = Some(version);
        self
    }

    /// Replaces the free text.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }
}

/// What a [`Confirm`] starts from.
#[derive(Debug, Clone)]
pub enum ConfirmFrom {
    /// A live grant becomes a claim.
    Grant,
    /// A claim changes hands.
    Claim(Heir),
}

/// Leaves the queues of some names and gives back any grant of this holder.
#[derive(Debug, Clone)]
pub struct Withdraw {
    /// Which names.
    pub names: Names,
    /// Who leaves.
    pub holder: Holder,
}

/// Sets how many units a name has.
#[derive(Debug, Clone)]
pub struct SetCapacity {
    /// Which name.
    pub name: Name,
    /// How many units, which may be none; `None` forgets the capacity, so that each request brings its own limit again.
    pub units: Option<u32>,
    /// The record must still have this version, if given; 0 stands for a name nobody has touched.
    pub expect_version: Option<u64>,
}

/// Which records to list.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct List {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only namespaces that start like this; by the text as it was given, not as it is encoded.
    pub namespace_prefix: String,
    /// Only keys that start like this.
    pub key_prefix: String,
    /// Only records that are in this state.
    pub status: Option<Status>,
    /// Only records used as this.
    pub kind: Option<Kind>,
    /// Only records with a grant, ticket or claim of this owner.
    pub owner: Option<Owner>,
    /// Only records with a claim for this entity.
    pub entity: Option<String>,
    /// Only records with a grant that ends before this.
    pub expires_before: Option<Timestamp>,
    /// Only records after this name: the last of the page before.
    pub after: Option<Name>,
    /// At most this many, and never more than [`MAX_LIST`]; zero stands for [`MAX_LIST`].
    pub limit: usize,
}

impl List {
    /// Everything.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Everything of one namespace.
    #[must_use]
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            ..Self::default()
        }
    }

    /// The page size that applies.
    #[must_use]
    pub fn page_size(&self) -> usize {
        if self.limit == 0 {
            MAX_LIST
        } else {
            self.limit.min(MAX_LIST)
        }
    }
}

/// States to list by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Somebody holds it.
    Held,
    /// Somebody waits for it.
    Waited,
    /// Something of it is confirmed.
    Confirmed,
    /// Nothing is left but the memory of how it ended.
    Ended,
}

/// Settles and forgets, up to a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sweep {
    /// Look at no more than this many records that need something done.
    pub limit: usize,
    /// Only records of this namespace.
    pub namespace: Option<String>,
    /// Only records used as this.
    pub kind: Option<Kind>,
    /// Only say what had run out; change and forget nothing.
    pub dry_run: bool,
}

impl Sweep {
    /// Everything, `limit` records at a time.
    #[must_use]
    pub fn all(limit: usize) -> Self {
        Self {
            limit,
            namespace: None,
            kind: None,
            dry_run: false,
        }
    }

    /// Looks only at records of one namespace that are used as one thing.
    #[must_use]
    pub fn only(mut self, namespace: impl Into<String>, kind: Kind) -> Self {
        self.namespace = Some(namespace.into());
        self.kind = Some(kind);
        self
    }

    /// Changes nothing, and only says what had run out.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

impl Default for Sweep {
    fn default() -> Self {
        Self::all(100)
    }
}
