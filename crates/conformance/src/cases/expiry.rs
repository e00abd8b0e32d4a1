//! Leases that run out.

use std::time::Duration;

use leasehold_core::backend::{List, Renewed};

use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            an_expired_name_can_be_taken_by_anybody,
            ["T4-15", "T0-05", "T0-09", "S0-05", "L1"]
        ),
        case!(a_lease_lasts_its_ttl, ["S12", "T0-06"]),
        case!(an_expired_lease_is_not_shown, ["S4-08", "T0-05"]),
        case!(an_expired_lease_is_not_listed, ["S4-08"], List),
        case!(
            one_millisecond_before_its_end_a_lease_is_held,
            ["S6", "T4-20"],
            VirtualTime
        ),
        case!(
            at_its_end_a_lease_is_over,
            ["S6", "T4-15", "T4-20"],
            VirtualTime
        ),
        case!(
            one_millisecond_after_its_end_a_lease_is_over,
            ["S6", "T4-20"],
            VirtualTime
        ),
        case!(
            a_renewal_counts_from_when_it_was_made,
            ["S6", "S2-03"],
            VirtualTime
        ),
        case!(
            remaining_time_goes_down_with_the_clock,
            ["S0-09", "T0-06"],
            VirtualTime
        ),
        case!(
            mixed_ttls_are_each_judged_by_their_own,
            ["client-go#47671", "fabric8#7160"]
        ),
        case!(of_many_rivals_for_an_expired_name_one_wins, ["S1", "W4-03"]),
    ]
}

async fn an_expired_name_can_be_taken_by_anybody(s: Scene) {
    let name = s.name("k");
    s.take_for(&Party::new("a"), &name, s.brief()).await;
    s.refused(&Party::new("b"), &name).await;
    s.outlive(s.brief()).await;
    s.take(&Party::new("b"), &name).await;
}

async fn a_lease_lasts_its_ttl(s: Scene) {
    let name = s.name("k");
    s.take_for(&Party::new("a"), &name, s.brief()).await;
    s.pass(s.brief().as_duration() / 2).await;
    s.refused(&Party::new("b"), &name).await;
    assert!(s.is_held(&name).await);
}

async fn an_expired_lease_is_not_shown(s: Scene) {
    let name = s.name("k");
    s.take_for(&Party::new("a"), &name, s.brief()).await;
    s.outlive(s.brief()).await;
    assert!(!s.is_held(&name).await);
}

async fn an_expired_lease_is_not_listed(s: Scene) {
    s.take_for(&Party::new("a"), &s.name("k"), s.brief()).await;
    s.outlive(s.brief()).await;
    let records = s.list(List::namespace(s.namespace())).await;
    assert!(
        records.iter().all(|record| record.grants.is_empty()),
        "{records:?}"
    );
}

const TICK: Duration = Duration::from_millis(1);

async fn one_millisecond_before_its_end_a_lease_is_held(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take_for(&a, &name, s.brief()).await;
    s.pass(lease.ttl - TICK).await;
    let blocked = s.refused(&Party::new("b"), &name).await;
    assert_eq!(blocked.change_in, Some(TICK));
    assert!(s.is_held(&name).await);
    assert!(s.renew(&a, &lease, s.brief()).await.lease().is_some());
}

async fn at_its_end_a_lease_is_over(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take_for(&a, &name, s.brief()).await;
    s.pass(lease.ttl).await;
    assert!(!s.is_held(&name).await);
    let answer = s.renew(&a, &lease, s.brief()).await;
    assert!(matches!(answer, Renewed::NotHeld(_)), "{answer:?}");
    s.take(&Party::new("b"), &name).await;
}

async fn one_millisecond_after_its_end_a_lease_is_over(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take_for(&a, &name, s.brief()).await;
    s.pass(lease.ttl + TICK).await;
    let answer = s.renew(&a, &lease, s.brief()).await;
    assert!(matches!(answer, Renewed::NotHeld(_)), "{answer:?}");
    s.take(&Party::new("b"), &name).await;
}

async fn a_renewal_counts_from_when_it_was_made(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take_for(&a, &name, s.brief()).await;
    let half = lease.ttl / 2;
    s.pass(half).await;
    let longer = s.renew(&a, &lease, s.brief()).await.lease().cloned();
    let longer = longer.expect("it was still held");
    assert_eq!(longer.expires_at, lease.expires_at.after(half));
    s.pass(lease.ttl - TICK).await;
    assert!(s.is_held(&name).await);
    s.pass(TICK).await;
    assert!(!s.is_held(&name).await);
}

async fn remaining_time_goes_down_with_the_clock(s: Scene) {
    let (name, b) = (s.name("k"), Party::new("b"));
    let lease = s.take(&Party::new("a"), &name).await;
    for passed in 1..=3u64 {
        s.pass(Duration::from_secs(1)).await;
        let left = s.refused(&b, &name).await.change_in;
        assert_eq!(left, Some(lease.ttl - Duration::from_secs(passed)));
    }
}

async fn mixed_ttls_are_each_judged_by_their_own(s: Scene) {
    let (long, brief) = (s.name("long"), s.name("brief"));
    s.take_for(&Party::new("a"), &long, s.long()).await;
    s.take_for(&Party::new("a"), &brief, s.brief()).await;
    s.outlive(s.brief()).await;
    let eager = Party::new("b");
    s.refuse(&s.ask_for(&eager, &long, s.brief())).await;
    s.take_for(&eager, &brief, s.long()).await;
}

async fn of_many_rivals_for_an_expired_name_one_wins(s: Scene) {
    let name = s.name("k");
    s.take_for(&Party::new("a"), &name, s.brief()).await;
    s.outlive(s.brief()).await;
    let rivals: Vec<_> = (0..s.contention().tasks)
        .map(|rival| {
            let (s, name) = (s.clone(), name.clone());
            tokio::spawn(async move {
                let request = s.ask(&Party::new(&format!("r{rival}")), &name);
                let answer = s.submit(&request).await;
                usize::from(matches!(
                    answer,
                    leasehold_core::backend::Acquired::Granted(_)
                ))
            })
        })
        .collect();
    let mut granted = 0;
    for rival in rivals {
        granted += rival.await.unwrap();
    }
    assert_eq!(granted, 1);
}
