//! Many callers at once: one wait for the disk serves all that called meanwhile.
//!
//! The floor is one thread that has all operations at hand and puts as many into each commit as there are callers. A
//! pair is two operations, so each caller's pair takes part in two commits.

use leasehold_file::Sync;
use tokio::runtime::Runtime;

use super::disk::Disk;
use super::engine::{Contents, Raw, Redb};
use super::ours::{self, Contenders, Fresh};
use super::peers::{Fjall, Growing};
use crate::bench::Outcome;
use crate::measure::{Samples, Subject, interleave};
use crate::pairs::{Callers, Managed};
use crate::report::{Row, Target};
use crate::setup::runtime;

const BENCH: &str = "file/group";
const MANY: usize = 64;
const SOME: usize = 8;
/// Enough that it does not matter how the callers begin and end.
const TURNS: usize = 12;
const ROUNDS: usize = 25;
/// On one name the callers come one after another, each with commits of its own.
const TURNS_ON_ONE: usize = 1;

/// Measures against the engine with the same settings, and beside other ways to bring bytes to a disk.
pub(super) fn measure() -> Outcome {
    let (runtime, disk) = (runtime()?, Disk::find()?);
    let (held, released) = ours::values(&runtime, &disk.path("value"))?;
    let contents = Contents::new(held, released)?;
    let engine = |name: &str, callers| {
        let redb = Redb::create(&disk.path(name), true)?;
        Outcome::Ok(Raw::new(redb, &contents)?.subject(callers, TURNS))
    };
    let fjall = Raw::new(Fjall::create(&disk.path("fjall"))?, &contents)?;
    let growing = Raw::new(Growing::create(&disk.path("growing"))?, &contents)?;
    let managed = ours::open(&runtime, &disk.path("lock"), Sync::Always)?;
    let managed = Managed::new(&runtime, managed, MANY)?;
    let contenders = Contenders::open(&runtime, &disk.path("contended"))?;
    let fresh = Fresh::open(&runtime, &disk.path("fresh"))?;
    let [
        floor,
        ours,
        lock,
        fresh,
        few_floor,
        few,
        fjall,
        growing,
        sections,
    ] = interleave(
        ROUNDS,
        [
            engine("engine-64", MANY)?,
            durable(&runtime, &disk, "ours-64", MANY)?,
            managed.subject(&runtime, TURNS),
            fresh.subject(&runtime, MANY, TURNS),
            engine("engine-8", SOME)?,
            durable(&runtime, &disk, "ours-8", SOME)?,
            fjall.subject(MANY, TURNS),
            growing.subject(MANY, TURNS),
            contenders.subject(&runtime, MANY, TURNS_ON_ONE),
        ],
    );
    let row = |what: &str, ours: &Samples| Row::rates(BENCH, what, ours, &floor);
    let on = disk.system();
    Ok(vec![
        row("durable pairs, 64 callers ÷ raw redb, 64 at once", &ours).target(Target::AtLeast {
            must: 0.50,
            goal: 0.80,
        }),
        row("the same through Lock ÷ raw redb, 64 at once", &lock),
        row("the same on names never seen before", &fresh),
        Row::rates(
            BENCH,
            "durable pairs, 8 callers ÷ raw redb, 8 at once",
            &few,
            &few_floor,
        ),
        row("peer: fjall, 64 at once ÷ raw redb", &fjall),
        row(
            &format!("peer: appends to {on}, 64 at once ÷ raw redb"),
            &growing,
        ),
        Row::rates(
            BENCH,
            "sections, 64 callers on one name ÷ raw redb, 64 names",
            &sections,
            &floor,
        ),
    ])
}

fn durable<'a>(
    runtime: &'a Runtime,
    disk: &Disk,
    name: &str,
    callers: usize,
) -> Outcome<Subject<'a>> {
    let store = ours::open(runtime, &disk.path(name), Sync::Always)?;
    Ok(Callers::new(runtime, store, callers)?.subject(runtime, TURNS))
}
