//! Every verb on a real server, dropped at every poll and at many moments in between: before its request left, while it was
//! under way, and after the server had done it (F27, L5).
//!
//! Whatever was dropped, the same request can be made again or taken back, and nothing remains. The connection that all
//! callers share goes on: the next one gets its own answer.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how much it did"
)]

mod common_redis;
mod servers;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use common_redis::{
    granted, in_the_end, look, name, open, outage, release, release_of, renew, renewal_of, sleep,
    take, until, wish, withdraw, withdrawal_of,
};
use leasehold_conformance::{Mailbox, Party};
use leasehold_core::backend::{Acquired, Confirm, Confirmed, Inbox, Released, Renewed};
use leasehold_core::{Backend as _, Kind, Lease, Name};
use leasehold_redis::Redis;
use servers::{Options, Server};

/// More polls than any of these calls takes on a connection that is there.
const POLLS: usize = 4;
/// How often everybody else gets further before the drop.
const TURNS: [usize; 8] = [0, 1, 2, 3, 5, 8, 16, LONG_ENOUGH];
/// So many turns stand for a moment in which an answer arrives.
const LONG_ENOUGH: usize = 64;

type Task<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// A call that is dropped, over and over.
struct Scene {
    server: Server,
    store: Arc<Redis>,
    /// Whether every call has to make a connection first.
    dials: bool,
    drops: usize,
}

impl Scene {
    async fn new(dials: bool) -> Self {
        let server = Options::default().start();
        let store = open(&server.url()).await;
        Self {
            server,
            store,
            dials,
            drops: 0,
        }
    }

    /// Calls `attempt` for every number of polls and turns. Each makes a future of a call, has it dropped, and cleans up.
    async fn at_every_point(&mut self, mut attempt: impl AsyncFnMut(&Redis, Drop)) {
        let polls = if self.dials { POLLS * 4 } else { POLLS };
        for polls in 0..polls {
            for turns in TURNS {
                if self.dials {
                    self.server.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
                    outage(self.store.get(&name("a")).await);
                }
                attempt(&self.store, Drop { polls, turns }).await;
                self.drops += 1;
            }
        }
    }

    /// The next caller gets its own answer, and the one after it too.
    async fn assert_whole(&self) {
        let party = Party::new("next");
        for key in ["next-1", "next-2"] {
            let lease = take(&self.store, &party, &name(key)).await;
            let record = look(&self.store, &name(key)).await;
            assert_eq!(record.grants[0].token, lease.token);
            release(&self.store, &party, &lease).await.unwrap();
        }
    }
}

/// After how many polls, and how many turns of everybody else behind each, a future is dropped.
#[derive(Debug, Clone, Copy)]
struct Drop {
    polls: usize,
    turns: usize,
}

impl Drop {
    /// Drops it there, or finds it done.
    async fn apply(self, mut task: Task<'_>) {
        for _ in 0..self.polls {
            if poll_once(&mut task).await {
                return;
            }
            others_run(self.turns).await;
        }
    }
}

async fn poll_once(task: &mut Task<'_>) -> bool {
    poll_fn(|cx| Poll::Ready(task.as_mut().poll(cx).is_ready())).await
}

