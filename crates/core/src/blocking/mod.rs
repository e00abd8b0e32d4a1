//! Locks and reservations without async: the same verbs, no runtime in your code.
//!
//! Waits park the calling thread. The background work (renewal, releases after a drop) runs on one small runtime of
//! this library's own, started when first needed. Called from inside an async task, every verb answers with an error
//! instead of blocking the executor or panicking; `spawn_blocking` threads are fine.
//!
//! ```
//! use std::sync::Arc;
//! use leasehold_core::{Backend, Locks, memory::Memory};
//!
//! let store: Arc<dyn Backend> = Arc::new(Memory::new());
//! let orders = Locks::new(store).namespace("orders").build_blocking()?;
//! let receipt = orders.lock("12345").run(|held| format!("charged under token {}", held.token()))?;
//! # assert!(receipt.starts_with("charged"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod park;
mod reservations;

use std::ops::Deref;
use std::time::Duration;

pub use park::{block_on, runtime};
pub use reservations::{Claim, Reservation, Reservations, ReserveOutcome};

use crate::backend::{Holding, List, Page, Swept};
#[allow(unused_imports, reason = "for links in the docs")]
use crate::error::ErrorKind;
use crate::error::Result;
use crate::lock::{
    self, Answer, CancellationToken, Handover, Held, IdempotentError, RunError, Scope,
};
use crate::record::Record;

thread_local! {
    /// Who this thread is when it takes locks: by default, locks belong to threads and can be taken again.
    static THIS_THREAD: Scope = Scope::new();
}

fn this_thread() -> Scope {
    THIS_THREAD.with(Scope::clone)
}

/// Hands out locks of one store; the blocking form of [`lock::Locks`].
#[derive(Debug, Clone)]
pub struct Locks(lock::Locks);

impl From<lock::Locks> for Locks {
    fn from(locks: lock::Locks) -> Self {
        Self(locks)
    }
}

impl lock::LocksBuilder {
    /// Checks everything and starts a manager for code without async.
    ///
    /// # Errors
    /// As [`build`](Self::build); [`ErrorKind::Unavailable`] if the background thread cannot be started.
    pub fn build_blocking(self) -> Result<Locks> {
        self.runtime(runtime()?).build().map(Locks)
    }
}

impl Locks {
    /// The async form of the same manager.
    #[must_use]
    pub fn as_async(&self) -> &lock::Locks {
        &self.0
    }

    /// The same manager for another namespace; see [`lock::Locks::in_namespace`].
    ///
    /// # Errors
    /// If the namespace breaks the rules of [`Name`](crate::Name).
    pub fn in_namespace(&self, namespace: &str) -> Result<Self> {
        self.0.in_namespace(namespace).map(Self)
    }

    /// The lock of one key.
    pub fn lock(&self, key: impl AsRef<str>) -> Lock {
        Lock::of(self.0.lock(key))
    }

    /// One lock over several keys; see [`lock::Locks::all`].
    pub fn all<K: AsRef<str>>(&self, keys: impl IntoIterator<Item = K>) -> Lock {
        Lock::of(self.0.all(keys))
    }

    /// A counting semaphore; see [`lock::Locks::semaphore`]. Permits do not belong to threads: taking one again takes
    /// another.
    pub fn semaphore(&self, key: impl AsRef<str>, permits: u32) -> Lock {
        Lock {
            lock: self.0.semaphore(key, permits),
            scope: None,
        }
    }

    /// Does something once per key; see [`lock::Locks::idempotent`].
    ///
    /// # Errors
    /// See [`IdempotentError`].
    pub fn idempotent<E>(
        &self,
        key: impl AsRef<str>,
        keep: Duration,
        work: impl FnOnce(Held) -> Result<String, E>,
    ) -> Result<Answer, IdempotentError<E>> {
        let once = self.0.idempotent(key).keep_for(keep);
        block_on(once.run(|held| async { work(held) }))
            .map_err(|error| IdempotentError::Lock(error.into()))?
    }

    /// What the store knows about a key; see [`lock::Locks::get`].
    ///
    /// # Errors
    /// If the key is wrong, the store fails, or this is called inside an async task.
    pub fn get(&self, key: impl AsRef<str>) -> Result<Option<Record>> {
        block_on(self.0.get(key))?
    }

