//! Reservations over a store that answers badly, or whose answers nobody waits for.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use leasehold_core::reservation::{Code, Reservation, Reserve, ReserveOutcome};
use leasehold_core::{Backend, Effect, ErrorKind};

use crate::case::{Case, case};
use crate::fault::{FaultBackend, Faults};
use crate::scene::Scene;
use crate::scene::reservations::{assert_code, book, book_units, found, granted};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_reservation_that_was_not_answered_is_given_back,
            ["S3-13", "S3-01"],
            Reservations
        ),
        case!(
            an_idempotent_request_that_was_not_answered_is_asked_again,
            ["S3-09", "S3-13"],
            Reservations
        ),
        case!(
            a_confirmation_that_was_not_answered_is_asked_again,
            ["S3-07", "S3-13"],
            Reservations
        ),
        case!(
            an_end_that_was_not_answered_is_asked_for_again,
            ["S3-08", "W3-11", "S3-13"],
            Reservations
        ),
        case!(
            units_are_spent_once_however_often_it_is_asked_for,
            ["S2-12", "W3-11"],
            Reservations,
            Quantities
        ),
        case!(
            a_store_that_cannot_be_asked_is_an_error_and_never_a_free_value,
            ["S3-13", "S3-03"],
            Reservations
        ),
        case!(
            a_request_that_is_dropped_leaves_nothing_behind,
            ["S3-13", "S3-01"],
            Reservations
        ),
        case!(
            over_a_bad_network_one_caller_wins_and_keeps_it,
            ["S3-09", "W3-06", "W3-16"],
            Reservations
        ),
        case!(
            an_inheritance_that_was_not_answered_is_asked_for_again,
            ["W3-11", "S3-13"],
            Reservations
        ),
    ]
}

type Network = Arc<FaultBackend<Arc<dyn Backend>>>;

/// The same stage over a network with these faults, which has none yet.
fn network(s: &Scene, faults: Faults) -> (Scene, Network) {
    let network = Arc::new(FaultBackend::random(Arc::clone(s.backend()), faults));
    network.heal();
    (s.over(network.clone()), network)
}

/// A network on which every answer is lost while it is broken.
fn mute(s: &Scene) -> (Scene, Network) {
    let faults = Faults {
        lost_reply: 1.0,
        ..Faults::NONE
    };
    network(s, faults)
}

/// Does something while every answer is lost, and expects to be told that nobody knows what came of it.
async fn unanswered<T: std::fmt::Debug>(
    network: &Network,
    call: impl Future<Output = leasehold_core::Result<T>>,
) {
    network.break_again();
    let answer = call.await;
    network.heal();
    let error = answer.expect_err("the answer was lost");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!((error.effect(), error.code()), (Effect::Unknown, None));
}

async fn a_reservation_that_was_not_answered_is_given_back(s: Scene) {
    let (s, network) = mute(&s);
    let names = s.reservations();
    let request = names.request().value("email", "a");
    unanswered(&network, request.clone().reserve()).await;
    let reservation = s.until_granted(request).await;
    reservation.confirm("user-1").await.unwrap();
}

async fn an_idempotent_request_that_was_not_answered_is_asked_again(s: Scene) {
    let (s, network) = mute(&s);
    let names = s.reservations();
    let request = names.request().value("email", "a").caller("me");
    unanswered(&network, request.clone().reserve()).await;
    let token = found(&names, "email", "a").await.token;
    let reservation = granted(request).await;
    assert_eq!(reservation.token(), token, "the lost one is still there");
    assert_eq!(s.record(&s.name("email:a")).await.grants.len(), 1);
    reservation.confirm("user-1").await.unwrap();
}

async fn a_confirmation_that_was_not_answered_is_asked_again(s: Scene) {
    let (s, network) = mute(&s);
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    unanswered(&network, reservation.confirm("user-1")).await;
    let other = reservation.confirm("user-2").await;
    assert_code(other, Code::ReservationAlreadyConfirmed);
    let claim = reservation.confirm("user-1").await.unwrap();
    assert_eq!(s.record(&s.name("email:a")).await.claims.len(), 1);
    claim.free().await.unwrap();
}

async fn an_end_that_was_not_answered_is_asked_for_again(s: Scene) {
    let (s, network) = mute(&s);
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    unanswered(&network, reservation.release()).await;
    reservation.release().await.unwrap();
    let claim = book(&names, "email", "a").await.confirm("user-1").await;
    let claim = claim.unwrap();
    unanswered(&network, claim.free()).await;
    claim.free().await.unwrap();
    assert!(!names.is_reserved("email", "a").await.unwrap());
}

