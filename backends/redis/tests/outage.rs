//! A server that is killed, stopped or out of reach: what was acknowledged stays, what was not is an error that says so,
//! and nobody has to do anything for it to go on (F1, F4, F8, F10, F11).

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how much it did"
)]

mod common_redis;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use common_redis::traffic::{Terms, Traffic};
use common_redis::{
    LONG, granted, in_the_end, look, name, now, open, outage, release, renew, sleep, take,
    through_proxy, tokens, unknown, until, wish, withdraw,
};
use leasehold_conformance::history::{Bounds, judge};
use leasehold_conformance::{Mailbox, Party};
use leasehold_core::backend::{
    Acquired, CapacitySet, Confirm, Confirmed, Released, Renewed, SetCapacity, Withdrawn,
};
use leasehold_core::{Backend as _, Effect, ErrorKind, Kind, Lease, Locks, Token};
use leasehold_faults::proxy::{Mode, Proxy};
use leasehold_redis::Redis;
use servers::Options;

const MS: Duration = Duration::from_millis(1);

/// F1, S1, S3, S7, S8.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_killed_server_acknowledged_is_there_and_no_order_is_broken() {
    let mut server = Options::default().start();
    let stores = stores(&server.url(), 6).await;
    let shared = [name("a"), name("b")];
    let terms = Terms {
        ttl: LONG,
        late: false,
    };
    let traffic = Traffic::start(&stores, &shared, terms);
    let mut kills = 0;
    for _ in 0..5 {
        let before = traffic.len();
        until("there is traffic", async || traffic.len() > before + 150).await;
        server.kill();
        sleep(30 * MS).await;
        server.restart();
        kills += 1;
    }
    let (tally, entries) = traffic.stop().await;
    println!("{kills} kills, {} operations, {tally:?}", entries.len());
    assert!(
        tally.errors >= kills,
        "the kills came between two requests: {tally:?}"
    );
    assert_eq!(tally.lies, 0, "{tally:?}");
    assert_eq!(judge(&entries, Bounds::GUARD), []);
    assert!(stores.iter().all(|store| store.losses() == 0));
}

/// F1, S7: one by one.
#[tokio::test]
async fn grants_releases_tickets_and_claims_are_there_after_a_kill() {
    let mut server = Options::default().start();
    let store = open(&server.url()).await;
    let party = Party::new("p");
    let (kept, gone, sold) = (name("kept"), name("gone"), name("sold"));
    let lease = take(&store, &party, &kept).await;
    let waiter = Party::new("waiter");
    let queued = wish(&waiter, &kept).queue(Mailbox::new().id());
    assert!(matches!(
        store.acquire(&queued).await.unwrap(),
        Acquired::Queued(_)
    ));
    let released = take(&store, &party, &gone).await;
    release(&store, &party, &released).await.unwrap();
    let claim = reserve(&store, &party, "sold").await;
    let confirm = Confirm::new(sold.clone(), claim.token, party.holder.clone(), "e").unwrap();
    store.confirm(&confirm).await.unwrap();

    server.kill();
    outage(store.get(&kept).await);
    server.restart();
    in_the_end(async || store.get(&kept).await).await;

    assert_eq!(tokens(&store, &kept).await, [lease.token]);
    assert_eq!(look(&store, &kept).await.tickets.len(), 1);
    assert_eq!(look(&store, &sold).await.claims.len(), 1);
    let again = take(&store, &party, &gone).await;
    assert!(again.token > released.token);
    assert_eq!(store.losses(), 0);
}

/// F4, S1, S2, L6: for half of the ttl and for twice the ttl.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_granted_twice_while_a_server_stands_still_and_goes_on() {
    let server = Options::default().start();
    let url = format!("{}?timeout=200ms", server.url());
    let stores = stores(&url, 4).await;
    let terms = Terms {
        ttl: 600 * MS,
        late: true,
    };
    let traffic = Traffic::start(&stores, &[name("a")], terms);
    for pause in [300 * MS, 1200 * MS] {
        let before = traffic.len();
        until("there is traffic", async || traffic.len() > before + 60).await;
        server.stop();
        sleep(pause).await;
        server.cont();
    }
    let before = traffic.len();
    until("it goes on", async || traffic.len() > before + 60).await;
    let (tally, entries) = traffic.stop().await;
    println!("2 pauses, {} operations, {tally:?}", entries.len());
    assert!(tally.errors > 0, "{tally:?}");
    assert_eq!(judge(&entries, Bounds::GUARD), []);
}

