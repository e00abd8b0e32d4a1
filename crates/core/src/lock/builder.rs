//! Building a manager.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::deadline::{check_max_hold, lock_ttl};
use super::event::LockEvent;
use super::handle::{Renewal, Terms};
use super::keeper::{self, Keeper};
use super::locks::Locks;
use super::shared::{Hook, Shared};
use crate::backend::Backend;
use crate::backend::request::lock_delay_millis;
use crate::background::{check_sweep_interval, runtime_or_current};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, ErrorKind, Result};
use crate::holder::Owner;
use crate::lease::{Mode, ONE_UNIT};
use crate::name::check_namespace;

/// How long a lock lasts unless told otherwise.
const DEFAULT_TTL: Duration = Duration::from_secs(60);
/// How often expired records are swept unless told otherwise.
const DEFAULT_SWEEP: Duration = Duration::from_secs(300);

/// Options of a [`Locks`] manager, checked by [`build`](Self::build).
#[must_use = "a builder does nothing until build is called"]
pub struct LocksBuilder {
    store: Arc<dyn Backend>,
    namespace: Option<String>,
    any_namespace: bool,
    ttl: Duration,
    owner: Option<String>,
    renew: Renewal,
    max_hold: Option<Duration>,
    lock_delay: Duration,
    sweep_every: Option<Duration>,
    clock: Arc<dyn Clock>,
    runtime: Option<Handle>,
    hooks: Vec<Hook>,
    #[cfg(feature = "observe")]
    observed: Option<super::Warnings>,
}

impl LocksBuilder {
    pub(super) fn new(store: Arc<dyn Backend>) -> Self {
        Self {
            store,
            namespace: None,
            any_namespace: false,
            ttl: DEFAULT_TTL,
            owner: None,
            renew: Renewal::Off,
            max_hold: None,
            lock_delay: Duration::ZERO,
            sweep_every: Some(DEFAULT_SWEEP),
            clock: SystemClock::shared(),
            runtime: None,
            hooks: Vec::new(),
            #[cfg(feature = "observe")]
            observed: None,
        }
    }

    /// Sets the namespace locks are taken in. Required, unless [`any_namespace`](Self::any_namespace) is set.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Leaves the namespace to each call of [`Locks::in_namespace`].
    pub fn any_namespace(mut self) -> Self {
        self.any_namespace = true;
        self
    }

    /// Sets how long locks last unless renewed; 60 seconds by default, at least
    /// [`MIN_LOCK_TTL`](super::MIN_LOCK_TTL).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the label people see; the process id by default.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Keeps all locks alive in the background until their guards are gone.
    pub fn renewing(mut self) -> Self {
        self.renew = Renewal::Automatic;
        self
    }

    /// Ends renewal, and the hold, after this long.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.max_hold = Some(max);
        self
    }

    /// Keeps names out of reach for this long after a lease that ran out.
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.lock_delay = delay;
        self
    }

    /// Sets how often expired records are swept; every five minutes by default, `None` for never.
    pub fn sweep_every(mut self, interval: Option<Duration>) -> Self {
        self.sweep_every = interval;
        self
    }

    /// Sets the clock deadlines are judged by.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the Tokio runtime the background task runs on; the current one by default. It needs its timers enabled.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Adds a function that is told what happens: acquired, released, renewed, at risk, lost, forced.
    pub fn on_event(mut self, hook: impl Fn(&LockEvent<'_>) + Send + Sync + 'static) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Records meters through the `metrics` façade and log lines through `tracing`.
    #[cfg(feature = "observe")]
    pub fn observed(mut self, warnings: super::Warnings) -> Self {
        self.observed = Some(warnings);
        self
    }

    /// Checks everything and starts the manager.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an option that breaks its rule; [`ErrorKind::Config`] if the namespace is
    /// missing or there is no Tokio runtime to run on.
    pub fn build(mut self) -> Result<Locks> {
        let namespace = self.checked_namespace()?;
        self.add_meters();
        check_sweep_interval(self.sweep_every)?;
        if let Some(max) = self.max_hold {
            check_max_hold(max)?;
        }
        let owner = self.owner.as_ref();
        let owner = owner.map_or_else(|| Ok(Owner::this_process()), Owner::new)?;
        let ttl = lock_ttl(self.ttl)?;
        let lock_delay_ms = lock_delay_millis(self.lock_delay)?;
        let runtime = runtime_or_current(self.runtime)?;
        let (keeper, idle) = Keeper::new();
        let shared = Arc::new(Shared::new(self.store, self.clock, self.hooks, keeper));
        keeper::start(idle, &shared, self.sweep_every, &runtime);
        let terms = Terms {
            shared,
            owner,
            ttl,
            mode: Mode::Exclusive,
            units: ONE_UNIT,
            limit: ONE_UNIT,
            renew: self.renew,
            max_hold: self.max_hold,
            lock_delay_ms,
            metadata: None,
            cancel: None,
            scope: None,
        };
        Ok(Locks::from_parts(namespace, terms))
    }

    #[cfg(feature = "observe")]
    fn add_meters(&mut self) {
        if let Some(warnings) = self.observed {
            let namespace = self.namespace.clone().unwrap_or_default();
            self.hooks.push(super::observe::hook(
                namespace,
                self.store.describe().scheme,
                warnings,
            ));
        }
    }

    #[cfg(not(feature = "observe"))]
    fn add_meters(&mut self) {}

    fn checked_namespace(&self) -> Result<Option<Arc<str>>> {
        match &self.namespace {
            Some(namespace) => {
                check_namespace(namespace)?;
                Ok(Some(namespace.as_str().into()))
            }
            None if self.any_namespace => Ok(None),
            None => Err(Error::new(
                ErrorKind::Config,
                "the namespace is missing; set namespace(..), or any_namespace() to choose one per call",
            )),
        }
    }
}

impl fmt::Debug for LocksBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocksBuilder")
            .field("store", &self.store.describe().scheme)
            .field("namespace", &self.namespace)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}
