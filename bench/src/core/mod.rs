//! The core: locks and the memory store, against a lease map made by hand.

mod backend_pair;
mod bytes;
mod contended;
mod cycle;
mod floor;
mod handover;
mod held;
mod lock_pair;
mod peers;
mod renew;
mod setup;

use crate::bench::Bench;

/// The benches of this group.
pub(crate) fn benches() -> Vec<Bench> {
    vec![
        Bench {
            name: "core/lock",
            about: "uncontended acquire and release through Lock on memory",
            measure: lock_pair::measure,
        },
        Bench {
            name: "core/backend",
            about: "the same at the level of Backend",
            measure: backend_pair::measure,
        },
        Bench {
            name: "core/handover",
            about: "from release to the next of 64 local waiters",
            measure: handover::measure,
        },
        Bench {
            name: "core/bytes",
            about: "memory per held lease",
            measure: bytes::measure,
        },
        Bench {
            name: "core/renew",
            about: "100,000 leases renewed in one call",
            measure: renew::measure,
        },
        Bench {
            name: "core/held",
            about: "what other held names cost a pair",
            measure: held::measure,
        },
        Bench {
            name: "core/cycle",
            about: "acquire and release over 1,000 keys",
            measure: cycle::measure,
        },
        Bench {
            name: "core/contended",
            about: "8 tasks that try one key",
            measure: contended::measure,
        },
    ]
}
