//! What the tests of faults share: stores, short words for the usual requests, and callers whose history is kept.
//!
//! Begin with [`open`], which connects a store as a process of its own would.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "compiled into several test binaries, each of which uses a part"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod traffic;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::Party;
use leasehold_core::backend::{
    Acquire, Acquired, Names, Release, Released, Renew, RenewItem, Renewed, Withdraw, Withdrawn,
};
use leasehold_core::registry::StoreUrl;
use leasehold_core::{
    Backend as _, Clock as _, Effect, Error, ErrorKind, Lease, Moment, Name, Record, Result,
    SystemClock, Token, Ttl,
};
use leasehold_faults::proxy::Proxy;
use leasehold_redis::{Options, Redis};

/// Longer than any test takes.
pub const LONG: Duration = Duration::from_secs(120);

/// No test waits longer for something that must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store of its own, as another process would have it.
pub async fn open(url: &str) -> Arc<Redis> {
    let opened = try_open(url).await;
    Arc::new(opened.unwrap_or_else(|error| panic!("{error}")))
}

/// The same, which may fail.
pub async fn try_open(url: &str) -> Result<Redis> {
    Options::from_url(&StoreUrl::parse(url)?)?.connect().await
}

/// A way to a server that can be disturbed, and the URL that leads through it.
pub fn through_proxy(addr: SocketAddr) -> (Proxy, String) {
    let proxy = Proxy::start(addr, 7).unwrap();
    let url = format!("redis://{}", proxy.addr());
    (proxy, url)
}

/// A name in the namespace of these tests.
pub fn name(key: &str) -> Name {
    Name::new("faults", key).unwrap()
}

pub fn ttl(duration: Duration) -> Ttl {
    Ttl::new(duration).unwrap()
}

/// What asks for one name, for longer than the test takes.
pub fn wish(party: &Party, name: &Name) -> Acquire {
    wish_for(party, name, LONG)
}

/// The same for so long.
pub fn wish_for(party: &Party, name: &Name, time: Duration) -> Acquire {
    let names = Names::one(name.clone());
    Acquire::new(names, party.holder.clone(), party.owner.clone(), ttl(time))
}

pub fn release_of(party: &Party, lease: &Lease) -> Release {
    Release::grant(lease.name.clone(), party.holder.clone(), lease.token)
}

pub fn renewal_of(party: &Party, lease: &Lease) -> Renew {
    let (name, holder) = (lease.name.clone(), party.holder.clone());
    let items = vec![RenewItem::lease(name, holder, lease.token, ttl(LONG))];
    Renew { items }
}

pub fn withdrawal_of(party: &Party, name: &Name) -> Withdraw {
    Withdraw {
        names: Names::one(name.clone()),
        holder: party.holder.clone(),
    }
}

/// Takes a name that is free.
pub async fn take(store: &Redis, party: &Party, name: &Name) -> Lease {
    granted(store.acquire(&wish(party, name)).await)
}

/// The lease of an answer that must be a grant.
pub fn granted(answer: Result<Acquired>) -> Lease {
    match answer {
        Ok(Acquired::Granted(leases)) => leases[0].clone(),
        other => panic!("it should have been granted: {other:?}"),
    }
}

/// What came of a renewal of one lease.
pub async fn renew(store: &Redis, party: &Party, lease: &Lease) -> Result<Renewed> {
    store.renew(&renewal_of(party, lease)).await?.remove(0)
}

/// What came of a release of one grant.
pub async fn release(store: &Redis, party: &Party, lease: &Lease) -> Result<Released> {
    Ok(store.release(&release_of(party, lease)).await?.remove(0))
}

pub async fn withdraw(store: &Redis, party: &Party, name: &Name) -> Result<Withdrawn> {
    store.withdraw(&withdrawal_of(party, name)).await
}

/// What the server has under a name; a blank record if it has none.
pub async fn look(store: &Redis, name: &Name) -> Record {
    let seen = store.get(name).await.unwrap();
    seen.what.unwrap_or_else(|| Record::new(name.clone()))
}

/// The tokens under which a name is held.
pub async fn tokens(store: &Redis, name: &Name) -> Vec<Token> {
    let record = look(store, name).await;
    record.grants.iter().map(|grant| grant.token).collect()
}

/// The error of an answer that must be one of a server that is not there, or not for now.
pub fn outage<T: std::fmt::Debug>(answer: Result<T>) -> Error {
    let error = answer.expect_err("the server was not there");
    let kind = error.kind();
    let known = matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout);
    assert!(known, "{error:?}");
    error
}

/// The same of a request that had been sent.
pub fn unknown<T: std::fmt::Debug>(answer: Result<T>) -> Error {
    let error = outage(answer);
    assert_eq!(error.effect(), Effect::Unknown, "{error:?}");
    error
}

pub fn now() -> Moment {
    SystemClock.now()
}

pub async fn sleep(time: Duration) {
    SystemClock.sleep_until(now().after(time)).await;
}

/// Asks until the answer is no error, as any caller would after an outage.
pub async fn in_the_end<T>(mut ask: impl AsyncFnMut() -> Result<T>) -> T {
    let deadline = now().after(PATIENCE);
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_retryable() && now() < deadline, "{error:?}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = now().after(PATIENCE);
    while !is_so().await {
        assert!(now() < deadline, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
