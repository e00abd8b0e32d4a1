//! The index by which sweeps find what is due, and the size of the file.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{
    Acquire, Acquired, Confirm, Inbox, Names, Release, Released, SetCapacity, Sweep, Withdraw,
};
use leasehold_core::record_store::RETENTION;
use leasehold_core::{
    Backend as _, Clock as _, Holder, Kind, Lease, Metadata, Name, Owner, SystemClock, Timestamp,
    Units,
};
use leasehold_file::{File, Sync};
use tokio::sync::watch;

use crate::worker::books::Books;
use crate::worker::requests::{
    Site, acquire, keys, look, millis, name, release, renew, seconds, soon, sweep, take, try_take,
};
use crate::worker::seeded::{Seeded, effort, seed};
use crate::{FIRST, SECOND};

/// S15.
#[tokio::test]
async fn a_lease_renewed_many_times_is_found_when_it_is_due_and_not_before() {
    let site = Site::lazy();
    let (k, me) = (name("k"), Holder::random());
    let store = site.open(FIRST).await;
    let lease = take(&store, &k, &me, seconds(10)).await;
    for _ in 0..200 {
        site.clock.advance(seconds(1));
        renew(&store, &lease, &me, seconds(10)).await;
        assert!(keys(&sweep(&store).await).is_empty());
    }
    site.clock.advance(millis(9999));
    assert!(keys(&sweep(&store).await).is_empty());
    site.clock.advance(millis(1));
    assert_eq!(keys(&sweep(&store).await), ["k"]);
    drop(store);
    assert_eq!(Books::read(&site.path()).due.len(), 1);
    site.clock.advance(RETENTION);
    let store = site.open(FIRST).await;
    assert_eq!(sweep(&store).await.forgotten, 1);
    drop(store);
    let books = Books::read(&site.path());
    assert_eq!((books.records.len(), books.due.len()), (0, 0));
}

/// Each lease shorter than the one before, so that the index stands late unless it is touched.
#[tokio::test]
async fn a_lease_retaken_for_less_time_is_found_when_it_is_due() {
    let site = Site::lazy();
    let (k, me) = (name("k"), Holder::random());
    let store = site.open(FIRST).await;
    for ttl in (1..=100).rev() {
        let lease = take(&store, &k, &me, seconds(1000 * ttl)).await;
        release(&store, &lease, &me).await;
    }
    take(&store, &k, &me, seconds(1)).await;
    site.clock.advance(seconds(1));
    assert_eq!(keys(&sweep(&store).await), ["k"]);
    drop(store);
    let books = Books::read(&site.path());
    books.assert_right();
    assert_eq!(books.due.len(), 1);
}

/// A sweep that says there is no more must have seen all there is: who sweeps until then would go to sleep.
#[tokio::test]
async fn a_sweep_that_says_there_is_no_more_has_passed_by_all_leases_that_were_renewed() {
    let site = Site::lazy();
    let store = site.open(FIRST).await;
    let me = Holder::random();
    for at in 0..1500 {
        let lease = take(&store, &name(&format!("renewed-{at}")), &me, seconds(10)).await;
        renew(&store, &lease, &me, seconds(1000)).await;
    }
    take(&store, &name("over"), &me, seconds(11)).await;
    site.clock.advance(seconds(12));
    let mut found = Vec::new();
    loop {
        let swept = sweep(&store).await;
        found.extend(keys(&swept));
        if !swept.more {
            break;
        }
    }
    assert_eq!(found, ["over"]);
}

/// A sweep of one namespace leaves the rest to others, however much there is of it.
#[tokio::test]
async fn a_narrow_sweep_finds_its_own_among_much_that_is_not_its_concern() {
    let site = Site::lazy();
    let store = site.open(FIRST).await;
    let me = Holder::random();
    for at in 0..700 {
        take(&store, &name(&format!("other-{at}")), &me, seconds(1)).await;
    }
    let mine = Name::new("mine", "k").unwrap();
    take(&store, &mine, &me, seconds(2)).await;
    site.clock.advance(seconds(3));
    let request = Sweep::all(1).only("mine", Kind::Lock);
    let swept = soon("sweep", store.sweep(&request)).await.unwrap();
    assert_eq!((keys(&swept), swept.more), (vec!["k".to_owned()], false));
}

