//! Wake-ups that get lost, and many who wait: everybody is served, in turn, and nobody storms the server (F26, F28, L2, L3).

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how much it did"
)]

mod common_redis;
mod servers;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common_redis::{LONG, look, name, open, release, take, until, wish, wish_for};
use leasehold_conformance::{Mailbox, Party};
use leasehold_core::backend::{Acquired, Event, What};
use leasehold_core::{Backend as _, Lease, Locks};
use leasehold_redis::Redis;
use servers::{Options, Server};
use tokio::task::JoinHandle;

const MS: Duration = Duration::from_millis(1);

/// F26, L2, L3: the subscriptions of both processes are ended before every hand-over.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_whose_wake_ups_are_lost_are_all_served_in_the_order_they_came() {
    let server = Options::default().start();
    let (one, two) = (locks(&server).await, locks(&server).await);
    let guard = one.lock("a").acquire().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..6 {
        let locks = [&one, &two][number % 2];
        let before = locks.waiting();
        waiters.push(wait_and_note(locks, number, &served, &server));
        until("it waits", async || locks.waiting() > before).await;
        let tickets = (number + 1).min(2);
        until("it, or one of its process, stands in line", async || {
            record_of(&one).await.0 == tickets
        })
        .await;
    }
    end_subscriptions(&server);
    guard.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
}

/// L3: a place in the queue is a place among all processes.
#[tokio::test]
async fn tickets_of_two_processes_are_granted_first_come_first_served() {
    let server = Options::default().start();
    let stores = [open(&server.url()).await, open(&server.url()).await];
    let a = name("a");
    let mut parties = vec![Party::new("first")];
    let mut lease = take(&stores[0], &parties[0], &a).await;
    let mailboxes = [Mailbox::new(), Mailbox::new()];
    let mut watches = Vec::new();
    for (mailbox, store) in mailboxes.iter().zip(&stores) {
        watches.push(mailbox.arm_on(&**store, None).await);
    }
    for number in 1..8 {
        let (party, at) = (Party::new("waiter"), number / 2 % 2);
        let queued = wish(&party, &a).queue(mailboxes[at].id());
        let answer = stores[at].acquire(&queued).await.unwrap();
        assert!(matches!(answer, Acquired::Queued(it) if it.position == number - 1));
        parties.push(party);
    }
    for pair in parties.windows(2) {
        release(&stores[0], &pair[0], &lease).await.unwrap();
        let next = told(&mailboxes, &pair[1]).await;
        assert!(next.token > lease.token);
        lease = next;
    }
}

/// F28: one grant at a time, and a handful of requests for each.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_waiters_of_two_processes_are_served_one_at_a_time_without_a_storm() {
    const WAITERS: u64 = 200;
    let server = Options::default().start();
    let stores = [open(&server.url()).await, open(&server.url()).await];
    let locks = stores.each_ref().map(|store| manager(store, 20_000 * MS));
    let guard = locks[0].lock("a").acquire().await.unwrap();
    let inside = Arc::new(AtomicUsize::new(0));
    let waiters: Vec<_> = (0..WAITERS as usize)
        .map(|number| {
            let (lock, inside) = (locks[number % 2].lock("a"), Arc::clone(&inside));
            tokio::spawn(async move {
                let guard = lock.acquire_within(LONG).await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                let token = guard.token();
                guard.release().await.unwrap();
                token
            })
        })
        .collect();
    until("all of them wait", async || {
        locks[0].waiting() + locks[1].waiting() == WAITERS as usize
    })
    .await;
    let before: u64 = stores.iter().map(|store| store.requests()).sum();
    guard.release().await.unwrap();
    let mut tokens = Vec::new();
    for waiter in waiters {
        tokens.push(waiter.await.unwrap());
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len() as u64, WAITERS);
    let after: u64 = stores.iter().map(|store| store.requests()).sum();
    let requests = after - before;
    println!("{requests} requests for {WAITERS} grants");
    // To stand in line and to let go, and as much again for what is asked a second time.
    assert!(requests <= 4 * WAITERS, "{requests}");
}

/// L5.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_dropped_leaves_no_ticket_and_is_granted_nothing() {
    let server = Options::default().start();
    let (one, two) = (locks(&server).await, locks(&server).await);
    let guard = one.lock("a").acquire().await.unwrap();
    for _ in 0..10 {
        let lock = two.lock("a");
        let waiter = tokio::spawn(async move { lock.acquire().await });
        until("it stands in line", async || record_of(&one).await.0 == 1).await;
        waiter.abort();
        until("it has left", async || record_of(&one).await.0 == 0).await;
    }
    guard.release().await.unwrap();
    assert_eq!(record_of(&one).await, (0, 0));
}

/// F26: a change nobody heard of.
#[tokio::test]
async fn who_watches_a_name_is_told_that_it_may_have_changed_while_nothing_was_heard() {
    let server = Options::default().start();
    let (store, other) = (open(&server.url()).await, open(&server.url()).await);
    let (party, a) = (Party::new("p"), name("a"));
    let lease = take(&other, &party, &a).await;
    let mailbox = Mailbox::new();
    let _watch = mailbox.arm_on(&*store, Some(&a)).await;
    mailbox.clear();
    end_subscriptions(&server);
    release(&other, &party, &lease).await.unwrap();
    is_told(&mailbox).await;
}

