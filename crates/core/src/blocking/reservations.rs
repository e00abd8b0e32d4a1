//! Reservations without async.

use std::ops::Deref;
use std::time::Duration;

use super::{block_on, runtime};
use crate::error::Result;
#[allow(unused_imports, reason = "for links in the docs")]
use crate::error::{Error, ErrorKind};
use crate::reservation::{
    self, Conflict, ExpiredReservations, Found, FoundPage, Pass, Query, Remaining, Stock,
};

/// Reserves, confirms and releases values of one store; the blocking form of [`reservation::Reservations`].
#[derive(Debug, Clone)]
pub struct Reservations(reservation::Reservations);

impl reservation::ReservationsBuilder {
    /// Checks everything and starts a manager for code without async.
    ///
    /// # Errors
    /// As [`build`](Self::build); [`ErrorKind::Unavailable`] if the background thread cannot be started.
    pub fn build_blocking(self) -> Result<Reservations> {
        self.runtime(runtime()?).build().map(Reservations)
    }
}

impl reservation::Reserve {
    /// As [`reserve`](Self::reserve), for code without async.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve), and if this is called inside an async task.
    pub fn reserve_blocking(self) -> Result<ReserveOutcome> {
        Ok(block_on(self.reserve())??.into())
    }
}

/// What came of a wish to reserve something; the blocking form of [`reservation::ReserveOutcome`].
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
    /// As [`reservation::ReserveOutcome::reserved`].
    pub fn reserved(self) -> Result<Reservation> {
        match self {
            Self::Reserved(reservation) => Ok(reservation),
            Self::Conflict(conflict) => Err(conflict.into()),
        }
    }
}

impl From<reservation::ReserveOutcome> for ReserveOutcome {
    fn from(outcome: reservation::ReserveOutcome) -> Self {
        match outcome {
            reservation::ReserveOutcome::Reserved(one) => Self::Reserved(Reservation(one)),
            reservation::ReserveOutcome::Conflict(conflict) => Self::Conflict(conflict),
        }
    }
}

/// Passes verbs on, and waits for their answers.
macro_rules! verbs {
    ($of:ident: $($verb:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {$(
        #[doc = concat!("See [`reservation::", stringify!($of), "::", stringify!($verb), "`].")]
        ///
        /// # Errors
        /// As there, and if this is called inside an async task.
        pub fn $verb(&self, $($argument: $kind),*) -> Result<$answer> {
            block_on(self.0.$verb($($argument),*))?.map(Into::into)
        }
    )*};
}

impl Reservations {
    /// The async form of the same manager.
    #[must_use]
    pub fn as_async(&self) -> &reservation::Reservations {
        &self.0
    }

    /// Starts a request for any number of values, to be sent by
    /// [`reserve_blocking`](reservation::Reserve::reserve_blocking).
    pub fn request(&self) -> reservation::Reserve {
        self.0.request()
    }

    verbs! { Reservations:
        reserve(kind: &str, value: &str, ttl: Duration) -> ReserveOutcome;
        reserve_idempotent(kind: &str, value: &str, ttl: Duration, caller: &str) -> ReserveOutcome;
        reserve_units(kind: &str, value: &str, units: u32, ttl: Duration) -> ReserveOutcome;
        find_active(kind: &str, value: &str) -> Option<Found>;
        find(kind: &str, value: &str) -> Option<Found>;
        find_key(key: &str) -> Option<Found>;
        find_all(kind: &str, value: &str) -> Vec<Found>;
        find_id(id: &str) -> Option<Found>;
        find_short_id(id: &str) -> Vec<Found>;
        find_entity(entity: &str) -> Vec<Found>;
        get(id: &str) -> Found;
        list(query: &Query) -> FoundPage;
        is_reserved(kind: &str, value: &str) -> bool;
        remaining(kind: &str, value: &str) -> Option<Remaining>;
        stock(kind: &str, value: &str) -> Stock;
        set_stock(kind: &str, value: &str, units: u32) -> ();
        set_stock_at(kind: &str, value: &str, units: u32, version: u64) -> u64;
        change_stock(kind: &str, value: &str, by: i64) -> u32;
        clear_stock(kind: &str, value: &str) -> ();
        force(found: &Found, reason: &str) -> bool;
        expire(batch: usize) -> ExpiredReservations;
        expired(limit: usize) -> ExpiredReservations;
        count_expired(limit: usize) -> usize;
        shutdown(within: Duration) -> ();
    }

    /// Goes on with a reservation; see [`reservation::Reservations::resume`].
    ///
    /// # Errors
    /// If the pass is for another namespace.
    pub fn resume(&self, pass: &Pass) -> Result<Reservation> {
        self.0.resume(pass).map(Reservation)
    }

    /// Goes on with something confirmed; see [`reservation::Reservations::resume_claim`].
    ///
    /// # Errors
    /// If the pass is for another namespace.
    pub fn resume_claim(&self, pass: &Pass, entity: &str) -> Result<Claim> {
        self.0.resume_claim(pass, entity).map(Claim)
    }
}

/// Something that is reserved; the blocking form of [`reservation::Reservation`].
#[derive(Debug, Clone)]
#[must_use = "it blocks others until it is confirmed, released, or runs out"]
pub struct Reservation(reservation::Reservation);

impl From<reservation::Reservation> for Reservation {
    fn from(reservation: reservation::Reservation) -> Self {
        Self(reservation)
    }
}

impl Reservation {
    verbs! { Reservation:
        confirm(entity: &str) -> Claim;
        confirm_at(entity: &str, version: u64) -> Claim;
        release() -> ();
        extend(ttl: Duration) -> Self;
    }
}

impl Deref for Reservation {
    type Target = reservation::Reservation;

    fn deref(&self) -> &reservation::Reservation {
        &self.0
    }
}

/// Something that is confirmed for good; the blocking form of [`reservation::Claim`].
#[derive(Debug, Clone)]
pub struct Claim(reservation::Claim);

impl From<reservation::Claim> for Claim {
    fn from(claim: reservation::Claim) -> Self {
        Self(claim)
    }
}

impl Claim {
    verbs! { Claim:
        free() -> ();
        spend() -> ();
        hand_over(entity: &str) -> Self;
        hand_over_to(heir: &reservation::Claim) -> ();
    }
}

impl Deref for Claim {
    type Target = reservation::Claim;

    fn deref(&self) -> &reservation::Claim {
        &self.0
    }
}
