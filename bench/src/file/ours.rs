//! Pairs through the store in a file.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use leasehold_core::backend::{Acquire, Acquired, MAX_NAMES, Names, Release};
use leasehold_core::{
    Backend, Error, ErrorKind, Holder, Lease, Lock, Locks, Record, Result, Token,
};
use leasehold_file::{File, Options, Sync};
use tokio::runtime::Runtime;

use super::setup::{NAMES, NAMESPACE, TTL, done, key, name, owner, scattered, together, ttl};
use crate::bench::Outcome;
use crate::measure::Subject;

/// What the store keeps in front of a record: a checksum and the moment the index knows the record by.
const HEAD: usize = 12;

/// A new store that has seen every name once, and those who call it.
pub(super) struct Ours {
    store: Arc<File>,
    callers: Vec<Caller>,
}

impl Ours {
    /// Opens a new file; each name is taken and released before anything is measured, because the first time the store
    /// has to make the record, and an entry in its index.
    pub(super) fn open(
        runtime: &Runtime,
        path: &Path,
        sync: Sync,
        callers: usize,
    ) -> Outcome<Self> {
        let options = Options::new(path).sync(sync)?;
        let store = Arc::new(runtime.block_on(options.open())?);
        let mut ours = Self {
            store,
            callers: all_callers(NAMES)?,
        };
        ours.turns(runtime, 1);
        ours.callers = all_callers(callers)?;
        Ok(ours)
    }

    /// Measures pairs of callers that all call at once, each as soon as it can.
    pub(super) fn subject(mut self, runtime: &Runtime, turns: usize) -> Subject<'_> {
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

/// A store whose callers never come back to a name: each pair makes a record, and moves it in the index.
pub(super) struct Fresh {
    store: Arc<File>,
    /// The first key that was never used.
    next: usize,
}

impl Fresh {
    /// Opens a new file.
    pub(super) fn open(runtime: &Runtime, path: &Path) -> Outcome<Self> {
        let store = Arc::new(runtime.block_on(Options::new(path).open())?);
        Ok(Self { store, next: 0 })
    }

    /// As [`Ours::subject`].
    pub(super) fn subject(
        mut self,
        runtime: &Runtime,
        callers: usize,
        turns: usize,
    ) -> Subject<'_> {
        Subject::timed(callers * turns, move || {
            let tasks = (self.next..).step_by(turns).take(callers).map(|from| {
                let store = self.store.clone();
                async move {
                    for at in from..from + turns {
                        done(pair(&store, at).await);
                    }
                }
            });
            together(runtime, tasks);
            self.next += callers * turns;
        })
    }
}

/// Requests that one caller makes over and over.
struct Caller {
    calls: Vec<Call>,
    at: usize,
}

/// The requests of one pair.
struct Call {
    acquire: Acquire,
    release: Release,
}

/// The names, dealt out to so many callers: those that call at the same time are far apart.
fn all_callers(count: usize) -> Result<Vec<Caller>> {
    let caller = |me: usize| {
        let mine = scattered(NAMES).skip(me).step_by(count);
        let calls = mine.map(Call::new).collect::<Result<_>>()?;
        Ok(Caller { calls, at: 0 })
    };
    (0..count).map(caller).collect()
}

impl Call {
    fn new(at: usize) -> Result<Self> {
        let (name, holder) = (name(at)?, Holder::random());
        Ok(Self {
            acquire: Acquire::new(Names::one(name.clone()), holder.clone(), owner()?, ttl()?),
            release: Release::grant(name, holder, Token::new(0)),
        })
    }

    /// Every acquire brings a fresh holder, as a caller must.
    async fn acquire(&mut self, store: &impl Backend) -> Result<()> {
        self.acquire.holder = Holder::random();
        let lease = granted(store.acquire(&self.acquire).await?)?;
        if let Release::Grants { holder, grants } = &mut self.release {
            holder.clone_from(&self.acquire.holder);
            grants[0].1 = lease.token;
        }
        Ok(())
    }

    async fn pair(&mut self, store: &impl Backend) -> Result<()> {
        self.acquire(store).await?;
        black_box(store.release(&self.release).await?);
        Ok(())
    }
}

impl Caller {
    async fn pairs(&mut self, store: &impl Backend, count: usize) -> Result<()> {
        for _ in 0..count {
            let at = self.at % self.calls.len();
            self.at += 1;
            self.calls[at].pair(store).await?;
        }
        Ok(())
    }
}

