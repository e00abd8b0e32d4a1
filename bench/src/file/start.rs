//! Opening a file of a million records: after it was closed, after a crash, and after a start of the machine.
//!
//! Whatever the end was like, the store verifies the whole file. After a start of the machine it also prolongs every
//! lease, because nobody knows how long the machine was down.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_file::{Options, Sync};

use super::child::{Opened, Opener, Opening};
use super::disk::Disk;
use crate::bench::Outcome;
use crate::pairs::hold;
use crate::report::{Figure, Row};
use crate::setup::{done, runtime, scattered, together};

const BENCH: &str = "file/start";
const RECORDS: usize = 1_000_000;
/// As many callers fill the file.
const FILLERS: usize = 4;
const MIB: usize = 1024 * 1024;

/// Fills a file and opens it again and again, each time in a process of its own.
pub(super) fn measure() -> Outcome {
    let disk = Disk::find()?;
    let path = disk.path("records");
    fill(&path)?;
    let closed = Size::of(&path)?;
    let opening = |rebooted| Opening {
        path: path.clone(),
        records: RECORDS,
        rebooted,
    };
    let opener = Opener::start(&opening(false))?;
    let clean = opener.opened;
    opener.kill()?;
    let opener = Opener::start(&opening(false))?;
    let unclean = opener.opened;
    opener.close()?;
    let opener = Opener::start(&opening(true))?;
    let rebooted = opener.opened;
    opener.close()?;
    let per_record = closed.on_disk / RECORDS as f64;
    let mut rows = vec![
        Row::new(BENCH, "length of the file", bytes(closed.length)),
        Row::new(BENCH, "what it takes on the disk", bytes(closed.on_disk)),
        Row::new(BENCH, "of that per record", bytes(per_record)),
    ];
    for (after, opened) in [
        ("after closing", clean),
        ("after a crash", unclean),
        ("after a reboot", rebooted),
    ] {
        rows.extend(opening_rows(after, opened));
    }
    Ok(rows)
}

/// How large a file is, in bytes. It has holes, because it grows by doubling.
struct Size {
    length: f64,
    on_disk: f64,
}

impl Size {
    fn of(path: &Path) -> Outcome<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            length: metadata.len() as f64,
            on_disk: metadata.blocks() as f64 * 512.0,
        })
    }
}

fn opening_rows(after: &str, opened: Opened) -> [Row; 5] {
    let row = |what: &str, figure| Row::new(BENCH, format!("{what} {after}"), figure);
    [
        row("opening", Figure::Time(opened.nanos)),
        row("first acquire + release", Figure::Time(opened.first_nanos)),
        row("memory to open", bytes(opened.opened_bytes)),
        row("and for 10,000 gets", bytes(opened.looked_bytes)),
        row("one get", Figure::Time(opened.look_nanos)),
    ]
}

fn bytes(bytes: f64) -> Figure {
    Figure::Bytes(bytes)
}

/// Makes a file in which every name is held, and closes it.
///
/// The disk follows late and the cache is large, because this is not what is measured.
fn fill(path: &Path) -> Outcome<()> {
    let start = Instant::now();
    let runtime = runtime()?;
    let options = Options::new(path).sync(Sync::Every(Duration::from_secs(1)))?;
    let store = Arc::new(runtime.block_on(options.cache(1024 * MIB)?.open())?);
    let fillers = (0..FILLERS).map(|me| {
        let store = store.clone();
        async move { done(hold(&*store, scattered(RECORDS).skip(me).step_by(FILLERS)).await) }
    });
    together(&runtime, fillers);
    let filled = start.elapsed();
    drop(store);
    let closed = start.elapsed() - filled;
    eprintln!("filled with {RECORDS} records in {filled:.1?}, closed in {closed:.1?}");
    Ok(())
}
