//! Shared grants, units and capacities.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_core::Mode;
use leasehold_core::backend::{Acquired, BlockedBy, CapacitySet};

use crate::Mailbox;
use crate::case::{Case, case};
use crate::scene::{Party, Scene, units};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            readers_share_and_a_writer_is_refused,
            ["S1", "S2-12"],
            Quantities
        ),
        case!(a_writer_excludes_readers, ["S1"], Quantities),
        case!(
            a_waiting_writer_comes_before_later_readers,
            ["L3"],
            Quantities,
            Fifo
        ),
        case!(
            readers_behind_a_writer_move_up_together,
            ["L3"],
            Quantities,
            Fifo
        ),
        case!(units_never_exceed_the_limit, ["S1", "S2-12"], Quantities),
        case!(a_freed_unit_can_be_taken_again, ["S2-12"], Quantities),
        case!(
            units_stay_within_the_limit_under_contention,
            ["S1", "S2-12"],
            Quantities
        ),
        case!(
            a_set_capacity_beats_the_limit_of_a_request,
            ["S2-12"],
            Quantities
        ),
        case!(
            a_larger_capacity_moves_the_queue_up,
            ["S2-12", "L2"],
            Quantities,
            Queue
        ),
        case!(a_smaller_capacity_takes_nothing_away, ["S2-12"], Quantities),
        case!(
            a_forgotten_capacity_leaves_it_to_the_request,
            ["S2-12"],
            Quantities
        ),
        case!(
            a_capacity_is_set_only_at_the_expected_version,
            ["S2-18"],
            Quantities
        ),
        case!(
            a_version_does_not_come_back_with_its_name,
            ["S2-18"],
            Quantities
        ),
        case!(
            a_large_wish_in_front_is_not_overtaken,
            ["L3"],
            Quantities,
            Fifo
        ),
    ]
}

async fn readers_share_and_a_writer_is_refused(s: Scene) {
    let name = s.name("k");
    for reader in ["a", "b", "c"] {
        s.grant(&s.ask(&Party::new(reader), &name).shared()).await;
    }
    let record = s.record(&name).await;
    assert!(record.grants.iter().all(|g| g.mode == Mode::Shared));
    assert_eq!(record.grants.len(), 3);
    let blocked = s.refused(&Party::new("writer"), &name).await;
    assert_eq!(blocked.by, BlockedBy::Holder);
}

async fn a_writer_excludes_readers(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    let reader = s.ask(&Party::new("b"), &name).shared();
    s.refuse(&reader).await;
    s.give_up(&a, &lease).await;
    s.grant(&reader).await;
}

async fn a_waiting_writer_comes_before_later_readers(s: Scene) {
    let (name, a, writer, mail) = (
        s.name("k"),
        Party::new("a"),
        Party::new("w"),
        Mailbox::new(),
    );
    let _watch = mail.arm(&s, None).await;
    let lease = s.grant(&s.ask(&a, &name).shared()).await;
    s.enqueue(s.ask(&writer, &name), mail.id()).await;
    let late = s.ask(&Party::new("late"), &name).shared();
    assert_eq!(s.refuse(&late).await.by, BlockedBy::Queue);
    s.give_up(&a, &lease).await;
    mail.granted(&s, &writer.holder).await;
    s.refuse(&late).await;
}

async fn readers_behind_a_writer_move_up_together(s: Scene) {
    let (name, writer, mail) = (s.name("k"), Party::new("w"), Mailbox::new());
    let _watch = mail.arm(&s, None).await;
    let lease = s.take(&writer, &name).await;
    let (r1, r2, w2) = (Party::new("r1"), Party::new("r2"), Party::new("w2"));
    s.enqueue(s.ask(&r1, &name).shared(), mail.id()).await;
    s.enqueue(s.ask(&r2, &name).shared(), mail.id()).await;
    s.enqueue(s.ask(&w2, &name), mail.id()).await;
    s.give_up(&writer, &lease).await;
    let (l1, l2) = (
        mail.granted(&s, &r1.holder).await,
        mail.granted(&s, &r2.holder).await,
    );
    s.give_up(&r1, &l1).await;
    assert!(mail.grants_of(&w2.holder).is_empty());
    s.give_up(&r2, &l2).await;
    mail.granted(&s, &w2.holder).await;
}

async fn units_never_exceed_the_limit(s: Scene) {
    let name = s.name("k");
    let wants = |party: &str, count| {
        s.ask(&Party::new(party), &name)
            .units(units(count), units(5))
    };
    s.grant(&wants("a", 3)).await;
    let blocked = s.refuse(&wants("b", 3)).await;
    assert_eq!((blocked.by, blocked.free_units), (BlockedBy::Holder, 2));
    s.grant(&wants("c", 2)).await;
    s.refuse(&wants("d", 1)).await;
    assert_eq!(s.record(&name).await.units_taken(), 5);
}

async fn a_freed_unit_can_be_taken_again(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let one = |party: &Party| s.ask(party, &name).units(units(1), units(2));
    let lease = s.grant(&one(&a)).await;
    s.grant(&one(&Party::new("b"))).await;
    s.refuse(&one(&Party::new("c"))).await;
    s.give_up(&a, &lease).await;
    s.grant(&one(&Party::new("c"))).await;
}

