//! Two stores, one of which is used at a time, with a pause between them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common_moods;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common_moods::{Mood, Store};
use leasehold_core::backend::{
    Acquire, Acquired, Inbox, List, Names, Own, Release, Released, Renew, RenewItem, Renewed,
    Sweep, Withdraw,
};
use leasehold_core::memory::Memory;
use leasehold_core::wrap::{Fallback, FallbackState};
use leasehold_core::{
    Backend, Class, Clock, Effect, ErrorKind, Fencing, Holder, Lease, ManualClock, Name, Owner,
    Result, Survival, Timestamp, Token, Ttl,
};

const LONGEST: Duration = Duration::from_secs(30);
const MARGIN: Duration = Duration::from_secs(10);
const AFTER: Duration = Duration::from_secs(5);

/// What a fallback told of its states.
type Told = Arc<Mutex<Vec<FallbackState>>>;

struct World {
    primary: Arc<Store>,
    secondary: Arc<Store>,
    fallback: Arc<Fallback>,
    clock: ManualClock,
    told: Told,
    name: Name,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        let store = || Arc::new(Store::new(clock.clone()));
        let (primary, secondary) = (store(), store());
        let told = Told::default();
        let sink = Arc::clone(&told);
        let fallback = Fallback::new(primary.clone(), secondary.clone(), LONGEST).unwrap();
        let fallback = fallback
            .margin(MARGIN)
            .after(AFTER)
            .on_change(move |state| sink.lock().unwrap().push(state))
            .with_clock(Arc::new(clock.clone()));
        Self {
            primary,
            secondary,
            fallback: Arc::new(fallback),
            clock,
            told,
            name: Name::new("n", "k").unwrap(),
        }
    }

    /// One that has just found out that the first store is gone for good.
    async fn leaving() -> Self {
        let world = Self::new();
        world.primary.feel(Mood::Dead);
        world.fail().await;
        world.clock.advance(AFTER);
        world.fail().await;
        assert_eq!(world.fallback.state(), FallbackState::Leaving);
        world
    }

    /// One that uses the second store.
    async fn on_second() -> Self {
        let world = Self::leaving().await;
        world.clock.advance(LONGEST + MARGIN);
        assert_eq!(world.fallback.state(), FallbackState::Secondary);
        world
    }

    fn request(&self, holder: &Holder) -> Acquire {
        let owner = Owner::new("test").unwrap();
        let names = Names::one(self.name.clone());
        Acquire::new(names, holder.clone(), owner, Ttl::new(LONGEST).unwrap())
    }

    async fn take(&self, holder: &Holder) -> Lease {
        granted(self.fallback.acquire(&self.request(holder)).await)
    }

    async fn release(&self, holder: &Holder, token: Token) -> Result<Released> {
        let release = Release::grant(self.name.clone(), holder.clone(), token);
        let answers = self.fallback.release(&release).await;
        answers.map(|mut answers| answers.remove(0))
    }

    /// A call that the store in use fails.
    async fn fail(&self) {
        let error = self.fallback.get(&self.name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }

    /// Lets some time pass, with calls and whatever they start in the background.
    async fn pass(&self, time: Duration) {
        let step = Duration::from_secs(1);
        let end = self.clock.now().after(time);
        while self.clock.now() < end {
            drop(self.fallback.get(&self.name).await);
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            self.clock.advance(step);
        }
    }

    fn told(&self) -> Vec<FallbackState> {
        self.told.lock().unwrap().clone()
    }
}

