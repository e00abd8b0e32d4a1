//! Wake-ups: where a store tells a waiting process that something happened.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::holder::HolderDigest;
use crate::lease::Lease;
use crate::name::Name;

/// The address of an [`Inbox`], unique over all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxId(u128);

/// Half of it is enough to spread addresses, which are random.
impl Hash for InboxId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0 as u64);
    }
}

impl InboxId {
    /// A fresh address.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// The address with this value.
    #[must_use]
    pub const fn new(value: u128) -> Self {
        Self(value)
    }

    /// The address's value.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }
}

/// Something that happened to a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// To which name.
    pub name: Name,
    /// What.
    pub what: What,
}

/// What happened to a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The ticket of this holder became a grant. Its lease is only as long as the ticket was.
    Granted {
        /// Whose ticket.
        holder: HolderDigest,
        /// What it became.
        lease: Lease,
    },
    /// It may have become free, wholly or in part, or its free text has changed. A hint.
    Changed,
}

/// Where a process receives the events of one store. Thousands of waiters share one.
///
/// Cloning gives the same inbox.
#[derive(Clone)]
pub struct Inbox {
    id: InboxId,
    deliver: Arc<dyn Fn(Event) + Send + Sync>,
}

impl Inbox {
    /// An inbox with a fresh address. `deliver` must neither block nor call back into the store.
    pub fn new(deliver: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self::with_id(InboxId::random(), deliver)
    }

    /// An inbox with the address of another; for wrappers that change events on their way.
    pub fn with_id(id: InboxId, deliver: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self {
            id,
            deliver: Arc::new(deliver),
        }
    }

    /// The address.
    #[must_use]
    pub fn id(&self) -> InboxId {
        self.id
    }

    /// Called by a backend when something happened.
    pub fn deliver(&self, event: Event) {
        (self.deliver)(event);
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Inbox").field(&self.id).finish()
    }
}

/// An armed watch. It ends when this is dropped.
#[must_use = "the watch ends when this is dropped"]
pub struct Watch(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Watch {
    /// A watch that runs `end` when it is dropped.
    pub fn new(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(end)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch(..)")
    }
}
