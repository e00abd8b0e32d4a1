//! Renewal: many leases in one call, several tries per ttl, and never a lie about what is not known.

use std::sync::Arc;
use std::time::Duration;

use super::event::LockEvent;
use super::guard::Held;
use super::hold::{Hold, LostCause};
use super::shared::Shared;
use crate::backend::{RenewItem, Renewed};
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

/// A hold to renew, and when that was planned.
pub(super) struct Due {
    pub(super) hold: Arc<Hold>,
    pub(super) planned: Moment,
}

/// Renews these holds, batch by batch.
pub(super) async fn renew_due(shared: Arc<Shared>, due: Vec<Due>) {
    for batch in due.chunks(LARGEST_BATCH) {
        renew_batch(&shared, batch).await;
    }
}

async fn renew_batch(shared: &Arc<Shared>, batch: &[Due]) {
    let t0 = shared.clock.now();
    let items = batch
        .iter()
        .flat_map(|due| items(&due.hold, due.hold.terms.ttl))
        .collect();
    // A store that hangs must not keep the next try from being made.
    let patience = batch
        .iter()
        .map(|due| pause(&due.hold))
        .min()
        .unwrap_or(SHORTEST_RETRY)
        * 4;
    let answers = tokio::select! {
        biased;
        answers = shared.renew(items) => answers,
        () = shared.clock.sleep_until(t0.after(patience)) => {
            return batch.iter().for_each(|due| failed(&due.hold));
        }
    };
    let mut answers = answers.into_iter();
    for due in batch {
        let own = answers.by_ref().take(due.hold.leases().len()).collect();
        settle(&due.hold, own, t0, due.planned);
    }
}

/// One item per name of a hold.
pub(super) fn items(hold: &Hold, ttl: Ttl) -> impl Iterator<Item = RenewItem> + '_ {
    hold.leases().iter().map(move |(name, token)| {
        RenewItem::lease(name.clone(), hold.holder().clone(), *token, ttl)
    })
}

/// Applies the answers for all names of one hold. Returns whether all of them were renewed.
pub(super) fn settle(
    hold: &Arc<Hold>,
    answers: Vec<Result<Renewed>>,
    t0: Moment,
    planned: Moment,
) -> Option<Result<(), LostCause>> {
    if !hold.is_live() {
        return None;
    }
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
            let now = hold.manager().clock.now();
            let lag = now.since(planned.min(t0));
            hold.manager().emit(|| LockEvent::Renewed {
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
    if let Some(every) = hold.renew_every() {
        plan(hold, t0.after(every));
    }
}

fn plan(hold: &Hold, at: Moment) {
    hold.renew_at(at);
    hold.manager().keeper.look_by(at);
}

/// A failed renewal is not a loss: the lease goes on until its deadline, and the next try comes soon.
fn failed(hold: &Arc<Hold>) {
    hold.at_risk();
    if hold.renew_every().is_some() {
        plan(hold, hold.manager().clock.now().after(pause(hold)));
    }
}

fn pause(hold: &Hold) -> Duration {
    let every = hold
        .renew_every()
        .unwrap_or(hold.terms.ttl.as_duration() / 3);
    (every / 8).max(SHORTEST_RETRY)
}
