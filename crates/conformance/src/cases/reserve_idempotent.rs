//! Reservations: asking again as the same caller.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::ErrorKind;
use leasehold_core::reservation::{Code, Reservation, Reservations, Reserve};

use crate::case::{Case, case};
use crate::scene::Scene;
use crate::scene::reservations::{assert_code, book, found, granted, refused, turned_away};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            the_same_caller_gets_the_same_reservation_back,
            ["S3-09", "W3-03"],
            Reservations
        ),
        case!(
            another_caller_gets_a_conflict,
            ["S3-09", "W3-03"],
            Reservations
        ),
        case!(
            whoever_does_not_say_who_asks_is_another_caller,
            ["S3-09", "W3-03", "W3-14"],
            Reservations
        ),
        case!(
            asking_again_keeps_the_end_and_it_can_be_prolonged,
            ["S3-09", "W3-09"],
            Reservations
        ),
        case!(
            every_copy_can_confirm_and_they_agree_on_it,
            ["S3-09", "S3-07"],
            Reservations
        ),
        case!(
            a_caller_that_has_confirmed_is_told_that_it_is_its_own,
            ["S3-09", "W3-01", "W3-03"],
            Reservations
        ),
        case!(
            a_caller_can_start_over_after_a_release,
            ["S3-09", "W3-02"],
            Reservations
        ),
        case!(
            a_caller_can_start_over_after_the_end,
            ["S3-09", "W3-02"],
            Reservations
        ),
        case!(
            a_caller_has_another_secret_for_every_value,
            ["S3-09", "W3-05"],
            Reservations
        ),
        case!(a_blank_caller_is_refused, ["S3-09"], Reservations),
        case!(
            many_copies_of_one_request_make_one_reservation,
            ["S3-09", "W3-06", "W3-16"],
            Reservations
        ),
        case!(
            several_values_are_the_same_request_in_any_order,
            ["S3-09", "W3-12"],
            Reservations,
            AtomicNames
        ),
        case!(
            units_asked_for_again_are_taken_once,
            ["S3-09", "S2-12"],
            Reservations,
            Quantities
        ),
        case!(
            units_that_were_confirmed_are_not_taken_again,
            ["S3-09", "S2-12", "W3-03"],
            Reservations,
            Quantities
        ),
        case!(
            what_a_caller_has_confirmed_is_handed_to_it_again,
            ["S3-09", "W3-11"],
            Reservations
        ),
    ]
}

fn ask(names: &Reservations, value: &str, caller: &str) -> Reserve {
    names.request().value("email", value).caller(caller)
}

#[track_caller]
fn assert_same(one: &Reservation, other: &Reservation) {
    assert_eq!(one.id(), other.id());
    assert_eq!(one.token(), other.token());
    assert_eq!(one.expires_at(), other.expires_at());
    assert_eq!(one.pass().to_string(), other.pass().to_string());
}

async fn the_same_caller_gets_the_same_reservation_back(s: Scene) {
    let (here, there) = (s.reservations(), s.reservations());
    let ttl = s.long().as_duration();
    let first = here.reserve_idempotent("email", "a", ttl, "me").await;
    let first = first.unwrap().reserved().unwrap();
    let before = s.record(&s.name("email:a")).await;
    for names in [&here, &there] {
        let again = names.reserve_idempotent("email", "a", ttl, "me").await;
        assert_same(&again.unwrap().reserved().unwrap(), &first);
    }
    assert_eq!(s.record(&s.name("email:a")).await, before);
}

async fn another_caller_gets_a_conflict(s: Scene) {
    let names = s.reservations();
    let request = |caller: &str| ask(&names, "a", caller).correlation("the same");
    let first = granted(request("alice")).await;
    for stranger in ["bob", "Alice", "alice ", "alic"] {
        let conflict = turned_away(request(stranger)).await;
        assert_eq!(conflict.code(), Code::AlreadyReserved);
        assert_eq!(conflict.existing_id(), Some(first.id()));
        assert!(conflict.mine().is_none());
    }
    first.confirm("user-1").await.unwrap();
    assert!(turned_away(request("bob")).await.mine().is_none());
}

