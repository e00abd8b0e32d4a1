//! Prolonging a lease.

use std::time::Duration;

use leasehold_core::backend::{Renew, RenewItem, Renewed};
use leasehold_core::{Ending, Lease, Timestamp, Token, Ttl};

use crate::case::{Case, case};
use crate::scene::{Party, Scene, text};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(renewing_prolongs_and_keeps_the_token, ["S2-03", "S6"]),
        case!(renewing_never_shortens, ["S6", "S12"]),
        case!(renewing_an_unknown_name_is_refused, ["T4-17"]),
        case!(renewing_by_another_holder_is_refused, ["T4-18", "S2-03"]),
        case!(renewing_with_another_token_is_refused, ["S2-03", "S5"]),
        case!(renew_after_expiry_is_refused, ["T4-20", "S6"]),
        case!(
            renew_after_release_is_refused,
            ["S6", "dynamodb-lock-client#115"]
        ),
        case!(
            renew_after_takeover_leaves_the_new_grant_alone,
            ["S5", "W2-04"]
        ),
        case!(
            adding_sums_durations_from_the_old_end,
            ["T4-19", "S4-05", "W4-08"]
        ),
        case!(
            adding_twice_after_a_lost_reply_adds_once,
            ["W4-02", "W4-03", "S9"]
        ),
        case!(
            adding_to_another_end_than_expected_adds_nothing,
            ["S4-05", "W4-03"]
        ),
        case!(adding_is_capped, ["W4-07"]),
        case!(
            each_item_of_a_batch_gets_its_own_answer,
            ["S8", "redisson-batch"]
        ),
        case!(renewing_can_replace_the_text, ["S0-12"], AtomicFacts),
    ]
}

fn renewed(answer: Renewed) -> Lease {
    answer
        .lease()
        .cloned()
        .unwrap_or_else(|| panic!("expected a renewal, got {answer:?}"))
}

fn adding(party: &Party, lease: &Lease, by: Ttl, if_expires_at: Timestamp) -> RenewItem {
    RenewItem::lease(lease.name.clone(), party.holder.clone(), lease.token, by)
        .add(by, if_expires_at)
}

async fn renewing_prolongs_and_keeps_the_token(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take_for(&a, &name, s.brief()).await;
    let longer = renewed(s.renew(&a, &lease, s.long()).await);
    assert_eq!(longer.token, lease.token);
    assert!(longer.expires_at > lease.expires_at);
    s.assert_ttl(longer.ttl, s.long());
    s.outlive(s.brief()).await;
    s.refused(&Party::new("b"), &name).await;
}

async fn renewing_never_shortens(s: Scene) {
    let a = Party::new("a");
    let lease = s.take_for(&a, &s.name("k"), s.long()).await;
    let same = renewed(s.renew(&a, &lease, s.brief()).await);
    assert_eq!(same.expires_at, lease.expires_at);
}

async fn renewing_an_unknown_name_is_refused(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let item = RenewItem::lease(name.clone(), a.holder, Token::new(1), s.long());
    let Renewed::NotHeld(why) = s.renew_item(item).await else {
        panic!("nothing was there to renew");
    };
    assert_eq!((why.current, why.ended), (None, None));
    assert!(!s.is_held(&name).await);
}

async fn renewing_by_another_holder_is_refused(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take_for(&a, &name, s.long()).await;
    let Renewed::NotHeld(why) = s.renew(&Party::new("a"), &lease, s.long()).await else {
        panic!("a stranger renewed the lease");
    };
    assert_eq!(why.current.map(|h| h.token), Some(lease.token));
    assert_eq!(s.record(&name).await.grants[0].expires_at, lease.expires_at);
}

async fn renewing_with_another_token_is_refused(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    for token in [lease.token.get() - 1, lease.token.get() + 1] {
        let item = RenewItem::lease(name.clone(), a.holder.clone(), Token::new(token), s.long());
        let answer = s.renew_item(item).await;
        assert!(matches!(answer, Renewed::NotHeld(_)), "{answer:?}");
    }
}

async fn renew_after_expiry_is_refused(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take_for(&a, &name, s.brief()).await;
    s.outlive(s.brief()).await;
    let Renewed::NotHeld(why) = s.renew(&a, &lease, s.long()).await else {
        panic!("the lease was revived");
    };
    assert_eq!(why.current, None);
    if let Some(end) = why.ended {
        assert_eq!((end.how, end.token), (Ending::Expired, lease.token));
    }
    assert!(!s.is_held(&name).await);
}

