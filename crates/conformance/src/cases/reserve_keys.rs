//! Reservations: kinds and values, how they are written, and which spellings are one.

use leasehold_core::reservation::{
    Code, Key, MAX_KIND, MAX_VALUE, Normalise, ReservationStatus, Reservations,
};

use crate::case::{Case, case};
use crate::scene::Scene;
use crate::scene::reservations::{assert_code, book, found, refused};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_key_is_its_kind_a_colon_and_its_value,
            ["T3-32", "T3-33", "T3-34", "S3-02", "S3-17"],
            Reservations
        ),
        case!(
            one_value_can_be_reserved_under_two_kinds,
            ["T3-35", "S3-02"],
            Reservations
        ),
        case!(
            another_kind_is_free_although_the_first_is_confirmed,
            ["T3-36", "S3-02"],
            Reservations
        ),
        case!(
            a_key_without_kind_or_value_is_refused,
            ["T3-37", "T3-38", "T3-39", "T3-40", "S3-03", "W3-16"],
            Reservations
        ),
        case!(
            a_reservation_is_found_by_its_key,
            ["T3-41", "S3-12"],
            Reservations
        ),
        case!(
            a_reservation_is_found_by_kind_and_value,
            ["T3-42", "S3-12"],
            Reservations
        ),
        case!(
            what_was_never_reserved_is_not_found,
            ["T3-43", "S3-12"],
            Reservations
        ),
        case!(
            a_colon_in_the_kind_is_refused,
            ["T3-44", "S3-02"],
            Reservations
        ),
        case!(
            a_colon_in_the_value_is_part_of_it,
            ["T3-45", "S3-02"],
            Reservations
        ),
        case!(
            looking_up_a_wrong_key_is_an_error,
            ["S3-12", "S3-03", "S3-17"],
            Reservations
        ),
        case!(
            the_longest_kind_and_value_are_kept_as_they_are,
            ["S3-04", "W3-16"],
            Reservations
        ),
        case!(
            longer_kinds_and_values_are_refused,
            ["S3-04", "W3-16"],
            Reservations
        ),
        case!(
            values_are_neither_trimmed_nor_folded_unless_asked_for,
            ["S3-02", "W3-10"],
            Reservations
        ),
        case!(
            spellings_of_a_value_are_one_where_its_kind_says_so,
            ["W3-10"],
            Reservations
        ),
        case!(
            a_value_is_judged_as_it_is_spelled_in_the_end,
            ["W3-10", "S3-04"],
            Reservations
        ),
        case!(namespaces_share_no_values, ["S3-02"], Reservations),
    ]
}

async fn a_key_is_its_kind_a_colon_and_its_value(s: Scene) {
    let names = s.reservations();
    for (kind, value, text) in [
        ("email", "alice@example.com", "email:alice@example.com"),
        ("username", "alice", "username:alice"),
        ("phone", "+1-555-0123", "phone:+1-555-0123"),
    ] {
        let reservation = book(&names, kind, value).await;
        let key = reservation.key();
        assert_eq!(key.as_str(), text);
        assert_eq!((key.kind(), key.value()), (kind, value));
        assert_eq!(*key, Key::new(kind, value).unwrap());
        assert_eq!(*key, Key::parse(text).unwrap());
        assert_eq!(Key::try_new(kind, value).as_ref(), Some(key));
        assert_eq!(
            (Key::kind_of(text), Key::value_of(text)),
            (Some(kind), Some(value))
        );
        Key::check(text).unwrap();
        assert!(Key::is_valid(text) && s.is_held(&s.name(text)).await);
    }
}

async fn one_value_can_be_reserved_under_two_kinds(s: Scene) {
    let names = s.reservations();
    let email = book(&names, "email", "alice").await;
    let user = book(&names, "username", "alice").await;
    assert_ne!(email.id(), user.id());
    refused(&names, "email", "alice").await;
    email.release().await.unwrap();
    refused(&names, "username", "alice").await;
    user.confirm("user-1").await.unwrap();
    assert!(!names.is_reserved("email", "alice").await.unwrap());
}

async fn another_kind_is_free_although_the_first_is_confirmed(s: Scene) {
    let names = s.reservations();
    book(&names, "email", "alice")
        .await
        .confirm("user-1")
        .await
        .unwrap();
    assert!(!names.is_reserved("username", "alice").await.unwrap());
    book(&names, "username", "alice")
        .await
        .confirm("user-2")
        .await
        .unwrap();
    let entity = found(&names, "email", "alice").await.entity;
    assert_eq!(entity.as_deref(), Some("user-1"));
}

