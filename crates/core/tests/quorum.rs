//! A majority of stores, some of which fail in every way there is.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common_moods;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use common_moods::{Mood, Store};
use leasehold_conformance::fault::{FaultBackend, Faults};
use leasehold_core::backend::{
    Acquire, Acquired, Inbox, List, Names, Own, Release, Released, Renew, RenewItem, Renewed,
    SetCapacity, Sweep, Withdraw, Withdrawn,
};
use leasehold_core::memory::Memory;
use leasehold_core::wrap::Quorum;
use leasehold_core::{
    AtomicNames, Backend, Class, Clock, Effect, ErrorKind, Holder, Kind, Lease, ManualClock, Name,
    Owner, Result, Token, Ttl,
};

const TTL: Duration = Duration::from_secs(30);

/// Some stores, a quorum of them, and the clock they share.
struct World {
    stores: Vec<Arc<Store>>,
    quorum: Arc<Quorum>,
    clock: ManualClock,
    name: Name,
}

impl World {
    fn new(stores: usize) -> Self {
        let clock = ManualClock::new();
        let stores = (0..stores).map(|_| Store::new(clock.clone()));
        Self::of(stores.collect(), clock)
    }

    /// Stores whose clocks are so many hours ahead of the quorum's own.
    fn apart(hours: &[u64]) -> Self {
        let clock = ManualClock::new();
        let store = |hours: &u64| {
            let ahead = ManualClock::new();
            let wall = ahead.wall().after(Duration::from_secs(hours * 3600));
            ahead.set_wall(wall);
            Store::new(ahead)
        };
        Self::of(hours.iter().map(store).collect(), clock)
    }

    fn of(stores: Vec<Store>, clock: ManualClock) -> Self {
        let stores: Vec<_> = stores.into_iter().map(Arc::new).collect();
        let quorum = Quorum::new(shared(&stores)).unwrap();
        Self {
            stores,
            quorum: Arc::new(quorum.with_clock(Arc::new(clock.clone()))),
            clock,
            name: Name::new("n", "k").unwrap(),
        }
    }

    /// A quorum of the same stores, as another process has it.
    fn elsewhere(&self) -> Quorum {
        let quorum = Quorum::new(shared(&self.stores)).unwrap();
        quorum.with_clock(Arc::new(self.clock.clone()))
    }

    fn feel(&self, stores: impl IntoIterator<Item = usize>, mood: Mood) {
        stores
            .into_iter()
            .for_each(|store| self.stores[store].feel(mood));
    }

    fn request(&self, holder: &Holder) -> Acquire {
        let owner = Owner::new("test").unwrap();
        let names = Names::one(self.name.clone());
        Acquire::new(names, holder.clone(), owner, Ttl::new(TTL).unwrap())
    }

    async fn acquire(&self, holder: &Holder) -> Result<Acquired> {
        self.quorum.acquire(&self.request(holder)).await
    }

    async fn take(&self, holder: &Holder) -> Lease {
        granted(self.acquire(holder).await)
    }

    async fn is_refused(&self, holder: &Holder) -> bool {
        matches!(self.acquire(holder).await, Ok(Acquired::Held(_)))
    }

    async fn renew(&self, holder: &Holder, token: Token) -> Result<Renewed> {
        let ttl = Ttl::new(TTL).unwrap();
        let item = RenewItem::lease(self.name.clone(), holder.clone(), token, ttl);
        let answers = self.quorum.renew(&Renew { items: vec![item] }).await;
        answers.and_then(|mut answers| answers.remove(0))
    }

    async fn release(&self, holder: &Holder, token: Token) -> Result<Released> {
        let release = Release::grant(self.name.clone(), holder.clone(), token);
        let answers = self.quorum.release(&release).await;
        answers.map(|mut answers| answers.remove(0))
    }

    async fn withdraw(&self, holder: &Holder) -> Result<Withdrawn> {
        let names = Names::one(self.name.clone());
        let holder = holder.clone();
        self.quorum.withdraw(&Withdraw { names, holder }).await
    }

