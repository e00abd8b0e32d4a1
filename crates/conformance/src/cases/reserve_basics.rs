//! Reservations: asking for one value, and who gets it.

use std::time::Duration;

use leasehold_core::ErrorKind;
use leasehold_core::reservation::{
    Code, Remaining, ReservationId, ReservationStatus, Reservations, Reserve, ReserveOutcome,
};

use crate::case::{Case, case};
use crate::scene::Scene;
use crate::scene::reservations::{assert_code, book, found, refused};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_reservation_says_what_it_took_and_until_when,
            ["T3-01", "S3-01", "S3-03", "S2-11"],
            Reservations
        ),
        case!(
            a_correlation_id_is_kept_as_long_as_the_reservation,
            ["T3-02", "S3-14"],
            Reservations
        ),
        case!(
            the_first_wins_and_the_second_is_told_that_it_is_taken,
            ["T3-03", "S3-03"],
            Reservations
        ),
        case!(
            a_conflict_says_what_is_in_the_way_and_until_when,
            ["T3-04", "S3-06"],
            Reservations
        ),
        case!(
            a_blank_kind_or_value_is_refused,
            ["T3-14", "S3-03", "S3-04"],
            Reservations
        ),
        case!(
            a_request_that_is_wrong_leaves_the_record_as_it_was,
            ["S3-03", "S3-04"],
            Reservations
        ),
        case!(
            a_request_that_is_refused_leaves_the_record_as_it_was,
            ["S3-03", "W3-06"],
            Reservations
        ),
        case!(
            dropping_a_reservation_releases_nothing,
            ["S3-01", "S2-11"],
            Reservations
        ),
        case!(
            a_closed_manager_reserves_nothing_but_finishes_what_it_has,
            ["S3-01"],
            Reservations
        ),
        case!(
            the_options_of_a_manager_are_checked,
            ["S3-04", "S3-13"],
            Reservations
        ),
    ]
}

async fn a_reservation_says_what_it_took_and_until_when(s: Scene) {
    let names = s.reservations_with(|builder| builder.owner("signup"));
    let ttl = s.long();
    let outcome = names.reserve("email", "alice@example.com", ttl.as_duration());
    let ReserveOutcome::Reserved(reservation) = outcome.await.unwrap() else {
        panic!("nobody else wants it");
    };
    assert_eq!(reservation.key().as_str(), "email:alice@example.com");
    let id = ReservationId::of(&s.name("email:alice@example.com"));
    assert_eq!(reservation.id(), id);
    let left = reservation.remaining();
    assert!(!left.is_zero() && left <= s.rounded(ttl), "{left:?}");
    let seen = found(&names, "email", "alice@example.com").await;
    assert_eq!(seen.status, ReservationStatus::Reserved);
    assert_eq!((seen.id, &seen.key), (id, reservation.key()));
    assert_eq!(seen.expires_at, Some(reservation.expires_at()));
    assert_eq!(seen.token, reservation.token());
    assert_eq!(seen.owner.unwrap().as_str(), "signup");
    assert_eq!(seen.units.map(|units| units.get()), Some(1));
    let since = seen.created_at.expect("a live one says when it began");
    s.assert_ttl(reservation.expires_at().since(since), ttl);
    assert_eq!(
        (seen.confirmed_at, seen.ended_at, seen.entity),
        Default::default()
    );
}

async fn a_correlation_id_is_kept_as_long_as_the_reservation(s: Scene) {
    let names = s.reservations();
    let request = names.request().value("email", "a").text("from the form");
    let reservation = request.correlation("order \"7\"\n").reserve().await;
    let reservation = reservation.unwrap().reserved().unwrap();
    let noted = async || {
        let seen = found(&names, "email", "a").await;
        (seen.correlation.unwrap(), seen.text.unwrap())
    };
    let as_given = ("order \"7\"\n".to_owned(), "from the form".to_owned());
    assert_eq!(noted().await, as_given);
    reservation.confirm("user-1").await.unwrap();
    assert_eq!(noted().await, as_given);
    drop(book(&names, "email", "plain").await);
    let plain = found(&names, "email", "plain").await;
    assert_eq!((plain.correlation, plain.text), (None, None));
}

async fn the_first_wins_and_the_second_is_told_that_it_is_taken(s: Scene) {
    let (here, there) = (s.reservations(), s.reservations());
    let first = book(&here, "email", "a").await;
    for names in [&here, &there] {
        let conflict = refused(names, "email", "a").await;
        assert_eq!(conflict.code(), Code::AlreadyReserved);
        assert!(conflict.mine().is_none());
        let outcome = names.reserve("email", "a", s.long().as_duration()).await;
        assert_code(outcome.unwrap().reserved(), Code::AlreadyReserved);
    }
    first.confirm("user-1").await.unwrap();
}

async fn a_conflict_says_what_is_in_the_way_and_until_when(s: Scene) {
    let names = s.reservations();
    let first = book(&names, "email", "a").await;
    let conflict = refused(&names, "email", "a").await;
    assert_eq!(conflict.existing_id(), Some(first.id()));
    assert_eq!(conflict.existing_expires_at(), Some(first.expires_at()));
    let [taken] = &conflict.taken[..] else {
        panic!("one value was asked for: {conflict:?}");
    };
    assert_eq!((&taken.key, taken.id), (first.key(), first.id()));
    assert!(!taken.of_stock);
    assert_eq!((taken.requested, taken.available), (1, 0));
}

