//! What a manager tells its hooks.

use std::time::Duration;

use super::guard::Held;
use super::hold::LostCause;
use crate::error::Error;
use crate::holder::Owner;
use crate::lease::Token;
use crate::name::Name;

/// Something that happened to a lock of this manager.
///
/// Hooks are called on the task that caused it and must not block.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockEvent<'a> {
    /// Somebody begins to wait.
    Waiting {
        /// For which name.
        name: &'a Name,
    },
    /// A wait that was announced is over, one way or another.
    WaitEnded {
        /// For which name.
        name: &'a Name,
    },
    /// A lock was acquired.
    Acquired {
        /// The lock.
        held: Held,
        /// How long it took, waiting included.
        took: Duration,
    },
    /// A lock was not acquired.
    NotAcquired {
        /// Its (first) name.
        name: &'a Name,
        /// Why.
        why: NotAcquired<'a>,
        /// How long it took, waiting included.
        took: Duration,
    },
    /// A lock was released, or found to be over when it was to be.
    Released {
        /// Its (first) name.
        name: &'a Name,
        /// Its token.
        token: Token,
        /// How long it was held.
        held_for: Duration,
        /// What came of it.
        outcome: ReleaseOutcome<'a>,
    },
    /// A lease was renewed.
    Renewed {
        /// The lock.
        held: Held,
        /// How much later than planned the answer was there.
        lag: Duration,
    },
    /// A lease could not be renewed, or is nearly over.
    AtRisk {
        /// The lock.
        held: Held,
    },
    /// A lease was lost.
    Lost {
        /// Its (first) name.
        name: &'a Name,
        /// How many names it covers.
        names: usize,
        /// Its token.
        token: Token,
        /// How long it was held.
        held_for: Duration,
        /// Why.
        cause: &'a LostCause,
    },
    /// A lock was ended by force, through this manager.
    Forced {
        /// Which.
        name: &'a Name,
        /// By whom.
        by: &'a Owner,
        /// Why.
        reason: &'a str,
        /// How many holders lost it.
        ended: usize,
    },
}

/// Why a lock was not acquired.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotAcquired<'a> {
    /// It was taken, and nobody wanted to wait.
    Unavailable,
    /// It stayed taken until the deadline.
    TimedOut,
    /// The wait was cancelled, or its future dropped.
    Cancelled,
    /// Something failed.
    Failed(&'a Error),
}

/// What came of a release.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReleaseOutcome<'a> {
    /// It was ours and is free now.
    Released,
    /// It was left to the background: the guard was dropped.
    Dropped,
    /// It was not released at all: forgotten on purpose, or handed over.
    LeftBehind,
    /// It was not ours any more; a [`Lost`](LockEvent::Lost) event came before this.
    Lost(&'a LostCause),
    /// The store failed; the background goes on trying until the lease is over.
    Failed(&'a Error),
}
