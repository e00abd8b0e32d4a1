//! Reservations: several values in one request, all or nothing.

use leasehold_core::ErrorKind;
use leasehold_core::backend::MAX_NAMES;
use leasehold_core::reservation::{Code, Reservations, Reserve};

use crate::case::{Case, case};
use crate::scene::Scene;
use crate::scene::reservations::{assert_code, book, found, granted, refused, turned_away};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            several_values_are_reserved_together,
            ["W3-12", "S3-01"],
            Reservations,
            AtomicNames
        ),
        case!(
            one_value_in_the_way_keeps_all_of_them_free,
            ["W3-12", "S3-06"],
            Reservations,
            AtomicNames
        ),
        case!(
            several_values_are_confirmed_together,
            ["W3-12", "S3-07"],
            Reservations,
            AtomicNames
        ),
        case!(
            nothing_is_confirmed_if_one_value_is_gone,
            ["W3-12", "S3-07"],
            Reservations,
            AtomicNames
        ),
        case!(
            several_values_are_released_prolonged_and_freed_together,
            ["W3-12", "W3-09", "W3-11"],
            Reservations,
            AtomicNames
        ),
        case!(
            releasing_several_frees_what_is_left_of_them,
            ["W3-12", "S3-08"],
            Reservations,
            AtomicNames
        ),
        case!(
            rivals_for_overlapping_sets_never_get_a_part,
            ["W3-12", "W3-16", "W2-10"],
            Reservations,
            AtomicNames
        ),
        case!(
            nothing_and_the_same_thing_twice_are_refused,
            ["W3-12", "S3-03"],
            Reservations
        ),
        case!(
            as_many_values_as_allowed_and_not_one_more,
            ["W3-12", "S3-04"],
            Reservations,
            AtomicNames
        ),
    ]
}

fn several(names: &Reservations, values: &[&str]) -> Reserve {
    let ask = |request: Reserve, value: &&str| request.value("seat", value);
    values.iter().fold(names.request(), ask)
}

async fn taken(names: &Reservations, values: &[&str]) -> Vec<bool> {
    let mut all = Vec::new();
    for value in values {
        all.push(names.is_reserved("seat", value).await.unwrap());
    }
    all
}

async fn several_values_are_reserved_together(s: Scene) {
    let names = s.reservations();
    let reservation = granted(several(&names, &["c", "a", "b"])).await;
    let keys: Vec<_> = reservation.items().map(|item| item.0.as_str()).collect();
    assert_eq!(keys, ["seat:a", "seat:b", "seat:c"]);
    assert_eq!(reservation.key().as_str(), "seat:a");
    for (key, units, token) in reservation.items() {
        let seen = found(&names, key.kind(), key.value()).await;
        assert_eq!((seen.token, seen.units), (token, Some(units)));
        assert_eq!(seen.expires_at, Some(reservation.expires_at()), "{key}");
        refused(&names, key.kind(), key.value()).await;
    }
}

async fn one_value_in_the_way_keeps_all_of_them_free(s: Scene) {
    let names = s.reservations();
    let reserved = book(&names, "seat", "b").await;
    book(&names, "seat", "d")
        .await
        .confirm("user-1")
        .await
        .unwrap();
    let conflict = turned_away(several(&names, &["d", "a", "b", "c"])).await;
    assert_eq!(conflict.code(), Code::AlreadyReserved);
    let in_the_way: Vec<_> = conflict
        .taken
        .iter()
        .map(|taken| (taken.key.as_str(), taken.expires_at))
        .collect();
    let end = Some(reserved.expires_at());
    assert_eq!(in_the_way, [("seat:b", end), ("seat:d", None)]);
    assert_eq!(taken(&names, &["a", "c"]).await, [false, false]);
    assert_eq!(s.get(&s.name("seat:a")).await, None);
}

async fn several_values_are_confirmed_together(s: Scene) {
    let names = s.reservations();
    let reservation = granted(several(&names, &["a", "b"])).await;
    let pass = reservation.pass();
    let claim = reservation.confirm("booking-1").await.unwrap();
    for value in ["a", "b"] {
        let seen = found(&names, "seat", value).await;
        assert_eq!(seen.entity.as_deref(), Some("booking-1"));
    }
    let again = names.resume(&pass).unwrap();
    assert_code(
        again.confirm("booking-2").await,
        Code::ReservationAlreadyConfirmed,
    );
    let claim = claim.hand_over("booking-3").await.unwrap();
    let seen = found(&names, "seat", "b").await;
    assert_eq!(seen.entity.as_deref(), Some("booking-3"));
    claim.free().await.unwrap();
    assert_eq!(taken(&names, &["a", "b"]).await, [false, false]);
}

