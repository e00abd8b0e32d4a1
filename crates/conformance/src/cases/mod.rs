//! The cases, one file per topic.

mod acquire;
mod adopt;
mod delay;
mod expiry;
mod fencing;
mod force;
mod listing;
mod locks_basics;
mod locks_end;
mod locks_kinds;
mod locks_reentry;
mod locks_run;
mod locks_several;
mod locks_trouble;
mod locks_wait;
mod multi;
mod names;
mod outage;
mod own;
mod quantities;
mod queue;
mod queue_order;
mod races;
mod release;
mod renew;
mod repetition;
mod reservation;
mod reservation_change;
mod reserve_basics;
mod reserve_claim;
mod reserve_confirm;
mod reserve_events;
mod reserve_idempotent;
mod reserve_keys;
mod reserve_pass;
mod reserve_queries;
mod reserve_races;
mod reserve_release;
mod reserve_several;
mod reserve_stock;
mod reserve_stock_level;
mod reserve_sweep;
mod reserve_trouble;
mod reserve_ttl;
mod rule;
mod secrecy;
mod stock;
mod sweep;
mod traffic;
mod watch;

use crate::case::Case;

pub(crate) fn all() -> Vec<Case> {
    [
        acquire::cases(),
        own::cases(),
        renew::cases(),
        release::cases(),
        force::cases(),
        expiry::cases(),
        fencing::cases(),
        names::cases(),
        multi::cases(),
        queue::cases(),
        queue_order::cases(),
        quantities::cases(),
        stock::cases(),
        reservation::cases(),
        reservation_change::cases(),
        adopt::cases(),
        delay::cases(),
        listing::cases(),
        sweep::cases(),
        watch::cases(),
        repetition::cases(),
        secrecy::cases(),
        outage::cases(),
        races::cases(),
        rule::cases(),
        traffic::cases(),
        locks_basics::cases(),
        locks_end::cases(),
        locks_wait::cases(),
        locks_reentry::cases(),
        locks_run::cases(),
        locks_several::cases(),
        locks_kinds::cases(),
        locks_trouble::cases(),
        reserve_basics::cases(),
        reserve_ttl::cases(),
        reserve_confirm::cases(),
        reserve_release::cases(),
        reserve_claim::cases(),
        reserve_keys::cases(),
        reserve_idempotent::cases(),
        reserve_several::cases(),
        reserve_stock::cases(),
        reserve_stock_level::cases(),
        reserve_queries::cases(),
        reserve_pass::cases(),
        reserve_sweep::cases(),
        reserve_events::cases(),
        reserve_races::cases(),
        reserve_trouble::cases(),
    ]
    .concat()
}
