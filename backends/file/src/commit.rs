//! The committer: a thread that brings what was written to the disk.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold_core::inboxes::Inboxes;
use leasehold_core::{Effect, Error, ErrorKind, Result};
use redb::{Database, Durability, WriteTransaction};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::clock::StoreClock;
use crate::config::{Options, Sync};
use crate::desk::{Desk, Work};
use crate::engine::begin;
use crate::error::{Trouble, guarded};
use crate::tables::{self, Meta};

/// Tokens that may have been given without being written down, beyond those that time accounts for.
const UNWRITTEN_TOKENS: u64 = 1_000_000;

/// Opens the file that is there already.
pub(crate) type Open = Box<dyn Fn() -> Result<Database> + Send + std::marker::Sync>;

/// What the store and its committer share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) open: Open,
    pub(crate) clock: StoreClock,
    pub(crate) inboxes: Arc<Inboxes>,
    pub(crate) desk: Arc<Mutex<Desk>>,
    /// Nothing only while it is being opened again, or if that failed.
    pub(crate) database: RwLock<Option<Database>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("options", &self.options)
            .field("desk", &self.desk)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Runs something on the open database.
    pub(crate) fn on_database<T>(
        &self,
        call: impl FnOnce(&Database) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        match &*database {
            Some(database) => guarded(|| call(database)),
            None => Err(redb::Error::DatabaseClosed.into()),
        }
    }

    /// Commits what was written, tells those who wait, and starts anew.
    pub(crate) fn commit(&self, mut desk: OwnedMutexGuard<Desk>) {
        let Some(work) = desk.take() else { return };
        let Work {
            txn,
            waiting,
            events,
        } = work;
        let meta = self.meta(&desk);
        let committed = guarded(|| write(txn, &meta));
        let next = committed.map(|()| self.on_database(begin));
        let answer = match next {
            Ok(Ok(txn)) => {
                desk.reopen(txn);
                Ok(())
            }
            // It is on the disk, but that was the last.
            Ok(Err(trouble)) => {
                self.fail(&mut desk, trouble);
                Ok(())
            }
            Err(trouble) => Err(self.fail(&mut desk, trouble).with_effect(Effect::Unknown)),
        };
        drop(desk);
        for waiter in waiting {
            // Whoever has gone away need not be told.
            let _ = waiter.send(answer.as_ref().map_err(Error::copy).copied());
        }
        if answer.is_ok() {
            self.inboxes.deliver(events);
        }
    }

    fn meta(&self, desk: &Desk) -> Meta {
        let reading = self.clock.reading();
        let unwritten = match self.options.sync {
            Sync::Always => 0,
            // Whatever is given until the next commit is lost with the process; none of it may come back.
            Sync::Every(pause) => {
                let pause = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
                reading.micros.saturating_sub(desk.next_token) + 2 * pause + UNWRITTEN_TOKENS
            }
        };
        Meta {
            next_token: desk.next_token.saturating_add(unwritten),
            reading,
        }
    }

    /// Stops all work over a trouble, and says how it is told.
    pub(crate) fn fail(&self, desk: &mut Desk, trouble: Trouble) -> Error {
        let panicked = matches!(trouble, Trouble::Panicked(_));
        if panicked {
            // Not even dropping it is safe any more.
            let mut database = self
                .database
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(database.take());
        }
        let cause = trouble.explain(&self.options.path);
        let kind = match cause.kind() {
            ErrorKind::Corrupt => ErrorKind::Corrupt,
            _ => ErrorKind::Unavailable,
        };
        let detail = format!(
            "{}; nothing is granted or released until the store is told to recover, or is opened again",
            cause.detail()
        );
        let why = Error::new(kind, detail);
        desk.fail(&why, panicked);
        why
    }
}

fn write(mut txn: WriteTransaction, meta: &Meta) -> Result<(), Trouble> {
    tables::write_meta(&txn, meta)?;
    txn.set_durability(Durability::Immediate)?;
    Ok(txn.commit()?)
}

/// The thread, and the bell that calls it.
#[derive(Debug)]
pub(crate) struct Committer {
    bell: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    pub(crate) fn start(shared: Arc<Shared>) -> Result<Self> {
        let (bell, calls) = sync_channel(1);
        let run = move || run(&shared, &calls);
        let thread = std::thread::Builder::new().name("leasehold-file".to_owned());
        let thread = thread.spawn(run).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the system gives no thread").with_source(error)
        })?;
        Ok(Self {
            bell: Some(bell),
            thread: Some(thread),
        })
    }

    /// Has what was written committed.
    pub(crate) fn call(&self) {
        if let Some(bell) = &self.bell {
            match bell.try_send(()) {
                // Called already: what was written before that call is answered is part of it.
                Ok(()) | Err(TrySendError::Full(())) => {}
                // It is gone only if it panicked; the next one to wait is told.
                Err(TrySendError::Disconnected(())) => {}
            }
        }
    }
}

impl Drop for Committer {
    /// Waits until everything is on the disk and the file is closed, so that it can be opened again at once.
    fn drop(&mut self) {
        self.bell = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Arc<Shared>, calls: &Receiver<()>) {
    while calls.recv().is_ok() {
        if let Sync::Every(pause) = shared.options.sync {
            rest(calls, pause);
        }
        shared.commit(shared.desk.clone().blocking_lock_owned());
    }
    close(shared);
}

/// Lets more work come together, unless the store is being closed.
fn rest(calls: &Receiver<()>, pause: Duration) {
    #[allow(
        clippy::disallowed_methods,
        reason = "the disk follows real time, whatever clock the leases go by"
    )]
    let end = std::time::Instant::now() + pause;
    loop {
        #[allow(clippy::disallowed_methods, reason = "as above")]
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return;
        }
        match calls.recv_timeout(left) {
            Ok(()) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => return,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Commits the rest and closes the file.
fn close(shared: &Arc<Shared>) {
    let mut desk = shared.desk.clone().blocking_lock_owned();
    desk.touch();
    shared.commit(desk);
    let mut desk = shared.desk.clone().blocking_lock_owned();
    let closed = Error::new(ErrorKind::Closed, "the store was closed");
    desk.fail(&closed, false);
    let mut database = shared
        .database
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    drop(database.take());
}