fn granted(answer: Result<Acquired>) -> Lease {
    match answer {
        Ok(Acquired::Granted(mut leases)) => leases.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_promises_less_than_either_store() {
    let world = World::new();
    let what = world.fallback.describe();
    assert_eq!((what.scheme, what.guarantees.class), ("fallback", Class::P));
    assert_eq!(what.guarantees.fencing, Fencing::BestEffort);
    assert_eq!(what.guarantees.survives_failover, Survival::No);
    assert!(
        what.guarantees
            .assumes
            .contains("do not exclude each other")
    );
    let can = &what.capabilities;
    assert!(!can.queue && !can.reservations && !can.quantities && can.list);
    assert_eq!(can.max_ttl.as_duration(), LONGEST);
}

#[test]
fn a_store_cannot_stand_in_for_itself() {
    let store = Arc::new(Memory::new());
    let error = Fallback::new(store.clone(), store, LONGEST).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let two = || Arc::new(Memory::new());
    assert!(Fallback::new(two(), two(), Duration::ZERO).is_err());
}

/// Nobody could wait for such a lease to end.
#[tokio::test]
async fn a_lease_longer_than_the_longest_is_refused() {
    let world = World::new();
    let holder = Holder::random();
    let lease = world.take(&holder).await;
    let too_long = Ttl::new(LONGEST + Duration::from_millis(1)).unwrap();
    let mut request = world.request(&Holder::random());
    request.ttl = too_long;
    let error = world.fallback.acquire(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("30s"), "{error}");

    let item = |ttl| RenewItem::lease(world.name.clone(), holder.clone(), lease.token, ttl);
    let fine = Ttl::new(LONGEST).unwrap();
    let items = vec![
        item(too_long),
        item(fine),
        item(fine).add(fine, lease.expires_at),
    ];
    let answers = world.fallback.renew(&Renew { items }).await.unwrap();
    let kind = |at: usize| answers[at].as_ref().unwrap_err().kind();
    assert_eq!(kind(0), ErrorKind::InvalidInput);
    assert!(matches!(&answers[1], Ok(Renewed::Renewed(lease)) if lease.ttl == LONGEST));
    assert_eq!(kind(2), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_first_store_that_fails_now_and_then_stays_in_use() {
    let world = World::new();
    for _ in 0..10 {
        world.primary.script([Mood::Dead, Mood::Dead, Mood::Well]);
        world.fail().await;
        world.clock.advance(AFTER - Duration::from_secs(1));
        world.fail().await;
        world.fallback.get(&world.name).await.unwrap();
        world.clock.advance(AFTER);
    }
    assert_eq!(world.told(), []);
    assert_eq!(world.secondary.calls(), 0);
}

/// An answer about the request says that the store is there.
#[tokio::test]
async fn a_refused_request_is_no_failure_of_the_store() {
    let world = World::new();
    let twice = (0..2).map(|_| (world.name.clone(), Token::new(1)));
    let request = Release::Grants {
        holder: Holder::random(),
        grants: twice.collect(),
    };
    for _ in 0..3 {
        let error = world.fallback.release(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        world.clock.advance(AFTER);
    }
    assert_eq!(world.fallback.state(), FallbackState::Primary);
}

/// S8: the pause is an error that says how long it lasts, and never "free" or "busy".
#[tokio::test]
async fn between_the_stores_everything_is_refused_and_neither_is_asked() {
    let world = World::leaving().await;
    let asked = (world.primary.calls(), world.secondary.calls());
    let (inbox, items) = (Inbox::new(|_| {}), Vec::new());
    let answers = [
        world
            .fallback
            .acquire(&world.request(&Holder::random()))
            .await
            .map(drop),
        world.fallback.renew(&Renew { items }).await.map(drop),
        world.fallback.get(&world.name).await.map(drop),
        world.fallback.list(&List::all()).await.map(drop),
        world.fallback.sweep(&Sweep::default()).await.map(drop),
        world.fallback.watch(&inbox, None).await.map(drop),
    ];
    for answer in answers {
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.effect(), Effect::None);
        assert!(error.to_string().contains("in 40s"), "{error}");
    }
    assert_eq!((world.primary.calls(), world.secondary.calls()), asked);
}

/// S1: whatever the first store granted, to anybody here, has ended before the second grants anything.
#[tokio::test]
async fn the_second_store_grants_nothing_before_the_last_lease_of_the_first_is_over() {
    let world = World::new();
    let lease = world.take(&Holder::random()).await;
    world.primary.feel(Mood::Dead);
    let request = world.request(&Holder::random());
    let mut waited = Duration::ZERO;
    let step = Duration::from_millis(500);
    let next = loop {
        match world.fallback.acquire(&request).await {
            Ok(Acquired::Granted(mut leases)) => break leases.remove(0),
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        world.clock.advance(step);
        waited += step;
    };
    assert!(waited >= AFTER + LONGEST + MARGIN, "{waited:?}");
    assert!(next.token > lease.token);
    assert_eq!(world.secondary.holds(&world.name).await, Some(next.token));
    assert_eq!(
        world.told(),
        [FallbackState::Leaving, FallbackState::Secondary]
    );
}

/// What was asked before the change and is answered after it may be a lease that nobody has waited for.
#[tokio::test]
async fn a_grant_that_comes_after_its_store_was_given_up_is_not_believed() {
    let world = World::new();
    world.primary.script([Mood::Slow]);
    let late = tokio::spawn({
        let (fallback, request) = (
            Arc::clone(&world.fallback),
            world.request(&Holder::random()),
        );
        async move { fallback.acquire(&request).await }
    });
    tokio::task::yield_now().await;
    world.primary.feel(Mood::Dead);
    world.fail().await;
    world.clock.advance(AFTER);
    world.fail().await;
    world.primary.go_on();
    let error = late.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.effect(), Effect::Unknown);
    assert!(
        world.primary.holds(&world.name).await.is_some(),
        "it was granted"
    );
}

#[tokio::test]
async fn a_lease_can_be_ended_in_the_pause() {
    let world = World::new();
    let holder = Holder::random();
    let lease = world.take(&holder).await;
    world.primary.script([Mood::Dead, Mood::Dead]);
    world.fail().await;
    world.clock.advance(AFTER);
    world.fail().await;
    assert_eq!(world.fallback.state(), FallbackState::Leaving);
    let released = world.release(&holder, lease.token).await.unwrap();
    assert_eq!(released, Released::Released);
    assert_eq!(world.primary.holds(&world.name).await, None);
    let names = Names::one(world.name.clone());
    let withdrawal = Withdraw { names, holder };
    world.fallback.withdraw(&withdrawal).await.unwrap();
}

/// A short outage costs no more than itself, as long as nobody can use the second store yet.
#[tokio::test]
async fn a_first_store_that_is_soon_back_is_used_again() {
    let world = World::leaving().await;
    world.primary.feel(Mood::Well);
    world.pass(Duration::from_secs(2)).await;
    assert_eq!(world.fallback.state(), FallbackState::Primary);
    world.take(&Holder::random()).await;
    assert_eq!(world.secondary.calls(), 0);
}

#[tokio::test]
async fn it_returns_to_the_first_store_in_the_same_way() {
    let world = World::on_second().await;
    let holder = Holder::random();
    let lease = world.take(&holder).await;
    world.primary.feel(Mood::Well);
    world.pass(AFTER + Duration::from_secs(2)).await;
    assert_eq!(world.fallback.state(), FallbackState::Returning);
    let refused = world
        .fallback
        .acquire(&world.request(&Holder::random()))
        .await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(
        world.release(&holder, lease.token).await.unwrap(),
        Released::Released
    );
    world.clock.advance(LONGEST + MARGIN);
    let next = world.take(&Holder::random()).await;
    assert!(next.token > lease.token);
    assert_eq!(world.primary.holds(&world.name).await, Some(next.token));
    use FallbackState::{Leaving, Primary, Returning, Secondary};
    assert_eq!(world.told(), [Leaving, Secondary, Returning, Primary]);
}

/// A probe that never comes back keeps nobody waiting, and there is only one.
#[tokio::test]
async fn a_first_store_that_hangs_is_asked_once() {
    let world = World::on_second().await;
    world.primary.feel(Mood::Hanging);
    let before = world.primary.calls();
    world.pass(Duration::from_secs(20)).await;
    world.take(&Holder::random()).await;
    assert_eq!(world.primary.calls(), before + 1);
    assert_eq!(world.fallback.state(), FallbackState::Secondary);
}

/// S3: also where the second store counts from far below, and after a change back.
#[tokio::test]
async fn tokens_grow_across_every_change() {
    let clock = ManualClock::new();
    let behind = ManualClock::new();
    behind.set_wall(Timestamp::from_millis(1_000_000));
    let primary = Arc::new(Store::new(clock.clone()));
    let secondary = Arc::new(Store::new(behind));
    let fallback = Fallback::new(primary.clone(), secondary, LONGEST).unwrap();
    let fallback = fallback
        .after(Duration::ZERO)
        .with_clock(Arc::new(clock.clone()));
    let name = Name::new("n", "k").unwrap();
    let mut last = Token::new(0);
    for _ in 0..3 {
        for mood in [Mood::Dead, Mood::Well] {
            for _ in 0..3 {
                let (names, holder) = (Names::one(name.clone()), Holder::random());
                let owner = Owner::new("test").unwrap();
                let ttl = Ttl::new(LONGEST).unwrap();
                let request = Acquire::new(names.clone(), holder.clone(), owner, ttl);
                let lease = granted(fallback.acquire(&request).await);
                assert!(lease.token > last);
                last = lease.token;
                fallback
                    .withdraw(&Withdraw { names, holder })
                    .await
                    .unwrap();
            }
            primary.feel(mood);
            clock.advance(Fallback::PROBE_EVERY);
            drop(fallback.get(&name).await);
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            clock.advance(LONGEST + Fallback::MARGIN);
            assert!(fallback.get(&name).await.is_ok(), "it has changed");
        }
    }
}

/// A floor above every token would give it a new one each time.
#[tokio::test]
async fn a_grant_that_is_replaced_keeps_its_token() {
    let world = World::new();
    let holder = Holder::random();
    let lease = world.take(&holder).await;
    world.clock.advance(Duration::from_secs(1));
    let mut request = world.request(&holder).own(Own::Replace);
    request.ttl = Ttl::new(LONGEST / 2).unwrap();
    let replaced = granted(world.fallback.acquire(&request).await);
    assert_eq!((replaced.token, replaced.ttl), (lease.token, LONGEST / 2));
}