/// Everything that can be done to forty names, at random.
struct Churn {
    site: Site,
    store: Option<File>,
    rng: Seeded,
    holders: Vec<Holder>,
    starts: u64,
    leases: Vec<(Lease, Holder)>,
}

impl Churn {
    async fn begin(seed: u64) -> Self {
        let site = Site::lazy();
        let store = Some(site.open(Some("0")).await);
        Self {
            site,
            store,
            rng: Seeded::new(seed),
            holders: (0..5).map(|_| Holder::random()).collect(),
            starts: 0,
            leases: Vec::new(),
        }
    }

    fn store(&self) -> &File {
        self.store.as_ref().unwrap()
    }

    fn name(&mut self) -> Name {
        name(&format!("k{}", self.rng.below(40)))
    }

    fn request(&mut self) -> (Acquire, Holder) {
        let (name, holder) = (self.name(), self.rng.pick(&self.holders).clone());
        let ttl = millis(1 + self.rng.below(120_000));
        let mut request = acquire(&name, &holder, ttl).units(Units::MIN, Units::new(2).unwrap());
        request.kind = *self.rng.pick(&[Kind::Lock, Kind::Reservation]);
        if self.rng.once_in(4) {
            request = request.lock_delay(millis(self.rng.below(30_000))).unwrap();
        }
        if self.rng.once_in(2) {
            request = request.queue(Inbox::new(|_| {}).id());
        }
        (request, holder)
    }

    async fn acquire(&mut self) {
        let (request, holder) = self.request();
        // Refused if the holder has it on other terms.
        let answer = self.store().acquire(&request).await;
        if let Ok(Acquired::Granted(leases)) = answer {
            self.leases.push((leases[0].clone(), holder));
        }
    }

    /// Does something to a lease of old, which may be over by now.
    async fn change(&mut self) {
        if self.leases.is_empty() {
            return;
        }
        let (lease, holder) = self.rng.pick(&self.leases).clone();
        let (name, token) = (lease.name.clone(), lease.token);
        match self.rng.below(6) {
            0 | 1 => {
                let ttl = millis(1 + self.rng.below(120_000));
                renew(self.store(), &lease, &holder, ttl).await;
            }
            2 => drop(release(self.store(), &lease, &holder).await),
            3 => {
                let request = Confirm::new(name, token, holder, "e").unwrap();
                // Only reservations can be confirmed.
                let _ = self.store().confirm(&request).await;
            }
            4 => {
                let (claims, spend) = ([(name, token)].into_iter().collect(), false);
                let request = Release::Claims {
                    holder,
                    claims,
                    spend,
                };
                self.store().release(&request).await.unwrap();
            }
            _ => {
                let names = Names::one(name);
                let request = Withdraw { names, holder };
                self.store().withdraw(&request).await.unwrap();
            }
        }
    }

    async fn set(&mut self) {
        let name = self.name();
        if self.rng.once_in(2) {
            let by = Owner::new("boss").unwrap();
            let request = Release::force(name, None, by, "because").unwrap();
            self.store().release(&request).await.unwrap();
        } else {
            let units = self.rng.once_in(3).then_some(2);
            let request = SetCapacity {
                name,
                units,
                expect_version: None,
            };
            self.store().set_capacity(&request).await.unwrap();
        }
    }

    async fn sweep_a_little(&mut self) {
        let limit = usize::try_from(1 + self.rng.below(5)).unwrap();
        let mut request = Sweep::all(limit);
        if self.rng.once_in(3) {
            request = request.only("n", Kind::Lock);
        }
        if self.rng.once_in(4) {
            request = request.dry_run();
        }
        self.store().sweep(&request).await.unwrap();
    }

    async fn sweep_all(&self) {
        while sweep(self.store()).await.more {}
    }

