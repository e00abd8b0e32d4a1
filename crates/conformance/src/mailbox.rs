//! An inbox that keeps what it was told, for cases about queues and watches.

use std::sync::{Arc, Mutex, PoisonError};

use leasehold_core::backend::{Event, Inbox, InboxId, Watch, What};
use leasehold_core::{Backend, Holder, Lease, Name};

use crate::scene::Scene;

/// An inbox with a memory.
#[derive(Debug, Clone)]
pub struct Mailbox {
    inbox: Inbox,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Default for Mailbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Mailbox {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&events);
        let inbox = Inbox::new(move |event| {
            sink.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(event);
        });
        Self { inbox, events }
    }

    /// Its address.
    #[must_use]
    pub fn id(&self) -> InboxId {
        self.inbox.id()
    }

    /// Arms the watch of this inbox.
    pub async fn arm(&self, scene: &Scene, name: Option<&Name>) -> Watch {
        self.arm_on(&**scene.backend(), name).await
    }

    /// Arms the watch of this inbox on this backend.
    pub async fn arm_on(&self, backend: &dyn Backend, name: Option<&Name>) -> Watch {
        backend
            .watch(&self.inbox, name)
            .await
            .expect("watch must be answered")
    }

    /// Everything told so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Forgets what was told.
    pub fn clear(&self) {
        self.events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Waits until this holder is told of a grant.
    pub async fn granted(&self, scene: &Scene, holder: &Holder) -> Lease {
        scene
            .eventually("the waiter is told of its grant", || {
                self.grants_of(holder).pop()
            })
            .await
    }

    /// The grants this holder was told of.
    #[must_use]
    pub fn grants_of(&self, holder: &Holder) -> Vec<Lease> {
        let is_mine = |event: Event| match event.what {
            What::Granted { holder: to, lease } if to == holder.digest() => Some(lease),
            _ => None,
        };
        self.events().into_iter().filter_map(is_mine).collect()
    }

    /// Waits until it is told that a name may have become free.
    pub async fn changed(&self, scene: &Scene, name: &Name) {
        let is_it = |event: &Event| event.what == What::Changed && event.name == *name;
        scene
            .eventually("the watcher is told of a change", || {
                self.events().iter().any(is_it).then_some(())
            })
            .await;
    }
}
