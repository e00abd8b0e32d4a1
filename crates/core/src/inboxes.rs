//! Who is to be told of what, inside one process. Any backend that delivers its own events can use it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;

use crate::backend::{Event, Inbox, InboxId, Watch};
use crate::name::{Name, NameHash};
use crate::sync::{Mutex, lock};
use crate::transition::{Events, Routed};

/// The inboxes of one store and the names they watch.
///
/// Delivering takes no lock as long as nobody could be concerned: a grant by hand-over needs a watched inbox,
/// and a hint needs somebody who watches a name.
#[derive(Debug, Default)]
pub struct Inboxes {
    /// Watches of any sort, and those of a name; written under the lock, read without it.
    watches: AtomicUsize,
    name_watches: AtomicUsize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    inboxes: HashMap<InboxId, Watched, NameHash>,
    names: HashMap<Name, SmallVec<[Watched; 1]>, NameHash>,
}

/// An inbox and how many watches it has here.
#[derive(Debug)]
struct Watched {
    inbox: Inbox,
    count: usize,
}

impl Inboxes {
    /// Tells `inbox` of grants to its tickets and, if a name is given, of changes of that name, until the watch
    /// is dropped.
    ///
    /// One inbox may watch the same thing several times; it is told once, until the last of these watches is gone.
    pub fn watch(self: &Arc<Self>, inbox: &Inbox, name: Option<&Name>) -> Watch {
        self.add(inbox, name);
        let (inboxes, id, name) = (self.clone(), inbox.id(), name.cloned());
        Watch::new(move || inboxes.remove(id, name.as_ref()))
    }

    /// Whether anybody watches a name.
    #[must_use]
    pub fn watches_names(&self) -> bool {
        self.name_watches.load(Ordering::Acquire) > 0
    }

    /// Delivers events: one with an address to that inbox, one without to everybody who watches its name.
    ///
    /// Call it after the change it tells of is visible in the store, and without holding the store's own locks.
    pub fn deliver(&self, events: Events) {
        if !events.iter().any(|event| self.may_concern_somebody(event)) {
            return;
        }
        // Inboxes are called without the lock: they may drop or arm watches.
        for (inbox, event) in self.route(events) {
            inbox.deliver(event);
        }
    }

    fn may_concern_somebody(&self, event: &Routed) -> bool {
        let watches = match event.to {
            Some(_) => &self.watches,
            None => &self.name_watches,
        };
        watches.load(Ordering::SeqCst) > 0
    }

    fn route(&self, events: Events) -> SmallVec<[(Inbox, Event); 1]> {
        let table = lock(&self.table);
        let mut routed = SmallVec::new();
        for Routed { to, event } in events {
            match to {
                Some(id) => {
                    if let Some(watched) = table.inboxes.get(&id) {
                        routed.push((watched.inbox.clone(), event));
                    }
                }
                None => {
                    for watched in table.names.get(&event.name).into_iter().flatten() {
                        routed.push((watched.inbox.clone(), event.clone()));
                    }
                }
            }
        }
        routed
    }

    fn add(&self, inbox: &Inbox, name: Option<&Name>) {
        let mut table = lock(&self.table);
        self.watches.fetch_add(1, Ordering::SeqCst);
        table
            .inboxes
            .entry(inbox.id())
            .or_insert_with(|| Watched::new(inbox))
            .count += 1;
        let Some(name) = name else { return };
        self.name_watches.fetch_add(1, Ordering::SeqCst);
        let watchers = table.names.entry(name.clone()).or_default();
        match watchers.iter_mut().find(|w| w.inbox.id() == inbox.id()) {
            Some(watched) => watched.count += 1,
            None => watchers.push(Watched {
                count: 1,
                ..Watched::new(inbox)
            }),
        }
    }

