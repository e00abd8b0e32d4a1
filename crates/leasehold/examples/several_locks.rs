//! A seat and its payment, all or nothing, from many buyers at once, without deadlock.

#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{Keys, Locks};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = leasehold::connect("memory:").await?;
    let cinema = Locks::new(store)
        .namespace("cinema")
        .ttl(Duration::from_secs(10))
        .build()?;
    let sold = Arc::new(AtomicU32::new(0));

    let buyers = (0..20).map(|buyer| {
        let (cinema, sold) = (cinema.clone(), sold.clone());
        tokio::spawn(async move { buy(&cinema, &sold, buyer).await })
    });
    for buyer in buyers.collect::<Vec<_>>() {
        buyer.await??;
    }
    println!("{} of 20 buyers got seat A12", sold.load(Ordering::SeqCst));
    assert_eq!(sold.load(Ordering::SeqCst), 1);
    Ok(())
}

async fn buy(cinema: &Locks, sold: &AtomicU32, buyer: u32) -> Result<(), leasehold::Error> {
    let keys = Keys::default();
    let seat = keys.join(["show", "7", "seat", "A12"])?;
    let account = keys.join(["account", &buyer.to_string()])?;
    // Some name the account first, some the seat: the order does not matter.
    let both = if buyer.is_multiple_of(2) {
        [&seat, &account]
    } else {
        [&account, &seat]
    };
    let guard = cinema
        .all(both)
        .acquire_within(Duration::from_secs(5))
        .await?;
    if sold.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await; // pay
        guard.check()?;
        sold.fetch_add(1, Ordering::SeqCst);
        println!(
            "buyer {buyer} paid for {seat} under token {:?}",
            guard.token_of(&seat)
        );
    }
    guard.release().await
}