async fn a_key_without_kind_or_value_is_refused(s: Scene) {
    let names = s.reservations();
    let ttl = s.long().as_duration();
    for missing in ["", "   "] {
        assert_code(
            names.reserve(missing, "alice", ttl).await,
            Code::InvalidType,
        );
        assert_code(
            names.reserve("email", missing, ttl).await,
            Code::InvalidValue,
        );
        assert_code(
            names.reserve(missing, missing, ttl).await,
            Code::InvalidType,
        );
        assert_code(Key::new(missing, "alice"), Code::TypeRequired);
        assert_code(Key::new("email", missing), Code::ValueRequired);
        assert_code(Key::new(missing, missing), Code::KeyEmpty);
        assert_eq!(Key::try_new(missing, "alice"), None);
    }
}

async fn a_reservation_is_found_by_its_key(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "alice@example.com").await;
    let seen = names.find_key("email:alice@example.com").await.unwrap();
    let seen = seen.expect("it is reserved");
    assert_eq!(
        (seen.id, seen.token),
        (reservation.id(), reservation.token())
    );
}

async fn a_reservation_is_found_by_kind_and_value(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "alice@example.com").await;
    let seen = found(&names, "email", "alice@example.com").await;
    assert_eq!(
        (seen.id, seen.token),
        (reservation.id(), reservation.token())
    );
    let active = names.find_active("email", "alice@example.com").await;
    let active = active.unwrap().unwrap();
    assert_eq!((active.id, active.version), (seen.id, seen.version));
}

async fn what_was_never_reserved_is_not_found(s: Scene) {
    let names = s.reservations();
    drop(book(&names, "email", "alice").await);
    assert_eq!(names.find_key("email:bob").await.unwrap(), None);
    assert_eq!(names.find("email", "bob").await.unwrap(), None);
    assert_eq!(names.find("username", "alice").await.unwrap(), None);
    assert_eq!(names.find_active("email", "bob").await.unwrap(), None);
    assert_eq!(names.find_all("email", "bob").await.unwrap(), []);
    assert!(!names.is_reserved("email", "bob").await.unwrap());
}

async fn a_colon_in_the_kind_is_refused(s: Scene) {
    let names = s.reservations();
    let ttl = s.long().as_duration();
    for kind in ["e:mail", ":email", "email:", ":"] {
        assert_code(names.reserve(kind, "alice", ttl).await, Code::InvalidType);
        assert_code(Key::new(kind, "alice"), Code::TypeContainsSeparator);
    }
    assert_eq!(s.get(&s.name("e:mail:alice")).await, None);
}

async fn a_colon_in_the_value_is_part_of_it(s: Scene) {
    let names = s.reservations();
    for value in ["https://example.com:8080", ":", "::", "a:", ":a"] {
        let reservation = book(&names, "url", value).await;
        assert_eq!(reservation.key().value(), value);
        let seen = names.find_key(&format!("url:{value}")).await.unwrap();
        let key = seen.expect("it is reserved").key;
        assert_eq!((key.kind(), key.value()), ("url", value));
    }
}

async fn looking_up_a_wrong_key_is_an_error(s: Scene) {
    let names = s.reservations();
    assert_code(names.find("", "x").await, Code::InvalidType);
    assert_code(names.find_active("a:b", "x").await, Code::InvalidType);
    assert_code(names.find_all("x", " ").await, Code::InvalidValue);
    assert_code(names.is_reserved("x", "").await, Code::InvalidValue);
    assert_code(names.remaining(" ", "x").await, Code::InvalidType);
    let long_kind = format!("{}:x", "k".repeat(MAX_KIND + 1));
    let long_value = format!("x:{}", "v".repeat(MAX_VALUE + 1));
    for (text, code) in [
        ("", Code::KeyEmpty),
        ("  ", Code::KeyEmpty),
        ("nocolon", Code::InvalidKeyFormat),
        (":x", Code::TypeRequired),
        (" :x", Code::TypeRequired),
        ("x:", Code::ValueEmpty),
        ("x: ", Code::ValueEmpty),
        (&*long_kind, Code::TypeTooLong),
        (&*long_value, Code::ValueTooLong),
    ] {
        assert_code(names.find_key(text).await, code);
        assert_code(Key::check(text), code);
        assert!(!Key::is_valid(text));
    }
}

