//! Managers over the backend of a case, and time that goes on while somebody waits.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use leasehold_core::lock::MIN_LOCK_TTL;
use leasehold_core::{Clock as _, Guard, Lock, Locks, LocksBuilder, Name, Result, SystemClock};
use tokio::task::JoinHandle;

use super::Scene;

/// How long, in real time, something may take that time alone brings about.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often, in real time, virtual time moves while somebody waits, and by how much.
const TICK: Duration = Duration::from_millis(1);
const STEP: Duration = Duration::from_millis(10);

impl Scene {
    /// A manager in the namespace of this case, whose locks outlast the case.
    #[must_use]
    pub fn locks(&self) -> Locks {
        self.manager(|builder| builder)
    }

    /// A manager in the namespace of this case, on the clock of the harness, with other options.
    pub fn manager(&self, with: impl FnOnce(LocksBuilder) -> LocksBuilder) -> Locks {
        let builder = Locks::new(self.backend.clone())
            .namespace(self.namespace())
            .clock(self.harness.clock())
            .ttl(self.long().as_duration())
            .sweep_every(None);
        with(builder).build().expect("a case uses valid options")
    }

    /// The shortest ttl of a lock that a case may wait out.
    #[must_use]
    pub fn brief_lock(&self) -> Duration {
        self.brief().as_duration().max(MIN_LOCK_TTL)
    }

    /// Lets enough time pass for a lock of [`brief_lock`](Self::brief_lock) to run out.
    pub async fn outlive_brief_lock(&self) {
        let ttl = leasehold_core::Ttl::new(self.brief_lock()).expect("a case uses a valid ttl");
        self.outlive(ttl).await;
    }

    /// Waits for `future` while time passes, in small steps if it must be moved; fails after twenty seconds.
    pub async fn in_time<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let limit = SystemClock.now().after(PATIENCE);
        loop {
            let tick = SystemClock.now().after(TICK);
            tokio::select! {
                biased;
                value = &mut future => return value,
                () = SystemClock.sleep_until(tick) => {}
            }
            assert!(SystemClock.now() < limit, "not in time: {what}");
            if self.is_virtual() {
                self.pass(STEP).await;
            }
        }
    }

    /// Waits for a task as [`in_time`](Self::in_time) does, and passes on its panic.
    pub async fn joined<T>(&self, what: &str, task: JoinHandle<T>) -> T {
        match self.in_time(what, task).await {
            Ok(value) => value,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Waits until a lock can be had, and lets it go again.
    pub async fn until_free(&self, locks: &Locks, key: &str) {
        let lock = locks.lock(key);
        let guard = self.in_time("the lock is free", lock.acquire()).await;
        let guard = guard.expect("acquire must be answered");
        guard.release().await.expect("it was just acquired");
    }

    /// Somebody who waits for a lock as long as it takes, and is known to wait when this returns.
    pub async fn waiter(&self, locks: &Locks, lock: Lock) -> JoinHandle<Result<Guard>> {
        let before = locks.waiting();
        let task = tokio::spawn(async move { lock.acquire().await });
        self.eventually("the waiter waits", || {
            (locks.waiting() > before).then_some(())
        })
        .await;
        task
    }

    /// Waits, in real time, until this many stand in the queue of the store.
    pub async fn until_queued(&self, name: &Name, count: usize) {
        let limit = SystemClock.now().after(PATIENCE);
        loop {
            let record = self.get(name).await;
            if record.is_some_and(|record| record.tickets.len() == count) {
                return;
            }
            let now = SystemClock.now();
            assert!(now < limit, "{count} never stood in the queue");
            SystemClock.sleep_until(now.after(TICK)).await;
        }
    }
}
