//! Reservations: letting go, running out, prolonging, and the second life of a value.

use std::time::Duration;

use leasehold_core::reservation::{Code, MAX_TTL, Remaining, ReservationStatus};

use crate::case::{Case, case};
use crate::scene::Scene;
use crate::scene::reservations::{assert_code, book, found, granted, refused};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            releasing_frees_the_value_at_once,
            ["T3-23", "S3-08", "S2-11"],
            Reservations
        ),
        case!(
            a_released_value_can_be_reserved_by_anybody,
            ["T3-24", "S3-08"],
            Reservations
        ),
        case!(
            releasing_what_was_confirmed_is_refused,
            ["T3-25", "S3-03", "W3-01"],
            Reservations
        ),
        case!(releasing_twice_is_refused, ["T3-26", "S3-03"], Reservations),
        case!(
            releasing_again_elsewhere_gives_the_same_answer,
            ["S3-08"],
            Reservations
        ),
        case!(
            releasing_too_late_is_refused_and_harms_nobody,
            ["T3-27", "S3-10", "S3-03", "W3-05"],
            Reservations
        ),
        case!(
            releasing_what_the_store_does_not_know_is_refused,
            ["T3-28", "S3-03"],
            Reservations
        ),
        case!(
            a_second_life_after_a_release_can_be_confirmed,
            ["W3-02", "S3-08"],
            Reservations
        ),
        case!(
            a_second_life_after_the_end_can_be_confirmed,
            ["W3-02", "S3-08", "S3-10"],
            Reservations
        ),
        case!(
            what_has_run_out_is_free_before_any_sweep,
            ["S3-10", "S3-01", "W2-07"],
            Reservations
        ),
        case!(
            at_the_very_end_it_is_over_for_everybody,
            ["W3-07", "S3-10"],
            Reservations,
            VirtualTime
        ),
        case!(a_reservation_can_be_prolonged, ["W3-09"], Reservations),
        case!(prolonging_never_shortens, ["W3-09"], Reservations),
        case!(
            prolonging_what_is_over_is_refused,
            ["W3-09", "S3-03"],
            Reservations
        ),
        case!(
            prolonging_has_the_same_bounds_as_reserving,
            ["W3-09", "S3-04"],
            Reservations
        ),
    ]
}

async fn releasing_frees_the_value_at_once(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    assert!(names.is_reserved("email", "a").await.unwrap());
    reservation.release().await.unwrap();
    assert!(!names.is_reserved("email", "a").await.unwrap());
    assert_eq!(names.remaining("email", "a").await.unwrap(), None);
    assert_eq!(names.find_active("email", "a").await.unwrap(), None);
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.status, ReservationStatus::Released);
    assert_eq!(
        (seen.id, seen.token),
        (reservation.id(), reservation.token())
    );
    assert!(seen.ended_at.is_some() && !seen.is_active());
    let now = s.harness().clock().wall();
    assert_eq!(seen.remaining_at(now), Remaining::For(Duration::ZERO));
}

async fn a_released_value_can_be_reserved_by_anybody(s: Scene) {
    let (here, there) = (s.reservations(), s.reservations());
    for names in [&here, &there, &here] {
        let reservation = book(names, "email", "a").await;
        refused(&here, "email", "a").await;
        reservation.release().await.unwrap();
    }
}

async fn releasing_what_was_confirmed_is_refused(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let elsewhere = s.reservations().resume(&reservation.pass()).unwrap();
    reservation.confirm("user-1").await.unwrap();
    for handle in [&reservation, &elsewhere] {
        assert_code(handle.release().await, Code::ReservationAlreadyConfirmed);
    }
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.entity.as_deref(), Some("user-1"));
}

async fn releasing_twice_is_refused(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let copy = reservation.clone();
    reservation.release().await.unwrap();
    assert_code(
        reservation.release().await,
        Code::ReservationAlreadyReleased,
    );
    assert_code(copy.release().await, Code::ReservationAlreadyReleased);
    assert_code(
        copy.extend(s.long().as_duration()).await,
        Code::ReservationAlreadyReleased,
    );
}

async fn releasing_again_elsewhere_gives_the_same_answer(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    reservation.release().await.unwrap();
    // Somebody who never heard of the first answer.
    let again = names.resume(&reservation.pass()).unwrap();
    again.release().await.unwrap();
    let successor = book(&names, "email", "a").await;
    drop(names.resume(&reservation.pass()).unwrap().release().await);
    successor.confirm("user-1").await.unwrap();
}

async fn releasing_too_late_is_refused_and_harms_nobody(s: Scene) {
    let names = s.reservations();
    let late = s.book_briefly(&names, "email", "a").await;
    s.outlive_brief_reservation().await;
    assert_code(late.release().await, Code::ReservationAlreadyExpired);
    let successor = book(&names, "email", "a").await;
    assert_code(late.release().await, Code::ReservationAlreadyExpired);
    refused(&names, "email", "a").await;
    successor.confirm("user-1").await.unwrap();
    late.release().await.unwrap_err();
    assert!(names.is_reserved("email", "a").await.unwrap());
}

async fn releasing_what_the_store_does_not_know_is_refused(s: Scene) {
    let pass = book(&s.reservations_elsewhere(), "email", "a").await.pass();
    let names = s.reservations();
    let stranger = names.resume(&pass).unwrap();
    assert_code(stranger.release().await, Code::ReservationNotFound);
    let real = book(&names, "email", "a").await;
    assert_code(stranger.release().await, Code::ReservationNotFound);
    real.confirm("user-1").await.unwrap();
}

