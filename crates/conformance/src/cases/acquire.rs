//! Taking a name.

use leasehold_core::backend::{Acquired, BlockedBy};
use leasehold_core::{ExpiryClock, Kind, Mode, Ttl};
use std::time::Duration;

use crate::case::{Case, case};
use crate::scene::{Party, Scene, text};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(the_backend_says_its_name, ["T4-01", "S4-02"]),
        case!(an_unknown_name_has_no_record, ["T4-07", "S4-08"]),
        case!(
            a_free_name_is_granted_with_a_token_and_the_ttl,
            ["T4-13", "T0-10", "S2-01", "S12"]
        ),
        case!(a_held_name_shows_who_holds_it, ["T4-08", "S0-12"]),
        case!(
            facts_are_written_with_the_grant,
            ["S0-12", "W0-08"],
            AtomicFacts
        ),
        case!(
            a_name_held_by_another_is_refused,
            ["T4-11", "T4-14", "T0-07", "T0-11", "T2-01"]
        ),
        case!(a_refusal_changes_nothing, ["S8", "S4-07"]),
        case!(
            a_rival_whose_clock_is_behind_is_refused,
            ["T4-10", "W4-05", "W0-04"]
        ),
        case!(two_names_and_two_owners_coexist, ["T4-12", "T0-20"]),
        case!(
            the_same_label_with_another_holder_is_refused,
            ["S4-03", "W0-01", "W4-04"]
        ),
        case!(
            a_life_from_acquire_to_release_leaves_nothing_held,
            ["T4-09", "S1-03", "S4-01", "T0-01"]
        ),
        case!(
            a_lock_and_a_reservation_of_one_name_exclude_each_other,
            ["S10", "S14"],
            Reservations
        ),
        case!(of_many_rivals_exactly_one_is_granted, ["S1", "W4-03"]),
        case!(
            sixty_four_copies_of_one_request_get_one_grant,
            ["S9", "W4-03"]
        ),
        case!(ttls_at_both_bounds_are_granted, ["etcd#9399", "S12"]),
    ]
}

async fn the_backend_says_its_name(s: Scene) {
    let scheme = s.backend().describe().scheme;
    assert!(!scheme.is_empty());
    assert!(
        scheme
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()),
        "{scheme:?} is not one lower-case word"
    );
}

async fn an_unknown_name_has_no_record(s: Scene) {
    assert_eq!(s.get(&s.name("nobody")).await, None);
}

async fn a_free_name_is_granted_with_a_token_and_the_ttl(s: Scene) {
    let name = s.name("k");
    let lease = s.take_for(&Party::new("a"), &name, s.long()).await;
    assert_eq!(lease.name, name);
    s.assert_ttl(lease.ttl, s.long());
}

async fn a_held_name_shows_who_holds_it(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("billing@host-7"));
    let lease = s.take(&a, &name).await;
    let record = s.record(&name).await;
    let [grant] = record.grants.as_slice() else {
        panic!("one grant expected: {record:?}");
    };
    assert_eq!(record.name, name);
    assert_eq!((grant.owner.clone(), grant.token), (a.owner, lease.token));
    assert_eq!(grant.holder, a.holder.digest());
    assert_eq!(
        (grant.expires_at, grant.mode, record.kind),
        (lease.expires_at, Mode::Exclusive, Kind::Lock)
    );
}

async fn facts_are_written_with_the_grant(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let request = s.ask(&a, &name).metadata(Some(text("trace \u{1f600} 'x'")));
    s.grant(&request).await;
    let grant = s.record(&name).await.grants[0].clone();
    assert_eq!(grant.metadata, Some(text("trace \u{1f600} 'x'")));
    assert_eq!(grant.owner, a.owner);
}

async fn a_name_held_by_another_is_refused(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    let blocked = s.refused(&Party::new("b"), &name).await;
    let holding = blocked.holding.expect("somebody holds it");
    assert_eq!((blocked.name, blocked.by), (name, BlockedBy::Holder));
    assert_eq!((holding.owner, holding.token), (a.owner, lease.token));
    assert_eq!(holding.expires_at, lease.expires_at);
    let change = blocked.change_in.expect("the lease runs out some day");
    assert!(change <= lease.ttl, "{change:?} is after the lease");
}