    /// Who holds a key right now; see [`lock::Locks::holder`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn holder(&self, key: impl AsRef<str>) -> Result<Option<Holding>> {
        block_on(self.0.holder(key))?
    }

    /// Whether anybody holds a key right now; see [`lock::Locks::is_locked`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn is_locked(&self, key: impl AsRef<str>) -> Result<bool> {
        block_on(self.0.is_locked(key))?
    }

    /// What is held, waited for or claimed; see [`lock::Locks::list`].
    ///
    /// # Errors
    /// If the store cannot list or fails, or this is called inside an async task.
    pub fn list(&self, request: List) -> Result<Page<Record>> {
        block_on(self.0.list(request))?
    }

    /// Ends whatever is held of a key; see [`lock::Locks::force_release`].
    ///
    /// # Errors
    /// If the key or the reason is wrong, the store fails, or this is called inside an async task.
    pub fn force_release(&self, key: impl AsRef<str>, reason: &str) -> Result<Vec<Holding>> {
        block_on(self.0.force_release(key, reason))?
    }

    /// Settles and forgets what has run out; see [`lock::Locks::sweep`].
    ///
    /// # Errors
    /// If the store fails, or this is called inside an async task.
    pub fn sweep(&self, limit: usize) -> Result<Swept> {
        block_on(self.0.sweep(limit))?
    }

    /// Goes on holding what another process handed over; see [`lock::Locks::adopt`].
    ///
    /// # Errors
    /// If the lease is over or was adopted, the store cannot or fails, or this is called inside an async task.
    pub fn adopt(&self, handover: &Handover) -> Result<Guard> {
        block_on(self.0.adopt(handover))?.map(Guard)
    }

    /// Stops taking locks and answers everybody who waits; see [`lock::Locks::close`].
    pub fn close(&self) {
        self.0.close();
    }

    /// Closes and releases everything held; see [`lock::Locks::shutdown`].
    ///
    /// # Errors
    /// If the store did not answer in time, or this is called inside an async task.
    pub fn shutdown(&self, within: Duration) -> Result<()> {
        block_on(self.0.shutdown(within))?
    }
}

/// A lock that can be taken; the blocking form of [`lock::Lock`].
///
/// By default it belongs to the thread that takes it: the same thread may take it again, through any handle, and
/// releases it as often.
#[derive(Debug, Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock {
    lock: lock::Lock,
    scope: Option<Holders>,
}

/// Who may take a lock again.
#[derive(Debug, Clone)]
enum Holders {
    Thread,
    Scope(Scope),
}

impl Lock {
    fn of(lock: lock::Lock) -> Self {
        Self {
            lock,
            scope: Some(Holders::Thread),
        }
    }

    fn with(self, change: impl FnOnce(lock::Lock) -> lock::Lock) -> Self {
        Self {
            lock: change(self.lock),
            scope: self.scope,
        }
    }