async fn a_second_life_after_a_release_can_be_confirmed(s: Scene) {
    let names = s.reservations();
    let first = book(&names, "email", "a").await;
    first.release().await.unwrap();
    let second = book(&names, "email", "a").await;
    assert_eq!(second.id(), first.id());
    assert!(second.token() > first.token());
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.status, ReservationStatus::Reserved);
    let ghost = names.resume(&first.pass()).unwrap();
    assert_code(
        ghost.confirm("ghost").await,
        Code::ReservationAlreadyReleased,
    );
    second.confirm("user-2").await.unwrap();
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.entity.as_deref(), Some("user-2"));
}

async fn a_second_life_after_the_end_can_be_confirmed(s: Scene) {
    let names = s.reservations();
    let first = s.book_briefly(&names, "email", "a").await;
    s.outlive_brief_reservation().await;
    let second = book(&names, "email", "a").await;
    assert!(second.token() > first.token());
    assert_code(
        first.confirm("ghost").await,
        Code::ReservationAlreadyExpired,
    );
    second.confirm("user-2").await.unwrap();
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.entity.as_deref(), Some("user-2"));
    assert_code(first.release().await, Code::ReservationAlreadyExpired);
}

async fn what_has_run_out_is_free_before_any_sweep(s: Scene) {
    let names = s.reservations();
    let reservation = s.book_briefly(&names, "email", "a").await;
    s.outlive_brief_reservation().await;
    assert!(!names.is_reserved("email", "a").await.unwrap());
    assert_eq!(names.remaining("email", "a").await.unwrap(), None);
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.status, ReservationStatus::Expired);
    assert_eq!(seen.ended_at, Some(reservation.expires_at()));
    assert!(seen.is_expired_at(reservation.expires_at()));
    drop(book(&names, "email", "a").await);
}

/// Neither a moment when nobody has it and the sweep does not see it, nor one when both are so.
async fn at_the_very_end_it_is_over_for_everybody(s: Scene) {
    let names = s.reservations();
    let reservation = s.book_briefly(&names, "email", "a").await;
    let instant = Duration::from_millis(1);
    let ttl = reservation.remaining();
    s.pass(ttl - instant).await;
    assert!(names.is_reserved("email", "a").await.unwrap());
    assert_eq!(reservation.remaining(), instant);
    assert_eq!(names.count_expired(100).await.unwrap(), 0);
    refused(&names, "email", "a").await;
    s.pass(instant).await;
    assert!(!names.is_reserved("email", "a").await.unwrap());
    assert_eq!(names.count_expired(100).await.unwrap(), 1);
    assert_code(
        reservation.confirm("late").await,
        Code::ReservationAlreadyExpired,
    );
    drop(book(&names, "email", "a").await);
}

async fn a_reservation_can_be_prolonged(s: Scene) {
    let names = s.reservations();
    let reservation = s.book_briefly(&names, "email", "a").await;
    let longer = reservation.extend(s.long().as_duration()).await.unwrap();
    assert!(longer.expires_at() > reservation.expires_at());
    assert!(longer.remaining() > reservation.remaining());
    assert_eq!(longer.token(), reservation.token());
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.expires_at, Some(longer.expires_at()));
    s.outlive_brief_reservation().await;
    refused(&names, "email", "a").await;
    // The store decides, not the handle that has not heard of it.
    reservation.confirm("user-1").await.unwrap();
    assert_code(longer.release().await, Code::ReservationAlreadyConfirmed);
}

async fn prolonging_never_shortens(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let same = reservation.extend(s.brief_reservation()).await.unwrap();
    assert_eq!(same.expires_at(), reservation.expires_at());
    s.outlive_brief_reservation().await;
    assert!(names.is_reserved("email", "a").await.unwrap());
    assert!(!same.remaining().is_zero());
}

async fn prolonging_what_is_over_is_refused(s: Scene) {
    let names = s.reservations();
    let ttl = s.long().as_duration();
    let request = |value: &str| names.request().value("email", value);
    let confirmed = granted(request("confirmed")).await;
    confirmed.confirm("user-1").await.unwrap();
    let released = granted(request("released")).await;
    released.release().await.unwrap();
    for (ended, code) in [
        (&confirmed, Code::ReservationAlreadyConfirmed),
        (&released, Code::ReservationAlreadyReleased),
    ] {
        assert_code(ended.extend(ttl).await, code);
    }
    let elsewhere = names.resume(&confirmed.pass()).unwrap();
    assert_code(
        elsewhere.extend(ttl).await,
        Code::ReservationAlreadyConfirmed,
    );
    let expired = s.book_briefly(&names, "email", "expired").await;
    s.outlive_brief_reservation().await;
    assert_code(expired.extend(ttl).await, Code::ReservationAlreadyExpired);
    assert!(!names.is_reserved("email", "expired").await.unwrap());
}

async fn prolonging_has_the_same_bounds_as_reserving(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let before = s.record(&s.name("email:a")).await;
    let short = Duration::from_millis(999);
    assert_code(reservation.extend(short).await, Code::InvalidTtl);
    let long = MAX_TTL + Duration::from_millis(1);
    assert_code(reservation.extend(long).await, Code::TtlTooLong);
    assert_eq!(s.record(&s.name("email:a")).await, before);
}
