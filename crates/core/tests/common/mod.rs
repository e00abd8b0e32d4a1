//! What the tests of cancellation and of schedules share: a store with a pause before and after every effect, and a
//! world around it that moves only when told to.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "compiled into several test binaries, each of which uses a part"
)]

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::backend::{
    Acquire, Acquired, AtOnce, CapacitySet, Confirm, Confirmed, Inbox, List, Page, Release,
    Released, Releases, Renew, Renewed, Seen, SetCapacity, Sweep, Swept, Watch, Withdraw,
    Withdrawn,
};
use leasehold_core::lock::LocksBuilder;
use leasehold_core::memory::Memory;
use leasehold_core::{
    AtomicNames, Backend, Clock, Description, Error, Locks, ManualClock, Name, Record, Result,
    Token,
};

/// A boxed future of one thread.
pub type Task<T = ()> = Pin<Box<dyn Future<Output = T>>>;

/// What a store can do besides granting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Can {
    /// Queue and tell: the memory store as it is.
    Queue,
    /// Tell of changes, but not queue.
    Watch,
    /// Neither.
    Neither,
    /// Queue and tell, but take only one name at a time.
    OneByOne,
}

impl Can {
    /// Every sort of store there is.
    pub const ALL: [Self; 4] = [Self::Queue, Self::Watch, Self::Neither, Self::OneByOne];
}

/// A memory store that pauses before and after the effect of every call, so that a future can be dropped before it
/// has done anything, or after it has but before anybody knows.
#[derive(Debug)]
pub struct Yielding {
    inner: Memory,
    description: Description,
    /// Watches of a name that are armed right now.
    pub name_watches: Arc<AtomicUsize>,
    /// What was ended by force so far, noted in the very step.
    pub forced: Mutex<HashSet<(Name, Token)>>,
    /// Calls that took effect.
    pub effects: AtomicUsize,
    /// Calls of `renew` that took effect.
    pub renewals: AtomicUsize,
    /// Verbs that get no answer.
    frozen: Mutex<HashSet<&'static str>>,
    /// How long a renewal takes.
    renewal_takes: Mutex<Duration>,
    clock: ManualClock,
}

impl Yielding {
    pub fn new(clock: &ManualClock, can: Can) -> Self {
        let inner = Memory::with_clock(Arc::new(clock.clone()));
        let mut description = inner.describe().clone();
        description.capabilities.queue = matches!(can, Can::Queue | Can::OneByOne);
        if can == Can::OneByOne {
            description.capabilities.atomic_names = AtomicNames::One;
        }
        description.capabilities.watch = can != Can::Neither;
        Self {
            inner,
            description,
            name_watches: Arc::default(),
            forced: Mutex::default(),
            effects: AtomicUsize::new(0),
            renewals: AtomicUsize::new(0),
            frozen: Mutex::default(),
            renewal_takes: Mutex::default(),
            clock: clock.clone(),
        }
    }

    /// The same store, but without shared locks and semaphores.
    pub fn without_quantities(mut self) -> Self {
        self.description.capabilities.quantities = false;
        self
    }

    /// From now on this verb gets no answer, and has no effect.
    pub fn freeze(&self, verb: &'static str) {
        self.frozen.lock().unwrap().insert(verb);
    }

    /// From now on a renewal takes this long.
    pub fn slow_down_renewal(&self, takes: Duration) {
        *self.renewal_takes.lock().unwrap() = takes;
    }

    /// What the store has of a name right now, without any pause.
    pub fn peek(&self, name: &Name) -> Option<Record> {
        now_or_never(self.inner.get(name))
            .expect("the memory store answers at once")
            .expect("and never fails")
            .what
    }

    /// Whether a grant was ended by force.
    pub fn was_forced(&self, name: &Name, token: Token) -> bool {
        self.forced.lock().unwrap().contains(&(name.clone(), token))
    }

    async fn around<T>(&self, verb: &'static str, effect: impl Future<Output = T>) -> T {
        pause().await;
        if self.frozen.lock().unwrap().contains(verb) {
            std::future::pending::<()>().await;
        }
        let answer = effect.await;
        self.effects.fetch_add(1, Ordering::Relaxed);
        pause().await;
        answer
    }

    fn refuse_several(&self, names: usize) -> Result<()> {
        if names > 1 && self.description.capabilities.atomic_names == AtomicNames::One {
            return Err(Error::unsupported(
                "this store takes one name at a time, and said so",
            ));
        }
        Ok(())
    }

    fn note_forced(&self, request: &Release, answers: &[Released]) {
        if let (Release::Force { name, .. }, [Released::Forced(ended)]) = (request, answers) {
            let ended = ended.iter().map(|holding| (name.clone(), holding.token));
            self.forced.lock().unwrap().extend(ended);
        }
    }
}

