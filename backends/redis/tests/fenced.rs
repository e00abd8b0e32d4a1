//! Fenced keys on a real server: whatever comes late is refused by the server itself, in the step that would write.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod servers;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::fenced::{Applied, FencedResource, Stale};
use leasehold_core::memory::Memory;
use leasehold_core::registry::StoreUrl;
use leasehold_core::{
    Backend, Effect, Error, ErrorKind, Locks, ManualClock, Name, Result, Token, Ttl,
};
use leasehold_redis::Options;
use leasehold_redis::fenced::{Delete, FencedKeys, Get, PRELUDE, Set};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, Script};

use servers::Cluster;

const OLD: Token = Token::new(33);
const NEW: Token = Token::new(34);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A connection to the server of this run, and a name that no other test uses.
struct World {
    redis: MultiplexedConnection,
    keys: FencedKeys,
    name: Name,
}

impl World {
    async fn new() -> Self {
        let redis = client().get_multiplexed_async_connection().await.unwrap();
        Self {
            keys: FencedKeys::new(Options::new(client())),
            redis,
            name: Name::new("fenced", &format!("{:016x}", rand::random::<u64>())).unwrap(),
        }
    }

    /// A key that no other test uses.
    fn key(&self, text: &str) -> String {
        format!("{text}:{}", self.name.key())
    }

    async fn set(&self, token: Token, key: &str, value: &str) -> Applied<()> {
        let set = Set::new(key, value);
        self.keys.apply(&self.name, token, set).await.unwrap()
    }

    async fn get(&self, token: Token, key: &str) -> Applied<Option<Vec<u8>>> {
        let get = Get::new(key);
        self.keys.apply(&self.name, token, get).await.unwrap()
    }

    /// What anybody sees who knows nothing of fences.
    async fn plain(&self, key: &str) -> Option<String> {
        self.redis.clone().get(key).await.unwrap()
    }

    fn stale<T>(&self, token: Token, highest: Token) -> Applied<T> {
        Applied::Stale(Stale {
            name: self.name.clone(),
            token,
            highest,
        })
    }
}

fn client() -> redis::Client {
    #[allow(
        clippy::disallowed_methods,
        reason = "a test binary is told by its environment where the server is"
    )]
    let url = std::env::var("LEASEHOLD_REDIS_URL");
    let url = url.expect("LEASEHOLD_REDIS_URL is not set; `cargo xtask services up redis` says it");
    redis::Client::open(url).unwrap()
}

/// S4: lower is refused and changes nothing; equal is the same holder once more.
#[tokio::test]
async fn a_lower_token_writes_nothing_and_an_equal_one_does() {
    let world = World::new().await;
    let key = world.key("order");
    assert_eq!(world.set(NEW, &key, "a").await, Applied::Done(()));
    assert_eq!(world.set(NEW, &key, "b").await, Applied::Done(()));
    assert_eq!(world.set(OLD, &key, "c").await, world.stale(OLD, NEW));
    assert_eq!(world.plain(&key).await.as_deref(), Some("b"));
    let newer = Token::new(NEW.get() + 1);
    assert_eq!(world.set(newer, &key, "d").await, Applied::Done(()));
    assert_eq!(world.plain(&key).await.as_deref(), Some("d"));
}

/// S4: without this, a late write lands between the read and the write of the next holder.
#[tokio::test]
async fn a_read_under_a_token_keeps_the_predecessor_out() {
    let world = World::new().await;
    let key = world.key("order");
    assert_eq!(world.set(OLD, &key, "a").await, Applied::Done(()));
    let seen = world.get(NEW, &key).await;
    assert_eq!(seen, Applied::Done(Some(b"a".to_vec())));
    assert_eq!(world.set(OLD, &key, "b").await, world.stale(OLD, NEW));
    assert_eq!(world.get(OLD, &key).await, world.stale(OLD, NEW));
    assert_eq!(world.plain(&key).await.as_deref(), Some("a"));
}

#[tokio::test]
async fn a_read_tells_nothing_from_an_empty_value() {
    let world = World::new().await;
    let key = world.key("order");
    assert_eq!(world.get(OLD, &key).await, Applied::Done(None));
    assert_eq!(world.set(OLD, &key, "").await, Applied::Done(()));
    assert_eq!(world.get(OLD, &key).await, Applied::Done(Some(Vec::new())));
}

