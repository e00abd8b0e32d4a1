//! A server that forgets, is full, or holds what nobody of us wrote: it is noticed, told by its name, and never taken for
//! "free" (F29, S3, S8).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common_redis;
mod servers;

use std::time::Duration;

use common_redis::{
    granted, in_the_end, look, name, open, outage, release, renew, renewal_of, sleep, take,
    try_open, until, wish, wish_for, withdraw,
};
use leasehold_conformance::{Mailbox, Party};
use leasehold_core::backend::{Acquired, BlockedBy, Confirm, List, Released, Renewed, Sweep, What};
use leasehold_core::{
    Backend as _, Effect, Error, ErrorKind, Fencing, Kind, Lease, Locks, Name, Result,
};
use leasehold_redis::{Level, Redis};
use servers::{Durability, Options, Server};

const MS: Duration = Duration::from_millis(1);

/// F29.
#[tokio::test]
async fn after_a_flushall_nothing_is_granted_for_the_quarantine_and_tokens_go_on_above_all_seen() {
    let server = Options::default().start();
    forgets(&server, || drop(server.ask(&["FLUSHALL"]))).await;
}

/// F1, F29.
#[tokio::test]
async fn a_restart_that_loses_everything_is_noticed_as_well() {
    let mut server = Options::default().durability(Durability::Never).start();
    let url = quarantined(&server);
    let store = open(&url).await;
    let before = take_briefly(&store, &Party::new("p")).await;
    server.restart();
    let seen = in_the_end(async || store.get(&name("a")).await).await;
    assert_eq!(seen.what, None);
    assert_eq!(store.losses(), 1);
    let next = granted_after_quarantine(&store, &Party::new("q")).await;
    assert!(next.token > before.token);
}

/// F29: by another process, which connects after the loss and cannot know.
#[tokio::test]
async fn who_knew_the_store_before_a_loss_notices_although_somebody_has_begun_anew() {
    let server = Options::default().start();
    let url = quarantined(&server);
    let store = open(&url).await;
    let (me, other) = (Party::new("me"), Party::new("other"));
    let mine = take_briefly(&store, &me).await;
    server.ask(&["FLUSHALL"]);
    let newcomer = open(&url).await;
    let theirs = take(&newcomer, &other, &name("a")).await;
    assert!(theirs.token > mine.token, "the clock has not gone back");

    let released = release(&store, &me, &mine).await.unwrap();
    assert!(matches!(released, Released::NotHeld(_)), "{released:?}");
    assert_eq!((store.losses(), newcomer.losses()), (1, 0));
    // The newcomer keeps what it has, and gets nothing new for a while.
    let kept = renew(&newcomer, &other, &theirs).await.unwrap();
    assert!(matches!(kept, Renewed::Renewed(_)), "{kept:?}");
    assert_eq!(
        release(&newcomer, &other, &theirs).await.unwrap(),
        Released::Released
    );
    let next = granted_after_quarantine(&newcomer, &Party::new("p")).await;
    assert!(next.token > theirs.token);
}

/// F29: a waiter lost its ticket with everything else.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_ticket_was_lost_gets_its_turn_after_the_quarantine() {
    let server = Options::default().start();
    let url = quarantined(&server);
    let locks = async || {
        let locks = Locks::new(open(&url).await).namespace("faults");
        locks.ttl(900 * MS).build().unwrap()
    };
    let (mine, others) = (locks().await, locks().await);
    let guard = mine.lock("a").acquire().await.unwrap();
    let waiter = others.lock("a");
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    until("the waiter stands in line", async || {
        let record = mine.get("a").await.unwrap();
        record.is_some_and(|record| record.tickets.len() == 1)
    })
    .await;
    server.ask(&["FLUSHALL"]);
    let taken = waiter.await.unwrap().unwrap();
    assert!(!guard.is_held(), "nobody has it at the same time");
    assert!(taken.is_held() && taken.token() > guard.token());
}

/// F29: no more than a round trip.
#[tokio::test]
async fn a_server_that_forgot_its_scripts_is_told_them_again() {
    let server = Options::default().start();
    let store = open(&server.url()).await;
    let (party, a) = (Party::new("p"), name("a"));
    for _ in 0..3 {
        server.ask(&["SCRIPT", "FLUSH"]);
        let lease = take(&store, &party, &a).await;
        server.ask(&["SCRIPT", "FLUSH"]);
        assert!(renew(&store, &party, &lease).await.is_ok());
        server.ask(&["SCRIPT", "FLUSH"]);
        look(&store, &a).await;
        server.ask(&["SCRIPT", "FLUSH"]);
        let released = release(&store, &party, &lease).await.unwrap();
        assert_eq!(released, Released::Released);
    }
    assert_eq!(store.losses(), 0);
}

