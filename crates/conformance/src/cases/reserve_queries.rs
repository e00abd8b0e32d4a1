//! Reservations: looking them up and listing them.

use std::time::Duration;

use leasehold_core::reservation::{
    Code, Found, Key, MAX_ID, Query, Remaining, ReservationId, ReservationStatus, Reservations,
};
use leasehold_core::{Kind, Ttl};

use crate::case::{Case, case};
use crate::scene::reservations::{assert_code, book, found};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_reservation_is_found_by_its_id,
            ["S3-12", "S3-05"],
            Reservations,
            List
        ),
        case!(
            an_id_that_nothing_has_finds_nothing,
            ["S3-12", "S3-03", "S3-04"],
            Reservations,
            List
        ),
        case!(
            short_ids_are_those_of_older_systems,
            ["S3-05"],
            Reservations,
            List
        ),
        case!(
            keys_whose_short_ids_collide_do_not_know_each_other,
            ["W3-04", "S3-05"],
            Reservations,
            List
        ),
        case!(
            everything_of_an_entity_is_found,
            ["S3-12"],
            Reservations,
            List
        ),
        case!(
            a_list_can_be_limited_to_a_kind,
            ["S3-12"],
            Reservations,
            List
        ),
        case!(
            a_list_can_be_limited_to_a_state,
            ["S3-12"],
            Reservations,
            List
        ),
        case!(a_list_comes_in_pages, ["S3-12"], Reservations, List),
        case!(
            what_else_is_in_the_namespace_does_not_end_a_list,
            ["S3-12"],
            Reservations,
            List
        ),
        case!(
            what_is_left_shrinks_until_it_is_forever,
            ["S3-12", "W3-16"],
            Reservations
        ),
        case!(
            what_ended_is_known_but_not_active,
            ["S3-12", "S3-01"],
            Reservations
        ),
    ]
}

async fn a_reservation_is_found_by_its_id(s: Scene) {
    let names = s.reservations();
    for value in ["a", "b", "c"] {
        drop(book(&names, "email", value).await);
    }
    let reservation = book(&names, "email", "wanted").await;
    let id = reservation.id().to_string();
    assert_eq!(ReservationId::parse(&id).unwrap(), Some(reservation.id()));
    let seen = names.get(&id).await.unwrap();
    let by_key = found(&names, "email", "wanted").await;
    let by_id = names.find_id(&id).await.unwrap().unwrap();
    for other in [by_key, by_id] {
        assert_eq!((other.id, other.version), (seen.id, seen.version));
    }
    reservation.confirm("user-1").await.unwrap();
    assert_eq!(
        names.get(&id).await.unwrap().entity.as_deref(),
        Some("user-1")
    );
    let released = book(&names, "email", "released").await;
    released.release().await.unwrap();
    let seen = names.get(&released.id().to_string()).await.unwrap();
    assert_eq!(seen.status, ReservationStatus::Released);
}

async fn an_id_that_nothing_has_finds_nothing(s: Scene) {
    let names = s.reservations();
    let key = book(&names, "email", "a").await.key().clone();
    let unknown = ReservationId::of(&s.name("email:b")).to_string();
    for unknown in [&*unknown, &key.short_id(), "rsv_", &"x".repeat(MAX_ID)] {
        assert_eq!(names.find_id(unknown).await.unwrap(), None, "{unknown}");
        assert_code(names.get(unknown).await, Code::ReservationNotFound);
    }
    for (wrong, code) in [
        ("", Code::ReservationIdRequired),
        (" \t", Code::ReservationIdRequired),
        (&*"x".repeat(MAX_ID + 1), Code::ReservationIdTooLong),
    ] {
        assert_code(names.find_id(wrong).await, code);
        assert_code(names.get(wrong).await, code);
        assert_code(names.find_short_id(wrong).await, code);
    }
}

async fn short_ids_are_those_of_older_systems(s: Scene) {
    let names = s.reservations();
    for (key, id) in [
        ("email:alice@example.com", "res_f744ee56"),
        ("username:alice", "res_c2dbfc0b"),
        ("email:alice", "res_d9a402f1"),
        ("url:https://example.com:8080", "res_25db0398"),
        ("phone:+1-555-0123", "res_dc0f052c"),
        ("a:b", "res_0b873e5c"),
        ("username:\u{e9}", "res_586b7320"),
        ("username:\u{1f600}", "res_65e1f474"),
    ] {
        let parsed = Key::parse(key).unwrap();
        drop(book(&names, parsed.kind(), parsed.value()).await);
        assert_eq!(parsed.short_id(), id);
        let found = names.find_short_id(id).await.unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].key.as_str(), key);
    }
    assert_eq!(names.find_short_id("res_00000000").await.unwrap(), []);
}

