//! Reservations: units of what there is a stock of.

use leasehold_core::reservation::{Code, Reservations, Reserve, Stock};

use crate::case::{Case, case};
use crate::scene::Scene;
use crate::scene::reservations::{assert_code, book_units, granted, turned_away};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            stock_goes_from_free_to_reserved_to_confirmed,
            ["S2-12", "W3-12"],
            Reservations,
            Quantities
        ),
        case!(
            released_and_expired_units_come_back,
            ["S2-12", "S3-08", "S3-10"],
            Reservations,
            Quantities
        ),
        case!(
            freed_units_come_back_and_spent_ones_do_not,
            ["S2-12", "W3-11"],
            Reservations,
            Quantities
        ),
        case!(
            too_many_units_are_refused_with_what_is_there,
            ["S2-12", "S3-06"],
            Reservations,
            Quantities
        ),
        case!(
            of_what_has_no_stock_there_is_nothing,
            ["S2-12"],
            Reservations,
            Quantities
        ),
        case!(
            a_wrong_order_takes_nothing,
            ["S2-12", "S3-03"],
            Reservations,
            Quantities
        ),
        case!(
            an_order_takes_everything_or_lists_all_that_is_short,
            ["S2-12", "W3-12", "S3-06"],
            Reservations,
            Quantities,
            AtomicNames
        ),
        case!(
            an_order_can_mix_units_and_values,
            ["S2-12", "W3-12"],
            Reservations,
            Quantities,
            AtomicNames
        ),
    ]
}

pub(super) async fn shop(s: &Scene, units: u32) -> Reservations {
    let shop = s.reservations();
    shop.set_stock("sku", "tv", units).await.unwrap();
    shop
}

/// All there is, and what of it is reserved, confirmed and free.
pub(super) async fn books(shop: &Reservations) -> (u32, u64, u64, u64) {
    let stock = shop.stock("sku", "tv").await.unwrap();
    let units = stock.units.expect("somebody has set it");
    (units, stock.reserved, stock.confirmed, stock.free())
}

pub(super) fn order(shop: &Reservations, units: u32) -> Reserve {
    shop.request().units("sku", "tv", units)
}

async fn stock_goes_from_free_to_reserved_to_confirmed(s: Scene) {
    let shop = shop(&s, 10).await;
    assert_eq!(books(&shop).await, (10, 0, 0, 10));
    let ttl = s.long().as_duration();
    let reservation = shop.reserve_units("sku", "tv", 3, ttl).await;
    let reservation = reservation.unwrap().reserved().unwrap();
    assert_eq!(books(&shop).await, (10, 3, 0, 7));
    drop(book_units(&shop, "tv", 5).await);
    assert_eq!(books(&shop).await, (10, 8, 0, 2));
    reservation.confirm("order-1").await.unwrap();
    assert_eq!(books(&shop).await, (10, 5, 3, 2));
    let (_, units, token) = reservation.items().next().unwrap();
    assert_eq!((units.get(), token), (3, reservation.token()));
    assert_eq!(shop.find_all("sku", "tv").await.unwrap().len(), 2);
}

async fn released_and_expired_units_come_back(s: Scene) {
    let shop = shop(&s, 5).await;
    let released = book_units(&shop, "tv", 2).await;
    drop(granted(order(&shop, 3).ttl(s.brief_reservation())).await);
    assert_eq!(books(&shop).await, (5, 5, 0, 0));
    released.release().await.unwrap();
    assert_eq!(books(&shop).await, (5, 3, 0, 2));
    turned_away(order(&shop, 3)).await;
    s.outlive_brief_reservation().await;
    assert_eq!(books(&shop).await, (5, 0, 0, 5));
    drop(book_units(&shop, "tv", 5).await);
}

async fn freed_units_come_back_and_spent_ones_do_not(s: Scene) {
    let shop = shop(&s, 10).await;
    let claim = async |units| {
        let reservation = book_units(&shop, "tv", units).await;
        reservation.confirm("order").await.unwrap()
    };
    let (cancelled, shipped) = (claim(4).await, claim(3).await);
    assert_eq!(books(&shop).await, (10, 0, 7, 3));
    cancelled.free().await.unwrap();
    assert_eq!(books(&shop).await, (10, 0, 3, 7));
    for _ in 0..2 {
        shipped.spend().await.unwrap();
        assert_eq!(books(&shop).await, (7, 0, 0, 7));
    }
    turned_away(order(&shop, 8)).await;
    drop(book_units(&shop, "tv", 7).await);
}

