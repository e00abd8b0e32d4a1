//! Taking a name again that one has already.

use leasehold_core::ErrorKind;
use leasehold_core::backend::Own;

use crate::case::{Case, case};
use crate::scene::{Party, Scene, text, units};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            taking_ones_own_name_again_keeps_the_token,
            ["T4-16", "S4-04", "S9"]
        ),
        case!(refreshing_prolongs_but_never_shortens, ["S6", "W0-03"]),
        case!(replacing_may_shorten, ["T4-16", "S4-04"]),
        case!(
            replacing_brings_new_facts_and_keeping_none,
            ["S4-04"],
            AtomicFacts
        ),
        case!(keeping_leaves_the_end_where_it_was, ["S9"]),
        case!(
            ones_own_name_on_other_terms_is_an_error,
            ["S9", "S5"],
            Quantities
        ),
        case!(
            ones_own_expired_name_is_taken_with_a_new_token,
            ["T4-15", "S3"],
            Fencing
        ),
    ]
}

async fn taking_ones_own_name_again_keeps_the_token(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let first = s.take(&a, &name).await;
    for own in [Own::Refresh, Own::Keep, Own::Replace] {
        let next = s.grant(&s.ask(&a, &name).own(own)).await;
        assert_eq!(next.token, first.token, "{own:?}");
    }
    assert_eq!(s.record(&name).await.grants.len(), 1);
}

async fn refreshing_prolongs_but_never_shortens(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let first = s.take_for(&a, &name, s.brief()).await;
    let longer = s.take_for(&a, &name, s.long()).await;
    assert!(longer.expires_at > first.expires_at);
    let shorter = s.take_for(&a, &name, s.brief()).await;
    assert_eq!(shorter.expires_at, longer.expires_at);
}

async fn replacing_may_shorten(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let first = s.take_for(&a, &name, s.long()).await;
    let request = s.ask_for(&a, &name, s.brief()).own(Own::Replace);
    let second = s.grant(&request).await;
    assert!(second.expires_at < first.expires_at);
    s.outlive(s.brief()).await;
    s.take(&Party::new("b"), &name).await;
}

async fn replacing_brings_new_facts_and_keeping_none(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let says = |what: &str| s.ask(&a, &name).metadata(Some(text(what)));
    s.grant(&says("one")).await;
    s.grant(&says("two").own(Own::Keep)).await;
    assert_eq!(s.record(&name).await.grants[0].metadata, Some(text("one")));
    s.grant(&says("three").own(Own::Replace)).await;
    assert_eq!(
        s.record(&name).await.grants[0].metadata,
        Some(text("three"))
    );
}

async fn keeping_leaves_the_end_where_it_was(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let first = s.take_for(&a, &name, s.brief()).await;
    let kept = s.grant(&s.ask(&a, &name).own(Own::Keep)).await;
    assert_eq!(kept.expires_at, first.expires_at);
}

async fn ones_own_name_on_other_terms_is_an_error(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    s.take(&a, &name).await;
    let before = s.record(&name).await;
    for other in [
        s.ask(&a, &name).shared(),
        s.ask(&a, &name).units(units(2), units(3)),
    ] {
        let error = s.backend().acquire(&other).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert_eq!(s.record(&name).await, before);
}

async fn ones_own_expired_name_is_taken_with_a_new_token(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let first = s.take_for(&a, &name, s.brief()).await;
    s.outlive(s.brief()).await;
    let second = s.take(&a, &name).await;
    assert!(second.token > first.token);
}
