//! Programs whose wall clock is moved.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and compares shifted time with the real one"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime};

use leasehold_faults::clock::ShiftedClock;

const SECOND: i128 = 1_000_000_000;
const HOUR: Duration = Duration::from_secs(3600);

/// Prints, for each line it reads: clock_gettime, gettimeofday and time in nanoseconds, then the monotonic clock.
const PROBE: &str = r#"
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
int main(void) {
    struct timespec wall, steady;
    struct timeval day;
    while (getchar() != EOF) {
        clock_gettime(CLOCK_REALTIME, &wall);
        gettimeofday(&day, 0);
        clock_gettime(CLOCK_MONOTONIC, &steady);
        printf("%lld %lld %lld %lld\n", wall.tv_sec * 1000000000LL + wall.tv_nsec,
               day.tv_sec * 1000000000LL + day.tv_usec * 1000LL, time(0) * 1000000000LL,
               steady.tv_sec * 1000000000LL + steady.tv_nsec);
        fflush(stdout);
    }
}
"#;

fn now() -> i128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_nanos().cast_signed()
}

fn date(clock: &ShiftedClock) -> i128 {
    let mut date = Command::new("date");
    clock.apply(date.arg("+%s%N"));
    let output = date.output().unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// That somebody whose clock is ahead by this much sees the time that is now.
fn assert_ahead(clock: &ShiftedClock, nanos: i128) {
    let before = now();
    let seen = date(clock) - nanos;
    let after = now();
    assert!((before..=after).contains(&seen), "{before} {seen} {after}");
}

/// A program that runs on and tells its time whenever it is asked.
struct Probe {
    child: Child,
    lines: BufReader<ChildStdout>,
    _folder: tempfile::TempDir,
}

impl Probe {
    fn start(clock: &ShiftedClock) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("probe.c"), folder.path().join("probe"));
        std::fs::write(&source, PROBE).unwrap();
        let compiled = Command::new("cc")
            .arg("-o")
            .arg(&program)
            .arg(source)
            .status();
        assert!(compiled.unwrap().success());
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        clock.apply(&mut command);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            lines,
            _folder: folder,
        }
    }

    /// What its clocks show: clock_gettime, gettimeofday, time, and the monotonic one.
    fn ask(&mut self) -> [i128; 4] {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let numbers: Vec<i128> = line
            .split_whitespace()
            .map(|it| it.parse().unwrap())
            .collect();
        numbers.try_into().unwrap()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_new_clock_shows_the_real_time() {
    let clock = ShiftedClock::new().unwrap();
    assert_ahead(&clock, 0);
}

#[test]
fn a_clock_moves_forward_and_back_by_any_part_of_a_second() {
    let clock = ShiftedClock::new().unwrap();
    clock.forward(HOUR).unwrap();
    assert_ahead(&clock, 3600 * SECOND);
    clock.back(2 * HOUR).unwrap();
    assert_ahead(&clock, -3600 * SECOND);
    for nanos in [
        999_999_999,
        -999_999_999,
        1,
        -1,
        1_500_000_000,
        -1_500_000_000,
    ] {
        let clock = ShiftedClock::new().unwrap();
        clock.shift(nanos).unwrap();
        assert_eq!(clock.offset(), nanos);
        assert_ahead(&clock, nanos.into());
    }
}

#[test]
fn a_running_program_sees_each_move_with_every_function_but_the_monotonic_clock() {
    let clock = ShiftedClock::new().unwrap();
    let mut probe = Probe::start(&clock);
    let mut steady = probe.ask()[3];
    for by in [3600, -7200, 60] {
        clock.shift(by * 1_000_000_000).unwrap();
        let ahead = i128::from(clock.offset());
        let before = now();
        let [wall, day, time, then] = probe.ask();
        let after = now();
        assert!((before..=after).contains(&(wall - ahead)));
        // These two are less exact than the clock they are compared with.
        assert!((before - 1_000..=after).contains(&(day - ahead)));
        assert!((before - SECOND..=after).contains(&(time - ahead)));
        assert!(then >= steady && then - steady < 3600 * SECOND);
        steady = then;
    }
}

#[test]
fn two_clocks_are_moved_apart_and_a_clone_is_the_same_clock() {
    let (one, two) = (ShiftedClock::new().unwrap(), ShiftedClock::new().unwrap());
    one.clone().forward(HOUR).unwrap();
    assert_ahead(&one, 3600 * SECOND);
    assert_ahead(&two, 0);
}

#[test]
fn a_program_without_its_offset_does_not_run_with_the_real_time() {
    let clock = ShiftedClock::new().unwrap();
    let mut date = Command::new("date");
    clock.apply(&mut date);
    date.env_remove("LEASEHOLD_CLOCK_OFFSET");
    let output = date.output().unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("LEASEHOLD_CLOCK_OFFSET is not set"),
        "{errors}"
    );
}

#[test]
fn a_move_that_is_too_far_is_refused_and_changes_nothing() {
    let clock = ShiftedClock::new().unwrap();
    clock.forward(HOUR).unwrap();
    assert!(clock.shift(i64::MAX).is_err());
    assert!(clock.forward(Duration::MAX).is_err());
    assert_ahead(&clock, 3600 * SECOND);
}
