//! Waiting in the store: tickets, and what becomes of them.

use leasehold_core::ErrorKind;
use leasehold_core::backend::{BlockedBy, RenewItem, Renewed};

use crate::Mailbox;
use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_waiter_is_queued_and_told_what_is_in_the_way,
            ["L2"],
            Queue
        ),
        case!(
            a_release_hands_over_and_tells_the_inbox,
            ["T0-13", "T0-22", "L2"],
            Queue
        ),
        case!(a_free_name_is_granted_without_queueing, ["T0-10"], Queue),
        case!(who_waits_is_listed, ["S0-12"], Queue),
        case!(
            a_hand_over_grant_ends_when_the_ticket_would_have,
            ["etcd#11456"],
            Queue,
            VirtualTime
        ),
        case!(an_expiry_hands_over_at_the_next_touch, ["L1", "L2"], Queue),
        case!(a_forced_end_hands_over, ["T0-14"], Queue),
        case!(
            a_ticket_renewal_says_that_it_became_a_grant,
            ["etcd#11456", "redisson#5761"],
            Queue
        ),
        case!(
            a_ticket_that_ran_out_cannot_be_renewed,
            ["S6", "etcd#11456"],
            Queue
        ),
        case!(a_ticket_cannot_be_added_to_or_handed_over, ["S8"], Queue),
        case!(withdrawing_leaves_the_queue, ["L5", "T0-19"], Queue),
        case!(
            withdrawing_after_the_grant_gives_it_back,
            ["L5", "T0-19"],
            Queue
        ),
        case!(withdrawing_lets_the_next_move_up, ["L2"], Queue),
        case!(a_grant_goes_only_to_the_inbox_of_its_ticket, ["S14"], Queue),
        case!(a_refused_try_leaves_no_ticket, ["T0-12"], Queue),
    ]
}

async fn a_waiter_is_queued_and_told_what_is_in_the_way(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    let queued = s
        .enqueue(s.ask(&Party::new("b"), &name), Mailbox::new().id())
        .await;
    assert_eq!((queued.position, queued.blocked.waiting), (0, 0));
    s.assert_ttl(queued.ttl, s.long());
    assert_eq!(queued.blocked.by, BlockedBy::Holder);
    assert_eq!(queued.blocked.holding.map(|h| h.token), Some(lease.token));
    let second = s
        .enqueue(s.ask(&Party::new("c"), &name), Mailbox::new().id())
        .await;
    assert_eq!((second.position, second.blocked.waiting), (1, 1));
}

async fn a_release_hands_over_and_tells_the_inbox(s: Scene) {
    let (name, a, b, mail) = (
        s.name("k"),
        Party::new("a"),
        Party::new("b"),
        Mailbox::new(),
    );
    let _watch = mail.arm(&s, None).await;
    let lease = s.take(&a, &name).await;
    s.enqueue(s.ask(&b, &name), mail.id()).await;
    assert!(mail.grants_of(&b.holder).is_empty());
    s.give_up(&a, &lease).await;
    let next = mail.granted(&s, &b.holder).await;
    let record = s.record(&name).await;
    assert_eq!(record.grants[0].holder, b.holder.digest());
    assert_eq!((record.grants[0].token, &next.name), (next.token, &name));
    assert!(record.tickets.is_empty());
    s.give_up(&b, &next).await;
}

async fn a_free_name_is_granted_without_queueing(s: Scene) {
    let name = s.name("k");
    let request = s.ask(&Party::new("a"), &name).queue(Mailbox::new().id());
    s.grant(&request).await;
    assert!(s.record(&name).await.tickets.is_empty());
}

async fn who_waits_is_listed(s: Scene) {
    let (name, b, mail) = (s.name("k"), Party::new("waiter@host"), Mailbox::new());
    s.take(&Party::new("a"), &name).await;
    s.enqueue(s.ask(&b, &name), mail.id()).await;
    let record = s.record(&name).await;
    let ticket = record.tickets.iter().next().expect("one waits");
    assert_eq!((&ticket.owner, ticket.inbox), (&b.owner, mail.id()));
    assert_eq!(ticket.holder, b.holder.digest());
}

async fn a_hand_over_grant_ends_when_the_ticket_would_have(s: Scene) {
    let (name, a, b, mail) = (
        s.name("k"),
        Party::new("a"),
        Party::new("b"),
        Mailbox::new(),
    );
    let _watch = mail.arm(&s, None).await;
    let lease = s.take(&a, &name).await;
    s.enqueue(s.ask_for(&b, &name, s.brief()), mail.id()).await;
    let ends = s
        .record(&name)
        .await
        .tickets
        .iter()
        .next()
        .unwrap()
        .expires_at;
    s.pass(s.brief().as_duration() / 2).await;
    s.give_up(&a, &lease).await;
    let next = mail.granted(&s, &b.holder).await;
    assert_eq!(next.expires_at, ends);
    assert_eq!(next.ttl, s.rounded(s.brief()) - s.brief().as_duration() / 2);
    s.pass(next.ttl).await;
    assert!(!s.is_held(&name).await);
}

