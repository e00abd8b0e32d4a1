//! A short piece of work, step by step, for every place at which a disk can fail.

use std::time::Duration;

use leasehold_core::backend::{
    Acquire, Acquired, Amount, Confirm, Confirmed, List, Names, Release, Renew, RenewItem,
    SetCapacity, Sweep, Swept, Withdraw,
};
use leasehold_core::record_store::RecordStore as _;
use leasehold_core::{
    Backend as _, Error, ErrorKind, Kind, Lease, ManualClock, Metadata, Name, Record, Result,
    Token, Units,
};
use leasehold_file::File;

use super::Disk;
use super::calls::{PATH, acquire, all_records, grant, holder, name, open, owner, ttl};
use super::run::{BOOT, Clocks, found_in};
use super::witness::{Mark, Witness};

/// How many names are taken together by the step that needs much room.
const MUCH: usize = 24;
/// When the sweep comes: the set has run out, but nothing is forgotten yet.
const LATER: Duration = Duration::from_secs(40);
/// Which step sweeps.
const SWEEP: usize = 7;
/// The steps that use verbs; after them the file can be moved together.
const VERBS: usize = 8;

/// A store and the one who uses it.
pub struct Short {
    pub disk: Disk,
    pub file: File,
    witness: Witness,
    lock: Option<Lease>,
    set: Vec<Lease>,
    seats: Vec<Lease>,
    /// The step that comes next, and how many there are.
    next: usize,
    steps: usize,
    clock: ManualClock,
    is_later: bool,
}

impl Short {
    /// A store that is open and empty.
    pub async fn new() -> Self {
        let (disk, clock) = (Disk::new(Vec::new()), ManualClock::new());
        let file = open(&disk, &clock, BOOT).await.unwrap();
        Self {
            disk,
            file,
            witness: Witness::default(),
            lock: None,
            set: Vec::new(),
            seats: Vec::new(),
            next: 0,
            steps: VERBS,
            clock,
            is_later: false,
        }
    }

    /// Moves the file together in the end.
    pub fn compacting(mut self) -> Self {
        self.steps = VERBS + 1;
        self
    }

    /// Lets go of the store. What is in its place is another one, with nothing in it.
    pub async fn close(&mut self) {
        let empty = Disk::new(Vec::new());
        let other = open(&empty, &self.clock, BOOT).await.unwrap();
        drop(std::mem::replace(&mut self.file, other));
    }

    /// Works until something fails, and says what; nothing if all was done.
    pub async fn work(&mut self) -> Option<Error> {
        while self.next < self.steps {
            if let Err(error) = self.step().await {
                return Some(error);
            }
            self.next += 1;
        }
        None
    }

    async fn step(&mut self) -> Result<()> {
        match self.next {
            0 => {
                let leases = self
                    .take(&acquire([name("lock", "red")], &holder("me"), 30))
                    .await?;
                self.lock = leases.into_iter().next();
            }
            1 => self.set = self.take(&acquire(set(), &holder("me"), 20)).await?,
            2 => self.renew_set().await?,
            3 => self.seats = self.take(&seats_request()).await?,
            4 => self.confirm_seats().await?,
            5 => self.release_lock().await?,
            6 => drop(self.take(&much_request()).await?),
            SWEEP => self.sweep().await?,
            _ => drop(self.file.store().compact().await?),
        }
        Ok(())
    }

    async fn take(&mut self, request: &Acquire) -> Result<Vec<Lease>> {
        let answer = self.file.acquire(request).await?;
        let Acquired::Granted(leases) = answer else {
            panic!("not granted: {answer:?}");
        };
        for lease in &leases {
            self.witness.saw_token(0, lease.token);
        }
        self.saw(request.names.as_slice()).await;
        Ok(leases.into_vec())
    }

    async fn renew_set(&mut self) -> Result<()> {
        let item = |lease: &Lease| {
            RenewItem::lease(lease.name.clone(), holder("me"), lease.token, ttl(30))
        };
        let items = self.set.iter().map(item).collect();
        let answers = self.file.renew(&Renew { items }).await?;
        answers.into_iter().collect::<Result<Vec<_>>>()?;
        self.saw(&set()).await;
        Ok(())
    }

