//! Children that are killed, stopped, started again, and never left behind.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and this one runs in real time"
)]

use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use leasehold_faults::process::{Launch, Port, Server};

const PATIENCE: Duration = Duration::from_secs(60);

/// Tells a process that it is the one to start a server and to end without a word.
const CARELESS: &str = "LEASEHOLD_TEST_CARELESS";

fn shell(script: &'static str) -> Launch {
    Launch::new(move |place| {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).current_dir(place.folder());
        shell
    })
}

fn sleeper() -> Launch {
    Launch::new(|_| {
        let mut sleep = Command::new("sleep");
        sleep.arg("1000");
        sleep
    })
}

/// The letter for what a process is doing; `None` if there is no such process, or only what is left of it.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.chars().next().filter(|state| *state != 'Z')
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn number_in(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[test]
fn a_server_that_is_killed_is_gone() {
    let mut server = sleeper().start().unwrap();
    let pid = server.pid().unwrap();
    assert!(server.is_running());
    server.kill();
    assert_eq!(state(pid), None);
    assert!(!server.is_running());
    assert_eq!(server.pid(), None);
    assert!(server.stop().is_err());
}

#[test]
fn a_server_that_is_dropped_takes_its_children_and_its_folder_along() {
    let launch = shell("sleep 1000 & echo $! > child.new; mv child.new child; wait");
    let launch = launch.ready(|place| place.folder().join("child").exists());
    let server = launch.start().unwrap();
    let folder = server.place().folder().to_owned();
    let child = number_in(&folder.join("child")).unwrap();
    let pid = server.pid().unwrap();
    assert!(state(child).is_some());
    drop(server);
    assert_eq!(state(pid), None);
    wait_until("the end of the child", || state(child).is_none());
    assert!(!folder.exists());
}

#[test]
fn a_server_that_is_stopped_does_nothing_until_it_goes_on() {
    let server = sleeper().start().unwrap();
    let pid = server.pid().unwrap();
    for _ in 0..2 {
        server.stop().unwrap();
        assert_eq!(state(pid), Some('T'));
        assert!(server.is_running());
        server.cont().unwrap();
        wait_until("going on", || state(pid) == Some('S'));
    }
}

#[test]
fn a_stopped_server_can_be_killed() {
    let mut server = sleeper().start().unwrap();
    let pid = server.pid().unwrap();
    server.stop().unwrap();
    server.kill();
    assert_eq!(state(pid), None);
}

#[test]
fn a_restarted_server_has_its_port_and_its_files() {
    let launch = shell("echo log; echo run >> runs; exec sleep 1000");
    let launch = launch.ready(|place| {
        let runs = fs::read(place.folder().join("runs"));
        runs.is_ok_and(|runs| !runs.is_empty())
    });
    let mut server = launch.start().unwrap();
    let (port, pid) = (server.port(), server.pid());
    let runs = server.place().folder().join("runs");
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    let twice = || fs::read_to_string(&runs).unwrap() == "run\nrun\n";
    wait_until("the second run", twice);
    wait_until("its log", || server.log() == "log\nlog");
}

#[test]
fn a_server_can_be_restarted_in_another_way() {
    let mut server = sleeper().start().unwrap();
    let other = shell("echo other; touch ready; exec sleep 1000");
    let other = other.ready(|place| place.folder().join("ready").exists());
    server.restart_as(other).unwrap();
    assert_eq!(server.log(), "other");
}

#[test]
fn a_server_that_ends_by_itself_is_an_error_with_the_end_of_its_log() {
    let launch = shell("seq 1000; echo no such option; exit 3").ready(|_| false);
    let why = launch.start().unwrap_err().to_string();
    assert!(why.starts_with("sh ended by itself"), "{why}");
    assert!(why.ends_with("999\n1000\nno such option"), "{why}");
    assert!(!why.contains("\n900\n"), "{why}");
}

#[test]
fn somebody_else_who_answers_in_place_of_a_server_is_not_believed() {
    let launch = shell("echo $$ > me").ready(|place| {
        let pid = number_in(&place.folder().join("me"));
        pid.is_some_and(|pid| state(pid).is_none())
    });
    let why = launch.start().unwrap_err().to_string();
    assert!(why.starts_with("sh ended by itself"), "{why}");
}

#[test]
fn a_server_that_is_never_ready_is_given_up_and_killed() {
    let pid = Arc::new(OnceLock::new());
    let seen = Arc::clone(&pid);
    let launch = shell("echo thinking; echo $$ > me; exec sleep 1000").ready(move |place| {
        let me = || number_in(&place.folder().join("me"));
        wait_until("the start", || me().is_some());
        let _ = seen.set(me().unwrap());
        false
    });
    let launch = launch.within(Duration::from_millis(1));
    let why = launch.start().unwrap_err().to_string();
    assert!(why.contains("was not ready within 1ms"), "{why}");
    assert!(why.ends_with("thinking"), "{why}");
    assert_eq!(state(*pid.get().unwrap()), None);
}

#[test]
fn a_program_that_is_missing_is_named() {
    let launch = Launch::new(|_| Command::new("no-such-server"));
    let why = launch.start().unwrap_err().to_string();
    assert!(why.starts_with("cannot start no-such-server"), "{why}");
}

#[test]
fn the_files_of_a_server_are_kept_if_a_test_fails() {
    let server = sleeper().start().unwrap();
    let folder = server.place().folder().to_owned();
    let failure = std::panic::catch_unwind(AssertUnwindSafe(move || {
        let _server = server;
        std::panic::resume_unwind(Box::new("a failure"))
    }));
    assert!(failure.is_err());
    assert!(folder.join("server.log").exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_port_is_given_to_one_at_a_time() {
    let ports: Vec<Port> = (0..300).map(|_| Port::reserve().unwrap()).collect();
    let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), ports.len());
}

#[test]
fn a_server_dies_with_the_process_that_started_it_however_that_ends() {
    if let Some(note) = std::env::var_os(CARELESS) {
        start_and_abort(Path::new(&note));
    }
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("pid");
    let this = "a_server_dies_with_the_process_that_started_it_however_that_ends";
    let mut careless = Command::new(std::env::current_exe().unwrap());
    careless.args(["--exact", this, "--nocapture"]);
    careless.env(CARELESS, &note).stdout(Stdio::null());
    let status = careless.stderr(Stdio::null()).status().unwrap();
    assert!(!status.success());
    let pid = number_in(&note).unwrap();
    let left = PathBuf::from(fs::read_to_string(note.with_extension("folder")).unwrap());
    wait_until("the end of the server", || state(pid).is_none());
    wait_until("the end of its folder", || !left.exists());
}

fn start_and_abort(note: &Path) -> ! {
    let server: Server = sleeper().start().unwrap();
    let folder = server.place().folder().to_str().unwrap();
    fs::write(note, server.pid().unwrap().to_string()).unwrap();
    fs::write(note.with_extension("folder"), folder).unwrap();
    std::process::abort();
}