#[async_trait]
impl Backend for Yielding {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        if request.queue.is_some() && !self.description.capabilities.queue {
            return Err(Error::unsupported("this store has no queue, and said so"));
        }
        self.refuse_several(request.names.as_slice().len())?;
        self.around("acquire", self.inner.acquire(request)).await
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        let effect = async {
            self.renewals.fetch_add(1, Ordering::Relaxed);
            let takes = *self.renewal_takes.lock().unwrap();
            if !takes.is_zero() {
                self.clock.sleep_until(self.clock.now().after(takes)).await;
            }
            self.inner.renew(request).await
        };
        self.around("renew", effect).await
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        if let Release::Grants { grants, .. } = request {
            self.refuse_several(grants.len())?;
        }
        let effect = async {
            let answers = self.inner.release(request).await?;
            self.note_forced(request, &answers);
            Ok(answers)
        };
        self.around("release", effect).await
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        self.around("confirm", self.inner.confirm(request)).await
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        self.refuse_several(request.names.as_slice().len())?;
        self.around("withdraw", self.inner.withdraw(request)).await
    }

    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet> {
        self.around("set_capacity", self.inner.set_capacity(request))
            .await
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        self.around("get", self.inner.get(name)).await
    }

    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>> {
        self.around("list", self.inner.list(request)).await
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        self.around("sweep", self.inner.sweep(request)).await
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        let capable = self.description.capabilities.watch
            || (name.is_none() && self.description.capabilities.queue);
        if !capable {
            return Err(Error::unsupported("this store tells nobody, and said so"));
        }
        let arm = async {
            let watch = self.inner.watch(inbox, name).await?;
            if name.is_none() {
                return Ok(watch);
            }
            self.name_watches.fetch_add(1, Ordering::Relaxed);
            let count = self.name_watches.clone();
            Ok(Watch::new(move || {
                drop(watch);
                count.fetch_sub(1, Ordering::Relaxed);
            }))
        };
        self.around("watch", arm).await
    }
}

/// Runs a test on one thread, without timers: nothing here waits for real time.
pub fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(test);
}

/// Gives everybody else a turn: pending once, and awake at once.
pub async fn pause() {
    let mut paused = false;
    poll_fn(|cx| {
        if paused {
            return Poll::Ready(());
        }
        paused = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The output of a future that is ready at its first poll.
pub fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut cx) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Polls a future once, whether or not it was woken.
pub async fn poll_once<T>(future: &mut Task<T>) -> Option<T> {
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await
}

/// Lets all other tasks run this many times.
pub async fn others_run(times: usize) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

/// More turns than any chain of background work in these tests takes.
pub const SETTLED: usize = 60;

/// How long locks last in these tests; never waited for.
pub const TTL: Duration = Duration::from_secs(30);

/// A store, a clock, and two managers that stand for two processes.
pub struct World {
    pub clock: ManualClock,
    pub store: Arc<Yielding>,
    /// The manager under test.
    pub locks: Locks,
    /// Somebody else's.
    pub other: Locks,
}

impl World {
    pub fn new(can: Can) -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(Yielding::new(&clock, can));
        let build = |owner: &str| builder(&store, &clock).owner(owner).build().unwrap();
        Self {
            locks: build("us"),
            other: build("them"),
            clock,
            store,
        }
    }

    pub fn name(&self, key: &str) -> Name {
        Name::new("orders", key).unwrap()
    }

    pub fn grants(&self, key: &str) -> usize {
        self.store
            .peek(&self.name(key))
            .map_or(0, |record| record.grants.len())
    }

    pub fn tickets(&self, key: &str) -> usize {
        self.store
            .peek(&self.name(key))
            .map_or(0, |record| record.tickets.len())
    }

    /// Lets the background finish, and waiters ask again where nobody tells them; far less than a ttl.
    pub async fn settle(&self) {
        others_run(SETTLED).await;
        for _ in 0..3 {
            self.clock.advance(Duration::from_millis(100));
            others_run(SETTLED).await;
        }
    }

    /// What is left of these names although nobody holds or waits any more; empty if all is well.
    pub fn leftovers(&self, keys: &[&str]) -> Vec<String> {
        let mut left = Vec::new();
        let mut note = |what: &str, count: usize, most: usize| {
            if count > most {
                left.push(format!("{count} {what}"));
            }
        };
        for key in keys {
            note(&format!("grants of {key}"), self.grants(key), 0);
            note(&format!("tickets of {key}"), self.tickets(key), 0);
        }
        note("holds of ours", self.locks.held(), 0);
        note("waiters of ours", self.locks.waiting(), 0);
        note("holds of theirs", self.other.held(), 0);
        note("waiters of theirs", self.other.waiting(), 0);
        note(
            "watches of a name",
            self.store.name_watches.load(Ordering::Relaxed),
            0,
        );
        // One for each of the two keepers, which may have planned a look before they knew that nothing is left.
        note("sleepers", self.clock.sleepers(), 2);
        left
    }
}

/// A manager on this store that does not sweep by itself.
pub fn builder(store: &Arc<Yielding>, clock: &ManualClock) -> LocksBuilder {
    Locks::new(store.clone() as Arc<dyn Backend>)
        .namespace("orders")
        .ttl(TTL)
        .sweep_every(None)
        .clock(Arc::new(clock.clone()))
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

/// How much more than usual to do: `LEASEHOLD_LONG` asks for twenty times as much.
pub fn effort() -> usize {
    #[allow(
        clippy::disallowed_methods,
        reason = "a test is told by its environment how long it may take"
    )]
    let long = std::env::var("LEASEHOLD_LONG").is_ok_and(|value| !value.is_empty() && value != "0");
    if long { 20 } else { 1 }
}
