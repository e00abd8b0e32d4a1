//! One caller: acquire and release, a round trip each.

use super::crowd::Crowd;
use super::ours::connect;
use super::peers::Rslock;
use super::raw::Raw;
use super::server::Server;
use crate::bench::Outcome;
use crate::measure::{Samples, interleave};
use crate::pairs::{Callers, Managed};
use crate::report::{Row, Target};
use crate::setup::runtime;

const BENCH: &str = "redis/one";
/// Few pairs in many rounds: what else the machine is doing changes from one tenth of a second to the next.
const PAIRS: usize = 100;
const ROUNDS: usize = 61;

/// Measures against a pair by hand, and beside a peer.
pub(super) fn measure() -> Outcome {
    let (runtime, server) = (runtime()?, Server::start()?);
    let store = |prefix| connect(&runtime, server.client()?, prefix);
    let raw = runtime.block_on(Raw::connect(&server.client()?))?;
    let rslock = Rslock::new(server.client()?);
    let [floor, lock, backend, rslock] = interleave(
        ROUNDS,
        [
            Crowd::new(&raw, "raw", 1).subject(&runtime, PAIRS),
            Managed::new(&runtime, store("lock:")?, 1)?.subject(&runtime, PAIRS),
            Callers::new(&runtime, store("store:")?, 1)?.subject(&runtime, PAIRS),
            Crowd::new(&rslock, "rslock", 1).subject(&runtime, PAIRS),
        ],
    );
    let row = |what: &str, ours: &Samples| Row::rates(BENCH, what, ours, &floor);
    let target = Target::AtLeast {
        must: 0.80,
        goal: 0.93,
    };
    Ok(vec![
        row("acquire + release through Lock ÷ raw pair", &lock).target(target),
        row("the same at the level of Backend ÷ raw pair", &backend),
        row("peer: rslock ÷ raw pair", &rslock),
    ])
}
