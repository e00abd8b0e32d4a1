//! Claims that change hands, and versions that are compared.

use leasehold_core::Ending;
use leasehold_core::backend::{Confirm, Confirmed, Heir, Released};

use super::release::why_not;
use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            confirming_twice_answers_the_same,
            ["S10", "S9"],
            Reservations
        ),
        case!(a_claim_can_be_handed_over, ["S10"], Reservations),
        case!(
            after_a_hand_over_only_the_heir_may_free_the_claim,
            ["S5", "S10"],
            Reservations
        ),
        case!(
            handing_over_twice_answers_the_same,
            ["S9", "S10"],
            Reservations
        ),
        case!(a_stranger_cannot_hand_a_claim_over, ["S5"], Reservations),
        case!(
            confirming_at_another_version_changes_nothing,
            ["S2-18"],
            Reservations
        ),
        case!(every_change_brings_a_new_version, ["S2-18"], Reservations),
        case!(
            of_two_confirmations_at_one_version_one_wins,
            ["S2-18", "S10"],
            Reservations
        ),
    ]
}

fn hand_over(s: &Scene, from: &Party, lease: &leasehold_core::Lease, to: &Party) -> Confirm {
    s.confirmation(from, lease, "user-2").hand_over(Heir {
        holder: to.holder.clone(),
        owner: to.owner.clone(),
    })
}

async fn confirming_twice_answers_the_same(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.reserve(&a, &name).await;
    let request = s.confirmation(&a, &lease, "user-1");
    let first = s.confirm(&request).await;
    assert_eq!(s.confirm(&request).await, first);
    assert_eq!(s.record(&name).await.claims.len(), 1);
}

async fn a_claim_can_be_handed_over(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.claim(&a, &name, "user-1").await;
    let answer = s.confirm(&hand_over(&s, &a, &lease, &b)).await;
    assert!(matches!(answer, Confirmed::Confirmed(_)), "{answer:?}");
    let record = s.record(&name).await;
    let claim = record.claims.iter().next().expect("still claimed");
    assert_eq!(
        (claim.holder, &claim.owner, claim.entity.as_str()),
        (b.holder.digest(), &b.owner, "user-2")
    );
    assert_eq!(claim.token, lease.token);
}

async fn after_a_hand_over_only_the_heir_may_free_the_claim(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.claim(&a, &name, "user-1").await;
    s.confirm(&hand_over(&s, &a, &lease, &b)).await;
    let why = why_not(s.send_release(&s.free_claim(&a, &lease)).await);
    assert_eq!(why.ended.map(|end| end.how), Some(Ending::HandedOver));
    let answer = s.send_release(&s.free_claim(&b, &lease)).await;
    assert_eq!(answer, Released::Released);
}

async fn handing_over_twice_answers_the_same(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.claim(&a, &name, "user-1").await;
    let request = hand_over(&s, &a, &lease, &b);
    let first = s.confirm(&request).await;
    assert_eq!(s.confirm(&request).await, first);
}

async fn a_stranger_cannot_hand_a_claim_over(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.claim(&a, &name, "user-1").await;
    let before = s.record(&name).await;
    let answer = s
        .confirm(&hand_over(&s, &b, &lease, &Party::new("c")))
        .await;
    assert!(matches!(answer, Confirmed::NotHeld(..)), "{answer:?}");
    assert_eq!(s.record(&name).await, before);
}

async fn confirming_at_another_version_changes_nothing(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.reserve(&a, &name).await;
    let before = s.record(&name).await;
    let request = s.confirmation(&a, &lease, "e");
    let answer = s
        .confirm(&request.clone().expect_version(before.version + 1))
        .await;
    assert_eq!(
        answer,
        Confirmed::VersionChanged(name.clone(), before.version)
    );
    assert_eq!(s.record(&name).await, before);
    let answer = s.confirm(&request.expect_version(before.version)).await;
    assert!(matches!(answer, Confirmed::Confirmed(_)), "{answer:?}");
}

async fn every_change_brings_a_new_version(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let mut seen = std::collections::BTreeSet::new();
    let lease = s.reserve(&a, &name).await;
    assert!(seen.insert(s.record(&name).await.version));
    s.renew(&a, &lease, s.backend().describe().capabilities.max_ttl)
        .await;
    assert!(seen.insert(s.record(&name).await.version), "renewed");
    s.confirm(&s.confirmation(&a, &lease, "e")).await;
    assert!(seen.insert(s.record(&name).await.version), "confirmed");
    s.confirm(&hand_over(&s, &a, &lease, &Party::new("b")))
        .await;
    assert!(seen.insert(s.record(&name).await.version), "handed over");
}

async fn of_two_confirmations_at_one_version_one_wins(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.claim(&a, &name, "user-1").await;
    let version = s.record(&name).await.version;
    let tasks: Vec<_> = (0..s.contention().tasks)
        .map(|heir| {
            let to = Party::new(&format!("heir{heir}"));
            let request = hand_over(&s, &a, &lease, &to).expect_version(version);
            let s = s.clone();
            tokio::spawn(async move { s.confirm(&request).await })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        won += usize::from(matches!(task.await.unwrap(), Confirmed::Confirmed(_)));
    }
    assert_eq!(won, 1);
}
