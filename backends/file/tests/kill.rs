//! Processes that own a file and are killed (SIGKILL), one after the other: at random moments, while they open it, and in
//! the middle of commits. What their callers saw is put together and judged (F2, F21, S1, S3, S7).

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and says what it did"
)]

mod worker;

use std::path::PathBuf;
use std::time::Duration;

use leasehold_conformance::history::{Violation, check, judge};
use worker::process::Worker;
use worker::seeded::{Seeded, effort, seed};
use worker::traffic::{self, Orders};
use worker::witness::{BOUNDS, Line, Witness};

/// The test that a worker runs.
const WORKER: &str = "traffic_that_nobody_kills_is_in_order";

/// A worker that nobody kills works no longer than this.
const LONGEST: u64 = 200_000;

/// About twice the time it takes to open a file, in microseconds.
const OPENING_US: u64 = 20_000;

/// When a worker is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// After it has said so many lines, and then a little later.
    Lines(u64, Duration),
    /// So long after it has begun to open the file.
    Time(Duration),
    /// In the middle of a commit, where it says that it stands still.
    Still,
}

/// A file, those who had it, and what they said.
struct Scene {
    _folder: tempfile::TempDir,
    orders: Orders,
    rng: Seeded,
    witness: Witness,
    kills: u64,
    /// Workers that were killed before they had the file.
    early: u64,
    durable: Vec<bool>,
}

impl Scene {
    fn new(seed: u64, pause: Option<Duration>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("leases.redb");
        Self {
            _folder: folder,
            orders: Orders {
                path,
                seed,
                generation: 0,
                pause,
                fuse: None,
            },
            rng: Seeded::new(seed),
            witness: Witness::default(),
            kills: 0,
            early: 0,
            durable: Vec::new(),
        }
    }

    fn moment(&mut self) -> Moment {
        if self.rng.once_in(5) {
            return Moment::Time(Duration::from_micros(self.rng.below(OPENING_US)));
        }
        let later = Duration::from_micros(self.rng.below(3000));
        Moment::Lines(20 + self.rng.below(800), later)
    }

    /// Lets the next worker have the file, and kills it.
    fn kill_one(&mut self, moment: Moment) {
        let worker = Worker::start(WORKER, &self.orders.settings());
        let heard = self.witness.entries.len();
        match moment {
            Moment::Lines(lines, later) => {
                self.listen(&worker, |_, count| count >= lines);
                wait(later);
            }
            Moment::Time(time) => {
                assert_eq!(worker.line().as_deref(), Some("hello"));
                wait(time);
            }
            Moment::Still => self.listen(&worker, |line, _| *line == Line::Still),
        }
        for line in worker.kill() {
            self.hear(&line);
        }
        self.witness.hear_of_its_end();
        self.early += u64::from(self.witness.entries.len() == heard);
        self.kills += 1;
        self.orders.generation += 1;
    }

    fn listen(&mut self, worker: &Worker, enough: impl Fn(&Line, u64) -> bool) {
        let mut count = 0;
        loop {
            let line = worker.line().expect("a worker does not end by itself");
            count += 1;
            if self.hear(&line).is_some_and(|line| enough(&line, count)) {
                return;
            }
        }
    }

    fn hear(&mut self, line: &str) -> Option<Line> {
        if line == "hello" {
            return None;
        }
        let line = Line::parse(line).unwrap_or_else(|| panic!("half a line: {line}"));
        if let Line::Opened { durable } = line {
            self.durable.push(durable);
        }
        self.witness.hear(&line);
        Some(line)
    }

    fn tell(&self, what: &str) {
        let (witness, seed) = (&self.witness, self.orders.seed);
        println!(
            "{what}: seed {seed}, {} kills ({} before the file was open), {} operations, {} cut off, {} found again",
            self.kills,
            self.early,
            witness.entries.len(),
            witness.cut_off,
            witness.found
        );
    }

    /// Nothing that was acknowledged is lost, and the whole can be explained.
    fn assert_in_order(&self) {
        let (witness, seed) = (&self.witness, self.orders.seed);
        assert!(
            witness.wrong.is_empty(),
            "seed {seed}: {:#?}",
            witness.wrong
        );
        let violations = judge(&witness.entries, BOUNDS);
        assert_eq!(violations, [], "seed {seed}");
    }
}

fn wait(time: Duration) {
    #[allow(
        clippy::disallowed_methods,
        reason = "the moment of a kill is one of real time"
    )]
    std::thread::sleep(time);
}

