//! What a manager tells its hooks.

use super::claim::Claim;
use super::conflict::Conflict;
use super::found::Found;
use super::reserved::Reservation;
use super::sweeper::ExpiredReservation;
use crate::error::Error;

/// Something that happened to a reservation.
///
/// Hooks are called on the task that caused it and must not block. What this manager did itself is told always;
/// [`Expired`](Self::Expired) is told for what its own sweeps found, not for what another request met first.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReservationEvent<'a> {
    /// Something was reserved.
    Reserved {
        /// The reservation.
        reservation: &'a Reservation,
    },
    /// Something was taken.
    Refused {
        /// What was in the way.
        conflict: &'a Conflict,
    },
    /// A reservation was confirmed for good.
    Confirmed {
        /// The reservation.
        reservation: &'a Reservation,
        /// What it belongs to from now on.
        entity: &'a str,
    },
    /// A reservation was released.
    Released {
        /// The reservation.
        reservation: &'a Reservation,
    },
    /// A reservation ran out.
    Expired {
        /// What it was.
        expired: &'a ExpiredReservation,
    },
    /// A confirmed value was freed.
    Freed {
        /// What was claimed.
        claim: &'a Claim,
        /// Whether its units are gone for good.
        spent: bool,
    },
    /// A confirmed value changed hands.
    HandedOver {
        /// The claim as it is from now on.
        heir: &'a Claim,
    },
    /// A reservation or a confirmed value was ended by force.
    Forced {
        /// What it was.
        found: &'a Found,
        /// Why.
        reason: &'a str,
    },
    /// A sweep of the background task is through.
    Swept {
        /// How many reservations had run out.
        expired: usize,
        /// Whether more remain, so that the next step follows at once.
        more: bool,
    },
    /// A sweep of the background task failed; it is tried again at the next turn.
    SweepFailed {
        /// Why.
        error: &'a Error,
    },
}
