//! Hints from many stores, made into one.

use std::sync::Arc;

use super::fan::Call;
use super::lane::{LONGEST, in_background};
use super::{Fan, Quorum, count, failure};
use crate::backend::{Backend, Event, Inbox, Watch, What};
use crate::error::{Effect, Result};
use crate::name::Name;
use crate::sync::{Mutex, lock};

/// Counts which stores have told of a change, and passes it on once a majority has.
///
/// A single store also tells of every vain attempt of somebody else, who took it there and gave it back. Whoever was
/// woken by that would try as vainly, and wake the next.
#[derive(Debug)]
struct Hints {
    inbox: Inbox,
    enough: usize,
    told: Mutex<u64>,
}

impl Hints {
    fn told_by(&self, store: usize, event: Event) {
        if event.what != What::Changed {
            return;
        }
        let enough = {
            let mut told = lock(&self.told);
            *told |= 1 << store;
            let enough = told.count_ones() as usize >= self.enough;
            if enough {
                *told = 0;
            }
            enough
        };
        if enough {
            self.inbox.deliver(event);
        }
    }
}

/// The watches of one caller; `None` once it has lost interest.
type Watches = Arc<Mutex<Option<Vec<Watch>>>>;

impl Quorum {
    /// Watches all stores. Those that are slow join later, and those that fail tell nothing.
    pub(super) async fn watch_all(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        let enough = self.majority();
        let hints = Arc::new(Hints {
            inbox: inbox.clone(),
            enough,
            told: Mutex::new(0),
        });
        let arm = |at: usize, store: Arc<dyn Backend>| -> Call<Watch> {
            let (id, hints, name) = (inbox.id(), Arc::clone(&hints), name.cloned());
            Box::pin(async move {
                let inbox = Inbox::with_id(id, move |event| hints.told_by(at, event));
                store.watch(&inbox, name.as_ref()).await
            })
        };
        let (answers, rest) = self
            .ask(arm, |answers| count(answers, Result::is_ok) >= enough)
            .await;
        if count(&answers, Result::is_ok) < enough {
            return Err(failure(&answers, enough, Effect::None));
        }
        let armed = answers.into_iter().flatten().flatten().collect();
        let watches: Watches = Arc::new(Mutex::new(Some(armed)));
        self.join_later(rest, &watches);
        // Taken out first: the end of a watch must not run under the lock.
        Ok(Watch::new(move || {
            let ended = lock(&watches).take();
            drop(ended);
        }))
    }

    fn join_later(&self, mut rest: Fan<Watch>, watches: &Watches) {
        if rest.is_empty() {
            return;
        }
        let watches = Arc::downgrade(watches);
        in_background(&self.clock, LONGEST, async move {
            while !rest.is_empty() {
                let armed = rest.answers().await.into_iter().filter_map(|(_, a)| a.ok());
                let Some(watches) = watches.upgrade() else {
                    return;
                };
                if let Some(watches) = &mut *lock(&watches) {
                    watches.extend(armed);
                }
            }
        });
    }
}