/// What the workers do; and without one, that it is in order as long as nobody is killed.
#[test]
fn traffic_that_nobody_kills_is_in_order() {
    if let Some(orders) = Orders::given() {
        return traffic::run(&orders, LONGEST);
    }
    let mut scene = Scene::new(seed(), None);
    let worker = Worker::start(WORKER, &scene.orders.settings());
    scene.listen(&worker, |_, count| count >= 500);
    for line in worker.kill() {
        scene.hear(&line);
    }
    scene.witness.hear_of_its_end();
    scene.tell("nobody killed in between");
    scene.assert_in_order();
}

/// F2, F21.
#[test]
fn whatever_a_killed_process_acknowledged_is_there_and_no_order_is_broken() {
    let mut scene = Scene::new(seed(), None);
    for _ in 0..18 * effort() {
        let moment = scene.moment();
        scene.kill_one(moment);
    }
    scene.kill_one(Moment::Lines(20, Duration::ZERO));
    scene.tell("killed at random");
    assert!(scene.durable.iter().all(|durable| *durable));
    assert!(scene.witness.found > 0 && scene.witness.cut_off > 0);
    scene.assert_in_order();
}

/// F21: the commit that was under way is there as a whole or not at all, wherever it ended.
#[test]
fn a_commit_may_end_at_any_write_or_sync() {
    let mut scene = Scene::new(seed(), None);
    for _ in 0..effort() {
        for changes in 0..40 {
            scene.orders.fuse = Some(changes);
            scene.kill_one(Moment::Still);
        }
    }
    scene.orders.fuse = None;
    scene.kill_one(Moment::Lines(20, Duration::ZERO));
    scene.tell("killed in the middle of commits");
    assert!(scene.witness.cut_off > 0);
    scene.assert_in_order();
}

/// F21: a file that is being made is there as a whole, or is made anew.
#[test]
fn a_process_that_is_killed_while_it_makes_the_file_leaves_nothing_in_the_way() {
    let seed = seed();
    let mut rng = Seeded::new(seed);
    let (mut half_made, mut made) = (0, 0);
    for _ in 0..25 * effort() {
        let mut scene = Scene::new(seed, None);
        let time = Duration::from_micros(rng.below(OPENING_US));
        scene.kill_one(Moment::Time(time));
        half_made += u64::from(scene.orders.path.with_extension("redb.new").exists());
        made += u64::from(scene.orders.path.exists());
        scene.kill_one(Moment::Lines(20, Duration::ZERO));
        scene.assert_in_order();
    }
    println!("seed {seed}: {half_made} files were half made, {made} were there");
}

/// That the judges can tell: somebody puts an older copy of the file in its place. Not always is anything lost by that,
/// so it may take several times.
#[test]
fn a_file_that_forgets_what_was_acknowledged_is_found_out() {
    let mut scene = Scene::new(seed(), None);
    let copy = scene.orders.path.with_extension("copy");
    scene.kill_one(Moment::Lines(200, Duration::ZERO));
    for _ in 0..20 {
        std::fs::copy(&scene.orders.path, &copy).unwrap();
        scene.kill_one(Moment::Lines(200, Duration::ZERO));
        std::fs::rename(&copy, &scene.orders.path).unwrap();
        scene.kill_one(Moment::Lines(200, Duration::ZERO));
        let violations = judge(&scene.witness.entries, BOUNDS);
        if !scene.witness.wrong.is_empty() && !violations.is_empty() {
            return;
        }
    }
    panic!("seed {}: not noticed", scene.orders.seed);
}

/// S3: with the disk following later things may be lost, but a token is never given twice, nor one below another.
#[test]
fn tokens_grow_although_acknowledged_things_are_lost() {
    let mut scene = Scene::new(seed(), Some(Duration::from_millis(50)));
    for _ in 0..12 * effort() {
        let moment = scene.moment();
        scene.kill_one(moment);
    }
    scene.kill_one(Moment::Lines(20, Duration::ZERO));
    scene.tell("the disk follows later");
    assert!(scene.durable.iter().all(|durable| !durable));
    // What this shows is that the looks of the other tests would notice.
    let lost = scene.witness.wrong.len();
    println!("{lost} things were lost or came back");
    assert!(lost > 0);
    let mut violations = check(&scene.witness.entries, BOUNDS);
    violations.retain(|violation| !matches!(violation, Violation::DoubleGrant { .. }));
    assert_eq!(violations, [], "seed {}", scene.orders.seed);
}
