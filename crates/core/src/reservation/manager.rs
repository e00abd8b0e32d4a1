//! The manager: a store, a namespace, and the verbs.

use std::sync::Arc;
use std::time::Duration;

use super::builder::ReservationsBuilder;
use super::claim::Claim;
use super::conflict::ReserveOutcome;
use super::event::ReservationEvent;
use super::found::Found;
use super::id::ReservationId;
use super::pass::Pass;
use super::request::Reserve;
use super::reserved::{Reservation, unanswered};
use super::shared::Shared;
use crate::backend::{Backend, IntoStore, Release, Released};
use crate::clock::Moment;
use crate::error::{Effect, Error, ErrorKind, Result};

/// Reserves, confirms and releases values of one store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reservations {
    shared: Arc<Shared>,
}

impl Reservations {
    /// Starts building a manager on this store.
    #[allow(
        clippy::new_ret_no_self,
        reason = "reads as Reservations::new(store).namespace(..).build()"
    )]
    pub fn new(store: impl IntoStore) -> ReservationsBuilder {
        ReservationsBuilder::new(store.into_store())
    }

    pub(super) fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The namespace everything is reserved in.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.shared.namespace
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Backend> {
        &self.shared.backend
    }

    /// Starts a request for any number of values, with every option.
    pub fn request(&self) -> Reserve {
        Reserve::new(self.shared.clone())
    }

    /// Reserves a value that only one can have.
    ///
    /// # Errors
    /// As [`Reserve::reserve`].
    ///
    /// # Cancel safety
    /// As [`Reserve::reserve`].
    pub async fn reserve(&self, kind: &str, value: &str, ttl: Duration) -> Result<ReserveOutcome> {
        self.request().value(kind, value).ttl(ttl).reserve().await
    }

    /// Reserves a value for a caller who may ask again: the same caller gets the same reservation back, with the end
    /// it has, and anybody else a conflict. See [`Reserve::caller`].
    ///
    /// # Errors
    /// As [`Reserve::reserve`].
    ///
    /// # Cancel safety
    /// Dropped midway, it is reserved or not; asking again finds out.
    pub async fn reserve_idempotent(
        &self,
        kind: &str,
        value: &str,
        ttl: Duration,
        caller: &str,
    ) -> Result<ReserveOutcome> {
        let request = self.request().value(kind, value).ttl(ttl);
        request.caller(caller).reserve().await
    }

    /// Reserves units of something that there is a [stock](Self::set_stock) of.
    ///
    /// # Errors
    /// As [`Reserve::reserve`].
    ///
    /// # Cancel safety
    /// As [`Reserve::reserve`].
    pub async fn reserve_units(
        &self,
        kind: &str,
        value: &str,
        units: u32,
        ttl: Duration,
    ) -> Result<ReserveOutcome> {
        let request = self.request().units(kind, value, units).ttl(ttl);
        request.reserve().await
    }

    /// Ends what was found, reserved or confirmed, whoever holds it; for when its pass is lost. Says whether it was
    /// still there.
    ///
    /// # Errors
    /// If the reason is blank or too long, it was found in another namespace, or the store fails.
    ///
    /// # Cancel safety
    /// Dropped midway, it is ended or not.
    pub async fn force(&self, found: &Found, reason: &str) -> Result<bool> {
        let shared = &self.shared;
        let name = shared.name(&found.key)?;
        if ReservationId::of(&name) != found.id {
            return Err(Error::invalid("this was found in another namespace").with_name(&name));
        }
        let by = shared.owner.clone();
        let request = Release::force(name, Some(found.token), by, reason)?;
        let answers = shared.backend.release(&request).await?;
        let ended = match answers.first() {
            Some(Released::Forced(holdings)) => !holdings.is_empty(),
            Some(_) => false,
            None => return Err(unanswered()),
        };
        if ended {
            shared.emit(|| ReservationEvent::Forced { found, reason });
        }
        Ok(ended)
    }

    /// Goes on with a reservation whose pass was kept or came from elsewhere; no I/O.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if it is for another namespace.
    pub fn resume(&self, pass: &Pass) -> Result<Reservation> {
        self.check_pass(pass)?;
        let left = pass.expires_at.since(self.shared.clock.wall());
        let deadline: Moment = self.shared.clock.now().after(left);
        Ok(Reservation::new(
            self.shared.clone(),
            pass.clone(),
            deadline,
        ))
    }

    /// Goes on with something confirmed whose pass was kept or came from elsewhere; no I/O.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if it is for another namespace.
    pub fn resume_claim(&self, pass: &Pass, entity: &str) -> Result<Claim> {
        self.check_pass(pass)?;
        Ok(Claim::new(self.shared.clone(), pass.clone(), entity))
    }

    fn check_pass(&self, pass: &Pass) -> Result<()> {
        let foreign = |item: &&super::pass::Item| item.name.namespace() != self.namespace();
        match pass.items.iter().find(foreign) {
            Some(item) => Err(Error::invalid(format!(
                "this pass is for another namespace than {:?}",
                self.namespace()
            ))
            .with_name(&item.name)),
            None => Ok(()),
        }
    }

    /// Stops taking requests to reserve, and the background task. Nothing reserved or confirmed is touched.
    pub fn close(&self) {
        self.shared.closing.cancel();
        self.shared.tasks.close();
    }

    /// Closes, and waits until everything in the background is done, at most this long.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if the store did not answer in time; what is left runs out by itself.
    ///
    /// # Cancel safety
    /// Dropped midway, the background goes on.
    pub async fn shutdown(&self, within: Duration) -> Result<()> {
        self.close();
        let clock = &self.shared.clock;
        let deadline = clock.now().after(within);
        tokio::select! {
            biased;
            () = self.shared.tasks.wait() => Ok(()),
            () = clock.sleep_until(deadline) => Err(Error::new(
                ErrorKind::Timeout,
                format!("not everything was given back within {within:?}; what is left runs out by itself"),
            )
            .with_effect(Effect::Unknown)
            .during("shutdown", self.shared.scheme())),
        }
    }
}
