//! Work in the background: where it runs, how often it sweeps, and giving back what nobody waits for any more.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::backend::{Backend, Names, Withdraw};
use crate::clock::{Clock, Moment};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::guarantees::AtomicNames;
use crate::holder::Holder;

/// The wait before a failed withdrawal is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// The runtime given, or the one this is called in.
pub(crate) fn runtime_or_current(runtime: Option<Handle>) -> Result<Handle> {
    runtime.map_or_else(Handle::try_current, Ok).map_err(|error| {
        Error::new(
            ErrorKind::Config,
            "there is no Tokio runtime here; build inside one, pass one with runtime(), or use the blocking API",
        )
        .with_source(error)
    })
}

pub(crate) fn check_sweep_interval(every: Option<Duration>) -> Result<()> {
    if every.is_some_and(|every| every < Duration::from_millis(1)) {
        return Err(Error::invalid(
            "the pause between sweeps must be at least a millisecond",
        ));
    }
    Ok(())
}

/// Something to give back.
pub(crate) struct Withdrawal {
    pub(crate) names: Names,
    pub(crate) holder: Holder,
    /// After this the store has ended it by itself.
    pub(crate) until: Moment,
}

/// Gives something back, trying until the store answers or has ended it by itself; a store that never answers is not
/// waited for any longer than that.
pub(crate) async fn give_back(
    backend: Arc<dyn Backend>,
    clock: Arc<dyn Clock>,
    withdrawal: Withdrawal,
) {
    let requests = requests(&*backend, &withdrawal);
    let ended_by_itself = clock.sleep_until(withdrawal.until);
    let given_back = async {
        while let Err(error) = withdraw_all(&*backend, &requests).await {
            if !error.is_retryable() && error.effect() == Effect::None {
                return;
            }
            clock.sleep_until(clock.now().after(RETRY)).await;
        }
    };
    tokio::select! {
        biased;
        () = given_back => {}
        () = ended_by_itself => {}
    }
}

/// One request, or one per name where the store takes only one at a time.
fn requests(backend: &dyn Backend, withdrawal: &Withdrawal) -> Vec<Withdraw> {
    let request = |names| Withdraw {
        names,
        holder: withdrawal.holder.clone(),
    };
    if backend.describe().capabilities.atomic_names == AtomicNames::All {
        return vec![request(withdrawal.names.clone())];
    }
    let names = withdrawal.names.as_slice().iter().rev();
    names
        .map(|name| request(Names::one(name.clone())))
        .collect()
}

async fn withdraw_all(backend: &dyn Backend, requests: &[Withdraw]) -> Result<()> {
    for request in requests {
        backend.withdraw(request).await?;
    }
    Ok(())
}
