//! Reservations: for how long.

use std::time::Duration;

use leasehold_core::Ttl;
use leasehold_core::reservation::{
    Code, DEFAULT_TTL, MAX_TTL, MIN_TTL, Reservations, ttl_from_millis,
};

use crate::case::{Case, case};
use crate::scene::Scene;
use crate::scene::reservations::{assert_code, book, found};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_reservation_lasts_as_long_as_was_asked_for,
            ["T3-05", "T3-06", "T3-07", "S3-04"],
            Reservations
        ),
        case!(
            a_reservation_lasts_as_long_as_its_manager_says_if_nobody_asks,
            ["S3-04"],
            Reservations
        ),
        case!(
            a_ttl_under_a_second_is_refused,
            ["T3-08", "T3-10", "S3-04", "W3-16"],
            Reservations
        ),
        case!(
            a_ttl_that_is_no_length_of_time_is_refused,
            ["T3-09", "T3-11", "S3-04"],
            Reservations
        ),
        case!(
            a_ttl_over_a_day_is_refused_and_told_so,
            ["T3-12", "S3-04", "W3-16"],
            Reservations
        ),
        case!(
            the_shortest_and_the_longest_ttl_are_accepted,
            ["T3-13", "S3-04", "W3-16"],
            Reservations
        ),
    ]
}

async fn a_reservation_lasts_as_long_as_was_asked_for(s: Scene) {
    let names = s.reservations();
    for minutes in [1, 5, 60] {
        let most = s.backend().describe().capabilities.max_ttl;
        let ttl = Ttl::new(Duration::from_secs(minutes * 60))
            .unwrap()
            .min(most);
        let value = format!("{minutes} minutes");
        let outcome = names.reserve("email", &value, ttl.as_duration()).await;
        let reservation = outcome.unwrap().reserved().unwrap();
        let since = found(&names, "email", &value).await.created_at.unwrap();
        s.assert_ttl(reservation.expires_at().since(since), ttl);
    }
}

async fn a_reservation_lasts_as_long_as_its_manager_says_if_nobody_asks(s: Scene) {
    let ttl = s.brief_reservation();
    let brief = s.reservations_with(|builder| builder.ttl(ttl));
    let reservation = book(&brief, "email", "brief").await;
    let since = found(&brief, "email", "brief").await.created_at.unwrap();
    s.assert_ttl(
        reservation.expires_at().since(since),
        Ttl::new(ttl).unwrap(),
    );
    let names = Reservations::new(s.backend().clone()).namespace(s.namespace());
    let names = names.clock(s.harness().clock()).sweep_every(None);
    let names = names.build().unwrap();
    let reservation = book(&names, "email", "usual").await;
    let since = found(&names, "email", "usual").await.created_at.unwrap();
    let usual = Ttl::new(DEFAULT_TTL).unwrap();
    s.assert_ttl(reservation.expires_at().since(since), usual);
}

/// Asks for a value with this ttl, expects to be refused for it, and that nothing is left of it.
async fn refuse_ttl(s: &Scene, ttl: Duration, code: Code) {
    let names = s.reservations();
    assert_code(names.reserve("email", "a", ttl).await, code);
    assert_code(
        names.reserve_idempotent("email", "a", ttl, "me").await,
        code,
    );
    assert_code(names.reserve_units("email", "a", 1, ttl).await, code);
    assert_eq!(s.get(&s.name("email:a")).await, None);
}

async fn a_ttl_under_a_second_is_refused(s: Scene) {
    let nearly = MIN_TTL - Duration::from_nanos(1);
    for ttl in [Duration::ZERO, Duration::from_millis(999), nearly] {
        refuse_ttl(&s, ttl, Code::InvalidTtl).await;
    }
}

async fn a_ttl_that_is_no_length_of_time_is_refused(s: Scene) {
    for millis in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, 999.0] {
        assert_code(ttl_from_millis(millis), Code::InvalidTtl);
    }
    let names = s.reservations();
    let ttl = ttl_from_millis(60_000.5).unwrap();
    let outcome = names.reserve("email", "a", ttl).await.unwrap();
    outcome.reserved().unwrap().release().await.unwrap();
}

async fn a_ttl_over_a_day_is_refused_and_told_so(s: Scene) {
    let names = s.reservations();
    for ttl in [Duration::from_millis(86_400_001), Duration::MAX] {
        refuse_ttl(&s, ttl, Code::TtlTooLong).await;
        let error = names.reserve("email", "a", ttl).await.unwrap_err();
        assert!(error.to_string().contains("24 hours"), "{error}");
    }
    assert_code(ttl_from_millis(86_400_001.0), Code::TtlTooLong);
}

async fn the_shortest_and_the_longest_ttl_are_accepted(s: Scene) {
    let names = s.reservations();
    let can = &s.backend().describe().capabilities;
    for ttl in [1_000.0, 86_400_000.0].map(|millis| ttl_from_millis(millis).unwrap()) {
        assert!((MIN_TTL..=MAX_TTL).contains(&ttl));
        let ttl = Ttl::new(ttl).unwrap().clamp(can.min_ttl, can.max_ttl);
        let outcome = names.reserve("email", "a", ttl.as_duration()).await;
        let reservation = outcome.unwrap().reserved().unwrap();
        let since = found(&names, "email", "a").await.created_at.unwrap();
        s.assert_ttl(reservation.expires_at().since(since), ttl);
        reservation.release().await.unwrap();
    }
}