/// The same, where somebody else who begins to listen brings the connection back.
#[tokio::test]
async fn who_watches_a_name_is_told_also_if_another_watch_brings_the_connection_back() {
    let server = Options::default().start();
    let (store, other) = (open(&server.url()).await, open(&server.url()).await);
    let (party, a) = (Party::new("p"), name("a"));
    let lease = take(&other, &party, &a).await;
    let mailbox = Mailbox::new();
    let _watch = mailbox.arm_on(&*store, Some(&a)).await;
    for round in 0..5 {
        mailbox.clear();
        end_subscriptions(&server);
        if round == 0 {
            release(&other, &party, &lease).await.unwrap();
        }
        let another = common_redis::in_the_end(async || {
            let inbox = leasehold_core::backend::Inbox::new(|_| {});
            store.watch(&inbox, Some(&name("b"))).await
        });
        drop(another.await);
        is_told(&mailbox).await;
    }
}

/// S15: channels are left when nobody wants them any more.
#[tokio::test]
async fn watches_that_are_dropped_leave_no_subscription() {
    let server = Options::default().start();
    let store = open(&server.url()).await;
    let mailbox = Mailbox::new();
    let mut watches = Vec::new();
    for number in 0..50 {
        let name = name(&format!("k{}", number % 10));
        watches.push(mailbox.arm_on(&*store, Some(&name)).await);
    }
    assert_eq!(channels(&server), 11);
    drop(watches);
    until("nothing is listened to", async || channels(&server) == 0).await;
}

/// A grant by hand-over that nobody heard of ends when its ticket would have, and not later.
#[tokio::test]
async fn a_grant_to_a_waiter_that_is_gone_does_not_outlive_its_ticket() {
    let server = Options::default().start();
    let store = open(&server.url()).await;
    let (first, gone, last) = (Party::new("first"), Party::new("gone"), Party::new("last"));
    let a = name("a");
    let lease = take(&store, &first, &a).await;
    let queued = wish_for(&gone, &a, 300 * MS).queue(Mailbox::new().id());
    assert!(matches!(
        store.acquire(&queued).await.unwrap(),
        Acquired::Queued(_)
    ));
    release(&store, &first, &lease).await.unwrap();
    let handed = look(&store, &a).await.grants[0].clone();
    assert_eq!(handed.holder, gone.holder.digest());
    until("it is free again", async || {
        look(&store, &a).await.grants.is_empty()
    })
    .await;
    assert!(take(&store, &last, &a).await.token > handed.token);
}

async fn locks(server: &Server) -> Locks {
    manager(&open(&server.url()).await, 3000 * MS)
}

fn manager(store: &Arc<Redis>, ttl: Duration) -> Locks {
    let locks = Locks::new(Arc::clone(store)).namespace("faults");
    locks.ttl(ttl).build().unwrap()
}

/// Waits for `a`, writes down whose turn it is, and lets go where nobody hears of it.
fn wait_and_note(
    locks: &Locks,
    number: usize,
    served: &Arc<Mutex<Vec<usize>>>,
    server: &Server,
) -> JoinHandle<()> {
    let (lock, served, addr) = (locks.lock("a"), Arc::clone(served), server.addr());
    tokio::spawn(async move {
        let guard = lock.acquire_within(LONG).await.unwrap();
        served.lock().unwrap().push(number);
        let ended = servers::Talk::open(addr, None).unwrap().ask(END);
        assert!(matches!(ended, Ok(servers::Reply::Number(_))), "{ended:?}");
        guard.release().await.unwrap();
    })
}

const END: &[&str] = &["CLIENT", "KILL", "TYPE", "pubsub"];

fn end_subscriptions(server: &Server) {
    server.ask(END);
}

/// How many tickets and grants `a` has.
async fn record_of(locks: &Locks) -> (usize, usize) {
    let record = locks.get("a").await.unwrap();
    record.map_or((0, 0), |it| (it.tickets.len(), it.grants.len()))
}

/// The lease that one of the mailboxes was told of.
async fn told(mailboxes: &[Mailbox; 2], party: &Party) -> Lease {
    let mut found = None;
    until("the waiter is told", async || {
        let grants = |it: &Mailbox| it.grants_of(&party.holder).pop();
        found = mailboxes.iter().find_map(grants);
        found.is_some()
    })
    .await;
    found.unwrap()
}

async fn is_told(mailbox: &Mailbox) {
    let is_it = |event: &Event| event.what == What::Changed && event.name == name("a");
    until("it is told", async || mailbox.events().iter().any(is_it)).await;
}

fn channels(server: &Server) -> usize {
    let reply = server.ask(&["PUBSUB", "CHANNELS", "leasehold:*"]);
    reply.several().len()
}
