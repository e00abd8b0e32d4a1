//! Claims: confirming a grant for good, and freeing it.

use leasehold_core::backend::{BlockedBy, Confirm, Confirmed, Released};
use leasehold_core::{Ending, ErrorKind, Kind, Token};

use super::release::why_not;
use crate::case::{Case, case};
use crate::scene::{Party, Scene, text, units};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_confirmed_reservation_is_for_good,
            ["S2-11", "S10"],
            Reservations
        ),
        case!(a_claim_keeps_entity_owner_and_text, ["S10"], Reservations),
        case!(
            confirming_after_expiry_is_refused,
            ["S10", "W2-07"],
            Reservations
        ),
        case!(
            confirming_by_another_holder_is_refused,
            ["S5", "S10", "W2-07"],
            Reservations
        ),
        case!(
            confirming_with_another_token_is_refused,
            ["S5", "S10"],
            Reservations
        ),
        case!(
            confirming_what_was_released_is_refused,
            ["S10"],
            Reservations
        ),
        case!(a_plain_lock_cannot_be_confirmed, ["S10"], Reservations),
        case!(
            a_freed_claim_can_be_reserved_again,
            ["S2-11", "S10"],
            Reservations
        ),
        case!(
            a_claim_is_freed_only_by_its_holder,
            ["S5", "S10"],
            Reservations
        ),
        case!(
            releasing_the_grant_does_not_free_the_claim,
            ["S5", "S10"],
            Reservations
        ),
        case!(
            claims_take_units_for_good,
            ["S2-12"],
            Reservations,
            Quantities
        ),
        case!(
            several_are_confirmed_all_or_none,
            ["S13"],
            Reservations,
            AtomicNames
        ),
        case!(confirm_racing_expiry_has_one_winner, ["S10"], Reservations),
    ]
}

fn confirmed(answer: &Confirmed) -> bool {
    matches!(answer, Confirmed::Confirmed(_))
}

async fn a_confirmed_reservation_is_for_good(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let request = s.ask_for(&a, &name, s.brief()).kind(Kind::Reservation);
    let lease = s.grant(&request).await;
    assert!(confirmed(
        &s.confirm(&s.confirmation(&a, &lease, "user-1")).await
    ));
    s.outlive(s.brief()).await;
    let rival = s.ask(&Party::new("b"), &name).kind(Kind::Reservation);
    let blocked = s.refuse(&rival).await;
    assert_eq!((blocked.by, blocked.holding), (BlockedBy::Claim, None));
    assert_eq!(blocked.change_in, None, "time will not free it");
}

async fn a_claim_keeps_entity_owner_and_text(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.reserve(&a, &name).await;
    let request = s.confirmation(&a, &lease, "user 'x' \u{1f600}");
    let answer = s.confirm(&request.metadata(text("why"))).await;
    let record = s.record(&name).await;
    assert_eq!(answer, Confirmed::Confirmed(vec![record.version]));
    assert!(record.grants.is_empty(), "the grant became the claim");
    let claim = record.claims.iter().next().expect("one claim");
    assert_eq!(claim.entity, "user 'x' \u{1f600}");
    assert_eq!((&claim.owner, claim.token), (&a.owner, lease.token));
    assert_eq!(claim.holder, a.holder.digest());
    assert_eq!(claim.metadata, Some(text("why")));
}

async fn confirming_after_expiry_is_refused(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let request = s.ask_for(&a, &name, s.brief()).kind(Kind::Reservation);
    let lease = s.grant(&request).await;
    s.outlive(s.brief()).await;
    let Confirmed::NotHeld(which, why) = s.confirm(&s.confirmation(&a, &lease, "e")).await else {
        panic!("an expired reservation was confirmed");
    };
    assert_eq!((which, why.current), (name.clone(), None));
    if let Some(end) = why.ended {
        assert_eq!(end.how, Ending::Expired);
    }
    s.reserve(&Party::new("b"), &name).await;
}

async fn confirming_by_another_holder_is_refused(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.reserve(&a, &name).await;
    let answer = s.confirm(&s.confirmation(&b, &lease, "e")).await;
    assert!(matches!(answer, Confirmed::NotHeld(..)), "{answer:?}");
    assert!(s.record(&name).await.claims.is_empty());
    assert!(confirmed(
        &s.confirm(&s.confirmation(&a, &lease, "e")).await
    ));
}

async fn confirming_with_another_token_is_refused(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.reserve(&a, &name).await;
    let wrong = Token::new(lease.token.get() + 1);
    let request = Confirm::new(name.clone(), wrong, a.holder, "e").unwrap();
    let answer = s.confirm(&request).await;
    assert!(matches!(answer, Confirmed::NotHeld(..)), "{answer:?}");
    assert!(s.record(&name).await.claims.is_empty());
}

