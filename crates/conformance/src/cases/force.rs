//! Ending what somebody else has.

use leasehold_core::backend::{Released, Renewed};
use leasehold_core::{Ending, Forced, Owner};

use super::release::why_not;
use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            force_frees_the_name_and_says_who_held_it,
            ["T0-14", "S0-04"]
        ),
        case!(
            the_old_holder_learns_who_forced_it_and_why,
            ["T0-14", "S1-05"]
        ),
        case!(force_with_a_token_ends_only_that_grant, ["S5"]),
        case!(forcing_a_free_name_finds_nothing, ["W0-07"]),
        case!(
            a_late_copy_of_a_force_leaves_the_next_grant,
            ["S5", "etcd#22082"]
        ),
        case!(force_leaves_claims_alone, ["S10"], Reservations),
        case!(
            force_with_its_token_ends_a_claim,
            ["S10", "S5"],
            Reservations
        ),
        case!(
            force_ends_every_grant_of_a_shared_name,
            ["T0-14"],
            Quantities
        ),
    ]
}

fn forced(answer: Released) -> usize {
    match answer {
        Released::Forced(holdings) => holdings.len(),
        other => panic!("expected a forced end, got {other:?}"),
    }
}

async fn force_frees_the_name_and_says_who_held_it(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    let Released::Forced(holdings) = s.force(&name, None).await else {
        panic!("the name was held");
    };
    assert_eq!(holdings.len(), 1);
    assert_eq!(
        (&holdings[0].owner, holdings[0].token),
        (&a.owner, lease.token)
    );
    s.take(&Party::new("b"), &name).await;
}

async fn the_old_holder_learns_who_forced_it_and_why(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    forced(s.force(&name, None).await);
    let how = Ending::Forced(Box::new(Forced {
        by: Owner::new("operator").unwrap(),
        reason: "stuck".to_owned(),
    }));
    let end = why_not(s.release(&a, &lease).await).ended;
    assert_eq!(end.map(|end| end.how), Some(how.clone()));
    let Renewed::NotHeld(why) = s.renew(&a, &lease, s.long()).await else {
        panic!("a forced lease was renewed");
    };
    assert_eq!(why.ended.map(|end| end.how), Some(how));
}

async fn force_with_a_token_ends_only_that_grant(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let old = s.take(&a, &name).await;
    s.give_up(&a, &old).await;
    let new = s.take(&b, &name).await;
    let why = why_not(s.force(&name, Some(old.token)).await);
    assert_eq!(why.current.map(|h| h.token), Some(new.token));
    assert!(s.is_held(&name).await);
    assert_eq!(forced(s.force(&name, Some(new.token)).await), 1);
    assert!(!s.is_held(&name).await);
}

async fn forcing_a_free_name_finds_nothing(s: Scene) {
    let why = why_not(s.force(&s.name("k"), None).await);
    assert_eq!(why.current, None);
}

async fn a_late_copy_of_a_force_leaves_the_next_grant(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let old = s.take(&a, &name).await;
    forced(s.force(&name, Some(old.token)).await);
    let new = s.take(&a, &name).await;
    let late = s.force(&name, Some(old.token)).await;
    assert!(
        !matches!(&late, Released::Forced(ended) if ended.iter().any(|h| h.token == new.token))
    );
    assert_eq!(s.record(&name).await.grants[0].token, new.token);
}

async fn force_leaves_claims_alone(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    s.claim(&a, &name, "user-1").await;
    why_not(s.force(&name, None).await);
    assert_eq!(s.record(&name).await.claims.len(), 1);
}

async fn force_with_its_token_ends_a_claim(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.claim(&a, &name, "user-1").await;
    assert_eq!(forced(s.force(&name, Some(lease.token)).await), 1);
    s.reserve(&Party::new("b"), &name).await;
}

async fn force_ends_every_grant_of_a_shared_name(s: Scene) {
    let name = s.name("k");
    for reader in ["a", "b", "c"] {
        s.grant(&s.ask(&Party::new(reader), &name).shared()).await;
    }
    assert_eq!(forced(s.force(&name, None).await), 3);
    assert!(!s.is_held(&name).await);
}
