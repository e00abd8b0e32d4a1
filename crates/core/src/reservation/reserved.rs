//! Something that is reserved, in the hands of whoever reserved it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use super::claim::Claim;
use super::code::Code;
use super::event::ReservationEvent;
use super::id::ReservationId;
use super::key::Key;
use super::limits::{check_entity, checked_ttl};
use super::pass::{Item, Pass};
use super::refusal::{already_confirmed, already_released, why_not_held};
use super::shared::Shared;
use crate::backend::{Confirm, Confirmed, Release, Released, Renew, RenewItem, Renewed};
use crate::clock::{Moment, Timestamp};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::lease::{Token, Units};

/// Something that is reserved until it is confirmed, released, or runs out.
///
/// Unlike a lock's guard, dropping it releases nothing: a reservation is meant to outlive the code that made it, and
/// ends by itself. Keep its [`pass`](Self::pass) to go on with it elsewhere.
#[derive(Clone)]
#[must_use = "it blocks others until it is confirmed, released, or runs out"]
pub struct Reservation {
    shared: Arc<Shared>,
    pass: Pass,
    /// When it has certainly run out.
    deadline: Moment,
    /// How it ended, if this handle was told so.
    known: Arc<AtomicU8>,
}

const OPEN: u8 = 0;
const CONFIRMED: u8 = 1;
const RELEASED: u8 = 2;

impl Reservation {
    pub(super) fn new(shared: Arc<Shared>, pass: Pass, deadline: Moment) -> Self {
        Self {
            shared,
            pass,
            deadline,
            known: Arc::new(AtomicU8::new(OPEN)),
        }
    }

    /// The id of the (first) thing reserved.
    #[must_use]
    pub fn id(&self) -> ReservationId {
        ReservationId::of(self.pass.name())
    }

