//! The fast checks of the suite, in a form that can be run with a bug planted: the cases of the kit that need no real
//! time, on the memory store, and a few on the locks above it.
//!
//! A crate of its own, because the feature that makes bugs plantable must not reach any other test.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a check fails by panicking"
)]

mod kit;
mod locks;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use leasehold_core::seeded::{Bug, plant};

/// Something that must be true; it fails by panicking.
pub(crate) struct Check {
    name: String,
    run: Box<dyn Fn()>,
}

impl Check {
    pub(crate) fn new(name: impl Into<String>, run: impl Fn() + 'static) -> Self {
        Self {
            name: name.into(),
            run: Box::new(run),
        }
    }

    fn fails(&self) -> bool {
        catch_unwind(AssertUnwindSafe(&self.run)).is_err()
    }
}

/// How many checks there are.
#[must_use]
pub fn checks() -> usize {
    all().len()
}

fn all() -> Vec<Check> {
    kit::checks().into_iter().chain(locks::checks()).collect()
}

/// The names of the checks that fail with this bug planted, or with none.
///
/// A planted bug is there for the whole process, so calls take turns.
#[must_use]
pub fn failing(bug: Option<Bug>) -> Vec<String> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    plant(bug);
    let failing = all().into_iter().filter(Check::fails);
    let names = failing.map(|check| check.name).collect();
    plant(None);
    names
}
