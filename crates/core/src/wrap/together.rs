//! What several stores can do and promise together: whatever the weakest of them does.

use crate::clock::Timestamp;
use crate::guarantees::{
    AtomicNames, Capabilities, Class, Description, ExpiryClock, Fairness, Fencing, Guarantees,
    Survival,
};

/// The year 2112 in microseconds of Unix time. No clock is right that says more, and no token is followed that is larger:
/// one name with such a token would drag all others to the end of what there is.
const LATEST: u64 = 1 << 52;

/// What many stores count their tokens by: the microseconds of Unix time, or zero if the clock cannot be right.
pub(super) fn micros(wall: Timestamp) -> u64 {
    plausible(wall.as_millis().saturating_mul(1000))
}

/// A token to go on from; zero if it is too large for that.
pub(super) fn plausible(token: u64) -> u64 {
    if token < LATEST { token } else { 0 }
}

/// What stores can do if each of them has to.
pub(super) fn capabilities<'a>(
    stores: impl IntoIterator<Item = &'a Description>,
) -> Option<Capabilities> {
    let each = stores.into_iter().map(|store| store.capabilities.clone());
    each.reduce(|one, other| Capabilities {
        queue: one.queue && other.queue,
        watch: one.watch && other.watch,
        list: one.list && other.list,
        reservations: one.reservations && other.reservations,
        quantities: one.quantities && other.quantities,
        adopt: one.adopt && other.adopt,
        atomic_names: narrower(one.atomic_names, other.atomic_names),
        atomic_facts: one.atomic_facts && other.atomic_facts,
        renew_batch: one.renew_batch.min(other.renew_batch),
        min_ttl: one.min_ttl.max(other.min_ttl),
        max_ttl: one.max_ttl.min(other.max_ttl),
        ttl_step: one.ttl_step.max(other.ttl_step),
    })
}

/// What stores promise together, at best for efficiency only, and without an order of waiters between processes.
pub(super) fn guarantees<'a>(
    stores: impl IntoIterator<Item = &'a Description>,
    assumes: &'static str,
) -> Option<Guarantees> {
    let each = stores.into_iter().map(|store| Guarantees {
        class: match store.guarantees.class {
            Class::P => Class::P,
            Class::F | Class::E => Class::E,
        },
        fairness: Fairness::LocalFifo,
        assumes,
        ..store.guarantees.clone()
    });
    each.reduce(|one, other| Guarantees {
        class: if one.class == Class::P {
            one.class
        } else {
            other.class
        },
        fencing: weaker_fencing(one.fencing, other.fencing),
        expiry_clock: looser_clock(one.expiry_clock, other.expiry_clock),
        durable: one.durable && other.durable,
        survives_failover: less_survival(one.survives_failover, other.survives_failover),
        fairness: one.fairness,
        assumes,
    })
}

fn narrower(one: AtomicNames, other: AtomicNames) -> AtomicNames {
    match (one, other) {
        (AtomicNames::One, _) | (_, AtomicNames::One) => AtomicNames::One,
        (AtomicNames::Bucket, _) | (_, AtomicNames::Bucket) => AtomicNames::Bucket,
        (AtomicNames::All, AtomicNames::All) => AtomicNames::All,
    }
}

fn weaker_fencing(one: Fencing, other: Fencing) -> Fencing {
    match (one, other) {
        (Fencing::None, _) | (_, Fencing::None) => Fencing::None,
        (Fencing::BestEffort, _) | (_, Fencing::BestEffort) => Fencing::BestEffort,
        (Fencing::Monotonic, Fencing::Monotonic) => Fencing::Monotonic,
    }
}

fn looser_clock(one: ExpiryClock, other: ExpiryClock) -> ExpiryClock {
    let looseness = |clock: ExpiryClock| match clock {
        ExpiryClock::ProcessMonotonic => 0,
        ExpiryClock::StoreMonotonic => 1,
        ExpiryClock::StoreWall => 2,
        ExpiryClock::ClientWall => 3,
    };
    if looseness(one) < looseness(other) {
        other
    } else {
        one
    }
}

/// A store without a failover has none to survive, and so does not weaken the others.
fn less_survival(one: Survival, other: Survival) -> Survival {
    match (one, other) {
        (Survival::No, _) | (_, Survival::No) => Survival::No,
        (Survival::Yes, _) | (_, Survival::Yes) => Survival::Yes,
        (Survival::NotApplicable, Survival::NotApplicable) => Survival::NotApplicable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Ttl;
    use crate::memory;

    #[test]
    fn a_clock_that_is_centuries_ahead_is_not_believed() {
        assert_eq!(
            micros(Timestamp::from_millis(1_700_000_000_000)),
            1_700_000_000_000_000
        );
        assert_eq!(micros(Timestamp::from_millis(LATEST)), 0);
        assert_eq!((plausible(LATEST - 1), plausible(LATEST)), (LATEST - 1, 0));
    }

    #[test]
    fn the_weakest_store_decides() {
        let strong = Description {
            guarantees: Guarantees {
                class: Class::F,
                fencing: Fencing::Monotonic,
                expiry_clock: ExpiryClock::StoreMonotonic,
                durable: true,
                survives_failover: Survival::Yes,
                ..memory::description().guarantees
            },
            ..memory::description()
        };
        let mut weak = strong.clone();
        weak.capabilities.list = false;
        weak.capabilities.atomic_names = AtomicNames::One;
        weak.capabilities.max_ttl = Ttl::MIN;
        weak.guarantees.fencing = Fencing::BestEffort;
        weak.guarantees.expiry_clock = ExpiryClock::ClientWall;
        weak.guarantees.durable = false;
        weak.guarantees.survives_failover = Survival::No;
        for pair in [[&strong, &weak], [&weak, &strong]] {
            let can = capabilities(pair).unwrap();
            assert_eq!((can.list, can.watch), (false, true));
            assert_eq!(can.atomic_names, AtomicNames::One);
            assert_eq!(can.max_ttl, Ttl::MIN);
            let promise = guarantees(pair, "x").unwrap();
            assert_eq!(
                (promise.class, promise.fencing),
                (Class::E, Fencing::BestEffort)
            );
            assert_eq!(promise.expiry_clock, ExpiryClock::ClientWall);
            assert_eq!(promise.survives_failover, Survival::No);
            assert!(!promise.durable);
        }
        let one_process = guarantees([&strong, &memory::description()], "x").unwrap();
        assert_eq!(one_process.class, Class::P);
        assert_eq!(one_process.survives_failover, Survival::Yes);
    }
}