async fn a_refusal_changes_nothing(s: Scene) {
    let name = s.name("k");
    s.take(&Party::new("a"), &name).await;
    let before = s.record(&name).await;
    s.refused(&Party::new("b"), &name).await;
    assert_eq!(s.record(&name).await, before);
}

/// The request carries no time, so only a store that trusts its caller's wall clock could be fooled.
async fn a_rival_whose_clock_is_behind_is_refused(s: Scene) {
    let name = s.name("k");
    s.take(&Party::new("a"), &name).await;
    s.harness().step_wall_back(Duration::from_secs(1));
    s.refused(&Party::new("b"), &name).await;
    let clock = s.backend().describe().guarantees.expiry_clock;
    if clock == ExpiryClock::ProcessMonotonic {
        let lease = s.take_for(&Party::new("b"), &s.name("l"), s.brief()).await;
        s.harness().step_wall_back(Duration::from_secs(3600));
        s.outlive(s.brief()).await;
        assert!(!s.is_held(&lease.name).await, "a wall step prolonged it");
    }
}

async fn two_names_and_two_owners_coexist(s: Scene) {
    let (x, y) = (s.name("x"), s.name("y"));
    s.take(&Party::new("a"), &x).await;
    s.take(&Party::new("b"), &y).await;
    assert!(s.is_held(&x).await && s.is_held(&y).await);
}

async fn the_same_label_with_another_holder_is_refused(s: Scene) {
    let name = s.name("k");
    s.take(&Party::new("main-1@host"), &name).await;
    s.refused(&Party::new("main-1@host"), &name).await;
}

async fn a_life_from_acquire_to_release_leaves_nothing_held(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    let renewed = s.renew(&a, &lease, s.long()).await;
    assert_eq!(renewed.lease().map(|l| l.token), Some(lease.token));
    s.give_up(&a, &lease).await;
    assert!(!s.is_held(&name).await);
    let left = s.get(&name).await.is_none_or(|record| record.is_idle());
    assert!(left, "something is left behind");
}

async fn a_lock_and_a_reservation_of_one_name_exclude_each_other(s: Scene) {
    let (a, b) = (Party::new("a"), Party::new("b"));
    let (x, y) = (s.name("x"), s.name("y"));
    s.take(&a, &x).await;
    s.refuse(&s.ask(&b, &x).kind(Kind::Reservation)).await;
    s.reserve(&a, &y).await;
    let blocked = s.refused(&b, &y).await;
    assert_eq!(blocked.holding.map(|h| h.kind), Some(Kind::Reservation));
}

async fn of_many_rivals_exactly_one_is_granted(s: Scene) {
    for round in 0..s.contention().rounds.min(10) {
        let name = s.name(&format!("k{round}"));
        let rivals: Vec<_> = (0..s.contention().tasks)
            .map(|rival| {
                let (s, name) = (s.clone(), name.clone());
                tokio::spawn(async move {
                    let request = s.ask(&Party::new(&format!("r{rival}")), &name);
                    matches!(s.submit(&request).await, Acquired::Granted(_))
                })
            })
            .collect();
        let mut granted = 0;
        for rival in rivals {
            granted += usize::from(rival.await.unwrap());
        }
        assert_eq!(granted, 1, "round {round}");
    }
}

async fn sixty_four_copies_of_one_request_get_one_grant(s: Scene) {
    let name = s.name("k");
    let request = s.ask(&Party::new("a"), &name);
    let copies: Vec<_> = (0..64)
        .map(|_| {
            let (s, request) = (s.clone(), request.clone());
            tokio::spawn(async move { s.grant(&request).await.token })
        })
        .collect();
    let mut tokens = Vec::new();
    for copy in copies {
        tokens.push(copy.await.unwrap());
    }
    tokens.dedup();
    assert_eq!(tokens.len(), 1, "{tokens:?}");
    assert_eq!(s.record(&name).await.grants.len(), 1);
}

async fn ttls_at_both_bounds_are_granted(s: Scene) {
    let can = s.backend().describe().capabilities.clone();
    let (min, max): (Ttl, Ttl) = (can.min_ttl, can.max_ttl);
    s.take_for(&Party::new("a"), &s.name("short"), min).await;
    let name = s.name("long");
    let lease = s.take_for(&Party::new("a"), &name, max).await;
    s.assert_ttl(lease.ttl, max);
    s.refused(&Party::new("b"), &name).await;
}
