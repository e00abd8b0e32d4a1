//! A case: one behaviour, what it needs of a backend, and which requirements it stands for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use leasehold_core::{AtomicNames, Description, Fairness, Fencing};

use crate::harness::{Harness, Time};
use crate::scene::Scene;

/// What a case runs as.
pub type CaseFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One behaviour that a backend must show. It fails by panicking.
#[derive(Clone)]
pub struct Case {
    /// The topic it belongs to.
    pub topic: &'static str,
    /// The behaviour, as a sentence.
    pub name: &'static str,
    /// The requirements it stands for.
    pub ids: &'static [&'static str],
    /// What the backend must be able to do.
    pub needs: &'static [Need],
    /// Whether it looks at the whole store and so must not run beside other cases.
    pub alone: bool,
    /// The test itself.
    pub run: fn(Scene) -> CaseFuture,
}

impl Case {
    /// Topic and name, as shown in reports and matched by filters.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}::{}", self.topic, self.name)
    }

    /// The first thing this backend lacks for the case.
    #[must_use]
    pub fn lacks(&self, what: &Description, harness: &dyn Harness) -> Option<Need> {
        self.needs
            .iter()
            .copied()
            .find(|need| !need.is_met(what, harness))
    }

    pub(crate) fn alone(mut self) -> Self {
        self.alone = true;
        self
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("path", &self.path())
            .field("ids", &self.ids)
            .field("needs", &self.needs)
            .finish_non_exhaustive()
    }
}

/// Something not every backend can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// `Capabilities::queue`.
    Queue,
    /// `Guarantees::fairness` is first come, first served.
    Fifo,
    /// `Capabilities::watch`.
    Watch,
    /// `Capabilities::list`.
    List,
    /// `Capabilities::reservations`.
    Reservations,
    /// `Capabilities::quantities`.
    Quantities,
    /// `Capabilities::adopt`.
    Adopt,
    /// `Capabilities::atomic_names` is all.
    AtomicNames,
    /// `Capabilities::atomic_facts`.
    AtomicFacts,
    /// `Guarantees::fencing` is not none.
    Fencing,
    /// The harness moves the store's time.
    VirtualTime,
    /// The harness can cut the store off.
    Sever,
}

impl Need {
    /// How the need is called in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Fifo => "fifo",
            Self::Watch => "watch",
            Self::List => "list",
            Self::Reservations => "reservations",
            Self::Quantities => "quantities",
            Self::Adopt => "adopt",
            Self::AtomicNames => "atomic_names",
            Self::AtomicFacts => "atomic_facts",
            Self::Fencing => "fencing",
            Self::VirtualTime => "virtual time",
            Self::Sever => "sever",
        }
    }

    fn is_met(self, what: &Description, harness: &dyn Harness) -> bool {
        let can = &what.capabilities;
        match self {
            Self::Queue => can.queue,
            Self::Fifo => can.queue && what.guarantees.fairness == Fairness::Fifo,
            Self::Watch => can.watch,
            Self::List => can.list,
            Self::Reservations => can.reservations,
            Self::Quantities => can.quantities,
            Self::Adopt => can.adopt,
            Self::AtomicNames => can.atomic_names == AtomicNames::All,
            Self::AtomicFacts => can.atomic_facts,
            Self::Fencing => what.guarantees.fencing != Fencing::None,
            Self::VirtualTime => harness.time() == Time::Virtual,
            Self::Sever => harness.can_sever(),
        }
    }
}

/// Requirements that have no meaning behind this seam, and why.
pub const NOT_APPLICABLE: &[(&str, &str)] = &[
    (
        "T4-02",
        "a namespace cannot be null: `Name::new` takes a `&str` and refuses an empty one",
    ),
    (
        "T4-03",
        "a key cannot be null: `Name::new` takes a `&str` and refuses an empty one",
    ),
    ("T4-04", "a request to acquire cannot be null"),
    ("T4-05", "a request to renew cannot be null"),
    ("T4-06", "a request to release cannot be null"),
    (
        "T0-16",
        "an identifier cannot be null; the empty one is refused by `Name::new`",
    ),
    ("T0-17", "see T0-16"),
    ("T0-18", "there are no conditions to ask for"),
];

/// Every case of the seam, by topic.
#[must_use]
pub fn all() -> Vec<Case> {
    crate::cases::all()
}

/// Builds a [`Case`] from a function, the ids it stands for and what it needs.
macro_rules! case {
    ($run:ident, [$($id:literal),* $(,)?] $(, $need:ident)* $(,)?) => {
        $crate::case::Case {
            topic: $crate::case::topic(module_path!()),
            name: stringify!($run),
            ids: &[$($id),*],
            needs: &[$($crate::case::Need::$need),*],
            alone: false,
            run: |scene| Box::pin($run(scene)),
        }
    };
}
pub(crate) use case;

/// The last part of a module path.
pub(crate) fn topic(module: &'static str) -> &'static str {
    module.rsplit("::").next().unwrap_or(module)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_cases_share_a_path_and_each_stands_for_something() {
        let mut seen = BTreeSet::new();
        for case in all() {
            assert!(seen.insert(case.path()), "{} is there twice", case.path());
            assert!(!case.ids.is_empty(), "{} cites nothing", case.path());
        }
    }

    #[test]
    fn every_contract_test_of_the_fourth_document_is_covered_or_excused() {
        let cited: BTreeSet<_> = all().iter().flat_map(|case| case.ids).copied().collect();
        for number in 1..=25 {
            let id = format!("T4-{number:02}");
            let excused = NOT_APPLICABLE.iter().any(|(excused, _)| *excused == id);
            assert!(excused || cited.contains(id.as_str()), "{id} is missing");
        }
    }
}
