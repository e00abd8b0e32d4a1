//! Reservations: ending what has run out. A store may do so whenever it is asked anything, so these run alone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::reservation::{
    Key, Reservation, ReservationEvent, ReservationStatus, Reservations,
};

use crate::case::{Case, case};
use crate::scene::reservations::{book, found, granted};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            a_sweep_ends_what_ran_out_a_minute_ago,
            ["T3-29", "S3-11", "S3-01", "S3-14"],
            Reservations
        )
        .alone(),
        case!(
            a_sweep_leaves_what_has_time_left_and_what_is_confirmed,
            ["T3-30", "T3-31", "S3-11"],
            Reservations
        )
        .alone(),
        case!(
            a_sweep_of_reservations_is_bounded_and_says_if_more_is_left,
            ["S3-11", "W3-13", "W3-16"],
            Reservations
        )
        .alone(),
        case!(
            a_dry_run_lists_and_counts_and_changes_nothing,
            ["S3-11", "W3-16"],
            Reservations
        )
        .alone(),
        case!(
            what_ended_long_ago_does_not_hide_what_has_run_out,
            ["S3-11", "W3-13"],
            Reservations,
            VirtualTime
        )
        .alone(),
        case!(
            of_two_sweeps_at_once_each_reservation_is_told_to_one,
            ["S3-11", "W3-13"],
            Reservations
        )
        .alone(),
        case!(
            a_sweep_looks_only_at_reservations_of_its_namespace,
            ["S3-11"],
            Reservations
        )
        .alone(),
        case!(
            a_manager_sweeps_in_the_background_and_tells_of_it,
            ["W3-13", "S3-11"],
            Reservations
        )
        .alone(),
        case!(
            what_has_ended_is_forgotten_in_time,
            ["W3-13"],
            Reservations,
            VirtualTime
        )
        .alone(),
    ]
}

/// Reserves as many values, briefly, and lets them run out. Nothing is asked of the store after that.
async fn run_out(s: &Scene, names: &Reservations, count: usize) -> Vec<Reservation> {
    let mut all = Vec::new();
    for number in 0..count {
        all.push(s.book_briefly(names, "email", &format!("{number}")).await);
    }
    s.outlive_brief_reservation().await;
    all
}

fn keys(reservations: &[Reservation]) -> BTreeSet<Key> {
    reservations.iter().map(|r| r.key().clone()).collect()
}

async fn a_sweep_ends_what_ran_out_a_minute_ago(s: Scene) {
    let names = s.reservations();
    let request = names.request().value("email", "a").correlation("order-7");
    let reservation = granted(request.ttl(s.brief_reservation())).await;
    s.outlive_brief_reservation().await;
    if s.is_virtual() {
        s.pass(Duration::from_secs(60)).await;
    }
    let swept = names.expire(100).await.unwrap();
    let [expired] = &swept.expired[..] else {
        panic!("one had run out: {swept:?}");
    };
    assert!(!swept.more);
    assert_eq!(
        (expired.id, &expired.key),
        (reservation.id(), reservation.key())
    );
    assert_eq!(expired.expires_at, reservation.expires_at());
    assert_eq!(expired.token, reservation.token());
    assert_eq!(expired.units.get(), 1);
    assert_eq!(expired.correlation.as_deref(), Some("order-7"));
    if !s.is_virtual() {
        let seen = found(&names, "email", "a").await;
        assert_eq!(seen.status, ReservationStatus::Expired);
    }
    book(&names, "email", "a")
        .await
        .confirm("user-1")
        .await
        .unwrap();
}

async fn a_sweep_leaves_what_has_time_left_and_what_is_confirmed(s: Scene) {
    let names = s.reservations();
    let confirmed = s.book_briefly(&names, "email", "confirmed").await;
    confirmed.confirm("user-1").await.unwrap();
    let live = book(&names, "email", "live").await;
    s.outlive_brief_reservation().await;
    let look = async || {
        let live = s.record(&s.name("email:live")).await;
        (live, s.record(&s.name("email:confirmed")).await)
    };
    let before = look().await;
    let swept = names.expire(100).await.unwrap();
    assert!(swept.expired.is_empty() && !swept.more, "{swept:?}");
    assert_eq!(look().await, before);
    live.confirm("user-2").await.unwrap();
}

async fn a_sweep_of_reservations_is_bounded_and_says_if_more_is_left(s: Scene) {
    let names = s.reservations();
    let all = run_out(&s, &names, 5).await;
    let mut seen = BTreeSet::new();
    for left in [3, 1] {
        let swept = names.expire(2).await.unwrap();
        assert_eq!(swept.expired.len(), 2);
        assert!(swept.more, "{left} are left");
        seen.extend(swept.expired.into_iter().map(|expired| expired.key));
    }
    let swept = names.expire(2).await.unwrap();
    assert_eq!((swept.expired.len(), swept.more), (1, false));
    seen.extend(swept.expired.into_iter().map(|expired| expired.key));
    assert_eq!(seen, keys(&all));
    let again = names.expire(2).await.unwrap();
    assert!(again.expired.is_empty() && !again.more, "{again:?}");
}

