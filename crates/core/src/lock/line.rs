//! The local line: waiters of one name in one process stand here, and only the first of them talks to the store.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use smallvec::SmallVec;

use crate::backend::{Event, What};
use crate::clock::Moment;
use crate::holder::HolderDigest;
use crate::lease::Lease;
use crate::name::{Name, NameHash};
use crate::seeded::{Bug, planted};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

const SHARDS: usize = 16;

/// All local waiters of a manager.
#[derive(Default)]
pub(super) struct Line {
    shards: [Mutex<HashMap<Name, Queue, NameHash>>; SHARDS],
    /// How many waiters there are; read without a lock on the way of those who need not wait.
    waiters: AtomicUsize,
    /// Nobody need wait any longer.
    closed: AtomicBool,
}

/// The waiters of one name. The active ones have asked the store; as a rule there is one.
#[derive(Default)]
struct Queue {
    active: SmallVec<[Arc<Slot>; 1]>,
    pending: VecDeque<Arc<Slot>>,
    /// Waiters for several names that watch this one because it is in their way.
    onlookers: Vec<Arc<Slot>>,
}

impl Queue {
    /// Those who ask the store, or would if they were told to.
    fn askers(&self) -> Vec<Arc<Slot>> {
        self.active.iter().chain(&self.onlookers).cloned().collect()
    }

    fn everybody(&self) -> Vec<Arc<Slot>> {
        self.active
            .iter()
            .chain(&self.onlookers)
            .chain(&self.pending)
            .cloned()
            .collect()
    }

    /// Makes the first of those who stand in line an active one; the waker is to be called without the lock.
    fn move_up(&mut self, unnoticed: bool) -> Option<Waker> {
        let next = self.pending.pop_front()?;
        let waker = if unnoticed {
            None
        } else {
            next.note(|state| state.turn = true)
        };
        self.active.push(next);
        waker
    }

    fn is_empty(&self) -> bool {
        self.active.is_empty() && self.pending.is_empty() && self.onlookers.is_empty()
    }
}

struct Slot {
    holder: HolderDigest,
    /// When the keeper is to tell this waiter to ask again, as nanoseconds of a [`Moment`].
    recheck: AtomicU64,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    turn: bool,
    hinted: bool,
    granted: Option<Lease>,
    waker: Option<Waker>,
}

/// What a waiter was told.
#[derive(Debug)]
pub(super) enum Signal {
    /// The store granted its ticket.
    Granted(Lease),
    /// Something changed; ask again.
    Hint,
}

impl Line {
    /// How many wait.
    pub(super) fn waiters(&self) -> usize {
        self.waiters.load(Ordering::Relaxed)
    }

    /// Whether somebody waits for this name.
    pub(super) fn is_waited_for(&self, name: &Name) -> bool {
        self.waiters() > 0 && lock(self.shard(name)).contains_key(name)
    }

