//! The helper for load-and-commit stores, over the smallest store that compares on commit.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common_store;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::backend::{
    Acquire, Acquired, CapacitySet, Confirm, Event, Inbox, List, Names, Release, Released,
    Releases, Renew, RenewItem, Renewed, SetCapacity, Status, Sweep, Swept, What,
};
use leasehold_core::record_store::{RETENTION, RecordBackend};
use leasehold_core::{
    Backend, Effect, Error, ErrorKind, Holder, Kind, Lease, ManualClock, Name, Owner, Ttl, Units,
};

use common_store::CasStore;

type Store = RecordBackend<CasStore>;

fn store() -> (ManualClock, Store) {
    let clock = ManualClock::new();
    let store = RecordBackend::new(CasStore::new(&clock, 30));
    (clock, store)
}

fn name(key: &str) -> Name {
    Name::new("n", key).unwrap()
}

fn names(swept: &Swept) -> Vec<Name> {
    swept.expired.iter().map(|e| e.name.clone()).collect()
}

fn ttl(secs: u64) -> Ttl {
    Ttl::new(Duration::from_secs(secs)).unwrap()
}

fn acquire(names: impl IntoIterator<Item = Name>, holder: &Holder) -> Acquire {
    let owner = Owner::new("test").unwrap();
    Acquire::new(Names::new(names).unwrap(), holder.clone(), owner, ttl(30))
}

async fn grant(store: &Store, name: &Name, holder: &Holder) -> Lease {
    match store.acquire(&acquire([name.clone()], holder)).await {
        Ok(Acquired::Granted(mut leases)) => leases.remove(0),
        other => panic!("{other:?}"),
    }
}

async fn release(store: &Store, lease: &Lease, holder: &Holder) -> Releases {
    let request = Release::grant(lease.name.clone(), holder.clone(), lease.token);
    store.release(&request).await.unwrap()
}

#[tokio::test]
async fn a_lease_is_granted_refused_renewed_and_released() {
    let (clock, store) = store();
    let (k, me, other) = (name("k"), Holder::random(), Holder::random());
    let lease = grant(&store, &k, &me).await;
    let held = store.acquire(&acquire([k.clone()], &other)).await.unwrap();
    assert!(matches!(held, Acquired::Held(_)));
    clock.advance(Duration::from_secs(20));
    let item = RenewItem::lease(k.clone(), me.clone(), lease.token, ttl(30));
    let renewed = store.renew(&Renew { items: vec![item] }).await.unwrap();
    let renewed = renewed[0].as_ref().unwrap().lease().unwrap();
    assert_eq!(
        renewed.expires_at.since(lease.expires_at),
        Duration::from_secs(20)
    );
    assert_eq!(*release(&store, &lease, &me).await, [Released::Released]);
    let next = grant(&store, &k, &other).await;
    assert!(next.token > lease.token);
}

#[tokio::test]
async fn several_names_are_taken_all_or_none() {
    let (_, store) = store();
    let (me, other) = (Holder::random(), Holder::random());
    grant(&store, &name("b"), &other).await;
    let all = acquire(["a", "b", "c"].map(name), &me);
    let held = store.acquire(&all).await.unwrap();
    assert!(matches!(held, Acquired::Held(blocked) if blocked.len() == 1));
    assert!(store.get(&name("a")).await.unwrap().what.is_none());
    let two = store.acquire(&acquire(["a", "c"].map(name), &me)).await;
    assert!(matches!(two.unwrap(), Acquired::Granted(leases) if leases.len() == 2));
}

#[tokio::test]
async fn a_refusal_writes_nothing() {
    let (_, store) = store();
    let k = name("k");
    grant(&store, &k, &Holder::random()).await;
    let before = store.store().commits.load(Ordering::SeqCst);
    let refused = acquire([k.clone()], &Holder::random());
    assert!(matches!(
        store.acquire(&refused).await,
        Ok(Acquired::Held(_))
    ));
    assert_eq!(store.store().commits.load(Ordering::SeqCst), before);
}

