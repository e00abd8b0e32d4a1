//! Why a reservation could not be acted upon, from what the store said.

use super::code::Code;
use crate::backend::NotHeld;
use crate::error::Error;
use crate::record::Ending;

/// What the store's "not held" means for somebody who holds a pass whose time is over (`overdue`) or not.
pub(super) fn why_not_held(not_held: &NotHeld, overdue: bool) -> Error {
    match not_held.ended.as_ref().map(|end| &end.how) {
        Some(Ending::Released | Ending::Spent) => already_released(),
        Some(Ending::Forced(forced)) => Code::ReservationAlreadyReleased.error(format!(
            "the reservation was ended by {}: {}",
            forced.by,
            forced.reason.escape_debug()
        )),
        Some(Ending::Confirmed) => already_confirmed(),
        Some(Ending::Expired) => expired(),
        None if overdue => expired(),
        Some(Ending::HandedOver) => {
            Code::ReservationNotFound.error("the reservation was handed over to somebody else")
        }
        None => Code::ReservationNotFound
            .error("the store knows no such reservation, or has forgotten it"),
    }
}

pub(super) fn already_released() -> Error {
    Code::ReservationAlreadyReleased.error("the reservation was released before")
}

pub(super) fn already_confirmed() -> Error {
    Code::ReservationAlreadyConfirmed.error("the reservation was confirmed before")
}

fn expired() -> Error {
    Code::ReservationAlreadyExpired.error("the time of the reservation had run out")
}
