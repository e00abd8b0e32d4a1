//! Two things at the same time.

use std::slice::from_ref;

use leasehold_core::backend::{Acquired, Renewed};

use crate::Mailbox;
use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_withdrawal_crossing_the_grant_leaves_nothing_held,
            ["L5", "S5"],
            Queue
        ),
        case!(
            a_release_crossing_a_new_waiter_never_strands_it,
            ["L2", "F26"],
            Queue
        ),
        case!(
            two_releases_of_one_grant_hand_over_once,
            ["S5", "S9"],
            Queue
        ),
        case!(
            a_renewal_crossing_a_forced_end_never_revives,
            ["S6", "etcd#20615"]
        ),
        case!(a_sweep_crossing_a_renewal_ends_no_live_lease, ["S6", "S12"]).alone(),
    ]
}

async fn a_withdrawal_crossing_the_grant_leaves_nothing_held(s: Scene) {
    for round in 0..s.contention().rounds {
        let (name, a, b) = (
            s.name(&format!("k{round}")),
            Party::new("a"),
            Party::new("b"),
        );
        let lease = s.take(&a, &name).await;
        s.enqueue(s.ask(&b, &name), Mailbox::new().id()).await;
        let release = tokio::spawn({
            let s = s.clone();
            async move { s.give_up(&a, &lease).await }
        });
        let withdrawn = s.withdraw(&b, from_ref(&name)).await;
        release.await.unwrap();
        assert_eq!(withdrawn.tickets + withdrawn.grants, 1, "round {round}");
        assert!(!s.is_held(&name).await, "round {round}");
    }
}

async fn a_release_crossing_a_new_waiter_never_strands_it(s: Scene) {
    let mail = Mailbox::new();
    let _watch = mail.arm(&s, None).await;
    for round in 0..s.contention().rounds {
        let (name, a, b) = (
            s.name(&format!("k{round}")),
            Party::new("a"),
            Party::new("b"),
        );
        let lease = s.take(&a, &name).await;
        let release = tokio::spawn({
            let s = s.clone();
            async move { s.give_up(&a, &lease).await }
        });
        let answer = s.submit(&s.ask(&b, &name).queue(mail.id())).await;
        release.await.unwrap();
        if !matches!(answer, Acquired::Granted(_)) {
            mail.granted(&s, &b.holder).await;
        }
        assert_eq!(s.record(&name).await.grants[0].holder, b.holder.digest());
    }
}

async fn two_releases_of_one_grant_hand_over_once(s: Scene) {
    let mail = Mailbox::new();
    let _watch = mail.arm(&s, None).await;
    for round in 0..s.contention().rounds {
        let (name, a) = (s.name(&format!("k{round}")), Party::new("a"));
        let (b, c) = (Party::new("b"), Party::new("c"));
        let lease = s.take(&a, &name).await;
        s.enqueue(s.ask(&b, &name), mail.id()).await;
        s.enqueue(s.ask(&c, &name), mail.id()).await;
        let copies = [0, 1].map(|_| {
            let (s, a, lease) = (s.clone(), a.clone(), lease.clone());
            tokio::spawn(async move { s.release(&a, &lease).await })
        });
        for copy in copies {
            copy.await.unwrap();
        }
        let record = s.record(&name).await;
        assert_eq!(record.grants[0].holder, b.holder.digest(), "round {round}");
        assert_eq!(record.tickets.len(), 1, "round {round}");
    }
}

async fn a_renewal_crossing_a_forced_end_never_revives(s: Scene) {
    for round in 0..s.contention().rounds {
        let (name, a) = (s.name(&format!("k{round}")), Party::new("a"));
        let lease = s.take(&a, &name).await;
        let renewal = tokio::spawn({
            let (s, a, lease) = (s.clone(), a.clone(), lease.clone());
            async move { s.renew(&a, &lease, s.long()).await }
        });
        s.force(&name, None).await;
        renewal.await.unwrap();
        assert!(!s.is_held(&name).await, "round {round}");
        let late = s.renew(&a, &lease, s.long()).await;
        assert!(matches!(late, Renewed::NotHeld(_)), "{late:?}");
    }
}

async fn a_sweep_crossing_a_renewal_ends_no_live_lease(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take_for(&a, &name, s.brief()).await;
    for _ in 0..4 {
        s.pass(s.brief().as_duration() / 2).await;
        let sweep = tokio::spawn({
            let s = s.clone();
            async move { s.sweep_all().await }
        });
        let renewed = s.renew(&a, &lease, s.brief()).await;
        sweep.await.unwrap();
        assert_eq!(renewed.lease().map(|l| l.token), Some(lease.token));
        assert!(s.is_held(&name).await);
    }
}
