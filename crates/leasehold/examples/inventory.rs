//! Sell what there is and no more, to many buyers at once, some of whom crash half-way.

#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::reservation::{Code, ReservationStatus};
use leasehold::{Clock, Reservations, ReserveOutcome, SystemClock};

const BUYERS: u32 = 50;
/// Fewer than the buyers want together.
const MUGS: u32 = 60;
/// How long a basket is kept for somebody who does not come back.
const HOLD: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = leasehold::connect("memory:").await?;
    let shop = Reservations::new(store).namespace("shop").build()?;

    rush(&shop).await?;
    basket(&shop).await?;
    println!("never oversold");
    Ok(())
}

async fn rush(shop: &Reservations) -> Result<(), Box<dyn Error>> {
    shop.set_stock("sku", "mug-blue", MUGS).await?;

    let over = Arc::new(AtomicBool::new(false));
    let observer = tokio::spawn(observe(shop.clone(), over.clone()));
    let buyers: Vec<_> = (0..BUYERS)
        .map(|number| tokio::spawn(buy(shop.clone(), number)))
        .collect();
    // Some processes die, wherever they are.
    for buyer in buyers.iter().step_by(7) {
        buyer.abort();
    }
    for (number, buyer) in buyers.into_iter().enumerate() {
        // Those who stand still with a full basket die as well.
        if number % 5 == 2 {
            tokio::task::yield_now().await;
            buyer.abort();
        }
        match buyer.await {
            Ok(bought) => bought?,
            Err(died) => assert!(died.is_cancelled()),
        }
    }

    // What was left lying about comes back by itself.
    let later = SystemClock.now().after(HOLD + Duration::from_millis(100));
    SystemClock.sleep_until(later).await;
    over.store(true, Ordering::Relaxed);
    let looks = observer.await??;
    assert!(looks > 0);

    let stock = shop.stock("sku", "mug-blue").await?;
    assert_eq!(stock.reserved, 0);
    assert_eq!(stock.confirmed + stock.free(), u64::from(MUGS));

    // One claim per order at most, however often its buyer asked.
    let found = shop.find_all("sku", "mug-blue").await?;
    let sold = found
        .iter()
        .filter(|found| found.status == ReservationStatus::Confirmed);
    let orders: BTreeSet<_> = sold.clone().map(|claim| &claim.entity).collect();
    assert_eq!(orders.len(), sold.count());
    let wanted: u32 = (0..BUYERS).map(mugs_for).sum();
    println!("{BUYERS} buyers wanted {wanted} of {MUGS} mugs; every mug is sold or free");
    Ok(())
}

/// Looks again and again while the others buy. One look sees one moment.
async fn observe(shop: Reservations, over: Arc<AtomicBool>) -> leasehold::Result<u64> {
    let mut looks = 0;
    while !over.load(Ordering::Relaxed) {
        let stock = shop.stock("sku", "mug-blue").await?;
        let taken = stock.reserved + stock.confirmed;
        assert!(taken <= u64::from(MUGS), "oversold: {stock:?}");
        looks += 1;
        let soon = SystemClock.now().after(Duration::from_micros(200));
        SystemClock.sleep_until(soon).await;
    }
    Ok(looks)
}

fn mugs_for(number: u32) -> u32 {
    1 + number % 3
}

async fn buy(shop: Reservations, number: u32) -> leasehold::Result<()> {
    let order = format!("order-{number}");
    let wish = shop
        .request()
        .units("sku", "mug-blue", mugs_for(number))
        .ttl(HOLD)
        .correlation(&order);

    let outcome = match number % 5 {
        // Hangs up if the answer is not there at once. What the store may have reserved is given back.
        3 => tokio::select! {
            biased;
            () = tokio::task::yield_now() => return Ok(()),
            outcome = wish.reserve() => outcome?,
        },
        // Loses the answer and asks again, as the same caller: it is the same reservation, not a second one.
        4 => {
            let wish = wish.caller(format!("idempotency-key-of-{order}"));
            drop(wish.clone().reserve().await?);
            wish.reserve().await?
        }
        _ => wish.reserve().await?,
    };
    let reservation = match outcome {
        ReserveOutcome::Reserved(reservation) => reservation,
        ReserveOutcome::Conflict(conflict) => {
            assert_eq!(conflict.code(), Code::InsufficientStock);
            return Ok(());
        }
    };
    match number % 5 {
        2 => std::future::pending().await,   // stands still until it dies
        3 => return Ok(()),                  // forgets about it
        _ => tokio::task::yield_now().await, // pays
    }
    match reservation.confirm(&order).await {
        Ok(_claim) => Ok(()),
        // Too slow: the mugs may be somebody else's by now. A real shop gives the money back.
        Err(error) if error.code() == Some(Code::ReservationAlreadyExpired) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn basket(shop: &Reservations) -> Result<(), Box<dyn Error>> {
    shop.set_stock("sku", "cup", 3).await?;
    shop.set_stock("sku", "tray", 1).await?;

    let basket = shop
        .request()
        .units("sku", "cup", 2)
        .units("sku", "tray", 2);
    let outcome = basket.reserve().await?;
    let conflict = outcome.conflict().ok_or("there is one tray only")?;
    println!("two cups and two trays: {conflict}");
    for short in &conflict.taken {
        assert_eq!((short.requested, short.available), (2, 1));
    }
    assert_eq!(shop.stock("sku", "cup").await?.free(), 3); // the cups were not touched

    let basket = shop
        .request()
        .units("sku", "cup", 2)
        .units("sku", "tray", 1);
    let reservation = basket.reserve().await?.reserved()?;
    let order = reservation.confirm("order-77").await?;
    println!("two cups and one tray: confirmed as {}", order.entity());

    // Shipped: the units leave the stock together with the claim on them.
    order.spend().await?;
    let (cups, trays) = (
        shop.stock("sku", "cup").await?,
        shop.stock("sku", "tray").await?,
    );
    assert_eq!((cups.units, cups.confirmed), (Some(1), 0));
    assert_eq!((trays.units, trays.confirmed), (Some(0), 0));
    println!(
        "shipped: {} cup and {} trays are left",
        cups.free(),
        trays.free()
    );

    // Cancelled instead: the units go back on the shelf.
    let last = shop
        .reserve_units("sku", "cup", 1, HOLD)
        .await?
        .reserved()?;
    last.confirm("order-78").await?.free().await?;
    assert_eq!(shop.stock("sku", "cup").await?.free(), 1);

    assert_eq!(shop.change_stock("sku", "tray", 12).await?, 12); // a delivery
    println!(
        "a delivery: {} trays",
        shop.stock("sku", "tray").await?.free()
    );
    Ok(())
}
