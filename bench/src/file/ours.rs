//! The store in a file, and what only its benches do with it.

use std::path::Path;
use std::sync::Arc;

use leasehold_core::{Backend, Error, ErrorKind, Lock, Record, Result};
use leasehold_file::{File, Options, Sync};
use tokio::runtime::Runtime;

use crate::bench::Outcome;
use crate::measure::Subject;
use crate::pairs::{Call, manager, section};
use crate::setup::{done, together};

/// What the store keeps in front of a record: a checksum and the moment the index knows the record by.
const HEAD: usize = 12;

/// Opens a new file.
pub(super) fn open(runtime: &Runtime, path: &Path, sync: Sync) -> Outcome<Arc<dyn Backend>> {
    let options = Options::new(path).sync(sync)?;
    Ok(Arc::new(runtime.block_on(options.open())?))
}

/// A store whose callers never come back to a name: each pair makes a record, and moves it in the index.
pub(super) struct Fresh {
    store: Arc<dyn Backend>,
    /// The first key that was never used.
    next: usize,
}

impl Fresh {
    /// Opens a new file.
    pub(super) fn open(runtime: &Runtime, path: &Path) -> Outcome<Self> {
        let store = open(runtime, path, Sync::Always)?;
        Ok(Self { store, next: 0 })
    }

    /// Measures pairs of callers that all call at once, each as soon as it can.
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
                        done(pair(&*store, at).await);
                    }
                }
            });
            together(runtime, tasks);
            self.next += callers * turns;
        })
    }
}

/// Takes the name of this key and releases it.
pub(super) async fn pair(store: &dyn Backend, at: usize) -> Result<()> {
    Call::new(at)?.pair(store).await
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

/// Callers of one process that all want the same name, and hand it on as soon as they have it.
pub(super) struct Contenders {
    lock: Arc<Lock>,
}

impl Contenders {
    /// A manager on a new file.
    pub(super) fn open(runtime: &Runtime, path: &Path) -> Outcome<Self> {
        let store = open(runtime, path, Sync::Always)?;
        let lock = Arc::new(manager(runtime, store)?.lock("one"));
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
