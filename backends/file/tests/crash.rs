//! Crashes and failing disks (F19 to F21): whatever the moment, and whatever is left of what was not synced, the store
//! opens again, has all that it acknowledged and nothing by halves, and gives no token a second time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::print_stdout,
    reason = "how much was tried is part of the result"
)]

mod storage;

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_core::backend::{Acquired, Sweep};
use leasehold_core::{Backend as _, Effect, ManualClock};
use leasehold_file::Sync;

use storage::Disk;
use storage::calls::{acquire, grant, holder, is_long, name, open, open_with, options};
use storage::crash::{Replay, Survives};
use storage::fault::{Fault, On, Unsynced};
use storage::rot::Rotting;
use storage::run::{BOOT, Clocks, Crash, Run};
use storage::sample::block_on;
use storage::short::{Short, tells_what_to_do, tells_where};
use storage::work::tokens_in;

/// Tries every crash of a run, each `step`-th moment and in all three ways. Says how many there were.
async fn crash_everywhere(run: &Run, step: usize, clocks: &[Clocks]) -> usize {
    let mut replay = Replay::new(run.disk.story());
    let (mut images, mut unseen) = (0, 0);
    for moment in (run.begin..=replay.end()).step_by(step) {
        replay.go_to(moment);
        for crash in Crash::all_at(moment) {
            let clocks = clocks[images % clocks.len()];
            let disk = Disk::new(replay.image(crash.survives));
            let examined = run.examine(crash, clocks, &disk).await;
            if images % 10 == 0 {
                let said = format!("{crash:?}, {clocks:?}");
                examined.forgets_in_time(&said).await;
            }
            unseen += examined.unseen;
            images += 1;
        }
    }
    let moments = replay.end() - run.begin;
    println!("{images} images from {moments} moments; {unseen} records in a version nobody saw");
    images
}

/// F21. Several callers at once use every verb, the file grows and shrinks, is moved together and closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_was_acknowledged_survives_a_crash_at_any_moment() {
    let run = Run::new(Sync::Always).await;
    let step = if is_long() { 1 } else { 3 };
    let images = crash_everywhere(&run, step, &[Clocks::Stand, Clocks::SetBack]).await;
    assert!(images > 300, "there were only {images} crashes");
}

/// F21, twice: the file that a crash left is opened, and that is cut off as well, at each of its operations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_while_a_crashed_file_is_opened_loses_nothing_either() {
    let run = Run::new(Sync::Always).await;
    let mut replay = Replay::new(run.disk.story());
    let step = if is_long() { 10 } else { 151 };
    let mut images = 0;
    for moment in (run.begin..=replay.end()).step_by(step) {
        replay.go_to(moment);
        for first in Crash::all_at(moment) {
            let disk = Disk::new(replay.image(first.survives));
            let opened_at = run.examine(first, Clocks::Stand, &disk).await.opened_at;
            let mut again = Replay::new(disk.story());
            for second in 0..=opened_at {
                again.go_to(second);
                let survives = Crash::all_at(second)[images % 3].survives;
                let disk = Disk::new(again.image(survives));
                run.examine(first, Clocks::SetBack, &disk).await;
                images += 1;
            }
        }
    }
    println!("{images} images");
    assert!(images > 100, "there were only {images} second crashes");
}

/// What is acknowledged before it is on the disk may be lost, but nothing by halves, and no token comes twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_across_crashes_even_if_the_disk_follows_later() {
    let run = Run::new(Sync::Every(Duration::from_millis(10))).await;
    let step = if is_long() { 1 } else { 5 };
    crash_everywhere(&run, step, &[Clocks::Stand, Clocks::SetBack]).await;
}

/// Work that is to meet a fault at one place after the other.
struct Trial<F> {
    /// The fault at the nth place.
    fault: F,
    /// Only every so many places are tried, beginning with this one.
    places: (usize, usize),
    /// Whether the system has forgotten what it had of the file in memory when it is opened again.
    evicts: bool,
    /// Whether the file is moved together as well.
    compacts: bool,
}