async fn a_dry_run_lists_and_counts_and_changes_nothing(s: Scene) {
    let names = s.reservations();
    let all = run_out(&s, &names, 5).await;
    for _ in 0..2 {
        let listed = names.expired(100).await.unwrap();
        assert!(!listed.more);
        let listed: BTreeSet<_> = listed.expired.into_iter().map(|e| e.key).collect();
        assert_eq!(listed, keys(&all));
        assert_eq!(names.count_expired(100).await.unwrap(), 5);
    }
    let some = names.expired(2).await.unwrap();
    assert_eq!((some.expired.len(), some.more), (2, true));
    assert_eq!(names.count_expired(3).await.unwrap(), 3);
    assert_eq!(names.expire(100).await.unwrap().expired.len(), 5);
    assert_eq!(names.count_expired(100).await.unwrap(), 0);
    assert_eq!(names.expired(100).await.unwrap().expired, []);
}

async fn what_ended_long_ago_does_not_hide_what_has_run_out(s: Scene) {
    let names = s.reservations();
    for number in 0..3 {
        let released = book(&names, "email", &format!("0{number}")).await;
        released.release().await.unwrap();
    }
    drop(s.book_briefly(&names, "email", "9").await);
    s.pass(Duration::from_secs(24 * 60 * 60)).await;
    assert_eq!(names.count_expired(1).await.unwrap(), 1);
    let listed = names.expired(1).await.unwrap();
    assert_eq!((listed.expired.len(), listed.more), (1, false));
}

async fn of_two_sweeps_at_once_each_reservation_is_told_to_one(s: Scene) {
    let (here, there) = (s.reservations(), s.reservations());
    let all = run_out(&s, &here, 8).await;
    let sweep = |names: Reservations| tokio::spawn(async move { names.expire(100).await });
    let (one, other) = (sweep(here.clone()), sweep(there));
    let mut told = one.await.unwrap().unwrap().expired;
    told.extend(other.await.unwrap().unwrap().expired);
    assert_eq!(told.len(), all.len(), "{told:?}");
    let told: BTreeSet<_> = told.into_iter().map(|expired| expired.key).collect();
    assert_eq!(told, keys(&all));
    assert!(here.expire(100).await.unwrap().expired.is_empty());
}

async fn a_sweep_looks_only_at_reservations_of_its_namespace(s: Scene) {
    let names = s.reservations();
    let other = format!("{}-2", s.namespace());
    let others = s.reservations_with(|builder| builder.namespace(other));
    let theirs = s.book_briefly(&others, "email", "theirs").await;
    let ttl = leasehold_core::Ttl::new(s.brief_reservation()).unwrap();
    s.take_for(&Party::new("a"), &s.name("email:lock"), ttl)
        .await;
    let ours = run_out(&s, &names, 1).await;
    let swept = names.expire(100).await.unwrap();
    let swept: Vec<_> = swept.expired.into_iter().map(|e| e.key).collect();
    assert_eq!(swept, [ours[0].key().clone()]);
    let listed = others.expired(100).await.unwrap().expired;
    assert_eq!(listed.len(), 1, "it is still theirs to sweep");
    assert_eq!(listed[0].id, theirs.id());
}

#[derive(Default)]
struct Told {
    expired: Vec<Key>,
    swept: usize,
    more: bool,
}

async fn a_manager_sweeps_in_the_background_and_tells_of_it(s: Scene) {
    let told = Arc::new(Mutex::new(Told::default()));
    let sink = Arc::clone(&told);
    let hook = move |event: &ReservationEvent<'_>| {
        let mut told = sink.lock().unwrap();
        match event {
            ReservationEvent::Expired { expired } => told.expired.push(expired.key.clone()),
            ReservationEvent::Swept { expired, more } => {
                told.swept += expired;
                told.more |= more;
            }
            _ => {}
        }
    };
    // Later than the reservations end, so that one turn of it finds them all.
    let every = s.brief_reservation() + s.harness().slack() + Duration::from_secs(1);
    let names = s.reservations_with(|builder| {
        let builder = builder.sweep_every(Some(every)).sweep_batch(2);
        builder.on_event(hook)
    });
    let mut all = BTreeSet::new();
    for number in 0..5 {
        let reservation = s.book_briefly(&names, "email", &format!("{number}")).await;
        all.insert(reservation.key().clone());
    }
    let swept = || told.lock().unwrap().swept;
    s.until("the background sweeps", || swept() > 0).await;
    // Nobody moves the time any more: the rest follows at once.
    s.eventually("the rest is swept", || (swept() == 5).then_some(()))
        .await;
    let told = told.lock().unwrap();
    assert_eq!(told.expired.iter().cloned().collect::<BTreeSet<_>>(), all);
    assert!(told.more, "two at a time do not do it in one step");
}

async fn what_has_ended_is_forgotten_in_time(s: Scene) {
    let names = s.reservations();
    book(&names, "email", "0").await.release().await.unwrap();
    let claim = book(&names, "email", "1").await.confirm("user-1").await;
    claim.unwrap().free().await.unwrap();
    drop(s.book_briefly(&names, "email", "2").await);
    book(&names, "email", "3")
        .await
        .confirm("user-3")
        .await
        .unwrap();
    let day = Duration::from_secs(24 * 60 * 60);
    // Once to notice the end, and once to forget it.
    for _ in 0..2 {
        s.pass(day).await;
        while names.expire(100).await.unwrap().more {}
    }
    for number in 0..3 {
        let record = s.get(&s.name(&format!("email:{number}"))).await;
        assert!(record.is_none_or(|record| record.is_blank()), "{number}");
    }
    assert!(names.is_reserved("email", "3").await.unwrap());
}
