//! Hints when a name may have become free.

use leasehold_core::backend::RenewItem;

use crate::Mailbox;
use crate::case::{Case, case};
use crate::scene::{Party, Scene, text, units};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_watcher_is_told_of_a_release,
            ["L2", "F26", "redisson#5761"],
            Watch
        ),
        case!(a_watcher_is_told_of_a_forced_end, ["L2"], Watch),
        case!(
            a_watcher_is_told_when_a_sweep_settles_an_expiry,
            ["L1", "L2"],
            Watch
        )
        .alone(),
        case!(
            a_watcher_is_told_of_a_larger_capacity,
            ["L2"],
            Watch,
            Quantities
        ),
        case!(a_watcher_is_told_of_new_text, ["S2-17"], Watch, AtomicFacts),
        case!(a_watch_is_armed_when_it_returns, ["L2", "F26"], Watch),
        case!(a_dropped_watch_is_silent, ["S15"], Watch),
        case!(one_inbox_can_watch_many_names, ["L2"], Watch),
    ]
}

async fn a_watcher_is_told_of_a_release(s: Scene) {
    let (name, a, mail) = (s.name("k"), Party::new("a"), Mailbox::new());
    let lease = s.take(&a, &name).await;
    let _watch = mail.arm(&s, Some(&name)).await;
    s.give_up(&a, &lease).await;
    mail.changed(&s, &name).await;
}

async fn a_watcher_is_told_of_a_forced_end(s: Scene) {
    let (name, mail) = (s.name("k"), Mailbox::new());
    s.take(&Party::new("a"), &name).await;
    let _watch = mail.arm(&s, Some(&name)).await;
    s.force(&name, None).await;
    mail.changed(&s, &name).await;
}

async fn a_watcher_is_told_when_a_sweep_settles_an_expiry(s: Scene) {
    let (name, mail) = (s.name("k"), Mailbox::new());
    s.take_for(&Party::new("a"), &name, s.brief()).await;
    let _watch = mail.arm(&s, Some(&name)).await;
    s.outlive(s.brief()).await;
    s.sweep_all().await;
    mail.changed(&s, &name).await;
}

async fn a_watcher_is_told_of_a_larger_capacity(s: Scene) {
    let (name, mail) = (s.name("k"), Mailbox::new());
    s.take(&Party::new("a"), &name).await;
    let _watch = mail.arm(&s, Some(&name)).await;
    s.backend()
        .set_capacity(&s.capacity(&name, Some(2)))
        .await
        .unwrap();
    mail.changed(&s, &name).await;
    s.grant(&s.ask(&Party::new("b"), &name).units(units(1), units(2)))
        .await;
}

async fn a_watcher_is_told_of_new_text(s: Scene) {
    let (name, a, mail) = (s.name("k"), Party::new("a"), Mailbox::new());
    let lease = s.take(&a, &name).await;
    let _watch = mail.arm(&s, Some(&name)).await;
    let item = RenewItem::lease(name.clone(), a.holder, lease.token, s.long());
    s.renew_item(item.metadata(text("result"))).await;
    mail.changed(&s, &name).await;
}

/// Arm, try, be refused, be told: no wake-up is missed between the last try and the wait.
async fn a_watch_is_armed_when_it_returns(s: Scene) {
    for round in 0..s.contention().rounds {
        let (name, a, mail) = (
            s.name(&format!("k{round}")),
            Party::new("a"),
            Mailbox::new(),
        );
        let lease = s.take(&a, &name).await;
        let _watch = mail.arm(&s, Some(&name)).await;
        s.refused(&Party::new("b"), &name).await;
        let release = tokio::spawn({
            let s = s.clone();
            async move { s.give_up(&a, &lease).await }
        });
        mail.changed(&s, &name).await;
        release.await.unwrap();
        s.take(&Party::new("b"), &name).await;
    }
}

async fn a_dropped_watch_is_silent(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let (ended, running) = (Mailbox::new(), Mailbox::new());
    let lease = s.take(&a, &name).await;
    drop(ended.arm(&s, Some(&name)).await);
    let _watch = running.arm(&s, Some(&name)).await;
    ended.clear();
    s.give_up(&a, &lease).await;
    running.changed(&s, &name).await;
    assert_eq!(ended.events(), []);
}

async fn one_inbox_can_watch_many_names(s: Scene) {
    let (a, mail) = (Party::new("a"), Mailbox::new());
    let mut watches = Vec::new();
    let mut leases = Vec::new();
    for number in 0..20 {
        let name = s.name(&format!("k{number}"));
        leases.push(s.take(&a, &name).await);
        watches.push(mail.arm(&s, Some(&name)).await);
    }
    for lease in &leases {
        s.give_up(&a, lease).await;
    }
    for lease in &leases {
        mail.changed(&s, &lease.name).await;
    }
}
