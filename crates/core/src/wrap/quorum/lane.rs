//! The order of calls, and those that go on after the answer.
//!
//! **Invariant:** what is asked of one store about one holder of a name, but for renewals, reaches it in the order in
//! which it was asked here. A withdrawal that a slow store carries out late would otherwise end what its holder was
//! granted since, and a release that overtakes its acquire would find nothing to end.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::fan::Call;
use crate::clock::Clock;
use crate::error::{Effect, Result};
use crate::holder::{Holder, HolderDigest};
use crate::name::Name;
use crate::sync::{Mutex, lock};

/// How long something is tried again after nobody waits for it any more.
pub(super) const LONGEST: Duration = Duration::from_secs(60);
/// The wait before a failed call is made again.
const RETRY: Duration = Duration::from_millis(100);

type Key = (Name, HolderDigest);
/// One for each store, taken by whoever's turn it is there.
type Turns = Arc<[Arc<AsyncMutex<()>>]>;

/// The holders about whom something is under way.
#[derive(Debug)]
pub(super) struct Lanes {
    stores: usize,
    table: Mutex<HashMap<Key, Turns>>,
}

impl Lanes {
    pub(super) fn new(stores: usize) -> Self {
        Self {
            stores,
            table: Mutex::default(),
        }
    }

    pub(super) fn of(self: &Arc<Self>, name: &Name, holder: &Holder) -> Lane {
        let key = (name.clone(), holder.digest());
        let mut table = lock(&self.table);
        let turns = table
            .entry(key.clone())
            .or_insert_with(|| (0..self.stores).map(|_| Arc::default()).collect());
        Lane {
            turns: Some(Arc::clone(turns)),
            lanes: Arc::clone(self),
            key,
        }
    }

    /// The lanes of several names, in an order in which nobody waits in a circle.
    pub(super) fn of_all(self: &Arc<Self>, names: &[&Name], holder: &Holder) -> Vec<Lane> {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        names.iter().map(|name| self.of(name, holder)).collect()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        lock(&self.table).len()
    }
}

/// The order of calls about one holder of a name. It is forgotten with the last copy.
pub(super) struct Lane {
    /// Always there; taken out only to be dropped under the lock of the table.
    turns: Option<Turns>,
    lanes: Arc<Lanes>,
    key: Key,
}

impl Lane {
    /// The next turn at a store. One stands in line from the first time this is polled.
    pub(super) async fn turn(self, store: usize) -> Turn {
        let turn = match self.turns.as_ref().and_then(|turns| turns.get(store)) {
            Some(turn) => Some(take(Arc::clone(turn)).await),
            None => None,
        };
        Turn {
            _turn: turn,
            _lane: self,
        }
    }
}

/// Whoever is alone gets it at once, and is not made to wait for the sake of other tasks.
async fn take(turn: Arc<AsyncMutex<()>>) -> OwnedMutexGuard<()> {
    match Arc::clone(&turn).try_lock_owned() {
        Ok(taken) => taken,
        Err(_) => turn.lock_owned().await,
    }
}

impl Clone for Lane {
    fn clone(&self) -> Self {
        Self {
            turns: self.turns.clone(),
            lanes: Arc::clone(&self.lanes),
            key: self.key.clone(),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut table = lock(&self.lanes.table);
        drop(self.turns.take());
        let is_unused = |turns: &Turns| Arc::strong_count(turns) == 1;
        if table.get(&self.key).is_some_and(is_unused) {
            table.remove(&self.key);
        }
    }
}

/// A turn at one store. Dropping it lets the next one go.
pub(super) struct Turn {
    _turn: Option<OwnedMutexGuard<()>>,
    _lane: Lane,
}

/// Lets something come to its end, but no longer than this. Without a runtime it is dropped.
pub(super) fn in_background(
    clock: &Arc<dyn Clock>,
    limit: Duration,
    work: impl Future<Output = ()> + Send + 'static,
) {
    let over = clock.sleep_until(clock.now().after(limit));
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(async move {
            tokio::select! {
                biased;
                () = work => {}
                () = over => {}
            }
        });
    }
}

/// Makes a call when it is its turn, and gives the first answer. If the store could not do it, the call keeps its turn
/// and is made again in the background.
pub(super) async fn insist<T: Send + 'static>(
    clock: Arc<dyn Clock>,
    lanes: Vec<Lane>,
    store: usize,
    call: impl Fn() -> Call<T> + Send + Sync + 'static,
) -> Result<T> {
    let mut turns = Vec::with_capacity(lanes.len());
    for lane in lanes {
        turns.push(lane.turn(store).await);
    }
    let answer = call().await;
    if is_undone(&answer) {
        let time = Arc::clone(&clock);
        in_background(&clock, LONGEST, async move {
            loop {
                time.sleep_until(time.now().after(RETRY)).await;
                if !is_undone(&call().await) {
                    break;
                }
            }
            drop(turns);
        });
    }
    answer
}

fn is_undone<T>(answer: &Result<T>) -> bool {
    matches!(answer, Err(error) if error.is_retryable() || error.effect() == Effect::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_come_in_order_and_lanes_leave_nothing_behind() {
        let lanes = Arc::new(Lanes::new(3));
        let (name, holder) = (Name::new("n", "k").unwrap(), Holder::random());
        let first = lanes.of(&name, &holder).turn(1).await;
        let mut second = Box::pin(lanes.of(&name, &holder).turn(1));
        let elsewhere = lanes.of(&name, &holder).turn(2);
        let stranger = lanes.of(&name, &Holder::random()).turn(1);
        tokio::select! {
            biased;
            _ = &mut second => panic!("it was not its turn"),
            _ = async { (elsewhere.await, stranger.await) } => {}
        }
        drop(first);
        drop(second.await);
        assert_eq!(lanes.len(), 0);
    }
}
