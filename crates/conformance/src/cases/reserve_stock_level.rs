//! Reservations: how much there is, and many buyers at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_core::Effect;
use leasehold_core::reservation::{Code, Reservations, ReserveOutcome};

use super::reserve_stock::{books, order, shop};
use crate::case::{Case, case};
use crate::fault::{FaultBackend, Faults};
use crate::scene::Scene;
use crate::scene::reservations::{assert_code, book_units, granted, turned_away};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            of_two_orders_that_do_not_both_fit_one_succeeds,
            ["S2-12", "W3-16"],
            Reservations,
            Quantities
        ),
        case!(
            many_buyers_get_exactly_what_there_is,
            ["S2-12", "W3-16"],
            Reservations,
            Quantities
        ),
        case!(
            nothing_is_ever_oversold_and_the_books_agree,
            ["S2-12", "W3-16"],
            Reservations,
            Quantities
        ),
        case!(
            stock_can_be_set_at_a_version,
            ["S2-12", "S2-18", "S3-15"],
            Reservations,
            Quantities
        ),
        case!(
            stock_can_be_set_at_the_version_just_read,
            ["S2-12", "S2-18", "S3-10"],
            Reservations,
            Quantities
        ),
        case!(
            stock_can_be_set_below_what_is_taken,
            ["S2-12"],
            Reservations,
            Quantities
        ),
        case!(
            changes_of_stock_have_bounds,
            ["S2-12", "S3-03"],
            Reservations,
            Quantities
        ),
        case!(
            changes_of_stock_at_the_same_time_add_up,
            ["S2-12", "S2-18", "W3-06"],
            Reservations,
            Quantities
        ),
        case!(stock_can_be_forgotten, ["S2-12"], Reservations, Quantities),
    ]
}

async fn of_two_orders_that_do_not_both_fit_one_succeeds(s: Scene) {
    let shop = shop(&s, 10).await;
    for _ in 0..s.contention().rounds.min(10) {
        let one = tokio::spawn(order(&shop, 8).reserve());
        let other = tokio::spawn(order(&s.reservations(), 8).reserve());
        let outcomes = [one.await.unwrap().unwrap(), other.await.unwrap().unwrap()];
        let (mut got, mut short) = (Vec::new(), 0);
        for outcome in outcomes {
            match outcome {
                ReserveOutcome::Reserved(reservation) => got.push(reservation),
                ReserveOutcome::Conflict(conflict) => {
                    let short_by = (conflict.taken[0].requested, conflict.taken[0].available);
                    assert_eq!(short_by, (8, 2));
                    short += 1;
                }
            }
        }
        assert_eq!((got.len(), short), (1, 1));
        assert_eq!(books(&shop).await, (10, 8, 0, 2));
        got.remove(0).release().await.unwrap();
    }
}

async fn many_buyers_get_exactly_what_there_is(s: Scene) {
    let shop = shop(&s, 10).await;
    let managers = [shop.clone(), s.reservations()];
    let buy = |at: usize| tokio::spawn(order(&managers[at % 2], 1).reserve());
    let mut sold = 0;
    for buyer in (0..64).map(buy).collect::<Vec<_>>() {
        let outcome = s.joined("every buyer is answered", buyer).await.unwrap();
        if let Ok(reservation) = outcome.reserved() {
            reservation.confirm("order").await.unwrap();
            sold += 1;
        }
    }
    assert_eq!(sold, 10);
    assert_eq!(books(&shop).await, (10, 0, 10, 0));
}

/// One round of a buyer: buys, and gives back, sends back, or takes home. Says how many it took home.
async fn shopping(shop: &Reservations, turn: usize) -> u32 {
    let units = 1 + u32::try_from(turn % 3).unwrap();
    let outcome = order(shop, units).reserve().await.unwrap();
    let look = shop.stock("sku", "tv").await.unwrap();
    let (taken, there) = (look.reserved + look.confirmed, look.units.unwrap());
    assert!(taken <= u64::from(there), "oversold: {look:?}");
    let Ok(reservation) = outcome.reserved() else {
        return 0;
    };
    if turn.is_multiple_of(4) {
        reservation.release().await.unwrap();
        return 0;
    }
    let claim = reservation.confirm("order").await.unwrap();
    if turn % 16 == 1 {
        claim.spend().await.unwrap();
        return units;
    }
    claim.free().await.unwrap();
    0
}

async fn nothing_is_ever_oversold_and_the_books_agree(s: Scene) {
    const STOCK: u32 = 200;
    let shop = shop(&s, STOCK).await;
    let spent = Arc::new(AtomicU32::new(0));
    let (tasks, rounds) = (s.contention().tasks, s.contention().rounds);
    let buyer = |at: usize| {
        let (shop, spent) = (s.reservations(), Arc::clone(&spent));
        tokio::spawn(async move {
            for round in 0..rounds {
                let home = shopping(&shop, at + round).await;
                spent.fetch_add(home, Ordering::Relaxed);
            }
        })
    };
    // Little is free, so that they get in each other's way.
    let hoard = book_units(&shop, "tv", STOCK - 6).await;
    for task in (0..tasks).map(buyer).collect::<Vec<_>>() {
        s.joined("everybody's turn", task).await;
    }
    hoard.release().await.unwrap();
    let left = STOCK - spent.load(Ordering::Relaxed);
    assert_eq!(books(&shop).await, (left, 0, 0, u64::from(left)));
}

