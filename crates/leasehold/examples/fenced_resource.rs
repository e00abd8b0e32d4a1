//! The checking half of fencing: a resource that refuses a token lower than one it has seen.

#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::{Clock, Locks, SystemClock, Token};

/// An account that remembers, with its balance, the highest token it was written under.
#[derive(Default)]
struct Account {
    balance: i64,
    highest: Option<Token>,
}

impl Account {
    fn write(&mut self, token: Token, balance: i64) -> Result<(), String> {
        if self.highest.is_some_and(|highest| token < highest) {
            return Err(format!("token {token} is older than {:?}", self.highest));
        }
        self.highest = Some(token);
        self.balance = balance;
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = leasehold::connect("memory:").await?;
    let locks = Locks::new(store)
        .namespace("accounts")
        .ttl(Duration::from_millis(200))
        .build()?;
    let mut accounts = BTreeMap::from([("alice", Account::default())]);
    let alice = accounts.get_mut("alice").ok_or("no such account")?;

    // The first holder reads, and is then paused for longer than its lease.
    let slow = locks.lock("alice").acquire().await?;
    let seen = alice.balance;
    SystemClock
        .sleep_until(SystemClock.now().after(Duration::from_millis(300)))
        .await;

    // Meanwhile the lease has run out and somebody else does the work.
    let quick = locks.lock("alice").acquire().await?;
    alice.write(quick.token(), 100)?;
    quick.release().await?;

    // The late write is refused by the resource, whatever its sender believes.
    match alice.write(slow.token(), seen + 1) {
        Err(refusal) => println!("late write refused: {refusal}"),
        Ok(()) => return Err("a stale write was accepted".into()),
    }
    println!("balance: {}", alice.balance);
    Ok(())
}
