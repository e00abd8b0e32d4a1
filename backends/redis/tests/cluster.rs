//! A node of a cluster is killed: its slots fail as a single server would, and the others go on (F1, S7, S8, L6).

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how much it did"
)]

mod common_redis;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use common_redis::{
    in_the_end, look, name, now, open, outage, release, renew, renewal_of, take, unknown, wish,
    withdraw,
};
use leasehold_conformance::{Mailbox, Party};
use leasehold_core::backend::{Acquired, Release, Renewed};
use leasehold_core::{Backend as _, Effect, Name, Owner, Token};
use leasehold_faults::proxy::Proxy;
use leasehold_redis::Redis;
use servers::{Cluster, Options, Reply, Server};

const MS: Duration = Duration::from_millis(1);

/// S7, S8: an error that says that nothing was done is believed.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_node_did_is_never_said_to_have_had_no_effect() {
    let mut cluster = Cluster::start(&Options::default());
    let store = open(&format!("{}?timeout=1s", cluster.url())).await;
    let (mut unknown, mut none, mut done) = (0, 0, 0);
    for round in 0..3 {
        let names: Vec<_> = (0..200).map(|at| name(&format!("{round}-{at}"))).collect();
        let calls: Vec<_> = names.iter().map(|name| acquire(&store, name)).collect();
        common_redis::sleep(Duration::from_micros(1500 * (round + 1))).await;
        cluster.nodes[1].kill();
        let mut failed = Vec::new();
        for (call, name) in calls.into_iter().zip(&names) {
            match call.await.unwrap() {
                Ok(_) => done += 1,
                Err(error) => failed.push((name, error)),
            }
        }
        cluster.nodes[1].restart();
        cluster.wait_until_it_serves();
        for (name, error) in failed {
            let seen = in_the_end(async || store.get(name).await).await.what;
            let is_held = seen.is_some_and(|record| !record.grants.is_empty());
            match error.effect() {
                Effect::Unknown => unknown += 1,
                Effect::None => none += 1,
            }
            let believed = error.effect() == Effect::Unknown || !is_held;
            assert!(believed, "it was done: {error:?}");
        }
    }
    println!("{done} done, {unknown} unknown, {none} certainly not");
    assert!(unknown > 0 && done > 0);
}

/// L6, and what is elsewhere is not touched.
#[tokio::test(flavor = "multi_thread")]
async fn the_slots_of_the_other_nodes_go_on_and_no_call_takes_longer_than_its_timeout() {
    let mut cluster = Cluster::start(&not_only_whole());
    let store = open(&format!("{}?timeout=500ms", cluster.url())).await;
    let party = Party::new("p");
    let dead = name_on(&cluster, &store, 1).await;
    let live = name_on(&cluster, &store, 0).await;
    let kept = take(&store, &party, &dead).await;
    let going_on = take(&store, &party, &live).await;

    cluster.nodes[1].kill();
    for _ in 0..3 {
        let before = now();
        outage(store.acquire(&wish(&party, &dead)).await);
        let took = now().since(before);
        assert!(took < 3000 * MS, "{took:?}");
    }
    // One slot that is down must not cost the others their leases.
    let mut both = renewal_of(&party, &kept);
    both.items.extend(renewal_of(&party, &going_on).items);
    let answers = store.renew(&both).await.unwrap();
    assert!(answers[0].is_err(), "{answers:?}");
    assert!(
        matches!(&answers[1], Ok(Renewed::Renewed(lease)) if lease.token == going_on.token),
        "{answers:?}"
    );

    cluster.nodes[1].restart();
    cluster.wait_until_it_serves();
    let again = in_the_end(async || store.acquire(&wish(&party, &dead)).await).await;
    assert_eq!(common_redis::granted(Ok(again)).token, kept.token);
    assert_eq!(store.losses(), 0);
}

/// L4: nobody has to do anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_goes_on_by_itself_after_the_whole_cluster_was_killed() {
    let mut cluster = Cluster::start(&Options::default());
    let store = open(&format!("{}?timeout=500ms", cluster.url())).await;
    let (party, a) = (Party::new("p"), name("a"));
    let lease = take(&store, &party, &a).await;
    for node in &mut cluster.nodes {
        node.kill();
    }
    for _ in 0..3 {
        outage(store.acquire(&wish(&party, &a)).await);
    }
    for node in &mut cluster.nodes {
        node.restart();
    }
    cluster.wait_until_it_serves();
    let again = in_the_end(async || store.acquire(&wish(&party, &a)).await).await;
    assert_eq!(common_redis::granted(Ok(again)).token, lease.token);
}

/// L6, F4: the same of a node that stands still, which does not even refuse.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stands_still_costs_its_own_slots_a_timeout_and_the_others_nothing() {
    let cluster = Cluster::start(&not_only_whole());
    let store = open(&format!("{}?timeout=500ms", cluster.url())).await;
    let party = Party::new("p");
    let still = name_on(&cluster, &store, 1).await;
    let live = name_on(&cluster, &store, 0).await;
    let lease = take(&store, &party, &live).await;
    cluster.nodes[1].stop();
    for _ in 0..2 {
        let before = now();
        outage(store.acquire(&wish(&party, &still)).await);
        let took = now().since(before);
        assert!(took < 3000 * MS, "{took:?}");
        let renewed = in_the_end(async || renew(&store, &party, &lease).await).await;
        assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
    }
    cluster.nodes[1].cont();
    cluster.wait_until_it_serves();
    in_the_end(async || store.acquire(&wish(&party, &still)).await).await;
}

