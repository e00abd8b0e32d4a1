//! Handing a live lease to another holder.

use leasehold_core::Lease;
use leasehold_core::backend::{RenewItem, Renewed};

use super::release::why_not;
use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            an_heir_takes_the_lease_over_with_its_token,
            ["S5", "adopt"],
            Adopt
        ),
        case!(the_old_holder_can_do_nothing_more, ["S5"], Adopt),
        case!(handing_a_lease_over_twice_answers_the_same, ["S9"], Adopt),
        case!(an_expired_lease_has_no_heir, ["S6"], Adopt),
        case!(a_stranger_cannot_name_an_heir, ["S5"], Adopt),
    ]
}

fn bequest(s: &Scene, from: &Party, lease: &Lease, to: &Party) -> RenewItem {
    RenewItem::lease(
        lease.name.clone(),
        from.holder.clone(),
        lease.token,
        s.long(),
    )
    .heir(to.holder.clone(), to.owner.clone())
}

async fn an_heir_takes_the_lease_over_with_its_token(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.take(&a, &name).await;
    let answer = s.renew_item(bequest(&s, &a, &lease, &b)).await;
    assert_eq!(answer.lease().map(|l| l.token), Some(lease.token));
    let grant = s.record(&name).await.grants[0].clone();
    assert_eq!(
        (grant.holder, grant.owner.clone()),
        (b.holder.digest(), b.owner.clone())
    );
    assert_eq!(s.take(&b, &name).await.token, lease.token);
    s.give_up(&b, &lease).await;
}

async fn the_old_holder_can_do_nothing_more(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.take(&a, &name).await;
    s.renew_item(bequest(&s, &a, &lease, &b)).await;
    let answer = s.renew(&a, &lease, s.long()).await;
    assert!(matches!(answer, Renewed::NotHeld(_)), "{answer:?}");
    why_not(s.release(&a, &lease).await);
    s.refused(&a, &name).await;
    assert_eq!(s.withdraw(&a, std::slice::from_ref(&name)).await.grants, 0);
    assert!(s.is_held(&name).await);
}

async fn handing_a_lease_over_twice_answers_the_same(s: Scene) {
    let (a, b) = (Party::new("a"), Party::new("b"));
    let lease = s.take(&a, &s.name("k")).await;
    let item = bequest(&s, &a, &lease, &b);
    let first = s.renew_item(item.clone()).await.lease().map(|l| l.token);
    let again = s.renew_item(item).await.lease().map(|l| l.token);
    assert_eq!((first, again), (Some(lease.token), Some(lease.token)));
}

async fn an_expired_lease_has_no_heir(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.take_for(&a, &name, s.brief()).await;
    s.outlive(s.brief()).await;
    let answer = s.renew_item(bequest(&s, &a, &lease, &b)).await;
    assert!(matches!(answer, Renewed::NotHeld(_)), "{answer:?}");
    assert!(!s.is_held(&name).await);
}

async fn a_stranger_cannot_name_an_heir(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.take(&a, &name).await;
    let answer = s
        .renew_item(bequest(&s, &b, &lease, &Party::new("c")))
        .await;
    assert!(matches!(answer, Renewed::NotHeld(_)), "{answer:?}");
    assert_eq!(s.record(&name).await.grants[0].holder, a.holder.digest());
}