    /// The (first) key reserved.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.pass.first().key
    }

    /// Everything reserved, sorted, with how many units and under which token.
    pub fn items(&self) -> impl Iterator<Item = (&Key, Units, Token)> {
        self.pass.items()
    }

    /// The token of the (first) thing reserved: larger for every new reservation of the same key.
    #[must_use]
    pub fn token(&self) -> Token {
        self.pass.first().token
    }

    /// When it ends, by the store's clock.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.pass.expires_at
    }

    /// How much is left at most, by this process's clock; zero once it is over. The store decides.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline.since(self.shared.clock.now())
    }

    /// What somebody else needs to go on with it, secret included.
    #[must_use]
    pub fn pass(&self) -> Pass {
        self.pass.clone()
    }

    /// Keeps it for good, for this entity. All that was reserved together is confirmed, or nothing is.
    ///
    /// Confirming again for the same entity after the answer was lost gives the same answer.
    ///
    /// # Errors
    /// With the [code](Error::code) for a wrong entity, or for how the reservation ended before; otherwise if the
    /// store fails.
    ///
    /// # Cancel safety
    /// Dropped midway, it is confirmed or not; asking again finds out.
    pub async fn confirm(&self, entity: &str) -> Result<Claim> {
        self.confirm_if(entity, None).await
    }

    /// As [`confirm`](Self::confirm), for one value whose record must still have this version; see
    /// [`Found::version`](super::Found::version).
    ///
    /// # Errors
    /// As [`confirm`](Self::confirm), and [`VERSION_CHANGED`](Code::VersionChanged).
    ///
    /// # Cancel safety
    /// As [`confirm`](Self::confirm).
    pub async fn confirm_at(&self, entity: &str, version: u64) -> Result<Claim> {
        self.confirm_if(entity, Some(version)).await
    }

    async fn confirm_if(&self, entity: &str, version: Option<u64>) -> Result<Claim> {
        self.try_confirm(entity, version)
            .await
            .map_err(|error| self.context("confirm", error))
    }

    async fn try_confirm(&self, entity: &str, version: Option<u64>) -> Result<Claim> {
        check_entity(entity)?;
        self.refuse_if_ended()?;
        if version.is_some() && self.pass.items.len() > 1 {
            return Err(Error::invalid(
                "several values have several versions; confirm them without one",
            ));
        }
        let mut request = Confirm::all(self.pass.tokens(), self.pass.holder(), entity)?;
        request.expect_version = version;
        match self.shared.backend.confirm(&request).await? {
            Confirmed::Confirmed(_) => {}
            Confirmed::NotHeld(name, not_held) => {
                return Err(why_not_held(&not_held, self.is_overdue()).with_name(&name));
            }
            Confirmed::VersionChanged(name, now) => {
                return Err(Code::VersionChanged
                    .error(format!("the record has version {now} by now"))
                    .with_name(&name));
            }
        }
        self.known.store(CONFIRMED, Ordering::Release);
        self.shared.emit(|| ReservationEvent::Confirmed {
            reservation: self,
            entity,
        });
        Ok(Claim::new(self.shared.clone(), self.pass.clone(), entity))
    }

    /// Lets it go at once.
    ///
    /// # Errors
    /// With the [code](Error::code) for how the reservation ended before; otherwise if the store fails. What was
    /// reserved together is released as far as it was still there.
    ///
    /// # Cancel safety
    /// Dropped midway, it is released or not; asking again finds out.
    pub async fn release(&self) -> Result<()> {
        self.try_release()
            .await
            .map_err(|error| self.context("release", error))
    }

    async fn try_release(&self) -> Result<()> {
        self.refuse_if_ended()?;
        let request = Release::Grants {
            holder: self.pass.holder(),
            grants: self.pass.tokens(),
        };
        let answers = self.shared.backend.release(&request).await?;
        if answers.len() != self.pass.items.len() {
            return Err(unanswered());
        }
        for (answer, item) in answers.iter().zip(&self.pass.items) {
            if let Released::NotHeld(not_held) = answer {
                return Err(why_not_held(not_held, self.is_overdue()).with_name(&item.name));
            }
        }
        self.known.store(RELEASED, Ordering::Release);
        self.shared
            .emit(|| ReservationEvent::Released { reservation: self });
        Ok(())
    }

    /// Prolongs it to `ttl` from now; never shortens it. Gives the reservation with its new end.
    ///
    /// # Errors
    /// With the [code](Error::code) for a wrong ttl, or for how the reservation ended before; otherwise if the store
    /// fails.
    ///
    /// # Cancel safety
    /// Dropped midway, it is prolonged or not.
    pub async fn extend(&self, ttl: Duration) -> Result<Self> {
        self.try_extend(ttl)
            .await
            .map_err(|error| self.context("extend", error))
    }

    async fn try_extend(&self, ttl: Duration) -> Result<Self> {
        let ttl = checked_ttl(ttl)?;
        self.refuse_if_ended()?;
        let holder = self.pass.holder();
        let item =
            |item: &Item| RenewItem::lease(item.name.clone(), holder.clone(), item.token, ttl);
        let request = Renew {
            items: self.pass.items.iter().map(item).collect(),
        };
        let t0 = self.shared.clock.now();
        let answers = self.shared.backend.renew(&request).await?;
        if answers.len() != self.pass.items.len() {
            return Err(unanswered());
        }
        let (mut ends, mut left) = (Vec::new(), Vec::new());
        for (answer, item) in answers.into_iter().zip(&self.pass.items) {
            match answer? {
                Renewed::Renewed(lease) => {
                    ends.push(lease.expires_at);
                    left.push(lease.ttl);
                }
                Renewed::NotHeld(not_held) => {
                    return Err(why_not_held(&not_held, self.is_overdue()).with_name(&item.name));
                }
                Renewed::Queued(_) | Renewed::Changed(_) => return Err(unanswered()),
            }
        }
        let left = left.into_iter().min().unwrap_or_default();
        let expires_at = ends.into_iter().min().unwrap_or(self.pass.expires_at);
        let mut pass = self.pass.clone();
        pass.expires_at = expires_at;
        Ok(Self {
            pass,
            deadline: t0.after(left),
            ..self.clone()
        })
    }

    fn refuse_if_ended(&self) -> Result<()> {
        match self.known.load(Ordering::Acquire) {
            CONFIRMED => Err(already_confirmed()),
            RELEASED => Err(already_released()),
            _ => Ok(()),
        }
    }

    fn is_overdue(&self) -> bool {
        self.remaining().is_zero()
    }

    fn context(&self, op: &'static str, error: Error) -> Error {
        let error = error.during(op, self.shared.scheme());
        error.with_name(self.pass.name())
    }
}

pub(super) fn unanswered() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the store did not answer for every name",
    )
    .with_effect(Effect::Unknown)
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("id", &self.id())
            .field("items", &self.pass.items)
            .field("expires_at", &self.pass.expires_at)
            .finish_non_exhaustive()
    }
}
