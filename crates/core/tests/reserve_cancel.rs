//! Every async verb of reservations, dropped at every poll: nothing is left that nobody can get at, and asking again
//! finds out what was done.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Can, SETTLED, Task, Yielding, others_run, poll_once, run};
use leasehold_core::reservation::{Code, Reservation, ReservationStatus, Reservations};
use leasehold_core::{ManualClock, Name, Record};

const TTL: Duration = Duration::from_secs(60);
/// More polls than any verb here takes.
const MOST_POLLS: usize = 24;

struct Shop {
    clock: ManualClock,
    store: Arc<Yielding>,
    all: Reservations,
}

impl Shop {
    fn new() -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(Yielding::new(&clock, Can::Queue));
        let all = Reservations::new(store.clone())
            .namespace("shop")
            .sweep_every(None)
            .clock(Arc::new(clock.clone()))
            .build()
            .unwrap();
        Self { clock, store, all }
    }

    fn record(&self, key: &str) -> Option<Record> {
        self.store.peek(&Name::new("shop", key).unwrap())
    }

    /// How many grants and claims there are of a key.
    fn taken(&self, key: &str) -> (usize, usize) {
        self.record(key)
            .map_or((0, 0), |record| (record.grants.len(), record.claims.len()))
    }

    async fn reserved(&self) -> Reservation {
        let outcome = self.all.reserve("seat", "A1", TTL).await;
        outcome.unwrap().reserved().unwrap()
    }
}

/// Polls a future this many times and drops it; whether it was done before.
async fn dropped_after<T>(polls: usize, mut future: Task<T>) -> Option<T> {
    for _ in 0..polls {
        if let Some(output) = poll_once(&mut future).await {
            return Some(output);
        }
    }
    None
}

/// Runs a test with 0, 1, 2, … polls, each time in a new shop, until its future is done before it can be dropped.
fn at_every_poll(mut test: impl AsyncFnMut(Shop, usize) -> bool) {
    let mut done = false;
    for polls in 0..MOST_POLLS {
        run(async {
            done = test(Shop::new(), polls).await;
            others_run(SETTLED).await;
        });
        if done {
            assert!(polls > 1, "it was never dropped midway");
            return;
        }
    }
    panic!("it was not done after {MOST_POLLS} polls");
}

#[test]
fn a_dropped_reserve_leaves_nothing() {
    at_every_poll(async |shop, polls| {
        let all = shop.all.clone();
        let future = Box::pin(async move { all.reserve("seat", "A1", TTL).await });
        let done = dropped_after(polls, future).await.is_some();
        others_run(SETTLED).await;
        assert_eq!(shop.taken("seat:A1"), (usize::from(done), 0));
        done
    });
}

#[test]
fn several_values_are_given_back_together() {
    at_every_poll(async |shop, polls| {
        let request = shop.all.request().value("seat", "A1").value("seat", "A2");
        let done = dropped_after(polls, Box::pin(request.reserve()))
            .await
            .is_some();
        others_run(SETTLED).await;
        let left = usize::from(done);
        assert_eq!(shop.taken("seat:A1"), (left, 0));
        assert_eq!(shop.taken("seat:A2"), (left, 0));
        done
    });
}

/// S3-09: the caller may have had it before, so that giving it back would take it away.
#[test]
fn a_dropped_idempotent_reserve_is_found_by_asking_again() {
    at_every_poll(async |shop, polls| {
        let before = shop.all.reserve_idempotent("seat", "A1", TTL, "me").await;
        let before = before.unwrap().reserved().unwrap();
        let request = shop.all.request().value("seat", "A1").caller("me");
        let done = dropped_after(polls, Box::pin(request.reserve()))
            .await
            .is_some();
        others_run(SETTLED).await;
        let again = shop.all.reserve_idempotent("seat", "A1", TTL, "me").await;
        let again = again.unwrap().reserved().unwrap();
        assert_eq!(again.token(), before.token());
        done
    });
}

#[test]
fn a_dropped_confirm_is_found_by_asking_again() {
    at_every_poll(async |shop, polls| {
        let reservation = shop.reserved().await;
        let same = reservation.clone();
        let future = Box::pin(async move { same.confirm("user-1").await });
        let done = dropped_after(polls, future).await.is_some();
        others_run(SETTLED).await;
        let (grants, claims) = shop.taken("seat:A1");
        assert_eq!(grants + claims, 1, "it is reserved or confirmed");
        let again = reservation.confirm("user-1").await;
        if done {
            let code = again.unwrap_err().code();
            assert_eq!(code, Some(Code::ReservationAlreadyConfirmed));
        } else {
            again.unwrap();
        }
        assert_eq!(shop.taken("seat:A1"), (0, 1));
        done
    });
}

