//! How long a holder may believe in its lease.
//!
//! `D = t0 + ttl·(1 − ρ) − m`: `t0` is read before the request leaves, `ρ` bounds how much faster the store's clock may
//! run than ours, `m` covers what happens between a check and the act it allows.

use std::time::Duration;

use crate::clock::{Moment, nanos};
use crate::error::{Error, Result};
use crate::lease::Ttl;

/// The shortest lease a guard can be made of: a shorter one would be over before it could be used.
pub const MIN_LOCK_TTL: Duration = Duration::from_millis(200);

/// One part in this many: the bound on the difference of clock rates (1 %, as in Redlock).
const DRIFT_PARTS: u64 = 100;
const MIN_MARGIN_NANOS: u64 = 50_000_000;
const MARGIN_PARTS: u64 = 20;
/// A guard is at risk for the last part of its time, even if nothing has failed yet.
const LEAD_PARTS: u32 = 10;

/// The moment up to which a lease of `ttl`, asked for at `t0`, is safely ours.
pub(super) fn deadline(t0: Moment, ttl: Duration) -> Moment {
    // Dividing a `Duration` takes several times as long, and every acquisition comes here.
    let ttl = nanos(ttl);
    let margin = MIN_MARGIN_NANOS.max(ttl / MARGIN_PARTS);
    let safe = (ttl - ttl / DRIFT_PARTS).saturating_sub(margin);
    Moment::from_nanos(t0.as_nanos().saturating_add(safe))
}

/// How long before the deadline a guard counts as at risk.
pub(super) fn lead(ttl: Duration) -> Duration {
    ttl / LEAD_PARTS
}

/// How often a lease is renewed unless told otherwise: several tries fit before it ends.
pub(super) fn renewal_interval(ttl: Duration) -> Duration {
    ttl / 3
}

/// Checks the ttl of a lock.
pub(super) fn lock_ttl(ttl: Duration) -> Result<Ttl> {
    if ttl < MIN_LOCK_TTL {
        return Err(Error::invalid(format!(
            "a ttl of {ttl:?} is too short for a lock; at least {MIN_LOCK_TTL:?}"
        )));
    }
    Ttl::new(ttl)
}

/// Checks the longest time a lock may be held.
pub(super) fn check_max_hold(max: Duration) -> Result<()> {
    if max.is_zero() {
        return Err(Error::invalid("the longest hold must be more than nothing"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_leaves_room_for_drift_and_margin() {
        let t0 = Moment::from_nanos(0);
        let at = |ttl: u64| {
            deadline(t0, Duration::from_millis(ttl))
                .since(t0)
                .as_millis()
        };
        assert_eq!(at(200), 148);
        assert_eq!(at(30_000), 28_200);
        assert_eq!(at(40), 0);
    }
}