impl<F: Fn(usize) -> Fault> Trial<F> {
    /// Every place, or in a short run every third, beginning with `first`.
    fn new(first: usize, fault: F) -> Self {
        let every = if is_long() { 1 } else { 3 };
        Self {
            fault,
            places: (1 + first % every, every),
            evicts: false,
            compacts: false,
        }
    }

    fn evicts(mut self, evicts: bool) -> Self {
        self.evicts = evicts;
        self
    }

    fn compacts(mut self) -> Self {
        self.compacts = true;
        self
    }

    /// Goes on until the work no longer reaches the place. Says how many there were.
    async fn run(&self) -> usize {
        let (first, every) = self.places;
        let mut count = 0;
        for nth in (first..).step_by(every) {
            if !self.fails_at(nth).await {
                break;
            }
            count += 1;
        }
        count
    }

    /// Whether it came to the nth place.
    async fn fails_at(&self, nth: usize) -> bool {
        let (fault, evicts) = ((self.fault)(nth), self.evicts);
        let said = format!("{fault:?}, evicts: {evicts}");
        let mut short = Short::new().await;
        if self.compacts {
            short = short.compacting();
        }
        short.disk.set_fault(Some(fault));
        let error = short.work().await;
        if !short.disk.has_failed() {
            assert!(error.is_none(), "{said}: {error:?}");
            return false;
        }
        if let Some(error) = &error {
            tells_what_to_do(error, &said);
        }
        short.refuses_everything(&said).await;
        short.shows_nothing_wrong(&said).await;
        let image = short.disk.after_crash(Survives::Nothing);
        short
            .survives(image, &format!("{said}, power lost at once"))
            .await;
        self.recovers(&mut short, error.map(|error| error.effect()), &said)
            .await;
        true
    }

    /// While the fault lasts, recovering fails; afterwards the work goes on, and what is acknowledged then is safe, too.
    async fn recovers(&self, short: &mut Short, effect: Option<Effect>, said: &str) {
        for _ in 0..2 {
            if let Err(error) = short.file.store().recover().await {
                tells_where(&error, said);
                short.refuses_everything(said).await;
            }
        }
        short.disk.set_fault(None);
        if self.evicts {
            short.disk.evict();
        }
        short.file.store().recover().await.unwrap();
        short.is_all_in(&short.file, said).await;
        if effect == Some(Effect::None) {
            short.has_nothing_else(said).await;
        }
        short.goes_on("after", said).await;
        let error = short.work().await;
        assert!(error.is_none(), "{said}: {error:?}");
        let seed = short.disk.moment() as u64;
        for survives in [Survives::Nothing, Survives::Some(seed)] {
            let image = short.disk.after_crash(survives);
            short
                .survives(image, &format!("{said}, power lost later: {survives:?}"))
                .await;
        }
    }
}

/// F19.
#[tokio::test]
async fn a_full_disk_stops_the_store_and_loses_nothing() {
    for on in [On::Write, On::SetLen] {
        let trial = Trial::new(0, |nth| Fault::at(nth, on)).compacts();
        let places = trial.run().await;
        println!("{on:?} failed in {places} places");
        assert!(places > 0, "{on:?} never failed");
    }
}

/// What becomes of the writes whose sync has failed, and whether it is noticed when the file is opened again.
fn ways_to_lose() -> impl Iterator<Item = (Unsynced, bool)> {
    let all = [Unsynced::Kept, Unsynced::SeenUntilEvicted, Unsynced::Gone];
    all.into_iter()
        .flat_map(|lost| [(lost, false), (lost, true)])
}

/// F20.
#[tokio::test]
async fn a_failed_sync_stops_the_store_and_loses_nothing() {
    for (first, (unsynced, evicts)) in ways_to_lose().enumerate() {
        let fault = |nth| Fault::at(nth, On::Sync).losing(unsynced);
        let places = Trial::new(first, fault).evicts(evicts).run().await;
        println!("{unsynced:?}, evicted: {evicts}: {places} places");
        assert!(places > 4, "syncs failed in {places} places only");
    }
}