async fn nothing_is_confirmed_if_one_value_is_gone(s: Scene) {
    let names = s.reservations();
    let reservation = granted(several(&names, &["a", "b", "c"])).await;
    s.force(&s.name("seat:b"), None).await;
    let before = s.record(&s.name("seat:a")).await;
    let answer = reservation.confirm("booking-1").await;
    assert_eq!(answer.as_ref().unwrap_err().name(), Some(&s.name("seat:b")));
    assert_code(answer, Code::ReservationAlreadyReleased);
    assert_eq!(s.record(&s.name("seat:a")).await, before);
    assert_eq!(taken(&names, &["a", "b", "c"]).await, [true, false, true]);
    assert_eq!(found(&names, "seat", "c").await.entity, None);
}

async fn several_values_are_released_prolonged_and_freed_together(s: Scene) {
    let names = s.reservations();
    let brief = several(&names, &["a", "b"]).ttl(s.brief_reservation());
    let reservation = granted(brief).await;
    let reservation = reservation.extend(s.long().as_duration()).await.unwrap();
    for value in ["a", "b"] {
        let end = found(&names, "seat", value).await.expires_at;
        assert_eq!(end, Some(reservation.expires_at()));
    }
    reservation.release().await.unwrap();
    assert_eq!(taken(&names, &["a", "b"]).await, [false, false]);
    let again = granted(several(&names, &["b", "a"])).await;
    again
        .confirm("booking-1")
        .await
        .unwrap()
        .free()
        .await
        .unwrap();
    assert_eq!(taken(&names, &["a", "b"]).await, [false, false]);
}

async fn releasing_several_frees_what_is_left_of_them(s: Scene) {
    let names = s.reservations();
    let reservation = granted(several(&names, &["a", "b", "c"])).await;
    s.force(&s.name("seat:a"), None).await;
    let successor = book(&names, "seat", "a").await;
    reservation.release().await.unwrap_err();
    assert_eq!(taken(&names, &["a", "b", "c"]).await, [true, false, false]);
    successor.confirm("user-1").await.unwrap();
}

/// Each wants two neighbours of a ring of seats, so that half of them at most can have what they want.
async fn rivals_for_overlapping_sets_never_get_a_part(s: Scene) {
    const SEATS: usize = 8;
    let managers = [s.reservations(), s.reservations()];
    let pair = |at: usize| {
        let request = managers[at % 2].request();
        let request = request.value("seat", &format!("{}", at % SEATS));
        request.value("seat", &format!("{}", (at + 1) % SEATS))
    };
    let ask = |at: usize| tokio::spawn(pair(at).reserve());
    let mut winners = Vec::new();
    for task in (0..4 * SEATS).map(ask).collect::<Vec<_>>() {
        let outcome = s.joined("every rival is answered", task).await;
        winners.extend(outcome.unwrap().reserved().ok());
    }
    assert!((1..=SEATS / 2).contains(&winners.len()), "{winners:?}");
    let mut held: Vec<_> = winners.iter().flat_map(|w| w.items()).collect();
    held.sort_unstable();
    for (key, _, token) in &held {
        assert_eq!(found(&managers[0], "seat", key.value()).await.token, *token);
    }
    let mut seen = 0;
    for seat in 0..SEATS {
        let seat = format!("{seat}");
        seen += usize::from(managers[0].is_reserved("seat", &seat).await.unwrap());
    }
    assert_eq!((seen, held.len()), (2 * winners.len(), 2 * winners.len()));
}

async fn nothing_and_the_same_thing_twice_are_refused(s: Scene) {
    let names = s.reservations();
    assert_code(several(&names, &[]).reserve().await, Code::EmptyReservation);
    for twice in [&["a", "a"][..], &["a", "b", "c", "a"]] {
        let answer = several(&names, twice).reserve().await;
        assert_eq!(answer.as_ref().unwrap_err().name(), Some(&s.name("seat:a")));
        assert_code(answer, Code::DuplicateProductIds);
    }
    let mixed = several(&names, &["a"]).units("seat", "a", 1);
    // A store that counts no units says that first.
    let error = mixed.reserve().await.unwrap_err();
    let counts = s.backend().describe().capabilities.quantities;
    assert_eq!(error.code(), counts.then_some(Code::DuplicateProductIds));
    assert_eq!(s.get(&s.name("seat:a")).await, None);
}

async fn as_many_values_as_allowed_and_not_one_more(s: Scene) {
    let names = s.reservations();
    let values: Vec<_> = (0..=MAX_NAMES)
        .map(|number| format!("{number:03}"))
        .collect();
    let values: Vec<_> = values.iter().map(String::as_str).collect();
    let error = several(&names, &values).reserve().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(s.get(&s.name("seat:000")).await, None);
    let most = granted(several(&names, &values[1..])).await;
    assert_eq!(most.items().count(), MAX_NAMES);
    most.confirm("booking-1")
        .await
        .unwrap()
        .free()
        .await
        .unwrap();
    assert_eq!(taken(&names, &values[62..]).await, [false; 3]);
}
