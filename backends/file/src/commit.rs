//! The committer: a thread that brings what has changed to the disk.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leasehold_core::inboxes::Inboxes;
use leasehold_core::{Effect, Error, ErrorKind, Name, Result};
use redb::{Database, Durability, ReadableDatabase as _};
use tokio::sync::{Mutex, MutexGuard, OwnedMutexGuard};

use crate::cache::Batch;
use crate::clock::{Reading, StoreClock, micros_of};
use crate::config::{Options, Sync};
use crate::crowd::Crowd;
use crate::desk::{Desk, Work};
use crate::engine::begin;
use crate::error::{Trouble, guarded};
use crate::meta::Meta;
use crate::tables::{self, Books, RECORDS};
use crate::value::Value;

/// If the disk follows later, so many tokens, or as many as there are microseconds in this time, may be given before the
/// next commit: none of them comes back if the process ends before it.
const UNWRITTEN: (u64, Duration) = (1_000_000, Duration::from_secs(3600));

/// Others are waited for so long before a commit, and no longer than half of what the last one took.
const PATIENCE: Duration = Duration::from_millis(5);

/// Opens the file that is there already.
pub(crate) type Open = Box<dyn Fn() -> Result<Database> + Send + std::marker::Sync>;

/// What the store and its committer share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) open: Open,
    pub(crate) clock: StoreClock,
    pub(crate) inboxes: Arc<Inboxes>,
    pub(crate) crowd: Arc<Crowd>,
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

/// The token below which none may be given after this is on the disk.
pub(crate) fn token_to_write(sync: Sync, next_token: u64, now: &Reading) -> u64 {
    match sync {
        Sync::Always => next_token,
        Sync::Every(_) => {
            let (tokens, time) = UNWRITTEN;
            let by_time = now.micros.saturating_add(micros_of(time));
            next_token.saturating_add(tokens).max(by_time)
        }
    }
}

impl Shared {
    /// Takes the desk, after those who came before.
    pub(crate) async fn desk(&self) -> OwnedMutexGuard<Desk> {
        self.desk.clone().lock_owned().await
    }

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

    /// What the disk has under these names.
    pub(crate) fn fetch(&self, names: &[&Name]) -> Result<Vec<Option<Value>>, Trouble> {
        self.on_database(|database| {
            let records = database.begin_read()?.open_table(RECORDS)?;
            names
                .iter()
                .map(|name| tables::read(&records, name))
                .collect()
        })
    }

    /// Brings what has changed to the disk, and tells those who wait. Only the committer may.
    fn commit(&self, mut desk: MutexGuard<'_, Desk>, is_last: bool) {
        let Some(work) = desk.take() else { return };
        let reading = self.clock.reading();
        let sync = if is_last {
            Sync::Always
        } else {
            self.options.sync
        };
        let meta = Meta {
            next_token: token_to_write(sync, desk.next_token, &reading),
            reading,
        };
        let life = desk.life();
        drop(desk);
        let Work {
            mut batch,
            mut waiting,
            events,
        } = work;
        let written = self.on_database(|database| write(database, &mut batch, &meta));
        let mut desk = self.desk.blocking_lock();
        let answer = match written {
            Ok(()) => {
                waiting.extend(desk.done(&batch, meta.next_token));
                desk.expected = self.crowd.size();
                Ok(())
            }
            // Somebody has stopped the store and had it recover meanwhile. It need not stop again over what was before.
            Err(trouble) if desk.life() != life => Err(trouble.explain(&self.options.path)),
            Err(trouble) => Err(self.fail(&mut desk, trouble)),
        };
        let answer = answer.map_err(|error| error.with_effect(Effect::Unknown));
        drop(desk);
        for waiter in waiting {
            // Whoever has gone away need not be told.
            let _ = waiter.send(answer.as_ref().map_err(Error::copy).copied());
        }
        if answer.is_ok() {
            self.inboxes.deliver(events);
        }
    }