/// F4, S11.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_is_lost_before_a_server_that_stood_still_gives_the_name_away() {
    let server = Options::default().start();
    let url = format!("{}?timeout=200ms", server.url());
    let [mine, others] = [locks(&url, 900 * MS).await, locks(&url, 900 * MS).await];
    let guard = mine.lock("a").renewing().acquire().await.unwrap();

    server.stop();
    guard.lost().await;
    assert!(!guard.is_held());
    sleep(900 * MS).await;
    server.cont();

    let other = others.lock("a").acquire_within(LONG).await.unwrap();
    assert!(!guard.is_held() && other.is_held());
    assert!(other.token() > guard.token());
    assert!(guard.release().await.is_err(), "it was lost");
    assert!(
        other.check().is_ok(),
        "a late release has not ended a newer lease"
    );
    other.release().await.unwrap();
}

/// F4.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_outlives_a_server_that_stands_still_for_half_of_its_ttl() {
    let server = Options::default().start();
    let url = format!("{}?timeout=200ms", server.url());
    let [mine, others] = [locks(&url, 4000 * MS).await, locks(&url, 4000 * MS).await];
    let guard = mine.lock("a").renewing().acquire().await.unwrap();
    let ends = guard.expires_at();

    server.stop();
    sleep(2000 * MS).await;
    server.cont();

    until("it is renewed", async || guard.expires_at() > ends).await;
    assert!(guard.is_held());
    let taken = in_the_end(async || others.lock("a").try_acquire().await).await;
    assert!(taken.is_none());
    guard.release().await.unwrap();
}

/// L6: `timeout` is how long the server may take to connect, or to answer.
#[tokio::test(flavor = "multi_thread")]
async fn every_call_into_a_black_hole_comes_back_by_its_timeout_however_many_there_are() {
    let server = Options::default().start();
    let (proxy, url) = through_proxy(server.addr());
    let store = open(&format!("{url}?timeout=400ms")).await;
    proxy.set(Mode::BlackHole);

    for _ in 0..2 {
        let before = now();
        let calls = (0..24).map(|at| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let (party, name) = (Party::new("p"), name(&format!("k{at}")));
                match at % 3 {
                    0 => drop(outage(store.get(&name).await)),
                    1 => drop(outage(store.acquire(&wish(&party, &name)).await)),
                    _ => drop(outage(store.watch(&inbox(), Some(&name)).await)),
                }
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        // To connect and then to answer, and more than as much again for a slow machine.
        let took = now().since(before);
        assert!(took < 2400 * MS, "{took:?}");
    }

    proxy.set(Mode::Pass);
    in_the_end(async || store.get(&name("a")).await).await;
    drop(in_the_end(async || store.watch(&inbox(), None).await).await);
}

/// F8: a connection that is made while the server cannot be reached leads nowhere; the next one does.
#[tokio::test]
async fn a_store_reconnects_by_itself_after_its_connections_were_reset() {
    let server = Options::default().start();
    let (proxy, url) = through_proxy(server.addr());
    let store = open(&url).await;
    let (party, name) = (Party::new("p"), name("a"));
    let lease = take(&store, &party, &name).await;

    for _ in 0..5 {
        proxy.reset();
        let renewed = in_the_end(async || renew(&store, &party, &lease).await).await;
        assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
    }
    proxy.set(Mode::Refuse);
    proxy.reset();
    let refused = store.acquire(&wish(&party, &name)).await;
    outage(refused);
    // By now it is known that there is no connection, so that nothing can have been sent.
    let error = outage(store.acquire(&wish(&party, &name)).await);
    assert_eq!(error.effect(), Effect::None, "{error:?}");
    proxy.set(Mode::Pass);
    in_the_end(async || store.get(&name).await).await;
}

/// F8: the request may have arrived.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_under_way_when_its_connection_was_reset_is_of_unknown_effect() {
    let server = Options::default().start();
    let (proxy, url) = through_proxy(server.addr());
    let store = open(&url).await;
    let (party, name) = (Party::new("p"), name("a"));
    proxy.set(Mode::Hold);
    let sent = proxy.counts().requests.chunks;
    let request = wish(&party, &name);
    let acquire = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.acquire(&request).await })
    };
    proxy.when(|counts| counts.requests.chunks > sent).await;
    proxy.reset();
    unknown(acquire.await.unwrap());
    proxy.set(Mode::Pass);
    granted(store.acquire(&wish(&party, &name)).await);
}

