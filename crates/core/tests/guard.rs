//! What a guard may be believed to hold, and for how long: on a store that fails, hangs and is late when told to.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod common_world;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::backend::{
    Acquire, Acquired, BlockedBy, CapacitySet, Confirm, Confirmed, Inbox, List, Page, Release,
    Released, Renew, RenewMode, Renewed, SetCapacity, Sweep, Swept, Watch, Withdraw, Withdrawn,
};
use leasehold_core::lock::{
    LockEvent, LocksBuilder, LostCause, MIN_LOCK_TTL, NotAcquired, RunError, Scope, State,
};
use leasehold_core::memory::Memory;
use leasehold_core::{
    Backend, Capabilities, Description, Effect, Error, ErrorKind, Holder, Locks, ManualClock, Name,
    Record, Result, Token, Ttl,
};

use common_world::{TTL, builder, settle};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// The time a guard may believe in the ttl of these tests.
const BELIEVED: Duration = Duration::from_millis(28_200);

/// What goes wrong with one call.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// It fails, certainly without effect.
    Unavailable,
    /// It takes effect, but nobody learns of it.
    ReplyLost,
    /// It never answers.
    Hangs,
    /// It takes effect at once, and this much time passes before the answer is there.
    Late(Duration),
}

/// A memory store that has trouble when told to, and notes every request it said it cannot do.
#[derive(Debug)]
struct Troubled {
    inner: Memory,
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
    fn plan(&self, verb: &'static str, troubles: &[Trouble]) {
        let mut script = self.script.lock().unwrap();
        script.entry(verb).or_default().extend(troubles);
    }

    /// All calls of a verb go like this from now on.
    fn always(&self, verb: &'static str, trouble: Trouble) {
        self.always.lock().unwrap().insert(verb, trouble);
    }

    fn calls(&self, verb: &'static str) -> usize {
        self.calls
            .lock()
            .unwrap()
            .get(verb)
            .copied()
            .unwrap_or_default()
    }

    fn excesses(&self) -> Vec<String> {
        self.excesses.lock().unwrap().clone()
    }

