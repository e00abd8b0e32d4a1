//! The desk: the records as they are now, and those who wait for them to be on the disk.
//!
//! Whoever wants to change something takes the desk, changes records in [memory](crate::cache), and waits. The
//! [committer](crate::commit) takes all that has changed since it last came. While it is with the disk, the next ones
//! change records already; they will be part of the next commit, and one wait for the disk serves them all.

use leasehold_core::transition::Events;
use leasehold_core::{Effect, Error, Name, Record, Result};
use tokio::sync::oneshot;

use crate::cache::{Batch, Cache};
use crate::error::Trouble;
use crate::tables;
use crate::value::Value;

/// Told how a commit went.
pub(crate) type Waiter = oneshot::Sender<Result<()>>;

#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) cache: Cache,
    /// No token below this may be given any more.
    pub(crate) next_token: u64,
    /// The same as it is on the disk.
    pub(crate) written_token: u64,
    /// Those who wait for the next commit, and for the one that is on its way.
    waiting: Vec<Waiter>,
    riding: Vec<Waiter>,
    is_committing: bool,
    /// How many will probably wait for the next commit.
    pub(crate) expected: usize,
    events: Events,
    /// Why nothing is done any more until somebody says that it may.
    failed: Option<Error>,
    /// How often somebody has said so.
    life: u64,
}

/// What is to be committed.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) batch: Batch,
    pub(crate) waiting: Vec<Waiter>,
    pub(crate) events: Events,
}

impl Desk {
    pub(crate) fn new(next_token: u64, written_token: u64) -> Self {
        Self {
            cache: Cache::default(),
            next_token,
            written_token,
            waiting: Vec::new(),
            riding: Vec::new(),
            is_committing: false,
            expected: 0,
            events: Events::new(),
            failed: None,
            life: 0,
        }
    }

    /// Refuses to work after a failure.
    pub(crate) fn check(&self) -> Result<(), Trouble> {
        match &self.failed {
            Some(error) => Err(Trouble::Ours(error.copy())),
            None => Ok(()),
        }
    }

    /// The records of these names. `fetch` looks up what is not here.
    pub(crate) fn load(
        &mut self,
        names: &[&Name],
        fetch: impl FnOnce(&[&Name]) -> Result<Vec<Option<Value>>, Trouble>,
    ) -> Result<Vec<Record>, Trouble> {
        self.check()?;
        let missing = self.cache.missing(names);
        if !missing.is_empty() {
            for (name, value) in missing.iter().zip(fetch(&missing)?) {
                self.cache.keep(name, value);
            }
        }
        let record = |name: &&Name| match self.cache.get(name) {
            Some(record) => record.clone(),
            None => Record::new((*name).clone()),
        };
        Ok(names.iter().map(record).collect())
    }

    /// Keeps changed records until the next commit.
    pub(crate) fn change(&mut self, records: Vec<Record>, next_token: u64) -> Result<(), Trouble> {
        self.cache.change(records)?;
        self.next_token = self.next_token.max(next_token);
        Ok(())
    }

    /// Has these entries of the index put right with the next commit.
    pub(crate) fn put_right(
        &mut self,
        entries: &[Vec<u8>],
        fetch: impl FnOnce(&[&Name]) -> Result<Vec<Option<Value>>, Trouble>,
    ) -> Result<(), Trouble> {
        let names: Result<Vec<_>, _> = entries.iter().map(|it| tables::entry_name(it)).collect();
        let names = names?;
        let mut distinct: Vec<_> = names.iter().collect();
        distinct.sort_unstable();
        distinct.dedup();
        self.load(&distinct, fetch)?;
        let mut found = names.iter().zip(entries);
        found.try_for_each(|(name, entry)| self.cache.put_right(name, entry))
    }

    /// Whether there is something that is not on the disk.
    pub(crate) fn is_ahead(&self) -> bool {
        self.is_committing || self.cache.has_changed()
    }

    /// Will be told when all that is here now is on the disk, or that it will not be.
    pub(crate) fn wait(&mut self) -> oneshot::Receiver<Result<()>> {
        let (waiter, told) = oneshot::channel();
        if self.cache.has_changed() || !self.is_committing {
            self.waiting.push(waiter);
        } else {
            self.riding.push(waiter);
        }
        told
    }

    /// Whether nobody more is expected before the next commit.
    pub(crate) fn is_complete(&self) -> bool {
        self.waiting.len() >= self.expected
    }

    /// Whether the last one to wait has to call the committer: the first to wake it, the last to have it begin.
    pub(crate) fn is_to_call(&self) -> bool {
        self.waiting.len() == 1 || self.is_complete()
    }

    /// Delivers these after the next commit.
    pub(crate) fn tell(&mut self, events: Events) {
        self.events.extend(events);
    }

    /// Takes what is to be committed, if there is anything or somebody waits.
    pub(crate) fn take(&mut self) -> Option<Work> {
        let idle = !self.cache.has_changed() && self.waiting.is_empty();
        if self.failed.is_some() || idle {
            return None;
        }
        self.is_committing = true;
        Some(Work {
            batch: self.cache.take(),
            waiting: std::mem::take(&mut self.waiting),
            events: std::mem::take(&mut self.events),
        })
    }

    /// What was taken is on the disk. Gives those who waited for it without being part of it.
    pub(crate) fn done(&mut self, batch: &Batch, written_token: u64) -> Vec<Waiter> {
        self.cache.done(batch);
        self.written_token = written_token;
        self.is_committing = false;
        std::mem::take(&mut self.riding)
    }

    /// Gives everything up that is not committed, and answers with this error from now on.
    pub(crate) fn fail(&mut self, why: &Error) {
        self.cache.clear();
        self.events.clear();
        self.is_committing = false;
        for waiter in self.waiting.drain(..).chain(self.riding.drain(..)) {
            let _ = waiter.send(Err(why.copy().with_effect(Effect::Unknown)));
        }
        self.failed = Some(why.copy());
    }

    /// Whether nothing is done here until somebody says that it may.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Goes on after a failure.
    pub(crate) fn reopen(&mut self, next_token: u64) {
        self.next_token = self.next_token.max(next_token);
        self.failed = None;
        self.life += 1;
    }

    /// Tells the time before a failure from the time after it.
    pub(crate) fn life(&self) -> u64 {
        self.life
    }
}
