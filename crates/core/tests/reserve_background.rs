//! What reservations do in the background: sweeping, telling, giving back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_conformance::FaultBackend;
use leasehold_conformance::fault::Faults;
use leasehold_core::memory::Memory;
use leasehold_core::record_store::RETENTION;
use leasehold_core::reservation::{
    ReservationEvent, Reservations, ReservationsBuilder, schema::SWEEP_EVERY,
};
use leasehold_core::wrap::Timeout;
use leasehold_core::{Backend, Effect, ErrorKind, ManualClock};

const TTL: Duration = Duration::from_secs(60);

type Log = Arc<Mutex<Vec<String>>>;

fn world() -> (ManualClock, Arc<Memory>) {
    let clock = ManualClock::new();
    let memory = Memory::with_clock(Arc::new(clock.clone()));
    (clock, Arc::new(memory))
}

fn builder(store: Arc<dyn Backend>, clock: &ManualClock) -> ReservationsBuilder {
    let builder = Reservations::new(store).namespace("shop");
    builder.clock(Arc::new(clock.clone()))
}

/// A manager that writes down what it tells its hooks.
fn telling(store: Arc<dyn Backend>, clock: &ManualClock) -> (ReservationsBuilder, Log) {
    let log = Log::default();
    let told = log.clone();
    let builder = builder(store, clock).on_event(move |event| {
        told.lock().unwrap().push(match event {
            ReservationEvent::Expired { expired } => format!(
                "expired {} {}",
                expired.key,
                expired.correlation.as_deref().unwrap_or("-")
            ),
            ReservationEvent::Swept { expired, more } => format!("swept {expired} {more}"),
            ReservationEvent::SweepFailed { error } => format!("failed {:?}", error.kind()),
            other => format!("{other:?}").split(' ').next().unwrap().to_owned(),
        });
    });
    (builder, log)
}

/// The store behind a network that loses every answer, until it is healed.
fn mute(memory: Arc<Memory>) -> Arc<FaultBackend<Arc<Memory>>> {
    let mute = Faults {
        lost_reply: 1.0,
        ..Faults::NONE
    };
    Arc::new(FaultBackend::random(memory, mute))
}

/// The store behind a network that loses every request, until it is healed.
fn deaf(memory: Arc<Memory>) -> Arc<FaultBackend<Arc<Memory>>> {
    let deaf = Faults {
        lost_request: 1.0,
        ..Faults::NONE
    };
    Arc::new(FaultBackend::random(memory, deaf))
}

async fn others_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// W3-13: batch after batch until nothing is left, and everybody is told.
#[tokio::test]
async fn the_sweeper_goes_on_while_more_remain() {
    let (clock, memory) = world();
    let (builder, log) = telling(memory, &clock);
    let all = builder.sweep_batch(2).build().unwrap();
    for number in 0..5 {
        let request = all.request().value("seat", &format!("A{number}"));
        let request = request.ttl(TTL).correlation(format!("order-{number}"));
        drop(request.reserve().await.unwrap());
    }
    log.lock().unwrap().clear();
    others_run().await;
    clock.advance(SWEEP_EVERY);
    others_run().await;
    let mut told = log.lock().unwrap().clone();
    let swept: Vec<_> = told
        .extract_if(.., |line| line.starts_with("swept"))
        .collect();
    assert_eq!(swept, ["swept 2 true", "swept 2 true", "swept 1 false"]);
    told.sort_unstable();
    let wanted: Vec<_> = (0..5)
        .map(|number| format!("expired seat:A{number} order-{number}"))
        .collect();
    assert_eq!(told, wanted);
}

#[tokio::test]
async fn a_sweep_that_fails_is_told_and_tried_again() {
    let (clock, memory) = world();
    let store = deaf(memory);
    let (builder, log) = telling(store.clone(), &clock);
    let _all = builder.build().unwrap();
    others_run().await;
    clock.advance(SWEEP_EVERY);
    others_run().await;
    store.heal();
    clock.advance(SWEEP_EVERY);
    others_run().await;
    let told = log.lock().unwrap().clone();
    assert_eq!(told, ["failed Unavailable", "swept 0 false"]);
}

#[tokio::test]
async fn the_sweeper_ends_with_its_manager() {
    let (clock, memory) = world();
    let (builder, log) = telling(memory, &clock);
    let all = builder.build().unwrap();
    others_run().await;
    assert_eq!(clock.sleepers(), 1);
    drop(all);
    others_run().await;
    assert_eq!(clock.sleepers(), 0);
    clock.advance(SWEEP_EVERY);
    others_run().await;
    assert!(log.lock().unwrap().is_empty());
}

/// What was done in the store although the answer was lost is given back: nobody could confirm it.
#[tokio::test]
async fn a_reservation_whose_answer_was_lost_is_given_back() {
    let (clock, memory) = world();
    let store = mute(memory.clone());
    let all = builder(store.clone(), &clock).build().unwrap();
    let error = all.reserve("seat", "A1", TTL).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    let direct = builder(memory, &clock).sweep_every(None).build().unwrap();
    store.heal();
    for _ in 0..3 {
        others_run().await;
        clock.advance(Duration::from_millis(100));
    }
    assert!(!direct.is_reserved("seat", "A1").await.unwrap());
}

/// S3-09: of a caller that can ask again, nothing is given back.
#[tokio::test]
async fn an_idempotent_request_whose_answer_was_lost_is_found_again() {
    let (clock, memory) = world();
    let store = mute(memory.clone());
    let all = builder(store.clone(), &clock).build().unwrap();
    let lost = all.reserve_idempotent("seat", "A1", TTL, "me").await;
    assert_eq!(lost.unwrap_err().effect(), Effect::Unknown);
    store.heal();
    others_run().await;
    let direct = builder(memory, &clock).sweep_every(None).build().unwrap();
    assert!(direct.is_reserved("seat", "A1").await.unwrap());
    let found = all.reserve_idempotent("seat", "A1", TTL, "me").await;
    found
        .unwrap()
        .reserved()
        .unwrap()
        .confirm("user-1")
        .await
        .unwrap();
}

/// W3-13: what has ended is forgotten after a while.
#[tokio::test]
async fn what_has_ended_is_forgotten_after_its_retention() {
    let (clock, memory) = world();
    let all = builder(memory.clone(), &clock)
        .sweep_every(None)
        .build()
        .unwrap();
    let outcome = all.reserve("seat", "A1", TTL).await.unwrap();
    outcome.reserved().unwrap().release().await.unwrap();
    assert!(all.find("seat", "A1").await.unwrap().is_some());
    clock.advance(RETENTION);
    all.expire(10).await.unwrap();
    assert_eq!(all.find("seat", "A1").await.unwrap(), None);
    assert!(memory.is_empty());
}

/// A store that does not answer is never "free" and never "taken".
#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_asked_is_an_error() {
    let (clock, memory) = world();
    let store = Timeout::new(deaf(memory), Duration::from_secs(1)).unwrap();
    let all = builder(Arc::new(store), &clock).build().unwrap();
    for kind in [
        all.reserve("seat", "A1", TTL).await.unwrap_err().kind(),
        all.is_reserved("seat", "A1").await.unwrap_err().kind(),
        all.stock("seat", "A1").await.unwrap_err().kind(),
        all.expired(1).await.unwrap_err().kind(),
        all.find_entity("user-1").await.unwrap_err().kind(),
    ] {
        assert_eq!(kind, ErrorKind::Unavailable);
    }
}