    async fn around<T>(
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

#[async_trait]
impl Backend for Troubled {
    fn describe(&self) -> &Description {
        &self.description
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

    async fn release(&self, request: &Release) -> Result<Vec<Released>> {
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

    async fn get(&self, name: &Name) -> Result<Option<Record>> {
        self.around("get", self.inner.get(name)).await
    }

    async fn list(&self, request: &List) -> Result<Page<Record>> {
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
struct World {
    locks: Locks,
    clock: ManualClock,
    store_clock: ManualClock,
    store: Arc<Troubled>,
}

impl World {
    fn new() -> Self {
        Self::with(|builder| builder)
    }

    fn with(change: impl FnOnce(LocksBuilder) -> LocksBuilder) -> Self {
        Self::limited(|_| {}, change)
    }

    fn limited(
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
    fn other(&self) -> Locks {
        builder(&self.store, &self.clock)
            .owner("them")
            .build()
            .unwrap()
    }

    fn advance(&self, by: Duration) {
        self.store_clock.advance(by);
        self.clock.advance(by);
    }

    /// Lets time pass in small steps, with everybody taking part.
    async fn pass(&self, time: Duration) {
        let step = 50 * MS;
        let mut left = time;
        settle().await;
        while !left.is_zero() {
            self.advance(step.min(left));
            left = left.saturating_sub(step);
            settle().await;
        }
    }

    fn name(&self, key: &str) -> Name {
        Name::new("orders", key).unwrap()
    }

    /// How many hold a key, as the store sees it.
    async fn grants(&self, key: &str) -> usize {
        let record = self.store.inner.get(&self.name(key)).await.unwrap();
        record.map_or(0, |record| record.grants.len())
    }

    /// Ends what is held of a key, as somebody else would.
    async fn force(&self, key: &str, reason: &str) {
        self.other().force_release(key, reason).await.unwrap();
    }

    /// The store's clock runs ahead: its leases are over, and somebody else takes these keys.
    async fn take_over(&self, keys: &[&str]) -> Vec<leasehold_core::Guard> {
        self.store_clock.advance(TTL);
        let (other, mut thieves) = (self.other(), Vec::new());
        for key in keys {
            thieves.push(other.lock(key).try_acquire().await.unwrap().unwrap());
        }
        thieves
    }
}

fn believed(ttl: Duration) -> Duration {
    ttl - ttl / 100 - (50 * MS).max(ttl / 20)
}

/// T0-02, T0-03, T0-04, T0-06, S0-09.
#[tokio::test]
async fn a_guard_knows_its_name_namespace_ttl_and_remaining_time() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    assert_eq!(guard.name().key(), "1");
    assert_eq!(guard.name().namespace(), "orders");
    assert_eq!(world.locks.namespace(), Some("orders"));
    assert_eq!(guard.ttl().as_duration(), TTL);
    assert_eq!(world.locks.ttl(), TTL);
    assert!(guard.remaining() > Duration::ZERO && guard.remaining() <= TTL);
    let record = world.locks.get("1").await.unwrap().unwrap();
    assert_eq!(guard.expires_at(), record.grants[0].expires_at);
    assert_eq!(guard.token(), record.grants[0].token);
    world.advance(SECOND);
    assert_eq!(guard.held_for(), SECOND);
}

/// T0-20, S0-02.
#[tokio::test]
async fn keys_and_namespaces_are_independent() {
    let world = World::new();
    let billing = world.locks.in_namespace("billing").unwrap();
    let one = world.locks.lock("1").try_acquire().await.unwrap().unwrap();
    let two = world.locks.lock("2").try_acquire().await.unwrap().unwrap();
    let other = billing.lock("1").try_acquire().await.unwrap().unwrap();
    one.release().await.unwrap();
    assert!(world.locks.is_locked("2").await.unwrap());
    assert!(billing.is_locked("1").await.unwrap());
    two.check().unwrap();
    other.check().unwrap();
}

/// T0-21: nobody ends what was never theirs.
#[tokio::test]
async fn a_release_by_somebody_who_never_held_it_changes_nothing() {
    let world = World::new();
    let request = |token| Release::grant(world.name("1"), Holder::random(), Token::new(token));
    let answers = world.store.release(&request(1)).await.unwrap();
    assert!(matches!(answers[..], [Released::NotHeld(_)]));
    assert!(
        world
            .locks
            .force_release("1", "not held at all")
            .await
            .unwrap()
            .is_empty()
    );
    let guard = world.locks.lock("1").acquire().await.unwrap();
    let answers = world.store.release(&request(guard.token().get())).await;
    assert!(matches!(answers.unwrap()[..], [Released::NotHeld(_)]));
    guard.release().await.unwrap();
}

/// D = t0 + ttl·0.99 − max(50 ms, ttl/20), to the nanosecond.
#[tokio::test]
async fn a_guard_is_believed_in_up_to_its_exact_deadline() {
    let world = World::new();
    for ttl in
        [200, 999, 1_000, 1_001, 30_000, 3_600_000, 31_622_400_000].map(Duration::from_millis)
    {
        let guard = world.locks.lock("1").ttl(ttl).acquire().await.unwrap();
        assert_eq!(guard.remaining(), believed(ttl), "{ttl:?}");
        world.clock.advance(believed(ttl) - Duration::from_nanos(1));
        guard.check().unwrap();
        assert_eq!(guard.remaining(), Duration::from_nanos(1));
        world.clock.advance(Duration::from_nanos(1));
        assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
        assert!(!guard.is_held());
        assert_eq!(guard.remaining(), Duration::ZERO);
        assert_eq!(guard.state(), State::Lost(LostCause::Expired), "{ttl:?}");
        guard.release_any().await.unwrap();
    }
    assert_eq!(believed(TTL), BELIEVED);
}

#[tokio::test]
async fn a_guard_is_at_risk_for_the_last_tenth_of_its_ttl() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    world.clock.advance(BELIEVED - TTL / 10 - MS);
    assert_eq!(guard.state(), State::Held);
    world.clock.advance(MS);
    assert_eq!(guard.state(), State::AtRisk);
    guard.check().unwrap();
    guard.extend(TTL).await.unwrap();
    assert_eq!(guard.state(), State::Held);
    let held = guard.held();
    guard.release().await.unwrap();
    assert_eq!(held.state(), State::Released);
    assert!(held.check().is_err());
}

/// F8: the round trip counts against the holder.
#[tokio::test]
async fn the_time_the_store_took_is_not_counted_twice() {
    let world = World::new();
    world.store.plan("acquire", &[Trouble::Late(5 * SECOND)]);
    let guard = world.locks.lock("1").acquire().await.unwrap();
    assert_eq!(guard.remaining(), BELIEVED - 5 * SECOND);
    world.store.plan("renew", &[Trouble::Late(3 * SECOND)]);
    guard.extend(TTL).await.unwrap();
    assert_eq!(guard.remaining(), BELIEVED - 3 * SECOND);
}

/// F8: no grant is ever returned already past its deadline, and it is given back.
#[tokio::test]
async fn a_grant_that_comes_too_late_is_not_returned_and_given_back() {
    let world = World::new();
    for late in [BELIEVED, TTL, TTL * 10] {
        let calls = world.store.calls("withdraw");
        world.store.plan("acquire", &[Trouble::Late(late); 3]);
        let lock = world.locks.lock("1");
        let tried = lock.try_acquire().await.unwrap_err();
        assert_eq!(
            (tried.kind(), tried.effect()),
            (ErrorKind::Timeout, Effect::Unknown)
        );
        settle().await;
        assert_eq!(world.grants("1").await, 0, "late by {late:?}");
        assert_eq!(lock.acquire().await.unwrap_err().kind(), ErrorKind::Timeout);
        settle().await;
        assert_eq!(world.grants("1").await, 0, "late by {late:?}");
        let ran = lock.run(|_| async { unreachable!("the lock was never had") });
        assert!(matches!(ran.await, Err::<(), _>(RunError::Unknown(_))));
        settle().await;
        assert_eq!(world.grants("1").await, 0, "late by {late:?}");
        assert_eq!(world.store.calls("withdraw"), calls + 3);
    }
    world.store.plan("acquire", &[Trouble::Late(BELIEVED - MS)]);
    let guard = world.locks.lock("1").acquire().await.unwrap();
    assert_eq!(guard.remaining(), MS);
}

/// F8, for those who take a lease over.
#[tokio::test]
async fn an_adoption_that_comes_too_late_is_not_returned() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    let handover = guard.hand_over().unwrap();
    world.store.plan("renew", &[Trouble::Late(TTL)]);
    let adopted = world.other().adopt(&handover).await;
    assert!(adopted.is_err(), "a dead guard was returned: {adopted:?}");
}

/// F3, F15: a suspended machine wakes up long after its lease, and the first look tells.
#[tokio::test]
async fn the_first_check_after_a_long_sleep_is_false() {
    for renewing in [false, true] {
        let world = World::new();
        let lock = world.locks.lock("1");
        let lock = if renewing { lock.renewing() } else { lock };
        let guard = lock.acquire().await.unwrap();
        settle().await;
        world.advance(TTL * 10);
        assert!(!guard.is_held());
        assert_eq!(guard.lost().await, LostCause::Expired);
        let thief = world.other().lock("1").try_acquire().await.unwrap();
        settle().await;
        assert!(!guard.is_held(), "a late renewal brought it back");
        thief.unwrap().check().unwrap();
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    }
}

/// S2-06: and the body of a run is told at its deadline, neither before nor after.
#[tokio::test]
async fn lost_resolves_at_the_deadline() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    let held = guard.held();
    let told = tokio::spawn(async move { held.lost().await });
    settle().await;
    world.advance(BELIEVED - MS);
    settle().await;
    assert!(!told.is_finished());
    world.advance(MS);
    settle().await;
    assert!(told.is_finished());
    assert_eq!(told.await.unwrap(), LostCause::Expired);
    drop(guard);
}

/// S2-06: the loss came first, so whoever watches must hear of it, also if the guard goes at once.
#[tokio::test]
async fn whoever_waits_for_a_loss_hears_of_it_although_the_guard_is_dropped_right_after() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    let held = guard.held();
    let told = tokio::spawn({
        let held = held.clone();
        async move { held.lost().await }
    });
    settle().await;
    world.advance(BELIEVED);
    assert!(!guard.is_held());
    drop(guard);
    settle().await;
    assert_eq!(held.state(), State::Lost(LostCause::Expired));
    assert!(told.is_finished(), "the loss was forgotten");
}

/// S1-08: a failed renewal is not a loss.
#[tokio::test]
async fn failed_renewals_put_a_lock_at_risk_and_the_next_good_one_takes_it_back() {
    for trouble in [Trouble::Unavailable, Trouble::ReplyLost, Trouble::Hangs] {
        let world = World::new();
        world.store.plan("renew", &[trouble; 2]);
        let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
        let token = guard.token();
        let seen = tokio::spawn({
            let held = guard.held();
            async move {
                let first = held.state_after(&State::Held).await;
                (first.clone(), held.state_after(&first).await)
            }
        });
        world.pass(9 * SECOND).await;
        assert_eq!(guard.state(), State::Held);
        world.pass(16 * SECOND).await;
        let (first, second) = seen.await.unwrap();
        assert_eq!((first, second), (State::AtRisk, State::Held), "{trouble:?}");
        world.pass(100 * SECOND).await;
        assert_eq!(guard.state(), State::Held, "{trouble:?}");
        assert_eq!(guard.token(), token);
        assert_eq!(world.grants("1").await, 1);
        guard.release().await.unwrap();
    }
}

/// F1, F6: errors in renewal do not end it, and a store that is gone costs the lock by the deadline.
#[tokio::test]
async fn a_store_that_never_answers_a_renewal_costs_the_lock_at_its_deadline() {
    for trouble in [Trouble::Unavailable, Trouble::Hangs] {
        let world = World::new();
        let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
        world.pass(15 * SECOND).await;
        assert_eq!(guard.state(), State::Held);
        let left = guard.remaining();
        world.store.always("renew", trouble);
        let held = guard.held();
        let told = tokio::spawn(async move { held.lost().await });
        world.pass(left - 50 * MS).await;
        assert_eq!(guard.state(), State::AtRisk, "{trouble:?}");
        assert!(!told.is_finished());
        world.pass(50 * MS).await;
        assert!(told.is_finished(), "{trouble:?}");
        assert_eq!(told.await.unwrap(), LostCause::Expired);
        assert!(world.store.calls("renew") > 3, "it went on trying");
    }
}

/// S1-05: "taken over", "ended by force" and "run out" are different losses.
#[tokio::test]
async fn a_renewal_that_is_refused_says_how_the_lock_was_lost() {
    let world = World::new();
    let lock = |key: &str| world.locks.lock(key).renewing();
    let taken = lock("taken").acquire().await.unwrap();
    let expired = lock("expired").acquire().await.unwrap();
    let thieves = world.take_over(&["taken"]).await;
    let forced = lock("forced").acquire().await.unwrap();
    world.force("forced", "stuck since noon").await;
    world.pass(10 * SECOND).await;
    let LostCause::Forced { by, reason } = forced.lost().await else {
        panic!("{:?}", forced.state());
    };
    assert_eq!((by.as_str(), reason.as_str()), ("them", "stuck since noon"));
    let LostCause::TakenOver { by } = taken.lost().await else {
        panic!("{:?}", taken.state());
    };
    assert_eq!((by.owner.as_str(), by.token), ("them", thieves[0].token()));
    assert_eq!(expired.lost().await, LostCause::Expired);
    for guard in [forced, taken, expired] {
        assert_eq!(guard.remaining(), Duration::ZERO);
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    }
}

/// S2-05: renewal goes on as long as the guard is there, and not longer.
#[tokio::test]
async fn renewal_ends_with_its_guard() {
    let world = World::new();
    let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
    world.pass(65 * SECOND).await;
    let renewals = world.store.calls("renew");
    assert!((6..=8).contains(&renewals), "{renewals}");
    guard.forget();
    world.pass(31 * SECOND).await;
    assert_eq!(world.store.calls("renew"), renewals);
    assert_eq!(world.grants("1").await, 0);
}

#[tokio::test]
async fn max_hold_caps_renewal_and_extension() {
    let world = World::with(|builder| builder.max_hold(40 * SECOND));
    let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
    world.pass(39 * SECOND).await;
    guard.extend(100 * SECOND).await.unwrap();
    assert_eq!(guard.remaining(), SECOND);
    let held = guard.held();
    let told = tokio::spawn(async move { held.lost().await });
    world.pass(SECOND).await;
    assert!(told.is_finished());
    assert_eq!(told.await.unwrap(), LostCause::MaxHold);
    assert_eq!(guard.state(), State::Lost(LostCause::MaxHold));
    guard.release_any().await.unwrap();
    assert_eq!(
        world.grants("1").await,
        0,
        "what was still there was given back"
    );
}

/// S0-10: an option that makes every lock useless is refused, on a lock and on a manager.
#[tokio::test]
async fn a_longest_hold_of_nothing_is_refused() {
    let world = World::new();
    let lock = world.locks.lock("1").max_hold(Duration::ZERO);
    assert_eq!(
        lock.acquire().await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let built = builder(&world.store, &world.clock)
        .max_hold(Duration::ZERO)
        .build();
    assert_eq!(
        built.map(|_| ()).map_err(|error| error.kind()),
        Err(ErrorKind::InvalidInput)
    );
}

/// S0-10, S0-16: a sweep without a pause would leave the runtime nothing else to do.
#[tokio::test]
async fn sweeping_without_a_pause_is_refused() {
    let world = World::new();
    let built = builder(&world.store, &world.clock)
        .sweep_every(Some(Duration::ZERO))
        .build();
    assert_eq!(
        built.map(|_| ()).map_err(|error| error.kind()),
        Err(ErrorKind::InvalidInput)
    );
}

/// S2-03, S2-10.
#[tokio::test]
async fn extend_prolongs_and_never_shortens() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    guard.extend(60 * SECOND).await.unwrap();
    assert_eq!(guard.remaining(), believed(60 * SECOND));
    guard.extend(SECOND).await.unwrap();
    assert_eq!(guard.remaining(), believed(60 * SECOND));
    let error = guard.extend(MIN_LOCK_TTL - MS).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    world.store.plan("renew", &[Trouble::Unavailable]);
    let error = guard.extend(90 * SECOND).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(guard.remaining(), believed(60 * SECOND));
    guard.check().unwrap();
    world.force("1", "enough").await;
    let error = guard.extend(90 * SECOND).await.unwrap_err();
    assert!(matches!(error.lost_cause(), Some(LostCause::Forced { .. })));
    assert!(!guard.is_held());
    let calls = world.store.calls("renew");
    assert!(guard.extend(TTL).await.is_err());
    assert_eq!(
        world.store.calls("renew"),
        calls,
        "nothing is left to ask for"
    );
}

/// A backend is never asked for what it said it cannot do.
#[tokio::test]
async fn a_ttl_beyond_what_the_store_can_do_never_reaches_it() {
    let world = World::limited(
        |can| can.max_ttl = Ttl::new(60 * SECOND).unwrap(),
        |builder| builder,
    );
    let long = world.locks.lock("1").ttl(61 * SECOND).acquire().await;
    assert_eq!(long.unwrap_err().kind(), ErrorKind::InvalidInput);
    let guard = world.locks.lock("1").acquire().await.unwrap();
    assert!(guard.extend(61 * SECOND).await.is_err());
    guard.release().await.unwrap();
    let kept = world.locks.idempotent("2").keep_for(61 * SECOND);
    let answer = kept.run(|_| async { Ok::<_, Error>("done".to_owned()) });
    assert!(answer.await.is_err());
    assert_eq!(world.store.excesses(), Vec::<String>::new());
}

/// S2-04: nobody knows, so the body does not run, and what may have been granted is given back.
#[tokio::test]
async fn an_acquisition_nobody_knows_the_end_of_is_given_back_in_the_background() {
    let world = World::new();
    world.store.plan("acquire", &[Trouble::ReplyLost]);
    world.store.plan("withdraw", &[Trouble::Unavailable; 3]);
    let ran = world
        .locks
        .lock("1")
        .run(|_| async { unreachable!("nobody knows whether the lock is ours") })
        .await;
    let Err::<(), _>(RunError::Unknown(error)) = ran else {
        panic!("{ran:?}");
    };
    assert_eq!(error.effect(), Effect::Unknown);
    settle().await;
    assert_eq!(world.grants("1").await, 1, "the store did grant it");
    world.pass(400 * MS).await;
    assert_eq!(world.grants("1").await, 0);
    assert_eq!(world.store.calls("withdraw"), 4);
    world.store.plan("acquire", &[Trouble::Unavailable]);
    let ran = world.locks.lock("1").run(|_| async {}).await;
    assert!(matches!(ran, Err(RunError::Failed(_))), "{ran:?}");
    settle().await;
    assert_eq!(
        world.store.calls("withdraw"),
        4,
        "certainly nothing to give back"
    );
}

/// A store that is down never looks like a lock that is taken, or free.
#[tokio::test]
async fn a_failing_store_is_an_error_and_not_a_refusal() {
    let world = World::new();
    world.store.always("acquire", Trouble::Unavailable);
    world.store.always("get", Trouble::Unavailable);
    let lock = world.locks.lock("1");
    let kinds = [
        lock.try_acquire().await.unwrap_err().kind(),
        lock.acquire().await.unwrap_err().kind(),
        lock.acquire_within(Duration::ZERO)
            .await
            .unwrap_err()
            .kind(),
        lock.acquire_within(SECOND).await.unwrap_err().kind(),
        world.locks.is_locked("1").await.unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::Unavailable; 5]);
}

/// A waiter that was told to wait shrugs off short trouble.
#[tokio::test]
async fn a_waiter_survives_a_store_that_stumbles() {
    let world = World::new();
    let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = world.locks.lock("1");
        async move { lock.acquire().await }
    });
    world.pass(SECOND).await;
    world.store.plan("acquire", &[Trouble::Unavailable; 4]);
    world.pass(20 * SECOND).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    world.pass(SECOND).await;
    assert!(waiter.is_finished());
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

