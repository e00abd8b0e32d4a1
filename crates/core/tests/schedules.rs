//! The lock layer under schedules picked by a seed, and under a few picked by hand.

mod common;
#[path = "common/explorer.rs"]
mod explorer;

use common::{Can, effort};
use explorer::{Outcome, Plan, explore};

/// Schedules per test and unit of effort.
const SCHEDULES: usize = 7_000;

fn explore_all(can: Can, first_seed: u64) {
    let mut total = Outcome::default();
    let count = SCHEDULES * effort();
    for seed in first_seed..first_seed + count as u64 {
        let plan = Plan {
            can,
            tasks: 2 + (seed % 4) as usize,
            rounds: 3,
            forcing: seed % 3 == 0,
            jumping: seed % 5 == 0,
            hooked: seed % 2 == 0,
        };
        let outcome = explore(seed, plan).unwrap_or_else(|wrong| panic!("{wrong}"));
        total.steps += outcome.steps;
        total.acquired += outcome.acquired;
        total.cancelled += outcome.cancelled;
    }
    println!(
        "{can:?}: {count} schedules, {} steps, {} acquisitions, {} cancellations",
        total.steps, total.acquired, total.cancelled
    );
}

/// S1, S2, S3, L2, L5: waiters, renewing holders, cancellations, expiry and force, in any order.
#[test]
fn no_schedule_breaks_a_promise_on_a_store_that_queues() {
    explore_all(Can::Queue, 0);
}

#[test]
fn no_schedule_breaks_a_promise_on_a_store_that_only_tells() {
    explore_all(Can::Watch, 1_000_000_000);
}

#[test]
fn no_schedule_breaks_a_promise_on_a_store_that_neither_queues_nor_tells() {
    explore_all(Can::Neither, 2_000_000_000);
}
