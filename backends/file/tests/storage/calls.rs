//! Requests as these tests make them, and a small seeded generator.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{Acquire, Acquired, List, Names};
use leasehold_core::record_store::RecordStore as _;
use leasehold_core::{Backend as _, Holder, Lease, ManualClock, Name, Owner, Record, Result, Ttl};
use leasehold_file::{File, Options};

use super::Disk;

/// The path in every message of a store that is on a [`Disk`].
pub const PATH: &str = "/disk/leases.redb";

pub fn name(namespace: &str, key: &str) -> Name {
    Name::new(namespace, key).unwrap()
}

pub fn ttl(secs: u64) -> Ttl {
    Ttl::new(Duration::from_secs(secs)).unwrap()
}

pub fn owner() -> Owner {
    Owner::new("test").unwrap()
}

/// The same holder each time, so that the same bytes are written each time.
pub fn holder(who: &str) -> Holder {
    Holder::derived([who])
}

pub fn acquire(names: impl IntoIterator<Item = Name>, holder: &Holder, secs: u64) -> Acquire {
    let names = Names::new(names).unwrap();
    Acquire::new(names, holder.clone(), owner(), ttl(secs))
}

/// Takes a name that must be free.
pub async fn grant(file: &File, name: &Name, holder: &Holder) -> Lease {
    match file.acquire(&acquire([name.clone()], holder, 30)).await {
        Ok(Acquired::Granted(mut leases)) => leases.remove(0),
        other => panic!("{name} was not granted: {other:?}"),
    }
}

/// The clock of a store at this long after it was made, under a boot of this name.
pub fn clock_at(offset: Duration) -> ManualClock {
    let clock = ManualClock::new();
    clock.advance(offset);
    clock
}

pub fn options(clock: &ManualClock, boot: &str) -> Options {
    Options::new(PATH).clock(Arc::new(clock.clone()), Some(boot))
}

pub async fn open_with(options: Options, disk: &Disk) -> Result<File> {
    let disk = disk.clone();
    options.open_on(move || disk.clone()).await
}

pub async fn open(disk: &Disk, clock: &ManualClock, boot: &str) -> Result<File> {
    open_with(options(clock, boot), disk).await
}

/// Everything that is stored, as it is stored.
pub async fn all_records(file: &File) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut request = List::all();
    loop {
        let page = file.store().scan(&request).await?.what;
        request.after = page.items.last().map(|record| record.name.clone());
        records.extend(page.items);
        if !page.more {
            return Ok(records);
        }
    }
}

/// A small seeded generator (SplitMix64): the same numbers for the same seed, on every machine and for ever.
#[derive(Debug, Clone)]
pub struct Seeded(u64);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// How much more than usual to do: `LEASEHOLD_LONG` asks for all there is.
pub fn is_long() -> bool {
    #[allow(
        clippy::disallowed_methods,
        reason = "a test is told by its environment how long it may take"
    )]
    let long = std::env::var("LEASEHOLD_LONG");
    long.is_ok_and(|value| !value.is_empty() && value != "0")
}