/// Leases that may be thrown away are none, unless somebody puts up with it.
#[tokio::test]
async fn a_server_that_may_throw_leases_away_is_refused_unless_that_is_allowed() {
    let server = Options::default().maxmemory("50mb", "allkeys-lru").start();
    let error = try_open(&server.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("allkeys-lru"), "{error}");

    let store = open(&format!("{}?evicting=allow", server.url())).await;
    let guarantees = &store.describe().guarantees;
    assert_eq!(guarantees.fencing, Fencing::BestEffort);
    assert!(guarantees.assumes.contains("memory"), "{guarantees:?}");
    let level = |check: &str| {
        store
            .findings()
            .iter()
            .find(|it| it.check == check)
            .unwrap()
            .level
    };
    assert_eq!(level("eviction"), Level::Refused);
    assert_eq!(level("persistence"), Level::Fine);
    take(&store, &Party::new("p"), &name("a")).await;
}

/// F29: what was evicted is lost state like any other.
#[tokio::test]
async fn a_bucket_that_was_thrown_away_is_noticed() {
    let server = Options::default().start();
    let store = open(&quarantined(&server)).await;
    let lease = take_briefly(&store, &Party::new("p")).await;
    let all = server.ask(&["KEYS", "leasehold:*:records"]).several();
    for key in all {
        server.ask(&["DEL", &key.text()]);
    }
    let next = granted_after_quarantine(&store, &Party::new("q")).await;
    assert!(next.token > lease.token && store.losses() == 1);
}

/// F19, S8.
#[tokio::test]
async fn on_a_full_server_an_acquire_fails_without_effect_and_nothing_changes() {
    let server = Options::default();
    let server = server.setting("enable-debug-command", "local").start();
    let store = open(&server.url()).await;
    let (party, held) = (Party::new("p"), name("held"));
    let lease = take(&store, &party, &held).await;
    let before = everything(&server);

    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let wishes = [
        wish(&Party::new("q"), &name("free")),
        wish(&Party::new("q"), &held).queue(Mailbox::new().id()),
    ];
    for wish in wishes {
        let error = outage(store.acquire(&wish).await);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert_eq!(error.effect(), Effect::None, "{error:?}");
    }
    let error = outage(renew(&store, &party, &lease).await);
    assert_eq!(error.effect(), Effect::None, "{error:?}");
    let error = outage(release(&store, &party, &lease).await);
    assert_eq!(error.effect(), Effect::None, "{error:?}");
    assert_eq!(everything(&server), before);
    // Refusals need no memory, and are still answered.
    let refused = store.acquire(&wish(&Party::new("q"), &held)).await.unwrap();
    assert!(matches!(refused, Acquired::Held(_)), "{refused:?}");
    let error = try_open(&format!("{}?prefix=other:", server.url())).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);

    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    let released = release(&store, &party, &lease).await.unwrap();
    assert_eq!(released, Released::Released);
}

#[tokio::test]
async fn another_number_of_buckets_than_the_store_has_is_refused_with_the_right_one() {
    let server = Options::default().start();
    let first = open(&format!("{}?buckets=4", server.url())).await;
    take(&first, &Party::new("p"), &name("a")).await;
    for buckets in [3, 8] {
        let url = format!("{}?buckets={buckets}", server.url());
        let error = try_open(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("buckets=4"), "{error}");
    }
    // Not even the buckets it lacks were made.
    let made = server.ask(&["KEYS", "leasehold:*:records"]).several();
    assert_eq!(made.len(), 4);
    open(&format!("{}?buckets=4", server.url())).await;
}