async fn keys_whose_short_ids_collide_do_not_know_each_other(s: Scene) {
    let names = s.reservations();
    let (one, other) = ("user3349094@example.com", "user4805900@example.com");
    let ttl = s.long().as_duration();
    let reserve = async |value: &str| {
        let outcome = names.reserve_idempotent("email", value, ttl, "me").await;
        outcome.unwrap().reserved().unwrap()
    };
    let (first, second) = (reserve(one).await, reserve(other).await);
    assert_eq!(first.key().short_id(), second.key().short_id());
    assert_ne!(first.id(), second.id());
    assert_eq!(second.key().value(), other);
    second.confirm("user-2").await.unwrap();
    let status = async |value: &str| found(&names, "email", value).await.status;
    assert_eq!(status(one).await, ReservationStatus::Reserved);
    assert_eq!(status(other).await, ReservationStatus::Confirmed);
    let both = names.find_short_id(&first.key().short_id()).await.unwrap();
    assert_eq!(values(&both), [one, other]);
}

fn values(found: &[Found]) -> Vec<&str> {
    found.iter().map(|found| found.key.value()).collect()
}

async fn everything_of_an_entity_is_found(s: Scene) {
    let names = s.reservations();
    for (value, entity) in [("a", "user-1"), ("b", "user-2"), ("c", "user-1")] {
        book(&names, "email", value)
            .await
            .confirm(entity)
            .await
            .unwrap();
    }
    let phone = book(&names, "phone", "d").await.confirm("user-1").await;
    drop(book(&names, "email", "user-1").await);
    let all = names.find_entity("user-1").await.unwrap();
    assert_eq!(values(&all), ["a", "c", "d"]);
    phone.unwrap().hand_over("user-2").await.unwrap();
    let all = names.find_entity("user-2").await.unwrap();
    assert_eq!(values(&all), ["b", "d"]);
    assert_eq!(names.find_entity("user-3").await.unwrap(), []);
    assert_eq!(names.find_entity("user").await.unwrap(), []);
    assert_code(names.find_entity(" ").await, Code::EntityIdRequired);
}

/// Everything a query finds, page by page.
async fn all(names: &Reservations, mut query: Query) -> Vec<Found> {
    let mut all = Vec::new();
    loop {
        let page = names.list(&query).await.unwrap();
        all.extend(page.found);
        match page.next {
            Some(next) => query = query.after(next),
            None => return all,
        }
    }
}

async fn a_list_can_be_limited_to_a_kind(s: Scene) {
    let names = s.reservations();
    for (kind, value) in [
        ("email", "a"),
        ("emails", "b"),
        ("e", "mail:c"),
        ("email", "d"),
    ] {
        drop(book(&names, kind, value).await);
    }
    let other = format!("{}-2", s.namespace());
    let others = s.reservations_with(|builder| builder.namespace(other));
    drop(book(&others, "email", "theirs").await);
    assert_eq!(
        values(&all(&names, Query::new().kind("email")).await),
        ["a", "d"]
    );
    assert_eq!(
        values(&all(&names, Query::new().kind("e")).await),
        ["mail:c"]
    );
    assert_eq!(all(&names, Query::new().kind("none")).await, []);
    assert_eq!(all(&names, Query::new()).await.len(), 4);
}

async fn a_list_can_be_limited_to_a_state(s: Scene) {
    use ReservationStatus::{Confirmed, Expired, Released, Reserved};
    let names = s.reservations();
    drop(s.book_briefly(&names, "email", "expired").await);
    s.outlive_brief_reservation().await;
    drop(book(&names, "email", "reserved").await);
    book(&names, "email", "confirmed")
        .await
        .confirm("user-1")
        .await
        .unwrap();
    book(&names, "email", "released")
        .await
        .release()
        .await
        .unwrap();
    for status in [Reserved, Confirmed, Released, Expired] {
        let found = all(&names, Query::new().status(status)).await;
        assert_eq!(values(&found), [status.as_str()]);
        assert_eq!(found[0].status, status);
        let word = ReservationStatus::parse(status.as_str());
        assert_eq!(word.unwrap(), status);
    }
    let active = all(&names, Query::new()).await;
    assert_eq!(values(&active), ["confirmed", "reserved"]);
    let query = Query::new().entity("user-1").status(Reserved);
    assert_eq!(all(&names, query).await, []);
    assert!(ReservationStatus::parse("held").is_err());
}

