//! Stores that can do less: one name at a time, no queue, no word when something changes. The lock layer makes up for
//! it, and never asks such a store for what it said it cannot do.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod common_world;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::backend::{
    Acquire, Acquired, AtOnce, CapacitySet, Confirm, Confirmed, Inbox, List, Page, Release,
    Releases, Renew, Renewed, Seen, SetCapacity, Sweep, Swept, Watch, Withdraw, Withdrawn,
};
use leasehold_core::lock::CancellationToken;
use leasehold_core::memory::Memory;
use leasehold_core::{
    AtomicNames, Backend, Clock, Description, Error, ErrorKind, Guard, Locks, ManualClock, Name,
    Record, Result,
};

use common_world::{TTL, builder, settle};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// What a store can do besides granting one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Can {
    Queue,
    Watch,
    Neither,
}

const EVERY_SORT: [Can; 3] = [Can::Queue, Can::Watch, Can::Neither];

/// A memory store that takes one name at a time, notes in which order it is asked, and fails what it cannot do.
#[derive(Debug)]
struct Simple {
    inner: Memory,
    description: Description,
    log: Mutex<Vec<String>>,
    excesses: Mutex<Vec<String>>,
    fail_next: Mutex<Option<&'static str>>,
}

impl Simple {
    fn new(clock: &ManualClock, can: Can) -> Self {
        let inner = Memory::with_clock(Arc::new(clock.clone()));
        let mut description = inner.describe().clone();
        let capabilities = &mut description.capabilities;
        capabilities.queue = can == Can::Queue;
        capabilities.watch = can != Can::Neither;
        capabilities.atomic_names = AtomicNames::One;
        capabilities.renew_batch = 1;
        Self {
            inner,
            description,
            log: Mutex::default(),
            excesses: Mutex::default(),
            fail_next: Mutex::default(),
        }
    }

    /// Fails the next request that is noted like this.
    fn fail(&self, what: &'static str) {
        *self.fail_next.lock().unwrap() = Some(what);
    }

    /// Everything asked so far, in order; the log starts afresh.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    fn excesses(&self) -> Vec<String> {
        self.excesses.lock().unwrap().clone()
    }

    /// Notes a request, or refuses it because this store cannot do it.
    async fn note<'a>(
        &self,
        verb: &str,
        names: impl Iterator<Item = &'a Name>,
        able: bool,
    ) -> Result<()> {
        let keys: Vec<_> = names.map(Name::key).collect();
        let what = format!("{verb} {}", keys.join("+"));
        if keys.len() > 1 || !able {
            self.excesses.lock().unwrap().push(what.clone());
            return Err(Error::unsupported(what));
        }
        // Others get a turn between any two requests.
        tokio::task::yield_now().await;
        let fail = self
            .fail_next
            .lock()
            .unwrap()
            .take_if(|next| *next == what)
            .is_some();
        self.log.lock().unwrap().push(what);
        if fail {
            return Err(Error::new(ErrorKind::Unavailable, "down, as told"));
        }
        Ok(())
    }
}

#[async_trait]
impl Backend for Simple {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        let able = request.queue.is_none() || self.description.capabilities.queue;
        self.note("acquire", request.names.as_slice().iter(), able)
            .await?;
        let answer = self.inner.acquire(request).await;
        tokio::task::yield_now().await;
        answer
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        let names = request.items.iter().map(|item| &item.name);
        self.note("renew", names, true).await?;
        self.inner.renew(request).await
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        match request {
            Release::Grants { grants, .. } => {
                self.note("release", grants.iter().map(|(name, _)| name), true)
                    .await?
            }
            Release::Claims { .. } => self.note("free", std::iter::empty(), false).await?,
            Release::Force { .. } => {}
        }
        self.inner.release(request).await
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        self.inner.confirm(request).await
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        self.note("withdraw", request.names.as_slice().iter(), true)
            .await?;
        self.inner.withdraw(request).await
    }

    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet> {
        self.inner.set_capacity(request).await
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        self.inner.get(name).await
    }

    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>> {
        self.inner.list(request).await
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        self.inner.sweep(request).await
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        let can = &self.description.capabilities;
        let able = can.watch || (name.is_none() && can.queue);
        self.note("watch", name.into_iter(), able).await?;
        self.inner.watch(inbox, name).await
    }
}

/// A store and two managers that stand for two processes.
struct World {
    clock: ManualClock,
    store: Arc<Simple>,
    locks: Locks,
    other: Locks,
}

