//! Sweeping: settling what has run out, in bounded steps. These look at the whole store.

use std::collections::BTreeSet;

use leasehold_core::Kind;
use leasehold_core::backend::Sweep;

use crate::Mailbox;
use crate::case::{Case, case};
use crate::scene::{Party, Scene, text};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(a_sweep_settles_what_has_run_out, ["S0-16", "W4-15", "S15"]).alone(),
        case!(
            a_sweep_is_bounded_and_says_if_more_is_left,
            ["S0-16", "S15"]
        )
        .alone(),
        case!(a_sweep_can_be_repeated, ["S0-16", "S9"]).alone(),
        case!(a_sweep_leaves_live_leases_alone, ["S0-16", "S6"]).alone(),
        case!(a_sweep_leaves_claims_alone, ["S10"], Reservations).alone(),
        case!(a_sweep_leaves_capacities_alone, ["S2-12"], Quantities).alone(),
        case!(
            a_dry_run_says_what_has_run_out_and_changes_nothing,
            ["S3-11"]
        )
        .alone(),
        case!(a_sweep_can_be_limited_to_one_use, ["S3-11"], Reservations).alone(),
        case!(
            a_sweep_tells_what_the_grant_was,
            ["S3-11", "W3-13"],
            Reservations
        )
        .alone(),
        case!(a_sweep_hands_over_to_waiters, ["L1", "L2"], Queue).alone(),
    ]
}

/// Sweeps until nothing is left and collects the names that had run out.
async fn sweep_names(s: &Scene, limit: usize) -> BTreeSet<leasehold_core::Name> {
    let mut names = BTreeSet::new();
    loop {
        let swept = s.sweep(limit).await;
        names.extend(swept.expired.into_iter().map(|expired| expired.name));
        if !swept.more {
            return names;
        }
    }
}

async fn a_sweep_settles_what_has_run_out(s: Scene) {
    let name = s.name("k");
    s.take_for(&Party::new("a"), &name, s.brief()).await;
    s.outlive(s.brief()).await;
    assert!(sweep_names(&s, 100).await.contains(&name));
    let left = s.get(&name).await.is_none_or(|record| record.is_idle());
    assert!(left, "something is left of it");
}

async fn a_sweep_is_bounded_and_says_if_more_is_left(s: Scene) {
    s.sweep_all().await;
    for number in 0..5 {
        s.take_for(&Party::new("a"), &s.name(&format!("k{number}")), s.brief())
            .await;
    }
    s.outlive(s.brief()).await;
    let first = s.sweep(2).await;
    assert!(first.more, "three are left: {first:?}");
    assert!(first.expired.len() <= 2, "{first:?}");
    let found = first.expired.len() + sweep_names(&s, 2).await.len();
    assert_eq!(found, 5);
}

async fn a_sweep_can_be_repeated(s: Scene) {
    let name = s.name("k");
    s.take_for(&Party::new("a"), &name, s.brief()).await;
    s.outlive(s.brief()).await;
    s.sweep_all().await;
    assert!(!sweep_names(&s, 100).await.contains(&name));
}

async fn a_sweep_leaves_live_leases_alone(s: Scene) {
    let name = s.name("k");
    s.take(&Party::new("a"), &name).await;
    let before = s.record(&name).await;
    s.sweep_all().await;
    assert_eq!(s.record(&name).await, before);
}

async fn a_sweep_leaves_claims_alone(s: Scene) {
    let name = s.name("k");
    s.claim(&Party::new("a"), &name, "user-1").await;
    s.sweep_all().await;
    assert_eq!(s.record(&name).await.claims.len(), 1);
}

async fn a_sweep_leaves_capacities_alone(s: Scene) {
    let name = s.name("k");
    let request = s.capacity(&name, Some(3));
    s.backend().set_capacity(&request).await.unwrap();
    s.sweep_all().await;
    assert_eq!(s.record(&name).await.capacity, request.units);
}

async fn a_dry_run_says_what_has_run_out_and_changes_nothing(s: Scene) {
    s.sweep_all().await;
    let name = s.name("k");
    s.take_for(&Party::new("a"), &name, s.brief()).await;
    s.outlive(s.brief()).await;
    let dry = Sweep::all(100).dry_run();
    for _ in 0..2 {
        let found = s.backend().sweep(&dry).await.unwrap();
        assert!(found.expired.iter().any(|expired| expired.name == name));
        assert_eq!((found.tickets, found.forgotten), (0, 0));
    }
    assert!(sweep_names(&s, 100).await.contains(&name));
    let found = s.backend().sweep(&dry).await.unwrap();
    assert!(!found.expired.iter().any(|expired| expired.name == name));
}

async fn a_sweep_can_be_limited_to_one_use(s: Scene) {
    let (lock, seat, a) = (s.name("lock"), s.name("seat"), Party::new("a"));
    s.take_for(&a, &lock, s.brief()).await;
    let request = s.ask_for(&a, &seat, s.brief()).kind(Kind::Reservation);
    s.grant(&request).await;
    s.outlive(s.brief()).await;
    let only = Sweep::all(100).only(seat.namespace(), Kind::Reservation);
    let elsewhere = Sweep::all(100).only("nowhere", Kind::Reservation);
    let missed = s.backend().sweep(&elsewhere).await.unwrap();
    assert!(missed.expired.is_empty() && !missed.more, "{missed:?}");
    for (sweep, found) in [(only.clone().dry_run(), 1), (only.clone(), 1), (only, 0)] {
        let swept = s.backend().sweep(&sweep).await.unwrap();
        assert!(swept.expired.iter().all(|expired| expired.name == seat));
        assert_eq!(swept.expired.len(), found);
    }
    assert!(sweep_names(&s, 100).await.contains(&lock));
}

async fn a_sweep_tells_what_the_grant_was(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let request = s.ask_for(&a, &name, s.brief()).kind(Kind::Reservation);
    let lease = s.grant(&request.metadata(Some(text("order 7")))).await;
    s.outlive(s.brief()).await;
    let only = Sweep::all(100).only(name.namespace(), Kind::Reservation);
    let swept = s.backend().sweep(&only).await.unwrap();
    let [expired] = swept.expired.as_slice() else {
        panic!("not one: {swept:?}");
    };
    let was = &expired.holding;
    assert_eq!((was.token, was.kind), (lease.token, Kind::Reservation));
    assert_eq!((was.expires_at, &was.owner), (lease.expires_at, &a.owner));
    assert_eq!(was.metadata, Some(text("order 7")));
}

async fn a_sweep_hands_over_to_waiters(s: Scene) {
    let (name, b, mail) = (s.name("k"), Party::new("b"), Mailbox::new());
    let _watch = mail.arm(&s, None).await;
    s.take_for(&Party::new("a"), &name, s.brief()).await;
    s.enqueue(s.ask(&b, &name), mail.id()).await;
    s.outlive(s.brief()).await;
    s.sweep_all().await;
    mail.granted(&s, &b.holder).await;
    assert_eq!(s.record(&name).await.grants[0].holder, b.holder.digest());
}