    fn remove(&self, id: InboxId, name: Option<&Name>) {
        let mut table = lock(&self.table);
        self.watches.fetch_sub(1, Ordering::SeqCst);
        if let Some(watched) = table.inboxes.get_mut(&id) {
            watched.count -= 1;
            if watched.count == 0 {
                table.inboxes.remove(&id);
            }
        }
        let Some(name) = name else { return };
        self.name_watches.fetch_sub(1, Ordering::SeqCst);
        if let Some(watchers) = table.names.get_mut(name) {
            watchers.retain(|watched| {
                watched.count -= usize::from(watched.inbox.id() == id);
                watched.count > 0
            });
            if watchers.is_empty() {
                table.names.remove(name);
            }
        }
    }
}

impl Watched {
    fn new(inbox: &Inbox) -> Self {
        Self {
            inbox: inbox.clone(),
            count: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::What;

    fn name(key: &str) -> Name {
        Name::new("n", key).unwrap()
    }

    fn inbox() -> (Inbox, Arc<Mutex<Vec<Name>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        (Inbox::new(move |event| lock(&sink).push(event.name)), seen)
    }

    fn event(to: Option<InboxId>, key: &str) -> Events {
        Events::from_iter([Routed {
            to,
            event: Event {
                name: name(key),
                what: What::Changed,
            },
        }])
    }

    #[test]
    fn an_addressed_event_reaches_only_its_inbox() {
        let inboxes = Arc::new(Inboxes::default());
        let ((a, a_seen), (b, b_seen)) = (inbox(), inbox());
        let _watches = (inboxes.watch(&a, None), inboxes.watch(&b, Some(&name("k"))));
        inboxes.deliver(event(Some(a.id()), "k"));
        assert_eq!((lock(&a_seen).len(), lock(&b_seen).len()), (1, 0));
        inboxes.deliver(event(Some(InboxId::random()), "k"));
        assert_eq!((lock(&a_seen).len(), lock(&b_seen).len()), (1, 0));
    }

    #[test]
    fn a_hint_reaches_everybody_who_watches_the_name_once() {
        let inboxes = Arc::new(Inboxes::default());
        let ((a, a_seen), (b, b_seen)) = (inbox(), inbox());
        let k = name("k");
        let _watches = [&a, &a, &b].map(|i| inboxes.watch(i, Some(&k)));
        inboxes.deliver(event(None, "k"));
        inboxes.deliver(event(None, "other"));
        assert_eq!((lock(&a_seen).len(), lock(&b_seen).len()), (1, 1));
    }

    #[test]
    fn watches_are_counted_and_leave_nothing_behind() {
        let inboxes = Arc::new(Inboxes::default());
        let (a, seen) = inbox();
        let k = name("k");
        let (first, second) = (inboxes.watch(&a, Some(&k)), inboxes.watch(&a, Some(&k)));
        drop(first);
        inboxes.deliver(event(None, "k"));
        inboxes.deliver(event(Some(a.id()), "k"));
        assert_eq!(lock(&seen).len(), 2);
        drop(second);
        inboxes.deliver(event(None, "k"));
        inboxes.deliver(event(Some(a.id()), "k"));
        assert_eq!(lock(&seen).len(), 2);
        let table = lock(&inboxes.table);
        assert!(table.inboxes.is_empty() && table.names.is_empty());
        assert_eq!(inboxes.watches.load(Ordering::SeqCst), 0);
        assert_eq!(inboxes.name_watches.load(Ordering::SeqCst), 0);
    }

    /// An inbox may drop its watch while it is told of something.
    #[test]
    fn an_inbox_may_end_its_watch_while_it_is_called() {
        let inboxes = Arc::new(Inboxes::default());
        let held: Arc<Mutex<Option<Watch>>> = Arc::default();
        let slot = held.clone();
        let inbox = Inbox::new(move |_| drop(lock(&slot).take()));
        *lock(&held) = Some(inboxes.watch(&inbox, Some(&name("k"))));
        inboxes.deliver(event(None, "k"));
        assert!(lock(&inboxes.table).names.is_empty());
    }
}
