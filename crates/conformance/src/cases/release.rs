//! Letting a lease go.

use leasehold_core::backend::{NotHeld, Release, Released};
use leasehold_core::{Ending, ErrorKind, Token};

use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_released_name_is_free_at_once,
            ["T4-25", "T0-01", "T0-08", "S2-02", "S1-03"]
        ),
        case!(releasing_twice_answers_the_same, ["T4-24", "S4-06", "S9"]),
        case!(
            releasing_an_unknown_name_finds_nothing,
            ["T4-21", "T0-21", "W0-12"]
        ),
        case!(
            releasing_by_another_holder_is_refused,
            ["T4-22", "S2-02", "S5", "W2-09"]
        ),
        case!(releasing_with_another_token_is_refused, ["S2-02", "S5"]),
        case!(
            releasing_ones_own_expired_lease_says_that_it_expired,
            ["T0-05", "S0-06", "S1-05", "W1-02"]
        ),
        case!(
            an_expired_name_released_by_another_holder_stays_free,
            ["T4-23", "W4-13", "S1-05"]
        ),
        case!(
            a_late_release_of_an_older_grant_leaves_the_same_holders_newer_one,
            ["etcd#22082", "S5"]
        ),
        case!(
            a_late_release_leaves_the_grant_of_a_successor,
            ["W0-01", "W4-13", "S5"]
        ),
        case!(releasing_several_answers_for_each, ["S4-06", "S13"]),
        case!(
            a_name_given_twice_is_refused_and_ends_nothing,
            ["S5", "S14"]
        ),
        case!(
            a_release_racing_a_renewal_never_leaves_the_name_held,
            ["dynamodb-lock-client#115", "etcd#20615"]
        ),
    ]
}

pub(super) fn why_not(answer: Released) -> NotHeld {
    match answer {
        Released::NotHeld(why) => *why,
        other => panic!("expected to find nothing to release, got {other:?}"),
    }
}

async fn a_released_name_is_free_at_once(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    s.give_up(&a, &lease).await;
    assert!(!s.is_held(&name).await);
    s.take(&Party::new("b"), &name).await;
}

async fn releasing_twice_answers_the_same(s: Scene) {
    let a = Party::new("a");
    let lease = s.take(&a, &s.name("k")).await;
    s.give_up(&a, &lease).await;
    s.give_up(&a, &lease).await;
}

/// The document calls this a success; whoever speaks for it turns "nothing there" into one.
async fn releasing_an_unknown_name_finds_nothing(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let request = Release::grant(name, a.holder, Token::new(1));
    let why = why_not(s.send_release(&request).await);
    assert_eq!((why.current, why.ended), (None, None));
}

async fn releasing_by_another_holder_is_refused(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    let before = s.record(&name).await;
    let why = why_not(s.release(&Party::new("a"), &lease).await);
    assert_eq!(why.current.map(|h| h.token), Some(lease.token));
    assert_eq!(s.record(&name).await, before);
}

async fn releasing_with_another_token_is_refused(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    for token in [lease.token.get() - 1, lease.token.get() + 1] {
        let request = Release::grant(name.clone(), a.holder.clone(), Token::new(token));
        why_not(s.send_release(&request).await);
    }
    assert!(s.is_held(&name).await);
}

async fn releasing_ones_own_expired_lease_says_that_it_expired(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take_for(&a, &name, s.brief()).await;
    s.outlive(s.brief()).await;
    assert!(!s.is_held(&name).await);
    let why = why_not(s.release(&a, &lease).await);
    assert_eq!(why.current, None);
    if let Some(end) = why.ended {
        assert_eq!((end.how, end.token), (Ending::Expired, lease.token));
        assert_eq!(end.holder, a.holder.digest());
    }
}

async fn an_expired_name_released_by_another_holder_stays_free(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let lease = s.take_for(&a, &name, s.brief()).await;
    s.outlive(s.brief()).await;
    let why = why_not(s.release(&b, &lease).await);
    assert_eq!((why.current, why.ended), (None, None), "it was never b's");
    s.take(&b, &name).await;
}

async fn a_late_release_of_an_older_grant_leaves_the_same_holders_newer_one(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let old = s.take(&a, &name).await;
    s.give_up(&a, &old).await;
    let new = s.take(&a, &name).await;
    s.release(&a, &old).await;
    assert_eq!(s.record(&name).await.grants[0].token, new.token);
    s.refused(&Party::new("b"), &name).await;
}

async fn a_late_release_leaves_the_grant_of_a_successor(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let old = s.take_for(&a, &name, s.brief()).await;
    s.outlive(s.brief()).await;
    let new = s.take(&b, &name).await;
    let why = why_not(s.release(&a, &old).await);
    assert_eq!(why.current.map(|h| h.token), Some(new.token));
    assert_eq!(s.record(&name).await.grants[0].token, new.token);
}

async fn releasing_several_answers_for_each(s: Scene) {
    let a = Party::new("a");
    let (x, z) = (
        s.take(&a, &s.name("x")).await,
        s.take(&a, &s.name("z")).await,
    );
    let missing = (s.name("y"), Token::new(1));
    let grants = [(x.name, x.token), missing, (z.name, z.token)];
    let request = Release::Grants {
        holder: a.holder,
        grants: grants.into_iter().collect(),
    };
    let answers = s.backend().release(&request).await.unwrap();
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[0], Released::Released);
    why_not(answers[1].clone());
    assert_eq!(answers[2], Released::Released);
}

async fn a_name_given_twice_is_refused_and_ends_nothing(s: Scene) {
    let (a, stranger, name) = (Party::new("a"), Party::new("stranger"), s.name("k"));
    let lease = s.take(&a, &name).await;
    for (holder, token) in [(&stranger.holder, Token::new(1)), (&a.holder, lease.token)] {
        let request = Release::Grants {
            holder: holder.clone(),
            grants: [(name.clone(), token), (name.clone(), token)]
                .into_iter()
                .collect(),
        };
        let refused = s.backend().release(&request).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(s.is_held(&name).await);
    }
}

async fn a_release_racing_a_renewal_never_leaves_the_name_held(s: Scene) {
    for round in 0..s.contention().rounds {
        let (name, a) = (s.name(&format!("k{round}")), Party::new("a"));
        let lease = s.take(&a, &name).await;
        let renewal = tokio::spawn({
            let (s, a, lease) = (s.clone(), a.clone(), lease.clone());
            async move { s.renew(&a, &lease, s.long()).await }
        });
        s.give_up(&a, &lease).await;
        renewal.await.unwrap();
        assert!(!s.is_held(&name).await, "round {round}: revived");
    }
}