    async fn confirm_seats(&mut self) -> Result<()> {
        let items = self
            .seats
            .iter()
            .map(|lease| (lease.name.clone(), lease.token));
        let request = Confirm::all(items.collect(), holder("me"), "order 7")?;
        let answer = self.file.confirm(&request).await?;
        assert!(matches!(answer, Confirmed::Confirmed(_)), "{answer:?}");
        self.saw(&seats()).await;
        Ok(())
    }

    async fn release_lock(&mut self) -> Result<()> {
        let lease = self.lock.clone().unwrap();
        let request = Release::grant(lease.name.clone(), holder("me"), lease.token);
        self.file.release(&request).await?;
        self.saw(&[lease.name]).await;
        Ok(())
    }

    /// Sweeps when the set has run out.
    async fn sweep(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.is_later, true) {
            self.clock.advance(LATER);
        }
        // A sweep that has done something before it failed says only that there is more to do.
        while self.file.sweep(&Sweep::all(100)).await?.more {}
        self.saw(&set()).await;
        Ok(())
    }

    /// Notes what was acknowledged.
    async fn saw(&mut self, names: &[Name]) {
        let mut marks = Vec::new();
        for name in names {
            let record = self.file.store().read(name).await.unwrap().what;
            let version = record.as_ref().map_or(0, |record| record.version);
            marks.push((name.clone(), Mark::Version(version)));
            self.witness.saw_state(0, name, record);
        }
        self.witness.saw_together(marks);
    }

    /// Everything that was acknowledged is in a store, and of what failed all or nothing.
    pub async fn is_all_in(&self, file: &File, said: &str) {
        let found = found_in(file).await;
        let touched = |record: &Record| {
            // The step that failed may have done what nobody saw.
            self.witness.has_seen(&record.name)
        };
        let seen = found.iter().filter(|(_, record)| touched(record));
        let seen = seen
            .map(|(name, record)| (name.clone(), record.clone()))
            .collect();
        let problems = self.witness.problems(0, &seen);
        assert!(problems.is_empty(), "{said}: {problems:#?}");
        // What is swept is not swept in one step.
        let whole = if self.next < SWEEP {
            vec![set(), seats(), much()]
        } else {
            vec![seats()]
        };
        for names in whole {
            let there = names.iter().filter_map(|name| found.get(name));
            let versions: Vec<_> = there.map(shape).collect();
            let is_whole = versions.is_empty() || versions.len() == names.len();
            let is_even = versions.windows(2).all(|pair| pair[0] == pair[1]);
            assert!(
                is_whole && is_even,
                "{said}: half of it is there: {versions:?}"
            );
        }
    }

    /// The largest token anybody has seen.
    pub fn highest(&self) -> Token {
        self.witness.highest_token_at(0)
    }

    /// A stranger gets something new, with a token above all others.
    pub async fn goes_on(&mut self, key: &str, said: &str) {
        let lease = grant(&self.file, &name("new", key), &holder("stranger")).await;
        let highest = self.highest();
        assert!(
            lease.token > highest,
            "{said}: {lease:?} is not above {highest}"
        );
        self.witness.saw_token(0, lease.token);
        self.saw(&[lease.name]).await;
    }

    /// Opens what a crash would have left now, on a machine whose wall clock is set back.
    pub async fn survives(&self, image: Vec<u8>, said: &str) {
        let (clock, boot) = Clocks::SetBack.at(LATER);
        let disk = Disk::new(image);
        let opened = open(&disk, &clock, boot).await;
        let file = opened.unwrap_or_else(|error| panic!("{said}: {error}"));
        self.is_all_in(&file, said).await;
        let lease = grant(&file, &name("new", "life"), &holder("stranger")).await;
        let highest = self.highest();
        assert!(
            lease.token > highest,
            "{said}: {lease:?} is not above {highest}"
        );
    }

    /// Nothing is in the store that was not acknowledged. A sweep is left out: it acknowledges all that it did at once.
    pub async fn has_nothing_else(&self, said: &str) {
        if self.next != SWEEP {
            let unseen = self.witness.unseen(&found_in(&self.file).await);
            assert_eq!(unseen, 0, "{said}: it has what nobody was told of");
        }
    }

    /// Every verb fails, and says on which file and what to do about it.
    pub async fn refuses_everything(&self, said: &str) {
        let (lock, me) = (name("lock", "red"), holder("me"));
        let token = Token::new(1);
        let names = Names::one(lock.clone());
        let item = RenewItem::lease(lock.clone(), me.clone(), token, ttl(30));
        let renew = Renew { items: vec![item] };
        let withdraw = Withdraw {
            names: names.clone(),
            holder: me.clone(),
        };
        let capacity = SetCapacity {
            name: lock.clone(),
            units: Some(7),
            expect_version: None,
        };
        let force = Release::force(lock.clone(), None, owner(), "a test").unwrap();
        let release = Release::grant(lock.clone(), me.clone(), token);
        let confirm = Confirm::new(lock.clone(), token, me.clone(), "order 9").unwrap();
        let file = &self.file;
        let answers = [
            (
                "acquire",
                file.acquire(&acquire([lock], &me, 30)).await.map(drop),
            ),
            (
                "acquire",
                file.acquire(&acquire([name("new", "k")], &me, 30))
                    .await
                    .map(drop),
            ),
            ("renew", file.renew(&renew).await.map(drop)),
            ("release", file.release(&release).await.map(drop)),
            ("force", file.release(&force).await.map(drop)),
            ("confirm", file.confirm(&confirm).await.map(drop)),
            ("withdraw", file.withdraw(&withdraw).await.map(drop)),
            ("set_capacity", file.set_capacity(&capacity).await.map(drop)),
            ("compact", file.store().compact().await.map(drop)),
        ];
        for (verb, answer) in answers {
            let Err(error) = answer else {
                panic!("{said}: {verb} worked on a store that has failed");
            };
            tells_what_to_do(&error, &format!("{said}: {verb}"));
        }
        // A sweep looks first, and may find that there is nothing to do.
        match file.sweep(&Sweep::all(10)).await {
            Ok(swept) => assert_eq!(swept, Swept::default(), "{said}"),
            Err(error) => tells_where(&error, said),
        }
    }

    /// Looking shows what was acknowledged, or fails; it never shows what was not.
    pub async fn shows_nothing_wrong(&self, said: &str) {
        match all_records(&self.file).await {
            Ok(_) => {
                self.is_all_in(&self.file, said).await;
                self.has_nothing_else(said).await;
            }
            Err(error) => tells_where(&error, said),
        }
        for name in [name("lock", "red"), name("set", "a"), name("seat", "1")] {
            if let Err(error) = self.file.get(&name).await {
                tells_where(&error, said);
            }
        }
        if let Err(error) = self.file.list(&List::all()).await {
            tells_where(&error, said);
        }
    }
}

