//! When leases end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::backend::{Acquired, BlockedBy, List, Sweep};
use leasehold_core::{Backend as _, Clock as _, Holder, ManualClock, Timestamp};
use leasehold_file::File;

use crate::worker::requests::{
    Site, acquire, is_free, keys, look, millis, name, seconds, soon, take, try_take,
};
use crate::worker::seeded::{Seeded, effort, seed};
use crate::{FIRST, SECOND, UNKNOWN};

/// What somebody may do to the wall clock while nobody looks.
const STEPS: [fn(Timestamp) -> Timestamp; 4] = [
    |wall| wall,
    |_| Timestamp::from_millis(0),
    |wall| Timestamp::from_millis(wall.as_millis().saturating_sub(3_600_000)),
    |wall| wall.after(Duration::from_secs(10 * 366 * 24 * 3600)),
];

/// Somebody changes something else.
async fn write_something(store: &File) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let key = format!("other-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    take(store, &name(&key), &Holder::random(), millis(1)).await;
}

/// F14, S12.
#[tokio::test]
async fn under_the_same_start_a_lease_ends_when_promised_whatever_the_wall_clock_says() {
    for step in STEPS {
        let site = Site::new();
        let k = name("k");
        let store = site.open(FIRST).await;
        let lease = take(&store, &k, &Holder::random(), seconds(30)).await;
        site.clock.advance(seconds(10));
        drop(store);
        site.clock.advance(seconds(5));
        site.clock.set_wall(step(site.clock.wall()));
        let store = site.open(FIRST).await;
        let grant = &look(&store, &k).await.unwrap().grants[0];
        assert_eq!(
            (grant.token, grant.expires_at),
            (lease.token, lease.expires_at)
        );
        site.clock.advance(millis(14_999));
        assert!(!is_free(&store, &k).await, "it ended early");
        site.clock.advance(millis(1));
        assert!(is_free(&store, &k).await, "it ended late");
    }
}

/// S12: neither less than was left when it was closed, nor more.
#[tokio::test]
async fn under_another_start_a_lease_gets_what_was_left_of_it_whatever_the_wall_clock_says() {
    let starts = [
        (FIRST, SECOND),
        (FIRST, UNKNOWN),
        (UNKNOWN, FIRST),
        (UNKNOWN, UNKNOWN),
    ];
    for (before, after) in starts {
        for step in STEPS {
            let mut site = Site::new();
            let k = name("k");
            let store = site.open(before).await;
            take(&store, &k, &Holder::random(), seconds(30)).await;
            site.clock.advance(seconds(10));
            drop(store);
            site.clock.advance(seconds(3600));
            let wall = step(site.clock.wall());
            // After a restart the monotonic clock begins anew.
            site.clock = ManualClock::new();
            site.clock.set_wall(wall);
            let store = site.open(after).await;
            write_something(&store).await;
            site.clock.advance(millis(19_999));
            assert!(!is_free(&store, &k).await, "it ended early");
            site.clock.advance(millis(1));
            assert!(is_free(&store, &k).await, "it ended late");
        }
    }
}

/// The process was killed: the last thing the file knows is its last commit.
#[tokio::test]
async fn after_a_kill_and_a_restart_of_the_machine_a_lease_lasts_as_long_as_at_the_last_commit() {
    let site = Site::new();
    let k = name("k");
    let store = site.open(FIRST).await;
    take(&store, &k, &Holder::random(), seconds(30)).await;
    site.clock.advance(seconds(10));
    let killed = site.folder.path().join("killed");
    std::fs::copy(site.path(), &killed).unwrap();
    let store = site.open_at(&killed, SECOND).await.unwrap();
    write_something(&store).await;
    site.clock.advance(millis(29_999));
    assert!(!is_free(&store, &k).await, "it ended early");
    site.clock.advance(millis(1));
    assert!(is_free(&store, &k).await, "it ended late");
}