async fn a_blank_kind_or_value_is_refused(s: Scene) {
    let names = s.reservations();
    let ttl = s.long().as_duration();
    for blank in ["", " ", "\t\n", "\u{a0}\u{3000}"] {
        assert_code(names.reserve(blank, "x", ttl).await, Code::InvalidType);
        assert_code(names.reserve("x", blank, ttl).await, Code::InvalidValue);
        assert_code(names.reserve(blank, blank, ttl).await, Code::InvalidType);
        assert_code(
            names.reserve_units("x", blank, 1, ttl).await,
            Code::InvalidValue,
        );
    }
    assert_eq!(s.get(&s.name("x: ")).await, None);
}

/// Everything that can be wrong with a request for `email:a`.
fn wrong_requests(names: &Reservations) -> Vec<(Reserve, Code)> {
    let (request, long) = (|| names.request(), |length| "x".repeat(length));
    let good = || names.request().value("email", "a");
    vec![
        (request(), Code::EmptyReservation),
        (good().ttl(Duration::ZERO), Code::InvalidTtl),
        (good().ttl(Duration::MAX), Code::TtlTooLong),
        (good().value("", "b"), Code::InvalidType),
        (good().value("e:mail", "b"), Code::InvalidType),
        (good().value("e\0mail", "b"), Code::InvalidType),
        (good().value("email", " "), Code::InvalidValue),
        (good().value("email", "\0"), Code::InvalidValue),
        (good().value(&long(65), "b"), Code::TypeTooLong),
        (good().value("email", &long(1025)), Code::ValueTooLong),
        (good().units("email", "b", 0), Code::InvalidQuantity),
        (good().value("email", "a"), Code::DuplicateProductIds),
    ]
}

async fn a_request_that_is_wrong_leaves_the_record_as_it_was(s: Scene) {
    let names = s.reservations();
    let name = s.name("email:a");
    for (request, code) in wrong_requests(&names) {
        assert_code(request.reserve().await, code);
    }
    assert_eq!(s.get(&name).await, None);
    drop(book(&names, "email", "a").await);
    let before = s.record(&name).await;
    for (request, code) in wrong_requests(&names) {
        assert_code(request.reserve().await, code);
    }
    assert_eq!(s.record(&name).await, before);
    assert_eq!(s.get(&s.name("email:b")).await, None);
}

async fn a_request_that_is_refused_leaves_the_record_as_it_was(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let name = s.name("email:a");
    let before = s.record(&name).await;
    refused(&names, "email", "a").await;
    assert_eq!(s.record(&name).await, before);
    reservation.confirm("user-1").await.unwrap();
    let before = s.record(&name).await;
    refused(&names, "email", "a").await;
    assert_eq!(s.record(&name).await, before);
}

async fn dropping_a_reservation_releases_nothing(s: Scene) {
    let names = s.reservations();
    let pass = book(&names, "email", "a").await.pass();
    drop(names);
    let later = s.reservations();
    refused(&later, "email", "a").await;
    let claim = later
        .resume(&pass)
        .unwrap()
        .confirm("user-1")
        .await
        .unwrap();
    drop(claim);
    let left = later.remaining("email", "a").await.unwrap();
    assert_eq!(left, Some(Remaining::Forever));
}

async fn a_closed_manager_reserves_nothing_but_finishes_what_it_has(s: Scene) {
    let hourly = Some(Duration::from_secs(3600));
    let names = s.reservations_with(|builder| builder.sweep_every(hourly));
    let kept = book(&names, "email", "kept").await;
    let gone = book(&names, "email", "gone").await;
    let closing = names.shutdown(Duration::from_secs(10));
    s.in_time("the manager stops", closing).await.unwrap();
    let answer = names.request().value("email", "new").reserve().await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Closed);
    assert!(!names.is_reserved("email", "new").await.unwrap());
    kept.confirm("user-1").await.unwrap();
    gone.release().await.unwrap();
    assert!(names.is_reserved("email", "kept").await.unwrap());
    assert!(!names.is_reserved("email", "gone").await.unwrap());
}

async fn the_options_of_a_manager_are_checked(s: Scene) {
    let build = || Reservations::new(s.backend().clone());
    let here = || build().namespace(s.namespace());
    let zero = Some(Duration::ZERO);
    for (builder, kind) in [
        (build(), ErrorKind::Config),
        (build().namespace(""), ErrorKind::InvalidInput),
        (here().owner(""), ErrorKind::InvalidInput),
        (here().sweep_batch(0), ErrorKind::InvalidInput),
        (here().sweep_every(zero), ErrorKind::InvalidInput),
    ] {
        assert_eq!(builder.build().unwrap_err().kind(), kind);
    }
    assert_code(here().ttl(Duration::ZERO).build(), Code::InvalidTtl);
    assert_code(here().ttl(Duration::MAX).build(), Code::TtlTooLong);
    let names = here().build().unwrap();
    assert_eq!(names.namespace(), s.namespace());
    assert_eq!(
        names.store().describe().scheme,
        s.backend().describe().scheme
    );
}
