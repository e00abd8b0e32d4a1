//! Book seats in two steps: reserve, pay under a lock of the payment, then confirm or release.

#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::error::Error;
use std::time::Duration;

use leasehold::reservation::{Claim, Code, Pass};
use leasehold::{Clock, Keys, Locks, Reservation, Reservations, ReserveOutcome, SystemClock};

/// How long a customer has to make up their mind.
const HOLD: Duration = Duration::from_secs(10 * 60);
/// What a payment may take at most.
const PAYMENT: Duration = Duration::from_secs(60);

struct Desk {
    seats: Reservations,
    payments: Locks,
}

enum Outcome {
    Booked(Claim),
    Declined,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = leasehold::connect("memory:").await?;
    let desk = Desk {
        seats: Reservations::new(store.clone())
            .namespace("seats")
            .build()?,
        payments: Locks::new(store).namespace("shop").ttl(PAYMENT).build()?,
    };
    one_cinema_seat(&desk).await?;
    two_flights_or_none(&desk).await?;
    never_confirmed(&desk).await?;
    println!("every seat went to one customer at most");
    Ok(())
}

async fn one_cinema_seat(desk: &Desk) -> Result<(), Box<dyn Error>> {
    let seat = Keys::default().join(["show", "7", "seat", "A12"])?;

    // The seat is held, not locked: nothing runs and nobody waits while Alice looks for her card.
    let held = desk.seats.reserve("cinema", &seat, HOLD).await?;
    let alice = held.reserved()?;
    println!("alice holds {}", alice.key());

    match desk.seats.reserve("cinema", &seat, HOLD).await? {
        ReserveOutcome::Conflict(conflict) => {
            assert_eq!(conflict.code(), Code::AlreadyReserved);
            println!("bob learns at once: {conflict}");
        }
        ReserveOutcome::Reserved(_) => return Err("a seat was given out twice".into()),
    }

    // The next request of Alice may reach another process; the pass is all that one needs.
    let kept = alice.pass().to_string();
    let pass: Pass = kept.parse()?;
    let resumed = desk.seats.resume(&pass)?;
    match pay_and_confirm(desk, &resumed, "1001", "empty card").await? {
        Outcome::Declined => println!("alice's card is declined, the seat is free again"),
        Outcome::Booked(_) => return Err("an empty card has paid".into()),
    }

    let bob = desk
        .seats
        .reserve("cinema", &seat, HOLD)
        .await?
        .reserved()?;
    match pay_and_confirm(desk, &bob, "1002", "good card").await? {
        Outcome::Booked(claim) => println!("bob has {} as {}", claim.key(), claim.entity()),
        Outcome::Declined => return Err("a good card was declined".into()),
    }

    // Confirmed is for good: it does not run out, and Alice's old pass opens nothing.
    let late = desk.seats.reserve("cinema", &seat, HOLD).await?;
    println!("carol learns: {}", late.conflict().ok_or("sold twice")?);
    let stale = desk.seats.resume(&pass)?.confirm("order-1001").await;
    let code = stale.err().and_then(|error| error.code());
    println!("alice, once more: {}", code.ok_or("a stale pass worked")?);
    Ok(())
}

/// Pays for what is reserved and keeps it, or lets it go. The order is the customer's, not made up on every attempt:
/// that is what makes two clicks on "pay" exclude each other.
async fn pay_and_confirm(
    desk: &Desk,
    reservation: &Reservation,
    order: &str,
    card: &str,
) -> Result<Outcome, Box<dyn Error>> {
    // The seat must not run out while the payment is under way. An error here means it already has.
    let reservation = reservation.extend(PAYMENT * 2).await?;

    let key = Keys::default().join(["payment", "order", order])?;
    let lock = desk.payments.lock(key).renewing();
    let paid = lock.run(|_held| async { charge(card) }).await?;
    if !paid {
        reservation.release().await?;
        return Ok(Outcome::Declined);
    }
    match reservation.confirm(&format!("order-{order}")).await {
        Ok(claim) => Ok(Outcome::Booked(claim)),
        Err(error) => {
            println!("refund order {order}: {error}");
            Err(error.into())
        }
    }
}

fn charge(card: &str) -> bool {
    card == "good card"
}

async fn two_flights_or_none(desk: &Desk) -> Result<(), Box<dyn Error>> {
    let keys = Keys::default();
    let out = keys.join(["LH454", "date", "2027-03-01", "seat", "14C"])?;
    let back = keys.join(["LH455", "date", "2027-03-09", "seat", "14C"])?;

    let bob = desk.seats.reserve("flight", &back, HOLD).await?;
    let bob = bob.reserved()?;

    let both = desk.seats.request();
    let both = both.value("flight", &out).value("flight", &back).ttl(HOLD);
    let refused = both.clone().reserve().await?;
    println!("no way back: {}", refused.conflict().ok_or("sold twice")?);
    assert!(!desk.seats.is_reserved("flight", &out).await?); // nothing was kept of the half that was free

    bob.release().await?;
    let alice = both.reserve().await?.reserved()?;
    match pay_and_confirm(desk, &alice, "1003", "good card").await? {
        Outcome::Booked(claim) => println!("alice flies as {}", claim.entity()),
        Outcome::Declined => return Err("a good card was declined".into()),
    }
    assert_eq!(desk.seats.find_entity("order-1003").await?.len(), 2);
    Ok(())
}

async fn never_confirmed(desk: &Desk) -> Result<(), Box<dyn Error>> {
    let ttl = Duration::from_secs(1);
    let seat = "show:7:seat:B1";
    let gone = desk.seats.reserve("cinema", seat, ttl).await?.reserved()?;

    // The customer closes the tab. Nobody has to notice.
    let later = SystemClock.now().after(ttl + Duration::from_millis(50));
    SystemClock.sleep_until(later).await;

    assert!(!desk.seats.is_reserved("cinema", seat).await?);
    let next = desk.seats.reserve("cinema", seat, HOLD).await?.reserved()?;
    let code = gone
        .confirm("order-1004")
        .await
        .err()
        .and_then(|e| e.code());
    println!("the one who came back late: {}", code.ok_or("it was over")?);
    next.release().await?;
    Ok(())
}
