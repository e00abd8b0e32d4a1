//! Workers with `rslock` as it comes: one manager per process.

use redis::Client;
use rslock::LockGuard;

use super::worker::Contender;
use crate::bench::Outcome;
use crate::redis::peers::Rslock;
use crate::setup::TTL;

/// The workers of one process.
pub(super) fn team(client: Client, workers: usize) -> Vec<Rslock> {
    vec![Rslock::new(client); workers]
}

impl Contender for Rslock {
    type Held = LockGuard;

    async fn acquire(&mut self) -> Outcome<LockGuard> {
        Ok(self.0.acquire("rslock", TTL).await?)
    }

    async fn release(&mut self, guard: LockGuard) -> Outcome<()> {
        guard.release().await;
        Ok(())
    }
}
