//! The store on Redis, against scripts made by hand on the same server and over the same kind of connection.
//!
//! [`one`], [`group`] and [`renew`] are about names that nobody else wants; [`contest`] is about one that all want.

mod contest;
mod crowd;
mod group;
mod handover;
mod local;
mod one;
mod ours;
mod peers;
mod raw;
mod renew;
mod server;

use crate::bench::Bench;

pub(crate) use contest::run_as_child;

/// The benches of this group.
pub(crate) fn benches() -> Vec<Bench> {
    vec![
        Bench {
            name: "redis/one",
            about: "acquire and release, one caller",
            measure: one::measure,
        },
        Bench {
            name: "redis/group",
            about: "acquire and release, 64 callers on one connection",
            measure: group::measure,
        },
        Bench {
            name: "redis/handover",
            about: "workers in many processes on one name",
            measure: handover::measure,
        },
        Bench {
            name: "redis/local",
            about: "8 workers in one process on one name",
            measure: local::measure,
        },
        Bench {
            name: "redis/renew",
            about: "10,000 leases renewed",
            measure: renew::measure,
        },
    ]
}
