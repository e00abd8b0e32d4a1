//! Every bug that can be planted is found, and nothing is found where there is none (5-I).

#![allow(clippy::print_stdout, reason = "says which check found which bug")]

use leasehold_core::seeded::Bug;
use leasehold_seeded::{checks, failing};

#[test]
fn nothing_fails_without_a_bug() {
    assert_eq!(failing(None), Vec::<String>::new());
    println!("{} checks", checks());
}

fn is_found(bug: Bug) {
    let found = failing(Some(bug));
    assert!(!found.is_empty(), "{bug:?} was planted and nothing failed");
    println!("{bug:?} was found by {} checks:", found.len());
    found.iter().for_each(|check| println!("  {check}"));
}

#[test]
fn a_release_by_owner_only_is_found() {
    is_found(Bug::ReleaseByOwnerOnly);
}

#[test]
fn a_renewal_that_revives_is_found() {
    is_found(Bug::RenewalRevives);
}

#[test]
fn tokens_that_start_again_are_found() {
    is_found(Bug::TokenResets);
}

#[test]
fn a_time_out_reported_as_a_refusal_is_found() {
    is_found(Bug::TimeoutAsRefusal);
}

#[test]
fn a_wake_up_that_is_lost_is_found() {
    is_found(Bug::WakeUpLost);
}

/// A bug that is added gets a test here.
#[test]
fn there_is_a_test_for_every_bug() {
    for bug in Bug::ALL {
        match bug {
            Bug::ReleaseByOwnerOnly
            | Bug::RenewalRevives
            | Bug::TokenResets
            | Bug::TimeoutAsRefusal
            | Bug::WakeUpLost => {}
        }
    }
}