async fn others_run(times: usize) {
    if times == LONG_ENOUGH {
        sleep(Duration::from_millis(2)).await;
    }
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_dropped_acquire_leaves_nothing_after_a_withdrawal() {
    dropped_acquire(false, false).await;
}

#[tokio::test]
async fn a_dropped_acquire_that_had_to_connect_leaves_nothing_after_a_withdrawal() {
    dropped_acquire(false, true).await;
}

#[tokio::test]
async fn a_dropped_acquire_that_wanted_to_queue_leaves_no_ticket_after_a_withdrawal() {
    dropped_acquire(true, false).await;
}

async fn dropped_acquire(queues: bool, dials: bool) {
    let mut scene = Scene::new(dials).await;
    let (holder, a) = (Party::new("holder"), name("a"));
    if queues {
        take(&scene.store, &holder, &a).await;
    }
    let expected = usize::from(queues);
    let (mut left, mut done) = (0, 0);
    scene
        .at_every_point(async |store, drop| {
            let party = Party::new("dropped");
            let request = match queues {
                true => wish(&party, &a).queue(Mailbox::new().id()),
                false => wish(&party, &a),
            };
            let call = async { store.acquire(&request).await.is_ok() };
            drop.apply(Box::pin(call)).await;
            let before = in_the_end(async || store.get(&a).await).await.what;
            let is_there = before.is_some_and(|it| it.grants.len() + it.tickets.len() > expected);
            left += usize::from(is_there);
            done += usize::from(!is_there);
            in_the_end(async || withdraw(store, &party, &a).await).await;
            let record = look(store, &a).await;
            assert_eq!(record.grants.len(), expected, "{drop:?}");
            assert_eq!(record.tickets.len(), 0, "{drop:?}");
        })
        .await;
    println!("{} drops: {left} were done, {done} were not", scene.drops);
    assert!(left > 0 && done > 0, "all drops came at the same moment");
    scene.assert_whole().await;
}

#[tokio::test]
async fn a_dropped_renewal_can_be_made_again() {
    let mut scene = Scene::new(false).await;
    let (party, a) = (Party::new("p"), name("a"));
    let lease = take(&scene.store, &party, &a).await;
    scene
        .at_every_point(async |store, drop| {
            let request = renewal_of(&party, &lease);
            let call = async { store.renew(&request).await.is_ok() };
            drop.apply(Box::pin(call)).await;
            let again = renew(store, &party, &lease).await.unwrap();
            assert!(
                matches!(&again, Renewed::Renewed(it) if it.token == lease.token),
                "{drop:?}: {again:?}"
            );
        })
        .await;
    scene.assert_whole().await;
}

#[tokio::test]
async fn a_dropped_release_can_be_made_again_and_ends_nothing_else() {
    let mut scene = Scene::new(false).await;
    let a = name("a");
    scene
        .at_every_point(async |store, drop| {
            let party = Party::new("p");
            let lease = take(store, &party, &a).await;
            let request = release_of(&party, &lease);
            let call = async { store.release(&request).await.is_ok() };
            drop.apply(Box::pin(call)).await;
            let again = release(store, &party, &lease).await.unwrap();
            assert_eq!(again, Released::Released, "{drop:?}");
            assert!(look(store, &a).await.grants.is_empty(), "{drop:?}");
        })
        .await;
    scene.assert_whole().await;
}

#[tokio::test]
async fn a_dropped_withdrawal_can_be_made_again() {
    let mut scene = Scene::new(false).await;
    let a = name("a");
    scene
        .at_every_point(async |store, drop| {
            let (party, waiter) = (Party::new("p"), Party::new("waiter"));
            take(store, &party, &a).await;
            let queued = wish(&waiter, &a).queue(Mailbox::new().id());
            assert!(matches!(
                store.acquire(&queued).await.unwrap(),
                Acquired::Queued(_)
            ));
            for it in [&waiter, &party] {
                let request = withdrawal_of(it, &a);
                let call = async { store.withdraw(&request).await.is_ok() };
                drop.apply(Box::pin(call)).await;
                withdraw(store, it, &a).await.unwrap();
            }
            let record = look(store, &a).await;
            assert!(record.grants.is_empty() && record.tickets.is_empty());
        })
        .await;
    scene.assert_whole().await;
}

#[tokio::test]
async fn a_dropped_confirmation_can_be_made_again_and_happens_once() {
    let mut scene = Scene::new(false).await;
    let mut number = 0;
    scene
        .at_every_point(async |store, drop| {
            number += 1;
            let (party, sold) = (Party::new("p"), name(&format!("sold-{number}")));
            let lease = reserve(store, &party, &sold).await;
            let holder = party.holder.clone();
            let request = Confirm::new(sold.clone(), lease.token, holder, "e").unwrap();
            let call = async { store.confirm(&request).await.is_ok() };
            drop.apply(Box::pin(call)).await;
            let again = store.confirm(&request).await.unwrap();
            assert!(matches!(again, Confirmed::Confirmed(_)), "{drop:?}");
            let record = look(store, &sold).await;
            assert_eq!((record.claims.len(), record.grants.len()), (1, 0));
        })
        .await;
    scene.assert_whole().await;
}

/// S15.
#[tokio::test]
async fn a_dropped_watch_leaves_no_subscription() {
    let mut scene = Scene::new(false).await;
    scene
        .at_every_point(async |store, drop| {
            let (inbox, a) = (Inbox::new(|_| {}), name("a"));
            let call = async { store.watch(&inbox, Some(&a)).await.is_ok() };
            drop.apply(Box::pin(call)).await;
        })
        .await;
    until("nothing is listened to", async || {
        let channels = scene.server.ask(&["PUBSUB", "CHANNELS", "leasehold:*"]);
        channels.several().is_empty()
    })
    .await;
    scene.assert_whole().await;
    let mailbox = Mailbox::new();
    let watch = mailbox.arm_on(&*scene.store, Some(&name("next-1"))).await;
    scene.assert_whole().await;
    until("it still listens", async || !mailbox.events().is_empty()).await;
    drop(watch);
}

async fn reserve(store: &Redis, party: &Party, name: &Name) -> Lease {
    let request = wish(party, name).kind(Kind::Reservation);
    granted(store.acquire(&request).await)
}
