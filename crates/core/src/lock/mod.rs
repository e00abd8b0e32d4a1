//! Locks: guarded use of a lease by running code.
//!
//! [`Locks`] is a manager: a store, a namespace and defaults. It hands out [`Lock`]s, which can be taken; a taken lock
//! is a [`Guard`]. Waiting, renewal, loss, reentry and several names are written here once, for every store.

mod attempt;
mod builder;
mod deadline;
mod event;
mod guard;
mod handle;
mod handover;
mod hold;
mod idempotent;
mod keeper;
mod line;
mod locks;
#[cfg(feature = "observe")]
mod observe;
mod renew;
mod roster;
mod run;
mod scope;
mod shared;
mod wait;

pub use builder::LocksBuilder;
pub use deadline::MIN_LOCK_TTL;
pub use event::{LockEvent, NotAcquired, ReleaseOutcome};
pub use guard::{Guard, Held};
pub use handle::Lock;
pub use handover::Handover;
pub use hold::{LostCause, State};
pub use idempotent::{Answer, Idempotent, IdempotentError};
pub use locks::Locks;
#[cfg(feature = "observe")]
pub use observe::Warnings;
pub use run::RunError;
pub use scope::Scope;
pub use tokio_util::sync::CancellationToken;
