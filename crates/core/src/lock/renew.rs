//! Renewal: many leases in one call, several tries per ttl, and never a lie about what is not known.

use std::sync::Arc;
use std::time::Duration;

use super::event::LockEvent;
use super::guard::Held;
use super::hold::{Hold, LostCause};
use super::shared::Shared;
use crate::backend::{Renew, RenewItem, Renewed};
use crate::clock::Moment;
use crate::error::Result;
use crate::lease::Ttl;

/// The most leases renewed in one call, whatever the store allows.
const LARGEST_BATCH: usize = 10_000;
/// The shortest pause after a failed renewal.
const SHORTEST_RETRY: Duration = Duration::from_millis(10);

/// When the keeper must look at a hold again.
pub(super) fn next_look(hold: &Hold, now: Moment) -> Moment {
    let risky = hold.risky_from();
    let soonest = if now < risky { risky } else { hold.deadline() };
    hold.next_renewal().min(soonest)
}

/// Renews these holds, batch by batch.
pub(super) async fn renew_due(shared: Arc<Shared>, due: Vec<Arc<Hold>>) {
    let most = shared.can().renew_batch.clamp(1, LARGEST_BATCH);
    let mut batch: Vec<Arc<Hold>> = Vec::new();
    let mut items = 0;
    for hold in due {
        if items + hold.leases.len() > most && !batch.is_empty() {
            renew_batch(&shared, std::mem::take(&mut batch)).await;
            items = 0;
        }
        items += hold.leases.len();
        batch.push(hold);
    }
    renew_batch(&shared, batch).await;
}

async fn renew_batch(shared: &Arc<Shared>, batch: Vec<Arc<Hold>>) {
    let t0 = shared.clock.now();
    let request = Renew {
        items: batch
            .iter()
            .flat_map(|hold| items(hold, hold.ttl))
            .collect(),
    };
    // A store that hangs must not keep the next try from being made.
    let patience = batch
        .iter()
        .map(|hold| pause(hold))
        .min()
        .unwrap_or(SHORTEST_RETRY)
        * 4;
    let answers = tokio::select! {
        biased;
        answers = shared.backend.renew(&request) => answers.ok(),
        () = shared.clock.sleep_until(t0.after(patience)) => None,
    };
    match answers {
        Some(answers) if answers.len() == request.items.len() => {
            let mut answers = answers.into_iter();
            for hold in &batch {
                settle(hold, answers.by_ref().take(hold.leases.len()).collect(), t0);
            }
        }
        _ => batch.iter().for_each(failed),
    }
}

/// One item per name of a hold.
pub(super) fn items(hold: &Hold, ttl: Ttl) -> impl Iterator<Item = RenewItem> + '_ {
    hold.leases
        .iter()
        .map(move |(name, token)| RenewItem::lease(name.clone(), hold.holder.clone(), *token, ttl))
}

/// Applies the answers for all names of one hold. Returns whether all of them were renewed.
pub(super) fn settle(
    hold: &Arc<Hold>,
    answers: Vec<Result<Renewed>>,
    t0: Moment,
) -> Option<Result<(), LostCause>> {
    let planned = hold.next_renewal();
    let mut shortest: Option<crate::Lease> = None;
    let mut in_doubt = false;
    for answer in answers {
        match answer {
            Ok(Renewed::Renewed(lease) | Renewed::Changed(lease)) => {
                if shortest
                    .as_ref()
                    .is_none_or(|shortest| lease.ttl < shortest.ttl)
                {
                    shortest = Some(lease);
                }
            }
            Ok(Renewed::NotHeld(not_held)) => {
                let cause = hold.why_not_held(&not_held);
                hold.lose(cause.clone());
                return Some(Err(cause));
            }
            Ok(Renewed::Queued(_)) | Err(_) => in_doubt = true,
        }
    }
    match shortest {
        Some(lease) if !in_doubt => {
            hold.renewed(t0, lease.ttl, lease.expires_at);
            plan_next(hold, t0);
            let now = hold.shared.clock.now();
            let lag = now.since(planned.min(t0));
            hold.shared.emit(|| LockEvent::Renewed {
                held: Held::of(hold),
                lag,
            });
            Some(Ok(()))
        }
        _ => {
            failed(hold);
            None
        }
    }
}

fn plan_next(hold: &Hold, t0: Moment) {
    if let Some(every) = hold.renew_every {
        plan(hold, t0.after(every));
    }
}

fn plan(hold: &Hold, at: Moment) {
    hold.renew_at(at);
    hold.shared.keeper.look_by(at);
}

/// A failed renewal is not a loss: the lease goes on until its deadline, and the next try comes soon.
fn failed(hold: &Arc<Hold>) {
    hold.at_risk();
    if hold.renew_every.is_some() {
        plan(hold, hold.shared.clock.now().after(pause(hold)));
    }
}

fn pause(hold: &Hold) -> Duration {
    let every = hold.renew_every.unwrap_or(hold.ttl.as_duration() / 3);
    (every / 8).max(SHORTEST_RETRY)
}