    /// Stops all work over a trouble, and says how it is told. The first reason stays.
    pub(crate) fn fail(&self, desk: &mut Desk, trouble: Trouble) -> Error {
        if matches!(trouble, Trouble::Panicked(_)) {
            // Not even dropping it is safe any more.
            let mut database = self
                .database
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(database.take());
        }
        if let Err(Trouble::Ours(reason)) = desk.check() {
            return reason;
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
        desk.fail(&why);
        why
    }
}

fn write(database: &Database, batch: &mut Batch, meta: &Meta) -> Result<(), Trouble> {
    let mut txn = begin(database)?;
    txn.set_durability(Durability::Immediate)?;
    let mut books = Books::open(&txn)?;
    batch.write(&mut books)?;
    books.write_meta(meta)?;
    drop(books);
    Ok(txn.commit()?)
}

/// The thread, and the bells that call it.
#[derive(Debug)]
pub(crate) struct Committer {
    /// One call can wait; whoever comes until it is answered is part of it. The other bell ends the pause before a late
    /// commit.
    bells: Option<(SyncSender<()>, SyncSender<()>)>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    pub(crate) fn start(shared: Arc<Shared>) -> Result<Self> {
        let (bell, calls) = sync_channel(1);
        let (hurry, hurries) = sync_channel(1);
        let run = move || run(&shared, &calls, &hurries);
        let thread = std::thread::Builder::new().name("leasehold-file".to_owned());
        let thread = thread.spawn(run).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the system gives no thread").with_source(error)
        })?;
        Ok(Self {
            bells: Some((bell, hurry)),
            thread: Some(thread),
        })
    }

    /// Has what has changed committed.
    pub(crate) fn call(&self) {
        if let Some((bell, _)) = &self.bells {
            // Full: it was called already. Closed: it has panicked, and whoever waits is told.
            let _ = bell.try_send(());
        }
    }

    /// As [`call`](Self::call), for somebody who waits.
    pub(crate) fn hurry(&self) {
        if let Some((_, hurry)) = &self.bells {
            let _ = hurry.try_send(());
        }
        self.call();
    }
}

impl Drop for Committer {
    /// Waits until everything is on the disk and the file is closed, so that it can be opened again at once.
    fn drop(&mut self) {
        self.bells = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Arc<Shared>, calls: &Receiver<()>, hurries: &Receiver<()>) {
    let mut took = Duration::ZERO;
    while calls.recv().is_ok() {
        if let Sync::Every(pause) = shared.options.sync {
            // Lets more work come together, unless somebody waits or the store is closed.
            let _ = hurries.recv_timeout(pause);
        }
        let desk = gather(shared, calls, PATIENCE.min(took / 2));
        let begun = real_time();
        shared.commit(desk, false);
        took = begun.elapsed();
    }
    close(shared);
}

/// Waits a little for those who are on their way to the desk: whoever misses this commit waits for two.
fn gather<'a>(
    shared: &'a Shared,
    calls: &Receiver<()>,
    patience: Duration,
) -> MutexGuard<'a, Desk> {
    let end = real_time() + patience;
    loop {
        let desk = shared.desk.blocking_lock();
        let left = end.saturating_duration_since(real_time());
        if desk.is_complete() || left.is_zero() {
            return desk;
        }
        drop(desk);
        if calls.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
            return shared.desk.blocking_lock();
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "how long the disk takes has nothing to do with the clock that leases run by"
)]
fn real_time() -> Instant {
    Instant::now()
}

/// Commits the rest and closes the file.
fn close(shared: &Shared) {
    // Somebody who waits for nothing has the last commit happen in any case: it has the right time and token.
    let mut desk = shared.desk.blocking_lock();
    drop(desk.wait());
    shared.commit(desk, true);
    let closed = Error::new(ErrorKind::Closed, "the store was closed");
    shared.desk.blocking_lock().fail(&closed);
    let mut database = shared
        .database
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    drop(database.take());
}
