//! Reservations: what is confirmed can be freed, handed over, and ended by force.

use leasehold_core::ErrorKind;
use leasehold_core::backend::Released;
use leasehold_core::reservation::{Code, MAX_ENTITY, ReservationStatus};

use crate::case::{Case, case};
use crate::scene::Scene;
use crate::scene::reservations::{assert_code, book, found, refused, with_secret_of};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_freed_value_can_be_reserved_and_confirmed_again,
            ["W3-11", "S3-01", "W3-02"],
            Reservations
        ),
        case!(
            freeing_again_is_harmless_and_leaves_the_successor_alone,
            ["W3-11", "W3-05"],
            Reservations
        ),
        case!(
            a_claim_can_be_freed_elsewhere_with_its_pass,
            ["W3-11"],
            Reservations
        ),
        case!(
            what_is_only_reserved_can_be_neither_freed_nor_handed_over,
            ["W3-11", "S3-01"],
            Reservations
        ),
        case!(
            handing_over_changes_the_entity_and_the_secret,
            ["W3-11", "W3-05"],
            Reservations
        ),
        case!(
            an_old_secret_is_told_that_there_is_nothing_of_its_own,
            ["W3-11", "S3-03"],
            Reservations
        ),
        case!(
            handing_over_needs_an_entity,
            ["W3-11", "S3-04"],
            Reservations
        ),
        case!(
            a_wrong_secret_can_neither_free_nor_spend_nor_hand_over,
            ["W3-05", "W3-11"],
            Reservations
        ),
        case!(
            what_was_ended_by_force_says_by_whom_and_why,
            ["W3-11", "S3-03"],
            Reservations
        ),
        case!(a_lost_pass_is_made_up_for_by_force, ["W3-11"], Reservations),
        case!(
            force_ends_only_what_was_found,
            ["W3-11", "W3-02"],
            Reservations
        ),
        case!(
            an_heir_has_its_pass_before_it_inherits,
            ["W3-11", "W3-05"],
            Reservations
        ),
    ]
}

async fn a_freed_value_can_be_reserved_and_confirmed_again(s: Scene) {
    let names = s.reservations();
    let first = book(&names, "email", "a").await;
    first.confirm("user-1").await.unwrap().free().await.unwrap();
    assert!(!names.is_reserved("email", "a").await.unwrap());
    let seen = found(&names, "email", "a").await;
    assert_eq!(
        (seen.status, seen.entity),
        (ReservationStatus::Released, None)
    );
    let second = book(&names, "email", "a").await;
    assert!(second.token() > first.token());
    second.confirm("user-2").await.unwrap();
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.entity.as_deref(), Some("user-2"));
}

async fn freeing_again_is_harmless_and_leaves_the_successor_alone(s: Scene) {
    let names = s.reservations();
    let claim = book(&names, "email", "a").await.confirm("user-1").await;
    let claim = claim.unwrap();
    claim.free().await.unwrap();
    // The answer may have been lost.
    claim.free().await.unwrap();
    let successor = book(&names, "email", "a").await;
    drop(claim.free().await);
    refused(&names, "email", "a").await;
    successor.confirm("user-2").await.unwrap();
    assert_code(claim.free().await, Code::ReservationNotFound);
    assert_code(claim.hand_over("user-3").await, Code::ReservationNotFound);
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.entity.as_deref(), Some("user-2"));
}

async fn a_claim_can_be_freed_elsewhere_with_its_pass(s: Scene) {
    let claim = book(&s.reservations(), "email", "a").await;
    let text = claim.confirm("user-1").await.unwrap().pass().to_string();
    let there = s.reservations();
    let claim = there
        .resume_claim(&text.parse().unwrap(), "user-1")
        .unwrap();
    assert_eq!(
        (claim.entity(), claim.key().as_str()),
        ("user-1", "email:a")
    );
    claim.free().await.unwrap();
    assert!(!there.is_reserved("email", "a").await.unwrap());
}

async fn what_is_only_reserved_can_be_neither_freed_nor_handed_over(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let before = s.record(&s.name("email:a")).await;
    let claim = names.resume_claim(&reservation.pass(), "user-1").unwrap();
    let answers = [
        claim.free().await,
        claim.spend().await,
        claim.hand_over("user-2").await.map(drop),
    ];
    for answer in answers {
        answer.expect_err("nothing is confirmed");
    }
    assert_eq!(s.record(&s.name("email:a")).await, before);
    reservation.confirm("user-1").await.unwrap();
}

async fn handing_over_changes_the_entity_and_the_secret(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let old = reservation.confirm("user-1").await.unwrap();
    let new = old.hand_over("user-2").await.unwrap();
    assert_eq!((new.entity(), new.id()), ("user-2", old.id()));
    let elsewhere = names.resume(&reservation.pass()).unwrap();
    let answers = [
        old.free().await,
        old.spend().await,
        old.hand_over("user-3").await.map(drop),
        elsewhere.release().await,
        elsewhere.confirm("user-1").await.map(drop),
        elsewhere.confirm("user-2").await.map(drop),
    ];
    for answer in answers {
        answer.expect_err("it has another secret now");
    }
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.status, ReservationStatus::Confirmed);
    assert_eq!(seen.entity.as_deref(), Some("user-2"));
    new.hand_over("user-3").await.unwrap().free().await.unwrap();
    assert!(!names.is_reserved("email", "a").await.unwrap());
}

