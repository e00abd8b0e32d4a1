//! A wrapper that makes a store behave as a bad network would: slow, deaf, forgetful and repetitive.
//!
//! What it does is drawn from a seeded generator, so that a single-threaded run can be repeated from its seed.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use leasehold_core::backend::{
    Acquire, Acquired, AtOnce, CapacitySet, Confirm, Confirmed, Inbox, List, Page, Release,
    Releases, Renew, Renewed, Seen, SetCapacity, Sweep, Swept, Watch, Withdraw, Withdrawn,
};
use leasehold_core::{Backend, Description, Effect, Error, ErrorKind, Name, Record, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// How often each fault happens, per call, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// The call takes a while.
    pub delay: f64,
    /// The call is done, but its answer never arrives: a timeout with unknown effect.
    pub lost_reply: f64,
    /// The call never arrives: unavailable, without effect.
    pub lost_request: f64,
    /// The call arrives twice; the second answer is the one that counts.
    pub duplicate: f64,
    /// A copy of an earlier release arrives as well, late.
    pub late_release: f64,
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        delay: 0.0,
        lost_reply: 0.0,
        lost_request: 0.0,
        duplicate: 0.0,
        late_release: 0.0,
    };
    /// A bad day.
    pub const SOME: Self = Self {
        delay: 0.3,
        lost_reply: 0.05,
        lost_request: 0.05,
        duplicate: 0.1,
        late_release: 0.1,
    };
}

/// How many of each fault happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Slow calls.
    pub delays: u64,
    /// Lost answers.
    pub lost_replies: u64,
    /// Lost requests.
    pub lost_requests: u64,
    /// Calls that arrived twice.
    pub duplicates: u64,
    /// Releases that arrived again, late.
    pub late_releases: u64,
}

/// A backend with faults. Its `Debug` shows the seed.
pub struct FaultBackend<B> {
    inner: B,
    seed: u64,
    faults: Faults,
    healed: AtomicBool,
    random: Mutex<StdRng>,
    counts: Mutex<Counts>,
    old_releases: Mutex<Vec<Release>>,
}

/// What a lost answer says of itself.
const LOST_REPLY: &str = "the answer was lost";

/// Whether an error is an answer that a [`FaultBackend`] lost: whatever the request did, it has done by now.
#[must_use]
pub fn is_lost_reply(error: &Error) -> bool {
    error.kind() == ErrorKind::Timeout && error.detail() == LOST_REPLY
}

/// How many old releases are kept to come back late.
const MEMORY: usize = 32;

/// What happens to one call.
#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    yields: u32,
    lost_request: bool,
    lost_reply: bool,
    duplicate: bool,
    late_release: Option<usize>,
}

impl<B: Backend> FaultBackend<B> {
    /// Faults drawn from this seed.
    pub fn new(inner: B, faults: Faults, seed: u64) -> Self {
        Self {
            inner,
            seed,
            faults,
            healed: AtomicBool::new(false),
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            counts: Mutex::default(),
            old_releases: Mutex::new(Vec::new()),
        }
    }

    /// Faults drawn from a fresh seed; see [`seed`](Self::seed).
    pub fn random(inner: B, faults: Faults) -> Self {
        Self::new(inner, faults, rand::random())
    }

