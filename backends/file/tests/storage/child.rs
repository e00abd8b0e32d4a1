//! Cases that may take the whole process down, run in another process.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Tells a process that it is a child: where to begin, and where to write what came of it.
const FROM: &str = "LEASEHOLD_CHILD_FROM";
const RESULTS: &str = "LEASEHOLD_CHILD_RESULTS";

/// A case that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What became of a case: a word to count by, or what is wrong.
pub type Outcome = Result<&'static str, String>;

/// Runs the cases of a test in a process of their own. Whichever one kills it is noted, and the rest go to a new one.
///
/// The child runs the very same test and finds out here that it is one; so `test` is the name of the caller.
pub fn in_child<C: std::fmt::Debug>(
    test: &str,
    prepare: impl FnOnce() -> Vec<C>,
    run: impl Fn(&C) -> Outcome,
) {
    match (std::env::var_os(FROM), std::env::var_os(RESULTS)) {
        (Some(from), Some(results)) => {
            let from = from.to_string_lossy().parse().unwrap();
            as_child(&prepare()[from..], run, Path::new(&results));
        }
        _ => as_parent(test),
    }
}

fn as_child<C: std::fmt::Debug>(cases: &[C], run: impl Fn(&C) -> Outcome, results: &Path) {
    // The engine panics over damage, which is caught; nobody wants to read it a hundred times.
    std::panic::set_hook(Box::new(|_| {}));
    let mut results = OpenOptions::new().append(true).open(results).unwrap();
    for case in cases {
        let outcome = in_time(|| run(case));
        let line = match outcome {
            Ok(word) => format!("ok\t{word}\n"),
            Err(what) => format!("bad\t{case:?}: {}\n", what.replace(['\n', '\t'], " ")),
        };
        results.write_all(line.as_bytes()).unwrap();
    }
}

/// Aborts a process that hangs, so that its parent notes the case and goes on with the next.
fn in_time<T>(run: impl FnOnce() -> T) -> T {
    let (done, watched) = channel::<()>();
    std::thread::spawn(move || {
        if watched.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            std::process::abort();
        }
    });
    let answer = run();
    drop(done);
    answer
}

fn as_parent(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    File::create(&results).unwrap();
    let mut deaths = Vec::new();
    let lines = loop {
        let written = std::fs::read_to_string(&results).unwrap();
        let from = written.lines().count();
        let status = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(FROM, from.to_string())
            .env(RESULTS, &results)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let status = status.unwrap();
        if status.success() {
            break std::fs::read_to_string(&results).unwrap();
        }
        let dead = std::fs::read_to_string(&results).unwrap().lines().count();
        deaths.push(format!("case {dead} ended its process: {status}"));
        assert!(deaths.len() < 100, "children die at once: {deaths:#?}");
        let mut file = OpenOptions::new().append(true).open(&results).unwrap();
        file.write_all(b"dead\tended its process\n").unwrap();
    };
    tell(&lines, &deaths);
}

/// Prints how often what came, and fails if there is anything that must not be.
fn tell(lines: &str, deaths: &[String]) {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    let mut bad = String::new();
    for (number, line) in lines.lines().enumerate() {
        match line.split_once('\t') {
            Some(("ok", word)) => *counts.entry(word).or_default() += 1,
            Some((_, what)) => writeln!(bad, "case {number}: {what}").unwrap(),
            None => panic!("not a result: {line}"),
        }
    }
    println!("{} cases: {counts:?}", lines.lines().count());
    assert!(bad.is_empty() && deaths.is_empty(), "{bad}{deaths:#?}");
    assert!(!counts.is_empty(), "there was no case");
}
