//! One caller: acquire and release, each on the disk before it is answered.

use std::sync::Arc;
use std::time::Duration;

use leasehold_file::Sync;
use tokio::runtime::Runtime;

use super::disk::Disk;
use super::engine::{Contents, Raw, Redb};
use super::ours;
use super::peers::{Fjall, Growing, Prepared};
use crate::bench::Outcome;
use crate::measure::{Samples, interleave};
use crate::pairs::{Callers, Managed};
use crate::report::{Figure, Row, Target};
use crate::setup::runtime;

const BENCH: &str = "file/one";
/// Few pairs in many rounds: what else the disk is doing changes from one tenth of a second to the next.
const PAIRS: usize = 4;
const ROUNDS: usize = 81;
/// How far the disk may be behind in the relaxed mode.
const BEHIND: Duration = Duration::from_millis(20);
/// Relaxed pairs are so quick that it takes many for the disk to have its turn.
const RELAXED_PAIRS: usize = 10_000;
const RELAXED_ROUNDS: usize = 9;

/// Measures against the engine with the same settings, and beside other ways to bring bytes to a disk.
pub(super) fn measure() -> Outcome {
    let (runtime, disk) = (runtime()?, Disk::find()?);
    let (held, released) = ours::values(&runtime, &disk.path("value"))?;
    let sizes = [held.len(), released.len()].map(|bytes| Figure::Bytes(bytes as f64));
    let contents = Contents::new(held, released)?;
    let mut rows = durable(&runtime, &disk, &contents)?;
    rows.push(relaxed(&runtime, &disk, &contents)?);
    rows.push(Row::new(BENCH, "bytes stored of a held record", sizes[0]));
    rows.push(Row::new(
        BENCH,
        "bytes stored of a released record",
        sizes[1],
    ));
    Ok(rows)
}

fn durable(runtime: &Runtime, disk: &Disk, contents: &Arc<Contents>) -> Outcome {
    let engine = |name, two_phase| Raw::new(Redb::create(&disk.path(name), two_phase)?, contents);
    let always = |name| ours::open(runtime, &disk.path(name), Sync::Always);
    let fjall = Raw::new(Fjall::create(&disk.path("fjall"))?, contents)?;
    let growing = Raw::new(Growing::create(&disk.path("growing"))?, contents)?;
    let prepared = Raw::new(Prepared::create(&disk.path("prepared"))?, contents)?;
    let [floor, ours, lock, one_phase, fjall, growing, prepared] = interleave(
        ROUNDS,
        [
            engine("engine", true)?.subject(1, PAIRS),
            Callers::new(runtime, always("ours")?, 1)?.subject(runtime, PAIRS),
            Managed::new(runtime, always("lock")?, 1)?.subject(runtime, PAIRS),
            engine("one-phase", false)?.subject(1, PAIRS),
            fjall.subject(1, PAIRS),
            growing.subject(1, PAIRS),
            prepared.subject(1, PAIRS),
        ],
    );
    let row = |what: &str, ours: &Samples| Row::rates(BENCH, what, ours, &floor);
    let on = disk.system();
    let target = Target::AtLeast {
        must: 0.80,
        goal: 0.95,
    };
    Ok(vec![
        row("durable acquire + release ÷ raw redb", &ours).target(target),
        row("the same through Lock ÷ raw redb", &lock),
        row("raw redb, one-phase ÷ raw redb", &one_phase),
        row("peer: fjall, two commits ÷ raw redb", &fjall),
        row(&format!("peer: two appends to {on} ÷ raw redb"), &growing),
        row(
            &format!("peer: two overwrites on {on} ÷ raw redb"),
            &prepared,
        ),
    ])
}

/// The store answering before the disk has it. What it still brings to the disk after its turn must not slow the floor.
fn relaxed(runtime: &Runtime, disk: &Disk, contents: &Arc<Contents>) -> Outcome<Row> {
    let floor = Raw::new(Redb::create(&disk.path("beside"), true)?, contents)?;
    let ours = ours::open(runtime, &disk.path("relaxed"), Sync::Every(BEHIND))?;
    let ours = Callers::new(runtime, ours, 1)?.subject(runtime, RELAXED_PAIRS);
    let [floor, ours] = interleave(
        RELAXED_ROUNDS,
        [
            floor.subject(1, PAIRS),
            ours.then(|| std::thread::sleep(3 * BEHIND)),
        ],
    );
    let what = "relaxed, 20 ms behind ÷ raw redb";
    Ok(Row::rates(BENCH, what, &ours, &floor))
}
