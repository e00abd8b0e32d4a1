//! A reservation that outlives the program that made it: a store in a file, closed and opened again.

#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::time::Duration;

use leasehold::{Reservations, ReserveOutcome};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let url = format!("file://{}/seats.redb", folder.path().display());

    println!("the first run takes a seat, and ends without a word");
    take_seat(&url, "alice").await?;

    println!("the second run finds it taken");
    take_seat(&url, "bob").await?;
    Ok(())
}

/// What a program does from its start to its end.
async fn take_seat(url: &str, who: &str) -> Result<(), Box<dyn std::error::Error>> {
    let store = leasehold::connect(url).await?;
    let seats = Reservations::new(store).namespace("seats").build()?;
    match seats
        .reserve("seat", "12A", Duration::from_secs(300))
        .await?
    {
        ReserveOutcome::Reserved(reservation) => {
            println!("  {who} has seat 12A under token {}", reservation.token());
            // Not released: the program is over. The pass would let another one go on with it.
            println!("  pass: {} bytes", reservation.pass().to_string().len());
        }
        ReserveOutcome::Conflict(conflict) => println!("  {who} is told: {conflict}"),
    }
    Ok(())
}
