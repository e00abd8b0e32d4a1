//! What everything made by one manager shares.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::event::ReservationEvent;
use super::key::Key;
use super::normalise::Normalise;
use crate::backend::{Backend, Names};
use crate::background::{Withdrawal, give_back};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::guarantees::{AtomicNames, Capabilities};
use crate::holder::{Holder, Owner};
use crate::lease::Ttl;
use crate::name::Name;

/// A function that is told what happens.
pub(super) type Hook = Arc<dyn Fn(&ReservationEvent<'_>) + Send + Sync>;

pub(super) struct Shared {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) namespace: Arc<str>,
    pub(super) owner: Owner,
    pub(super) ttl: Ttl,
    pub(super) batch: usize,
    pub(super) normalise: HashMap<String, Normalise>,
    pub(super) hooks: Vec<Hook>,
    pub(super) runtime: Handle,
    /// Cancelled when the manager is closed or gone: the sweeper stops.
    pub(super) closing: CancellationToken,
    /// What goes on in the background.
    pub(super) tasks: TaskTracker,
}

impl Shared {
    pub(super) fn scheme(&self) -> &'static str {
        self.backend.describe().scheme
    }

    pub(super) fn can(&self) -> &Capabilities {
        &self.backend.describe().capabilities
    }

    /// The key as values of its kind are spelled.
    pub(super) fn key(&self, kind: &str, value: &str) -> Result<Key> {
        match self.normalise.get(kind) {
            Some(normalise) => Key::to_reserve(kind, &normalise.apply(value)),
            None => Key::to_reserve(kind, value),
        }
    }

    pub(super) fn name(&self, key: &Key) -> Result<Name> {
        Name::new(&self.namespace, key.as_str())
    }

    /// The key of a name of ours; `None` if it is none.
    pub(super) fn key_of(name: &Name) -> Option<Key> {
        Key::parse(name.key()).ok()
    }

    /// Refuses several names where the store cannot take them together.
    pub(super) fn check_together(&self, names: &Names) -> Result<()> {
        if names.single().is_some() || self.can().atomic_names == AtomicNames::All {
            return Ok(());
        }
        Err(self.unsupported("several reservations in one step"))
    }

    pub(super) fn check_quantities(&self) -> Result<()> {
        if self.can().quantities {
            return Ok(());
        }
        Err(self.unsupported("quantities"))
    }

    pub(super) fn check_list(&self) -> Result<()> {
        if self.can().list {
            return Ok(());
        }
        Err(self.unsupported("lists"))
    }

    fn unsupported(&self, what: &str) -> Error {
        Error::unsupported(format!("{} cannot do {what}", self.scheme()))
    }

    pub(super) fn refuse_if_closed(&self) -> Result<()> {
        if self.closing.is_cancelled() {
            return Err(Error::new(
                ErrorKind::Closed,
                "this manager was closed; make a new one to go on",
            ));
        }
        Ok(())
    }

    /// Gives back, in the background, whatever a request may have got. If the runtime is gone, it simply runs out.
    pub(super) fn give_back(&self, names: Names, holder: Holder, ttl: Ttl) {
        let withdrawal = Withdrawal {
            names,
            holder,
            until: self.clock.now().after(ttl.as_duration() * 2),
        };
        let task = give_back(self.backend.clone(), self.clock.clone(), withdrawal);
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// Tells the hooks. The event is not even made if there are none.
    pub(super) fn emit<'a>(&self, event: impl FnOnce() -> ReservationEvent<'a>) {
        if self.hooks.is_empty() {
            return;
        }
        let event = event();
        for hook in &self.hooks {
            // A hook that panics must not take what it is told about with it.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hook(&event)));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("backend", &self.scheme())
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}
