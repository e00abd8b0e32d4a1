//! Tokens and versions grow, whatever happens (S3).

use leasehold_core::backend::{CapacitySet, SetCapacity};
use leasehold_core::record_store::RETENTION;
use leasehold_core::{Backend as _, Clock as _, Holder, ManualClock, Timestamp, Token};
use leasehold_file::{File, Sync};

use crate::worker::requests::{
    Site, is_free, look, millis, name, release, seconds, soon, sweep, take,
};
use crate::worker::seeded::{Seeded, effort, seed};
use crate::{FIRST, SECOND};

/// One grant of `k` after another, each with a larger token and a larger version than the one before.
struct Sequence {
    site: Site,
    rng: Seeded,
    starts: u64,
    last: (Token, u64),
    since: Timestamp,
}

impl Sequence {
    fn new(sync: Sync, seed: u64) -> Self {
        let site = Site::with(sync);
        let since = site.clock.wall();
        Self {
            site,
            rng: Seeded::new(seed),
            starts: 0,
            last: (Token::new(0), 0),
            since,
        }
    }

    async fn open(&self) -> File {
        let start = self.starts.to_string();
        self.site.open(Some(&start)).await
    }

    async fn grant(&mut self, store: &File) {
        let (k, holder) = (name("k"), Holder::random());
        let lease = take(store, &k, &holder, seconds(5)).await;
        let version = look(store, &k).await.unwrap().version;
        let (token, before) = self.last;
        assert!(lease.token > token, "{:?} after {token:?}", lease.token);
        assert!(version > before, "version {version} after {before}");
        release(store, &lease, &holder).await;
        let version = look(store, &k).await.unwrap().version;
        self.last = (lease.token, version);
    }

    /// Lets the record be forgotten.
    async fn forget(&self, store: &File) {
        self.site.clock.advance(RETENTION);
        sweep(store).await;
        assert_eq!(look(store, &name("k")).await, None);
    }

    /// The machine restarts, with a wall clock that was right once.
    fn restart_machine(&mut self) {
        self.starts += 1;
        self.site.clock = ManualClock::new();
        self.site.clock.set_wall(self.since);
    }

    async fn run(&mut self, rounds: u64) {
        let mut store = self.open().await;
        for _ in 0..rounds {
            for _ in 0..self.rng.below(3) {
                self.grant(&store).await;
            }
            self.site.clock.advance(millis(self.rng.below(3)));
            if self.rng.once_in(2) {
                self.forget(&store).await;
            }
            if self.rng.once_in(2) {
                self.grant(&store).await;
            }
            drop(store);
            if self.rng.once_in(2) {
                self.restart_machine();
            }
            store = self.open().await;
        }
    }
}

#[tokio::test]
async fn tokens_and_versions_grow_across_reopening_forgetting_and_a_wall_clock_set_back() {
    for sync in [Sync::Always, Sync::Every(millis(20))] {
        let seed = seed();
        println!("seed {seed}");
        Sequence::new(sync, seed).run(25 * effort()).await;
    }
}

/// The disk is late, the process is killed before it follows, the machine restarts with its clock set back: the token that
/// nothing on the disk knows of must not come again.
#[tokio::test]
async fn tokens_that_the_disk_never_saw_do_not_come_back_with_a_wall_clock_set_back() {
    for idle in [seconds(10), seconds(3599), seconds(2 * 3600)] {
        let mut site = Site::with(Sync::Every(millis(500)));
        let wall = site.clock.wall();
        let store = site.open(FIRST).await;
        take(&store, &name("first"), &Holder::random(), seconds(5)).await;
        site.clock.advance(idle);
        let lost = take(&store, &name("k"), &Holder::random(), seconds(5)).await;
        // As after kill -9: what the system has of the file, long before the disk would have followed.
        let killed = site.folder.path().join("killed");
        std::fs::copy(site.path(), &killed).unwrap();
        site.clock = ManualClock::new();
        site.clock.set_wall(wall);
        let store = site.open_at(&killed, SECOND).await.unwrap();
        site.clock.advance(seconds(6));
        let next = take(&store, &name("k"), &Holder::random(), seconds(5)).await;
        assert!(
            next.token > lost.token,
            "{next:?} after {lost:?}, {idle:?} idle"
        );
    }
}

/// It says: acknowledged at once. A pause of a minute must not be a minute for whoever comes first.
#[tokio::test]
async fn a_long_pause_of_the_disk_keeps_nobody_waiting() {
    let site = Site::with(Sync::Every(seconds(60)));
    let store = site.open(FIRST).await;
    let begun = leasehold_core::SystemClock.now();
    take(&store, &name("k"), &Holder::random(), seconds(5)).await;
    site.clock.advance(seconds(2 * 3600));
    take(&store, &name("k"), &Holder::random(), seconds(5)).await;
    let took = leasehold_core::SystemClock.now().since(begun);
    assert!(took < seconds(5), "{took:?}");
}

/// A version that comes back makes the check of versions pass over what happened in between. The clock stands still,
/// as it seems to after a reopening under [`Sync::Every`], when tokens are ahead of it.
#[tokio::test]
async fn a_version_does_not_come_back_when_a_capacity_is_forgotten_and_set_again() {
    let site = Site::new();
    let store = site.open(FIRST).await;
    let set = async |units| {
        let request = SetCapacity {
            name: name("k"),
            units,
            expect_version: None,
        };
        match soon("set_capacity", store.set_capacity(&request)).await {
            Ok(CapacitySet::Set(version)) => version,
            other => panic!("{other:?}"),
        }
    };
    let (first, second, third) = (set(Some(3)).await, set(None).await, set(Some(5)).await);
    assert!(
        first < second && second < third,
        "{first}, {second}, {third}"
    );
    assert!(is_free(&store, &name("k")).await);
}
