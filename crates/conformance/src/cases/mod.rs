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
    ]
    .concat()
}