async fn renew_after_release_is_refused(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    s.give_up(&a, &lease).await;
    let answer = s.renew(&a, &lease, s.long()).await;
    assert!(matches!(answer, Renewed::NotHeld(_)), "{answer:?}");
    assert!(!s.is_held(&name).await);
}

async fn renew_after_takeover_leaves_the_new_grant_alone(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let old = s.take_for(&a, &name, s.brief()).await;
    s.outlive(s.brief()).await;
    let new = s.take(&b, &name).await;
    let before = s.record(&name).await;
    let Renewed::NotHeld(why) = s.renew(&a, &old, s.long()).await else {
        panic!("an old lease was renewed over a new one");
    };
    assert_eq!(why.current.map(|h| h.token), Some(new.token));
    assert_eq!(s.record(&name).await.grants, before.grants);
}

async fn adding_sums_durations_from_the_old_end(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take_for(&a, &name, s.long()).await;
    if s.is_virtual() {
        s.pass(Duration::from_secs(10)).await;
    }
    let item = adding(&a, &lease, s.long(), lease.expires_at);
    let longer = renewed(s.renew_item(item).await);
    let wanted = lease.expires_at.after(s.long().as_duration());
    assert!(longer.expires_at >= wanted, "{longer:?} before {wanted:?}");
    assert!(longer.expires_at <= lease.expires_at.after(s.rounded(s.long())));
}

async fn adding_twice_after_a_lost_reply_adds_once(s: Scene) {
    let a = Party::new("a");
    let lease = s.take(&a, &s.name("k")).await;
    let item = adding(&a, &lease, s.long(), lease.expires_at);
    let first = renewed(s.renew_item(item.clone()).await);
    let again = renewed(s.renew_item(item).await);
    assert_eq!(again.expires_at, first.expires_at);
}

async fn adding_to_another_end_than_expected_adds_nothing(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    let wrong = Timestamp::from_millis(lease.expires_at.as_millis() - 7);
    match s.renew_item(adding(&a, &lease, s.brief(), wrong)).await {
        Renewed::Changed(now) => assert_eq!(now.expires_at, lease.expires_at),
        other => panic!("expected to hear of the real end, got {other:?}"),
    }
    assert_eq!(s.record(&name).await.grants[0].expires_at, lease.expires_at);
}

async fn adding_is_capped(s: Scene) {
    let a = Party::new("a");
    let max = s.backend().describe().capabilities.max_ttl;
    let mut lease = s.take_for(&a, &s.name("k"), max).await;
    for _ in 0..3 {
        let item = adding(&a, &lease, max, lease.expires_at);
        lease = renewed(s.renew_item(item).await);
        assert!(lease.ttl <= Ttl::MAX.as_duration(), "{:?}", lease.ttl);
    }
}

async fn each_item_of_a_batch_gets_its_own_answer(s: Scene) {
    let a = Party::new("a");
    let (x, z) = (
        s.take(&a, &s.name("x")).await,
        s.take(&a, &s.name("z")).await,
    );
    let item = |name, token| RenewItem::lease(name, a.holder.clone(), token, s.long());
    let request = Renew {
        items: vec![
            item(x.name, x.token),
            item(s.name("y"), Token::new(1)),
            item(z.name, z.token),
        ],
    };
    let answers = s.backend().renew(&request).await.unwrap();
    let tokens: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.unwrap().lease().map(|l| l.token))
        .collect();
    assert_eq!(tokens, [Some(x.token), None, Some(z.token)]);
}

async fn renewing_can_replace_the_text(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let request = s.ask(&a, &name).metadata(Some(text("before")));
    let lease = s.grant(&request).await;
    let item = RenewItem::lease(name.clone(), a.holder.clone(), lease.token, s.long());
    renewed(s.renew_item(item.clone()).await);
    assert_eq!(
        s.record(&name).await.grants[0].metadata,
        Some(text("before"))
    );
    renewed(s.renew_item(item.metadata(text("after"))).await);
    assert_eq!(
        s.record(&name).await.grants[0].metadata,
        Some(text("after"))
    );
}
