//! Many callers at once, all on one connection.

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

const BENCH: &str = "redis/group";
const CALLERS: usize = 64;
/// Enough that it does not matter how the callers begin and end.
const TURNS: usize = 25;
const ROUNDS: usize = 31;

/// Measures against pairs by hand, and beside a peer.
pub(super) fn measure() -> Outcome {
    let (runtime, server) = (runtime()?, Server::start()?);
    let store = |prefix| connect(&runtime, server.client()?, prefix);
    let raw = runtime.block_on(Raw::connect(&server.client()?))?;
    let rslock = Rslock::new(server.client()?);
    let [floor, lock, backend, peer] = interleave(
        ROUNDS,
        [
            Crowd::new(&raw, "raw", CALLERS).subject(&runtime, TURNS),
            Managed::new(&runtime, store("lock:")?, CALLERS)?.subject(&runtime, TURNS),
            Callers::new(&runtime, store("store:")?, CALLERS)?.subject(&runtime, TURNS),
            Crowd::new(&rslock, "rslock", CALLERS).subject(&runtime, TURNS),
        ],
    );
    let row = |what: &str, ours: &Samples| Row::rates(BENCH, what, ours, &floor);
    let target = Target::AtLeast {
        must: 0.55,
        goal: 0.75,
    };
    Ok(vec![
        row("pairs of 64 callers through Lock ÷ raw pairs", &lock).target(target),
        row("the same at the level of Backend ÷ raw pairs", &backend),
        row("peer: rslock, 64 callers ÷ raw pairs", &peer),
        Row::rates(BENCH, "through Lock ÷ rslock, 64 callers", &lock, &peer),
    ])
}
