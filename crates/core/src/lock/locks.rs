//! The manager: a store, a namespace, and how locks are taken by default.

use std::sync::Arc;
use std::time::Duration;

use super::builder::LocksBuilder;
use super::event::LockEvent;
use super::guard::withdraw_in_background;
use super::handle::{Lock, Terms};
use super::hold::LostCause;
use super::idempotent::Idempotent;
use super::shared::{Shared, unanswered};
use crate::backend::{
    Backend, Holding, IntoStore, List, Names, Page, Release, Released, SetCapacity, Sweep, Swept,
};
use crate::error::{Error, ErrorKind, Result};
use crate::name::{Name, check_namespace};
use crate::record::Record;

/// Hands out locks of one store. Cheap to clone; clones share their line of waiters and their keeper.
#[derive(Debug, Clone)]
pub struct Locks {
    namespace: Option<Arc<str>>,
    /// What every lock starts from.
    pub(super) terms: Arc<Terms>,
}

impl Locks {
    /// Starts building a manager on this store.
    #[allow(
        clippy::new_ret_no_self,
        reason = "reads as Locks::new(store).namespace(..).build()"
    )]
    pub fn new(store: impl IntoStore) -> LocksBuilder {
        LocksBuilder::new(store.into_store())
    }

    pub(super) fn from_parts(namespace: Option<Arc<str>>, terms: Terms) -> Self {
        Self {
            namespace,
            terms: Arc::new(terms),
        }
    }

    pub(super) fn manager(&self) -> &Arc<Shared> {
        &self.terms.shared
    }

    /// The namespace locks are taken in, if there is one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The ttl locks have unless told otherwise.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.terms.ttl.as_duration()
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Backend> {
        &self.manager().backend
    }

    /// How many locks this manager and its clones hold right now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.manager()
            .roster
            .all()
            .iter()
            .filter(|hold| hold.is_live())
            .count()
    }

    /// How many acquisitions of this manager and its clones wait right now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.manager().line.waiters()
    }

    /// The same manager for another namespace.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the namespace breaks the rules of [`Name`].
    pub fn in_namespace(&self, namespace: &str) -> Result<Self> {
        check_namespace(namespace)?;
        Ok(Self {
            namespace: Some(namespace.into()),
            ..self.clone()
        })
    }

    /// The lock of one key.
    pub fn lock(&self, key: impl AsRef<str>) -> Lock {
        self.handle(self.name(key.as_ref()).map(Names::one))
    }

    /// One lock over several keys: all or nothing, one common expiry, no deadlock.
    pub fn all<K: AsRef<str>>(&self, keys: impl IntoIterator<Item = K>) -> Lock {
        // One more than allowed is enough to be refused, however many there are.
        let keys = keys.into_iter().take(crate::backend::MAX_NAMES + 1);
        let names: Result<Vec<Name>> = keys.map(|key| self.name(key.as_ref())).collect();
        self.handle(names.and_then(Names::new))
    }

    /// A counting semaphore: up to `permits` units of the key can be held at once.
    ///
    /// Every holder brings its own idea of `permits` along, unless somebody has set the key's capacity in the store.
    pub fn semaphore(&self, key: impl AsRef<str>, permits: u32) -> Lock {
        self.lock(key).limit(permits)
    }

    /// Work to be done once per key, whose result later callers get without doing it again.
    ///
    /// Results are kept in a namespace of their own, named like this manager's with `/once` behind it.
    pub fn idempotent(&self, key: impl AsRef<str>) -> Idempotent {
        // A namespace of its own: a result must not be taken for a lock, nor the text of a lock for a result.
        let name = self
            .name(key.as_ref())
            .and_then(|name| Name::new(&format!("{}/once", name.namespace()), name.key()));
        Idempotent::new(self.handle(name.map(Names::one)))
    }

    pub(super) fn handle(&self, names: Result<Names>) -> Lock {
        Lock::new(names, self.terms.clone())
    }

    /// The full name of a key.
    ///
    /// # Errors
    /// If the key breaks the rules of [`Name`], or the manager has no namespace.
    pub fn name(&self, key: &str) -> Result<Name> {
        let namespace = self.namespace.as_deref().ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                "this manager has no namespace; choose one with in_namespace",
            )
        })?;
        Name::new(namespace, key)
    }

    /// What the store knows about a key; `None` if nothing.
    ///
    /// # Errors
    /// If the key is wrong or the store fails. A store that fails never looks like a free lock.
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn get(&self, key: impl AsRef<str>) -> Result<Option<Record>> {
        let name = self.name(key.as_ref())?;
        Ok(self.manager().backend.get(&name).await?.what)
    }

    /// Who holds a key right now, if anybody.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn holder(&self, key: impl AsRef<str>) -> Result<Option<Holding>> {
        Ok(self.get(key).await?.and_then(|record| record.holding()))
    }

    /// Whether anybody holds a key right now.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn is_locked(&self, key: impl AsRef<str>) -> Result<bool> {
        Ok(self
            .get(key)
            .await?
            .is_some_and(|record| !record.grants.is_empty() || !record.claims.is_empty()))
    }

    /// What is held, waited for or claimed in this manager's namespace, page by page.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store cannot list; otherwise if it fails.
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn list(&self, mut request: List) -> Result<Page<Record>> {
        if !self.manager().can().list {
            return Err(Error::unsupported(format!(
                "{} cannot list",
                self.manager().scheme()
            )));
        }
        if let Some(namespace) = &self.namespace {
            request.namespace = Some(namespace.as_ref().to_owned());
        }
        Ok(self.manager().backend.list(&request).await?.what)
    }

    /// Ends whatever is held of a key, whoever holds it, and says what that was; empty if it was free.
    ///
    /// The next holder gets a larger token, so that a resource that checks tokens is safe from the old one.
    ///
    /// # Errors
    /// If the key or the reason is wrong, or the store fails.
    ///
    /// # Cancel safety
    /// Dropped midway, the lock is ended or not.
    pub async fn force_release(&self, key: impl AsRef<str>, reason: &str) -> Result<Vec<Holding>> {
        let name = self.name(key.as_ref())?;
        let by = &self.terms.owner;
        let request = Release::force(name.clone(), None, by.clone(), reason)?;
        let answers = self.manager().backend.release(&request).await?;
        let ended = match answers.into_iter().next() {
            Some(Released::Forced(holdings)) => holdings,
            Some(_) => Vec::new(),
            None => return Err(unanswered()),
        };
        self.manager().emit(|| LockEvent::Forced {
            name: &name,
            by,
            reason,
            ended: ended.len(),
        });
        Ok(ended)
    }

    /// Sets how many units a key has, for everybody, whatever limit they bring along; zero keeps everybody out, `None`
    /// forgets it again.
    ///
    /// # Errors
    /// If the key is wrong, the store cannot count units, or fails.
    ///
    /// # Cancel safety
    /// Dropped midway, it is set or not.
    pub async fn set_capacity(&self, key: impl AsRef<str>, units: Option<u32>) -> Result<()> {
        if !self.manager().can().quantities {
            return Err(Error::unsupported(format!(
                "{} cannot count units",
                self.manager().scheme()
            )));
        }
        let name = self.name(key.as_ref())?;
        let request = SetCapacity {
            name,
            units,
            expect_version: None,
        };
        self.manager()
            .backend
            .set_capacity(&request)
            .await
            .map(drop)
    }

    /// Settles and forgets what has run out in the store, up to `limit` records.
    ///
    /// # Errors
    /// If the store fails.
    ///
    /// # Cancel safety
    /// Dropped midway, some of it is done.
    pub async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.manager().backend.sweep(&Sweep::all(limit)).await
    }

    /// Stops taking locks and answers everybody who waits. What is held stays held, and goes on being renewed, until
    /// its guards let go.
    pub fn close(&self) {
        self.manager().close();
    }

    /// Closes, releases everything this manager and its clones hold, and waits until that is done, at most this long.
    ///
    /// Guards that are still around find their lock lost, and bodies that run under one are stopped.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if the store did not answer in time; what is left runs out by itself.
    ///
    /// # Cancel safety
    /// Dropped midway, the releases go on in the background.
    pub async fn shutdown(&self, within: Duration) -> Result<()> {
        self.close();
        for hold in self.manager().roster.all() {
            if hold.is_live() {
                withdraw_in_background(&hold);
                hold.lose(LostCause::ShutDown);
            }
        }
        let deadline = self.manager().clock.now().after(within);
        tokio::select! {
            biased;
            () = self.manager().keeper.drained() => Ok(()),
            () = self.manager().clock.sleep_until(deadline) => Err(Error::new(
                ErrorKind::Timeout,
                format!("not everything was released within {within:?}; what is left runs out by itself"),
            )
            .with_effect(crate::error::Effect::Unknown)
            .during("shutdown", self.manager().scheme())),
        }
    }
}
