//! Every verb sent again after its reply was lost. The first answer is thrown away; the second must do.

use leasehold_core::backend::{CapacitySet, Confirmed, Released};

use crate::Mailbox;
use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_repeated_acquire_finds_its_own_grant,
            ["S9", "S4-04", "W4-03"]
        ),
        case!(a_repeated_queueing_keeps_one_ticket, ["S9"], Queue),
        case!(
            a_repeated_renewal_ends_no_later_than_one,
            ["S9", "W4-02"],
            VirtualTime
        ),
        case!(a_repeated_release_frees_nobody_else, ["S9", "S5", "S4-06"]),
        case!(a_repeated_force_frees_nobody_else, ["S9", "S5"]),
        case!(
            a_repeated_confirmation_makes_one_claim,
            ["S9", "S10"],
            Reservations
        ),
        case!(
            a_repeated_freeing_of_a_claim_answers_the_same,
            ["S9", "S10"],
            Reservations
        ),
        case!(a_repeated_withdrawal_is_harmless, ["S9", "L5"], Queue),
        case!(a_repeated_capacity_is_the_same_capacity, ["S9"], Quantities),
        case!(a_repeated_refusal_is_a_refusal, ["S8", "W4-03"]),
        case!(a_dropped_acquire_is_undone_by_a_withdrawal, ["L5", "S8"]),
    ]
}

async fn a_repeated_acquire_finds_its_own_grant(s: Scene) {
    let name = s.name("k");
    let request = s.ask(&Party::new("a"), &name);
    s.submit(&request).await;
    let first = s.record(&name).await.grants[0].token;
    assert_eq!(s.grant(&request).await.token, first);
}

async fn a_repeated_queueing_keeps_one_ticket(s: Scene) {
    let (name, b, mail) = (s.name("k"), Party::new("b"), Mailbox::new());
    s.take(&Party::new("a"), &name).await;
    s.enqueue(s.ask(&b, &name), mail.id()).await;
    let again = s.enqueue(s.ask(&b, &name), mail.id()).await;
    assert_eq!((again.position, again.blocked.waiting), (0, 0));
    assert_eq!(s.record(&name).await.tickets.len(), 1);
}

async fn a_repeated_renewal_ends_no_later_than_one(s: Scene) {
    let a = Party::new("a");
    let lease = s.take_for(&a, &s.name("k"), s.brief()).await;
    let first = s.renew(&a, &lease, s.long()).await;
    assert_eq!(s.renew(&a, &lease, s.long()).await, first);
}

async fn a_repeated_release_frees_nobody_else(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.take(&a, &name).await;
    s.give_up(&a, &lease).await;
    let next = s.take(&b, &name).await;
    let again = s.release(&a, &lease).await;
    assert!(!matches!(again, Released::Forced(_)), "{again:?}");
    assert_eq!(s.record(&name).await.grants[0].token, next.token);
}

async fn a_repeated_force_frees_nobody_else(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.take(&a, &name).await;
    s.force(&name, Some(lease.token)).await;
    let next = s.take(&b, &name).await;
    s.force(&name, Some(lease.token)).await;
    assert_eq!(s.record(&name).await.grants[0].token, next.token);
}

async fn a_repeated_confirmation_makes_one_claim(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.reserve(&a, &name).await;
    let request = s.confirmation(&a, &lease, "user-1");
    s.confirm(&request).await;
    let again = s.confirm(&request).await;
    let record = s.record(&name).await;
    assert_eq!(again, Confirmed::Confirmed(vec![record.version]));
    assert_eq!(record.claims.len(), 1);
    let other = s.confirm(&s.confirmation(&a, &lease, "user-2")).await;
    assert!(
        matches!(other, Confirmed::NotHeld(..)),
        "another body: {other:?}"
    );
}

async fn a_repeated_freeing_of_a_claim_answers_the_same(s: Scene) {
    let a = Party::new("a");
    let lease = s.claim(&a, &s.name("k"), "user-1").await;
    let request = s.free_claim(&a, &lease);
    for _ in 0..2 {
        assert_eq!(s.send_release(&request).await, Released::Released);
    }
}

async fn a_repeated_withdrawal_is_harmless(s: Scene) {
    let (name, a, b, c) = (
        s.name("k"),
        Party::new("a"),
        Party::new("b"),
        Party::new("c"),
    );
    s.take(&a, &name).await;
    s.enqueue(s.ask(&b, &name), Mailbox::new().id()).await;
    s.enqueue(s.ask(&c, &name), Mailbox::new().id()).await;
    s.withdraw(&b, std::slice::from_ref(&name)).await;
    s.withdraw(&b, std::slice::from_ref(&name)).await;
    let record = s.record(&name).await;
    assert_eq!((record.grants.len(), record.tickets.len()), (1, 1));
}

async fn a_repeated_capacity_is_the_same_capacity(s: Scene) {
    let name = s.name("k");
    let request = s.capacity(&name, Some(4));
    for _ in 0..2 {
        let answer = s.backend().set_capacity(&request).await.unwrap();
        assert!(matches!(answer, CapacitySet::Set(_)), "{answer:?}");
        assert_eq!(s.record(&name).await.capacity, request.units);
    }
}

async fn a_repeated_refusal_is_a_refusal(s: Scene) {
    let name = s.name("k");
    s.take(&Party::new("a"), &name).await;
    let request = s.ask(&Party::new("b"), &name);
    for _ in 0..3 {
        s.refuse(&request).await;
    }
    assert_eq!(s.record(&name).await.grants.len(), 1);
}

async fn a_dropped_acquire_is_undone_by_a_withdrawal(s: Scene) {
    for round in 0..s.contention().rounds {
        let (name, a) = (s.name(&format!("k{round}")), Party::new("a"));
        let task = tokio::spawn({
            let (s, request) = (s.clone(), s.ask(&a, &name));
            async move { s.submit(&request).await }
        });
        if round.is_multiple_of(2) {
            tokio::task::yield_now().await;
        }
        task.abort();
        // The task has ended, one way or the other, before the withdrawal is sent.
        let _ = task.await;
        s.withdraw(&a, std::slice::from_ref(&name)).await;
        assert!(!s.is_held(&name).await, "round {round}");
    }
}
