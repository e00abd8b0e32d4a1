//! The desk: the one open transaction, and those who wait for it to be on the disk.
//!
//! Whoever wants to change something takes the desk, in the order in which they came, writes into the transaction and
//! leaves. The [committer](crate::commit) queues for the desk like everybody else, so that it commits what all those wrote
//! who were there before it, and one wait for the disk serves them all.

use leasehold_core::record_store::Change;
use leasehold_core::transition::Events;
use leasehold_core::{Effect, Error, ErrorKind, Name, Record, Result};
use redb::WriteTransaction;
use tokio::sync::oneshot;

use crate::error::{Trouble, guarded};
use crate::tables::Books;
use crate::value::NOT_INDEXED;

/// Told how a commit went.
pub(crate) type Waiter = oneshot::Sender<Result<()>>;

#[derive(Debug)]
pub(crate) struct Desk {
    state: State,
    /// No token below this may be given any more.
    pub(crate) next_token: u64,
    /// The same as it is on the disk.
    pub(crate) written_token: u64,
    /// Written since the last commit?
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

    /// The records of these names, and under which moments the index has them.
    pub(crate) fn load(&mut self, names: &[&Name]) -> Result<Vec<(Record, u64)>, Trouble> {
        let txn = self.txn()?;
        guarded(|| {
            let books = Books::open(txn)?;
            let load = |name: &&Name| {
                Ok(match books.read(name)? {
                    Some(value) => (value.record, value.indexed),
                    None => (Record::new((*name).clone()), NOT_INDEXED),
                })
            };
            names.iter().map(load).collect()
        })
    }

    /// Writes some of the records that were loaded.
    pub(crate) fn write(&mut self, loaded: &[(Name, u64)], change: &Change) -> Result<(), Trouble> {
        self.edit(|books| {
            let mut loaded = loaded.iter();
            for record in &change.records {
                let found = loaded.find(|(name, _)| *name == record.name);
                books.write(record, found.map_or(NOT_INDEXED, |(_, indexed)| *indexed))?;
            }
            Ok(())
        })?;
        self.next_token = self.next_token.max(change.next_token.get());
        Ok(())
    }

    /// Changes the tables. If that fails, part of it may be done, so the caller must [fail](Self::fail) the desk.
    pub(crate) fn edit(
        &mut self,
        edit: impl FnOnce(&mut Books<'_>) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let txn = self.txn()?;
        guarded(|| edit(&mut Books::open(txn)?))?;
        self.dirty = true;
        Ok(())
    }

    /// Has the next commit happen although nothing was written.
    pub(crate) fn touch(&mut self) {
        self.dirty = true;
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
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