    /// Stands in line for a name.
    pub(super) fn join(&self, name: &Name, holder: HolderDigest) -> Place<'_> {
        let slot = Slot::new(holder, SlotState::default());
        let mut shard = lock(self.shard(name));
        let queue = shard.entry(name.clone()).or_default();
        if queue.active.is_empty() {
            lock(&slot.state).turn = true;
            queue.active.push(slot.clone());
        } else {
            queue.pending.push_back(slot.clone());
        }
        // Counted once it stands there: who sees the count and comes afterwards stands behind. Nothing told before that is
        // missed, because it has not asked the store yet.
        self.waiters.fetch_add(1, Ordering::Relaxed);
        Place {
            line: self,
            name: Some(name.clone()),
            looking_at: None,
            slot,
            served: false,
        }
    }

    /// Waits beside the line: for those who want several names and would only hold up others in it.
    pub(super) fn stand_aside(&self, holder: HolderDigest) -> Place<'_> {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let state = SlotState {
            turn: true,
            ..SlotState::default()
        };
        let slot = Slot::new(holder, state);
        Place {
            line: self,
            name: None,
            looking_at: None,
            slot,
            served: false,
        }
    }

    /// Takes an event of the store to those it concerns.
    pub(super) fn deliver(&self, event: Event) {
        match event.what {
            What::Granted { holder, lease } => self.granted(&event.name, holder, lease),
            What::Changed => self.hint(&event.name),
        }
    }

    fn granted(&self, name: &Name, holder: HolderDigest, lease: Lease) {
        let waker = {
            let shard = lock(self.shard(name));
            let Some(queue) = shard.get(name) else { return };
            let slot = queue.active.iter().find(|slot| slot.holder == holder);
            // A grant for a waiter that has left is given back by the withdrawal it left behind.
            slot.and_then(|slot| slot.note(|state| state.granted = Some(lease)))
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Tells the active waiters of a name to ask again.
    pub(super) fn hint(&self, name: &Name) {
        if self.waiters() == 0 {
            return;
        }
        let concerned = lock(self.shard(name)).get(name).map(Queue::askers);
        for slot in concerned.into_iter().flatten() {
            slot.tell(|state| state.hinted = true);
        }
    }

    /// Tells everybody that there is no point in waiting.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for slot in self.slots(Queue::everybody) {
            slot.tell(|_| {});
        }
    }

    /// Tells those to ask again who want to be told by `now`, and says when the next ones do.
    pub(super) fn remind(&self, now: Moment) -> Moment {
        let mut next = Moment::FAR_FUTURE;
        for slot in self.slots(Queue::askers) {
            let at = Moment::from_nanos(slot.recheck.load(Ordering::Acquire));
            if at > now {
                next = next.min(at);
            } else {
                slot.recheck.store(u64::MAX, Ordering::Release);
                slot.tell(|state| state.hinted = true);
            }
        }
        next
    }

    /// Those of every queue whom `which` picks.
    fn slots(&self, which: fn(&Queue) -> Vec<Arc<Slot>>) -> Vec<Arc<Slot>> {
        if self.waiters() == 0 {
            return Vec::new();
        }
        let of_shard = |shard: &Mutex<HashMap<Name, Queue, NameHash>>| {
            lock(shard).values().flat_map(which).collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of_shard).collect()
    }

    fn leave(&self, place: &Place<'_>) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        self.look_away(place);
        let Some(name) = &place.name else { return };
        let waker = {
            let mut shard = lock(self.shard(name));
            let Some(queue) = shard.get_mut(name) else {
                return;
            };
            // Whoever was served stood in front; only those who give up have to be looked for.
            match queue
                .active
                .iter()
                .position(|slot| Arc::ptr_eq(slot, &place.slot))
            {
                Some(at) => drop(queue.active.remove(at)),
                None => queue.pending.retain(|slot| !Arc::ptr_eq(slot, &place.slot)),
            }
            let waker = if queue.active.is_empty() {
                queue.move_up(planted(Bug::WakeUpLost) && !place.served)
            } else {
                None
            };
            if queue.is_empty() {
                shard.remove(name);
            }
            waker
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn look_at(&self, name: &Name, slot: &Arc<Slot>) {
        lock(self.shard(name))
            .entry(name.clone())
            .or_default()
            .onlookers
            .push(slot.clone());
    }

    fn look_away(&self, place: &Place<'_>) {
        let Some(name) = &place.looking_at else {
            return;
        };
        let mut shard = lock(self.shard(name));
        if let Some(queue) = shard.get_mut(name) {
            queue
                .onlookers
                .retain(|slot| !Arc::ptr_eq(slot, &place.slot));
            if queue.is_empty() {
                shard.remove(name);
            }
        }
    }

    fn shard(&self, name: &Name) -> &Mutex<HashMap<Name, Queue, NameHash>> {
        &self.shards[(name.process_hash() >> 24) as usize % SHARDS]
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("waiters", &self.waiters())
            .finish()
    }
}

impl Slot {
    fn new(holder: HolderDigest, state: SlotState) -> Arc<Self> {
        Arc::new(Self {
            holder,
            recheck: AtomicU64::new(u64::MAX),
            state: Mutex::new(state),
        })
    }

    /// Notes something for the waiter; whoever does so calls the waker, without holding a lock.
    fn note(&self, change: impl FnOnce(&mut SlotState)) -> Option<Waker> {
        let mut state = lock(&self.state);
        change(&mut state);
        state.waker.take()
    }

    fn tell(&self, change: impl FnOnce(&mut SlotState)) {
        self.note(change).into_iter().for_each(Waker::wake);
    }
}

/// A place in the line. Dropping it leaves the line and lets the next one move up.
pub(super) struct Place<'a> {
    line: &'a Line,
    /// What it stands in line for; nothing if it stands aside.
    name: Option<Name>,
    looking_at: Option<Name>,
    slot: Arc<Slot>,
    served: bool,
}

impl Place<'_> {
    /// Waits until it is this waiter's turn to ask the store, or the line is closed. Cancel-safe.
    pub(super) async fn turn(&self) {
        self.poll(|state| (state.turn || self.is_closed()).then_some(()))
            .await;
    }

    /// Waits until there is something to act on, or the line is closed. Cancel-safe: what was told is not lost.
    pub(super) async fn signal(&self) -> Signal {
        self.poll(|state| {
            state
                .take_signal()
                .or_else(|| self.is_closed().then_some(Signal::Hint))
        })
        .await
    }

    fn is_closed(&self) -> bool {
        self.line.closed.load(Ordering::SeqCst)
    }

    /// Asks to be told at this moment at the latest. `false` if nobody would: the waiter stands nowhere.
    pub(super) fn remind_at(&self, at: Moment) -> bool {
        self.slot.recheck.store(at.as_nanos(), Ordering::Release);
        self.name.is_some() || self.looking_at.is_some()
    }

    /// Whether hints about this name reach the waiter.
    pub(super) fn sees(&self, name: &Name) -> bool {
        self.name.as_ref() == Some(name) || self.looking_at.as_ref() == Some(name)
    }

    /// Makes hints about this name reach the waiter, instead of those about the name it looked at before.
    pub(super) fn look_at(&mut self, name: &Name) {
        if !self.sees(name) {
            self.line.look_away(self);
            self.line.look_at(name, &self.slot);
            self.looking_at = Some(name.clone());
        }
    }

    /// Marks the waiter as served, for the books.
    pub(super) fn served(mut self) {
        self.served = true;
    }

    async fn poll<T>(&self, ready: impl Fn(&mut SlotState) -> Option<T>) -> T {
        poll_fn(|cx| {
            let mut state = lock(&self.slot.state);
            match ready(&mut state) {
                Some(value) => Poll::Ready(value),
                None => {
                    state.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl SlotState {
    fn take_signal(&mut self) -> Option<Signal> {
        let hinted = std::mem::take(&mut self.hinted);
        match self.granted.take() {
            Some(lease) => Some(Signal::Granted(lease)),
            None => hinted.then_some(Signal::Hint),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.line.leave(self);
    }
}

#[cfg(all(test, shuttle))]
#[path = "line_shuttle.rs"]
mod shuttle_tests;
