//! Tokens.

use std::collections::BTreeSet;

use leasehold_core::backend::{Acquired, Own, Renewed};
use leasehold_core::{Backend as _, Effect, ErrorKind, Kind, Token};

use crate::case::{Case, case};
use crate::scene::{Party, Scene, units};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            tokens_grow_across_every_way_a_grant_ends,
            ["S3", "G-01"],
            Fencing
        ),
        case!(tokens_grow_across_a_sweep, ["S3"], Fencing).alone(),
        case!(
            tokens_grow_across_a_freed_claim,
            ["S3", "S10"],
            Fencing,
            Reservations
        ),
        case!(tokens_grow_along_the_queue, ["S3"], Fencing, Queue),
        case!(
            tokens_of_units_held_together_differ,
            ["S3"],
            Fencing,
            Quantities
        ),
        case!(
            neither_tokens_nor_versions_come_back_once_a_name_is_forgotten,
            ["S3", "S15", "S2-18"],
            Fencing,
            VirtualTime
        )
        .alone(),
        case!(tokens_survive_json, ["S3"], Fencing),
        case!(tokens_never_repeat_under_contention, ["S3", "S1"], Fencing),
        case!(a_new_token_keeps_to_the_floor, ["S3"], Fencing),
        case!(
            tokens_grow_beyond_a_floor_once_the_name_is_forgotten,
            ["S3", "S15"],
            Fencing,
            VirtualTime
        )
        .alone(),
        case!(a_replaced_grant_is_raised_to_the_floor, ["S3"], Fencing),
        case!(
            a_grant_from_the_queue_keeps_to_the_floor,
            ["S3"],
            Fencing,
            Queue
        ),
        case!(a_floor_no_token_can_reach_is_refused, ["S3"]),
    ]
}

fn grew(last: &mut Token, next: Token, after: &str) {
    assert!(next > *last, "after {after}: {next:?} follows {last:?}");
    *last = next;
}

async fn tokens_grow_across_every_way_a_grant_ends(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let first = s.take(&a, &name).await;
    let mut last = first.token;
    s.give_up(&a, &first).await;
    grew(&mut last, s.take(&a, &name).await.token, "a release");
    s.force(&name, None).await;
    grew(&mut last, s.take(&a, &name).await.token, "a forced end");
    s.withdraw(&a, std::slice::from_ref(&name)).await;
    let brief = s.take_for(&a, &name, s.brief()).await;
    grew(&mut last, brief.token, "a withdrawal");
    s.outlive(s.brief()).await;
    let b = Party::new("b");
    grew(&mut last, s.take(&b, &name).await.token, "an expiry");
}

async fn tokens_grow_across_a_sweep(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let first = s.take_for(&a, &name, s.brief()).await;
    s.outlive(s.brief()).await;
    s.sweep_all().await;
    let second = s.take(&a, &name).await;
    assert!(second.token > first.token);
    s.give_up(&a, &second).await;
    s.sweep_all().await;
    let third = s.take(&a, &name).await;
    assert!(third.token > second.token);
}

async fn tokens_grow_across_a_freed_claim(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let claimed = s.claim(&a, &name, "user-1").await;
    s.send_release(&s.free_claim(&a, &claimed)).await;
    let request = s.ask(&a, &name).kind(Kind::Reservation);
    assert!(s.grant(&request).await.token > claimed.token);
}

async fn tokens_grow_along_the_queue(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let mail = crate::Mailbox::new();
    let _watch = mail.arm(&s, None).await;
    let mut held = (a.clone(), s.take(&a, &name).await);
    let waiters = [Party::new("b"), Party::new("c"), Party::new("d")];
    for waiter in &waiters {
        s.enqueue(s.ask(waiter, &name), mail.id()).await;
    }
    for waiter in waiters {
        s.give_up(&held.0, &held.1).await;
        let next = mail.granted(&s, &waiter.holder).await;
        assert!(next.token > held.1.token);
        held = (waiter, next);
    }
}

async fn tokens_of_units_held_together_differ(s: Scene) {
    let name = s.name("k");
    let mut last = Token::new(0);
    for holder in ["a", "b", "c"] {
        let request = s.ask(&Party::new(holder), &name).units(units(1), units(3));
        grew(&mut last, s.grant(&request).await.token, "another unit");
    }
}

/// A day is longer than any store remembers an ended lease.
async fn neither_tokens_nor_versions_come_back_once_a_name_is_forgotten(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let first = s.take(&a, &name).await;
    for _ in 0..100 {
        s.renew(&a, &first, s.long()).await;
    }
    let version = s.record(&name).await.version;
    s.give_up(&a, &first).await;
    s.pass(std::time::Duration::from_secs(86_400)).await;
    s.sweep_all().await;
    assert_eq!(s.get(&name).await, None, "it should be forgotten by now");
    let second = s.take(&a, &name).await;
    assert!(second.token > first.token);
    assert!(s.record(&name).await.version > version);
}