async fn units_stay_within_the_limit_under_contention(s: Scene) {
    let (name, limits, inside) = (s.name("k"), s.contention(), Arc::new(AtomicU32::new(0)));
    let tasks: Vec<_> = (0..limits.tasks)
        .map(|task| {
            let (s, name, inside) = (s.clone(), name.clone(), Arc::clone(&inside));
            tokio::spawn(async move {
                for _ in 0..limits.rounds {
                    let party = Party::new(&format!("t{task}"));
                    let request = s.ask(&party, &name).units(units(1), units(3));
                    if let Acquired::Granted(leases) = s.submit(&request).await {
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        assert!(now <= 3, "{now} units of 3 are held");
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        s.give_up(&party, &leases[0]).await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(!s.is_held(&name).await);
}

async fn a_set_capacity_beats_the_limit_of_a_request(s: Scene) {
    let name = s.name("k");
    s.backend()
        .set_capacity(&s.capacity(&name, Some(2)))
        .await
        .unwrap();
    s.take(&Party::new("a"), &name).await;
    s.take(&Party::new("b"), &name).await;
    let greedy = s.ask(&Party::new("c"), &name).units(units(1), units(100));
    s.refuse(&greedy).await;
    assert_eq!(s.record(&name).await.capacity, Some(2));
}

async fn a_larger_capacity_moves_the_queue_up(s: Scene) {
    let (name, b, mail) = (s.name("k"), Party::new("b"), Mailbox::new());
    let _watch = mail.arm(&s, None).await;
    s.backend()
        .set_capacity(&s.capacity(&name, Some(1)))
        .await
        .unwrap();
    s.take(&Party::new("a"), &name).await;
    s.enqueue(s.ask(&b, &name), mail.id()).await;
    s.backend()
        .set_capacity(&s.capacity(&name, Some(2)))
        .await
        .unwrap();
    mail.granted(&s, &b.holder).await;
    assert_eq!(s.record(&name).await.grants.len(), 2);
}

async fn a_smaller_capacity_takes_nothing_away(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    s.backend()
        .set_capacity(&s.capacity(&name, Some(2)))
        .await
        .unwrap();
    let lease = s.take(&a, &name).await;
    s.take(&Party::new("b"), &name).await;
    s.backend()
        .set_capacity(&s.capacity(&name, Some(1)))
        .await
        .unwrap();
    assert_eq!(s.record(&name).await.grants.len(), 2);
    s.give_up(&a, &lease).await;
    let blocked = s.refused(&Party::new("c"), &name).await;
    assert_eq!(blocked.free_units, 0);
}

async fn a_forgotten_capacity_leaves_it_to_the_request(s: Scene) {
    let name = s.name("k");
    s.backend()
        .set_capacity(&s.capacity(&name, Some(1)))
        .await
        .unwrap();
    s.take(&Party::new("a"), &name).await;
    s.backend()
        .set_capacity(&s.capacity(&name, None))
        .await
        .unwrap();
    assert_eq!(s.record(&name).await.capacity, None);
    s.grant(&s.ask(&Party::new("b"), &name).units(units(1), units(2)))
        .await;
}

async fn a_capacity_is_set_only_at_the_expected_version(s: Scene) {
    let name = s.name("k");
    let mut request = s.capacity(&name, Some(5));
    request.expect_version = Some(0);
    let CapacitySet::Set(version) = s.backend().set_capacity(&request).await.unwrap() else {
        panic!("nobody had touched the name");
    };
    assert_eq!(s.record(&name).await.version, version);
    request.units = Some(6);
    let answer = s.backend().set_capacity(&request).await.unwrap();
    assert_eq!(answer, CapacitySet::VersionChanged(version));
    assert_eq!(s.record(&name).await.capacity, Some(5));
    request.expect_version = Some(version);
    let answer = s.backend().set_capacity(&request).await.unwrap();
    assert!(matches!(answer, CapacitySet::Set(next) if next != version));
}

/// A name of which nothing is left may be forgotten, but who saw an old version of it must not take a new one for that.
async fn a_version_does_not_come_back_with_its_name(s: Scene) {
    let name = s.name("k");
    let mut last = 0;
    for units in [Some(5), None, Some(5), None, None, Some(6)] {
        let answer = s.backend().set_capacity(&s.capacity(&name, units)).await;
        let CapacitySet::Set(version) = answer.unwrap() else {
            panic!("no version was expected");
        };
        assert!(version > last, "{version} after {last}");
        last = version;
    }
}

async fn a_large_wish_in_front_is_not_overtaken(s: Scene) {
    let (name, a, mail) = (s.name("k"), Party::new("a"), Mailbox::new());
    let (large, small) = (Party::new("large"), Party::new("small"));
    let _watch = mail.arm(&s, None).await;
    let wants = |party: &Party, count| s.ask(party, &name).units(units(count), units(3));
    let lease = s.grant(&wants(&a, 2)).await;
    s.enqueue(wants(&large, 3), mail.id()).await;
    s.enqueue(wants(&small, 1), mail.id()).await;
    assert!(mail.events().is_empty(), "the small wish would fit");
    s.give_up(&a, &lease).await;
    mail.granted(&s, &large.holder).await;
    assert!(mail.grants_of(&small.holder).is_empty());
}
