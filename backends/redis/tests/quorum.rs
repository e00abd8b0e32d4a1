//! Five servers that know nothing of each other, and a majority that decides: two may be killed, three may not (F1, S1, S3).

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how much it did"
)]

mod common_redis;
mod servers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common_redis::{
    granted, in_the_end, name, open, outage, release_of, renewal_of, sleep, until, wish, wish_for,
    withdrawal_of,
};
use leasehold_conformance::Party;
use leasehold_conformance::history::{Bounds, Did, History, Saw, check, check_linear};
use leasehold_core::backend::{Acquired, Released, Renewed};
use leasehold_core::wrap::Quorum;
use leasehold_core::{Backend, Lease, SystemClock, Token};
use servers::{Durability, Five, Options};

const MS: Duration = Duration::from_millis(1);

/// A quorum with connections of its own, as another process would have it.
async fn quorum(five: &Five) -> Quorum {
    let mut stores: Vec<Arc<dyn Backend>> = Vec::new();
    for url in five.urls() {
        stores.push(open(&format!("{url}?timeout=500ms&quarantine=1s")).await);
    }
    Quorum::new(stores).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_of_five_may_be_killed_and_three_may_not() {
    let mut five = Five::start(&Options::default());
    let (store, other) = (quorum(&five).await, quorum(&five).await);
    let (party, a) = (Party::new("p"), name("a"));
    let kept = granted(store.acquire(&wish(&party, &name("kept"))).await);
    let mut last = cycle(&store, Token::new(0)).await;

    for server in &mut five.servers[..2] {
        server.kill();
    }
    for _ in 0..5 {
        last = cycle(&store, last).await;
        last = cycle(&other, last).await;
    }
    let renewed = store.renew(&renewal_of(&party, &kept)).await.unwrap();
    assert!(
        matches!(&renewed[0], Ok(Renewed::Renewed(_))),
        "{renewed:?}"
    );

    five.servers[2].kill();
    // Not a refusal, and not granted either.
    outage(store.acquire(&wish(&party, &a)).await);
    outage(other.acquire(&wish(&Party::new("q"), &a)).await);
    outage(store.get(&name("kept")).await);

    for server in &mut five.servers[..3] {
        server.restart();
    }
    in_the_end(async || store.withdraw(&withdrawal_of(&party, &a)).await).await;
    let refused = in_the_end(async || {
        let wish = wish(&Party::new("q"), &name("kept"));
        other.acquire(&wish).await
    });
    let refused = refused.await;
    assert!(matches!(refused, Acquired::Held(_)), "{refused:?}");
    let next = in_the_end(async || store.acquire(&wish(&party, &name("b"))).await).await;
    let next = granted(Ok(next));
    last = cycle(&store, last).await;
    cycle(&other, last).await;
    store.release(&release_of(&party, &next)).await.unwrap();
    store.release(&release_of(&party, &kept)).await.unwrap();
}

/// S1, S3: one server after the other is killed and comes back with what it had, under load.
#[tokio::test(flavor = "multi_thread")]
async fn traffic_over_a_majority_is_in_order_while_servers_are_killed_in_turn() {
    let mut five = Five::start(&Options::default());
    let history = History::new(Arc::new(SystemClock));
    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = Vec::new();
    for client in 0..3 {
        let caller = traffic(quorum(&five).await, client, history.clone(), stop.clone());
        callers.push(tokio::spawn(caller));
    }
    for number in 0..5 {
        let before = history.entries().len();
        until("there is traffic", async || {
            history.entries().len() > before + 30
        })
        .await;
        five.servers[number].kill();
        sleep(100 * MS).await;
        five.servers[number].restart();
    }
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    let mut entries = history.entries();
    let grants = entries.iter().filter(|it| it.saw.token().is_some()).count();
    println!("{} operations, {grants} grants", entries.len());
    assert!(grants > 10);
    assert_eq!(check(&entries, Bounds::GUARD), []);
    // Several who ask at once may each get some stores and nobody a majority, so that all are refused though nobody has it.
    // So refusals are not judged as those of one store would be; everything else is.
    entries.retain(|it| it.saw != Saw::Refused);
    assert_eq!(check_linear(&entries, Bounds::GUARD), []);
}

/// F29: a minority that forgets everything gives nothing away.
#[tokio::test(flavor = "multi_thread")]
async fn two_of_five_may_forget_everything() {
    let mut five = Five::start(&Options::default().durability(Durability::Never));
    let (store, other) = (quorum(&five).await, quorum(&five).await);
    let party = Party::new("p");
    let lease = granted(
        store
            .acquire(&wish_for(&party, &name("a"), 30_000 * MS))
            .await,
    );
    for server in &mut five.servers[..2] {
        server.restart();
    }
    for _ in 0..5 {
        let wish = wish(&Party::new("q"), &name("a"));
        let refused = in_the_end(async || other.acquire(&wish).await).await;
        assert!(matches!(refused, Acquired::Held(_)), "{refused:?}");
    }
    let released = store.release(&release_of(&party, &lease)).await.unwrap();
    assert_eq!(released[0], Released::Released);
}

/// Takes `a` and gives it back; its token must be larger than the last one.
async fn cycle(store: &Quorum, last: Token) -> Token {
    let party = Party::new("p");
    let lease = in_the_end(async || {
        let answer = store.acquire(&wish(&party, &name("a"))).await?;
        Ok(granted(Ok(answer)))
    });
    let lease: Lease = lease.await;
    assert!(lease.token > last, "{:?} after {last:?}", lease.token);
    in_the_end(async || store.release(&release_of(&party, &lease)).await).await;
    lease.token
}

/// Takes `a` and gives it back until told to stop, and records it.
async fn traffic(store: Quorum, client: u32, history: History, stop: Arc<AtomicBool>) {
    let mut holder = u64::from(client) << 32;
    while !stop.load(Ordering::Relaxed) {
        holder += 1;
        let party = Party::new("caller");
        let request = wish(&party, &name("a"));
        let (start, ttl_ms) = (history.now(), request.ttl.as_millis());
        let answer = store.acquire(&request).await;
        let did = Did::Acquire { holder, ttl_ms };
        history.add(client, &name("a"), start, did, Saw::acquired(&answer));
        if let Ok(Acquired::Granted(leases)) = &answer {
            sleep(2 * MS).await;
            let token = leases[0].token.get();
            let start = history.now();
            let released = store.release(&release_of(&party, &leases[0])).await;
            let saw = Saw::released(&released.map(|mut all| all.remove(0)));
            history.add(
                client,
                &name("a"),
                start,
                Did::Release { holder, token },
                saw,
            );
        }
        // Whatever is left of it somewhere is taken back, as any caller does.
        let start = history.now();
        let withdrawal = withdrawal_of(&party, &name("a"));
        while let Err(error) = store.withdraw(&withdrawal).await {
            assert!(error.is_retryable(), "{error:?}");
            sleep(5 * MS).await;
        }
        history.add(
            client,
            &name("a"),
            start,
            Did::Withdraw { holder },
            Saw::Done,
        );
        sleep(5 * MS).await;
    }
}
