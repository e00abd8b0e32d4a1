//! Workers with locks of ours: one manager per process.

use leasehold_core::{Guard, Lock};
use redis::Client;
use tokio::runtime::Runtime;

use super::worker::Contender;
use crate::bench::Outcome;
use crate::pairs::manager;
use crate::redis::ours::connect;

/// A handle of the lock.
pub(super) struct Ours(Lock);

/// The workers of one process.
pub(super) fn team(runtime: &Runtime, client: Client, workers: usize) -> Outcome<Vec<Ours>> {
    let locks = manager(runtime, connect(runtime, client, "ours:")?)?;
    Ok((0..workers).map(|_| Ours(locks.lock("one"))).collect())
}

impl Contender for Ours {
    type Held = Guard;

    async fn acquire(&mut self) -> Outcome<Guard> {
        Ok(self.0.acquire().await?)
    }

    async fn release(&mut self, guard: Guard) -> Outcome<()> {
        Ok(guard.release().await?)
    }
}