/// S8: not "free", not "busy", and the name is in the message.
#[tokio::test]
async fn a_damaged_record_is_an_error_that_names_it_whatever_is_asked() {
    let server = Options::default().start();
    let store = open(&one_bucket(&server)).await;
    let (party, bad) = (Party::new("p"), name("bad"));
    let lease = take(&store, &party, &bad).await;
    let good = take(&store, &party, &name("good")).await;
    let bytes = stored(&server, &bad);
    for length in [0, 1, 20, bytes.len() / 4] {
        let half = &bytes[..length * 2];
        store_bytes(&server, &bad, half);
        for error in everything_fails(&store, &party, &lease).await {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
            assert_eq!(error.name(), Some(&bad), "{error:?}");
            assert_eq!(error.effect(), Effect::None, "{error:?}");
        }
        assert_eq!(stored(&server, &bad), half, "nothing was made of it");
    }
    assert!(matches!(
        renew(&store, &party, &good).await.unwrap(),
        Renewed::Renewed(_)
    ));
}

/// A later version may write records in another form.
#[tokio::test]
async fn a_record_of_another_form_is_an_error_that_says_so() {
    let server = Options::default().start();
    let store = open(&one_bucket(&server)).await;
    let (party, bad) = (Party::new("p"), name("bad"));
    let lease = take(&store, &party, &bad).await;
    let bytes = format!("09{}", &stored(&server, &bad)[2..]);
    store_bytes(&server, &bad, &bytes);
    for error in everything_fails(&store, &party, &lease).await {
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
        assert_eq!(error.name(), Some(&bad), "{error:?}");
        assert!(error.to_string().contains("form 9"), "{error}");
    }
}

/// A holder of many leases must not lose them all because somebody has damaged one.
#[tokio::test]
async fn a_damaged_record_costs_nobody_else_a_renewal() {
    let server = Options::default().start();
    let store = open(&one_bucket(&server)).await;
    let party = Party::new("p");
    let good = take(&store, &party, &name("good")).await;
    let bad = take(&store, &party, &name("bad")).await;
    for damage in ["", "0900"] {
        store_bytes(&server, &bad.name, damage);
        let mut both = renewal_of(&party, &bad);
        both.items.extend(renewal_of(&party, &good).items);
        let answers = store.renew(&both).await.unwrap();
        let error = answers[0].as_ref().expect_err("it is damaged");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
        assert_eq!(error.name(), Some(&bad.name));
        assert!(
            matches!(&answers[1], Ok(Renewed::Renewed(lease)) if lease.token == good.token),
            "{answers:?}"
        );
    }
}