    /// The tokens that the stores have for the name.
    async fn tokens(&self) -> Vec<Option<Token>> {
        let mut tokens = Vec::new();
        for store in &self.stores {
            tokens.push(store.holds(&self.name).await);
        }
        tokens
    }

    async fn having(&self, token: Token) -> usize {
        let tokens = self.tokens().await;
        tokens.iter().filter(|has| **has == Some(token)).count()
    }

    /// Lets everything in the background come to an end, however often it tries again; less than a ttl passes.
    async fn settle(&self) {
        for _ in 0..120 {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            self.clock.advance(Duration::from_millis(100));
        }
    }

    /// Waits for an answer while nothing but time passes.
    async fn in_time<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = std::pin::pin!(call);
        loop {
            tokio::select! {
                biased;
                answer = &mut call => return answer,
                () = tokio::task::yield_now() => self.clock.advance(Duration::from_millis(100)),
            }
        }
    }
}

fn shared(stores: &[Arc<Store>]) -> impl Iterator<Item = Arc<dyn Backend>> {
    stores
        .iter()
        .map(|store| Arc::clone(store) as Arc<dyn Backend>)
}

fn granted(answer: Result<Acquired>) -> Lease {
    match answer {
        Ok(Acquired::Granted(mut leases)) => leases.remove(0),
        other => panic!("{other:?}"),
    }
}

/// Every way in which a store can be of no use.
const BAD: [Mood; 5] = [
    Mood::Dead,
    Mood::Mute,
    Mood::Lying,
    Mood::Hanging,
    Mood::Stuck,
];

#[test]
fn only_an_odd_number_of_different_stores_is_a_quorum() {
    for count in [0, 1, 2, 4, 16, 17] {
        let stores = (0..count).map(|_| Arc::new(Memory::new()) as Arc<dyn Backend>);
        let error = Quorum::new(stores).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("odd number"), "{error}");
    }
    let store: Arc<dyn Backend> = Arc::new(Memory::new());
    let twice = [
        Arc::clone(&store),
        Arc::new(Memory::new()),
        Arc::clone(&store),
    ];
    assert!(Quorum::new(twice).is_err());
    assert!(
        World::new(3)
            .elsewhere()
            .answer_within(Duration::ZERO)
            .is_err()
    );
}

#[test]
fn it_promises_no_more_than_its_stores() {
    let world = World::new(3);
    let what = world.quorum.describe();
    assert_eq!((what.scheme, what.guarantees.class), ("quorum", Class::P));
    assert!(!what.guarantees.durable);
    let can = &what.capabilities;
    assert!(can.watch && !can.queue && !can.list && !can.reservations && !can.quantities);
    assert_eq!(can.atomic_names, AtomicNames::One);
}

