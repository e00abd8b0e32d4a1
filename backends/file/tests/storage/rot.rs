//! A store that does not fit into its memory, and whose disk changes under it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use leasehold_core::backend::{Acquired, List, Release, Released, Sweep};
use leasehold_core::{
    Backend as _, Error, ErrorKind, ManualClock, Metadata, Name, Record, Result, Token,
};
use leasehold_file::{File, Options};

use super::Disk;
use super::calls::{PATH, acquire, all_records, clock_at, holder, name, open_with, options};
use super::child::Outcome;
use super::run::BOOT;
use super::sample::block_on;

/// Enough that not all of it stays in memory.
const NAMES: usize = 240;
const CACHE: usize = 1024 * 1024;

/// A large store.
#[derive(Debug)]
pub struct Rotting {
    pub image: Vec<u8>,
    records: BTreeMap<Name, Record>,
}

/// What was done to a store whose disk is rotten, as far as it was acknowledged.
#[derive(Debug, Default)]
struct Done {
    taken: Vec<(Name, Token)>,
    released: Vec<Name>,
    /// How often the store has said that something is wrong.
    told: usize,
}

fn key(at: usize) -> Name {
    name("large", &format!("{at:03}"))
}

fn small(clock: &ManualClock) -> Options {
    options(clock, BOOT).cache(CACHE).unwrap()
}

impl Rotting {
    pub fn new() -> Self {
        block_on(async {
            let (disk, clock) = (Disk::new(Vec::new()), ManualClock::new());
            let file = open_with(small(&clock), &disk).await.unwrap();
            let names: Vec<Name> = (0..NAMES).map(key).collect();
            let text = Metadata::new("x".repeat(Metadata::MAX_BYTES)).unwrap();
            for names in names.chunks(60) {
                let request = acquire(names.iter().cloned(), &holder("me"), 600);
                let answer = file.acquire(&request.metadata(Some(text.clone()))).await;
                assert!(matches!(answer, Ok(Acquired::Granted(_))));
            }
            let records = all_records(&file).await.unwrap().into_iter();
            let records = records.map(|record| (record.name.clone(), record));
            Self {
                records: records.collect(),
                image: disk.after_crash(super::crash::Survives::Everything),
            }
        })
    }

    /// Opens the store on a disk that has its image.
    pub async fn open(&self, disk: &Disk, clock: &ManualClock) -> Result<File> {
        open_with(small(clock), disk).await
    }

    /// The names that are held.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.records.keys()
    }

    /// What becomes of a store whose disk changes like this while it is open.
    pub fn outcome(&self, rot: impl FnOnce(&mut Vec<u8>)) -> Outcome {
        let used = catch_unwind(AssertUnwindSafe(|| block_on(self.outcome_of(rot))));
        used.unwrap_or_else(|_| Err("a panic got out".to_owned()))
    }

    async fn outcome_of(&self, rot: impl FnOnce(&mut Vec<u8>)) -> Outcome {
        let (disk, clock) = (
            Disk::new(self.image.clone()),
            clock_at(Duration::from_secs(1)),
        );
        let file = open_with(small(&clock), &disk).await.unwrap();
        disk.rot(rot);
        let mut done = Done::default();
        self.look(&file, &mut done).await?;
        self.change(&file, &mut done).await?;
        drop(file);
        let again = open_with(small(&clock), &disk).await;
        match again {
            Ok(file) => self.is_kept(&file, &done).await,
            Err(error) => {
                expected(&error)?;
                Ok("told when it was opened again")
            }
        }
    }

    /// Reading gives what was written, or an error.
    async fn look(&self, file: &File, done: &mut Done) -> Result<(), String> {
        for (name, record) in &self.records {
            match file.get(name).await {
                Ok(seen) if seen.what.as_ref() == Some(record) => {}
                Ok(seen) => return Err(format!("{name} is something else: {:?}", seen.what)),
                Err(error) => done.note(&error)?,
            }
        }
        match file.list(&List::all()).await {
            Ok(page) if page.what.items.len() == NAMES => {}
            Ok(page) => return Err(format!("only {} are listed", page.what.items.len())),
            Err(error) => done.note(&error)?,
        }
        let swept = file.sweep(&Sweep::default()).await;
        swept.map_or_else(|error| done.note(&error), |_| Ok(()))
    }

    /// A held name is not granted, whatever the disk says; others are, and stay.
    async fn change(&self, file: &File, done: &mut Done) -> Result<(), String> {
        for at in (0..NAMES).step_by(40) {
            let stranger = holder("stranger");
            match file.acquire(&acquire([key(at)], &stranger, 600)).await {
                Ok(Acquired::Held(_)) => {}
                Ok(other) => return Err(format!("{} is held, but: {other:?}", key(at))),
                Err(error) => done.note(&error)?,
            }
            let fresh = name("fresh", &at.to_string());
            match file
                .acquire(&acquire([fresh.clone()], &stranger, 600))
                .await
            {
                Ok(Acquired::Granted(leases)) => done.taken.push((fresh, leases[0].token)),
                Ok(other) => return Err(format!("a free name was refused: {other:?}")),
                Err(error) => done.note(&error)?,
            }
            let token = self.records[&key(at)].last_token;
            let release = Release::grant(key(at), holder("me"), token);
            match file.release(&release).await.as_deref() {
                Ok([Released::Released]) => done.released.push(key(at)),
                Ok(other) => return Err(format!("{} is mine, but: {other:?}", key(at))),
                Err(error) => done.note(error)?,
            }
        }
        Ok(())
    }

    /// What was acknowledged while the disk was rotten is there if the file opens again.
    async fn is_kept(&self, file: &File, done: &Done) -> Outcome {
        for (name, token) in &done.taken {
            let seen = file.get(name).await.map_err(|error| error.to_string())?;
            let held = seen.what.and_then(|record| record.holding());
            if held.is_none_or(|held| held.token != *token) {
                return Err(format!("{name} was granted and is not held"));
            }
        }
        for name in &done.released {
            let seen = file.get(name).await.map_err(|error| error.to_string())?;
            if seen.what.is_some_and(|record| !record.grants.is_empty()) {
                return Err(format!("{name} was released and is still held"));
            }
        }
        Ok(if done.told == 0 {
            "as it was"
        } else {
            "told while it was open"
        })
    }
}

impl Done {
    fn note(&mut self, error: &Error) -> Result<(), String> {
        self.told += 1;
        expected(error)
    }
}

/// Damage, or what a store says once it has stopped because of it.
fn expected(error: &Error) -> Result<(), String> {
    let names_it = error.to_string().contains(PATH);
    match error.kind() {
        ErrorKind::Corrupt | ErrorKind::Unavailable if names_it => Ok(()),
        _ => Err(format!("told as {error:?}")),
    }
}
