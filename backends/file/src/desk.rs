//! The desk: the one open transaction, and those who wait for it to be on the disk.
//!
//! Whoever wants to change something takes the desk, in the order in which they came, changes records in
//! [memory](crate::cache) and leaves. The [committer](crate::commit) queues for the desk like everybody else, so that it
//! commits what all those changed who were there before it, and one wait for the disk serves them all.

use leasehold_core::transition::Events;
use leasehold_core::{Effect, Error, ErrorKind, Name, Record, Result};
use redb::WriteTransaction;
use tokio::sync::oneshot;

use crate::cache::Cache;
use crate::error::{Trouble, guarded};

/// Told how a commit went.
pub(crate) type Waiter = oneshot::Sender<Result<()>>;

#[derive(Debug)]
pub(crate) struct Desk {
    state: State,
    /// No token below this may be given any more.
    pub(crate) next_token: u64,
    /// The same as it is on the disk.
    pub(crate) written_token: u64,
    cache: Cache,
    /// Is there something to commit?
    dirty: bool,
    /// The next commit is the last.
    pub(crate) is_closing: bool,
    waiting: Vec<Waiter>,
    events: Events,
}

enum State {
    Open(Box<WriteTransaction>),
    /// The last commit, or something after it, failed. Nothing is done until somebody says that it may.
    Failed(Error),
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open(_) => f.write_str("Open"),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
        }
    }
}

/// What is to be committed.
pub(crate) struct Work {
    pub(crate) txn: WriteTransaction,
    pub(crate) waiting: Vec<Waiter>,
    pub(crate) events: Events,
}

impl Desk {
    pub(crate) fn new(txn: WriteTransaction, next_token: u64) -> Self {
        Self {
            state: State::Open(Box::new(txn)),
            next_token,
            written_token: next_token,
            cache: Cache::default(),
            dirty: false,
            is_closing: false,
            waiting: Vec::new(),
            events: Events::new(),
        }
    }

    /// The open transaction.
    pub(crate) fn txn(&self) -> Result<&WriteTransaction, Trouble> {
        match &self.state {
            State::Open(txn) => Ok(txn),
            State::Failed(error) => Err(Trouble::Ours(error.copy())),
        }
    }

    /// The records of these names.
    pub(crate) fn load(&mut self, names: &[&Name]) -> Result<Vec<Record>, Trouble> {
        self.with_txn(|cache, txn| cache.load(txn, names))
    }

    /// Keeps changed records until the next commit.
    pub(crate) fn change(&mut self, records: Vec<Record>, next_token: u64) {
        for record in records {
            self.cache.change(record);
        }
        self.next_token = self.next_token.max(next_token);
        self.dirty = true;
    }

    /// Has these entries of the index put right with the next commit.
    pub(crate) fn put_right(&mut self, entries: &[Vec<u8>]) -> Result<(), Trouble> {
        self.dirty = true;
        self.with_txn(|cache, txn| {
            entries
                .iter()
                .try_for_each(|entry| cache.put_right(txn, entry))
        })
    }

    /// Writes into the transaction what it does not know. If that fails, part of it may be done, so the caller must
    /// [fail](Self::fail) the desk.
    pub(crate) fn write(&mut self) -> Result<(), Trouble> {
        self.with_txn(Cache::write)
    }

    fn with_txn<T>(
        &mut self,
        call: impl FnOnce(&mut Cache, &WriteTransaction) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        match &self.state {
            State::Open(txn) => guarded(|| call(&mut self.cache, txn)),
            State::Failed(error) => Err(Trouble::Ours(error.copy())),
        }
    }

    /// Has the next commit happen although nothing was written.
    pub(crate) fn touch(&mut self) {
        self.dirty = true;
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// How many wait for the next commit.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Will be told how the next commit went.
    pub(crate) fn wait(&mut self) -> oneshot::Receiver<Result<()>> {
        let (waiter, told) = oneshot::channel();
        self.waiting.push(waiter);
        told
    }

    /// Delivers these after the next commit.
    pub(crate) fn tell(&mut self, events: Events) {
        self.events.extend(events);
    }

    /// Takes what is to be committed, if there is anything. Until [`reopen`](Self::reopen) the desk is closed.
    pub(crate) fn take(&mut self) -> Option<Work> {
        if !std::mem::take(&mut self.dirty) {
            return None;
        }
        let closed = State::Failed(Error::new(ErrorKind::Internal, "a commit is on its way"));
        match std::mem::replace(&mut self.state, closed) {
            State::Open(txn) => Some(Work {
                txn: *txn,
                waiting: std::mem::take(&mut self.waiting),
                events: std::mem::take(&mut self.events),
            }),
            failed => {
                self.state = failed;
                None
            }
        }
    }

    /// Ends the open transaction, in which nothing is written. Until [`reopen`](Self::reopen) the desk is closed.
    pub(crate) fn close(&mut self) -> Result<(), Trouble> {
        let closed = State::Failed(Error::new(ErrorKind::Internal, "the desk is closed"));
        match std::mem::replace(&mut self.state, closed) {
            State::Open(txn) => Ok(txn.abort()?),
            State::Failed(error) => {
                self.state = State::Failed(error.copy());
                Err(Trouble::Ours(error))
            }
        }
    }

    pub(crate) fn reopen(&mut self, txn: WriteTransaction) {
        self.state = State::Open(Box::new(txn));
    }

    /// Gives everything up that is not committed, and answers with this error from now on.
    ///
    /// After a panic of the engine not even the transaction can be dropped safely.
    pub(crate) fn fail(&mut self, why: &Error, panicked: bool) {
        self.dirty = false;
        self.cache.clear();
        self.events.clear();
        for waiter in self.waiting.drain(..) {
            let _ = waiter.send(Err(why.copy().with_effect(Effect::Unknown)));
        }
        let failed = State::Failed(why.copy());
        match std::mem::replace(&mut self.state, failed) {
            State::Open(txn) if panicked => std::mem::forget(txn),
            _ => {}
        }
    }

    /// Whether nothing is done here until somebody says that it may.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }
}