#[test]
fn a_dropped_release_is_found_by_asking_again() {
    at_every_poll(async |shop, polls| {
        let reservation = shop.reserved().await;
        let same = reservation.clone();
        let done = dropped_after(polls, Box::pin(async move { same.release().await }));
        let done = done.await.is_some();
        others_run(SETTLED).await;
        if !done {
            reservation.release().await.unwrap();
        }
        assert_eq!(shop.taken("seat:A1"), (0, 0));
        let found = shop.all.find("seat", "A1").await.unwrap().unwrap();
        assert_eq!(found.status, ReservationStatus::Released);
        done
    });
}

#[test]
fn a_dropped_extension_does_not_lose_the_reservation() {
    at_every_poll(async |shop, polls| {
        let reservation = shop.reserved().await;
        let same = reservation.clone();
        let future = Box::pin(async move { same.extend(TTL * 2).await });
        let done = dropped_after(polls, future).await.is_some();
        others_run(SETTLED).await;
        let longer = reservation.extend(TTL * 2).await.unwrap();
        shop.clock.advance(TTL);
        longer.confirm("user-1").await.unwrap();
        done
    });
}

#[test]
fn a_dropped_free_or_spend_is_done_once() {
    for spend in [false, true] {
        at_every_poll(async |shop, polls| {
            shop.all.set_stock("sku", "tv", 5).await.unwrap();
            let bought = shop.all.reserve_units("sku", "tv", 2, TTL).await;
            let claim = bought.unwrap().reserved().unwrap().confirm("order").await;
            let claim = claim.unwrap();
            let same = claim.clone();
            let future: Task<_> = Box::pin(async move {
                if spend {
                    same.spend().await
                } else {
                    same.free().await
                }
            });
            let done = dropped_after(polls, future).await.is_some();
            others_run(SETTLED).await;
            let again = if spend {
                claim.spend().await
            } else {
                claim.free().await
            };
            again.unwrap();
            let left = shop.all.stock("sku", "tv").await.unwrap();
            let there = if spend { 3 } else { 5 };
            assert_eq!((left.units, left.confirmed), (Some(there), 0));
            done
        });
    }
}

#[test]
fn a_dropped_hand_over_is_done_once_and_loses_nothing() {
    at_every_poll(async |shop, polls| {
        let claim = shop.reserved().await.confirm("user-1").await.unwrap();
        let heir = claim.heir("user-2").unwrap();
        let (old, new) = (claim.clone(), heir.clone());
        let future = Box::pin(async move { old.hand_over_to(&new).await });
        let done = dropped_after(polls, future).await.is_some();
        others_run(SETTLED).await;
        claim.hand_over_to(&heir).await.unwrap();
        assert!(claim.free().await.is_err(), "the old secret still works");
        heir.free().await.unwrap();
        assert_eq!(shop.taken("seat:A1"), (0, 0));
        done
    });
}

#[test]
fn a_dropped_sweep_loses_nothing() {
    at_every_poll(async |shop, polls| {
        drop(shop.reserved().await);
        shop.clock.advance(TTL);
        let all = shop.all.clone();
        let done = dropped_after(polls, Box::pin(async move { all.expire(10).await }));
        let done = done.await.is_some();
        others_run(SETTLED).await;
        shop.all.expire(10).await.unwrap();
        assert_eq!(shop.all.count_expired(10).await.unwrap(), 0);
        let found = shop.all.find("seat", "A1").await.unwrap().unwrap();
        assert_eq!(found.status, ReservationStatus::Expired);
        done
    });
}

/// A manager that goes away takes its background task along, but not what it still has to give back.
#[test]
fn a_manager_that_goes_away_still_gives_back() {
    run(async {
        let shop = Shop::new();
        let all = shop.all.clone();
        let future = Box::pin(async move { all.reserve("seat", "A1", TTL).await });
        assert!(dropped_after(2, future).await.is_none());
        let Shop { store, all, .. } = shop;
        drop(all);
        others_run(SETTLED).await;
        let name = Name::new("shop", "seat:A1").unwrap();
        let left = store.peek(&name).map_or(0, |record| record.grants.len());
        assert_eq!(left, 0);
    });
}

#[test]
fn a_shutdown_waits_for_what_is_given_back() {
    run(async {
        let shop = Shop::new();
        let all = shop.all.clone();
        let future = Box::pin(async move { all.reserve("seat", "A1", TTL).await });
        assert!(dropped_after(2, future).await.is_none());
        shop.all.shutdown(TTL).await.unwrap();
        assert_eq!(shop.taken("seat:A1"), (0, 0));
        let closed = shop.all.reserve("seat", "A1", TTL).await.unwrap_err();
        assert_eq!(closed.kind(), leasehold_core::ErrorKind::Closed);
    });
}
