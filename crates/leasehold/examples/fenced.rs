//! Both halves of fencing: a gate that refuses a late write, and a guard that would have told its sender.

#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::error::Error;
use std::time::Duration;

use leasehold::fenced::{Applied, Gate};
use leasehold::{Clock, ErrorKind, Locks, SystemClock};

const TTL: Duration = Duration::from_millis(200);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = leasehold::connect("memory:").await?;
    let accounts = Locks::new(store).namespace("accounts").ttl(TTL).build()?;
    let balance = Gate::new(100);

    let alice = accounts.lock("42").acquire().await?;
    // Reading under the token keeps out whoever had the lock before.
    let seen = balance.apply(alice.name(), alice.token(), |balance| *balance);
    let seen = seen.done()?;
    alice.check()?;
    println!("alice, token {}, sees {seen}", alice.token());

    println!("alice is paused for twice her ttl");
    sleep(TTL * 2).await;
    withdraw(&accounts, &balance, 70).await?;

    // For alice no time has passed. She was allowed to write when she last asked, and now her write arrives.
    match balance.apply(alice.name(), alice.token(), |balance| *balance = seen - 50) {
        Applied::Stale(stale) => println!("the gate refuses her write: {stale}"),
        Applied::Done(()) => return Err("a late write was let in".into()),
    }
    match alice.check() {
        Err(error) if error.kind() == ErrorKind::Lost => println!("had she asked: {error}"),
        other => return Err(format!("the guard believes in a lost lock: {other:?}").into()),
    }

    let left = balance.read(|balance| *balance);
    println!("the balance is {left}: 100 less the 70 of bob");
    assert_eq!(left, 30);
    Ok(())
}

/// What bob does: all of it under the lock, and in time.
async fn withdraw(
    accounts: &Locks,
    balance: &Gate<i64>,
    amount: i64,
) -> Result<(), Box<dyn Error>> {
    let bob = accounts.lock("42").acquire().await?;
    let left = balance.apply(bob.name(), bob.token(), |balance| {
        *balance -= amount;
        *balance
    });
    println!("bob, token {}, leaves {}", bob.token(), left.done()?);
    bob.release().await?;
    Ok(())
}

async fn sleep(time: Duration) {
    SystemClock.sleep_until(SystemClock.now().after(time)).await;
}