/// So far above `token` that no store gets there by itself within a case, not even one that counts microseconds.
fn above(token: Token) -> Token {
    Token::new(token.get() + 1_000_000_000)
}

async fn a_new_token_keeps_to_the_floor(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let mut held = s.take(&a, &name).await;
    for own in [Own::Refresh, Own::Keep, Own::Replace] {
        let floor = above(held.token);
        s.give_up(&a, &held).await;
        let request = s.ask(&a, &name).own(own);
        let raised = s.grant(&request.token_floor(floor).unwrap()).await;
        assert!(raised.token >= floor, "{own:?}: {raised:?}");
        s.give_up(&a, &raised).await;
        held = s.take(&a, &name).await;
        assert!(held.token > raised.token, "{own:?}: {held:?}");
    }
}

async fn tokens_grow_beyond_a_floor_once_the_name_is_forgotten(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let day = std::time::Duration::from_secs(86_400);
    let other = s.take(&a, &s.name("other")).await.token;
    // More than the day adds where tokens count microseconds.
    let floor = Token::new(other.get() + 2 * day.as_micros() as u64);
    let request = s.ask(&a, &name).token_floor(floor).unwrap();
    let raised = s.grant(&request).await;
    s.give_up(&a, &raised).await;
    s.pass(day).await;
    s.sweep_all().await;
    assert!(s.take(&a, &name).await.token > raised.token);
}

/// Only if it is to be replaced; a holder that merely asks again keeps its token.
async fn a_replaced_grant_is_raised_to_the_floor(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let first = s.take(&a, &name).await;
    let floor = above(first.token);
    let ask = |own| s.ask(&a, &name).own(own).token_floor(floor).unwrap();
    for own in [Own::Refresh, Own::Keep] {
        assert_eq!(s.grant(&ask(own)).await.token, first.token, "{own:?}");
    }
    let raised = s.grant(&ask(Own::Replace)).await;
    assert!(raised.token >= floor, "{raised:?}");
    let again = s.grant(&ask(Own::Replace)).await;
    assert_eq!(again.token, raised.token, "it was there already");
    let renewed = s.renew(&a, &first, s.long()).await;
    assert!(matches!(renewed, Renewed::NotHeld(_)), "{renewed:?}");
    s.give_up(&a, &raised).await;
    assert!(s.take(&a, &name).await.token > raised.token);
}

async fn a_grant_from_the_queue_keeps_to_the_floor(s: Scene) {
    let (name, a, b) = (s.name("k"), Party::new("a"), Party::new("b"));
    let mail = crate::Mailbox::new();
    let _watch = mail.arm(&s, None).await;
    let held = s.take(&a, &name).await;
    let floor = above(held.token);
    let request = s.ask(&b, &name).token_floor(floor).unwrap();
    s.enqueue(request, mail.id()).await;
    s.give_up(&a, &held).await;
    assert!(mail.granted(&s, &b.holder).await.token >= floor);
}

/// It is refused by the store as well, whoever wrote it into the request.
async fn a_floor_no_token_can_reach_is_refused(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let mut request = s.ask(&a, &name);
    request.token_floor = Token::new(Token::MAX.get() + 1);
    let error = s.backend().acquire(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(error.effect(), Effect::None);
    assert!(!s.is_held(&name).await);
}

async fn tokens_survive_json(s: Scene) {
    for key in ["x", "y", "z"] {
        let lease = s.take(&Party::new("a"), &s.name(key)).await;
        assert!(lease.token > Token::new(0) && lease.token <= Token::MAX);
    }
}

async fn tokens_never_repeat_under_contention(s: Scene) {
    let (name, limits) = (s.name("k"), s.contention());
    let tasks: Vec<_> = (0..limits.tasks)
        .map(|task| {
            let (s, name) = (s.clone(), name.clone());
            tokio::spawn(async move {
                let mut tokens = Vec::new();
                for _ in 0..limits.rounds {
                    let party = Party::new(&format!("t{task}"));
                    if let Acquired::Granted(leases) = s.submit(&s.ask(&party, &name)).await {
                        tokens.push(leases[0].token);
                        s.give_up(&party, &leases[0]).await;
                    }
                }
                tokens
            })
        })
        .collect();
    let mut seen = BTreeSet::new();
    for task in tasks {
        let tokens = task.await.unwrap();
        assert!(
            tokens.is_sorted(),
            "one task saw tokens go back: {tokens:?}"
        );
        for token in tokens {
            assert!(seen.insert(token), "{token:?} was given twice");
        }
    }
}