/// The error of a store that has stopped.
pub fn tells_what_to_do(error: &Error, said: &str) {
    tells_where(error, said);
    assert!(error.to_string().contains("recover"), "{said}: {error}");
}

/// The error of a store that cannot use its file just now.
pub fn tells_where(error: &Error, said: &str) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{said}: {error}");
    assert!(error.to_string().contains(PATH), "{said}: {error}");
}

/// How far the record of one of several names has come, without what differs between them anyway.
fn shape(record: &Record) -> (usize, usize, bool) {
    let ends = record.last_end.is_some();
    (record.grants.len(), record.claims.len(), ends)
}

fn set() -> Vec<Name> {
    ["a", "b", "c"].map(|key| name("set", key)).to_vec()
}

fn seats() -> Vec<Name> {
    ["1", "2"].map(|key| name("seat", key)).to_vec()
}

fn much() -> Vec<Name> {
    (0..MUCH).map(|at| name("much", &at.to_string())).collect()
}

fn seats_request() -> Acquire {
    let request = acquire(seats(), &holder("me"), 120).kind(Kind::Reservation);
    request.each(|_| Amount {
        units: Units::MIN,
        limit: 10,
    })
}

fn much_request() -> Acquire {
    let text = Metadata::new("x".repeat(Metadata::MAX_BYTES)).unwrap();
    acquire(much(), &holder("me"), 300).metadata(Some(text))
}
