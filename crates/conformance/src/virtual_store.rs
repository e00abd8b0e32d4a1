//! The harness of a store whose time the kit moves.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::{Backend, Clock, MAX_NAMESPACE_BYTES, ManualClock, Timestamp};

use crate::harness::{Contention, Harness, Severed, Time, Unavailable};

/// The harness of a store in this process that runs on a [`ManualClock`].
///
/// Nothing waits, and expiries are checked to the millisecond. The clock must be the one the store was built with.
///
/// ```no_run
/// use std::{process::ExitCode, sync::Arc};
/// use leasehold_conformance::{VirtualStore, run};
/// use leasehold_core::{ManualClock, memory::Memory};
///
/// fn main() -> ExitCode {
///     let clock = ManualClock::new();
///     let store = Memory::with_clock(Arc::new(clock.clone()));
///     run(VirtualStore::new("memory", clock, Arc::new(store)))
/// }
/// ```
pub struct VirtualStore {
    name: String,
    clock: ManualClock,
    store: Arc<dyn Backend>,
    longest_namespace: usize,
    contention: Contention,
    cut: Option<Box<dyn Fn() -> Severed + Send + Sync>>,
}

impl VirtualStore {
    /// A store under its word for reports, and the clock it runs on.
    pub fn new(name: impl Into<String>, clock: ManualClock, store: Arc<dyn Backend>) -> Self {
        Self {
            name: name.into(),
            clock,
            store,
            longest_namespace: MAX_NAMESPACE_BYTES,
            contention: Contention {
                tasks: 8,
                rounds: 50,
            },
            cut: None,
        }
    }

    /// How many bytes a namespace may have: fewer than usual behind a prefix.
    #[must_use]
    pub fn longest_namespace(mut self, bytes: usize) -> Self {
        self.longest_namespace = bytes;
        self
    }

    /// How hard the cases about contention may press: 8 tasks of 50 rounds unless told.
    #[must_use]
    pub fn contention(mut self, contention: Contention) -> Self {
        self.contention = contention;
        self
    }

    /// How the store is cut off from its callers. Without it, the cases about outages are left out.
    #[must_use]
    pub fn severed_by(mut self, cut: impl Fn() -> Severed + Send + Sync + 'static) -> Self {
        self.cut = Some(Box::new(cut));
        self
    }
}

#[async_trait]
impl Harness for VirtualStore {
    fn name(&self) -> &str {
        &self.name
    }

    async fn connect(&self) -> Result<Arc<dyn Backend>, Unavailable> {
        Ok(Arc::clone(&self.store))
    }

    fn time(&self) -> Time {
        Time::Virtual
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    async fn pass_time(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn step_wall_back(&self, by: Duration) -> bool {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let wall = self.clock.wall().as_millis().saturating_sub(millis);
        self.clock.set_wall(Timestamp::from_millis(wall));
        true
    }

    fn can_sever(&self) -> bool {
        self.cut.is_some()
    }

    async fn sever(&self) -> Option<Severed> {
        self.cut.as_ref().map(|cut| cut())
    }

    fn longest_namespace(&self) -> usize {
        self.longest_namespace
    }

    fn contention(&self) -> Contention {
        self.contention
    }
}

impl fmt::Debug for VirtualStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualStore")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