    async fn step(&mut self) {
        match self.rng.below(20) {
            0..8 => self.acquire().await,
            8..14 => self.change().await,
            14 => self.set().await,
            15 | 16 => self.sweep_a_little().await,
            _ => self.site.clock.advance(millis(self.rng.below(20_000))),
        }
    }

    /// Closes the file, judges its books, and opens it again.
    async fn audit(&mut self) -> Books {
        drop(self.store.take());
        let books = Books::read(&self.site.path());
        books.assert_right();
        if self.rng.once_in(3) {
            self.starts += 1;
            let forward = self.site.clock.wall().after(seconds(self.rng.below(3)));
            self.site.clock.set_wall(forward);
        }
        let start = self.starts.to_string();
        self.store = Some(self.site.open(Some(&start)).await);
        books
    }

    async fn now(&self) -> Timestamp {
        self.store().get(&name("k0")).await.unwrap().now
    }
}

/// S15, seeded: nothing due is overlooked, and nothing stays in the index that does not belong there.
#[tokio::test]
async fn the_index_overlooks_nothing_and_keeps_nothing() {
    let seed = seed();
    println!("seed {seed}");
    let mut churn = Churn::begin(seed).await;
    for _ in 0..20 * effort() {
        for _ in 0..150 {
            churn.step().await;
        }
        churn.audit().await;
        churn.sweep_all().await;
        let now = churn.now().await;
        for (name, (_, record)) in churn.audit().await.records {
            let due = record.due_at(RETENTION);
            assert!(
                due.is_none_or(|due| due > now),
                "seed {seed}: {name} was due and is {record:?}"
            );
        }
    }
    // By then all leases, tickets and delays are over, and what is left of them can be forgotten.
    for _ in 0..10 {
        churn.site.clock.advance(seconds(1000));
        churn.sweep_all().await;
    }
    let books = churn.audit().await;
    assert_eq!(books.due, [], "seed {seed}");
    let idle: Vec<_> = books
        .records
        .values()
        .filter(|(_, r)| r.is_idle())
        .collect();
    assert!(idle.is_empty(), "seed {seed}: {idle:?}");
}

const MIB: u64 = 1024 * 1024;

/// S15.
#[tokio::test]
async fn taking_and_releasing_the_same_names_for_ever_does_not_grow_the_file() {
    let site = Site::lazy();
    let store = site.open(FIRST).await;
    let me = Holder::random();
    let names: Vec<_> = (0..50).map(|at| name(&format!("k{at}"))).collect();
    let mut sizes = Vec::new();
    for _ in 0..10 {
        for at in 0..2_000 {
            let lease = take(&store, &names[at % 50], &me, seconds(30)).await;
            release(&store, &lease, &me).await;
        }
        sizes.push(site.size());
    }
    drop(store);
    println!("sizes {sizes:?}, closed {}", site.size());
    assert!(sizes.iter().all(|size| *size < 4 * MIB), "{sizes:?}");
    let books = Books::read(&site.path());
    books.assert_right();
    assert_eq!((books.records.len(), books.due.len()), (50, 50));
}

/// S15: names that are never used twice, as for orders, with a sweeper at work.
#[tokio::test]
async fn names_that_are_used_once_do_not_grow_the_file() {
    let site = Site::lazy();
    let store = site.open(FIRST).await;
    let me = Holder::random();
    let mut sizes = Vec::new();
    for round in 0..20 {
        for at in 0..500 {
            let name = name(&format!("order-{round}-{at}"));
            let lease = take(&store, &name, &me, seconds(30)).await;
            if at % 2 == 0 {
                release(&store, &lease, &me).await;
            }
        }
        site.clock.advance(seconds(31));
        while sweep(&store).await.more {}
        sizes.push(site.size());
    }
    println!("sizes {sizes:?}");
    let early = sizes[..5].iter().max().unwrap();
    assert!(sizes.iter().all(|size| size <= early), "{sizes:?}");
    site.clock.advance(RETENTION);
    while sweep(&store).await.more {}
    drop(store);
    let books = Books::read(&site.path());
    assert_eq!((books.records.len(), books.due.len()), (0, 0));
}