impl World {
    fn new(can: Can) -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(Simple::new(&clock, can));
        let build = |owner: &str| builder(&store, &clock).owner(owner).build().unwrap();
        Self {
            locks: build("us"),
            other: build("them"),
            clock,
            store,
        }
    }

    /// Runs a future while time goes by; fails if it is not done within this much time.
    async fn within<T>(&self, most: Duration, future: impl Future<Output = T>) -> T {
        let ticking = async {
            for _ in 0..most.as_millis() / 10 {
                settle().await;
                self.clock.advance(10 * MS);
            }
        };
        tokio::select! {
            biased;
            output = future => output,
            () = ticking => panic!("not done within {most:?}"),
        }
    }

    /// Fails if anything of these keys is held or waited for, or was asked for that the store cannot do.
    async fn leaves_nothing(&self, keys: &[&str]) {
        for key in keys {
            let name = Name::new("orders", key).unwrap();
            let record = self.store.inner.get(&name).await.unwrap().what;
            assert!(
                record.is_none_or(|record| record.grants.is_empty() && record.tickets.is_empty()),
                "{key} is still held or waited for"
            );
        }
        assert_eq!((self.locks.held(), self.locks.waiting()), (0, 0));
        assert_eq!((self.other.held(), self.other.waiting()), (0, 0));
        assert_eq!(self.store.excesses(), Vec::<String>::new());
    }
}

/// S2-09: sorted, all or nothing, given back in reverse.
#[tokio::test]
async fn names_are_taken_in_order_and_given_back_in_reverse() {
    let world = World::new(Can::Neither);
    let three = world.locks.all(["c", "a", "b"]);
    let guard = three.acquire().await.unwrap();
    assert_eq!(world.store.asked(), ["acquire a", "acquire b", "acquire c"]);
    assert_eq!(guard.tokens().count(), 3);
    guard.release().await.unwrap();
    assert_eq!(world.store.asked(), ["release c", "release b", "release a"]);
    let blocker = world.other.lock("c").acquire().await.unwrap();
    world.store.asked();
    assert!(three.try_acquire().await.unwrap().is_none());
    assert_eq!(
        world.store.asked(),
        [
            "acquire a",
            "acquire b",
            "acquire c",
            "withdraw b",
            "withdraw a"
        ]
    );
    let error = three.acquire_within(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.blocked().unwrap().name.key(), "c");
    assert!(error.to_string().contains("held by them"), "{error}");
    blocker.release().await.unwrap();
    world.leaves_nothing(&["a", "b", "c"]).await;
}

/// S2-09: a failure midway gives back what was taken before it.
#[tokio::test]
async fn a_failure_midway_gives_everything_back() {
    for verb in ["acquire a", "acquire b", "acquire c"] {
        let world = World::new(Can::Neither);
        world.store.fail(verb);
        let error = world.locks.all(["a", "b", "c"]).try_acquire().await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable, "{verb}");
        world.within(SECOND, settle()).await;
        world.leaves_nothing(&["a", "b", "c"]).await;
    }
}

/// S2-09: also if giving back fails at first.
#[tokio::test]
async fn a_roll_back_that_fails_is_finished_in_the_background() {
    let world = World::new(Can::Neither);
    let blocker = world.other.lock("c").acquire().await.unwrap();
    world.store.fail("withdraw a");
    let error = world.locks.all(["a", "b", "c"]).try_acquire().await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
    blocker.release().await.unwrap();
    world.within(SECOND, settle()).await;
    world.leaves_nothing(&["a", "b", "c"]).await;
}

