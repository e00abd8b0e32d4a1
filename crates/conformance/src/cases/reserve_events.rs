//! Reservations: what hooks are told.

use std::sync::{Arc, Mutex};

use leasehold_core::reservation::{ReservationEvent, Reservations};

use crate::case::{Case, case};
use crate::scene::Scene;
use crate::scene::reservations::{book, found, refused};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            hooks_are_told_what_happens_in_order,
            ["W3-13", "S3-01"],
            Reservations
        ),
        case!(
            hooks_are_told_of_what_ran_out,
            ["W3-13", "S3-11"],
            Reservations
        )
        .alone(),
        case!(
            hooks_are_not_told_of_what_did_not_happen,
            ["W3-13", "S3-03"],
            Reservations
        ),
        case!(a_hook_that_panics_harms_nobody, ["W3-13"], Reservations),
    ]
}

type Log = Arc<Mutex<Vec<String>>>;

fn line(event: &ReservationEvent<'_>) -> String {
    match event {
        ReservationEvent::Reserved { reservation } => format!("reserved {}", reservation.key()),
        ReservationEvent::Refused { conflict } => format!("refused {}", conflict.taken[0].key),
        ReservationEvent::Confirmed {
            reservation,
            entity,
        } => format!("confirmed {} {entity}", reservation.key()),
        ReservationEvent::Released { reservation } => format!("released {}", reservation.key()),
        ReservationEvent::Expired { expired } => format!("expired {}", expired.key),
        ReservationEvent::Freed { claim, spent } => format!("freed {} {spent}", claim.key()),
        ReservationEvent::HandedOver { heir } => {
            let (name, entity) = (heir.key(), heir.entity());
            format!("handed over {} {entity}", name)
        }
        ReservationEvent::Forced { found, reason } => format!("forced {} {reason}", found.key),
        other => format!("{other:?}"),
    }
}

fn logged(s: &Scene) -> (Reservations, Log) {
    let log = Log::default();
    let sink = Arc::clone(&log);
    let names = s.reservations_with(|builder| {
        builder.on_event(move |event| sink.lock().unwrap().push(line(event)))
    });
    (names, log)
}

async fn hooks_are_told_what_happens_in_order(s: Scene) {
    let (names, log) = logged(&s);
    let reservation = book(&names, "email", "a").await;
    refused(&names, "email", "a").await;
    let claim = reservation.confirm("user-1").await.unwrap();
    let claim = claim.hand_over("user-2").await.unwrap();
    claim.free().await.unwrap();
    let again = book(&names, "email", "a").await;
    again.release().await.unwrap();
    let spent = book(&names, "email", "b").await.confirm("user-3").await;
    spent.unwrap().spend().await.unwrap();
    drop(book(&names, "email", "c").await);
    let lost = found(&names, "email", "c").await;
    names.force(&lost, "stuck").await.unwrap();
    let told = log.lock().unwrap().clone();
    assert_eq!(
        told,
        [
            "reserved email:a",
            "refused email:a",
            "confirmed email:a user-1",
            "handed over email:a user-2",
            "freed email:a false",
            "reserved email:a",
            "released email:a",
            "reserved email:b",
            "confirmed email:b user-3",
            "freed email:b true",
            "reserved email:c",
            "forced email:c stuck",
        ]
    );
}

async fn hooks_are_told_of_what_ran_out(s: Scene) {
    let (names, log) = logged(&s);
    drop(s.book_briefly(&names, "email", "a").await);
    s.outlive_brief_reservation().await;
    names.expired(100).await.unwrap();
    assert_eq!(log.lock().unwrap().len(), 1, "a dry run ends nothing");
    for _ in 0..2 {
        names.expire(100).await.unwrap();
        let told = log.lock().unwrap().clone();
        assert_eq!(told, ["reserved email:a", "expired email:a"]);
    }
}

async fn hooks_are_not_told_of_what_did_not_happen(s: Scene) {
    let (names, log) = logged(&s);
    let reservation = book(&names, "email", "a").await;
    log.lock().unwrap().clear();
    names.request().reserve().await.unwrap_err();
    reservation.confirm(" ").await.unwrap_err();
    reservation
        .confirm_at("user-1", u64::MAX)
        .await
        .unwrap_err();
    let stranger = book(&s.reservations_elsewhere(), "email", "a").await;
    let stranger = names.resume(&stranger.pass()).unwrap();
    stranger.confirm("thief").await.unwrap_err();
    stranger.release().await.unwrap_err();
    let claim = names.resume_claim(&stranger.pass(), "thief").unwrap();
    claim.free().await.unwrap_err();
    claim.hand_over("thief").await.unwrap_err();
    names.find("email", "a").await.unwrap();
    assert_eq!(*log.lock().unwrap(), Vec::<String>::new());
}

async fn a_hook_that_panics_harms_nobody(s: Scene) {
    let log = Log::default();
    let sink = Arc::clone(&log);
    let names = s.reservations_with(|builder| {
        builder
            .on_event(|event| {
                // Not `panic!`, which would print its message in the middle of the report.
                std::panic::resume_unwind(Box::new(line(event)))
            })
            .on_event(move |event| sink.lock().unwrap().push(line(event)))
    });
    let reservation = book(&names, "email", "a").await;
    reservation.confirm("user-1").await.unwrap();
    assert!(names.is_reserved("email", "a").await.unwrap());
    let told = log.lock().unwrap().clone();
    assert_eq!(told, ["reserved email:a", "confirmed email:a user-1"]);
}
