//! Something that is confirmed for good, in the hands of whoever confirmed it.

use std::fmt;
use std::sync::Arc;

use super::event::ReservationEvent;
use super::id::ReservationId;
use super::key::Key;
use super::limits::check_entity;
use super::pass::Pass;
use super::refusal::why_not_held;
use super::reserved::unanswered;
use super::shared::Shared;
use crate::backend::{Confirm, Confirmed, Heir, Release, Released};
#[allow(unused_imports, reason = "for links in the docs")]
use crate::error::ErrorKind;
use crate::error::{Error, Result};
use crate::holder::Holder;
use crate::lease::{Token, Units};

/// Something that is confirmed for good: it stays claimed until it is freed, spent or handed over on purpose.
///
/// Dropping it does nothing. Keep its [`pass`](Self::pass) where the entity is kept, or the value can only be freed by
/// force.
#[derive(Clone)]
pub struct Claim {
    shared: Arc<Shared>,
    pass: Pass,
    entity: Arc<str>,
}

impl Claim {
    pub(super) fn new(shared: Arc<Shared>, pass: Pass, entity: &str) -> Self {
        Self {
            shared,
            pass,
            entity: entity.into(),
        }
    }

    /// The id of the (first) thing claimed.
    #[must_use]
    pub fn id(&self) -> ReservationId {
        ReservationId::of(self.pass.name())
    }

    /// The (first) key claimed.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.pass.first().key
    }

    /// Everything claimed, sorted, with how many units and under which token.
    pub fn items(&self) -> impl Iterator<Item = (&Key, Units, Token)> {
        self.pass.items()
    }

    /// What it belongs to.
    #[must_use]
    pub fn entity(&self) -> &str {
        &self.entity
    }

    /// What somebody else needs to free it or hand it over, secret included.
    #[must_use]
    pub fn pass(&self) -> Pass {
        self.pass.clone()
    }

    /// Frees it: the value can be reserved again, and units go back to the stock.
    ///
    /// # Errors
    /// With the [code](Error::code) for how it ended before; otherwise if the store fails.
    ///
    /// # Cancel safety
    /// Dropped midway, it is freed or not; asking again finds out.
    pub async fn free(&self) -> Result<()> {
        self.end(false).await
    }

    /// Ends it together with its units: what was bought has left the shelf, and the stock shrinks by as much. Of a value
    /// without a stock it is the same as to free it.
    ///
    /// # Errors
    /// As [`free`](Self::free).
    ///
    /// # Cancel safety
    /// Dropped midway, it is spent or not; asking again finds out, and spends it once.
    pub async fn spend(&self) -> Result<()> {
        self.end(true).await
    }

    async fn end(&self, spend: bool) -> Result<()> {
        let op = if spend { "spend" } else { "free" };
        let ended = self.try_end(spend).await;
        ended.map_err(|error| self.context(op, error))?;
        self.shared.emit(|| ReservationEvent::Freed {
            claim: self,
            spent: spend,
        });
        Ok(())
    }

    async fn try_end(&self, spend: bool) -> Result<()> {
        let request = Release::Claims {
            holder: self.pass.holder(),
            claims: self.pass.tokens(),
            spend,
        };
        let answers = self.shared.backend.release(&request).await?;
        if answers.len() != self.pass.items.len() {
            return Err(unanswered());
        }
        for (answer, item) in answers.iter().zip(&self.pass.items) {
            if let Released::NotHeld(not_held) = answer {
                return Err(why_not_held(not_held, false).with_name(&item.name));
            }
        }
        Ok(())
    }

    /// Hands it to another entity, with a new secret: whoever has the old one can do nothing with it any more.
    ///
    /// # Errors
    /// As [`hand_over_to`](Self::hand_over_to).
    ///
    /// # Cancel safety
    /// Dropped midway, it has changed hands or not, and if it has, the new secret is gone. Make an
    /// [heir](Self::heir) first where that matters.
    pub async fn hand_over(&self, entity: &str) -> Result<Self> {
        let heir = self.heir(entity)?;
        self.hand_over_to(&heir).await?;
        Ok(heir)
    }

    /// The claim that another entity will have once it is [handed over](Self::hand_over_to), so that its
    /// [`pass`](Self::pass) can be kept before that; no I/O.
    ///
    /// # Errors
    /// With the [code](Error::code) for a wrong entity.
    pub fn heir(&self, entity: &str) -> Result<Self> {
        check_entity(entity).map_err(|error| self.context("hand_over", error))?;
        let pass = Pass::new(
            self.pass.items.clone(),
            &Holder::random(),
            self.pass.expires_at,
        );
        Ok(Self::new(self.shared.clone(), pass, entity))
    }

    /// Hands it to an [heir](Self::heir). To do so again after the answer was lost is safe.
    ///
    /// # Errors
    /// With the [code](Error::code) for how it ended before; [`ErrorKind::InvalidInput`] if that is not an heir of
    /// this claim; otherwise if the store fails.
    ///
    /// # Cancel safety
    /// Dropped midway, it has changed hands or not; asking again finds out.
    pub async fn hand_over_to(&self, heir: &Self) -> Result<()> {
        self.try_hand_over(heir)
            .await
            .map_err(|error| self.context("hand_over", error))
    }

    async fn try_hand_over(&self, heir: &Self) -> Result<()> {
        if heir.pass.items != self.pass.items {
            return Err(Error::invalid("this is not an heir of this claim"));
        }
        let request = Confirm::all(self.pass.tokens(), self.pass.holder(), &heir.entity)?;
        let request = request.hand_over(Heir {
            holder: heir.pass.holder(),
            owner: self.shared.owner.clone(),
        });
        match self.shared.backend.confirm(&request).await? {
            Confirmed::Confirmed(_) => {}
            Confirmed::NotHeld(name, not_held) => {
                return Err(why_not_held(&not_held, false).with_name(&name));
            }
            // None was asked for.
            Confirmed::VersionChanged(..) => return Err(unanswered()),
        }
        self.shared.emit(|| ReservationEvent::HandedOver { heir });
        Ok(())
    }

    fn context(&self, op: &'static str, error: Error) -> Error {
        let error = error.during(op, self.shared.scheme());
        error.with_name(self.pass.name())
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("id", &self.id())
            .field("items", &self.pass.items)
            .field("entity", &self.entity)
            .finish_non_exhaustive()
    }
}