    /// The seed. Show it when a test fails.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.healed.store(true, Ordering::SeqCst);
    }

    /// Lets faults happen again.
    pub fn break_again(&self) {
        self.healed.store(false, Ordering::SeqCst);
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, one_more: impl FnOnce(&mut Counts)) {
        one_more(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn draw(&self) -> Fate {
        if self.healed.load(Ordering::SeqCst) {
            return Fate::default();
        }
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fate = Fate::default();
        if random.random_bool(self.faults.delay) {
            fate.yields = random.random_range(1..20);
        }
        fate.lost_request = random.random_bool(self.faults.lost_request);
        fate.lost_reply = random.random_bool(self.faults.lost_reply);
        fate.duplicate = random.random_bool(self.faults.duplicate);
        if random.random_bool(self.faults.late_release) {
            fate.late_release = Some(random.random_range(0..MEMORY));
        }
        fate
    }

    /// What happens before a call, and what is to happen after it.
    async fn before(&self, op: &'static str) -> Result<Fate> {
        let fate = self.draw();
        if fate.yields > 0 {
            self.count(|counts| counts.delays += 1);
        }
        for _ in 0..fate.yields {
            tokio::task::yield_now().await;
        }
        if let Some(which) = fate.late_release {
            self.repeat_release(which).await?;
        }
        if fate.lost_request {
            self.count(|counts| counts.lost_requests += 1);
            return Err(Error::new(ErrorKind::Unavailable, "the request was lost")
                .during(op, self.inner.describe().scheme));
        }
        if fate.duplicate {
            self.count(|counts| counts.duplicates += 1);
        }
        Ok(fate)
    }

    async fn repeat_release(&self, which: usize) -> Result<()> {
        let old = {
            let releases = self.old_releases.lock();
            let releases = releases.unwrap_or_else(PoisonError::into_inner);
            releases.get(which).cloned()
        };
        if let Some(release) = old {
            self.count(|counts| counts.late_releases += 1);
            self.inner.release(&release).await?;
        }
        Ok(())
    }

    /// Keeps the answer, or loses it.
    fn after<T>(&self, op: &'static str, fate: Fate, answer: Result<T>) -> Result<T> {
        if !fate.lost_reply {
            return answer;
        }
        self.count(|counts| counts.lost_replies += 1);
        Err(Error::new(ErrorKind::Timeout, LOST_REPLY)
            .with_effect(Effect::Unknown)
            .during(op, self.inner.describe().scheme))
    }

    fn remember(&self, release: &Release) {
        // A forced release without a token ends whatever it finds, so a late copy of it is no fault of the store.
        if matches!(release, Release::Force { token: None, .. }) {
            return;
        }
        let releases = self.old_releases.lock();
        let mut releases = releases.unwrap_or_else(PoisonError::into_inner);
        if releases.len() == MEMORY {
            releases.remove(0);
        }
        releases.push(release.clone());
    }
}

/// Runs a verb under its fate.
macro_rules! under_fate {
    ($self:ident, $op:ident, $($argument:expr),+) => {
        match $self.before(stringify!($op)).await {
            Ok(fate) => {
                if fate.duplicate {
                    let _ = $self.inner.$op($($argument),+).await;
                }
                let answer = $self.inner.$op($($argument),+).await;
                $self.after(stringify!($op), fate, answer)
            }
            Err(lost) => Err(lost),
        }
    };
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: Backend> Backend for FaultBackend<B> {
    fn describe(&self) -> &Description {
        self.inner.describe()
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        under_fate!(self, acquire, request)
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        under_fate!(self, renew, request)
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        let answer = under_fate!(self, release, request);
        // A request that never arrived has no copy that could arrive late.
        if !matches!(&answer, Err(error) if error.effect() == Effect::None) {
            self.remember(request);
        }
        answer
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        under_fate!(self, confirm, request)
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        under_fate!(self, withdraw, request)
    }

    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet> {
        under_fate!(self, set_capacity, request)
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        under_fate!(self, get, name)
    }

    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>> {
        under_fate!(self, list, request)
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        under_fate!(self, sweep, request)
    }

    /// A watch that was armed and whose answer was lost is dropped, and with it the watch.
    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        under_fate!(self, watch, inbox, name)
    }
}

impl<B: Backend> fmt::Debug for FaultBackend<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultBackend")
            .field("seed", &self.seed)
            .field("faults", &self.faults)
            .field("counts", &self.counts())
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::backend::Names;
    use leasehold_core::memory::Memory;
    use leasehold_core::{Holder, Owner, Ttl};

    use super::*;

    fn request(name: &Name) -> Acquire {
        let owner = Owner::new("a").unwrap();
        let ttl = Ttl::from_millis(60_000).unwrap();
        Acquire::new(Names::one(name.clone()), Holder::random(), owner, ttl)
    }

    fn only(change: impl FnOnce(&mut Faults)) -> FaultBackend<Memory> {
        let mut faults = Faults::NONE;
        change(&mut faults);
        FaultBackend::new(Memory::new(), faults, 7)
    }

    #[tokio::test]
    async fn a_lost_reply_leaves_the_effect_and_says_unknown() {
        let store = only(|faults| faults.lost_reply = 1.0);
        let name = Name::new("n", "k").unwrap();
        let error = store.acquire(&request(&name)).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Timeout, Effect::Unknown)
        );
        assert!(is_lost_reply(&error));
        store.heal();
        assert_eq!(
            store.get(&name).await.unwrap().what.unwrap().grants.len(),
            1
        );
    }

    #[tokio::test]
    async fn a_lost_request_leaves_nothing_and_says_so() {
        let store = only(|faults| faults.lost_request = 1.0);
        let name = Name::new("n", "k").unwrap();
        let error = store.acquire(&request(&name)).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::None)
        );
        store.heal();
        assert_eq!(store.get(&name).await.unwrap().what, None);
        assert_eq!(store.counts().lost_requests, 1);
    }

    #[tokio::test]
    async fn a_duplicate_is_done_twice_and_answered_once() {
        let store = only(|faults| faults.duplicate = 1.0);
        let name = Name::new("n", "k").unwrap();
        let answer = store.acquire(&request(&name)).await.unwrap();
        assert!(matches!(answer, Acquired::Granted(_)));
        assert_eq!(store.counts().duplicates, 1);
    }

    #[tokio::test]
    async fn only_a_release_that_arrived_comes_back_late() {
        let store = only(|faults| faults.lost_request = 1.0);
        let name = Name::new("n", "k").unwrap();
        let release = Release::grant(name, Holder::random(), leasehold_core::Token::new(1));
        store.release(&release).await.unwrap_err();
        assert!(store.old_releases.lock().unwrap().is_empty());
        store.heal();
        store.release(&release).await.unwrap();
        assert_eq!(store.old_releases.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn the_same_seed_draws_the_same_fates() {
        let fates = |seed| {
            let store = FaultBackend::new(Memory::new(), Faults::SOME, seed);
            (0..200)
                .map(|_| format!("{:?}", store.draw()))
                .collect::<Vec<_>>()
        };
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
    }

    #[test]
    fn debug_shows_the_seed() {
        let store = FaultBackend::new(Memory::new(), Faults::NONE, 4711);
        assert!(format!("{store:?}").contains("seed: 4711"));
    }
}
