//! A store that fails, hangs, is late or leaves answers out when told to, and a world around it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::backend::{
    Acquire, Acquired, AtOnce, CapacitySet, Confirm, Confirmed, Inbox, List, Page, Release,
    Releases, Renew, RenewMode, Renewed, Seen, SetCapacity, Sweep, Swept, Watch, Withdraw,
    Withdrawn,
};
use leasehold_core::lock::LocksBuilder;
use leasehold_core::memory::Memory;
use leasehold_core::{
    Backend, Capabilities, Description, Effect, Error, ErrorKind, Locks, ManualClock, Name, Record,
    Result, Ttl,
};

use super::{TTL, builder, settle};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MS: Duration = Duration::from_millis(1);
/// The time a guard may believe in the ttl of these tests.
pub(crate) const BELIEVED: Duration = Duration::from_millis(28_200);

/// What goes wrong with one call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trouble {
    /// It fails, certainly without effect.
    Unavailable,
    /// It takes effect, but nobody learns of it.
    ReplyLost,
    /// It never answers.
    Hangs,
    /// It takes effect, and the answer leaves out what was asked for. Only for acquire, renew and release.
    LeftOut,
    /// It takes effect at once, and this much time passes before the answer is there.
    Late(Duration),
}

/// A memory store that has trouble when told to, and notes every request it said it cannot do.
#[derive(Debug)]
pub(crate) struct Troubled {
    pub(crate) inner: Memory,
    description: Description,
    /// The holder's clock, which a late answer moves.
    clock: ManualClock,
    script: Mutex<HashMap<&'static str, VecDeque<Trouble>>>,
    always: Mutex<HashMap<&'static str, Trouble>>,
    calls: Mutex<HashMap<&'static str, usize>>,
    excesses: Mutex<Vec<String>>,
}

impl Troubled {
    /// The next calls of a verb go like this, one after the other.
    pub(crate) fn plan(&self, verb: &'static str, troubles: &[Trouble]) {
        let mut script = self.script.lock().unwrap();
        script.entry(verb).or_default().extend(troubles);
    }

    /// All calls of a verb go like this from now on.
    pub(crate) fn always(&self, verb: &'static str, trouble: Trouble) {
        self.always.lock().unwrap().insert(verb, trouble);
    }

    pub(crate) fn calls(&self, verb: &'static str) -> usize {
        self.calls
            .lock()
            .unwrap()
            .get(verb)
            .copied()
            .unwrap_or_default()
    }

    pub(crate) fn excesses(&self) -> Vec<String> {
        self.excesses.lock().unwrap().clone()
    }

    async fn around<T: LeftOut>(
        &self,
        verb: &'static str,
        effect: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        *self.calls.lock().unwrap().entry(verb).or_default() += 1;
        let planned = self
            .script
            .lock()
            .unwrap()
            .get_mut(verb)
            .and_then(VecDeque::pop_front);
        let trouble = planned.or_else(|| self.always.lock().unwrap().get(verb).copied());
        match trouble {
            None => effect.await,
            Some(Trouble::Unavailable) => Err(Error::new(ErrorKind::Unavailable, "down, as told")),
            Some(Trouble::ReplyLost) => {
                effect.await?;
                Err(Error::new(ErrorKind::Timeout, "no reply, as told")
                    .with_effect(Effect::Unknown))
            }
            Some(Trouble::Hangs) => std::future::pending().await,
            Some(Trouble::LeftOut) => {
                effect.await?;
                Ok(T::left_out())
            }
            Some(Trouble::Late(by)) => {
                let answer = effect.await;
                self.clock.advance(by);
                answer
            }
        }
    }

    fn allow(&self, allowed: bool, what: impl FnOnce() -> String) -> Result<()> {
        if allowed {
            return Ok(());
        }
        let what = what();
        self.excesses.lock().unwrap().push(what.clone());
        Err(Error::unsupported(what))
    }

    fn allow_ttl(&self, verb: &str, ttl: Ttl) -> Result<()> {
        let can = &self.description.capabilities;
        self.allow((can.min_ttl..=can.max_ttl).contains(&ttl), || {
            format!("{verb} with a ttl of {:?}", ttl.as_duration())
        })
    }
}