async fn an_expiry_hands_over_at_the_next_touch(s: Scene) {
    let (name, b, mail) = (s.name("k"), Party::new("b"), Mailbox::new());
    let _watch = mail.arm(&s, None).await;
    s.take_for(&Party::new("a"), &name, s.brief()).await;
    s.enqueue(s.ask(&b, &name), mail.id()).await;
    s.outlive(s.brief()).await;
    let item = RenewItem::ticket(name.clone(), b.holder.clone(), s.long());
    let lease = s.renew_item(item).await.lease().cloned();
    let lease = lease.expect("the ticket became a grant");
    assert_eq!(mail.granted(&s, &b.holder).await.token, lease.token);
    s.refused(&Party::new("c"), &name).await;
}

async fn a_forced_end_hands_over(s: Scene) {
    let (name, b, mail) = (s.name("k"), Party::new("b"), Mailbox::new());
    let _watch = mail.arm(&s, None).await;
    s.take(&Party::new("a"), &name).await;
    s.enqueue(s.ask(&b, &name), mail.id()).await;
    s.force(&name, None).await;
    mail.granted(&s, &b.holder).await;
}

/// A waiter that missed its event still finds out.
async fn a_ticket_renewal_says_that_it_became_a_grant(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.take(&a, &name).await;
    let request = s.ask(&b, &name).queue(Mailbox::new().id());
    s.submit(&request).await;
    s.give_up(&a, &lease).await;
    let item = RenewItem::ticket(name.clone(), b.holder.clone(), s.long());
    let Renewed::Renewed(renewed) = s.renew_item(item).await else {
        panic!("the ticket became a grant");
    };
    assert_eq!(s.grant(&request).await.token, renewed.token);
}

async fn a_ticket_that_ran_out_cannot_be_renewed(s: Scene) {
    let (name, b) = (s.name("k"), Party::new("b"));
    s.take(&Party::new("a"), &name).await;
    s.enqueue(s.ask_for(&b, &name, s.brief()), Mailbox::new().id())
        .await;
    s.outlive(s.brief()).await;
    assert!(s.record(&name).await.tickets.is_empty());
    let answer = s
        .renew_item(RenewItem::ticket(name, b.holder, s.long()))
        .await;
    assert!(matches!(answer, Renewed::NotHeld(_)), "{answer:?}");
}

async fn a_ticket_cannot_be_added_to_or_handed_over(s: Scene) {
    let (name, b, c) = (s.name("k"), Party::new("b"), Party::new("c"));
    let lease = s.take(&Party::new("a"), &name).await;
    s.enqueue(s.ask(&b, &name), Mailbox::new().id()).await;
    let item = RenewItem::ticket(name, b.holder, s.long());
    let add = item.clone().add(s.long(), lease.expires_at);
    for bad in [add, item.heir(c.holder, c.owner)] {
        let error = s.try_renew(bad).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

async fn withdrawing_leaves_the_queue(s: Scene) {
    let (name, a, b, mail) = (
        s.name("k"),
        Party::new("a"),
        Party::new("b"),
        Mailbox::new(),
    );
    let _watch = mail.arm(&s, None).await;
    let lease = s.take(&a, &name).await;
    s.enqueue(s.ask(&b, &name), mail.id()).await;
    let withdrawn = s.withdraw(&b, std::slice::from_ref(&name)).await;
    assert_eq!((withdrawn.tickets, withdrawn.grants), (1, 0));
    assert!(s.record(&name).await.tickets.is_empty());
    s.give_up(&a, &lease).await;
    assert!(!s.is_held(&name).await);
    assert!(mail.grants_of(&b.holder).is_empty());
}

async fn withdrawing_after_the_grant_gives_it_back(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.take(&a, &name).await;
    s.enqueue(s.ask(&b, &name), Mailbox::new().id()).await;
    s.give_up(&a, &lease).await;
    assert!(s.is_held(&name).await, "handed over to b");
    let withdrawn = s.withdraw(&b, std::slice::from_ref(&name)).await;
    assert_eq!((withdrawn.tickets, withdrawn.grants), (0, 1));
    s.take(&Party::new("c"), &name).await;
}

async fn withdrawing_lets_the_next_move_up(s: Scene) {
    let (name, a, b, c) = (
        s.name("k"),
        Party::new("a"),
        Party::new("b"),
        Party::new("c"),
    );
    let mail = Mailbox::new();
    let _watch = mail.arm(&s, None).await;
    let lease = s.take(&a, &name).await;
    s.enqueue(s.ask(&b, &name), mail.id()).await;
    s.enqueue(s.ask(&c, &name), mail.id()).await;
    s.give_up(&a, &lease).await;
    s.withdraw(&b, std::slice::from_ref(&name)).await;
    mail.granted(&s, &c.holder).await;
    assert_eq!(s.record(&name).await.grants[0].holder, c.holder.digest());
}

async fn a_grant_goes_only_to_the_inbox_of_its_ticket(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let (mine, theirs) = (Mailbox::new(), Mailbox::new());
    let _mine = mine.arm(&s, None).await;
    let _theirs = theirs.arm(&s, None).await;
    let lease = s.take(&a, &name).await;
    s.enqueue(s.ask(&b, &name), mine.id()).await;
    s.give_up(&a, &lease).await;
    mine.granted(&s, &b.holder).await;
    assert_eq!(theirs.events(), []);
}

async fn a_refused_try_leaves_no_ticket(s: Scene) {
    let name = s.name("k");
    s.take(&Party::new("a"), &name).await;
    s.refused(&Party::new("b"), &name).await;
    assert!(s.record(&name).await.tickets.is_empty());
}