async fn too_many_units_are_refused_with_what_is_there(s: Scene) {
    let shop = shop(&s, 10).await;
    book_units(&shop, "tv", 6)
        .await
        .confirm("order")
        .await
        .unwrap();
    let first = book_units(&shop, "tv", 1).await;
    for wanted in [4, 11, u32::MAX] {
        let conflict = turned_away(order(&shop, wanted)).await;
        assert_eq!(conflict.code(), Code::InsufficientStock);
        let [short] = &conflict.taken[..] else {
            panic!("one thing was asked for: {conflict:?}");
        };
        assert!(short.of_stock);
        assert_eq!((short.id, short.key.as_str()), (first.id(), "sku:tv"));
        assert_eq!((short.requested, short.available), (wanted, 3));
        let error = order(&shop, wanted).reserve().await.unwrap().reserved();
        assert_code(error, Code::InsufficientStock);
    }
    assert_eq!(books(&shop).await, (10, 1, 6, 3));
    drop(book_units(&shop, "tv", 3).await);
}

async fn of_what_has_no_stock_there_is_nothing(s: Scene) {
    let names = s.reservations();
    let stock = names.stock("sku", "tv").await.unwrap();
    assert_eq!(stock, Stock::default());
    let conflict = turned_away(order(&names, 1)).await;
    assert_eq!(conflict.code(), Code::InsufficientStock);
    assert_eq!(conflict.taken[0].available, 0);
    names.set_stock("sku", "tv", 0).await.unwrap();
    turned_away(order(&names, 1)).await;
    assert_eq!(names.change_stock("sku", "tv", 1).await.unwrap(), 1);
    drop(book_units(&names, "tv", 1).await);
}

async fn a_wrong_order_takes_nothing(s: Scene) {
    let shop = shop(&s, 10).await;
    let before = s.record(&s.name("sku:tv")).await;
    let ttl = s.long().as_duration();
    assert_code(order(&shop, 0).reserve().await, Code::InvalidQuantity);
    assert_code(
        shop.reserve_units("sku", "tv", 0, ttl).await,
        Code::InvalidQuantity,
    );
    let twice = order(&shop, 1).units("sku", "tv", 2).reserve().await;
    assert_code(twice, Code::DuplicateProductIds);
    let mixed = order(&shop, 1).units("sku", " ", 2).reserve().await;
    assert_code(mixed, Code::InvalidValue);
    assert_code(shop.stock(" ", "tv").await, Code::InvalidType);
    assert_code(shop.set_stock("sku", "", 1).await, Code::InvalidValue);
    assert_eq!(s.record(&s.name("sku:tv")).await, before);
}

async fn an_order_takes_everything_or_lists_all_that_is_short(s: Scene) {
    let shop = shop(&s, 5).await;
    for (sku, units) in [("radio", 1), ("phone", 2)] {
        shop.set_stock("sku", sku, units).await.unwrap();
    }
    let basket = |radios| {
        let request = order(&shop, 3).units("sku", "radio", radios);
        request.units("sku", "phone", 2).units("sku", "lamp", 1)
    };
    let conflict = turned_away(basket(2)).await;
    assert_eq!(conflict.code(), Code::InsufficientStock);
    let short: Vec<_> = conflict
        .taken
        .iter()
        .map(|short| (short.key.value(), short.requested, short.available))
        .collect();
    assert_eq!(short, [("lamp", 1, 0), ("radio", 2, 1)]);
    assert_eq!(books(&shop).await, (5, 0, 0, 5));
    shop.set_stock("sku", "lamp", 1).await.unwrap();
    let reservation = granted(basket(1)).await;
    assert_eq!(books(&shop).await, (5, 3, 0, 2));
    reservation
        .confirm("order-1")
        .await
        .unwrap()
        .spend()
        .await
        .unwrap();
    assert_eq!(books(&shop).await, (2, 0, 0, 2));
    let radios = shop.stock("sku", "radio").await.unwrap();
    assert_eq!((radios.units, radios.confirmed), (Some(0), 0));
}

async fn an_order_can_mix_units_and_values(s: Scene) {
    let shop = shop(&s, 5).await;
    let request = || order(&shop, 2).value("coupon", "SAVE10");
    let first = granted(request()).await;
    let conflict = turned_away(request()).await;
    assert_eq!(conflict.taken.len(), 1, "{conflict:?}");
    assert_eq!(conflict.code(), Code::AlreadyReserved);
    assert_eq!(books(&shop).await, (5, 2, 0, 3));
    first.release().await.unwrap();
    drop(granted(request()).await);
}
