//! The lock delay: quarantine after a lease that ran out.

use std::time::Duration;

use leasehold_core::backend::{Acquire, BlockedBy};

use crate::Mailbox;
use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            an_expired_lease_with_a_delay_keeps_the_name_closed,
            ["lock-delay", "L1"]
        ),
        case!(a_release_needs_no_delay, ["lock-delay"]),
        case!(a_forced_end_needs_no_delay, ["lock-delay"]),
        case!(
            the_delay_ends_to_the_millisecond,
            ["lock-delay"],
            VirtualTime
        ),
        case!(
            a_waiter_is_served_after_the_delay,
            ["lock-delay", "L2"],
            Queue,
            VirtualTime
        ),
    ]
}

fn delayed(s: &Scene, party: &Party, delay: Duration) -> Acquire {
    s.ask_for(party, &s.name("k"), s.brief())
        .lock_delay(delay)
        .expect("a valid delay")
}

async fn an_expired_lease_with_a_delay_keeps_the_name_closed(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    s.grant(&delayed(&s, &a, Duration::from_secs(600))).await;
    s.outlive(s.brief()).await;
    let blocked = s.refused(&Party::new("b"), &name).await;
    assert_eq!((blocked.by, blocked.holding), (BlockedBy::LockDelay, None));
    assert!(!s.is_held(&name).await);
    s.refused(&a, &name).await;
}

async fn a_release_needs_no_delay(s: Scene) {
    let a = Party::new("a");
    let lease = s.grant(&delayed(&s, &a, Duration::from_secs(600))).await;
    s.give_up(&a, &lease).await;
    s.take(&Party::new("b"), &s.name("k")).await;
}

async fn a_forced_end_needs_no_delay(s: Scene) {
    let name = s.name("k");
    s.grant(&delayed(&s, &Party::new("a"), Duration::from_secs(600)))
        .await;
    s.force(&name, None).await;
    s.take(&Party::new("b"), &name).await;
}

async fn the_delay_ends_to_the_millisecond(s: Scene) {
    let (name, delay) = (s.name("k"), Duration::from_secs(5));
    let lease = s.grant(&delayed(&s, &Party::new("a"), delay)).await;
    s.pass(lease.ttl + delay - Duration::from_millis(1)).await;
    let blocked = s.refused(&Party::new("b"), &name).await;
    assert_eq!(blocked.change_in, Some(Duration::from_millis(1)));
    s.pass(Duration::from_millis(1)).await;
    s.take(&Party::new("b"), &name).await;
}

async fn a_waiter_is_served_after_the_delay(s: Scene) {
    let (name, b, mail) = (s.name("k"), Party::new("b"), Mailbox::new());
    let (delay, _watch) = (Duration::from_secs(5), mail.arm(&s, None).await);
    let lease = s.grant(&delayed(&s, &Party::new("a"), delay)).await;
    s.enqueue(s.ask(&b, &name), mail.id()).await;
    s.pass(lease.ttl).await;
    let again = s.enqueue(s.ask(&b, &name), mail.id()).await;
    assert_eq!(again.blocked.by, BlockedBy::LockDelay);
    s.pass(delay).await;
    let granted = s.grant(&s.ask(&b, &name).queue(mail.id())).await;
    assert_eq!(mail.granted(&s, &b.holder).await.token, granted.token);
}