async fn the_longest_kind_and_value_are_kept_as_they_are(s: Scene) {
    let names = s.reservations();
    for (kind, value) in [
        ("k".repeat(MAX_KIND), "v".repeat(MAX_VALUE)),
        ("€".repeat(MAX_KIND), "€".repeat(MAX_VALUE)),
        (
            "\u{1f600}".repeat(MAX_KIND / 2),
            "\u{1f600}".repeat(MAX_VALUE / 2),
        ),
        ("k k".to_owned(), " a\n\"b\"\t/%2F\\%'\u{202e}é ".to_owned()),
    ] {
        let reservation = book(&names, &kind, &value).await;
        refused(&names, &kind, &value).await;
        reservation.confirm("user-1").await.unwrap();
        let seen = found(&names, &kind, &value).await;
        assert_eq!((seen.key.kind(), seen.key.value()), (&*kind, &*value));
        assert_eq!(seen.status, ReservationStatus::Confirmed);
    }
}

async fn longer_kinds_and_values_are_refused(s: Scene) {
    let names = s.reservations();
    let ttl = s.long().as_duration();
    let pairs = |count| format!("{}x", "\u{1f600}".repeat(count));
    for kind in ["k".repeat(MAX_KIND + 1), pairs(MAX_KIND / 2)] {
        assert_code(names.reserve(&kind, "x", ttl).await, Code::TypeTooLong);
        assert_code(Key::new(&kind, "x"), Code::TypeTooLong);
    }
    for value in ["v".repeat(MAX_VALUE + 1), pairs(MAX_VALUE / 2)] {
        assert_code(names.reserve("x", &value, ttl).await, Code::ValueTooLong);
        assert_code(Key::new("x", &value), Code::ValueTooLong);
    }
}

async fn values_are_neither_trimmed_nor_folded_unless_asked_for(s: Scene) {
    let names = s.reservations();
    let spellings = ["alice", "Alice", " alice", "alice ", "e\u{301}", "é"];
    for value in spellings {
        drop(book(&names, "username", value).await);
    }
    for value in spellings {
        assert_eq!(found(&names, "username", value).await.key.value(), value);
    }
}

/// A manager that spells addresses in small letters and phone numbers without dashes.
fn spelling(s: &Scene) -> Reservations {
    s.reservations_with(|builder| {
        let email = Normalise::new().trim().compose().lowercase();
        let phone = Normalise::new().with(|value| value.replace('-', ""));
        builder.normalise("email", email).normalise("phone", phone)
    })
}

async fn spellings_of_a_value_are_one_where_its_kind_says_so(s: Scene) {
    let names = spelling(&s);
    let email = book(&names, "email", "  E\u{301}va@Example.com ").await;
    assert_eq!(email.key().as_str(), "email:éva@example.com");
    for spelled in [
        "éva@example.com",
        "ÉVA@EXAMPLE.COM",
        "\tE\u{301}va@example.com",
    ] {
        let conflict = refused(&names, "email", spelled).await;
        assert_eq!(conflict.existing_id(), Some(email.id()));
        assert!(names.is_reserved("email", spelled).await.unwrap());
        let seen = names.find_key(&format!("email:{spelled}")).await.unwrap();
        assert_eq!(seen.map(|seen| seen.id), Some(email.id()));
    }
    drop(book(&names, "phone", "+1-555-0123").await);
    refused(&names, "phone", "+15550123").await;
    for value in ["Alice", "alice"] {
        drop(book(&names, "username", value).await);
    }
    email.release().await.unwrap();
    drop(book(&names, "email", "ÉVA@example.com").await);
}

async fn a_value_is_judged_as_it_is_spelled_in_the_end(s: Scene) {
    let names = spelling(&s);
    let ttl = s.long().as_duration();
    assert_code(names.reserve("phone", "---", ttl).await, Code::InvalidValue);
    let longest = format!("  {}  ", "v".repeat(MAX_VALUE));
    drop(book(&names, "email", &longest).await);
    let twice = names.request().value("email", "A").value("email", "a");
    assert_code(twice.reserve().await, Code::DuplicateProductIds);
    assert!(!names.is_reserved("email", "a").await.unwrap());
}

async fn namespaces_share_no_values(s: Scene) {
    let here = s.reservations();
    let other = format!("{}-2", s.namespace());
    let there = s.reservations_with(|builder| builder.namespace(other));
    let ours = book(&here, "email", "a").await;
    let theirs = book(&there, "email", "a").await;
    assert_ne!(ours.id(), theirs.id());
    ours.confirm("user-1").await.unwrap();
    theirs.release().await.unwrap();
    assert!(here.is_reserved("email", "a").await.unwrap());
    assert!(!there.is_reserved("email", "a").await.unwrap());
}
