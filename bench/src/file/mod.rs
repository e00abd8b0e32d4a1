//! The store in a file: durable work, against the engine below it in the same run.

mod child;
mod disk;
mod engine;
mod group;
mod one;
mod ours;
mod peers;
mod start;

use crate::bench::Bench;

pub(crate) use child::run as run_as_child;

/// The benches of this group.
pub(crate) fn benches() -> Vec<Bench> {
    vec![
        Bench {
            name: "file/one",
            about: "durable acquire and release, one caller",
            measure: one::measure,
        },
        Bench {
            name: "file/group",
            about: "durable acquire and release, 8 and 64 callers",
            measure: group::measure,
        },
        Bench {
            name: "file/start",
            about: "opening a file of 1,000,000 records",
            measure: start::measure,
        },
    ]
}
