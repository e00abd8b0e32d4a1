//! The order of a queue.

use leasehold_core::backend::{BlockedBy, RenewItem, Renewed};

use crate::Mailbox;
use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(waiters_are_served_first_come_first, ["L3", "S0-20"], Fifo),
        case!(a_dead_waiter_is_skipped, ["L2", "hazelcast#14961"], Queue),
        case!(nobody_barges_past_a_waiter, ["L3"], Fifo),
        case!(a_try_between_release_and_grant_is_refused, ["L3"], Fifo),
        case!(asking_again_keeps_the_place, ["L3", "S9"], Fifo),
        case!(
            renewing_a_ticket_keeps_the_place_and_never_shortens,
            ["L3", "S6"],
            Fifo
        ),
        case!(a_dead_waiter_in_front_lets_the_next_move_up, ["L2"], Queue),
        case!(
            asking_without_queueing_gives_the_place_up,
            ["L3", "T0-12"],
            Queue
        ),
        case!(
            every_waiter_of_a_crowd_is_served_once,
            ["L2", "T2-02"],
            Queue
        ),
    ]
}

async fn crowd(s: &Scene, mail: &Mailbox, count: usize) -> Vec<Party> {
    let mut waiters = Vec::new();
    for number in 0..count {
        let waiter = Party::new(&format!("w{number}"));
        s.enqueue(s.ask(&waiter, &s.name("k")), mail.id()).await;
        waiters.push(waiter);
    }
    waiters
}

async fn waiters_are_served_first_come_first(s: Scene) {
    let (a, mail) = (Party::new("a"), Mailbox::new());
    let _watch = mail.arm(&s, None).await;
    let mut held = (a.clone(), s.take(&a, &s.name("k")).await);
    for waiter in crowd(&s, &mail, 5).await {
        s.give_up(&held.0, &held.1).await;
        held.1 = mail.granted(&s, &waiter.holder).await;
        held.0 = waiter;
    }
}

async fn a_dead_waiter_is_skipped(s: Scene) {
    let (name, a, mail) = (s.name("k"), Party::new("a"), Mailbox::new());
    let (dead, live) = (Party::new("dead"), Party::new("live"));
    let _watch = mail.arm(&s, None).await;
    let lease = s.take(&a, &name).await;
    s.enqueue(s.ask_for(&dead, &name, s.brief()), mail.id())
        .await;
    s.enqueue(s.ask(&live, &name), mail.id()).await;
    s.outlive(s.brief()).await;
    s.give_up(&a, &lease).await;
    mail.granted(&s, &live.holder).await;
    assert!(mail.grants_of(&dead.holder).is_empty());
}

async fn nobody_barges_past_a_waiter(s: Scene) {
    let (name, a, b, mail) = (
        s.name("k"),
        Party::new("a"),
        Party::new("b"),
        Mailbox::new(),
    );
    let lease = s.take(&a, &name).await;
    s.enqueue(s.ask(&b, &name), mail.id()).await;
    let blocked = s.refused(&Party::new("c"), &name).await;
    assert_eq!(blocked.waiting, 1);
    s.give_up(&a, &lease).await;
    s.refused(&a, &name).await;
    assert_eq!(s.record(&name).await.grants[0].holder, b.holder.digest());
}

async fn a_try_between_release_and_grant_is_refused(s: Scene) {
    let (name, a, mail) = (s.name("k"), Party::new("a"), Mailbox::new());
    let _watch = mail.arm(&s, None).await;
    s.take_for(&a, &name, s.brief()).await;
    let waiters = crowd(&s, &mail, 2).await;
    s.outlive(s.brief()).await;
    let blocked = s.refused(&Party::new("barger"), &name).await;
    assert!(
        matches!(blocked.by, BlockedBy::Holder | BlockedBy::Queue),
        "{blocked:?}"
    );
    mail.granted(&s, &waiters[0].holder).await;
}

async fn asking_again_keeps_the_place(s: Scene) {
    let (name, mail) = (s.name("k"), Mailbox::new());
    s.take(&Party::new("a"), &name).await;
    let waiters = crowd(&s, &mail, 3).await;
    let again = s.enqueue(s.ask(&waiters[1], &name), mail.id()).await;
    assert_eq!((again.position, again.blocked.waiting), (1, 2));
    let order: Vec<_> = s
        .record(&name)
        .await
        .tickets
        .iter()
        .map(|t| t.holder)
        .collect();
    let wanted: Vec<_> = waiters.iter().map(|w| w.holder.digest()).collect();
    assert_eq!(order, wanted);
}

async fn renewing_a_ticket_keeps_the_place_and_never_shortens(s: Scene) {
    let (name, mail) = (s.name("k"), Mailbox::new());
    s.take(&Party::new("a"), &name).await;
    let waiters = crowd(&s, &mail, 3).await;
    let before = s.record(&name).await;
    let item = RenewItem::ticket(name.clone(), waiters[1].holder.clone(), s.brief());
    let Renewed::Queued(queued) = s.renew_item(item).await else {
        panic!("it still waits");
    };
    assert_eq!((queued.position, queued.blocked.waiting), (1, 2));
    assert_eq!(s.record(&name).await.tickets, before.tickets);
}

async fn a_dead_waiter_in_front_lets_the_next_move_up(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let (dead, live, mail) = (Party::new("dead"), Party::new("live"), Mailbox::new());
    s.take(&a, &name).await;
    s.enqueue(s.ask_for(&dead, &name, s.brief()), mail.id())
        .await;
    s.enqueue(s.ask(&live, &name), mail.id()).await;
    s.outlive(s.brief()).await;
    let queued = s.enqueue(s.ask(&live, &name), mail.id()).await;
    assert_eq!((queued.position, queued.blocked.waiting), (0, 0));
}

async fn asking_without_queueing_gives_the_place_up(s: Scene) {
    let (name, a, mail) = (s.name("k"), Party::new("a"), Mailbox::new());
    let _watch = mail.arm(&s, None).await;
    let lease = s.take(&a, &name).await;
    let waiters = crowd(&s, &mail, 2).await;
    let blocked = s.refused(&waiters[0], &name).await;
    assert_eq!(blocked.waiting, 1);
    s.give_up(&a, &lease).await;
    mail.granted(&s, &waiters[1].holder).await;
    assert!(mail.grants_of(&waiters[0].holder).is_empty());
}

async fn every_waiter_of_a_crowd_is_served_once(s: Scene) {
    let (name, a, mail) = (s.name("k"), Party::new("a"), Mailbox::new());
    let _watch = mail.arm(&s, None).await;
    let first = s.take(&a, &name).await;
    let waiters = crowd(&s, &mail, s.contention().tasks).await;
    s.give_up(&a, &first).await;
    let served: Vec<_> = waiters
        .into_iter()
        .map(|waiter| {
            let (s, mail) = (s.clone(), mail.clone());
            tokio::spawn(async move {
                let lease = mail.granted(&s, &waiter.holder).await;
                s.give_up(&waiter, &lease).await;
                mail.grants_of(&waiter.holder).len()
            })
        })
        .collect();
    for waiter in served {
        assert_eq!(waiter.await.unwrap(), 1);
    }
    assert!(!s.is_held(&name).await);
}