/// S15: one bad record must not be in the way of all others for ever. A list names it.
#[tokio::test]
async fn a_sweep_passes_a_damaged_record_by_and_a_list_names_it() {
    let server = Options::default().start();
    let store = open(&one_bucket(&server)).await;
    let (bad, good) = (name("bad"), name("good"));
    for name in [&bad, &good] {
        let brief = wish_for(&Party::new("p"), name, 20 * MS);
        granted(store.acquire(&brief).await);
        sleep(5 * MS).await;
    }
    store_bytes(&server, &bad, "01");
    sleep(30 * MS).await;
    let swept = store.sweep(&Sweep::all(10)).await.unwrap();
    let expired: Vec<_> = swept.expired.into_iter().map(|it| it.name).collect();
    assert_eq!(expired, [good]);
    let error = store.list(&List::all()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert_eq!(error.name(), Some(&bad), "{error:?}");
}

/// Somebody else's key where ours should be.
#[tokio::test]
async fn a_key_of_another_type_is_an_error_and_not_overwritten() {
    let server = Options::default().start();
    let store = open(&server.url()).await;
    let (party, a) = (Party::new("p"), name("a"));
    take(&store, &party, &a).await;
    let keys = server.ask(&["KEYS", "leasehold:*:records"]).several();
    for key in keys {
        server.ask(&["SET", &key.text(), "something else"]);
    }
    let error = store.acquire(&wish(&party, &a)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert_eq!(error.name(), Some(&a));
    let error = store.get(&a).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    let error = try_open(&server.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
}

/// What somebody else publishes on our channels is not believed.
#[tokio::test]
async fn strange_messages_are_not_heard() {
    let server = Options::default().start();
    let store = open(&server.url()).await;
    let mailbox = Mailbox::new();
    let watch = mailbox.arm_on(&*store, Some(&name("a"))).await;
    let inbox = format!("leasehold:inbox:{:032x}", mailbox.id().get());
    for message in ["", "nonsense", &"x".repeat(40), &"x".repeat(400)] {
        server.ask(&["PUBLISH", &inbox, message]);
    }
    server.ask(&["PUBLISH", "leasehold:name:faults/a", ""]);
    until("what is ours is heard", async || {
        !mailbox.events().is_empty()
    })
    .await;
    let granted = |what: &What| matches!(what, What::Granted { .. });
    assert!(!mailbox.events().iter().any(|event| granted(&event.what)));
    drop(watch);
}

/// What every kind of loss has in common.
async fn forgets(server: &Server, lose: impl Fn()) {
    let url = quarantined(server);
    let (store, other) = (open(&url).await, open(&url).await);
    let (party, a) = (Party::new("p"), name("a"));
    let mut last = take_briefly(&store, &party).await;
    for losses in 1..=2 {
        lose();
        let brief = wish_for(&Party::new("q"), &a, 500 * MS);
        let refused = other.acquire(&brief).await.unwrap();
        assert!(
            matches!(&refused, Acquired::Held(by) if by[0].by == BlockedBy::LockDelay),
            "{refused:?}"
        );
        let released = release(&store, &party, &last).await.unwrap();
        assert!(matches!(released, Released::NotHeld(_)), "{released:?}");
        assert_eq!((store.losses(), other.losses()), (losses, losses));
        let next = granted_after_quarantine(&store, &party).await;
        assert!(next.token > last.token);
        last = next;
    }
}

/// Takes `a` for less than a quarantine, which is never shorter than what was asked for.
async fn take_briefly(store: &Redis, party: &Party) -> Lease {
    granted(store.acquire(&wish_for(party, &name("a"), 500 * MS)).await)
}

fn quarantined(server: &Server) -> String {
    format!("{}?quarantine=1s", server.url())
}

/// Asks for `a` until it is granted. It is not at first.
async fn granted_after_quarantine(store: &Redis, party: &Party) -> Lease {
    let (mut refusals, mut found) = (0, None);
    until("it is granted again", async || {
        let brief = wish_for(party, &name("a"), 500 * MS);
        match store.acquire(&brief).await.unwrap() {
            Acquired::Granted(leases) => found = Some(leases[0].clone()),
            Acquired::Held(by) if by[0].by == BlockedBy::LockDelay => refusals += 1,
            other => panic!("{other:?}"),
        }
        found.is_some()
    })
    .await;
    assert!(refusals > 0);
    found.unwrap()
}

/// All that is stored, as the server has it.
fn everything(server: &Server) -> Vec<String> {
    let keys = server.ask(&["KEYS", "*"]).several().into_iter();
    let mut keys: Vec<_> = keys.map(|key| key.text()).collect();
    keys.sort_unstable();
    let digest = |key: &String| format!("{:?}", server.ask(&["DEBUG", "DIGEST-VALUE", key]));
    keys.iter().map(digest).collect()
}

fn one_bucket(server: &Server) -> String {
    format!("{}?buckets=1", server.url())
}

const READ: &str = "return (redis.call('HGET', KEYS[1], ARGV[1]):gsub('.', function(c) \
                    return ('%02x'):format(c:byte()) end))";

const WRITE: &str = "return redis.call('HSET', KEYS[1], ARGV[1], (ARGV[2]:gsub('..', function(h) \
                     return string.char(tonumber(h, 16)) end)))";

/// A record as hexadecimal digits.
fn stored(server: &Server, name: &Name) -> String {
    let key = "leasehold:{b0}:records";
    server.ask(&["EVAL", READ, "1", key, name.encoded()]).text()
}

fn store_bytes(server: &Server, name: &Name, digits: &str) {
    let key = "leasehold:{b0}:records";
    server.ask(&["EVAL", WRITE, "1", key, name.encoded(), digits]);
}

/// Asks everything of a record that cannot be read, and gives the errors.
async fn everything_fails(store: &Redis, party: &Party, lease: &Lease) -> Vec<Error> {
    let bad = &lease.name;
    let confirm = Confirm::new(bad.clone(), lease.token, party.holder.clone(), "e").unwrap();
    let queued = wish(party, bad).queue(Mailbox::new().id());
    let reserved = wish(party, bad).kind(Kind::Reservation);
    vec![
        failed(store.acquire(&wish(party, bad)).await),
        failed(store.acquire(&queued).await),
        failed(store.acquire(&reserved).await),
        failed(renew(store, party, lease).await),
        failed(release(store, party, lease).await),
        failed(withdraw(store, party, bad).await),
        failed(store.confirm(&confirm).await),
        failed(store.get(bad).await),
    ]
}

fn failed<T: std::fmt::Debug>(answer: Result<T>) -> Error {
    answer.expect_err("the record cannot be read")
}
