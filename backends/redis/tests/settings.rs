//! The ways to reach a server, and what it lets us know: sockets, TLS, users with few rights, and errors that keep secrets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common_redis;
mod servers;

use std::error::Error as _;

use common_redis::{name, open, release, take, try_open};
use leasehold_conformance::{Mailbox, Party};
use leasehold_core::{Backend as _, Error, ErrorKind, Fencing, Survival};
use leasehold_redis::{Level, Redis};
use servers::{Cluster, Options, Pair};

const PASSWORD: &str = "pa55-of-the-test";

/// The least rights, as `docs/backends/redis.md` has them, but for those to look around.
const RIGHTS: &str = "~leasehold:* &leasehold:* -@all +evalsha +eval +hget +hmget +hset +hdel +zadd +zrem +zrangebylex \
                      +zrangebyscore +time +publish +subscribe +unsubscribe +ping";

#[tokio::test]
async fn a_server_is_reached_over_a_socket_of_this_machine() {
    let server = Options::default().unix_socket().start();
    let url = format!("redis+unix://{}", server.socket().display());
    works(&*open(&url).await).await;
    // With options behind it, and the same keys as over TCP.
    let held = take(
        &*open(&format!("{url}?timeout=1s")).await,
        &Party::new("p"),
        &name("x"),
    )
    .await;
    let seen = open(&server.url()).await.get(&name("x")).await.unwrap();
    assert_eq!(seen.what.unwrap().grants[0].token, held.token);
}

#[tokio::test]
async fn a_password_lets_in_and_a_wrong_one_is_denied_without_being_told() {
    let server = Options::default().password(PASSWORD).start();
    works(&*open(&server.url()).await).await;
    works(&*open(&format!("redis://:{PASSWORD}@127.0.0.1:{}", server.port())).await).await;
    let port = server.port();
    for login in [
        "",
        "default:wrong-pa55@",
        "nobody:wrong-pa55@",
        ":wrong-pa55@",
    ] {
        let error = try_open(&format!("redis://{login}127.0.0.1:{port}")).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
        keeps(&error, "wrong-pa55");
    }
}

/// Neither in the message nor in what is behind it.
#[tokio::test]
async fn no_error_shows_a_password() {
    let nobody = leasehold_faults::process::Port::reserve().unwrap().number();
    let urls = [
        format!("redis://user:{PASSWORD}@127.0.0.1:{nobody}"),
        format!("redis://user:{PASSWORD}@no-such-host.invalid:6379"),
        format!("redis://user:{PASSWORD}@127.0.0.1:{nobody}/not-a-number"),
        format!("redis://user:{PASSWORD}@127.0.0.1:99999"),
        format!("redis+sentinel://user:{PASSWORD}@127.0.0.1:{nobody}/leasehold"),
        format!("redis+sentinel://user:{PASSWORD}@127.0.0.1:{nobody}"),
        format!("redis+cluster://user:{PASSWORD}@127.0.0.1:{nobody}"),
        format!("redis+cluster://user:{PASSWORD}@127.0.0.1:99999"),
        format!("redis+cluster://user:{PASSWORD}@127.0.0.1/0"),
        format!("redis://user:{PASSWORD}@127.0.0.1:{nobody}?timeout=never"),
        format!("redis://user:{PASSWORD}?x@127.0.0.1:{nobody}"),
        format!("redis://user:x?{PASSWORD}@127.0.0.1:{nobody}"),
        format!("redis+cluster://user:x?{PASSWORD}@127.0.0.1:{nobody}"),
    ];
    for url in urls {
        let error = try_open(&format!("{url}{}timeout=500ms", separator(&url))).await;
        keeps(&error.unwrap_err(), PASSWORD);
    }
}

/// What is not known counts as the worst.
#[tokio::test]
async fn a_user_who_may_not_look_around_works_and_is_promised_the_least() {
    let acl = format!("user default on >all ~* &* +@all\nuser few on >{PASSWORD} {RIGHTS}");
    let server = Options::default().acl(&acl).login("default", "all").start();
    let few = open(&format!(
        "redis://few:{PASSWORD}@127.0.0.1:{}",
        server.port()
    ))
    .await;
    works(&few).await;
    for check in ["version", "eviction", "persistence", "replication"] {
        assert_eq!(level(&few, check), Level::Unknown, "{check}");
    }
    let promised = &few.describe().guarantees;
    assert!(!promised.durable);
    assert_eq!(promised.fencing, Fencing::BestEffort);
    assert_eq!(promised.survives_failover, Survival::No);

    let all = open(&server.url()).await;
    assert!(all.findings().iter().all(|it| it.level == Level::Fine));
    let promised = &all.describe().guarantees;
    assert!(promised.durable);
    assert_eq!(promised.fencing, Fencing::Monotonic);
}

