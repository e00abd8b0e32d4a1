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
        "a key cannot be null; the empty one (T0-17) is refused",
    ),
    ("T0-18", "there are no conditions to ask for"),
];

/// Requirements that a case cannot show, and where they are shown instead.
pub const ELSEWHERE: &[(&str, &str)] = &[
    ("S0-01", "every backend runs this suite"),
    ("S0-13", "belongs to the SQL backends"),
    ("S0-14", "belongs to the SQL backends"),
    (
        "S0-15",
        "pauses that double up to a cap: `core/tests/wrappers.rs`; waiters of a store that stumbles: `core/tests/guard.rs`",
    ),
    ("S0-17", "`core/tests/meters.rs`"),
    ("S0-19", "is this suite"),
    ("S1-02", "the key builder, tested in `core::keys`"),
    ("S1-07", "`core/tests/meters.rs`"),
    ("S1-09", "the benchmarks and the documentation"),
    (
        "S2-08",
        "the key builder in `core::keys`, the prefix in `core/tests/wrapped_conformance.rs`",
    ),
    ("S3-16", "`core::reservation::schema`"),
    ("W3-15", "is about advice: the documentation"),
];

/// Every case, by topic: those of the seam first, then those of locks and of reservations on top of it.
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

    /// Documents and how many requirements of each the kit answers for.
    const ANSWERS_FOR: [(&str, u32); 9] = [
        ("S0", 20),
        ("S1", 9),
        ("S2", 12),
        ("S3", 17),
        ("S4", 8),
        ("T0", 22),
        ("T3", 45),
        ("T4", 25),
        ("W3", 16),
    ];

    #[test]
    fn every_requirement_is_covered_or_excused_but_not_both() {
        let cited: BTreeSet<_> = all().iter().flat_map(|case| case.ids).copied().collect();
        let excuses = NOT_APPLICABLE.iter().chain(ELSEWHERE);
        let excused: BTreeSet<_> = excuses.map(|(id, _)| *id).collect();
        for (document, last) in ANSWERS_FOR {
            for number in 1..=last {
                let id = format!("{document}-{number:02}");
                let (is_cited, is_excused) =
                    (cited.contains(id.as_str()), excused.contains(id.as_str()));
                assert!(is_cited != is_excused, "{id}: {is_cited} {is_excused}");
            }
        }
    }
}