/// Takes the name of this key and releases it.
pub(super) async fn pair(store: &File, at: usize) -> Result<()> {
    Call::new(at)?.pair(store).await
}

/// The lease of an acquire that cannot have been refused.
fn granted(answer: Acquired) -> Result<Lease> {
    let Acquired::Granted(leases) = answer else {
        return Err(Error::new(ErrorKind::Internal, "a free name was refused"));
    };
    let lease = leases.into_iter().next();
    lease.ok_or_else(|| Error::new(ErrorKind::Internal, "a grant without a lease"))
}

/// What the store keeps under a name: while it is held, and after its release.
pub(super) fn values(runtime: &Runtime, path: &Path) -> Outcome<(Vec<u8>, Vec<u8>)> {
    runtime.block_on(async {
        let store = Options::new(path).open().await?;
        let mut call = Call::new(0)?;
        // The second time it is held, the record also says how the first lease ended.
        call.acquire(&store).await?;
        store.release(&call.release).await?;
        call.acquire(&store).await?;
        let held = value(&store, &call).await?;
        store.release(&call.release).await?;
        Ok((held, value(&store, &call).await?))
    })
}

async fn value(store: &File, call: &Call) -> Result<Vec<u8>> {
    let name = call.acquire.names.first();
    let record: Option<Record> = store.get(name).await?.what;
    let record = record.ok_or_else(|| Error::new(ErrorKind::Internal, "no record"))?;
    Ok([vec![0; HEAD], record.encode()?].concat())
}

/// Pairs through [`Lock`].
pub(super) struct Managed {
    locks: Vec<Arc<Vec<Lock>>>,
    at: usize,
}

impl Managed {
    /// A manager on a new file, in which each name was seen once, and so many callers with names of their own.
    pub(super) fn open(runtime: &Runtime, path: &Path, callers: usize) -> Outcome<Self> {
        let locks = manager(runtime, path)?;
        let dealt = |count: usize| {
            let mine = |me: usize| scattered(NAMES).skip(me).step_by(count);
            let handles = |me: usize| mine(me).map(|at| locks.lock(key(at))).collect();
            (0..count).map(|me| Arc::new(handles(me))).collect()
        };
        let mut managed = Self {
            locks: dealt(NAMES),
            at: 0,
        };
        managed.turns(runtime, 1);
        managed.locks = dealt(callers);
        Ok(managed)
    }

    /// As [`Ours::subject`].
    pub(super) fn subject(mut self, runtime: &Runtime, turns: usize) -> Subject<'_> {
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

/// A manager on a new file.
fn manager(runtime: &Runtime, path: &Path) -> Outcome<Locks> {
    let _inside = runtime.enter();
    let store: Arc<dyn Backend> = Arc::new(runtime.block_on(Options::new(path).open())?);
    let locks = Locks::new(store).namespace(NAMESPACE).ttl(TTL);
    Ok(locks.build()?)
}

async fn section(lock: &Lock) -> Result<()> {
    let guard = lock.acquire().await?;
    black_box(guard).release().await
}

/// Callers of one process that all want the same name, and hand it on as soon as they have it.
pub(super) struct Contenders {
    lock: Arc<Lock>,
}

impl Contenders {
    /// A manager on a new file.
    pub(super) fn open(runtime: &Runtime, path: &Path) -> Outcome<Self> {
        let lock = Arc::new(manager(runtime, path)?.lock("one"));
        Ok(Self { lock })
    }

    /// Measures sections.
    pub(super) fn subject(self, runtime: &Runtime, callers: usize, turns: usize) -> Subject<'_> {
        Subject::timed(callers * turns, move || {
            let tasks = (0..callers).map(|_| {
                let lock = self.lock.clone();
                async move {
                    for _ in 0..turns {
                        done(section(&lock).await);
                    }
                }
            });
            together(runtime, tasks);
        })
    }
}

/// Takes these names for good, [`MAX_NAMES`] with each request.
pub(super) async fn hold(store: &File, names: impl Iterator<Item = usize>) -> Result<()> {
    let mut names = names.peekable();
    while names.peek().is_some() {
        let some = names.by_ref().take(MAX_NAMES).map(name);
        let some = Names::new(some.collect::<Result<Vec<_>>>()?)?;
        let request = Acquire::new(some, Holder::random(), owner()?, ttl()?);
        granted(store.acquire(&request).await?)?;
    }
    Ok(())
}