/// A file with a lease of half a minute, closed at once and opened a day later after a restart of the machine.
async fn restarted_machine() -> (Site, File) {
    let site = Site::new();
    let store = site.open(FIRST).await;
    take(&store, &name("k"), &Holder::random(), seconds(30)).await;
    drop(store);
    site.clock.advance(seconds(24 * 3600));
    let store = site.open(SECOND).await;
    (site, store)
}

/// L6: the first caller may be one that changes nothing.
#[tokio::test]
async fn after_a_restart_of_the_machine_a_refusal_is_answered() {
    let (_site, store) = restarted_machine().await;
    assert!(!is_free(&store, &name("k")).await);
}

/// S7: what an acquire runs into, others must see.
#[tokio::test]
async fn after_a_restart_of_the_machine_a_look_shows_who_holds_what() {
    let (_site, store) = restarted_machine().await;
    let record = look(&store, &name("k")).await.unwrap();
    assert_eq!(record.grants.len(), 1, "get");
    let list = soon("list", store.list(&List::namespace("n"))).await;
    assert_eq!(list.unwrap().what.items.len(), 1, "list");
}

#[tokio::test]
async fn after_a_restart_of_the_machine_a_dry_run_finds_nothing_that_is_still_held() {
    let (_site, store) = restarted_machine().await;
    let swept = soon("sweep", store.sweep(&Sweep::all(10).dry_run())).await;
    assert_eq!(keys(&swept.unwrap()), Vec::<String>::new());
}

/// S12: a lower bound is one to the microsecond.
#[tokio::test]
async fn a_restart_of_the_machine_takes_not_even_a_fraction_of_a_millisecond_off_a_lease() {
    let site = Site::new();
    let k = name("k");
    let store = site.open(FIRST).await;
    take(&store, &k, &Holder::random(), seconds(30)).await;
    let half = Duration::from_micros(500);
    site.clock.advance(half);
    drop(store);
    // Closed for no time at all, but the wall clock was set forward.
    site.clock.set_wall(site.clock.wall().after(seconds(3600)));
    let store = site.open(SECOND).await;
    write_something(&store).await;
    site.clock
        .advance(seconds(30) - half - Duration::from_micros(1));
    assert!(!is_free(&store, &k).await, "it ended early");
}

/// Who blocks the name, asked by a stranger.
async fn blocked_by(store: &File) -> Option<BlockedBy> {
    let request = acquire(&name("k"), &Holder::random(), seconds(1));
    match soon("acquire", store.acquire(&request)).await.unwrap() {
        Acquired::Held(blocked) => Some(blocked[0].by),
        _ => None,
    }
}

/// A lease of 10 s with a lock delay of 60 s has just run out; a sweep has noticed that, or nobody has.
async fn in_lock_delay(swept: bool) -> Site {
    let site = Site::new();
    let store = site.open(FIRST).await;
    let request = acquire(&name("k"), &Holder::random(), seconds(10));
    let request = request.lock_delay(seconds(60)).unwrap();
    try_take(&store, &request).await.unwrap();
    site.clock.advance(seconds(11));
    if swept {
        store.sweep(&Sweep::default()).await.unwrap();
    }
    site
}

async fn lasts_as_long_as_promised(site: &Site, start: Option<&str>, left: Duration) {
    let store = site.open(start).await;
    write_something(&store).await;
    site.clock.advance(left - millis(1));
    assert_eq!(blocked_by(&store).await, Some(BlockedBy::LockDelay));
    site.clock.advance(millis(1));
    assert_eq!(blocked_by(&store).await, None);
}

#[tokio::test]
async fn under_the_same_start_a_lock_delay_goes_on_while_the_file_is_closed() {
    for swept in [true, false] {
        let site = in_lock_delay(swept).await;
        site.clock.advance(seconds(9));
        lasts_as_long_as_promised(&site, FIRST, seconds(50)).await;
    }
}