/// S1, S3: leases move with their slot, and callers follow.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_to_another_node_takes_its_leases_with_it() {
    let cluster = Cluster::start(&Options::default());
    let store = open(&format!("{}?buckets=1", cluster.url())).await;
    let (party, a) = (Party::new("p"), name("a"));
    let lease = take(&store, &party, &a).await;
    let from = cluster.owner("leasehold:{b0}:records");
    move_bucket(&cluster, from, (from + 1) % 3);
    let refused = in_the_end(async || store.acquire(&wish(&Party::new("q"), &a)).await).await;
    assert!(matches!(refused, Acquired::Held(_)), "{refused:?}");
    release(&store, &party, &lease).await.unwrap();
    assert!(take(&store, &party, &a).await.token > lease.token);
    assert_eq!(store.losses(), 0);
}

/// Nodes that go on although others are down. Otherwise all of them stop when the cluster is not whole.
fn not_only_whole() -> Options {
    Options::default().setting("cluster-require-full-coverage", "no")
}

/// Moves the only bucket from one node to another, as an operator would.
fn move_bucket(cluster: &Cluster, from: usize, to: usize) {
    let keys = ["records", "due", "names"].map(|what| format!("leasehold:{{b0}}:{what}"));
    let slot = cluster.nodes[0].ask(&["CLUSTER", "KEYSLOT", &keys[0]]);
    let slot = slot.text();
    let id = |number: usize| cluster.nodes[number].ask(&["CLUSTER", "MYID"]).text();
    let (old, new) = (&cluster.nodes[from], &cluster.nodes[to]);
    new.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
    old.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
    let port = new.port().to_string();
    let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
    migrate.extend(keys.iter().map(String::as_str));
    old.ask(&migrate);
    for node in [to, from, 3 - from - to] {
        cluster.nodes[node].ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &id(to)]);
    }
}

/// Nothing below the seam repeats anything: a second forced release would end the lease of whoever came next.
#[tokio::test(flavor = "multi_thread")]
async fn a_forced_release_whose_reply_was_lost_is_not_sent_again() {
    let cluster = Cluster::start(&Options::default());
    let (first, next, a) = (Party::new("first"), Party::new("next"), name("a"));
    take(&*open(&cluster.url()).await, &first, &a).await;
    let proxy = put_proxy_before(&cluster, owner_of(&cluster, &a));
    let store = open(&cluster.url()).await;
    // The second in line inherits what the first loses.
    let queued = wish(&next, &a).queue(Mailbox::new().id());
    store.acquire(&queued).await.unwrap();
    let by = Owner::new("operator").unwrap();
    let nobody = Some(Token::new(1));
    let warm_up = Release::force(a.clone(), nobody, by.clone(), "warm up").unwrap();
    store.release(&warm_up).await.unwrap();
    let force = Release::force(a.clone(), None, by, "stuck").unwrap();

    proxy.lose_reply(1);
    let answer = store.release(&force).await;
    assert_eq!(proxy.counts().lost_replies, 1, "it went another way");
    let holder = look(&store, &a).await.grants.first().map(|it| it.holder);
    assert_eq!(holder, Some(next.holder.digest()));
    unknown(answer);
}

/// Has clients reach a node through a proxy. When this returns, all nodes tell them so.
fn put_proxy_before(cluster: &Cluster, number: usize) -> Proxy {
    let node = &cluster.nodes[number];
    let proxy = Proxy::start(node.addr(), 7).unwrap();
    let port = proxy.addr().port().to_string();
    node.ask(&["CONFIG", "SET", "cluster-announce-port", &port]);
    let announced = |node: &Server| format!("{:?}", node.ask(&["CLUSTER", "SLOTS"]));
    let deadline = now().after(30_000 * MS);
    while !cluster.nodes.iter().all(|it| announced(it).contains(&port)) {
        assert!(now() < deadline, "the nodes do not tell each other");
        std::thread::yield_now();
    }
    proxy
}

type Call = tokio::task::JoinHandle<leasehold_core::Result<Acquired>>;

fn acquire(store: &Arc<Redis>, name: &Name) -> Call {
    let (store, request) = (Arc::clone(store), wish(&Party::new("p"), name));
    tokio::spawn(async move { store.acquire(&request).await })
}

/// A name that a node has, by its number. It is held by nobody when this returns.
async fn name_on(cluster: &Cluster, store: &Redis, number: usize) -> Name {
    for at in 0.. {
        let (party, name) = (Party::new("probe"), name(&format!("k{at}")));
        take(store, &party, &name).await;
        withdraw(store, &party, &name).await.unwrap();
        if owner_of(cluster, &name) == number {
            return name;
        }
    }
    unreachable!("some name is on every node")
}

/// The number of the node that has a record of this name.
fn owner_of(cluster: &Cluster, name: &Name) -> usize {
    let held = |number: &usize| {
        (0..16).any(|bucket| {
            let key = format!("leasehold:{{b{bucket}}}:records");
            let node = &cluster.nodes[*number];
            cluster.owner(&key) == *number
                && node.ask(&["HEXISTS", &key, name.encoded()]) == Reply::Number(1)
        })
    };
    (0..3).find(held).unwrap()
}