/// An answer without the things that were asked for.
trait LeftOut {
    fn left_out() -> Self;
}

impl<T> LeftOut for Vec<T> {
    fn left_out() -> Self {
        Vec::new()
    }
}

impl LeftOut for Releases {
    fn left_out() -> Self {
        Releases::new()
    }
}

impl LeftOut for Acquired {
    fn left_out() -> Self {
        Acquired::Granted(Default::default())
    }
}

macro_rules! always_complete {
    ($($answer:ty),*) => {$(
        impl LeftOut for $answer {
            fn left_out() -> Self {
                unreachable!("this answer has nothing to leave out")
            }
        }
    )*};
}

always_complete!(
    Confirmed,
    Withdrawn,
    CapacitySet,
    Seen<Option<Record>>,
    Seen<Page<Record>>,
    Swept,
    Watch
);

#[async_trait]
impl Backend for Troubled {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        self.allow_ttl("acquire", request.ttl)?;
        self.around("acquire", self.inner.acquire(request)).await
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        for item in &request.items {
            if let RenewMode::Set(ttl) = item.mode {
                self.allow_ttl("renew", ttl)?;
            }
        }
        self.around("renew", self.inner.renew(request)).await
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        self.around("release", self.inner.release(request)).await
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        self.around("confirm", self.inner.confirm(request)).await
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
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
        self.around("watch", self.inner.watch(inbox, name)).await
    }
}

/// A store and a manager of it. The store has a clock of its own, which moves along unless told otherwise.
pub(crate) struct World {
    pub(crate) locks: Locks,
    pub(crate) clock: ManualClock,
    pub(crate) store_clock: ManualClock,
    pub(crate) store: Arc<Troubled>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub(crate) fn with(change: impl FnOnce(LocksBuilder) -> LocksBuilder) -> Self {
        Self::limited(|_| {}, change)
    }

    pub(crate) fn limited(
        limit: impl FnOnce(&mut Capabilities),
        change: impl FnOnce(LocksBuilder) -> LocksBuilder,
    ) -> Self {
        let (clock, store_clock) = (ManualClock::new(), ManualClock::new());
        let inner = Memory::with_clock(Arc::new(store_clock.clone()));
        let mut description = inner.describe().clone();
        limit(&mut description.capabilities);
        let store = Arc::new(Troubled {
            inner,
            description,
            clock: clock.clone(),
            script: Mutex::default(),
            always: Mutex::default(),
            calls: Mutex::default(),
            excesses: Mutex::default(),
        });
        let locks = change(builder(&store, &clock)).build().unwrap();
        Self {
            locks,
            clock,
            store_clock,
            store,
        }
    }

    /// Another process with the same store.
    pub(crate) fn other(&self) -> Locks {
        builder(&self.store, &self.clock)
            .owner("them")
            .build()
            .unwrap()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.store_clock.advance(by);
        self.clock.advance(by);
    }

    /// Lets time pass in small steps, with everybody taking part.
    pub(crate) async fn pass(&self, time: Duration) {
        let step = 50 * MS;
        let mut left = time;
        settle().await;
        while !left.is_zero() {
            self.advance(step.min(left));
            left = left.saturating_sub(step);
            settle().await;
        }
    }

    pub(crate) fn name(&self, key: &str) -> Name {
        Name::new("orders", key).unwrap()
    }

    /// How many hold a key, as the store sees it.
    pub(crate) async fn grants(&self, key: &str) -> usize {
        let record = self.store.inner.get(&self.name(key)).await.unwrap();
        record.what.map_or(0, |record| record.grants.len())
    }

    /// Ends what is held of a key, as somebody else would.
    pub(crate) async fn force(&self, key: &str, reason: &str) {
        self.other().force_release(key, reason).await.unwrap();
    }

    /// The store's clock runs ahead: its leases are over, and somebody else takes these keys.
    pub(crate) async fn take_over(&self, keys: &[&str]) -> Vec<leasehold_core::Guard> {
        self.store_clock.advance(TTL);
        let (other, mut thieves) = (self.other(), Vec::new());
        for key in keys {
            thieves.push(other.lock(key).try_acquire().await.unwrap().unwrap());
        }
        thieves
    }
}