/// F10, S8, S9: the server has done it, and the caller cannot know.
#[tokio::test]
async fn a_lost_reply_is_of_unknown_effect_and_the_same_request_gets_the_same_answer() {
    let server = Options::default().start();
    let direct = open(&server.url()).await;
    let (proxy, url) = through_proxy(server.addr());
    let store = open(&url).await;
    warm_up(&store).await;
    let (party, name) = (Party::new("p"), name("a"));

    lose_one(&proxy);
    unknown(store.acquire(&wish(&party, &name)).await);
    let stored = tokens(&direct, &name).await;
    let lease = take(&store, &party, &name).await;
    assert_eq!(stored, [lease.token]);

    lose_one(&proxy);
    unknown(renew(&store, &party, &lease).await);
    let renewed = renew(&store, &party, &lease).await.unwrap();
    assert!(matches!(renewed, Renewed::Renewed(again) if again.token == lease.token));

    lose_one(&proxy);
    unknown(release(&store, &party, &lease).await);
    assert!(tokens(&direct, &name).await.is_empty());
    let released = release(&store, &party, &lease).await.unwrap();
    assert_eq!(released, Released::Released);

    let lease = take(&store, &party, &name).await;
    lose_one(&proxy);
    unknown(withdraw(&store, &party, &name).await);
    assert!(tokens(&direct, &name).await.is_empty());
    let withdrawn = withdraw(&store, &party, &name).await.unwrap();
    assert_eq!(withdrawn, Withdrawn::default());
    let next = take(&store, &party, &name).await;
    assert!(next.token > lease.token);
    assert_eq!(proxy.counts().lost_replies, 4);
}

/// F10, S9, S10: the same of what is for good, and of a place in a queue.
#[tokio::test]
async fn a_lost_reply_to_a_confirmation_a_capacity_or_a_ticket_can_be_asked_for_again() {
    let server = Options::default().start();
    let direct = open(&server.url()).await;
    let (proxy, url) = through_proxy(server.addr());
    let store = open(&url).await;
    warm_up(&store).await;
    let (party, sold) = (Party::new("p"), name("sold"));

    let lease = reserve(&store, &party, "sold").await;
    let confirm = Confirm::new(sold.clone(), lease.token, party.holder.clone(), "e").unwrap();
    lose_one(&proxy);
    unknown(store.confirm(&confirm).await);
    assert_eq!(look(&direct, &sold).await.claims.len(), 1);
    let confirmed = store.confirm(&confirm).await.unwrap();
    assert!(
        matches!(confirmed, Confirmed::Confirmed(_)),
        "{confirmed:?}"
    );
    assert_eq!(look(&direct, &sold).await.claims.len(), 1);

    let capacity = SetCapacity {
        name: name("stock"),
        units: Some(3),
        expect_version: None,
    };
    lose_one(&proxy);
    unknown(store.set_capacity(&capacity).await);
    assert_eq!(look(&direct, &capacity.name).await.capacity, Some(3));
    let set = store.set_capacity(&capacity).await.unwrap();
    assert!(matches!(set, CapacitySet::Set(_)), "{set:?}");

    let held = name("held");
    take(&direct, &party, &held).await;
    let queued = wish(&Party::new("w"), &held).queue(Mailbox::new().id());
    lose_one(&proxy);
    unknown(store.acquire(&queued).await);
    let answer = store.acquire(&queued).await.unwrap();
    assert!(matches!(answer, Acquired::Queued(at) if at.position == 0));
    assert_eq!(look(&direct, &held).await.tickets.len(), 1);
}

