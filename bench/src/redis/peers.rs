//! A peer, for information: `rslock` has no tokens and no queue, and whoever waits asks again after a while.

use redis::Client;
use rslock::LockManager;

use super::crowd::Pair;
use crate::bench::Outcome;
use crate::setup::TTL;

/// `rslock` as it comes, on one server.
#[derive(Clone)]
pub(super) struct Rslock(pub(super) LockManager);

impl Rslock {
    /// A manager that connects with the first call.
    pub(super) fn new(client: Client) -> Self {
        Self(LockManager::from_clients(vec![client]))
    }
}

impl Pair for Rslock {
    async fn pair(&mut self, key: &str) -> Outcome<()> {
        let lock = self.0.lock(key, TTL).await?;
        lock.release().await;
        Ok(())
    }
}