/// A request the store cannot do is a failure in the books, not a wait that somebody gave up.
#[tokio::test]
async fn what_a_store_cannot_do_is_told_to_hooks_as_a_failure() {
    let failed = Arc::new(AtomicUsize::new(0));
    let count = failed.clone();
    let world = World::limited(
        |can| can.quantities = false,
        |builder| {
            builder.on_event(move |event| {
                if let LockEvent::NotAcquired { why, .. } = event {
                    assert!(matches!(why, NotAcquired::Failed(_)));
                    count.fetch_add(1, Ordering::SeqCst);
                }
            })
        },
    );
    let shared = world.locks.lock("1").shared();
    let kinds = [
        shared.acquire().await.unwrap_err().kind(),
        shared.try_acquire().await.unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::Unsupported; 2]);
    assert_eq!(failed.load(Ordering::SeqCst), 2);
    assert_eq!(world.store.calls("acquire"), 0);
}

/// Lock delay: only after a lease that ran out, and waiters sit it out.
#[tokio::test]
async fn a_lock_delay_follows_a_lease_that_ran_out_and_no_other() {
    let world = World::new();
    let lock = world.locks.lock("1").lock_delay(10 * SECOND);
    lock.acquire().await.unwrap().release().await.unwrap();
    lock.acquire().await.unwrap().forget();
    world.advance(TTL);
    let error = lock.acquire_within(Duration::ZERO).await.unwrap_err();
    let blocked = error.blocked().unwrap();
    assert_eq!(blocked.by, BlockedBy::LockDelay);
    assert!(error.to_string().contains("lock delay"), "{error}");
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap().held_for() }
    });
    world.pass(9_900 * MS).await;
    assert!(!waiter.is_finished());
    world.pass(500 * MS).await;
    assert!(waiter.is_finished());
    waiter.await.unwrap();
    let day_and_more = Acquire::MAX_LOCK_DELAY + MS;
    let lock = world.locks.lock("2").lock_delay(day_and_more);
    assert_eq!(
        lock.acquire().await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

/// G-15: each reader has a deadline of its own.
#[tokio::test]
async fn readers_lose_their_leases_one_by_one() {
    let world = World::new();
    let lock = world.locks.lock("1").shared();
    let first = lock.acquire().await.unwrap();
    world.advance(20 * SECOND);
    let second = lock.acquire().await.unwrap();
    assert_ne!(first.token(), second.token());
    world.advance(11 * SECOND);
    assert!(!first.is_held() && second.is_held());
    let writer = world.locks.lock("1");
    assert!(writer.try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    writer
        .try_acquire()
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// S2-12: permits come back however their holders end.
#[tokio::test]
async fn permits_come_back_by_release_drop_and_expiry() {
    let world = World::new();
    let gpu = world.locks.semaphore("gpu", 3);
    let released = gpu.acquire().await.unwrap();
    let dropped = gpu.acquire().await.unwrap();
    gpu.acquire().await.unwrap().forget();
    assert!(gpu.try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn({
        let gpu = gpu.clone().units(3);
        async move { gpu.acquire().await.unwrap().token() }
    });
    settle().await;
    released.release().await.unwrap();
    drop(dropped);
    settle().await;
    assert!(!waiter.is_finished());
    world.pass(TTL).await;
    assert!(waiter.is_finished());
    waiter.await.unwrap();
    let error = world.locks.semaphore("gpu", 0).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// S0-06, S1-05, S1-07: strictly, leniently, and not caring.
#[tokio::test]
async fn a_release_says_what_it_found_as_strictly_as_it_is_asked() {
    type End = &'static str;
    let ends: [(End, bool); 4] = [
        ("held", true),
        ("expired", false),
        ("forced", false),
        ("taken", false),
    ];
    for (end, ours) in ends {
        let world = World::new();
        let keys = ["strict", "lenient", "any"];
        let mut guards = Vec::new();
        for key in keys {
            guards.push(world.locks.lock(key).acquire().await.unwrap());
        }
        let mut thieves = Vec::new();
        match end {
            "expired" => world.advance(TTL),
            "taken" => thieves = world.take_over(&keys).await,
            "forced" => {
                for key in keys {
                    world.force(key, "enough").await;
                }
            }
            _ => {}
        }
        let [strict, lenient, any] = guards.try_into().unwrap();
        let answer = strict.release().await;
        assert_eq!(answer.is_ok(), ours, "{end}");
        if let Err(error) = answer {
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Lost, Effect::None)
            );
            let cause = error.lost_cause().unwrap();
            assert!(match end {
                "expired" => *cause == LostCause::Expired,
                "forced" => matches!(cause, LostCause::Forced { .. }),
                _ => matches!(cause, LostCause::TakenOver { .. }),
            });
        }
        assert_eq!(lenient.release_if_held().await.unwrap(), ours, "{end}");
        any.release_any().await.unwrap();
        for thief in thieves {
            thief.release().await.unwrap();
        }
    }
}

/// S2-04: trouble with a release is told, and the background goes on until the store hears it.
#[tokio::test]
async fn a_failed_release_is_retried_in_the_background() {
    for (n, trouble) in [Trouble::Unavailable, Trouble::ReplyLost]
        .into_iter()
        .enumerate()
    {
        let world = World::new();
        world.store.plan("release", &[trouble]);
        world.store.plan("withdraw", &[trouble; 3]);
        let guard = world.locks.lock("1").acquire().await.unwrap();
        let error = guard.release().await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert_eq!(world.grants("1").await, 1 - n);
        world.pass(450 * MS).await;
        assert_eq!(world.grants("1").await, 0);
        assert_eq!(world.store.calls("withdraw"), 4);
    }
}

/// A background release gives up when the lease must be over by itself.
#[tokio::test]
async fn a_background_release_does_not_go_on_for_ever() {
    let world = World::new();
    world.store.always("withdraw", Trouble::Unavailable);
    drop(world.locks.lock("1").ttl(SECOND).acquire().await.unwrap());
    world.pass(3 * SECOND).await;
    let calls = world.store.calls("withdraw");
    world.pass(3 * SECOND).await;
    assert_eq!(world.store.calls("withdraw"), calls);
    assert_eq!(world.grants("1").await, 0);
}

/// S2-04: value and error of the body come back as they are, also if the release fails.
#[tokio::test]
async fn a_body_keeps_its_value_and_its_error() {
    let world = World::new();
    let lock = world.locks.lock("1");
    assert_eq!(lock.run(|held| async move { held.token() }).await.ok(), {
        let record = world.locks.get("1").await.unwrap();
        record.map(|record| record.last_token)
    });
    let result = lock.run(|_| async { Err::<(), _>("no money") }).await;
    assert_eq!(result.unwrap(), Err("no money"));
    world.store.plan("release", &[Trouble::Unavailable]);
    let result = lock.run(|_| async { Err::<(), _>("no money") }).await;
    assert_eq!(result.unwrap(), Err("no money"));
    settle().await;
    assert_eq!(world.grants("1").await, 0);
    let held = lock.acquire().await.unwrap();
    assert_eq!(lock.try_run(|_| async {}).await.unwrap(), None);
    let late = lock.run_within(Duration::ZERO, |_| async {}).await;
    assert!(matches!(late, Err(RunError::NotAcquired(_))));
    held.release().await.unwrap();
}

/// S2-04: a body that panics leaves no lock behind.
#[tokio::test]
async fn a_body_that_panics_gives_the_lock_back() {
    let world = World::new();
    let lock = world.locks.lock("1");
    let body =
        tokio::spawn(async move { lock.run::<(), _, _>(|_| async { panic!("as told") }).await });
    assert!(body.await.unwrap_err().is_panic());
    settle().await;
    assert_eq!(world.grants("1").await, 0);
    assert_eq!(world.locks.held(), 0);
}

/// Pain 23: a lease goes from one manager to another, keeps its token, and is looked after there.
#[tokio::test]
async fn a_lease_is_adopted_by_another_manager() {
    let world = World::new();
    let heirs = builder(&world.store, &world.clock)
        .namespace("elsewhere")
        .owner("heir")
        .renewing()
        .build()
        .unwrap();
    let guard = world.locks.all(["a", "b"]).acquire().await.unwrap();
    let tokens: Vec<_> = guard
        .tokens()
        .map(|(name, token)| (name.clone(), token))
        .collect();
    let text = guard.hand_over().unwrap().to_string();
    assert_eq!(world.locks.held(), 0);
    world.advance(20 * SECOND);
    let adopted = heirs.adopt(&text.parse().unwrap()).await.unwrap();
    let kept: Vec<_> = adopted
        .tokens()
        .map(|(name, token)| (name.clone(), token))
        .collect();
    assert_eq!(kept, tokens);
    assert_eq!(adopted.remaining(), BELIEVED);
    assert_eq!(
        world
            .locks
            .holder("a")
            .await
            .unwrap()
            .unwrap()
            .owner
            .as_str(),
        "heir"
    );
    world.pass(60 * SECOND).await;
    adopted.check().unwrap();
    let error = world.locks.adopt(&text.parse().unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    adopted.release().await.unwrap();
    assert_eq!(world.grants("a").await + world.grants("b").await, 0);
}

/// Adoption of several names is all or nothing, and what has run out cannot be adopted.
#[tokio::test]
async fn a_handover_of_which_a_part_is_lost_is_not_adopted() {
    let world = World::new();
    let guard = world.locks.all(["a", "b"]).acquire().await.unwrap();
    let handover = guard.hand_over().unwrap();
    world.force("b", "enough").await;
    let error = world.other().adopt(&handover).await.unwrap_err();
    assert!(
        matches!(error.lost_cause(), Some(LostCause::Forced { .. })),
        "{error}"
    );
    settle().await;
    assert_eq!(world.grants("a").await, 0, "the other half was given back");
    let guard = world.locks.lock("c").acquire().await.unwrap();
    let handover = guard.hand_over().unwrap();
    world.advance(TTL);
    let error = world.other().adopt(&handover).await.unwrap_err();
    assert_eq!(error.lost_cause(), Some(&LostCause::Expired));
    let lost = world.locks.lock("c").acquire().await.unwrap();
    world.clock.advance(TTL);
    let error = lost.hand_over().unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Lost,
        "nothing is left to hand over"
    );
    let lock = world.locks.lock("d").scope(&Scope::new());
    let (outer, inner) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
    let error = inner.hand_over().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(outer.depth(), 1);
    outer.release().await.unwrap();
}

/// S0-07, G-15: a scope that reads does not write by taking the lock again.
#[tokio::test]
async fn a_shared_lock_is_not_taken_again_as_an_exclusive_one() {
    let world = World::new();
    let (ours, theirs) = (Scope::new(), Scope::new());
    let lock = |scope: &Scope| world.locks.lock("1").scope(scope);
    let mine = lock(&ours).shared().acquire().await.unwrap();
    let reader = lock(&theirs).shared().acquire().await.unwrap();
    let writer = lock(&ours).try_acquire().await;
    assert!(
        !matches!(writer, Ok(Some(_))),
        "an exclusive lock was given while another reader holds it"
    );
    reader.release().await.unwrap();
    mine.release().await.unwrap();
}

/// S0-07: nor are more units had than were taken.
#[tokio::test]
async fn taking_a_permit_again_does_not_give_more_than_was_taken() {
    let world = World::new();
    let scope = Scope::new();
    let gpu = world.locks.semaphore("gpu", 3);
    let one = gpu.clone().scope(&scope).acquire().await.unwrap();
    let rest = gpu.clone().units(2).acquire().await.unwrap();
    let more = gpu.clone().scope(&scope).units(3).try_acquire().await;
    assert!(
        !matches!(more, Ok(Some(_))),
        "three units were promised where one is held"
    );
    rest.release().await.unwrap();
    one.release().await.unwrap();
}

/// S0-07, S1-04: every name of a set is held, not only the first; taking one of them again must not wait for itself.
#[tokio::test]
async fn a_scope_does_not_wait_for_its_own_set_of_names() {
    let world = World::new();
    let scope = Scope::new();
    let both = world.locks.all(["a", "b"]).scope(&scope);
    let guard = both.acquire().await.unwrap();
    assert!(world.locks.lock("a").is_held_by(&scope));
    assert!(
        world.locks.lock("b").is_held_by(&scope),
        "the second name is held as well"
    );
    for key in ["a", "b"] {
        let again = world.locks.lock(key).scope(&scope);
        let error = tokio::select! {
            biased;
            answer = again.acquire_within(SECOND) => answer.map(drop).map_err(|error| error.kind()),
            () = settle() => panic!("{key}: it waits for itself"),
        };
        assert_eq!(error, Err(ErrorKind::InvalidInput), "{key}");
    }
    guard.release().await.unwrap();
}

/// The books count locks that are held, not views of them that somebody kept.
#[tokio::test]
async fn a_view_of_a_released_lock_is_not_counted_as_held() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    assert_eq!(world.locks.held(), 1);
    let view = guard.held();
    guard.release().await.unwrap();
    assert_eq!(view.state(), State::Released);
    assert_eq!(world.locks.held(), 0);
}

/// S0-18, S2-06: a body must not go on without the lock that shutdown gave back.
#[tokio::test]
async fn shutdown_stops_the_bodies_that_run_under_its_locks() {
    let world = World::new();
    let body = tokio::spawn({
        let lock = world.locks.lock("1");
        async move { lock.run(|_| std::future::pending::<()>()).await }
    });
    settle().await;
    world.locks.shutdown(SECOND).await.unwrap();
    settle().await;
    assert_eq!(world.grants("1").await, 0);
    assert!(
        body.is_finished(),
        "the body goes on although the lock is free"
    );
    assert!(matches!(body.await.unwrap(), Err(RunError::Lost { .. })));
}

/// S0-18: whoever waits when a manager shuts down leaves nothing behind either.
#[tokio::test]
async fn shutdown_waits_until_its_waiters_have_left_the_queue() {
    let world = World::new();
    let _guard = world.locks.lock("1").acquire().await.unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let lock = world.locks.lock("1");
            tokio::spawn(async move { lock.acquire().await.map(drop).map_err(|e| e.kind()) })
        })
        .collect();
    settle().await;
    world.locks.shutdown(SECOND).await.unwrap();
    assert_eq!(
        world.grants("1").await,
        0,
        "it went to a waiter of the same manager"
    );
    let record = world.store.inner.get(&world.name("1")).await.unwrap();
    assert!(record.is_none_or(|record| record.tickets.is_empty()));
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), Err(ErrorKind::Closed));
    }
}