async fn units_are_spent_once_however_often_it_is_asked_for(s: Scene) {
    let (s, network) = mute(&s);
    let shop = s.reservations();
    shop.set_stock("sku", "tv", 10).await.unwrap();
    let claim = book_units(&shop, "tv", 3).await.confirm("order-1").await;
    let claim = claim.unwrap();
    unanswered(&network, claim.spend()).await;
    unanswered(&network, claim.spend()).await;
    claim.spend().await.unwrap();
    assert_eq!(shop.stock("sku", "tv").await.unwrap().units, Some(7));
}

async fn a_store_that_cannot_be_asked_is_an_error_and_never_a_free_value(s: Scene) {
    let deaf = Faults {
        lost_request: 1.0,
        ..Faults::NONE
    };
    let (s, network) = network(&s, deaf);
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let claim = book(&names, "email", "b").await.confirm("user-1").await;
    let claim = claim.unwrap();
    network.break_again();
    let ttl = s.long().as_duration();
    let answers = [
        names.is_reserved("email", "a").await.map(drop),
        names.find("email", "a").await.map(drop),
        names.remaining("email", "b").await.map(drop),
        names.expire(100).await.map(drop),
        names.count_expired(100).await.map(drop),
        names.reserve("email", "c", ttl).await.map(drop),
        names
            .reserve_idempotent("email", "d", ttl, "me")
            .await
            .map(drop),
        reservation.extend(ttl).await.map(drop),
        reservation.confirm("user-1").await.map(drop),
        reservation.release().await,
        claim.hand_over("user-2").await.map(drop),
        claim.free().await,
    ];
    network.heal();
    for answer in answers {
        let error = answer.expect_err("the store was not asked");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!((error.effect(), error.code()), (Effect::None, None));
    }
    assert!(!names.is_reserved("email", "c").await.unwrap());
    reservation.confirm("user-2").await.unwrap();
    claim.free().await.unwrap();
}

/// Lets a request go on for so many steps, and drops it if it is not through by then.
async fn let_go_after(steps: usize, request: Reserve) -> Option<Reservation> {
    let mut request = pin!(request.reserve());
    for _ in 0..steps {
        let step = poll_fn(|context| match request.as_mut().poll(context) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending => Poll::Ready(None),
        });
        if let Some(outcome) = step.await {
            return outcome.unwrap().reserved().ok();
        }
    }
    None
}

async fn a_request_that_is_dropped_leaves_nothing_behind(s: Scene) {
    let slow = Faults {
        delay: 1.0,
        ..Faults::NONE
    };
    let (s, network) = network(&s, slow);
    network.break_again();
    let names = s.reservations();
    for steps in 0..12 {
        let request = || names.request().value("email", &format!("{steps}"));
        let through = let_go_after(steps, request()).await;
        if let Some(reservation) = through {
            reservation.release().await.unwrap();
        }
        drop(s.until_granted(request()).await);
        // A caller that is known by its name finds what it dropped.
        let request = || {
            names
                .request()
                .value("known", &format!("{steps}"))
                .caller("me")
        };
        let_go_after(steps, request()).await;
        granted(request()).await.confirm("user-1").await.unwrap();
    }
}

/// Asks until somebody answers.
async fn persist(request: Reserve) -> Option<Reservation> {
    loop {
        match request.clone().reserve().await {
            Ok(ReserveOutcome::Reserved(reservation)) => return Some(reservation),
            Ok(ReserveOutcome::Conflict(_)) => return None,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        tokio::task::yield_now().await;
    }
}

async fn over_a_bad_network_one_caller_wins_and_keeps_it(s: Scene) {
    let (s, network) = network(&s, Faults::SOME);
    let names = s.reservations();
    for round in 0..10 {
        let value = format!("{round}");
        let ask = |at: usize| {
            let request = names.request().value("email", &value);
            tokio::spawn(persist(request.caller(format!("caller {at}"))))
        };
        network.break_again();
        let mut won = Vec::new();
        for task in (0..s.contention().tasks).map(ask).collect::<Vec<_>>() {
            won.extend(s.joined("every caller is answered", task).await);
        }
        network.heal();
        assert_eq!(won.len(), 1, "fault seed {}", network.seed());
        won[0].confirm("user-1").await.unwrap();
        let record = s.record(&s.name(&format!("email:{round}"))).await;
        assert_eq!((record.claims.len(), record.grants.len()), (1, 0));
    }
}

async fn an_inheritance_that_was_not_answered_is_asked_for_again(s: Scene) {
    let (s, network) = mute(&s);
    let names = s.reservations();
    let claim = book(&names, "email", "a").await.confirm("user-1").await;
    let claim = claim.unwrap();
    let heir = claim.heir("user-2").unwrap();
    unanswered(&network, claim.hand_over_to(&heir)).await;
    claim.hand_over_to(&heir).await.unwrap();
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.entity.as_deref(), Some("user-2"));
    heir.free().await.unwrap();
}