/// F11, S5: a copy that arrives later changes nothing.
#[tokio::test]
async fn requests_that_arrive_twice_are_done_once() {
    let server = Options::default().start();
    let (proxy, url) = through_proxy(server.addr());
    let store = open(&url).await;
    warm_up(&store).await;
    proxy.set(Mode::DuplicateRequests);
    let name = name("a");
    let mut last = Token::new(0);
    for round in 0..20 {
        let party = Party::new("p");
        let lease = take(&store, &party, &name).await;
        assert!(lease.token > last, "round {round}");
        last = lease.token;
        assert!(renew(&store, &party, &lease).await.is_ok());
        let released = release(&store, &party, &lease).await.unwrap();
        // Of two copies at the same time either may come first; both are answered in the same way.
        assert_eq!(released, Released::Released, "round {round}");
    }
    assert!(proxy.counts().duplicated > 0);
}

/// F8, S2: the time a reply takes is taken off what its holder believes.
#[tokio::test(flavor = "multi_thread")]
async fn no_guard_is_given_that_is_over_already() {
    let server = Options::default().start();
    let (proxy, url) = through_proxy(server.addr());
    let store = open(&url).await;
    let locks = Locks::new(store).namespace("faults").build().unwrap();
    proxy.set(Mode::Delay {
        fixed: 150 * MS,
        jitter: Duration::ZERO,
    });
    let brief = locks.lock("brief").ttl(250 * MS);
    for _ in 0..3 {
        let refused = brief.try_acquire().await;
        let error = refused.expect_err("it was over when the answer came");
        assert_ne!(error.kind(), ErrorKind::NotAcquired, "{error:?}");
    }
    let lock = locks.lock("long").ttl(4000 * MS);
    let guard = lock.try_acquire().await.unwrap().unwrap();
    assert!(guard.is_held());
    // 4 s without one per cent, a twentieth, and a round trip.
    assert!(guard.remaining() < 3460 * MS, "{:?}", guard.remaining());
}

async fn stores(url: &str, count: usize) -> Vec<Arc<Redis>> {
    let mut stores = Vec::new();
    for _ in 0..count {
        stores.push(open(url).await);
    }
    stores
}

async fn locks(url: &str, ttl: Duration) -> Locks {
    let locks = Locks::new(open(url).await).namespace("faults").ttl(ttl);
    locks.build().unwrap()
}

async fn reserve(store: &Redis, party: &Party, key: &str) -> Lease {
    let request = wish(party, &name(key)).kind(Kind::Reservation);
    granted(store.acquire(&request).await)
}

fn inbox() -> leasehold_core::backend::Inbox {
    leasehold_core::backend::Inbox::new(|_| {})
}

fn lose_one(proxy: &Proxy) {
    proxy.lose_reply(1);
}

/// Makes the server know every script, so that each call from here on is one request.
async fn warm_up(store: &Redis) {
    let (party, name) = (Party::new("warm"), name("warm"));
    let lease = take(store, &party, &name).await;
    renew(store, &party, &lease).await.unwrap();
    release(store, &party, &lease).await.unwrap();
    withdraw(store, &party, &name).await.unwrap();
    let lease = reserve(store, &party, "warm").await;
    let confirm = Confirm::new(name.clone(), lease.token, party.holder.clone(), "e").unwrap();
    store.confirm(&confirm).await.unwrap();
    let capacity = SetCapacity {
        name: common_redis::name("warm-stock"),
        units: Some(1),
        expect_version: None,
    };
    store.set_capacity(&capacity).await.unwrap();
    look(store, &name).await;
}
