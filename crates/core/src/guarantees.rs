//! What a backend can do ([`Capabilities`]) and what it promises ([`Guarantees`]), as data.
//!
//! Conformance cases are chosen by the first; the published table is generated from the second.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::lease::Ttl;

/// What a backend says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The one word for this backend: URL scheme, crate suffix, cargo feature, docs page.
    pub scheme: &'static str,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What it promises.
    pub guarantees: Guarantees,
}

impl Description {
    /// Refuses a ttl the store cannot do, before it is asked to.
    pub(crate) fn check_ttl(&self, ttl: Ttl) -> Result<()> {
        let can = &self.capabilities;
        if ttl < can.min_ttl || ttl > can.max_ttl {
            return Err(Error::invalid(format!(
                "a ttl of {:?} is outside what {} can do: {:?} to {:?}",
                ttl.as_duration(),
                self.scheme,
                can.min_ttl.as_duration(),
                can.max_ttl.as_duration()
            )));
        }
        Ok(())
    }
}

/// What a backend can do. Core answers `Unsupported` before calling it for anything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Tickets, and hand-over to the first live one.
    pub queue: bool,
    /// Hints when a name may have become free.
    pub watch: bool,
    /// Listing records.
    pub list: bool,
    /// Confirming a grant for good.
    pub reservations: bool,
    /// Shared grants, several units of a name, and capacities.
    pub quantities: bool,
    /// Handing a lease to another holder in one step.
    pub adopt: bool,
    /// How many names one request may take, all or nothing.
    pub atomic_names: AtomicNames,
    /// Owner and metadata are written in the same step as the grant.
    pub atomic_facts: bool,
    /// How many renewals one call may carry.
    pub renew_batch: usize,
    /// The shortest lease.
    pub min_ttl: Ttl,
    /// The longest lease.
    pub max_ttl: Ttl,
    /// Leases are rounded up to a multiple of this.
    pub ttl_step: Ttl,
}

/// Which sets of names a backend takes all or nothing in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtomicNames {
    /// Any set of names.
    All,
    /// Names that fall into the same bucket.
    Bucket,
    /// One name at a time.
    One,
}

/// What a backend promises, and so what it does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guarantees {
    /// What the backend may be trusted with.
    pub class: Class,
    /// Whether tokens really grow.
    pub fencing: Fencing,
    /// Whose clock ends a lease.
    pub expiry_clock: ExpiryClock,
    /// An acknowledged answer survives `kill -9` and restart of the store.
    pub durable: bool,
    /// An acknowledged answer survives the store's failover.
    pub survives_failover: Survival,
    /// The order in which waiters are served.
    pub fairness: Fairness,
    /// What must be true for the above, in a sentence.
    pub assumes: &'static str,
}

/// What a backend may be trusted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Class {
    /// Safe for correctness together with the token, under the stated assumptions.
    F,
    /// For efficiency only: duplicates are possible and will happen under the named fault.
    E,
    /// One process only.
    P,
}

/// Whether the token of a later grant is always larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fencing {
    /// Always, across release, expiry, force, sweep, restart and every failover the class covers.
    Monotonic,
    /// Except under the fault named in the assumptions.
    BestEffort,
    /// The token means nothing.
    None,
}

/// Whose clock decides that a lease has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpiryClock {
    /// The process's own monotonic clock, which no wall-clock step moves.
    ProcessMonotonic,
    /// The store's monotonic clock.
    StoreMonotonic,
    /// The store's wall clock: a step of it ends or prolongs leases.
    StoreWall,
    /// The caller's wall clock: skew between callers matters.
    ClientWall,
}

/// Whether acknowledged answers outlive a failover of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Survival {
    /// Yes.
    Yes,
    /// Not always.
    No,
    /// The store has no failover.
    NotApplicable,
}

/// The order in which waiters of one name are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fairness {
    /// First come, first served, over all processes.
    Fifo,
    /// First come, first served inside one process; whoever is quickest between processes.
    LocalFifo,
}