#[tokio::test]
async fn under_another_start_a_lock_delay_gets_what_was_left_of_it() {
    let site = in_lock_delay(true).await;
    site.clock.advance(seconds(3600));
    lasts_as_long_as_promised(&site, SECOND, seconds(59)).await;
}

/// The delay protects what the last holder may still be doing, whether or not somebody came by to notice its end.
#[tokio::test]
async fn under_another_start_a_lock_delay_that_nobody_has_noticed_yet_gets_what_was_left_of_it() {
    let site = in_lock_delay(false).await;
    site.clock.advance(seconds(3600));
    lasts_as_long_as_promised(&site, SECOND, seconds(59)).await;
}

/// F14.
#[tokio::test]
async fn setting_the_wall_clock_while_the_file_is_open_neither_frees_nor_prolongs() {
    for step in STEPS {
        let site = Site::new();
        let k = name("k");
        let store = site.open(FIRST).await;
        take(&store, &k, &Holder::random(), seconds(30)).await;
        site.clock.advance(seconds(10));
        site.clock.set_wall(step(site.clock.wall()));
        site.clock.advance(millis(19_999));
        assert!(!is_free(&store, &k).await, "it ended early");
        site.clock.advance(millis(1));
        assert!(is_free(&store, &k).await, "it ended late");
    }
}

/// A lease of a minute, and everything that may happen meanwhile.
struct Life {
    site: Site,
    store: Option<File>,
    rng: Seeded,
    /// Since the lease was granted, by a clock that nobody can set.
    elapsed: Duration,
    starts: usize,
    start: Option<String>,
}

const MINUTE: Duration = Duration::from_secs(60);

impl Life {
    async fn begin(seed: u64) -> Self {
        let site = Site::new();
        let start = Some("0".to_owned());
        let store = site.open(start.as_deref()).await;
        take(&store, &name("k"), &Holder::random(), MINUTE).await;
        Self {
            site,
            store: Some(store),
            rng: Seeded::new(seed),
            elapsed: Duration::ZERO,
            starts: 0,
            start,
        }
    }

    fn pass(&mut self) {
        let time = millis(self.rng.below(20_000));
        self.site.clock.advance(time);
        self.elapsed += time;
    }

    fn set_wall(&mut self) {
        let step = self.rng.pick(&STEPS);
        self.site.clock.set_wall(step(self.site.clock.wall()));
    }

    /// Closes the file; opens it again after a while, and maybe after a restart of the machine.
    async fn reopen(&mut self) {
        drop(self.store.take());
        self.pass();
        if self.rng.once_in(2) {
            self.set_wall();
        }
        if self.rng.once_in(2) {
            self.starts += 1;
            self.start = (!self.rng.once_in(3)).then(|| self.starts.to_string());
        }
        let store = self.site.open(self.start.as_deref()).await;
        write_something(&store).await;
        self.store = Some(store);
    }

    async fn step(&mut self) {
        match self.rng.below(4) {
            0 => self.pass(),
            1 => self.set_wall(),
            _ => self.reopen().await,
        }
    }

    async fn is_over(&self) -> bool {
        is_free(self.store.as_ref().unwrap(), &name("k")).await
    }
}

/// S12, seeded.
#[tokio::test]
async fn however_often_the_machine_restarts_no_lease_ends_early_and_none_is_kept_for_ever() {
    for round in 0..10 * effort() {
        let seed = seed().wrapping_add(round);
        let mut life = Life::begin(seed).await;
        while !life.is_over().await {
            life.step().await;
            assert!(life.elapsed < 100 * MINUTE, "seed {seed}: it does not end");
        }
        let (elapsed, known) = (life.elapsed, life.starts == 0);
        assert!(elapsed >= MINUTE, "seed {seed}: it ended after {elapsed:?}");
        let late = known && elapsed >= MINUTE + seconds(40);
        assert!(!late, "seed {seed}: it ended after {elapsed:?}");
    }
}