async fn a_list_comes_in_pages(s: Scene) {
    let names = s.reservations();
    let wanted: Vec<_> = (0..7).map(|number| format!("{number}")).collect();
    for value in &wanted {
        let reservation = book(&names, "email", value).await;
        reservation.confirm("user-1").await.unwrap();
    }
    let query = Query::new().kind("email").limit(3);
    let first = names.list(&query).await.unwrap();
    assert_eq!(values(&first.found), ["0", "1", "2"]);
    assert_eq!(first.next.as_ref().map(Key::value), Some("2"));
    for limit in [1, 3, 7, 100] {
        let query = || Query::new().limit(limit);
        assert_eq!(values(&all(&names, query()).await), wanted);
        assert_eq!(values(&all(&names, query().entity("user-1")).await), wanted);
    }
    let rest = query.after(Key::new("email", "4").unwrap());
    let last = names.list(&rest).await.unwrap();
    assert_eq!((values(&last.found), last.next), (vec!["5", "6"], None));
}

/// Locks, and reservations somebody made under other names than keys.
async fn what_else_is_in_the_namespace_does_not_end_a_list(s: Scene) {
    let names = s.reservations();
    for value in ["1", "3"] {
        book(&names, "email", value)
            .await
            .confirm("user-1")
            .await
            .unwrap();
    }
    let party = Party::new("a");
    s.take(&party, &s.name("email:2")).await;
    for plain in ["aaa", "email", "zzz"] {
        let request = s.ask(&party, &s.name(plain)).kind(Kind::Reservation);
        s.grant(&request).await;
    }
    for limit in [1, 2, 100] {
        let found = all(&names, Query::new().limit(limit)).await;
        assert_eq!(values(&found), ["1", "3"], "{limit} at a time");
    }
    let id = ReservationId::of(&s.name("email:3")).to_string();
    assert_eq!(names.get(&id).await.unwrap().key.value(), "3");
    assert_eq!(
        values(&names.find_entity("user-1").await.unwrap()),
        ["1", "3"]
    );
}

async fn what_is_left_shrinks_until_it_is_forever(s: Scene) {
    let names = s.reservations();
    assert_eq!(names.remaining("email", "a").await.unwrap(), None);
    let reservation = book(&names, "email", "a").await;
    let wall = s.harness().clock().wall();
    let left = async || match names.remaining("email", "a").await.unwrap() {
        Some(Remaining::For(left)) => left,
        other => panic!("it is reserved for a while: {other:?}"),
    };
    let before = left().await;
    let most = reservation.expires_at().since(wall);
    assert!(
        !before.is_zero() && before <= most,
        "{before:?} of {most:?}"
    );
    s.pass(Duration::from_millis(100)).await;
    let after = left().await;
    assert!(after < before && Remaining::For(after) < Remaining::Forever);
    reservation.confirm("user-1").await.unwrap();
    let left = names.remaining("email", "a").await.unwrap();
    assert_eq!(left, Some(Remaining::Forever));
    assert!(names.is_reserved("email", "a").await.unwrap());
}

async fn what_ended_is_known_but_not_active(s: Scene) {
    let names = s.reservations();
    let expired = s.book_briefly(&names, "email", "expired").await;
    let seen = found(&names, "email", "expired").await;
    let end = expired.expires_at();
    let brief = Ttl::new(s.brief_reservation()).unwrap();
    let start = seen.created_at.unwrap();
    assert_eq!(seen.remaining_at(start), Remaining::For(end.since(start)));
    s.assert_ttl(end.since(start), brief);
    assert!(seen.is_active() && seen.is_expired_at(end) && !seen.is_expired_at(start));
    assert_eq!(seen.remaining_at(end), Remaining::For(Duration::ZERO));
    s.outlive_brief_reservation().await;
    let released = book(&names, "email", "released").await;
    released.release().await.unwrap();
    for status in [ReservationStatus::Expired, ReservationStatus::Released] {
        let seen = found(&names, "email", status.as_str()).await;
        assert_eq!(seen.status, status);
        assert!(!seen.is_active() && seen.is_expired_at(seen.ended_at.unwrap()));
        let active = names.find_active("email", status.as_str()).await;
        assert_eq!(active.unwrap(), None);
    }
}
