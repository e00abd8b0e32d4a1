//! A run of the store and the crashes it could have met.

use std::time::Duration;

use leasehold_conformance::history::{Did, Entry, Saw};
use leasehold_core::backend::{Acquired, Sweep};
use leasehold_core::record_store::RETENTION;
use leasehold_core::{Backend as _, Clock as _, ManualClock, Timestamp, Token};
use leasehold_file::{File, Options, Sync};

use super::Disk;
use super::calls::{acquire, all_records, clock_at, grant, holder, name, open_with, options};
use super::crash::Survives;
use super::witness::{Found, Witness};
use super::work::{LOCKS, World, tokens_in};

/// The boot under which all work is done.
pub const BOOT: &str = "first boot";

/// A crash: when, and what it leaves.
#[derive(Debug, Clone, Copy)]
pub struct Crash {
    pub moment: usize,
    pub survives: Survives,
}

impl Crash {
    /// The three ways in which one can go at a moment.
    pub fn all_at(moment: usize) -> [Self; 3] {
        let some = Survives::Some(moment as u64);
        [Survives::Nothing, Survives::Everything, some].map(|survives| Self { moment, survives })
    }
}

/// How a file is opened again, which must make no difference: in neither case does time help to keep tokens apart.
#[derive(Debug, Clone, Copy)]
pub enum Clocks {
    /// The process was started again at once.
    Stand,
    /// The machine was started again, and its battery is empty: the wall clock is back where it was an hour ago.
    SetBack,
}

impl Clocks {
    pub fn at(self, offset: Duration) -> (ManualClock, &'static str) {
        let clock = clock_at(offset);
        match self {
            Self::Stand => (clock, BOOT),
            Self::SetBack => {
                let wall = clock.wall().as_millis() - 3_600_000;
                clock.set_wall(Timestamp::from_millis(wall));
                (clock, "second boot")
            }
        }
    }
}

/// A run without a crash, and what everybody saw in it.
pub struct Run {
    sync: Sync,
    pub disk: Disk,
    witness: Witness,
    /// When the file was there. A crash before that leaves one that is made anew.
    pub begin: usize,
}

impl Run {
    pub async fn new(sync: Sync) -> Self {
        let (disk, clock) = (Disk::new(Vec::new()), ManualClock::new());
        let file = open_with(Self::options(sync, &clock, BOOT), &disk).await;
        let begin = disk.moment();
        let world = World::new(disk, clock, file.unwrap());
        world.work().await;
        let (disk, witness) = world.close().await;
        Self {
            sync,
            disk,
            witness,
            begin,
        }
    }

    fn options(sync: Sync, clock: &ManualClock, boot: &str) -> Options {
        options(clock, boot).sync(sync).unwrap()
    }

    /// Opens what a crash has left, and holds it against what everybody saw before it.
    pub async fn examine(&self, crash: Crash, clocks: Clocks, disk: &Disk) -> Examined {
        let said = format!("{crash:?}, {clocks:?}");
        let (clock, boot) = clocks.at(self.witness.offset_at(crash.moment));
        let opened = open_with(Self::options(self.sync, &clock, boot), disk).await;
        let file = opened.unwrap_or_else(|error| panic!("{said}: {error}"));
        let found = found_in(&file).await;
        let problems: Vec<String> = match self.sync {
            Sync::Always => self.witness.problems(crash.moment, &found),
            _ => self.witness.unlike(&found).collect(),
        };
        assert!(problems.is_empty(), "{said}: {problems:#?}");
        let opened_at = disk.moment();
        let highest = self.witness.highest_token_at(crash.moment);
        let after = try_names(&file, highest, &said).await;
        if self.sync == Sync::Always {
            let now = clock.now().as_nanos();
            let violations = self.witness.judge(crash.moment, now, &after);
            assert!(violations.is_empty(), "{said}: {violations:#?}");
        }
        let unseen = self.witness.unseen(&found);
        Examined {
            file,
            clock,
            opened_at,
            unseen,
        }
    }
}

/// A store after a crash in which nothing was found wrong.
pub struct Examined {
    file: File,
    clock: ManualClock,
    /// When the disk had it open.
    pub opened_at: usize,
    /// In how many records it has a version that nobody saw.
    pub unseen: usize,
}

/// What is stored, by name.
pub async fn found_in(file: &File) -> Found {
    let records = all_records(file).await.unwrap();
    let named = records
        .into_iter()
        .map(|record| (record.name.clone(), record));
    named.collect()
}

/// A stranger wants a name that nobody ever had, and then each lock; the answers are for the judges.
async fn try_names(file: &File, highest: Token, said: &str) -> Vec<Entry> {
    let stranger = holder("stranger");
    let lease = grant(file, &name("new", "name"), &stranger).await;
    assert!(
        lease.token > highest,
        "{said}: {lease:?} is not above {highest}"
    );
    let mut entries = Vec::new();
    for key in LOCKS {
        let lock = name("lock", key);
        let answer = file.acquire(&acquire([lock.clone()], &stranger, 20)).await;
        if let Ok(granted @ Acquired::Granted(_)) = &answer {
            let token = tokens_in(granted)[0];
            assert!(token > highest, "{said}: {token} is not above {highest}");
        }
        let at = 2 * entries.len() as u64;
        let did = Did::Acquire {
            holder: 99,
            ttl_ms: 20_000,
        };
        entries.push(Entry {
            client: 99,
            name: lock.encoded().to_owned(),
            start: at,
            end: Some(at + 1),
            did,
            saw: Saw::acquired(&answer),
        });
    }
    entries
}

impl Examined {
    /// Checks that the index of what is due has not parted from the records: in time everything runs out and is forgotten
    /// but for what was confirmed or set.
    pub async fn forgets_in_time(&self, said: &str) {
        let (file, clock) = (&self.file, &self.clock);
        for pause in [Duration::from_secs(3600), RETENTION, RETENTION] {
            clock.advance(pause);
            let swept = file.sweep(&Sweep::all(1000)).await.unwrap();
            assert!(!swept.more, "{said}: {swept:?}");
        }
        for (name, record) in found_in(file).await {
            let lasts = !record.claims.is_empty() || record.capacity.is_some();
            assert!(
                lasts && record.grants.is_empty(),
                "{said}: {name} is left: {record:?}"
            );
        }
    }
}