async fn whoever_does_not_say_who_asks_is_another_caller(s: Scene) {
    let names = s.reservations();
    let plain = book(&names, "email", "a").await;
    turned_away(ask(&names, "a", "me")).await;
    plain.release().await.unwrap();
    drop(granted(ask(&names, "a", "me")).await);
    refused(&names, "email", "a").await;
}

async fn asking_again_keeps_the_end_and_it_can_be_prolonged(s: Scene) {
    let names = s.reservations();
    let brief = s.brief_reservation();
    let first = granted(ask(&names, "a", "me").ttl(brief)).await;
    let longer = brief + Duration::from_secs(60);
    let again = granted(ask(&names, "a", "me").ttl(longer)).await;
    assert_eq!(again.expires_at(), first.expires_at());
    assert!(again.remaining() <= s.rounded(leasehold_core::Ttl::new(brief).unwrap()));
    let extended = again.extend(longer).await.unwrap();
    assert!(extended.expires_at() > first.expires_at());
    let again = granted(ask(&names, "a", "me").ttl(brief)).await;
    assert_eq!(again.expires_at(), extended.expires_at());
}

async fn every_copy_can_confirm_and_they_agree_on_it(s: Scene) {
    let names = s.reservations();
    let one = granted(ask(&names, "a", "me")).await;
    let other = granted(ask(&names, "a", "me")).await;
    one.confirm("user-1").await.unwrap();
    assert_code(
        other.confirm("user-2").await,
        Code::ReservationAlreadyConfirmed,
    );
    assert_code(other.release().await, Code::ReservationAlreadyConfirmed);
    assert_eq!(other.confirm("user-1").await.unwrap().entity(), "user-1");
    assert_eq!(s.record(&s.name("email:a")).await.claims.len(), 1);
}

async fn a_caller_that_has_confirmed_is_told_that_it_is_its_own(s: Scene) {
    let names = s.reservations();
    let claim = granted(ask(&names, "a", "me"))
        .await
        .confirm("user-1")
        .await;
    let before = s.record(&s.name("email:a")).await;
    let conflict = turned_away(ask(&names, "a", "me")).await;
    assert!(conflict.mine().is_some());
    assert_eq!(conflict.existing_expires_at(), None);
    assert!(turned_away(ask(&names, "a", "you")).await.mine().is_none());
    assert!(refused(&names, "email", "a").await.mine().is_none());
    assert_eq!(s.record(&s.name("email:a")).await, before);
    claim.unwrap().hand_over("user-2").await.unwrap();
    assert!(turned_away(ask(&names, "a", "me")).await.mine().is_none());
}

async fn a_caller_can_start_over_after_a_release(s: Scene) {
    let names = s.reservations();
    let first = granted(ask(&names, "a", "me")).await;
    first.release().await.unwrap();
    let second = granted(ask(&names, "a", "me")).await;
    assert!(second.token() > first.token());
    first.confirm("ghost").await.unwrap_err();
    second.confirm("user-1").await.unwrap();
}

async fn a_caller_can_start_over_after_the_end(s: Scene) {
    let names = s.reservations();
    let brief = s.brief_reservation();
    let first = granted(ask(&names, "a", "me").ttl(brief)).await;
    s.outlive_brief_reservation().await;
    let second = granted(ask(&names, "a", "me")).await;
    assert!(second.token() > first.token());
    assert_code(
        first.confirm("ghost").await,
        Code::ReservationAlreadyExpired,
    );
    second.confirm("user-1").await.unwrap();
    let entity = found(&names, "email", "a").await.entity;
    assert_eq!(entity.as_deref(), Some("user-1"));
}