/// F19, F20: as long as a disk fails, a file cannot be opened; once it works again, all is there.
#[tokio::test]
async fn a_disk_that_fails_while_a_file_is_opened_loses_nothing() {
    let mut short = Short::new().await;
    assert!(short.work().await.is_none());
    let killed = short.disk.after_crash(Survives::Everything);
    short.close().await;
    let closed = short.disk.after_crash(Survives::Everything);
    for (image, on) in [killed, closed]
        .iter()
        .flat_map(|image| On::ALL.map(|on| (image, on)))
    {
        let every = if is_long() || on != On::Read { 1 } else { 23 };
        let mut places = 0;
        for nth in (1..).step_by(every) {
            let (disk, said) = (Disk::new(image.clone()), format!("{on:?} {nth} at opening"));
            disk.set_fault(Some(Fault::at(nth, on).losing(Unsynced::SeenUntilEvicted)));
            let opened = open(&disk, &ManualClock::new(), BOOT).await;
            if !disk.has_failed() {
                break;
            }
            tells_where(&opened.unwrap_err(), &said);
            disk.set_fault(None);
            for survives in [Survives::Everything, Survives::Nothing] {
                short.survives(disk.after_crash(survives), &said).await;
            }
            places += 1;
        }
        println!("{on:?} failed in {places} places");
    }
}

/// F19, F20: nobody can be told any more, but nothing is lost either.
#[tokio::test]
async fn a_disk_that_fails_while_a_file_is_closed_loses_nothing() {
    for on in [On::Write, On::SetLen, On::Sync] {
        let every = if is_long() { 1 } else { 3 };
        for nth in (1..).step_by(every) {
            let (mut short, said) = (Short::new().await, format!("{on:?} {nth} at closing"));
            assert!(short.work().await.is_none());
            let fault = Fault::at(nth, on).losing(Unsynced::SeenUntilEvicted);
            short.disk.set_fault(Some(fault));
            short.close().await;
            if !short.disk.has_failed() {
                break;
            }
            for survives in [Survives::Everything, Survives::Nothing] {
                short
                    .survives(short.disk.after_crash(survives), &said)
                    .await;
            }
        }
    }
}

/// One caller's grant is written but not committed when another is refused because of it. If the commit then fails, the
/// other must not have been told of a holder that never was, nor of its token.
#[tokio::test]
async fn a_refusal_rests_on_nothing_that_may_yet_be_lost() {
    for fails in [false, true] {
        let (disk, clock) = (Disk::new(Vec::new()), ManualClock::new());
        let file = open(&disk, &clock, BOOT).await.unwrap();
        let requests = ["other", "k", "k"].map(|key| name("gate", key)).into_iter();
        let requests = requests.zip(["a", "b", "c"].map(holder));
        let requests: Vec<_> = requests
            .map(|(name, who)| acquire([name], &who, 30))
            .collect();
        let mut other = pin!(file.acquire(&requests[0]));
        let mut granted = pin!(file.acquire(&requests[1]));
        let mut refused = pin!(file.acquire(&requests[2]));
        let mut context = Context::from_waker(Waker::noop());
        // The first one's commit stands at the disk, and the others stand in line behind it.
        disk.shut_gate();
        assert!(other.as_mut().poll(&mut context).is_pending());
        disk.await_sync();
        assert!(granted.as_mut().poll(&mut context).is_pending());
        assert!(refused.as_mut().poll(&mut context).is_pending());
        // The commit that is under way has two syncs.
        disk.set_fault(fails.then(|| Fault::at(3, On::Sync)));
        disk.open_gate();
        let (other, granted, refused) = tokio::join!(other, granted, refused);
        assert!(matches!(other, Ok(Acquired::Granted(_))), "{other:?}");
        if fails {
            assert_eq!(granted.unwrap_err().effect(), Effect::Unknown);
            tells_what_to_do(&refused.unwrap_err(), "the refusal");
        } else {
            let (granted, refused) = (granted.unwrap(), refused.unwrap());
            assert!(matches!(refused, Acquired::Held(_)), "{refused:?}");
            assert_eq!(tokens_in(&granted), tokens_in(&refused));
        }
    }
}

