//! A file with something of everything in it, what may be done to it, and whether the store then tells the truth.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{Acquired, Confirm, List, Release, Released, SetCapacity};
use leasehold_core::{
    Backend as _, Error, ErrorKind, Kind, Lease, ManualClock, Metadata, Record, Result, Token,
};
use leasehold_file::{File, Options};
use tempfile::TempDir;

use super::calls::{acquire, all_records, clock_at, grant, holder, name};
use super::child::Outcome;
use super::run::BOOT;

/// The size of a page of the engine.
pub const PAGE: usize = 4096;
/// How much of the file is its header.
pub const HEADER: usize = 320;

/// A file, and what is in it.
#[derive(Debug)]
pub struct Sample {
    /// As an orderly end leaves it.
    pub closed: Vec<u8>,
    /// As `kill -9` leaves it.
    pub killed: Vec<u8>,
    /// As it was before the last commit that anybody was told of.
    pub before: Before,
    records: Vec<Record>,
    /// The lease that was granted last.
    last: Lease,
}

/// A file that is a commit behind.
#[derive(Debug)]
pub struct Before {
    pub killed: Vec<u8>,
    records: Vec<Record>,
}

/// A folder for files that come and go by the hundred.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

pub fn options(path: &Path, clock: &ManualClock) -> Options {
    Options::new(path).clock(Arc::new(clock.clone()), Some(BOOT))
}

/// Runs something to its end on this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

impl Sample {
    pub fn new() -> Self {
        let folder = folder();
        block_on(Self::make(&folder.path().join("sample.redb")))
    }

    async fn make(path: &Path) -> Self {
        let clock = ManualClock::new();
        let file = options(path, &clock).open().await.unwrap();
        furnish(&file).await;
        let before = Before {
            killed: std::fs::read(path).unwrap(),
            records: all_records(&file).await.unwrap(),
        };
        let last = grant(&file, &name("last", "lease"), &holder("me")).await;
        let records = all_records(&file).await.unwrap();
        let killed = std::fs::read(path).unwrap();
        drop(file);
        Self {
            closed: std::fs::read(path).unwrap(),
            killed,
            before,
            records,
            last,
        }
    }

    /// What becomes of a file with these bytes: it is as it was, or the store says what is wrong with it.
    pub fn outcome(&self, bytes: &[u8]) -> Outcome {
        let folder = folder();
        let path = folder.path().join("damaged.redb");
        std::fs::write(&path, bytes).unwrap();
        let used = catch_unwind(AssertUnwindSafe(|| block_on(self.outcome_of(&path))));
        used.unwrap_or_else(|_| Err("a panic got out".to_owned()))
    }

    async fn outcome_of(&self, path: &Path) -> Outcome {
        match self.use_twice(path).await {
            Ok(()) => Ok("as it was"),
            Err(Trouble::Lie(what)) => Err(what),
            Err(Trouble::Told(error)) => told(&error, path),
        }
    }

    /// Uses it and, if that went well, uses it once more as it is then.
    async fn use_twice(&self, path: &Path) -> Result<(), Trouble> {
        let clock = clock_at(Duration::from_secs(1));
        let file = options(path, &clock).open().await?;
        self.is_in(&file).await?;
        let fresh = name("fresh", "lease");
        let lease = take(&file, &fresh).await?;
        if lease.token <= self.last.token {
            return Err(Trouble::Lie(format!("the token went back: {lease:?}")));
        }
        drop(file);
        let file = options(path, &clock).open().await?;
        let release = Release::grant(fresh, holder("me"), lease.token);
        match &file.release(&release).await?[..] {
            [Released::Released] => {}
            other => return Err(Trouble::Lie(format!("it forgot a new lease: {other:?}"))),
        }
        self.is_in(&file).await
    }

    /// Whether everything is there, by each way to look at it.
    async fn is_in(&self, file: &File) -> Result<(), Trouble> {
        let mut found = all_records(file).await?;
        found.retain(|record| record.name.namespace() != "fresh");
        if found != self.records {
            let (found, records) = (found.len(), self.records.len());
            return Err(Trouble::Lie(format!(
                "{found} records instead of {records}, or others"
            )));
        }
        let listed = file.list(&List::all()).await?.what.items.len();
        let seen = file.get(&self.last.name).await?.what;
        let held = seen.and_then(|record| record.holding());
        match held {
            Some(held) if held.token == self.last.token && listed >= self.records.len() - 1 => {
                Ok(())
            }
            _ => Err(Trouble::Lie(format!(
                "a lease is gone: {held:?}, {listed} listed"
            ))),
        }
    }

    /// Whether a store has what there was one commit before.
    pub async fn is_one_commit_behind(&self, file: &File) -> bool {
        all_records(file).await.unwrap() == self.before.records
    }

    /// The largest token that was ever given.
    pub fn highest(&self) -> Token {
        self.last.token
    }
}

/// What went wrong with a case.
enum Trouble {
    /// The store has said something.
    Told(Error),
    /// It has not, and should have.
    Lie(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

/// Damage is told as such, with the file it is in.
fn told(error: &Error, path: &Path) -> Outcome {
    let names_it = error.to_string().contains(&path.display().to_string());
    match error.kind() {
        ErrorKind::Corrupt if names_it => Ok("told"),
        _ => Err(format!("told as {error:?}")),
    }
}

async fn take(file: &File, name: &leasehold_core::Name) -> Result<Lease, Trouble> {
    let answer = file
        .acquire(&acquire([name.clone()], &holder("me"), 600))
        .await?;
    match answer {
        Acquired::Granted(mut leases) => Ok(leases.remove(0)),
        other => Err(Trouble::Lie(format!("a free name was refused: {other:?}"))),
    }
}

/// Fills a store with something of everything, in many commits.
async fn furnish(file: &File) {
    let me = holder("me");
    for at in 0..30 {
        let request = acquire([name("lease", &at.to_string())], &me, 600 + at);
        let text = Metadata::new("x".repeat(100 * at as usize)).unwrap();
        file.acquire(&request.metadata(Some(text))).await.unwrap();
    }
    for at in 0..5 {
        let stock = name("stock", &at.to_string());
        let set = SetCapacity {
            name: stock.clone(),
            units: Some(7),
            expect_version: None,
        };
        file.set_capacity(&set).await.unwrap();
        let request = acquire([stock.clone()], &me, 600).kind(Kind::Reservation);
        let Acquired::Granted(leases) = file.acquire(&request).await.unwrap() else {
            panic!("not granted");
        };
        let confirm = Confirm::new(stock, leases[0].token, me.clone(), "order 7").unwrap();
        file.confirm(&confirm).await.unwrap();
    }
    let gone = grant(file, &name("gone", "lease"), &me).await;
    let release = Release::grant(gone.name, me, gone.token);
    file.release(&release).await.unwrap();
}
