//! Reservations: keeping a value for good.

use leasehold_core::Kind;
use leasehold_core::backend::BlockedBy;
use leasehold_core::reservation::{Code, MAX_ENTITY, Remaining, ReservationStatus};

use crate::case::{Case, case};
use crate::scene::Scene;
use crate::scene::reservations::{assert_code, book, found, refused};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            confirming_links_the_entity_and_says_when,
            ["T3-15", "S3-07", "S2-11"],
            Reservations
        ),
        case!(
            a_confirmed_value_has_no_end,
            ["T3-16", "S3-07", "W3-08"],
            Reservations
        ),
        case!(
            a_confirmed_value_stays_taken,
            ["W3-01", "S3-07"],
            Reservations
        ),
        case!(
            confirming_too_late_is_refused_before_any_sweep,
            ["T3-17", "S3-10", "S3-03"],
            Reservations
        ),
        case!(
            confirming_twice_is_refused_and_the_first_entity_stays,
            ["T3-18", "S3-07", "S3-03"],
            Reservations
        ),
        case!(
            confirming_what_the_store_does_not_know_is_refused,
            ["T3-19", "S3-03"],
            Reservations
        ),
        case!(
            confirming_what_was_released_is_refused,
            ["T3-20", "S3-03"],
            Reservations
        ),
        case!(
            confirming_needs_an_entity,
            ["T3-21", "S3-03", "S3-04"],
            Reservations
        ),
        case!(
            a_wrong_entity_is_told_before_anything_else,
            ["T3-21", "S3-03"],
            Reservations
        ),
        case!(
            any_text_of_the_right_length_is_an_entity,
            ["T3-22", "S3-04", "W3-16"],
            Reservations
        ),
        case!(
            confirming_again_for_the_same_entity_gives_the_same_answer,
            ["S3-07"],
            Reservations
        ),
        case!(
            confirming_at_a_version_compares_it,
            ["S3-15", "W3-06", "S2-18"],
            Reservations
        ),
        case!(
            every_change_has_a_version_of_its_own,
            ["S3-15", "W3-06"],
            Reservations
        ),
        case!(
            a_version_counts_even_if_something_else_ran_out_unnoticed,
            ["S3-15", "S3-10"],
            Reservations,
            Quantities
        ),
    ]
}

async fn confirming_links_the_entity_and_says_when(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let before = found(&names, "email", "a").await;
    let claim = reservation.confirm("user-1").await.unwrap();
    assert_eq!(claim.entity(), "user-1");
    assert_eq!(
        (claim.id(), claim.key()),
        (reservation.id(), reservation.key())
    );
    let after = found(&names, "email", "a").await;
    assert_eq!(after.status, ReservationStatus::Confirmed);
    assert_eq!(after.entity.as_deref(), Some("user-1"));
    assert!(after.confirmed_at >= before.created_at);
    assert_eq!((after.token, after.ended_at), (before.token, None));
    let record = s.record(&s.name("email:a")).await;
    assert_eq!((record.kind, record.claims.len()), (Kind::Reservation, 1));
    assert!(record.grants.is_empty());
}

async fn a_confirmed_value_has_no_end(s: Scene) {
    let names = s.reservations();
    let reservation = s.book_briefly(&names, "email", "a").await;
    reservation.confirm("user-1").await.unwrap();
    s.outlive_brief_reservation().await;
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.status, ReservationStatus::Confirmed);
    assert_eq!(seen.expires_at, None);
    let now = s.harness().clock().wall();
    assert!(!seen.is_expired_at(now));
    assert_eq!(seen.remaining_at(now), Remaining::Forever);
    let left = names.remaining("email", "a").await.unwrap();
    assert_eq!(left, Some(Remaining::Forever));
}

async fn a_confirmed_value_stays_taken(s: Scene) {
    let (here, there) = (s.reservations(), s.reservations());
    let reservation = s.book_briefly(&here, "email", "a").await;
    reservation.confirm("user-1").await.unwrap();
    for round in 0..2 {
        for names in [&here, &there] {
            assert!(names.is_reserved("email", "a").await.unwrap());
            let conflict = refused(names, "email", "a").await;
            assert_eq!(conflict.code(), Code::AlreadyReserved);
            assert_eq!(conflict.existing_id(), Some(reservation.id()));
            assert_eq!(conflict.existing_expires_at(), None, "it has no end");
            assert_eq!(conflict.taken[0].by, BlockedBy::Claim);
        }
        if round == 0 {
            s.outlive_brief_reservation().await;
        }
    }
}

async fn confirming_too_late_is_refused_before_any_sweep(s: Scene) {
    let names = s.reservations();
    let reservation = s.book_briefly(&names, "email", "a").await;
    s.outlive_brief_reservation().await;
    assert!(reservation.remaining().is_zero());
    let again = names.resume(&reservation.pass()).unwrap();
    for late in [&reservation, &again] {
        assert_code(
            late.confirm("user-1").await,
            Code::ReservationAlreadyExpired,
        );
    }
    assert!(!names.is_reserved("email", "a").await.unwrap());
    // Another one has it by now, which changes nothing about how the first one ended.
    let other = book(&names, "email", "a").await;
    assert_code(
        reservation.confirm("user-1").await,
        Code::ReservationAlreadyExpired,
    );
    other.confirm("user-2").await.unwrap();
}

async fn confirming_twice_is_refused_and_the_first_entity_stays(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    reservation.confirm("user-1").await.unwrap();
    let elsewhere = s.reservations().resume(&reservation.pass()).unwrap();
    assert_code(
        reservation.confirm("user-1").await,
        Code::ReservationAlreadyConfirmed,
    );
    for handle in [&reservation, &reservation.clone(), &elsewhere] {
        assert_code(
            handle.confirm("user-2").await,
            Code::ReservationAlreadyConfirmed,
        );
    }
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.entity.as_deref(), Some("user-1"));
}