/// One holder at a time, and tokens in the order of the grants, however often commits collide.
#[tokio::test]
async fn contenders_exclude_each_other_through_conflicts() {
    let (_, store) = store();
    let store = Arc::new(store.tries(1000).unwrap());
    let granted = Arc::new(Mutex::new((0_usize, Vec::new())));
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (store, granted) = (store.clone(), granted.clone());
            tokio::spawn(async move {
                let (k, me) = (name("k"), Holder::random());
                let mut left = 20;
                while left > 0 {
                    let answer = store.acquire(&acquire([k.clone()], &me)).await.unwrap();
                    let Acquired::Granted(leases) = answer else {
                        tokio::task::yield_now().await;
                        continue;
                    };
                    {
                        let mut granted = granted.lock().unwrap();
                        granted.0 += 1;
                        assert_eq!(granted.0, 1, "two holders");
                        granted.1.push(leases[0].token);
                    }
                    tokio::task::yield_now().await;
                    granted.lock().unwrap().0 -= 1;
                    release(&store, &leases[0], &me).await;
                    left -= 1;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let tokens = &granted.lock().unwrap().1;
    assert_eq!(tokens.len(), 320);
    assert!(tokens.is_sorted_by(|a, b| a < b));
}

#[tokio::test]
async fn conflicts_without_end_are_an_error_that_changed_nothing() {
    let clock = ManualClock::new();
    let store = RecordBackend::new(CasStore::new(&clock, 100));
    let k = name("k");
    let error = store
        .acquire(&acquire([k.clone()], &Holder::random()))
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(
        (error.effect(), error.op()),
        (Effect::None, Some("acquire"))
    );
    assert_eq!(error.name(), Some(&k));
    assert!(error.is_retryable());
    assert!(store.get(&k).await.unwrap().what.is_none());
}

#[tokio::test]
async fn the_next_in_line_is_told_after_the_commit() {
    let (_, store) = store();
    let (k, me, next) = (name("k"), Holder::random(), Holder::random());
    let seen: Arc<Mutex<Vec<Event>>> = Arc::default();
    let sink = seen.clone();
    let inbox = Inbox::new(move |event| sink.lock().unwrap().push(event));
    let _watch = store.watch(&inbox, None).await.unwrap();
    let lease = grant(&store, &k, &me).await;
    let wait = acquire([k.clone()], &next).queue(inbox.id());
    assert!(matches!(
        store.acquire(&wait).await,
        Ok(Acquired::Queued(_))
    ));
    release(&store, &lease, &me).await;
    let seen = seen.lock().unwrap();
    let [
        Event {
            name: of,
            what: What::Granted { holder, lease },
        },
    ] = &seen[..]
    else {
        panic!("{seen:?}")
    };
    assert_eq!((of, *holder, &lease.name), (&k, next.digest(), &k));
}

/// A bad answer for one lease of a batch does not fail the others.
#[tokio::test]
async fn one_corrupt_record_does_not_fail_the_batch() {
    let (_, store) = store();
    let me = Holder::random();
    let mut items = Vec::new();
    for key in ["a", "b", "c"] {
        let lease = grant(&store, &name(key), &me).await;
        items.push(RenewItem::lease(
            lease.name,
            me.clone(),
            lease.token,
            ttl(60),
        ));
    }
    store.store().table.lock().unwrap().corrupt = Some(name("b"));
    let answers = store.renew(&Renew { items }).await.unwrap();
    let kinds: Vec<_> = answers
        .iter()
        .map(|answer| answer.as_ref().err().map(Error::kind))
        .collect();
    assert_eq!(kinds, [None, Some(ErrorKind::Corrupt), None]);
}

#[tokio::test]
async fn a_batch_may_hold_several_leases_of_one_name() {
    let (_, store) = store();
    let (k, two) = (name("k"), Units::new(2).unwrap());
    let holders = [Holder::random(), Holder::random()];
    let mut items = Vec::new();
    for holder in &holders {
        let request = acquire([k.clone()], holder).units(Units::MIN, two);
        let Ok(Acquired::Granted(leases)) = store.acquire(&request).await else {
            panic!("not granted");
        };
        items.push(RenewItem::lease(
            k.clone(),
            holder.clone(),
            leases[0].token,
            ttl(60),
        ));
    }
    let answers = store.renew(&Renew { items }).await.unwrap();
    assert!(answers.iter().all(|a| matches!(a, Ok(Renewed::Renewed(_)))));
    let record = store.get(&k).await.unwrap().what.unwrap();
    let end = store.store().now().after(Duration::from_secs(60));
    assert!(record.grants.iter().all(|grant| grant.expires_at == end));
    assert!(store.renew(&Renew::default()).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_same_name_twice_is_refused_before_it_can_do_harm() {
    let (_, store) = store();
    let (k, me) = (name("k"), Holder::random());
    let request = acquire([k.clone()], &me).kind(Kind::Reservation);
    let Ok(Acquired::Granted(leases)) = store.acquire(&request).await else {
        panic!("not granted");
    };
    let item = (k.clone(), leases[0].token);
    let twice = [item.clone(), item].into_iter().collect();
    let confirm = Confirm::all(twice, me, "e").unwrap();
    let error = store.confirm(&confirm).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let record = store.get(&k).await.unwrap().what.unwrap();
    assert_eq!((record.grants.len(), record.claims.len()), (1, 0));
}

#[tokio::test]
async fn a_sweep_settles_then_forgets_and_nothing_comes_back() {
    let (clock, store) = store();
    let (k, me) = (name("k"), Holder::random());
    let lease = grant(&store, &k, &me).await;
    for _ in 0..50 {
        let item = RenewItem::lease(k.clone(), me.clone(), lease.token, ttl(30));
        store.renew(&Renew { items: vec![item] }).await.unwrap();
    }
    clock.advance(Duration::from_secs(30));
    let swept = store.sweep(&Sweep::default()).await.unwrap();
    assert_eq!((names(&swept), swept.forgotten), (vec![k.clone()], 0));
    let version = store.get(&k).await.unwrap().what.unwrap().version;
    let again = store.sweep(&Sweep::default()).await.unwrap();
    assert!(again.expired.is_empty() && !again.more);
    clock.advance(RETENTION);
    assert_eq!(store.sweep(&Sweep::default()).await.unwrap().forgotten, 1);
    assert!(store.get(&k).await.unwrap().what.is_none());
    let next = grant(&store, &k, &me).await;
    assert!(next.token > lease.token);
    let record = store.get(&k).await.unwrap().what.unwrap();
    assert!(record.version > version, "{} {version}", record.version);
}

#[tokio::test]
async fn a_sweep_stops_at_its_limit_and_passes_by_a_bad_record() {
    let (clock, store) = store();
    for key in ["a", "b", "c"] {
        grant(&store, &name(key), &Holder::random()).await;
    }
    store.store().table.lock().unwrap().corrupt = Some(name("a"));
    clock.advance(Duration::from_secs(31));
    let swept = store.sweep(&Sweep::all(2)).await.unwrap();
    assert_eq!((names(&swept), swept.more), (vec![name("b")], true));
    let swept = store.sweep(&Sweep::all(2)).await.unwrap();
    assert_eq!((names(&swept), swept.more), (vec![name("c")], true));
    let error = store.sweep(&Sweep::all(2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_list_fills_its_pages_whatever_the_scan_brings() {
    let (clock, store) = store();
    let owner = |i: usize| Owner::new(if i.is_multiple_of(4) { "x" } else { "y" }).unwrap();
    for i in 0..20 {
        let mut request = acquire([name(&format!("{i:02}"))], &Holder::random());
        request.owner = owner(i);
        store.acquire(&request).await.unwrap();
    }
    let mut request = List::namespace("n");
    request.owner = Some(owner(0));
    request.limit = 2;
    let mut keys = Vec::new();
    loop {
        let page = store.list(&request).await.unwrap().what;
        keys.extend(page.items.iter().map(|r| r.name.key().to_owned()));
        request.after = page.items.last().map(|record| record.name.clone());
        if !page.more {
            assert_eq!(page.items.len(), 1);
            break;
        }
        assert_eq!(page.items.len(), 2);
    }
    assert_eq!(keys, ["00", "04", "08", "12", "16"]);
    let none = store.list(&List::namespace("")).await.unwrap().what;
    assert!(none.items.is_empty() && !none.more);
    clock.advance(Duration::from_secs(31));
    let mut held = List::all();
    held.status = Some(Status::Held);
    assert!(store.list(&held).await.unwrap().what.items.is_empty());
}

#[test]
fn the_encoded_prefix_covers_exactly_the_names_of_a_list() {
    let mut request = List::namespace("a/b");
    request.key_prefix = "k/".to_owned();
    assert_eq!(request.encoded_prefix().unwrap(), "a%2Fb/k/");
    let mut request = List::all();
    assert_eq!(request.encoded_prefix().unwrap(), "");
    request.namespace_prefix = "a%".to_owned();
    let prefix = request.encoded_prefix().unwrap();
    for (namespace, inside) in [("a%", true), ("a%b", true), ("a", false), ("b", false)] {
        let name = Name::new(namespace, "k").unwrap();
        assert_eq!(request.covers(&name), inside);
        assert_eq!(name.encoded().starts_with(&prefix), inside);
    }
}

#[tokio::test]
async fn a_capacity_is_checked_against_the_version() {
    let (_, store) = store();
    let set = |version| SetCapacity {
        name: name("k"),
        units: Some(3),
        expect_version: Some(version),
    };
    let CapacitySet::Set(version) = store.set_capacity(&set(0)).await.unwrap() else {
        panic!("refused");
    };
    let refused = store.set_capacity(&set(0)).await.unwrap();
    assert_eq!(refused, CapacitySet::VersionChanged(version));
}
