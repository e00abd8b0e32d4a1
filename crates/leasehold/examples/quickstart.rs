//! Take a lock, act under it, let go.

#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::time::Duration;

use leasehold::Locks;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = leasehold::connect("memory:").await?;
    let orders = Locks::new(store)
        .namespace("orders")
        .ttl(Duration::from_secs(30))
        .build()?;

    let guard = orders.lock("12345").acquire().await?;
    println!("took {} with token {}", guard.name(), guard.token());

    match orders
        .lock("12345")
        .acquire_within(Duration::from_millis(50))
        .await
    {
        Ok(_) => unreachable!("it is ours"),
        Err(error) => println!("a second caller learns: {error}"),
    }

    guard.check()?; // no I/O: am I still allowed to act?
    println!("still ours for {:?}", guard.remaining());
    guard.release().await?; // says so if the lease had already ended

    let again = orders
        .lock("12345")
        .try_acquire()
        .await?
        .ok_or("it should be free")?;
    println!("the next holder gets a larger token: {}", again.token());
    again.release().await?;
    Ok(())
}