/// A file that was large once: thousands of names, of which ten are left.
async fn once_large() -> (Site, File, Vec<(Lease, Holder)>) {
    let site = Site::lazy();
    let store = site.open(FIRST).await;
    let me = Holder::random();
    let text = Metadata::new("x".repeat(3000)).unwrap();
    let mut leases = Vec::new();
    for at in 0..3000 {
        let request =
            acquire(&name(&format!("k{at}")), &me, seconds(1)).metadata(Some(text.clone()));
        leases.push((try_take(&store, &request).await.unwrap(), me.clone()));
    }
    let kept = leases.into_iter().step_by(300).collect::<Vec<_>>();
    for (lease, _) in &kept {
        renew(&store, lease, &me, seconds(10_000)).await;
    }
    site.clock.advance(RETENTION + seconds(1));
    while sweep(&store).await.more {}
    (site, store, kept)
}

async fn all_are_held(store: &File, kept: &[(Lease, Holder)]) {
    for (lease, _) in kept {
        let record = look(store, &lease.name).await.unwrap();
        assert_eq!(record.grants[0].token, lease.token);
        let text = record.grants[0].metadata.as_ref().unwrap();
        assert_eq!(text.as_str().len(), 3000);
    }
}

#[tokio::test]
async fn moving_a_file_together_makes_it_small_again_and_loses_nothing() {
    let (site, store, kept) = once_large().await;
    let large = site.size();
    assert!(soon("compact", store.store().compact()).await.unwrap());
    let small = site.size();
    println!("{large} bytes before, {small} after");
    assert!(small * 4 < large, "{large} before, {small} after");
    all_are_held(&store, &kept).await;
    while soon("compact", store.store().compact()).await.unwrap() {}
    assert!(site.size() <= small);
    let (lease, me) = &kept[0];
    release(&store, lease, me).await;
    drop(store);
    Books::read(&site.path()).assert_right();
    let store = site.open(SECOND).await;
    take(&store, &name("other"), &Holder::random(), seconds(1)).await;
    all_are_held(&store, &kept[1..]).await;
    assert!(look(&store, &lease.name).await.unwrap().grants.is_empty());
}

/// Takes and releases a name of its own until told to stop; nothing may be lost meanwhile. Says how often it did.
async fn work(store: Arc<File>, at: usize, stop: watch::Receiver<bool>) -> u32 {
    let (name, me) = (name(&format!("worker-{at}")), Holder::random());
    let mut rounds = 0;
    while !*stop.borrow() {
        let lease = take(&store, &name, &me, Duration::from_secs(30)).await;
        let record = look(&store, &name).await.unwrap();
        assert_eq!(record.grants[0].token, lease.token);
        let released = release(&store, &lease, &me).await;
        assert_eq!(released, Released::Released);
        rounds += 1;
    }
    rounds
}

/// The guide says: while the store is in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_can_be_moved_together_while_others_work() {
    let (mut site, store, kept) = once_large().await;
    drop(store);
    site.sync = Sync::Always;
    let store = Arc::new(site.open(FIRST).await);
    let large = site.size();
    let (stop, stopped) = watch::channel(false);
    let workers: Vec<_> = (0..8)
        .map(|at| tokio::spawn(work(store.clone(), at, stopped.clone())))
        .collect();
    let mut gained = 0;
    for _ in 0..5 {
        let moved = soon("compact", store.store().compact()).await.unwrap();
        gained += u32::from(moved);
        let later = SystemClock.now().after(millis(30));
        SystemClock.sleep_until(later).await;
    }
    stop.send(true).unwrap();
    let mut rounds = 0;
    for worker in workers {
        rounds += worker.await.unwrap();
    }
    println!("{rounds} rounds of others, {large} to {}", site.size());
    all_are_held(&store, &kept).await;
    assert!(gained > 0 && site.size() * 4 < large);
    drop(store);
    Books::read(&site.path()).assert_right();
}
