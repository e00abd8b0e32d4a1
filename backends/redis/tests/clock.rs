//! The wall clock of the server is set: leases end early or late, as documented; tokens grow all the same, and what a holder
//! believes rests on its own clock (F13, S3).

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common_redis;
mod servers;

use std::time::Duration;

use common_redis::{
    granted, in_the_end, look, name, open, release, renew, take, until, wish, wish_for,
};
use leasehold_conformance::{Mailbox, Party};
use leasehold_core::backend::{Acquired, Renewed, Sweep};
use leasehold_core::{Backend as _, Locks, State, Token};
use leasehold_faults::clock::ShiftedClock;
use leasehold_redis::Redis;
use servers::{Options, Server};

const HOUR: Duration = Duration::from_secs(60 * 60);
const MINUTE: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(30);

/// A server and the clock it goes by.
fn server() -> (Server, ShiftedClock) {
    let clock = ShiftedClock::new().unwrap();
    let server = Options::default().clock(&clock).start();
    (server, clock)
}

/// Documented: a step forward ends leases early. What helps is that the later token is larger.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_forward_frees_a_lease_and_the_next_one_has_the_larger_token() {
    let (server, clock) = server();
    let (mine, others) = (open(&server.url()).await, open(&server.url()).await);
    let (me, other, a) = (Party::new("me"), Party::new("other"), name("a"));
    let first = granted(mine.acquire(&wish_for(&me, &a, TTL)).await);
    let refused = others.acquire(&wish(&other, &a)).await.unwrap();
    assert!(matches!(refused, Acquired::Held(_)), "{refused:?}");

    clock.forward(MINUTE).unwrap();
    let second = take(&others, &other, &a).await;
    assert!(second.token > first.token);
    let renewed = renew(&mine, &me, &first).await.unwrap();
    assert!(matches!(renewed, Renewed::NotHeld(_)), "{renewed:?}");
    assert_eq!((mine.losses(), others.losses()), (0, 0));
}

/// S3: for a name that is known, for one that is new, and for one that was forgotten.
#[tokio::test]
async fn tokens_grow_although_the_clock_goes_back_by_an_hour() {
    let (mut server, clock) = server();
    let store = open(&server.url()).await;
    let mut last = Token::new(0);
    for step in 0..4 {
        for _ in 0..20 {
            last = larger(&store, "a", last).await;
        }
        match step {
            0 => clock.back(HOUR).unwrap(),
            1 => {
                server.restart();
                in_the_end(async || store.get(&name("a")).await).await;
            }
            2 => {
                // Longer than what has ended is remembered.
                clock.forward(10 * MINUTE).unwrap();
                let swept = store.sweep(&Sweep::all(100)).await.unwrap();
                assert_eq!(swept.forgotten, 1);
                assert_eq!(store.get(&name("a")).await.unwrap().what, None);
            }
            _ => {}
        }
    }
    // Another process, which has seen nothing yet.
    larger(&*open(&server.url()).await, "a", last).await;
    assert_eq!(store.losses(), 0, "a clock is no loss");
}

/// Documented: a step back makes leases last longer. Nobody is granted twice by it.
#[tokio::test]
async fn a_step_back_keeps_a_lease_for_as_much_longer() {
    let (server, clock) = server();
    let store = open(&server.url()).await;
    let (me, a) = (Party::new("me"), name("a"));
    let lease = granted(store.acquire(&wish_for(&me, &a, TTL)).await);
    clock.back(HOUR).unwrap();
    let other = Party::new("other");
    let refused = store.acquire(&wish(&other, &a)).await.unwrap();
    let Acquired::Held(by) = refused else {
        panic!("{refused:?}");
    };
    assert!(by[0].change_in.unwrap() > HOUR - TTL);
    let renewed = renew(&store, &me, &lease).await.unwrap();
    assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
    release(&store, &me, &lease).await.unwrap();
    take(&store, &other, &a).await;
}

/// S2, F14: the holder counts its own time, whatever the server says the time is.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_believes_its_own_clock_for_no_longer_than_its_ttl() {
    let (server, clock) = server();
    let store = open(&server.url()).await;
    let locks = Locks::new(store).namespace("faults").ttl(TTL);
    let locks = locks.build().unwrap();
    let before = locks.lock("before").acquire().await.unwrap();
    for step in [-(HOUR.as_nanos() as i64), 2 * HOUR.as_nanos() as i64] {
        clock.shift(step).unwrap();
        assert!(before.is_held() && before.remaining() < TTL);
        let guard = locks.lock("during").acquire().await.unwrap();
        assert!(guard.is_held() && guard.remaining() < TTL);
        guard.release().await.unwrap();
    }
    // The step forward has ended it on the server, which its holder learns when it asks.
    assert!(before.extend(TTL).await.is_err());
    assert!(matches!(before.state(), State::Lost(_)), "{before:?}");
}

/// A waiter is served by what the server thinks the time is.
#[tokio::test]
async fn a_waiter_inherits_a_lease_that_a_step_forward_has_ended() {
    let (server, clock) = server();
    let store = open(&server.url()).await;
    let (me, waiter, a) = (Party::new("me"), Party::new("waiter"), name("a"));
    let first = granted(store.acquire(&wish_for(&me, &a, TTL)).await);
    let queued = wish_for(&waiter, &a, HOUR).queue(Mailbox::new().id());
    assert!(matches!(
        store.acquire(&queued).await.unwrap(),
        Acquired::Queued(_)
    ));
    clock.forward(MINUTE).unwrap();
    let handed = granted(store.acquire(&queued).await);
    assert!(handed.token > first.token);
    assert_eq!(look(&store, &a).await.grants.len(), 1);
}

/// A quarantine is a time of the server's as well; it ends.
#[tokio::test]
async fn a_quarantine_ends_by_the_clock_of_the_server() {
    let (server, clock) = server();
    let store = open(&server.url()).await;
    let brief = wish_for(&Party::new("p"), &name("a"), TTL);
    let first = granted(store.acquire(&brief).await);
    server.ask(&["FLUSHALL"]);
    let refused = store.acquire(&brief).await.unwrap();
    assert!(matches!(refused, Acquired::Held(_)), "{refused:?}");
    clock.forward(MINUTE + Duration::from_secs(1)).unwrap();
    let next = granted(store.acquire(&brief).await);
    assert!(next.token > first.token);
    until("it is the only one", async || {
        look(&store, &name("a")).await.grants.len() == 1
    })
    .await;
}

/// Takes a name and gives it back; its token must be larger than the last one.
async fn larger(store: &Redis, key: &str, last: Token) -> Token {
    let party = Party::new("p");
    let lease = take(store, &party, &name(key)).await;
    assert!(lease.token > last, "{:?} after {last:?}", lease.token);
    release(store, &party, &lease).await.unwrap();
    lease.token
}