#[tokio::test]
async fn what_it_cannot_do_is_refused_before_any_store_is_asked() {
    let world = World::new(3);
    let holder = Holder::random();
    let plain = world.request(&holder);
    let mut several = plain.clone();
    several.names = Names::new(["a", "b"].map(|key| Name::new("n", key).unwrap())).unwrap();
    for request in [
        plain.clone().kind(Kind::Reservation),
        plain.clone().shared(),
        several,
    ] {
        let error = world.quorum.acquire(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    let list = world.quorum.list(&List::all()).await.unwrap_err();
    assert_eq!(list.kind(), ErrorKind::Unsupported);
    let capacity = SetCapacity {
        name: world.name.clone(),
        units: None,
        expect_version: None,
    };
    let capacity = world.quorum.set_capacity(&capacity).await.unwrap_err();
    assert_eq!(capacity.kind(), ErrorKind::Unsupported);
    assert_eq!(
        world
            .stores
            .iter()
            .map(|store| store.calls())
            .sum::<usize>(),
        0
    );
}

/// S2-13. Time stands still, so that nobody can be waiting for the two.
#[tokio::test]
async fn a_minority_may_fail_in_any_way() {
    for mood in BAD {
        let world = World::new(5);
        let (a, b) = (Holder::random(), Holder::random());
        world.feel([1, 3], mood);
        let lease = world.take(&a).await;
        assert_eq!(lease.ttl, TTL, "{mood:?}");
        assert!(world.is_refused(&b).await, "{mood:?}");
        let seen = world.quorum.get(&world.name).await.unwrap().what.unwrap();
        assert_eq!(seen.grants[0].token, lease.token);
        let renewed = world.renew(&a, lease.token).await.unwrap();
        assert_eq!(renewed.lease().unwrap().token, lease.token);
        let released = world.release(&a, lease.token).await.unwrap();
        assert_eq!(released, Released::Released, "{mood:?}");
        let seen = world.quorum.get(&world.name).await.unwrap().what;
        assert!(seen.is_none_or(|record| record.grants.is_empty()));
        let next = world.take(&b).await;
        assert!(next.token > lease.token, "{mood:?}");
    }
}

/// S8: a failure is never "free" or "busy".
#[tokio::test]
async fn without_a_majority_everything_is_an_error() {
    for mood in [Mood::Dead, Mood::Mute, Mood::Hanging] {
        let world = World::new(5);
        let (a, b) = (Holder::random(), Holder::random());
        let lease = world.take(&a).await;
        world.feel([0, 2, 4], mood);
        let answers = world.in_time(async {
            [
                world.acquire(&b).await.map(drop),
                world.renew(&a, lease.token).await.map(drop),
                world.release(&a, lease.token).await.map(drop),
                world.withdraw(&b).await.map(drop),
                world.quorum.get(&world.name).await.map(drop),
                world.quorum.sweep(&Sweep::default()).await.map(drop),
            ]
        });
        for answer in answers.await {
            let error = answer.unwrap_err();
            assert!(error.is_retryable(), "{mood:?}: {error}");
            assert_eq!(error.backend(), Some("quorum"));
        }
    }
}

/// S9.
#[tokio::test]
async fn an_error_says_whether_anything_may_be_left() {
    let world = World::new(3);
    world.feel([0, 1], Mood::Dead);
    let error = world.acquire(&Holder::random()).await.unwrap_err();
    // The third has granted it and taken it back.
    assert_eq!(error.effect(), Effect::None);
    assert_eq!(world.tokens().await, [None; 3]);
    world.feel([0, 1], Mood::Mute);
    let error = world.acquire(&Holder::random()).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
}

#[tokio::test]
async fn what_a_minority_granted_is_given_back() {
    let world = World::new(5);
    let rival = Holder::random();
    for store in &world.stores[..3] {
        let request = world.request(&rival);
        assert!(matches!(
            store.inner.acquire(&request).await,
            Ok(Acquired::Granted(_))
        ));
    }
    let before = world.tokens().await;
    assert!(world.is_refused(&Holder::random()).await);
    assert_eq!(world.tokens().await, before);
}

/// Two are gone and all others would be needed, but one is taken: a majority has answered, and somebody is in the way.
#[tokio::test]
async fn whoever_is_in_the_way_is_named_although_a_minority_is_gone() {
    let world = World::new(5);
    let request = world.request(&Holder::random());
    let rival = granted(world.stores[0].inner.acquire(&request).await);
    world.feel([1, 2], Mood::Dead);
    let answer = world.acquire(&Holder::random()).await;
    let Ok(Acquired::Held(blocked)) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(blocked[0].holding.as_ref().unwrap().token, rival.token);
    let only_the_rival = [Some(rival.token), None, None, None, None];
    assert_eq!(world.tokens().await, only_the_rival);
    // If it may have been granted after all, that is no refusal.
    world.feel([1, 2], Mood::Mute);
    let error = world.acquire(&Holder::random()).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
}

/// The answer of a store that has it is lost, and then that of the store that is to give it back.
#[tokio::test]
async fn what_a_minority_may_have_granted_is_given_back_in_the_background() {
    for moods in [
        vec![Mood::Mute, Mood::Dead, Mood::Dead],
        vec![Mood::Stuck],
        vec![Mood::Slow],
        vec![Mood::Mute, Mood::Mute],
    ] {
        let world = World::new(5);
        let rival = Holder::random();
        for store in &world.stores[..3] {
            store.inner.acquire(&world.request(&rival)).await.unwrap();
        }
        let before = world.tokens().await;
        world.stores[4].script(moods.clone());
        assert!(world.is_refused(&Holder::random()).await);
        world.stores[4].go_on();
        world.settle().await;
        assert_eq!(world.tokens().await, before, "{moods:?}");
    }
}

/// S9: a majority has it and nobody knows. The same request again finds it, with the same token.
#[tokio::test]
async fn a_grant_whose_answers_were_lost_is_found_by_the_same_request() {
    let world = World::new(3);
    let holder = Holder::random();
    world.stores[1].script([Mood::Mute]);
    world.stores[2].script([Mood::Mute]);
    let error = world.acquire(&holder).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    world.settle().await;
    let token = world.tokens().await[0].unwrap();
    assert_eq!(world.having(token).await, 3);
    assert!(world.is_refused(&Holder::random()).await);
    let lease = world.take(&holder).await;
    assert_eq!((lease.token, lease.ttl), (token, TTL));
}

#[tokio::test]
async fn a_grant_whose_answers_were_lost_is_ended_by_a_withdrawal() {
    let world = World::new(3);
    let holder = Holder::random();
    world.stores[1].script([Mood::Mute]);
    world.stores[2].script([Mood::Mute]);
    world.acquire(&holder).await.unwrap_err();
    assert_eq!(world.withdraw(&holder).await.unwrap().grants, 1);
    assert_eq!(world.tokens().await, [None; 3]);
}

/// The own grant of an earlier, failed attempt does not stand in the way of the next.
#[tokio::test]
async fn what_is_left_of_an_attempt_does_not_block_the_next_of_the_same_holder() {
    let world = World::new(3);
    let holder = Holder::random();
    // It gets the first store, loses the others, and cannot give it back.
    world.stores[0].script([Mood::Well, Mood::Dead, Mood::Dead, Mood::Dead]);
    world.stores[1].script([Mood::Dead]);
    world.stores[2].script([Mood::Dead]);
    let refused = world.in_time(world.acquire(&holder)).await;
    assert!(refused.is_err());
    let lease = world.take(&holder).await;
    world.settle().await;
    assert!(world.having(lease.token).await >= 2, "it is still there");
}

#[tokio::test]
async fn a_slow_store_joins_later() {
    let world = World::new(3);
    world.stores[2].feel(Mood::Slow);
    let lease = world.take(&Holder::random()).await;
    assert_eq!(world.having(lease.token).await, 2);
    world.stores[2].go_on();
    world.settle().await;
    assert_eq!(world.having(lease.token).await, 3);
}

/// It has another token than the grant, so that no release would ever find it.
#[tokio::test]
async fn a_slow_store_that_grants_with_another_token_gives_it_back() {
    let world = World::apart(&[0, 0, 20]);
    world.stores[2].script([Mood::Slow]);
    let lease = world.take(&Holder::random()).await;
    world.stores[2].go_on();
    world.settle().await;
    let token = Some(lease.token);
    assert_eq!(world.tokens().await, [token, token, None]);
}

/// Its grant would otherwise stand there until its time is over.
#[tokio::test]
async fn a_slow_store_that_grants_what_is_over_gives_it_back() {
    let by_release =
        async |world: &World, holder: &Holder, token| world.release(holder, token).await.map(drop);
    let by_withdrawal =
        async |world: &World, holder: &Holder| world.withdraw(holder).await.map(drop);
    for released in [true, false] {
        let world = World::new(3);
        let holder = Holder::random();
        world.stores[2].script([Mood::Slow]);
        let lease = world.take(&holder).await;
        if released {
            by_release(&world, &holder, lease.token).await.unwrap();
        } else {
            by_withdrawal(&world, &holder).await.unwrap();
        }
        world.stores[2].go_on();
        world.settle().await;
        assert_eq!(world.tokens().await, [None; 3]);
    }
}

/// S12, node-redlock#369.
#[tokio::test]
async fn a_grant_that_took_its_whole_time_is_not_given() {
    let world = World::new(3);
    let holder = Holder::random();
    world.stores[1].script([Mood::Taking(TTL - Duration::from_millis(200))]);
    let error = world.acquire(&holder).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(error.effect(), Effect::Unknown);
}

/// A lease is as long as a majority has it: one that is shorter does not matter, and two of three do.
#[tokio::test]
async fn a_lease_is_as_long_as_a_majority_has_it() {
    let world = World::new(3);
    let holder = Holder::random();
    let lease = world.take(&holder).await;
    let mut shorter = world.request(&holder).own(Own::Replace);
    shorter.ttl = Ttl::new(TTL / 2).unwrap();
    let keep = world.request(&holder).own(Own::Keep);
    for (store, ttl) in [(0, TTL), (1, TTL / 2), (2, TTL / 2)] {
        world.stores[store].inner.acquire(&shorter).await.unwrap();
        let kept = granted(world.quorum.acquire(&keep).await);
        assert_eq!((kept.token, kept.ttl), (lease.token, ttl));
        let seen = world.quorum.get(&world.name).await.unwrap();
        let ends = seen.what.unwrap().grants[0].expires_at;
        assert_eq!(ends.since(seen.now), ttl);
    }
}

/// S3: the stores' clocks, and so their tokens, are hours apart, and every majority gets its turn.
#[tokio::test]
async fn tokens_grow_whichever_majority_grants() {
    let world = World::apart(&[0, 9, 1, 30, 4]);
    let mut last = Token::new(0);
    for gone in (0..5).flat_map(|one| (0..5).map(move |other| [one, other])) {
        world.feel(0..5, Mood::Well);
        world.feel(gone, Mood::Dead);
        // By turns by this process and by one that has seen nothing yet.
        for quorum in [&*world.quorum, &world.elsewhere()] {
            let holder = Holder::random();
            let lease = granted(quorum.acquire(&world.request(&holder)).await);
            assert!(lease.token > last, "without {gone:?}");
            assert!(world.having(lease.token).await >= 3, "without {gone:?}");
            last = lease.token;
            let names = Names::one(world.name.clone());
            quorum.withdraw(&Withdraw { names, holder }).await.unwrap();
            world.feel(0..5, Mood::Well);
            world.settle().await;
            world.clear().await;
            world.feel(gone, Mood::Dead);
        }
    }
}

impl World {
    /// Ends whatever the stores have, for those that were gone when it was released.
    async fn clear(&self) {
        let by = Owner::new("test").unwrap();
        let force = Release::force(self.name.clone(), None, by, "clear").unwrap();
        for store in &self.stores {
            store.inner.release(&force).await.unwrap();
        }
    }
}

/// One round is enough once a process knows how far ahead the stores are.
#[tokio::test]
async fn stores_that_are_ahead_are_asked_again_only_once() {
    let world = World::apart(&[32, 32, 0]);
    let asked = |world: &World| world.stores[0].calls();
    world.take(&Holder::random()).await;
    assert_eq!(asked(&world), 2);
    for key in ["x", "y", "z"] {
        world
            .stores
            .iter()
            .for_each(|store| store.clock.advance(TTL));
        world.clock.advance(TTL);
        let before = asked(&world);
        let mut request = world.request(&Holder::random());
        request.names = Names::one(Name::new("n", key).unwrap());
        granted(world.quorum.acquire(&request).await);
        assert_eq!(asked(&world), before + 1, "{key}");
    }
}

/// All three grant, each with a token of its own; then one cannot be asked for the common one.
#[tokio::test]
async fn a_store_that_missed_the_second_round_does_not_count() {
    let world = World::apart(&[0, 10, 20]);
    let holder = Holder::random();
    world.stores[0].script([Mood::Well, Mood::Dead]);
    let lease = world.take(&holder).await;
    assert_eq!(world.having(lease.token).await, 2);
    let released = world.release(&holder, lease.token).await.unwrap();
    assert_eq!(released, Released::Released);

    let world = World::apart(&[0, 10, 20]);
    world.stores[0].script([Mood::Well, Mood::Dead]);
    world.stores[1].script([Mood::Well, Mood::Dead]);
    let error = world.acquire(&holder).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

/// L5: dropped before, between and after its calls, and followed by a withdrawal, as the seam demands.
#[tokio::test]
async fn a_dropped_acquire_leaves_nothing() {
    let mut ended = 0;
    for polls in 0..40 {
        let clock = ManualClock::new();
        let delay = Faults {
            delay: 1.0,
            ..Faults::NONE
        };
        let stores: Vec<_> = (0..3)
            .map(|_| Arc::new(Memory::with_clock(Arc::new(clock.clone()))))
            .collect();
        let slow = stores.iter().enumerate().map(|(seed, store)| {
            let slow = FaultBackend::new(Arc::clone(store), delay, seed as u64 + polls);
            Arc::new(slow) as Arc<dyn Backend>
        });
        let quorum = Quorum::new(slow).unwrap().with_clock(Arc::new(clock));
        let name = Name::new("n", "k").unwrap();
        let holder = Holder::random();
        let owner = Owner::new("test").unwrap();
        let names = Names::one(name.clone());
        let request = Acquire::new(names.clone(), holder.clone(), owner, Ttl::new(TTL).unwrap());
        let mut acquire = Box::pin(quorum.acquire(&request));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..polls {
            if acquire.as_mut().poll(&mut context).is_ready() {
                ended += 1;
                break;
            }
        }
        drop(acquire);
        quorum.withdraw(&Withdraw { names, holder }).await.unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        for store in stores {
            let left = store.get(&name).await.unwrap().what;
            assert!(
                left.is_none_or(|record| record.grants.is_empty()),
                "after {polls}"
            );
        }
    }
    assert!((1..40).contains(&ended), "{ended} of 40 had ended");
}

/// A waiter that another one's vain attempt woke would try as vainly, and wake the next.
#[tokio::test]
async fn a_vain_attempt_wakes_nobody_and_a_release_does() {
    let world = World::new(3);
    let holder = Holder::random();
    world.stores[0].script([Mood::Dead]);
    let lease = world.take(&holder).await;
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let inbox = Inbox::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let watch = world.quorum.watch(&inbox, Some(&world.name)).await.unwrap();
    for _ in 0..5 {
        assert!(world.is_refused(&Holder::random()).await);
    }
    assert_eq!(told.load(Ordering::SeqCst), 0);
    world.release(&holder, lease.token).await.unwrap();
    assert!(told.load(Ordering::SeqCst) > 0);
    drop(watch);
    let before = told.load(Ordering::SeqCst);
    let lease = world.take(&holder).await;
    world.release(&holder, lease.token).await.unwrap();
    assert_eq!(told.load(Ordering::SeqCst), before);
}

/// Of three stores one has it, one has not, and one does not say: it may be held.
#[tokio::test]
async fn nobody_is_called_free_whom_a_majority_may_hold() {
    let world = World::new(3);
    let holder = Holder::random();
    let lease = world.take(&holder).await;
    let release = Release::grant(world.name.clone(), holder.clone(), lease.token);
    world.stores[0].inner.release(&release).await.unwrap();
    world.stores[1].script([Mood::Dead]);
    let error = world.quorum.get(&world.name).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::None)
    );
    let seen = world.quorum.get(&world.name).await.unwrap().what.unwrap();
    assert_eq!(seen.grants[0].token, lease.token);
    world.stores[1].inner.release(&release).await.unwrap();
    let seen = world.quorum.get(&world.name).await.unwrap().what.unwrap();
    assert!(seen.grants.is_empty());
}
