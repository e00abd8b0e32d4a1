//! Real servers for the tests: one, a primary with its replica and sentinels, a cluster, five that do not know each other.
//!
//! They come from the program `redis-server` on the path. Where it is missing, tests fail and say so. Everything here is
//! killed with its value, and fails by panicking.
//!
//! Begin with [`Options`], which starts one server.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "compiled into several test binaries, each of which uses a part"
)]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and servers live in real time"
)]

mod certificates;
mod cluster;
mod five;
mod options;
mod pair;
mod sentinel;
mod server;
mod talk;

use std::time::{Duration, Instant};

pub use certificates::Certificates;
pub use cluster::Cluster;
pub use five::Five;
pub use options::{Durability, Options};
pub use pair::Pair;
pub use sentinel::Sentinel;
pub use server::Server;
pub use talk::{Login, Reply, Talk};

/// Nothing that servers agree on among each other takes longer than this.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so. Says what is not if it takes too long.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