/// S4: the fence outlives the key, or a late write would bring the key back.
#[tokio::test]
async fn a_late_write_does_not_bring_a_deleted_key_back() {
    let world = World::new().await;
    let key = world.key("order");
    let delete = async |token| {
        let delete = Delete::new(key.as_str());
        world.keys.apply(&world.name, token, delete).await.unwrap()
    };
    assert_eq!(world.set(OLD, &key, "a").await, Applied::Done(()));
    assert_eq!(delete(NEW).await, Applied::Done(true));
    assert_eq!(delete(NEW).await, Applied::Done(false));
    assert_eq!(world.set(OLD, &key, "b").await, world.stale(OLD, NEW));
    assert_eq!(world.plain(&key).await, None);

    assert_eq!(world.set(NEW, &key, "c").await, Applied::Done(()));
    assert_eq!(delete(OLD).await, world.stale(OLD, NEW));
    assert_eq!(world.plain(&key).await.as_deref(), Some("c"));
}

/// S3: tokens stay below 2^53, and up to there the server tells neighbours apart.
#[tokio::test]
async fn the_largest_tokens_are_compared_exactly() {
    let world = World::new().await;
    let key = world.key("order");
    let before = Token::new(Token::MAX.get() - 1);
    assert_eq!(world.set(before, &key, "a").await, Applied::Done(()));
    assert_eq!(world.set(Token::MAX, &key, "b").await, Applied::Done(()));
    let late = world.set(before, &key, "c").await;
    assert_eq!(late, world.stale(before, Token::MAX));

    let beyond = Token::new(Token::MAX.get() + 1);
    let beyond = world.keys.apply(&world.name, beyond, Get::new(key));
    assert_eq!(beyond.await.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn tokens_of_different_names_are_not_compared() {
    let world = World::new().await;
    let other = World::new().await;
    let key = world.key("order");
    assert_eq!(world.set(NEW, &key, "a").await, Applied::Done(()));
    assert_eq!(other.set(OLD, &key, "b").await, Applied::Done(()));
    assert_eq!(world.set(OLD, &key, "c").await, world.stale(OLD, NEW));
}

/// What one step can change is protected together.
#[tokio::test]
async fn keys_that_share_a_tag_share_the_fence() {
    let world = World::new().await;
    let [cart, address] = ["cart", "address"].map(|it| format!("{{{}}}:{it}", world.name.key()));
    assert_eq!(world.set(OLD, &cart, "a").await, Applied::Done(()));
    assert_eq!(world.set(NEW, &cart, "b").await, Applied::Done(()));
    assert_eq!(world.set(OLD, &address, "c").await, world.stale(OLD, NEW));
    assert_eq!(world.plain(&address).await, None);
}

/// Keys with braces of their own, of every sort that Redis Cluster tells apart.
const ODD_KEYS: [&str; 13] = [
    "plain",
    "",
    "{",
    "}",
    "{}",
    "}{",
    "a{b",
    "a}b",
    "a}{b",
    "{tag}",
    "a{tag}b}",
    "a{{tag}}b",
    "a{}{tag}",
];

/// The whole way, on a cluster that would refuse two keys in different slots.
#[tokio::test]
async fn a_key_with_braces_of_its_own_is_fenced_in_its_slot() {
    let cluster = Cluster::start(&servers::Options::default());
    let keys = keys_at(&cluster.url());
    let name = Name::new("orders", "{1}").unwrap();
    for key in ODD_KEYS {
        let fence = String::from_utf8(keys.fence_key(&name, key)).unwrap();
        let slot = |key| cluster.nodes[0].ask(&["CLUSTER", "KEYSLOT", key]);
        assert_eq!(slot(key), slot(&fence), "{key:?}");

        let set = |token, value: &'static str| keys.apply(&name, token, Set::new(key, value));
        assert_eq!(set(NEW, "a").await.unwrap(), Applied::Done(()), "{key:?}");
        let late = set(OLD, "b").await.unwrap().done();
        assert_eq!(late.unwrap_err().highest, NEW, "{key:?}");
        let owner = &cluster.nodes[cluster.owner(key)];
        assert_eq!(owner.ask(&["GET", key]).text(), "a", "{key:?}");
    }
}

/// S15: for ever unless told otherwise, because a late write may be very late.
#[tokio::test]
async fn a_fence_is_kept_for_ever_unless_told_otherwise() {
    let world = World::new().await;
    let key = world.key("order");
    let fence = world.keys.fence_key(&world.name, &key);
    let left = async || -> i64 { world.redis.clone().pttl(&fence).await.unwrap() };
    assert_eq!(world.set(NEW, &key, "a").await, Applied::Done(()));
    assert_eq!(left().await, -1);

    let day = Ttl::new(DAY).unwrap();
    let forgetful = world.keys.clone().remember_for(day);
    let done = forgetful.apply(&world.name, NEW, Get::new(key.as_str()));
    assert!(done.await.unwrap().done().is_ok());
    let left = left().await;
    assert!(0 < left && left <= DAY.as_millis() as i64, "{left}");
    assert_eq!(world.set(OLD, &key, "b").await, world.stale(OLD, NEW));
}

#[tokio::test]
async fn a_value_ends_by_itself_if_it_was_told_to() {
    let world = World::new().await;
    let key = world.key("order");
    let left = async || -> i64 { world.redis.clone().pttl(&key).await.unwrap() };
    let set = Set::new(key.as_str(), "a").ttl(Ttl::new(DAY).unwrap());
    let done = world.keys.apply(&world.name, NEW, set).await.unwrap();
    assert_eq!(done, Applied::Done(()));
    let millis = left().await;
    assert!(0 < millis && millis <= DAY.as_millis() as i64, "{millis}");
    assert_eq!(world.set(NEW, &key, "b").await, Applied::Done(()));
    assert_eq!(left().await, -1);
}

/// What cannot be compared is neither let in nor called stale.
#[tokio::test]
async fn a_fence_that_holds_no_token_is_an_error() {
    let world = World::new().await;
    let key = world.key("order");
    let fence = world.keys.fence_key(&world.name, &key);
    let mut redis = world.redis.clone();
    let write = || {
        world
            .keys
            .apply(&world.name, NEW, Set::new(key.as_str(), "a"))
    };

    let _: () = redis.set(&fence, "scribble").await.unwrap();
    assert_eq!(write().await.unwrap_err().kind(), ErrorKind::Corrupt);
    let _: () = redis.del(&fence).await.unwrap();
    let _: () = redis.rpush(&fence, "a list").await.unwrap();
    assert_eq!(write().await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(world.plain(&key).await, None);
}

/// S4: writers at once, each behind the prelude in a script of its own, that appends its token to a list.
#[tokio::test]
async fn tokens_of_many_writers_never_decrease() {
    const WRITERS: u64 = 4;
    const TOKENS: u64 = 512;
    let world = Arc::new(World::new().await);
    let key = world.key("log");
    let append = format!("{PRELUDE}\nreturn {{ 'done', redis.call('RPUSH', KEYS[2], ARGV[1]) }}");
    let append = Arc::new(Script::new(&append));
    let writers = (0..WRITERS).map(|writer| {
        let (world, key, append) = (world.clone(), key.clone(), append.clone());
        tokio::spawn(async move {
            // A connection of its own, so that the server is what puts them in order.
            let mut redis = client().get_multiplexed_async_connection().await.unwrap();
            let mut answers = BTreeSet::new();
            for turn in 0..TOKENS {
                let mut call = append.prepare_invoke();
                call.key(world.keys.fence_key(&world.name, &key)).key(&key);
                // Every writer has an order of its own, and all stay close to each other.
                call.arg(turn ^ (writer * 5)).arg(0);
                let answer: (String, redis::Value) = call.invoke_async(&mut redis).await.unwrap();
                answers.insert(answer.0);
            }
            answers
        })
    });
    let mut answers = BTreeSet::new();
    for writer in writers.collect::<Vec<_>>() {
        answers.extend(writer.await.unwrap());
    }
    assert_eq!(answers, ["done", "stale"].map(str::to_owned).into());
    let log: Vec<u64> = world.redis.clone().lrange(&key, 0, -1).await.unwrap();
    assert!(log.is_sorted());
    assert_eq!(log.last(), Some(&(TOKENS - 1)));
}

/// S4, F3: paused between its check and its write, for longer than its lease.
#[tokio::test]
async fn the_late_write_of_a_paused_holder_is_refused() {
    let world = World::new().await;
    let clock = ManualClock::new();
    let store: Arc<dyn Backend> = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    let locks = Locks::new(store).ttl(Duration::from_secs(30));
    let locks = locks.clock(Arc::new(clock.clone())).namespace("orders");
    let locks = locks.build().unwrap();
    let key = world.key("order");

    let slow = locks.lock("1").acquire().await.unwrap();
    slow.check().unwrap();
    clock.advance(Duration::from_secs(31));
    let quick = locks.lock("1").acquire().await.unwrap();
    for (guard, value) in [(&quick, "quick"), (&slow, "slow")] {
        let set = Set::new(key.as_str(), value);
        let done = world.keys.apply(guard.name(), guard.token(), set).await;
        assert_eq!(done.unwrap().done().is_ok(), value == "quick");
    }
    assert_eq!(world.plain(&key).await.as_deref(), Some("quick"));
    assert_eq!(slow.check().unwrap_err().kind(), ErrorKind::Lost);
}

fn keys_at(url: &str) -> FencedKeys {
    let url = StoreUrl::parse(url).unwrap();
    FencedKeys::new(Options::from_url(&url).unwrap())
}

/// Sets a key of a server that no other test uses.
async fn set_at(keys: &FencedKeys, token: Token, value: &str) -> Result<Applied<()>> {
    let name = Name::new("orders", "1").unwrap();
    keys.apply(&name, token, Set::new("order", value)).await
}

/// The same, once more if the connection had to be made anew.
async fn set_again_at(keys: &FencedKeys, token: Token, value: &str) -> Applied<()> {
    match set_at(keys, token, value).await {
        Err(error) if error.is_retryable() => set_at(keys, token, value).await.unwrap(),
        answer => answer.unwrap(),
    }
}

#[tokio::test]
async fn a_server_that_has_forgotten_the_scripts_is_told_again() {
    let server = servers::Options::default().start();
    let keys = keys_at(&server.url());
    for token in [NEW, OLD] {
        server.ask(&["SCRIPT", "FLUSH"]);
        let done = set_at(&keys, token, "a").await.unwrap();
        assert_eq!(done.done().is_ok(), token == NEW);
    }
}

/// S4: the fence is as durable as the value.
#[tokio::test]
async fn a_server_that_was_killed_still_refuses() {
    let mut server = servers::Options::default().start();
    let keys = keys_at(&server.url());
    assert_eq!(set_at(&keys, NEW, "a").await.unwrap(), Applied::Done(()));
    server.restart();
    let late = set_again_at(&keys, OLD, "b").await.done();
    assert_eq!(late.unwrap_err().highest, NEW);
    assert_eq!(server.ask(&["GET", "order"]).text(), "a");
}

/// S8: who cannot be asked has not refused.
#[tokio::test]
async fn an_outage_is_an_error_and_no_refusal() {
    let mut server = servers::Options::default().start();
    let keys = keys_at(&server.url());
    assert_eq!(set_at(&keys, NEW, "a").await.unwrap(), Applied::Done(()));
    server.kill();
    for _ in 0..3 {
        let error = set_at(&keys, OLD, "b").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

/// S8: nobody knows whether it was done, and to do it again under the same token is allowed.
#[tokio::test]
async fn a_write_whose_answer_does_not_come_may_be_made_again() {
    let server = servers::Options::default().start();
    let keys = keys_at(&format!("{}?timeout=1s", server.url()));
    assert_eq!(set_at(&keys, OLD, "a").await.unwrap(), Applied::Done(()));
    server.stop();
    let error: Error = set_at(&keys, NEW, "b").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(error.effect(), Effect::Unknown);
    server.cont();
    assert_eq!(set_again_at(&keys, NEW, "b").await, Applied::Done(()));
    assert_eq!(server.ask(&["GET", "order"]).text(), "b");
}

/// What the guide says that such a user needs.
#[tokio::test]
async fn a_user_with_few_rights_can_use_fenced_keys() {
    let users = "user admin on >secret ~* +@all\n\
                 user clerk on >paper ~order ~leasehold:fence:* +eval +evalsha +get +set +del\n";
    let server = servers::Options::default()
        .acl(users)
        .login("admin", "secret");
    let server = server.start();
    let keys = keys_at(&server.url().replace("admin:secret", "clerk:paper"));
    assert_eq!(set_at(&keys, NEW, "a").await.unwrap(), Applied::Done(()));
    assert!(set_at(&keys, OLD, "b").await.unwrap().done().is_err());

    let name = Name::new("orders", "1").unwrap();
    let denied = keys.apply(&name, NEW, Set::new("payroll", "b")).await;
    assert_eq!(denied.unwrap_err().kind(), ErrorKind::Denied);
}