async fn an_old_secret_is_told_that_there_is_nothing_of_its_own(s: Scene) {
    let names = s.reservations();
    let claim = book(&names, "email", "a").await.confirm("user-1").await;
    let old = claim.unwrap();
    old.hand_over("user-2").await.unwrap();
    assert_code(old.free().await, Code::ReservationNotFound);
    assert_code(old.hand_over("user-3").await, Code::ReservationNotFound);
}

async fn handing_over_needs_an_entity(s: Scene) {
    let names = s.reservations();
    let claim = book(&names, "email", "a").await.confirm("user-1").await;
    let claim = claim.unwrap();
    let before = s.record(&s.name("email:a")).await;
    assert_code(claim.hand_over(" ").await, Code::EntityIdRequired);
    let long = "x".repeat(MAX_ENTITY + 1);
    assert_code(claim.hand_over(&long).await, Code::EntityIdTooLong);
    assert_eq!(s.record(&s.name("email:a")).await, before);
    claim.free().await.unwrap();
}

async fn a_wrong_secret_can_neither_free_nor_spend_nor_hand_over(s: Scene) {
    let names = s.reservations();
    let claim = book(&names, "email", "a").await.confirm("user-1").await;
    let claim = claim.unwrap();
    let other = book(&names, "email", "b").await;
    let before = s.record(&s.name("email:a")).await;
    let forged = with_secret_of(&claim.pass(), &other.pass());
    let thief = names.resume_claim(&forged, "user-1").unwrap();
    assert_code(thief.free().await, Code::ReservationNotFound);
    assert_code(thief.spend().await, Code::ReservationNotFound);
    assert_code(thief.hand_over("thief").await, Code::ReservationNotFound);
    assert_eq!(s.record(&s.name("email:a")).await, before);
    claim.free().await.unwrap();
}

async fn what_was_ended_by_force_says_by_whom_and_why(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let claim = book(&names, "email", "b").await.confirm("user-1").await;
    let claim = claim.unwrap();
    for key in ["email:a", "email:b"] {
        let record = s.record(&s.name(key)).await;
        let forced = s.force(&s.name(key), Some(record.last_token)).await;
        assert!(matches!(forced, Released::Forced(_)), "{forced:?}");
    }
    for error in [
        reservation.confirm("user-1").await.unwrap_err(),
        reservation.release().await.unwrap_err(),
        claim.free().await.unwrap_err(),
    ] {
        assert_eq!(error.code(), Some(Code::ReservationAlreadyReleased));
        assert_eq!(error.kind(), ErrorKind::Lost);
        let text = error.to_string();
        assert!(
            text.contains("operator") && text.contains("stuck"),
            "{text}"
        );
    }
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.status, ReservationStatus::Released);
    drop(book(&names, "email", "b").await);
}

async fn a_lost_pass_is_made_up_for_by_force(s: Scene) {
    let names = s.reservations();
    drop(book(&names, "email", "a").await);
    drop(book(&names, "email", "b").await.confirm("user-1").await);
    for value in ["a", "b"] {
        let lost = found(&names, "email", value).await;
        for reason in ["", " ", &"x".repeat(10_000)] {
            let answer = names.force(&lost, reason).await;
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert!(names.is_reserved("email", value).await.unwrap());
        assert!(names.force(&lost, "nobody has the pass").await.unwrap());
        assert!(!names.is_reserved("email", value).await.unwrap());
        drop(book(&names, "email", value).await);
    }
}

async fn force_ends_only_what_was_found(s: Scene) {
    let names = s.reservations();
    let first = book(&names, "email", "a").await;
    let seen = found(&names, "email", "a").await;
    first.release().await.unwrap();
    assert!(!names.force(&seen, "too late").await.unwrap());
    let second = book(&names, "email", "a").await;
    assert!(!names.force(&seen, "too late").await.unwrap());
    let claim = second.confirm("user-2").await.unwrap();
    assert!(!names.force(&seen, "too late").await.unwrap());
    assert!(names.is_reserved("email", "a").await.unwrap());
    claim.free().await.unwrap();
}

async fn an_heir_has_its_pass_before_it_inherits(s: Scene) {
    let names = s.reservations();
    let claim = book(&names, "email", "a").await.confirm("user-1").await;
    let claim = claim.unwrap();
    let heir = claim.heir("user-2").unwrap();
    let kept = heir.pass().to_string();
    assert_code(heir.free().await, Code::ReservationNotFound);
    assert_code(claim.heir(" "), Code::EntityIdRequired);
    let other = book(&names, "email", "b").await.confirm("user-1").await;
    let stranger = other.unwrap().heir("user-2").unwrap();
    let error = claim.hand_over_to(&stranger).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    claim.hand_over_to(&heir).await.unwrap();
    // The answer may have been lost.
    claim.hand_over_to(&heir).await.unwrap();
    let rival = claim.heir("user-3").unwrap();
    assert_code(claim.hand_over_to(&rival).await, Code::ReservationNotFound);
    let seen = found(&names, "email", "a").await;
    assert_eq!(seen.entity.as_deref(), Some("user-2"));
    let inherited = names.resume_claim(&kept.parse().unwrap(), "user-2");
    inherited.unwrap().free().await.unwrap();
}
