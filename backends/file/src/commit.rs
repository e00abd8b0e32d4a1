//! The committer: a thread that brings what was written to the disk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold_core::inboxes::Inboxes;
use leasehold_core::transition::Events;
use leasehold_core::{Effect, Error, ErrorKind, Result};
use redb::{Database, Durability, WriteTransaction};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::clock::{StoreClock, micros_of};
use crate::config::{Options, Sync};
use crate::desk::{Desk, Waiter, Work};
use crate::engine::begin;
use crate::error::{Trouble, guarded};
use crate::meta::Meta;
use crate::tables::Books;

/// If the disk follows later, so many tokens, or as many as there are microseconds in this time, may be given before the
/// next commit: none of them comes back if the process ends before it.
const UNWRITTEN: (u64, Duration) = (1_000_000, Duration::from_secs(3600));

/// Opens the file that is there already.
pub(crate) type Open = Box<dyn Fn() -> Result<Database> + Send + std::marker::Sync>;

/// What the store and its committer share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) open: Open,
    pub(crate) clock: StoreClock,
    pub(crate) inboxes: Arc<Inboxes>,
    pub(crate) desk: Arc<Mutex<Desk>>,
    /// How many want the desk.
    pub(crate) at_the_door: AtomicUsize,
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

    /// Commits what was written and starts anew. Those who wait are still to be told.
    pub(crate) fn commit(&self, desk: &mut Desk) -> Told {
        let written = desk.write();
        let Some(work) = desk.take() else {
            return Told::default();
        };
        let Work {
            txn,
            waiting,
            events,
        } = work;
        let meta = self.meta(desk);
        let committed = written.and_then(|()| guarded(|| finish(txn, &meta)));
        let answer = match committed {
            Ok(()) => {
                desk.written_token = meta.next_token;
                match self.on_database(begin) {
                    Ok(txn) => desk.reopen(txn),
                    // This is on the disk, but it was the last.
                    Err(trouble) => drop(self.fail(desk, trouble)),
                }
                Ok(())
            }
            Err(trouble) => Err(self.fail(desk, trouble).with_effect(Effect::Unknown)),
        };
        Told {
            answer,
            waiting,
            events,
        }
    }

    /// Commits what there is before anybody can come.
    pub(crate) fn commit_first(&self) -> Result<()> {
        let mut desk = self.desk.clone().blocking_lock_owned();
        self.commit(&mut desk).answer
    }

    /// Takes the desk, after those who came before.
    pub(crate) async fn desk(&self) -> OwnedMutexGuard<Desk> {
        let _at_the_door = AtTheDoor::come(&self.at_the_door);
        self.desk.clone().lock_owned().await
    }

    /// Takes the desk for a commit, once as many wait for it as were to be expected, or so long is over.
    ///
    /// Without it, two halves of the callers would take turns, each waiting for the commit of the other.
    fn gather(&self, rush: &Rush) -> OwnedMutexGuard<Desk> {
        let began = real_time();
        loop {
            let desk = self.desk.clone().blocking_lock_owned();
            if desk.waiting() >= rush.expected || began.elapsed() >= rush.patience {
                return desk;
            }
            drop(desk);
            std::thread::yield_now();
        }
    }

    /// As [`commit`](Self::commit), tells those who wait, and says what to expect next.
    fn commit_and_tell(&self, mut desk: OwnedMutexGuard<Desk>) -> Rush {
        let began = real_time();
        let told = self.commit(&mut desk);
        // Those who came meanwhile are others than those who waited for it, and who may be back soon.
        let at_the_door = self.at_the_door.load(Ordering::Relaxed);
        drop(desk);
        let answered = told.waiting.len();
        told.tell(&self.inboxes);
        Rush {
            expected: if at_the_door > 0 {
                at_the_door + answered
            } else {
                0
            },
            patience: began.elapsed() / 2,
        }
    }

    fn meta(&self, desk: &Desk) -> Meta {
        let reading = self.clock.reading();
        let next_token = match self.options.sync {
            Sync::Every(_) if !desk.is_closing => {
                let (tokens, time) = UNWRITTEN;
                let by_time = reading.micros.saturating_add(micros_of(time));
                desk.next_token.saturating_add(tokens).max(by_time)
            }
            _ => desk.next_token,
        };
        Meta {
            next_token,
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

/// What is to be expected after a commit.
#[derive(Debug, Default)]
struct Rush {
    /// Callers that will wait for the next one, if there are several.
    expected: usize,
    /// How long it is worth waiting for them: a part of what the last one took.
    patience: Duration,
}

/// Somebody who wants the desk.
struct AtTheDoor<'a>(&'a AtomicUsize);

impl<'a> AtTheDoor<'a> {
    fn come(door: &'a AtomicUsize) -> Self {
        door.fetch_add(1, Ordering::Relaxed);
        Self(door)
    }
}

impl Drop for AtTheDoor<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the disk takes real time, whatever clock the leases go by"
)]
fn real_time() -> std::time::Instant {
    std::time::Instant::now()
}

/// What those are told who waited for a commit.
#[must_use = "somebody waits for this"]
pub(crate) struct Told {
    answer: Result<()>,
    waiting: Vec<Waiter>,
    events: Events,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            answer: Ok(()),
            waiting: Vec::new(),
            events: Events::new(),
        }
    }
}

impl Told {
    pub(crate) fn tell(self, inboxes: &Inboxes) {
        for waiter in self.waiting {
            // Whoever has gone away need not be told.
            let _ = waiter.send(self.answer.as_ref().map_err(Error::copy).copied());
        }
        if self.answer.is_ok() {
            inboxes.deliver(self.events);
        }
    }
}

fn finish(mut txn: WriteTransaction, meta: &Meta) -> Result<(), Trouble> {
    Books::open(&txn)?.write_meta(meta)?;
    txn.set_durability(Durability::Immediate)?;
    Ok(txn.commit()?)
}

/// The thread, and the bell that calls it.
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

    /// Has what was written committed.
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
    let mut rush = Rush::default();
    while calls.recv().is_ok() {
        if let Sync::Every(pause) = shared.options.sync {
            // Lets more work come together, unless somebody waits or the store is closed.
            let _ = hurries.recv_timeout(pause);
        }
        rush = shared.commit_and_tell(shared.gather(&rush));
    }
    close(shared);
}

/// Commits the rest and closes the file.
fn close(shared: &Arc<Shared>) {
    let mut desk = shared.desk.clone().blocking_lock_owned();
    desk.is_closing = true;
    desk.touch();
    shared.commit(&mut desk).tell(&shared.inboxes);
    let closed = Error::new(ErrorKind::Closed, "the store was closed");
    desk.fail(&closed, false);
    let mut database = shared
        .database
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    drop(database.take());
}