/// If the disk follows later, the file says below which token none is given again. A grant beyond that waits for the disk,
/// and until then it is not to be seen, either.
#[tokio::test]
async fn a_look_shows_no_token_that_could_come_back() {
    let (disk, clock) = (Disk::new(Vec::new()), ManualClock::new());
    let late = options(&clock, BOOT).sync(Sync::Every(Duration::from_millis(1)));
    let file = open_with(late.unwrap(), &disk).await.unwrap();
    clock.advance(Duration::from_secs(7200));
    let (lock, me) = (name("lock", "red"), holder("me"));
    let request = acquire([lock.clone()], &me, 30);
    let mut granted = pin!(file.acquire(&request));
    let mut context = Context::from_waker(Waker::noop());
    disk.shut_gate();
    assert!(granted.as_mut().poll(&mut context).is_pending());
    disk.await_sync();
    let look = pin!(file.get(&lock)).poll(&mut context);
    let seen = match look {
        Poll::Ready(seen) => seen.unwrap().what.and_then(|record| record.holding()),
        Poll::Pending => None,
    };
    let image = disk.after_crash(Survives::Nothing);
    disk.open_gate();
    granted.await.unwrap();
    if let Some(seen) = seen {
        let (clock, boot) = Clocks::SetBack.at(Duration::ZERO);
        let file = open(&Disk::new(image), &clock, boot).await.unwrap();
        let lease = grant(&file, &lock, &holder("other")).await;
        assert!(lease.token > seen.token, "{lease:?} after {seen:?}");
    }
}

/// Somebody sweeps every few seconds, and somebody tries to make room, for as long as the disk is full.
#[tokio::test]
async fn the_reason_of_a_failure_stays_the_same_however_often_one_asks() {
    let (disk, clock) = (Disk::new(Vec::new()), ManualClock::new());
    let file = open(&disk, &clock, BOOT).await.unwrap();
    let (lock, me) = (name("lock", "red"), holder("me"));
    // Renewed: the index has it too early, and a sweep wants to put that right.
    for secs in [10, 60] {
        let leases = file.acquire(&acquire([lock.clone()], &me, secs)).await;
        assert!(matches!(leases, Ok(Acquired::Granted(_))), "{leases:?}");
    }
    clock.advance(Duration::from_secs(20));
    disk.set_fault(Some(Fault::at(1, On::Write)));
    let mut said = Vec::new();
    for _ in 0..4 {
        let refused = file.acquire(&acquire([lock.clone()], &me, 30)).await;
        said.push(refused.unwrap_err().detail().to_owned());
        let _ = file.sweep(&Sweep::default()).await;
        let _ = file.store().compact().await;
    }
    said.dedup();
    assert_eq!(said.len(), 1, "{said:#?}");
}

/// A caller cannot read, while the commit of another one is on its way; both stop the store. Whoever then has it recover
/// must not find it stopped by the second of them.
#[test]
fn a_store_that_has_recovered_works_although_a_commit_was_on_its_way() {
    let large = Rotting::new();
    block_on(async {
        let (disk, clock) = (Disk::new(large.image.clone()), ManualClock::new());
        let file = large.open(&disk, &clock).await.unwrap();
        let (other, stranger) = (name("gate", "other"), holder("stranger"));
        let request = acquire([other], &stranger, 30);
        let mut first = pin!(file.acquire(&request));
        let mut context = Context::from_waker(Waker::noop());
        disk.shut_gate();
        assert!(first.as_mut().poll(&mut context).is_pending());
        disk.await_sync();
        disk.set_fault(Some(Fault::at(1, On::Read)));
        let failed = large.names().any(|name| {
            let request = acquire([name.clone()], &stranger, 30);
            // Whoever could read waits for the commit; the first who cannot stops the store.
            let call = pin!(file.acquire(&request));
            matches!(call.poll(&mut context), Poll::Ready(Err(_)))
        });
        assert!(failed && disk.has_failed());
        disk.set_fault(None);
        let mut recovered = pin!(file.store().recover());
        assert!(recovered.as_mut().poll(&mut context).is_pending());
        disk.open_gate();
        let (_, recovered) = tokio::join!(first, recovered);
        recovered.unwrap();
        grant(&file, &name("gate", "next"), &stranger).await;
    });
}