async fn a_caller_has_another_secret_for_every_value(s: Scene) {
    let names = s.reservations();
    let secret = async |value: &str, caller: &str| {
        let pass = granted(ask(&names, value, caller)).await.pass();
        crate::scene::reservations::secret_forms(&pass).remove(0)
    };
    let secrets = BTreeSet::from([
        secret("a", "me").await,
        secret("b", "me").await,
        secret("c", "you").await,
    ]);
    assert_eq!(secrets.len(), 3);
}

async fn a_blank_caller_is_refused(s: Scene) {
    let names = s.reservations();
    for blank in ["", " \t"] {
        let answer = ask(&names, "a", blank).reserve().await;
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(s.get(&s.name("email:a")).await, None);
}

async fn many_copies_of_one_request_make_one_reservation(s: Scene) {
    let managers = [s.reservations(), s.reservations()];
    let copies = (0..64).map(|at| tokio::spawn(granted(ask(&managers[at % 2], "a", "me"))));
    let mut all = Vec::new();
    for copy in copies.collect::<Vec<_>>() {
        all.push(s.joined("every copy is answered", copy).await);
    }
    for copy in &all {
        assert_same(copy, &all[0]);
    }
    let record = s.record(&s.name("email:a")).await;
    assert_eq!(record.grants.len(), 1);
    assert_eq!(record.grants[0].token, all[0].token());
    assert_eq!(record.last_token, all[0].token(), "one was granted ever");
}

async fn several_values_are_the_same_request_in_any_order(s: Scene) {
    let names = s.reservations();
    let pair = |one: &str, other: &str| {
        let request = names.request().value("email", one);
        request.value("email", other).caller("me")
    };
    let first = granted(pair("a", "b")).await;
    assert_same(&granted(pair("b", "a")).await, &first);
    // A part of it is another request.
    turned_away(ask(&names, "a", "me")).await;
    turned_away(pair("b", "c")).await;
    assert!(!names.is_reserved("email", "c").await.unwrap());
    first.confirm("user-1").await.unwrap();
    assert!(turned_away(pair("b", "a")).await.mine().is_some());
}

fn order(names: &Reservations, units: u32) -> Reserve {
    names.request().units("sku", "tv", units).caller("order-1")
}

async fn units_asked_for_again_are_taken_once(s: Scene) {
    let names = s.reservations();
    names.set_stock("sku", "tv", 10).await.unwrap();
    let first = granted(order(&names, 3)).await;
    assert_same(&granted(order(&names, 3)).await, &first);
    assert_eq!(names.stock("sku", "tv").await.unwrap().reserved, 3);
    order(&names, 4).reserve().await.unwrap_err();
    assert_eq!(names.stock("sku", "tv").await.unwrap().reserved, 3);
}

/// The order was paid for, and then its request comes once more.
async fn units_that_were_confirmed_are_not_taken_again(s: Scene) {
    let names = s.reservations();
    names.set_stock("sku", "tv", 10).await.unwrap();
    granted(order(&names, 3))
        .await
        .confirm("order-1")
        .await
        .unwrap();
    let conflict = turned_away(order(&names, 3)).await;
    assert!(conflict.mine().is_some());
    let stock = names.stock("sku", "tv").await.unwrap();
    assert_eq!((stock.reserved, stock.confirmed), (0, 3));
}

async fn what_a_caller_has_confirmed_is_handed_to_it_again(s: Scene) {
    let names = s.reservations();
    let claim = granted(ask(&names, "a", "me"))
        .await
        .confirm("user-1")
        .await;
    claim.unwrap();
    let conflict = turned_away(ask(&names, "a", "me")).await;
    let mine = conflict.mine().expect("it has confirmed it before");
    assert_eq!((mine.entity(), mine.key().value()), ("user-1", "a"));
    mine.free().await.unwrap();
    assert!(!names.is_reserved("email", "a").await.unwrap());
}
