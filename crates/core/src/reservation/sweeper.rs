//! Ending what has run out: on demand, as a dry run, and in the background.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::event::ReservationEvent;
use super::id::ReservationId;
use super::key::Key;
use super::manager::Reservations;
use super::notes::Notes;
use super::shared::Shared;
use crate::backend::{Expired, Sweep, Swept};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::lease::{Kind, Token, Units};

/// A reservation that had run out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpiredReservation {
    /// Its id.
    pub id: ReservationId,
    /// What was reserved.
    pub key: Key,
    /// When it ended, by the store's clock.
    pub expires_at: Timestamp,
    /// How many units it took.
    pub units: Units,
    /// Its token.
    pub token: Token,
    /// What tied it to a request or a saga.
    pub correlation: Option<String>,
}

impl ExpiredReservation {
    fn of(expired: &Expired) -> Option<Self> {
        let holding = &expired.holding;
        Some(Self {
            id: ReservationId::of(&expired.name),
            key: Shared::key_of(&expired.name)?,
            expires_at: holding.expires_at,
            units: holding.units,
            token: holding.token,
            correlation: Notes::read(holding.metadata.as_ref()).correlation,
        })
    }
}

/// What had run out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredReservations {
    /// Each of them.
    pub expired: Vec<ExpiredReservation>,
    /// Whether the limit was reached and more remain.
    pub more: bool,
}

impl From<Swept> for ExpiredReservations {
    fn from(swept: Swept) -> Self {
        Self {
            expired: swept
                .expired
                .iter()
                .filter_map(ExpiredReservation::of)
                .collect(),
            more: swept.more,
        }
    }
}

impl Reservations {
    /// Ends what has run out, looking at no more than `batch` records; safe to repeat.
    ///
    /// Nobody has to call this for values to become free: whatever has run out is free at once. What another request
    /// met first is not told again here.
    ///
    /// # Errors
    /// If the store fails.
    ///
    /// # Cancel safety
    /// Dropped midway, some of it is done.
    pub async fn expire(&self, batch: usize) -> Result<ExpiredReservations> {
        self.shared().expire(batch).await
    }

    /// What [`expire`](Self::expire) would end, without ending it.
    ///
    /// # Errors
    /// If the store fails.
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn expired(&self, limit: usize) -> Result<ExpiredReservations> {
        let shared = self.shared();
        let request = shared.sweep(limit).dry_run();
        shared.backend.sweep(&request).await.map(Into::into)
    }

    /// How many reservations have run out and are not ended yet, counting those of `limit` records at most.
    ///
    /// # Errors
    /// If the store fails.
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn count_expired(&self, limit: usize) -> Result<usize> {
        Ok(self.expired(limit).await?.expired.len())
    }
}

impl Shared {
    fn sweep(&self, limit: usize) -> Sweep {
        Sweep::all(limit).only(&*self.namespace, Kind::Reservation)
    }

    async fn expire(&self, batch: usize) -> Result<ExpiredReservations> {
        let swept = self.backend.sweep(&self.sweep(batch)).await?;
        let found = ExpiredReservations::from(swept);
        for expired in &found.expired {
            self.emit(|| ReservationEvent::Expired { expired });
        }
        Ok(found)
    }

    /// One turn of the background task: batch after batch, until nothing is left.
    async fn sweep_through(&self) {
        loop {
            match self.expire(self.batch).await {
                Ok(found) => {
                    self.emit(|| ReservationEvent::Swept {
                        expired: found.expired.len(),
                        more: found.more,
                    });
                    if !found.more {
                        return;
                    }
                }
                Err(error) => {
                    self.emit(|| ReservationEvent::SweepFailed { error: &error });
                    return;
                }
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Starts the background task. It ends with the manager.
pub(super) fn start(shared: &Arc<Shared>, every: Duration) {
    let task = run(
        Arc::downgrade(shared),
        shared.clock.clone(),
        shared.closing.clone(),
        every,
    );
    shared.tasks.spawn_on(task, &shared.runtime);
}

async fn run(
    shared: Weak<Shared>,
    clock: Arc<dyn crate::Clock>,
    closing: tokio_util::sync::CancellationToken,
    every: Duration,
) {
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            () = clock.sleep_until(clock.now().after(every)) => {}
        }
        let Some(shared) = shared.upgrade() else {
            return;
        };
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            () = shared.sweep_through() => {}
        }
    }
}
