//! Reservations: many at once, and exactly one winner.

use std::time::Duration;

use leasehold_core::reservation::{Claim, Code, Reservation, Reservations, ReserveOutcome};
use leasehold_core::{Clock as _, Result, SystemClock};

use crate::case::{Case, case};
use crate::scene::Scene;
use crate::scene::reservations::{assert_code, book};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            of_many_rivals_exactly_one_wins,
            ["W3-06", "W3-16", "T3-03"],
            Reservations
        ),
        case!(
            of_confirming_and_releasing_one_wins,
            ["W3-06", "W3-16", "S3-01"],
            Reservations
        ),
        case!(
            of_confirming_and_running_out_one_wins,
            ["W3-06", "W3-07", "S3-10"],
            Reservations
        ),
        case!(
            of_many_entities_exactly_one_gets_the_value,
            ["W3-06", "W3-16", "S3-07"],
            Reservations
        ),
        case!(
            of_many_heirs_exactly_one_gets_the_value,
            ["W3-06", "W3-11"],
            Reservations
        ),
    ]
}

async fn of_many_rivals_exactly_one_wins(s: Scene) {
    let managers = [s.reservations(), s.reservations()];
    let ask = |at: usize| tokio::spawn(managers[at % 2].request().value("email", "a").reserve());
    let (mut won, mut lost) = (Vec::new(), Vec::new());
    for rival in (0..64).map(ask).collect::<Vec<_>>() {
        let outcome = s.joined("every rival is answered", rival).await;
        match outcome.unwrap() {
            ReserveOutcome::Reserved(reservation) => won.push(reservation),
            ReserveOutcome::Conflict(conflict) => lost.push(conflict),
        }
    }
    let [winner] = &won[..] else {
        panic!("{} have won", won.len());
    };
    for conflict in lost {
        assert_eq!(conflict.code(), Code::AlreadyReserved);
        assert_eq!(conflict.existing_expires_at(), Some(winner.expires_at()));
    }
    let record = s.record(&s.name("email:a")).await;
    assert_eq!(record.grants.len(), 1);
    assert_eq!(record.last_token, winner.token(), "one was granted ever");
    winner.confirm("user-1").await.unwrap();
}

/// Confirms after so many turns of everybody else, so that it is not always the first.
async fn confirm_after(turns: usize, reservation: Reservation) -> Result<Claim> {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
    reservation.confirm("user-1").await
}

async fn of_confirming_and_releasing_one_wins(s: Scene) {
    let names = s.reservations();
    for round in 0..s.contention().rounds {
        let value = format!("{round}");
        let one = book(&names, "email", &value).await;
        let other = s.reservations().resume(&one.pass()).unwrap();
        let release = tokio::spawn(async move { other.release().await });
        let confirm = tokio::spawn(confirm_after(round % 4, one));
        let (confirmed, released) = (confirm.await.unwrap(), release.await.unwrap());
        let is_confirmed = confirmed.is_ok();
        if is_confirmed {
            assert_code(released, Code::ReservationAlreadyConfirmed);
        } else {
            assert_code(confirmed, Code::ReservationAlreadyReleased);
            released.unwrap();
        }
        let taken = names.is_reserved("email", &value).await.unwrap();
        assert_eq!(taken, is_confirmed);
    }
}

/// Asks for the value until it is had, or taken for good.
async fn covet(names: Reservations, value: String) -> Option<Reservation> {
    loop {
        let outcome = names.request().value("email", &value).reserve().await;
        match outcome.unwrap() {
            ReserveOutcome::Reserved(reservation) => return Some(reservation),
            ReserveOutcome::Conflict(taken) if taken.existing_expires_at().is_none() => {
                return None;
            }
            ReserveOutcome::Conflict(_) => {}
        }
        let soon = SystemClock.now().after(Duration::from_millis(1));
        SystemClock.sleep_until(soon).await;
    }
}

/// Confirms at the last moment, while a rival covets the value.
async fn last_moment(
    s: &Scene,
    names: &Reservations,
    round: usize,
) -> (Result<Claim>, Option<Reservation>) {
    let value = format!("{round}");
    let mine = s.book_briefly(names, "email", &value).await;
    let moment = Duration::from_millis(1 + round as u64 % 3);
    s.pass(mine.remaining().saturating_sub(moment)).await;
    let rival = tokio::spawn(covet(s.reservations(), value));
    let confirm = tokio::spawn(confirm_after(round % 5, mine));
    for _ in 0..round % 4 {
        tokio::task::yield_now().await;
    }
    s.pass(moment).await;
    let confirmed = s.joined("the confirmation", confirm).await;
    (confirmed, s.joined("the rival", rival).await)
}

async fn of_confirming_and_running_out_one_wins(s: Scene) {
    let names = s.reservations();
    let rounds = if s.is_virtual() { 60 } else { 3 };
    for round in 0..rounds {
        let (confirmed, rival) = last_moment(&s, &names, round).await;
        let record = s.record(&s.name(&format!("email:{round}"))).await;
        let counts = (record.claims.len(), record.grants.len());
        match (confirmed, rival) {
            (Ok(_), None) => assert_eq!(counts, (1, 0)),
            (late @ Err(_), Some(rival)) => {
                assert_code(late, Code::ReservationAlreadyExpired);
                assert_eq!(counts, (0, 1));
                rival.confirm("user-2").await.unwrap();
            }
            both => panic!("not exactly one has it: {both:?}"),
        }
    }
}

async fn of_many_entities_exactly_one_gets_the_value(s: Scene) {
    let names = s.reservations();
    let pass = book(&names, "email", "a").await.pass();
    let confirm = |at: usize| {
        let handle = s.reservations().resume(&pass).unwrap();
        tokio::spawn(async move { handle.confirm(&format!("user-{at}")).await })
    };
    let mut won = Vec::new();
    for task in (0..16).map(confirm).collect::<Vec<_>>() {
        match s.joined("every answer", task).await {
            Ok(claim) => won.push(claim),
            refused => assert_code(refused, Code::ReservationAlreadyConfirmed),
        }
    }
    let record = s.record(&s.name("email:a")).await;
    assert_eq!((won.len(), record.claims.len()), (1, 1));
    let claim = record.claims.iter().next().unwrap();
    assert_eq!(claim.entity, won[0].entity());
}

async fn of_many_heirs_exactly_one_gets_the_value(s: Scene) {
    let names = s.reservations();
    let claim = book(&names, "email", "a").await.confirm("user-1").await;
    let claim = claim.unwrap();
    let hand_over = |at: usize| {
        let claim = claim.clone();
        tokio::spawn(async move { claim.hand_over(&format!("heir-{at}")).await })
    };
    let mut heirs = Vec::new();
    for task in (0..16).map(hand_over).collect::<Vec<_>>() {
        heirs.extend(s.joined("every answer", task).await.ok());
    }
    assert_eq!(heirs.len(), 1);
    let record = s.record(&s.name("email:a")).await;
    let owner = record.claims.iter().next().unwrap();
    assert_eq!(owner.entity, heirs[0].entity());
    heirs[0].free().await.unwrap();
}