/// S0-18: a closed manager takes no lock any more, also if one becomes free in the same moment.
#[tokio::test]
async fn a_waiter_gets_no_lock_from_a_manager_that_was_closed() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let lock = world.locks.lock("1");
            tokio::spawn(async move { lock.acquire().await.map(drop).map_err(|e| e.kind()) })
        })
        .collect();
    settle().await;
    world.locks.close();
    guard.release().await.unwrap();
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), Err(ErrorKind::Closed));
    }
    settle().await;
    assert_eq!(world.grants("1").await, 0);
}

/// S0-18: what is known of a lock after shutdown is that the shutdown ended it.
#[tokio::test]
async fn a_guard_that_outlives_its_manager_is_released_without_a_false_alarm() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    world.locks.shutdown(SECOND).await.unwrap();
    assert_eq!(guard.state(), State::Lost(LostCause::ShutDown));
    let text = guard.check().unwrap_err().to_string();
    assert!(!text.contains("never granted"), "{text}");
}

/// S0-18: a store that does not answer is reported, and shutdown ends nevertheless.
#[tokio::test]
async fn shutdown_ends_on_a_store_that_does_not_answer() {
    let world = World::new();
    world.store.always("withdraw", Trouble::Hangs);
    let _guard = world.locks.lock("1").acquire().await.unwrap();
    let shutdown = tokio::spawn({
        let locks = world.locks.clone();
        async move { locks.shutdown(SECOND).await }
    });
    world.pass(SECOND).await;
    assert!(shutdown.is_finished());
    let error = shutdown.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Timeout, Effect::Unknown)
    );
}

/// A guard that outlives its runtime leaves its lease to run out, and does not panic.
#[test]
fn a_guard_may_be_dropped_after_its_runtime() {
    let clock = ManualClock::new();
    let store = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    let build = || {
        Locks::new(store.clone() as Arc<dyn Backend>)
            .namespace("orders")
            .ttl(TTL)
            .clock(Arc::new(clock.clone()))
            .build()
            .unwrap()
    };
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    };
    let first = runtime();
    let (locks, dropped, told) = first.block_on(async {
        let locks = build();
        let dropped = locks.lock("dropped").renewing().acquire().await.unwrap();
        let told = locks.lock("told").acquire().await.unwrap();
        (locks, dropped, told)
    });
    drop(first);
    dropped.check().unwrap();
    drop(dropped);
    runtime().block_on(async {
        assert!(locks.is_locked("dropped").await.unwrap());
        told.release().await.unwrap();
        assert!(!locks.is_locked("told").await.unwrap());
        clock.advance(TTL);
        assert!(!locks.is_locked("dropped").await.unwrap());
        let fresh = build();
        fresh
            .lock("dropped")
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        locks.shutdown(SECOND).await.unwrap();
    });
}