async fn stock_can_be_set_at_a_version(s: Scene) {
    let shop = s.reservations();
    let first = shop.set_stock_at("sku", "tv", 5, 0).await.unwrap();
    let seen = shop.stock("sku", "tv").await.unwrap();
    assert_eq!((seen.units, seen.version), (Some(5), first));
    drop(book_units(&shop, "tv", 1).await);
    for stale in [first, 0] {
        let answer = shop.set_stock_at("sku", "tv", 9, stale).await;
        assert_code(answer, Code::VersionChanged);
    }
    assert_eq!(books(&shop).await, (5, 1, 0, 4));
    let version = shop.stock("sku", "tv").await.unwrap().version;
    let next = shop.set_stock_at("sku", "tv", 9, version).await.unwrap();
    assert_ne!(next, version);
    assert_eq!(books(&shop).await, (9, 1, 0, 8));
}

/// Nothing changed since the stock was read, except that a reservation had run out before.
async fn stock_can_be_set_at_the_version_just_read(s: Scene) {
    let shop = shop(&s, 5).await;
    drop(granted(order(&shop, 2).ttl(s.brief_reservation())).await);
    s.outlive_brief_reservation().await;
    let read = shop.stock("sku", "tv").await.unwrap();
    assert_eq!(read.free(), 5);
    let set = shop.set_stock_at("sku", "tv", 7, read.version).await;
    set.unwrap();
    assert_eq!(shop.change_stock("sku", "tv", 1).await.unwrap(), 8);
}

async fn stock_can_be_set_below_what_is_taken(s: Scene) {
    let shop = shop(&s, 10).await;
    let kept = book_units(&shop, "tv", 4).await;
    shop.set_stock("sku", "tv", 3).await.unwrap();
    assert_eq!(books(&shop).await, (3, 4, 0, 0));
    let conflict = turned_away(order(&shop, 1)).await;
    assert_eq!(conflict.taken[0].available, 0);
    let claim = kept.confirm("order-1").await.unwrap();
    claim.spend().await.unwrap();
    assert_eq!(books(&shop).await, (0, 0, 0, 0));
}

async fn changes_of_stock_have_bounds(s: Scene) {
    let shop = shop(&s, 5).await;
    let change = async |by: i64| shop.change_stock("sku", "tv", by).await;
    assert_eq!(change(-5).await.unwrap(), 0);
    assert_code(change(-1).await, Code::InsufficientStock);
    assert_code(change(i64::MIN).await, Code::InsufficientStock);
    assert_eq!(change(i64::from(u32::MAX)).await.unwrap(), u32::MAX);
    assert_code(change(1).await, Code::InvalidQuantity);
    assert_code(change(i64::MAX).await, Code::InvalidQuantity);
    assert_eq!(books(&shop).await.0, u32::MAX);
    let fresh = shop.change_stock("sku", "radio", 7).await.unwrap();
    assert_eq!(fresh, 7);
}

/// Over a network that is slow, so that each reads before the others have written.
async fn changes_of_stock_at_the_same_time_add_up(s: Scene) {
    let slow = Faults {
        delay: 1.0,
        ..Faults::NONE
    };
    let network = FaultBackend::random(Arc::clone(s.backend()), slow);
    let s = s.over(Arc::new(network));
    let shop = shop(&s, 100).await;
    let tasks = s.contention().tasks;
    let change = |at: usize| {
        let shop = s.reservations();
        let by = if at.is_multiple_of(2) { 3 } else { -1 };
        tokio::spawn(async move {
            for _ in 0..5 {
                while let Err(error) = shop.change_stock("sku", "tv", by).await {
                    assert!(
                        error.is_retryable() && error.effect() == Effect::None,
                        "{error}"
                    );
                }
            }
            5 * by
        })
    };
    let mut sum = 100;
    for task in (0..tasks).map(change).collect::<Vec<_>>() {
        sum += s.joined("every change is made", task).await;
    }
    assert_eq!(i64::from(books(&shop).await.0), sum);
}

async fn stock_can_be_forgotten(s: Scene) {
    let shop = shop(&s, 5).await;
    let kept = book_units(&shop, "tv", 2).await;
    shop.clear_stock("sku", "tv").await.unwrap();
    let stock = shop.stock("sku", "tv").await.unwrap();
    assert_eq!((stock.units, stock.reserved, stock.free()), (None, 2, 0));
    let conflict = turned_away(order(&shop, 1)).await;
    assert_eq!(conflict.code(), Code::InsufficientStock);
    let claim = kept.confirm("order-1").await.unwrap();
    claim.spend().await.unwrap();
    shop.set_stock("sku", "tv", 3).await.unwrap();
    assert_eq!(books(&shop).await, (3, 0, 0, 3));
}
