//! The core of Leasehold: the rule, the seam, locks, and the memory store.
//!
//! Users depend on the `leasehold` facade; authors of backends depend on this crate. Where to start reading:
//!
//! * [`Backend`] is the seam every store implements, [`transition`] the rule it must follow;
//! * [`lock`] is what programs use: [`Locks`], [`Lock`], [`Guard`];
//! * [`reservation`] is the other half: [`Reservations`] that are confirmed for good or let go;
//! * [`memory`] is the reference store.

pub mod backend;
mod background;
pub mod blocking;
pub mod clock;
mod error;
pub mod fenced;
mod guarantees;
mod holder;
pub mod inboxes;
mod keys;
mod lease;
pub mod lock;
pub mod memory;
mod name;
mod rare;
mod record;
pub mod record_store;
pub mod registry;
pub mod reservation;
#[doc(hidden)]
pub mod seeded;
mod sync;
pub mod transition;
pub mod versioned;
pub mod wrap;

pub use backend::Backend;
pub use clock::{Clock, ManualClock, Moment, SystemClock, Timestamp};
pub use error::{Effect, Error, ErrorKind, Result};
pub use guarantees::{
    AtomicNames, Capabilities, Class, Description, ExpiryClock, Fairness, Fencing, Guarantees,
    Survival,
};
pub use holder::{Holder, HolderDigest, Owner};
pub use keys::Keys;
pub use lease::{Kind, Lease, Metadata, Mode, ONE_UNIT, Token, Ttl, Units};
pub use lock::{
    Answer, CancellationToken, Guard, Handover, Held, Idempotent, IdempotentError, Lock, LockEvent,
    Locks, LocksBuilder, LostCause, RunError, Scope, State,
};
pub use name::{MAX_KEY_BYTES, MAX_NAMESPACE_BYTES, Name};
pub use rare::{Collection, Rare};
pub use record::{Claim, End, Ending, Forced, Grant, RECORD_SCHEMA, Record, Ticket};
pub use reservation::{Conflict, Reservation, Reservations, ReserveOutcome};
