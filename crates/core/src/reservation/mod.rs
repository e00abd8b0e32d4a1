//! Reservations: claim a value before the thing exists, then confirm it for good or let it go.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use leasehold_core::memory::Memory;
//! use leasehold_core::reservation::{ReserveOutcome, Reservations};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> leasehold_core::Result<()> {
//! let names = Reservations::new(Arc::new(Memory::new())).namespace("users").build()?;
//! match names.reserve("email", "alice@example.com", Duration::from_secs(60)).await? {
//!     ReserveOutcome::Reserved(reservation) => {
//!         // Create the account, then keep the address for good.
//!         reservation.confirm("user-1").await?;
//!     }
//!     ReserveOutcome::Conflict(conflict) => println!("{conflict}"),
//! }
//! assert!(names.is_reserved("email", "alice@example.com").await?);
//! # Ok(()) }
//! ```
//!
//! A reservation is a lease like any other, on the same seam: it cannot outlive its holder unless it is confirmed.
//! Start with [`Reservations`]; what it answers is a [`Reservation`], and once confirmed a [`Claim`].

mod builder;
mod claim;
mod code;
mod conflict;
mod event;
mod found;
mod id;
mod key;
mod limits;
mod manager;
mod normalise;
mod notes;
mod pass;
mod query;
mod refusal;
mod request;
mod reserved;
pub mod schema;
mod shared;
mod stock;
mod sweeper;

pub use builder::ReservationsBuilder;
pub use claim::Claim;
pub use code::Code;
pub use conflict::{Conflict, ReserveOutcome, Taken};
pub use event::ReservationEvent;
pub use found::{Found, Remaining, ReservationStatus};
pub use id::{MAX_ID, ReservationId};
pub use key::{Key, MAX_KIND, MAX_VALUE, SEPARATOR};
pub use limits::{DEFAULT_TTL, MAX_ENTITY, MAX_TTL, MIN_TTL, ttl_from_millis};
pub use manager::Reservations;
pub use normalise::Normalise;
pub use pass::Pass;
pub use query::{FoundPage, Query};
pub use request::Reserve;
pub use reserved::Reservation;
pub use stock::Stock;
pub use sweeper::{ExpiredReservation, ExpiredReservations};
