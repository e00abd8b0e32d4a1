//! Reservations: the pass that lets one go on elsewhere, and the secret in it.

use std::sync::{Arc, Mutex};

use leasehold_core::ErrorKind;
use leasehold_core::reservation::{Code, Pass, ReservationStatus};

use crate::case::{Case, case};
use crate::scene::Scene;
use crate::scene::reservations::{
    assert_code, book, found, granted, refused, secret_forms, turned_away, with_secret_of,
};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_pass_lets_another_manager_go_on,
            ["W3-05", "S2-11"],
            Reservations
        ),
        case!(
            a_pass_survives_being_written_down,
            ["W3-05", "S3-05"],
            Reservations
        ),
        case!(
            a_wrong_secret_can_neither_confirm_nor_release_nor_prolong,
            ["W3-05", "W3-14"],
            Reservations
        ),
        case!(
            what_a_conflict_tells_is_not_enough_to_act,
            ["W3-14", "W3-05"],
            Reservations
        ),
        case!(
            a_pass_of_another_namespace_is_refused,
            ["W3-05"],
            Reservations
        ),
        case!(text_that_is_no_pass_is_refused, ["W3-05"], Reservations),
        case!(
            a_pass_for_nothing_is_refused_however_it_is_read,
            ["W3-05"],
            Reservations
        ),
        case!(
            nothing_that_onlookers_see_has_the_secret_in_it,
            ["W3-14", "W3-05"],
            Reservations
        ),
        case!(
            what_a_caller_is_known_by_is_not_shown,
            ["W3-14", "S3-09"],
            Reservations
        ),
    ]
}

async fn a_pass_lets_another_manager_go_on(s: Scene) {
    let (here, there) = (s.reservations(), s.reservations());
    let pass = book(&here, "email", "a").await.pass();
    let resumed = there.resume(&pass).unwrap();
    resumed.confirm("user-1").await.unwrap();
    assert_eq!(
        found(&here, "email", "a").await.entity.as_deref(),
        Some("user-1")
    );
    let pass = book(&here, "email", "b").await.pass();
    there.resume(&pass).unwrap().release().await.unwrap();
    assert!(!here.is_reserved("email", "b").await.unwrap());
    let pass = s.book_briefly(&here, "email", "c").await.pass();
    let longer = there.resume(&pass).unwrap();
    drop(longer.extend(s.long().as_duration()).await.unwrap());
    s.outlive_brief_reservation().await;
    refused(&here, "email", "c").await;
}

async fn a_pass_survives_being_written_down(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "\"a\"\n\u{1f600}:b").await;
    let text = reservation.pass().to_string();
    assert_eq!(text.lines().count(), 1, "it is one line: {text}");
    let pass: Pass = text.parse().unwrap();
    let resumed = names.resume(&pass).unwrap();
    assert_eq!(resumed.id(), reservation.id());
    assert_eq!(resumed.key(), reservation.key());
    assert_eq!(resumed.token(), reservation.token());
    assert_eq!(resumed.expires_at(), reservation.expires_at());
    assert!(resumed.items().eq(reservation.items()));
    assert!(!resumed.remaining().is_zero());
    assert_eq!(resumed.pass().to_string(), text);
    resumed.confirm("user-1").await.unwrap();
}

async fn a_wrong_secret_can_neither_confirm_nor_release_nor_prolong(s: Scene) {
    let names = s.reservations();
    let reservation = book(&names, "email", "a").await;
    let other = book(&names, "email", "b").await;
    let before = s.record(&s.name("email:a")).await;
    let forged = with_secret_of(&reservation.pass(), &other.pass());
    let thief = s.reservations().resume(&forged).unwrap();
    assert_eq!(thief.token(), reservation.token());
    assert_code(thief.confirm("thief").await, Code::ReservationNotFound);
    let answer = thief.confirm_at("thief", before.version).await;
    assert_code(answer, Code::ReservationNotFound);
    assert_code(thief.release().await, Code::ReservationNotFound);
    let ttl = s.long().as_duration();
    assert_code(thief.extend(ttl).await, Code::ReservationNotFound);
    assert_eq!(s.record(&s.name("email:a")).await, before);
    reservation.confirm("user-1").await.unwrap();
    assert_code(thief.release().await, Code::ReservationNotFound);
    assert_code(thief.confirm("user-1").await, Code::ReservationNotFound);
}

