//! Building a manager.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::event::ReservationEvent;
use super::limits::{DEFAULT_TTL, checked_ttl};
use super::manager::Reservations;
use super::normalise::Normalise;
use super::schema::{SWEEP_BATCH, SWEEP_EVERY};
use super::shared::{Hook, Shared};
use super::sweeper;
use crate::backend::Backend;
use crate::background::{check_sweep_interval, runtime_or_current};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, ErrorKind, Result};
use crate::holder::Owner;
use crate::name::check_namespace;

/// Options of a [`Reservations`] manager, checked by [`build`](Self::build).
#[must_use = "a builder does nothing until build is called"]
pub struct ReservationsBuilder {
    store: Arc<dyn Backend>,
    namespace: Option<String>,
    owner: Option<String>,
    ttl: Duration,
    sweep_every: Option<Duration>,
    batch: usize,
    normalise: HashMap<String, Normalise>,
    clock: Arc<dyn Clock>,
    runtime: Option<Handle>,
    hooks: Vec<Hook>,
}

impl ReservationsBuilder {
    pub(super) fn new(store: Arc<dyn Backend>) -> Self {
        Self {
            store,
            namespace: None,
            owner: None,
            ttl: DEFAULT_TTL,
            sweep_every: Some(SWEEP_EVERY),
            batch: SWEEP_BATCH,
            normalise: HashMap::new(),
            clock: SystemClock::shared(),
            runtime: None,
            hooks: Vec::new(),
        }
    }

    /// Sets the namespace everything is reserved in. Required.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the label people see; the process id by default.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets how long a reservation lasts where the request does not say; five minutes by default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets how values of one kind are spelled before they are compared. All managers of a store must agree on it.
    pub fn normalise(mut self, kind: impl Into<String>, how: Normalise) -> Self {
        self.normalise.insert(kind.into(), how);
        self
    }

    /// Sets how often expired reservations are swept; every five minutes by default, `None` for never.
    pub fn sweep_every(mut self, interval: Option<Duration>) -> Self {
        self.sweep_every = interval;
        self
    }

    /// Sets how many records one step of the sweeper looks at; 100 by default. It goes on while more remain.
    pub fn sweep_batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Sets the clock that remaining times are judged by. What has expired, the store decides.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the Tokio runtime the background work runs on; the current one by default. It needs its timers enabled.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Adds a function that is told what happens: reserved, confirmed, released, expired and so on.
    pub fn on_event(
        mut self,
        hook: impl Fn(&ReservationEvent<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Checks everything and starts the manager.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store cannot keep reservations; [`ErrorKind::InvalidInput`] for an option
    /// that breaks its rule; [`ErrorKind::Config`] if the namespace is missing or there is no Tokio runtime to run on.
    pub fn build(self) -> Result<Reservations> {
        let description = self.store.describe();
        if !description.capabilities.reservations {
            return Err(Error::unsupported(format!(
                "{} cannot keep reservations",
                description.scheme
            )));
        }
        let namespace = self.namespace.ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                "the namespace is missing; set namespace(..)",
            )
        })?;
        check_namespace(&namespace)?;
        if self.batch == 0 {
            return Err(Error::invalid("a sweep must look at one record at least"));
        }
        check_sweep_interval(self.sweep_every)?;
        let owner = self
            .owner
            .as_ref()
            .map_or_else(|| Ok(Owner::this_process()), Owner::new)?;
        let runtime = runtime_or_current(self.runtime)?;
        let shared = Arc::new(Shared {
            backend: self.store,
            clock: self.clock,
            namespace: namespace.into(),
            owner,
            ttl: checked_ttl(self.ttl)?,
            batch: self.batch,
            normalise: self.normalise,
            hooks: self.hooks,
            runtime,
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        if let Some(every) = self.sweep_every {
            sweeper::start(&shared, every);
        }
        Ok(Reservations::of(shared))
    }
}

impl fmt::Debug for ReservationsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReservationsBuilder")
            .field("store", &self.store.describe().scheme)
            .field("namespace", &self.namespace)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}