/// Rights that go away later are an error, not a refusal.
#[tokio::test]
async fn a_user_whose_rights_are_taken_away_is_denied() {
    let server = Options::default().start();
    let store = open(&server.url()).await;
    server.ask(&["ACL", "SETUSER", "default", "-evalsha", "-eval"]);
    let error = store.get(&name("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    server.ask(&["ACL", "SETUSER", "default", "+evalsha", "+eval", "-hset"]);
    let wish = common_redis::wish(&Party::new("p"), &name("a"));
    let error = store.acquire(&wish).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    server.ask(&["ACL", "SETUSER", "default", "+hset"]);
    works(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_cluster_is_refused_as_a_single_server_and_the_other_way_round() {
    let cluster = Cluster::start(&Options::default());
    let error = try_open(&cluster.nodes[0].url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error:?}");
    assert!(error.to_string().contains("redis+cluster://"), "{error}");
    works(&*open(&cluster.url()).await).await;

    let server = Options::default().start();
    let url = server.url().replace("redis://", "redis+cluster://");
    let error = try_open(&format!("{url}?timeout=500ms")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error:?}");
}

/// What a primary with replicas promises, over its sentinels and by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_replicas_promises_less_however_it_is_reached() {
    let mut pair = Pair::start(&Options::default());
    let direct = pair.primary().url();
    for url in [pair.url(), direct] {
        let store = open(&url).await;
        assert_eq!(level(&store, "replication"), Level::Weak, "{url}");
        let promised = &store.describe().guarantees;
        assert_eq!(promised.fencing, Fencing::BestEffort);
        assert_eq!(promised.survives_failover, Survival::No);
    }
}

#[cfg(feature = "tls")]
mod tls {
    use leasehold_core::registry::StoreUrl;
    use redis::{Client, TlsCertificates};

    use super::*;
    use crate::servers::Certificates;

    fn client(url: &str, authority: Option<Vec<u8>>) -> Client {
        let certificates = TlsCertificates {
            client_tls: None,
            root_cert: authority,
        };
        Client::build_with_tls(url, certificates).unwrap()
    }

    #[tokio::test]
    async fn a_server_is_reached_over_tls_if_its_certificate_is_trusted() {
        let certificates = Certificates::make();
        let server = Options::default().tls(&certificates).start();
        let authority = std::fs::read(certificates.authority()).unwrap();
        let options = leasehold_redis::Options::new(client(&server.tls_url(), Some(authority)));
        works(&options.connect().await.unwrap()).await;
    }

    #[tokio::test]
    async fn a_certificate_that_nobody_trusts_is_refused_and_the_password_is_not_told() {
        let certificates = Certificates::make();
        let server = Options::default().password(PASSWORD).tls(&certificates);
        let server = server.start();
        let url = StoreUrl::parse(&server.tls_url()).unwrap();
        let options = leasehold_redis::Options::from_url(&url).unwrap();
        let error = options.connect().await.unwrap_err();
        keeps(&error, PASSWORD);
        let other = std::fs::read(Certificates::make().authority()).unwrap();
        let options = leasehold_redis::Options::new(client(&server.tls_url(), Some(other)));
        let error = options.connect().await.unwrap_err();
        keeps(&error, PASSWORD);
    }
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn a_build_without_tls_says_so() {
    let error = try_open("rediss://localhost").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("feature tls"), "{error}");
}

/// Takes, watches and lets go.
async fn works(store: &Redis) {
    let (party, a) = (Party::new("p"), name("works"));
    let mailbox = Mailbox::new();
    let watch = mailbox.arm_on(store, Some(&a)).await;
    let lease = take(store, &party, &a).await;
    release(store, &party, &lease).await.unwrap();
    common_redis::until("it is told", async || !mailbox.events().is_empty()).await;
    drop(watch);
}

fn level(store: &Redis, check: &str) -> Level {
    let found = store.findings().iter().find(|it| it.check == check);
    found.unwrap().level
}

/// The secret is in no form of the error, nor in its sources.
fn keeps(error: &Error, secret: &str) {
    let mut texts = vec![format!("{error}"), format!("{error:?}")];
    let mut source = error.source();
    while let Some(it) = source {
        texts.extend([format!("{it}"), format!("{it:?}")]);
        source = it.source();
    }
    assert!(!texts.iter().any(|it| it.contains(secret)), "{texts:#?}");
}

fn separator(url: &str) -> char {
    if url.contains('?') { '&' } else { '?' }
}