async fn confirming_what_the_store_does_not_know_is_refused(s: Scene) {
    let pass = book(&s.reservations_elsewhere(), "email", "a").await.pass();
    let names = s.reservations();
    let stranger = names.resume(&pass).unwrap();
    assert_code(stranger.confirm("user-1").await, Code::ReservationNotFound);
    assert!(!names.is_reserved("email", "a").await.unwrap());
}

async fn confirming_what_was_released_is_refused(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let elsewhere = s.reservations().resume(&reservation.pass()).unwrap();
    reservation.release().await.unwrap();
    for handle in [&reservation, &elsewhere] {
        assert_code(
            handle.confirm("user-1").await,
            Code::ReservationAlreadyReleased,
        );
    }
    assert!(!names.is_reserved("email", "a").await.unwrap());
}

async fn confirming_needs_an_entity(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let before = s.record(&s.name("email:a")).await;
    for blank in ["", " ", "\t\r\n", "\u{2003}", "nul\0"] {
        assert_code(reservation.confirm(blank).await, Code::EntityIdRequired);
    }
    let long = "x".repeat(MAX_ENTITY + 1);
    assert_code(reservation.confirm(&long).await, Code::EntityIdTooLong);
    assert_code(reservation.confirm_at("", 1).await, Code::EntityIdRequired);
    assert_eq!(s.record(&s.name("email:a")).await, before);
    reservation.confirm("user-1").await.unwrap();
}

async fn a_wrong_entity_is_told_before_anything_else(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    reservation.release().await.unwrap();
    assert_code(reservation.confirm(" ").await, Code::EntityIdRequired);
    let long = "x".repeat(MAX_ENTITY + 1);
    assert_code(reservation.confirm(&long).await, Code::EntityIdTooLong);
}

async fn any_text_of_the_right_length_is_an_entity(s: Scene) {
    let names = s.reservations();
    let (longest, pairs) = ("€".repeat(MAX_ENTITY), "\u{1f600}".repeat(MAX_ENTITY / 2));
    let entities = [
        "7",
        " user 1 ",
        "user:1/x?y=%2F#z",
        "{\"id\":\"1\"}",
        "'; drop table users; --",
        "Zoë\n\u{202e}\u{1f600}",
        &longest,
        &pairs,
    ];
    for (number, entity) in entities.into_iter().enumerate() {
        let value = format!("{number}");
        let reservation = book(&names, "email", &value).await;
        assert_eq!(reservation.confirm(entity).await.unwrap().entity(), entity);
        let seen = found(&names, "email", &value).await;
        assert_eq!(seen.entity.as_deref(), Some(entity));
    }
    let reservation = book(&names, "email", "long").await;
    let too_long = format!("{pairs}x");
    assert_code(reservation.confirm(&too_long).await, Code::EntityIdTooLong);
}

async fn confirming_again_for_the_same_entity_gives_the_same_answer(s: Scene) {
    let names = s.reservations();
    let reservation = s.book_briefly(&names, "email", "a").await;
    let pass = reservation.pass();
    reservation.confirm("user-1").await.unwrap();
    let before = s.record(&s.name("email:a")).await;
    s.outlive_brief_reservation().await;
    // Somebody who never heard of the first answer.
    let claim = names.resume(&pass).unwrap().confirm("user-1").await;
    assert_eq!(claim.unwrap().entity(), "user-1");
    assert_eq!(s.record(&s.name("email:a")).await, before);
}

async fn confirming_at_a_version_compares_it(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let seen = found(&names, "email", "a").await.version;
    drop(reservation.extend(s.long().as_duration()).await.unwrap());
    let before = s.record(&s.name("email:a")).await;
    for stale in [seen, 0, before.version + 1, u64::MAX] {
        assert_ne!(stale, before.version, "an extension is a change");
        let answer = reservation.confirm_at("user-1", stale).await;
        assert_code(answer, Code::VersionChanged);
    }
    assert_eq!(s.record(&s.name("email:a")).await, before);
    let claim = reservation.confirm_at("user-1", before.version).await;
    assert_eq!(claim.unwrap().entity(), "user-1");
}

async fn every_change_has_a_version_of_its_own(s: Scene) {
    let names = s.reservations();
    let mut versions = Vec::new();
    let mut look = async || versions.push(found(&names, "email", "a").await.version);
    let reservation = book(&names, "email", "a").await;
    look().await;
    let claim = reservation.confirm("user-1").await.unwrap();
    look().await;
    let claim = claim.hand_over("user-2").await.unwrap();
    look().await;
    claim.free().await.unwrap();
    look().await;
    book(&names, "email", "a").await.release().await.unwrap();
    look().await;
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
}

/// Nothing changed since the version was read, except that somebody else's time had been up before.
async fn a_version_counts_even_if_something_else_ran_out_unnoticed(s: Scene) {
    let names = s.reservations();
    names.set_stock("sku", "tv", 5).await.unwrap();
    let kept = names.request().units("sku", "tv", 1).reserve().await;
    let kept = kept.unwrap().reserved().unwrap();
    let brief = names.request().units("sku", "tv", 1);
    let brief = brief.ttl(s.brief_reservation()).reserve().await;
    drop(brief.unwrap().reserved().unwrap());
    s.outlive_brief_reservation().await;
    let version = found(&names, "sku", "tv").await.version;
    kept.confirm_at("order-1", version).await.unwrap();
}