    /// Sets how long the lease lasts; see [`lock::Lock::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|lock| lock.ttl(ttl))
    }

    /// Keeps the lease alive in the background; see [`lock::Lock::renewing`].
    pub fn renewing(self) -> Self {
        self.with(lock::Lock::renewing)
    }

    /// Keeps the lease alive, renewing this often; see [`lock::Lock::renew_every`].
    pub fn renew_every(self, interval: Duration) -> Self {
        self.with(|lock| lock.renew_every(interval))
    }

    /// Ends renewal, and the hold, after this long; see [`lock::Lock::max_hold`].
    pub fn max_hold(self, max: Duration) -> Self {
        self.with(|lock| lock.max_hold(max))
    }

    /// Keeps the name out of reach after a lease that ran out; see [`lock::Lock::lock_delay`].
    pub fn lock_delay(self, delay: Duration) -> Self {
        self.with(|lock| lock.lock_delay(delay))
    }

    /// Takes the lock in shared (read) mode; see [`lock::Lock::shared`].
    pub fn shared(self) -> Self {
        self.with(lock::Lock::shared)
    }

    /// Takes this many units; see [`lock::Lock::units`].
    pub fn units(self, units: u32) -> Self {
        self.with(|lock| lock.units(units))
    }

    /// Keeps free text with the lock; see [`lock::Lock::metadata`].
    pub fn metadata(self, text: impl AsRef<str>) -> Self {
        self.with(|lock| lock.metadata(text))
    }

    /// Lets this token interrupt a wait.
    pub fn cancelled_by(self, token: CancellationToken) -> Self {
        self.with(|lock| lock.cancelled_by(token))
    }

    /// Acquires in this scope instead of the thread's; see [`lock::Lock::scope`].
    pub fn scope(mut self, scope: &Scope) -> Self {
        self.scope = Some(Holders::Scope(scope.clone()));
        self
    }

    /// Whether the calling thread holds the lock right now; no I/O.
    #[must_use]
    pub fn is_held_by_current_thread(&self) -> bool {
        self.lock.is_held_by(&this_thread())
    }

    fn scoped(&self) -> lock::Lock {
        match &self.scope {
            Some(Holders::Thread) => self.lock.clone().scope(&this_thread()),
            Some(Holders::Scope(scope)) => self.lock.clone().scope(scope),
            None => self.lock.clone(),
        }
    }

    /// Waits as long as it takes.
    ///
    /// # Errors
    /// If the options are wrong, the wait is cancelled, the manager is closed, the store fails, or this is called
    /// inside an async task.
    pub fn acquire(&self) -> Result<Guard> {
        block_on(self.scoped().acquire())?.map(Guard)
    }

    /// Waits for at most this long. A zero wait tries once.
    ///
    /// # Errors
    /// [`ErrorKind::NotAcquired`] if it stayed taken; otherwise as [`acquire`](Self::acquire).
    pub fn acquire_within(&self, wait: Duration) -> Result<Guard> {
        block_on(self.scoped().acquire_within(wait))?.map(Guard)
    }

    /// Takes the lock if it is free right now; `None` if it is not.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(block_on(self.scoped().try_acquire())??.map(Guard))
    }

    /// Waits for the lock, runs the body, and releases.
    ///
    /// A thread cannot be stopped from outside, so the body is asked: it gets a [`Held`] to check before every step that
    /// must not happen without the lock. If the lock was lost before the body was through, the answer is
    /// [`RunError::Lost`], whatever the body returned.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn run<T>(&self, body: impl FnOnce(Held) -> T) -> Result<T, RunError> {
        block_on(self.scoped().run(|held| async { body(held) }))?
    }

    /// As [`run`](Self::run), but waits for at most this long.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn run_within<T>(
        &self,
        wait: Duration,
        body: impl FnOnce(Held) -> T,
    ) -> Result<T, RunError> {
        block_on(self.scoped().run_within(wait, |held| async { body(held) }))?
    }

    /// As [`run`](Self::run), but only if the lock is free right now; `None` if it is not.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn try_run<T>(&self, body: impl FnOnce(Held) -> T) -> Result<Option<T>, RunError> {
        block_on(self.scoped().try_run(|held| async { body(held) }))?
    }
}

/// A lock that is yours until you release or drop it, or lose it; the blocking form of [`lock::Guard`].
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard(lock::Guard);

impl Guard {
    /// A view to give to others, for example to another thread.
    #[must_use]
    pub fn held(&self) -> Held {
        self.0.held()
    }

    /// Prolongs the lease to `ttl` from now; see [`lock::Guard::extend`].
    ///
    /// # Errors
    /// If the lease is over, the store fails, or this is called inside an async task.
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        block_on(self.0.extend(ttl))?
    }

    /// Releases the lock, strictly; see [`lock::Guard::release`].
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the lease had already ended; any other kind if the store failed or this is called inside
    /// an async task, in which case the background releases.
    pub fn release(self) -> Result<()> {
        block_on(self.0.release())?
    }

    /// Releases the lock and says whether it was still ours; see [`lock::Guard::release_if_held`].
    ///
    /// # Errors
    /// If the store failed or this is called inside an async task; the background releases.
    pub fn release_if_held(self) -> Result<bool> {
        block_on(self.0.release_if_held())?
    }

    /// Makes sure the lock is not ours any more; see [`lock::Guard::release_any`].
    ///
    /// # Errors
    /// If the store failed or this is called inside an async task; the background releases.
    pub fn release_any(self) -> Result<()> {
        block_on(self.0.release_any())?
    }

    /// Stops looking after the lock without releasing it; see [`lock::Guard::forget`].
    pub fn forget(self) {
        self.0.forget();
    }

    /// Gives the lock away; see [`lock::Guard::hand_over`].
    ///
    /// # Errors
    /// If the lease is over, or other guards share it.
    pub fn hand_over(self) -> Result<Handover> {
        self.0.hand_over()
    }
}

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.0
    }
}