async fn what_a_conflict_tells_is_not_enough_to_act(s: Scene) {
    let names = s.reservations_with(|builder| builder.owner("private"));
    let reservation = granted(
        names
            .request()
            .value("email", "a")
            .correlation("hidden")
            .text("hidden"),
    )
    .await;
    let conflict = refused(&s.reservations(), "email", "a").await;
    let shown = format!("{conflict:?} {conflict}");
    assert!(
        !shown.contains("hidden") && !shown.contains("private"),
        "{shown}"
    );
    let id = conflict.existing_id().unwrap().to_string();
    // An id is no pass, and neither is one made for the same key elsewhere.
    assert!(id.parse::<Pass>().is_err());
    let same_key = book(&s.reservations_elsewhere(), "email", "a").await;
    let stranger = names.resume(&same_key.pass()).unwrap();
    assert_code(stranger.release().await, Code::ReservationNotFound);
    assert_code(stranger.confirm("thief").await, Code::ReservationNotFound);
    reservation.confirm("user-1").await.unwrap();
}

async fn a_pass_of_another_namespace_is_refused(s: Scene) {
    let names = s.reservations();
    let other = format!("{}-2", s.namespace());
    let others = s.reservations_with(|builder| builder.namespace(other));
    let theirs = book(&others, "email", "a").await;
    drop(book(&names, "email", "a").await);
    let error = names.resume(&theirs.pass()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let claim = theirs.confirm("user-1").await.unwrap();
    let error = names.resume_claim(&claim.pass(), "user-1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

async fn text_that_is_no_pass_is_refused(s: Scene) {
    let pass = book(&s.reservations(), "email", "a")
        .await
        .pass()
        .to_string();
    let name = s.name("email:a").encoded().to_owned();
    let garbage = [
        "",
        " ",
        "null",
        "{}",
        "[]",
        "res_f744ee56",
        &pass[..pass.len() / 2],
        &format!("{pass}{pass}"),
        &pass.replace(&name, "nokey"),
        &pass.replace("email:a", "email"),
        &pass.replace("\"secret\":[", "\"secret\":[1,"),
    ];
    for text in garbage {
        let error = text.parse::<Pass>().expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
        for secret in secret_forms(&pass.parse().unwrap()) {
            assert!(!format!("{error:?} {error}").contains(&secret));
        }
    }
}

async fn a_pass_for_nothing_is_refused_however_it_is_read(s: Scene) {
    let pass = book(&s.reservations(), "email", "a").await.pass();
    let mut json: serde_json::Value = serde_json::from_str(&pass.to_string()).unwrap();
    let item = json["items"][0].clone();
    for items in [vec![], vec![item.clone(), item]] {
        json["items"] = items.into();
        let text = json.to_string();
        assert!(text.parse::<Pass>().is_err(), "{text}");
        assert!(serde_json::from_str::<Pass>(&text).is_err(), "{text}");
    }
}

async fn nothing_that_onlookers_see_has_the_secret_in_it(s: Scene) {
    let told = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&told);
    let names = s.reservations_with(|builder| {
        builder.on_event(move |event| *sink.lock().unwrap() += &format!("{event:?} {event:#?}"))
    });
    let reservation = book(&names, "email", "a").await;
    let conflict = refused(&names, "email", "a").await;
    let seen = found(&names, "email", "a").await;
    let claim = reservation.confirm("user-1").await.unwrap();
    let claimed = found(&names, "email", "a").await;
    assert_eq!(claimed.status, ReservationStatus::Confirmed);
    let error = reservation.release().await.unwrap_err();
    let heir = claim.hand_over("user-2").await.unwrap();
    let late = claim.free().await.unwrap_err();
    let pass = reservation.pass();
    let shown = [
        format!("{reservation:?} {reservation:#?} {pass:?} {pass:#?}"),
        format!("{claim:?} {claim:#?} {heir:?} {heir:#?}"),
        format!("{conflict:?} {conflict:#?} {conflict} {seen:?} {claimed:#?}"),
        format!("{error:?} {error} {late:?} {late} {names:?}"),
        told.lock().unwrap().clone(),
    ];
    let secrets = [secret_forms(&pass), secret_forms(&heir.pass())].concat();
    assert_ne!(secret_forms(&pass), secret_forms(&heir.pass()));
    for text in shown {
        assert!(text.contains("email:a"), "{text}");
        // A list of bytes may be written with one to a line.
        let dense = text.replace([' ', '\n'], "");
        for secret in &secrets {
            assert!(!text.contains(secret) && !dense.contains(secret), "{text}");
        }
    }
}

/// Whoever knows the text can act on the reservation, so it is as good as the secret.
async fn what_a_caller_is_known_by_is_not_shown(s: Scene) {
    let names = s.reservations();
    let request = || names.request().value("email", "a").caller("hush-hush");
    let reservation = granted(request()).await;
    reservation.confirm("user-1").await.unwrap();
    let conflict = turned_away(request()).await;
    let seen = found(&names, "email", "a").await;
    let record = s.record(&s.name("email:a")).await;
    for text in [
        format!("{reservation:?} {:?}", reservation.pass()),
        format!("{conflict:?} {seen:?} {record:?}"),
        reservation.pass().to_string(),
        format!("{:?}", request()),
    ] {
        assert!(!text.contains("hush"), "{text}");
    }
}