/// S2-09, G-14: a release that fails midway leaves the rest to the background.
#[tokio::test]
async fn a_release_that_fails_midway_is_finished_in_the_background() {
    let world = World::new(Can::Neither);
    let guard = world.locks.all(["a", "b", "c"]).acquire().await.unwrap();
    world.store.fail("release b");
    assert_eq!(
        guard.release().await.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    world.within(SECOND, settle()).await;
    world.leaves_nothing(&["a", "b", "c"]).await;
}

/// S2-09: a set waits for whichever name is in the way, on every sort of store.
#[tokio::test]
async fn a_set_of_names_is_waited_for() {
    for can in EVERY_SORT {
        let world = World::new(can);
        let first = world.other.lock("a").acquire().await.unwrap();
        let last = world.other.lock("b").acquire().await.unwrap();
        let waiter = tokio::spawn({
            let both = world.locks.all(["a", "b"]);
            async move { both.acquire().await.unwrap() }
        });
        let work = async {
            settle().await;
            first.release().await.unwrap();
            settle().await;
            last.release().await.unwrap();
            waiter.await.unwrap()
        };
        let guard = world.within(10 * SECOND, work).await;
        assert_eq!(guard.tokens().count(), 2);
        guard.release().await.unwrap();
        world.within(SECOND, settle()).await;
        world.leaves_nothing(&["a", "b"]).await;
    }
}

/// S2-05, S2-09: all names of a set go on together, on a store that renews one lease per call.
#[tokio::test]
async fn a_set_of_names_is_renewed_as_many_at_a_time_as_the_store_allows() {
    let world = World::new(Can::Neither);
    let guard = world
        .locks
        .all(["a", "b"])
        .renewing()
        .acquire()
        .await
        .unwrap();
    world
        .within(
            101 * SECOND,
            world
                .clock
                .sleep_until(world.clock.now().after(100 * SECOND)),
        )
        .await;
    let held = guard.check();
    guard.release_any().await.unwrap();
    assert_eq!(world.store.excesses(), Vec::<String>::new());
    held.unwrap();
}

/// S2-03, S2-09: nor does an extension or an adoption ask for more at once.
#[tokio::test]
async fn a_set_of_names_is_extended_and_adopted_as_the_store_allows() {
    let world = World::new(Can::Neither);
    let guard = world.locks.all(["a", "b"]).acquire().await.unwrap();
    let extended = guard.extend(2 * TTL).await;
    let adopted = world.other.adopt(&guard.hand_over().unwrap()).await;
    assert_eq!(world.store.excesses(), Vec::<String>::new());
    extended.unwrap();
    adopted.unwrap().release().await.unwrap();
    world.leaves_nothing(&["a", "b"]).await;
}

/// T0-19, L5: a wait that is cancelled, times out or is dropped leaves nothing of the set.
#[tokio::test]
async fn a_wait_that_is_given_up_leaves_nothing_of_the_set() {
    for can in EVERY_SORT {
        for turns in 0..12 {
            let world = World::new(can);
            let blocker = world.other.lock("b").acquire().await.unwrap();
            let cancel = CancellationToken::new();
            let set = world.locks.all(["a", "b", "c"]);
            let cancelled = tokio::spawn({
                let set = set.clone().cancelled_by(cancel.clone());
                async move { set.acquire().await.map(drop).map_err(|error| error.kind()) }
            });
            let dropped = tokio::spawn({
                let set = set.clone();
                async move { set.acquire().await.map(drop) }
            });
            let late = tokio::spawn(async move {
                let answer = set.acquire_within(SECOND).await;
                answer.map(drop).map_err(|error| error.kind())
            });
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
            dropped.abort();
            assert_eq!(cancelled.await.unwrap(), Err(ErrorKind::Cancelled));
            assert!(dropped.await.unwrap_err().is_cancelled());
            let late = world.within(2 * SECOND, late).await.unwrap();
            assert_eq!(late, Err(ErrorKind::NotAcquired));
            blocker.release().await.unwrap();
            world.within(SECOND, settle()).await;
            world.leaves_nothing(&["a", "b", "c"]).await;
        }
    }
}

/// G-14: nobody waits in a circle.
#[tokio::test]
async fn crossing_sets_do_not_wait_for_each_other_for_ever() {
    for can in EVERY_SORT {
        let world = World::new(can);
        let rounds = Arc::new(AtomicUsize::new(0));
        let sets = [["a", "b"], ["b", "a"], ["b", "c"], ["c", "a"]];
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let locks = if n < 4 { &world.locks } else { &world.other };
                let (set, rounds) = (locks.all(sets[n % 4]), rounds.clone());
                tokio::spawn(async move {
                    for _ in 0..4 {
                        let guard = set.acquire().await.unwrap();
                        tokio::task::yield_now().await;
                        guard.release().await.unwrap();
                        rounds.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let all = async {
            for task in tasks {
                task.await.unwrap();
            }
        };
        world.within(300 * SECOND, all).await;
        assert_eq!(rounds.load(Ordering::SeqCst), 32);
        world.within(SECOND, settle()).await;
        world.leaves_nothing(&["a", "b", "c"]).await;
    }
}

/// T0-13, T0-22: across processes, whether or not the store says that something changed.
#[tokio::test]
async fn a_waiter_of_another_process_gets_the_lock_after_its_release() {
    for can in EVERY_SORT {
        let world = World::new(can);
        let guard = world.other.lock("a").acquire().await.unwrap();
        let token = guard.token();
        let waiters = [None, Some(TTL)].map(|wait| {
            let lock = world.locks.lock("a");
            tokio::spawn(async move {
                let guard = match wait {
                    None => lock.acquire().await,
                    Some(wait) => lock.acquire_within(wait).await,
                };
                let token = guard.as_ref().unwrap().token();
                guard.unwrap().release().await.unwrap();
                token
            })
        });
        let work = async {
            world
                .clock
                .sleep_until(world.clock.now().after(300 * MS))
                .await;
            guard.release().await.unwrap();
            for waiter in waiters {
                assert!(waiter.await.unwrap() > token);
            }
        };
        world.within(10 * SECOND, work).await;
        world.within(SECOND, settle()).await;
        world.leaves_nothing(&["a"]).await;
    }
}

/// T0-09, L1: a lease that nobody looks after goes to the waiter, on every sort of store.
#[tokio::test]
async fn a_waiter_gets_the_lock_of_a_dead_holder() {
    for can in EVERY_SORT {
        let world = World::new(can);
        world.other.lock("a").acquire().await.unwrap().forget();
        let lock = world.locks.lock("a");
        let guard: Guard = world.within(TTL + SECOND, lock.acquire()).await.unwrap();
        guard.release().await.unwrap();
        world.within(SECOND, settle()).await;
        world.leaves_nothing(&["a"]).await;
    }
}

/// T0-12: and gives up at its deadline where somebody lives.
#[tokio::test]
async fn a_wait_ends_at_its_deadline_and_says_who_is_in_the_way() {
    for can in EVERY_SORT {
        let world = World::new(can);
        let guard = world.other.lock("a").acquire().await.unwrap();
        let lock = world.locks.lock("a");
        let error = world
            .within(SECOND, lock.acquire_within(500 * MS))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAcquired);
        assert_eq!(
            error
                .blocked()
                .unwrap()
                .holding
                .as_ref()
                .unwrap()
                .owner
                .as_str(),
            "them"
        );
        guard.release().await.unwrap();
        world.within(SECOND, settle()).await;
        world.leaves_nothing(&["a"]).await;
    }
}

/// 3.9, thundering herd: everybody is served, one at a time, in the order of their coming inside each process.
#[tokio::test]
async fn a_herd_of_a_hundred_is_served_one_at_a_time() {
    for can in EVERY_SORT {
        let world = World::new(can);
        let blocker = world.locks.lock("a").acquire().await.unwrap();
        let inside = Arc::new(AtomicUsize::new(0));
        let served = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
        let mut herd = Vec::new();
        for n in 0..100 {
            let process = n % 2;
            let lock = [&world.locks, &world.other][process].lock("a");
            let (inside, served) = (inside.clone(), served.clone());
            herd.push(tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                served.lock().unwrap()[process].push(n);
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                guard.release().await.unwrap();
            }));
            settle().await;
        }
        assert_eq!(world.locks.waiting() + world.other.waiting(), 100);
        blocker.release().await.unwrap();
        let all = async {
            for waiter in herd {
                waiter.await.unwrap();
            }
        };
        world.within(60 * SECOND, all).await;
        for order in &*served.lock().unwrap() {
            assert!(order.is_sorted(), "{can:?}: {order:?}");
        }
        world.within(SECOND, settle()).await;
        world.leaves_nothing(&["a"]).await;
    }
}

/// L1: those who stand in front and give up do not hold up those behind.
#[tokio::test]
async fn a_waiter_moves_up_when_those_in_front_give_up() {
    for can in EVERY_SORT {
        let world = World::new(can);
        let guard = world.other.lock("a").acquire().await.unwrap();
        let mut front = Vec::new();
        for _ in 0..10 {
            let lock = world.locks.lock("a");
            front.push(tokio::spawn(async move { lock.acquire().await.map(drop) }));
        }
        settle().await;
        let last = tokio::spawn({
            let lock = world.locks.lock("a");
            async move { lock.acquire().await.unwrap().release().await.unwrap() }
        });
        settle().await;
        front.iter().for_each(tokio::task::JoinHandle::abort);
        settle().await;
        assert_eq!(world.locks.waiting(), 1);
        guard.release().await.unwrap();
        world.within(10 * SECOND, last).await.unwrap();
        world.within(SECOND, settle()).await;
        world.leaves_nothing(&["a"]).await;
    }
}
