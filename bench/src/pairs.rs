//! Pairs of acquire and release on any store, by callers that each have names of their own.

use std::hint::black_box;
use std::sync::Arc;

use leasehold_core::backend::{Acquire, Acquired, MAX_NAMES, Names, Release};
use leasehold_core::{Backend, Error, ErrorKind, Holder, Lease, Lock, Locks, Result, Token};
use tokio::runtime::Runtime;

use crate::bench::Outcome;
use crate::measure::Subject;
use crate::setup::{NAMES, NAMESPACE, TTL, dealt, done, key, name, owner, together, ttl};

/// A store that has seen every name once, and those who call it.
pub(crate) struct Callers {
    store: Arc<dyn Backend>,
    callers: Vec<Caller>,
}

impl Callers {
    /// So many callers of a new store; each name is taken and released before anything is measured, because the first
    /// time a store has to make the record.
    pub(crate) fn new(runtime: &Runtime, store: Arc<dyn Backend>, count: usize) -> Outcome<Self> {
        let mut callers = Self {
            store,
            callers: all_callers(NAMES)?,
        };
        callers.turns(runtime, 1);
        callers.callers = all_callers(count)?;
        Ok(callers)
    }

    /// Measures pairs of callers that all call at once, each as soon as it can.
    pub(crate) fn subject(mut self, runtime: &Runtime, turns: usize) -> Subject<'_> {
        Subject::timed(self.callers.len() * turns, move || {
            self.turns(runtime, turns)
        })
    }

    fn turns(&mut self, runtime: &Runtime, turns: usize) {
        let tasks = self.callers.drain(..).map(|mut caller| {
            let store = self.store.clone();
            async move {
                done(caller.pairs(&*store, turns).await);
                caller
            }
        });
        self.callers = together(runtime, tasks);
    }
}

/// Requests that one caller makes over and over.
struct Caller {
    calls: Vec<Call>,
    at: usize,
}

impl Caller {
    async fn pairs(&mut self, store: &dyn Backend, count: usize) -> Result<()> {
        for _ in 0..count {
            let at = self.at % self.calls.len();
            self.at += 1;
            self.calls[at].pair(store).await?;
        }
        Ok(())
    }
}

fn all_callers(count: usize) -> Result<Vec<Caller>> {
    let caller = |me: usize| {
        let calls = dealt(me, count).map(Call::new).collect::<Result<_>>()?;
        Ok(Caller { calls, at: 0 })
    };
    (0..count).map(caller).collect()
}

/// The requests of one pair.
pub(crate) struct Call {
    /// The first half.
    pub(crate) acquire: Acquire,
    /// The second half; it names the grant once there is one.
    pub(crate) release: Release,
}

impl Call {
    /// Requests for the name of key `at`.
    pub(crate) fn new(at: usize) -> Result<Self> {
        let (name, holder) = (name(at)?, Holder::random());
        Ok(Self {
            acquire: Acquire::new(Names::one(name.clone()), holder.clone(), owner()?, ttl()?),
            release: Release::grant(name, holder, Token::new(0)),
        })
    }

    /// Takes the name. Every acquire brings a fresh holder, as a caller must.
    pub(crate) async fn acquire(&mut self, store: &dyn Backend) -> Result<()> {
        self.acquire.holder = Holder::random();
        let lease = granted(store.acquire(&self.acquire).await?)?;
        if let Release::Grants { holder, grants } = &mut self.release {
            holder.clone_from(&self.acquire.holder);
            grants[0].1 = lease.token;
        }
        Ok(())
    }

    /// Takes the name and releases it.
    pub(crate) async fn pair(&mut self, store: &dyn Backend) -> Result<()> {
        self.acquire(store).await?;
        black_box(store.release(&self.release).await?);
        Ok(())
    }
}

/// The first lease of an acquire that cannot have been refused.
pub(crate) fn granted(answer: Acquired) -> Result<Lease> {
    let lease = leases(answer)?.into_iter().next();
    lease.ok_or_else(|| Error::new(ErrorKind::Internal, "a grant without a lease"))
}

/// All leases of an acquire that cannot have been refused.
pub(crate) fn leases(answer: Acquired) -> Result<impl IntoIterator<Item = Lease>> {
    let Acquired::Granted(leases) = answer else {
        return Err(Error::new(ErrorKind::Internal, "a free name was refused"));
    };
    Ok(leases)
}

/// Pairs through [`Lock`].
pub(crate) struct Managed {
    locks: Vec<Arc<Vec<Lock>>>,
    at: usize,
}

impl Managed {
    /// So many callers of a manager on a new store, in which each name was seen once.
    pub(crate) fn new(runtime: &Runtime, store: Arc<dyn Backend>, count: usize) -> Outcome<Self> {
        let locks = manager(runtime, store)?;
        let handles = |me, count| dealt(me, count).map(|at| locks.lock(key(at))).collect();
        let all = |count| (0..count).map(|me| Arc::new(handles(me, count))).collect();
        let mut managed = Self {
            locks: all(NAMES),
            at: 0,
        };
        managed.turns(runtime, 1);
        managed.locks = all(count);
        Ok(managed)
    }

    /// As [`Callers::subject`].
    pub(crate) fn subject(mut self, runtime: &Runtime, turns: usize) -> Subject<'_> {
        Subject::timed(self.locks.len() * turns, move || self.turns(runtime, turns))
    }

    fn turns(&mut self, runtime: &Runtime, turns: usize) {
        let from = self.at;
        self.at += turns;
        let tasks = self.locks.iter().map(|locks| {
            let locks = locks.clone();
            async move {
                for at in from..from + turns {
                    done(section(&locks[at % locks.len()]).await);
                }
            }
        });
        together(runtime, tasks);
    }
}

/// A manager on this store.
pub(crate) fn manager(runtime: &Runtime, store: Arc<dyn Backend>) -> Outcome<Locks> {
    let _inside = runtime.enter();
    Ok(Locks::new(store).namespace(NAMESPACE).ttl(TTL).build()?)
}

/// Takes a lock and releases it.
pub(crate) async fn section(lock: &Lock) -> Result<()> {
    let guard = lock.acquire().await?;
    black_box(guard).release().await
}

/// Takes these names for good, as many with each request as one may name, and says what came of each.
pub(crate) async fn hold(
    store: &dyn Backend,
    names: impl Iterator<Item = usize>,
) -> Result<Vec<(Holder, Lease)>> {
    let mut held = Vec::new();
    let mut names = names.peekable();
    while names.peek().is_some() {
        let some = names.by_ref().take(MAX_NAMES);
        let some = Names::new(some.map(name).collect::<Result<Vec<_>>>()?)?;
        let request = Acquire::new(some, Holder::random(), owner()?, ttl()?);
        let got = leases(store.acquire(&request).await?)?.into_iter();
        held.extend(got.map(|lease| (request.holder.clone(), lease)));
    }
    Ok(held)
}