async fn confirming_what_was_released_is_refused(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.reserve(&a, &name).await;
    s.give_up(&a, &lease).await;
    let answer = s.confirm(&s.confirmation(&a, &lease, "e")).await;
    assert!(matches!(answer, Confirmed::NotHeld(..)), "{answer:?}");
    s.reserve(&Party::new("b"), &name).await;
}

async fn a_plain_lock_cannot_be_confirmed(s: Scene) {
    let a = Party::new("a");
    let lease = s.take(&a, &s.name("k")).await;
    let request = s.confirmation(&a, &lease, "e");
    let error = s.backend().confirm(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

async fn a_freed_claim_can_be_reserved_again(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.claim(&a, &name, "user-1").await;
    let answer = s.send_release(&s.free_claim(&a, &lease)).await;
    assert_eq!(answer, Released::Released);
    s.reserve(&Party::new("b"), &name).await;
}

async fn a_claim_is_freed_only_by_its_holder(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.claim(&a, &name, "user-1").await;
    why_not(
        s.send_release(&s.free_claim(&Party::new("a"), &lease))
            .await,
    );
    assert_eq!(s.record(&name).await.claims.len(), 1);
}

async fn releasing_the_grant_does_not_free_the_claim(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.claim(&a, &name, "user-1").await;
    let why = why_not(s.release(&a, &lease).await);
    assert_eq!(why.ended.map(|end| end.how), Some(Ending::Confirmed));
    s.withdraw(&a, std::slice::from_ref(&name)).await;
    assert_eq!(s.record(&name).await.claims.len(), 1);
}

async fn claims_take_units_for_good(s: Scene) {
    let (name, a) = (s.name("sku"), Party::new("a"));
    let wants = |party: &Party, count| {
        s.ask(party, &name)
            .kind(Kind::Reservation)
            .units(units(count), units(5))
    };
    let lease = s.grant(&wants(&a, 3)).await;
    assert!(confirmed(
        &s.confirm(&s.confirmation(&a, &lease, "order-1")).await
    ));
    let blocked = s.refuse(&wants(&Party::new("b"), 3)).await;
    assert_eq!((blocked.by, blocked.free_units), (BlockedBy::Claim, 2));
    s.grant(&wants(&Party::new("b"), 2)).await;
}

async fn several_are_confirmed_all_or_none(s: Scene) {
    let (x, y, a) = (s.name("x"), s.name("y"), Party::new("a"));
    let (lx, ly) = (s.reserve(&a, &x).await, s.reserve(&a, &y).await);
    let both = |second| {
        let items = [(x.clone(), lx.token), (y.clone(), second)];
        Confirm::all(items.into_iter().collect(), a.holder.clone(), "trip").unwrap()
    };
    let answer = s.confirm(&both(Token::new(ly.token.get() + 1))).await;
    assert!(matches!(answer, Confirmed::NotHeld(which, _) if which == y));
    assert!(s.record(&x).await.claims.is_empty(), "none was confirmed");
    let answer = s.confirm(&both(ly.token)).await;
    assert!(matches!(answer, Confirmed::Confirmed(versions) if versions.len() == 2));
}

/// The rival asks while the lease ends; whoever wins, the other must be told that it lost.
async fn confirm_racing_expiry_has_one_winner(s: Scene) {
    for round in 0..s.contention().rounds.min(10) {
        let (name, a, b) = (
            s.name(&format!("k{round}")),
            Party::new("a"),
            Party::new("b"),
        );
        let request = s.ask_for(&a, &name, s.brief()).kind(Kind::Reservation);
        let lease = s.grant(&request).await;
        s.pass(lease.ttl - std::time::Duration::from_millis(1))
            .await;
        let confirm = tokio::spawn({
            let (s, request) = (s.clone(), s.confirmation(&a, &lease, "e"));
            async move { confirmed(&s.confirm(&request).await) }
        });
        s.pass(std::time::Duration::from_millis(1)).await;
        let rival = s.ask(&b, &name).kind(Kind::Reservation);
        let taken = matches!(
            s.submit(&rival).await,
            leasehold_core::backend::Acquired::Granted(_)
        );
        let won = confirm.await.unwrap();
        assert!(!(won && taken), "round {round}: both won");
        let record = s.record(&name).await;
        assert_eq!(
            record.claims.len() + record.grants.len(),
            usize::from(won || taken)
        );
        if !s.is_virtual() {
            break;
        }
    }
}
