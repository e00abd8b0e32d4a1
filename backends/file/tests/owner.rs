//! Who has a file: one process at a time, whatever it is called and however the last owner ended; and who may read it.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod worker;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold_core::registry::StoreUrl;
use leasehold_core::{Backend, Clock as _, Error, ErrorKind, Holder, Result, SystemClock};
use leasehold_file::{File, Options, connect};

use worker::process::{Worker, say, setting, wait_for_parent};
use worker::requests::{is_free, millis, name, seconds, soon, take};

/// The test that a worker runs.
const WORKER: &str = "a_store_that_is_dropped_lets_the_file_go";
const PATHS: &str = "LEASEHOLD_OWNER_PATHS";
const URLS: &str = "LEASEHOLD_OWNER_URLS";
const SPAWNS: &str = "LEASEHOLD_OWNER_SPAWNS";

async fn open(path: impl AsRef<Path>) -> Result<File> {
    soon("opening", Options::new(path).open()).await
}

async fn connect_to(url: &str) -> Result<Arc<dyn Backend>> {
    soon("connecting", connect(StoreUrl::parse(url)?)).await
}

/// A folder, and a path in it where no file is yet.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.redb");
    (folder, path)
}

fn note_of(path: &Path) -> PathBuf {
    let mut note = path.as_os_str().to_owned();
    note.push(".owner");
    note.into()
}

fn host() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_string_lossy().into_owned()
}

/// Has a file, until it is told to go or is killed.
struct Owner(Worker);

impl Owner {
    fn of(path: &Path) -> Self {
        let worker = Worker::start(WORKER, &[(PATHS, path.display().to_string())]);
        Self::expect(worker)
    }

    /// With a child of its own that outlives it.
    fn with_child(path: &Path) -> Self {
        let settings = [(PATHS, path.display().to_string()), (SPAWNS, String::new())];
        Self::expect(Worker::start(WORKER, &settings))
    }

    fn expect(worker: Worker) -> Self {
        assert_eq!(answers(&worker), ["owned"]);
        Self(worker)
    }
}

/// What a worker says to each of its paths or URLs.
fn answers(worker: &Worker) -> Vec<String> {
    let mut answers = Vec::new();
    while let Some(line) = worker.line() {
        match line.as_str() {
            "hello" => {}
            "ready" => break,
            _ => answers.push(line),
        }
    }
    answers
}

/// Opens what the environment names, says how that went, and keeps it until the parent is gone.
async fn work(paths: &str, urls: &str) {
    say("hello");
    let mut stores: Vec<Arc<dyn Backend>> = Vec::new();
    for path in paths.split('\n').filter(|path| !path.is_empty()) {
        let opened = open(path).await.map(|store| Arc::new(store) as Arc<_>);
        stores.extend(tell(opened));
    }
    for url in urls.split('\n').filter(|url| !url.is_empty()) {
        stores.extend(tell(connect_to(url).await));
    }
    if setting(SPAWNS).is_some() {
        let mut shell = Command::new("sh");
        let started = shell.args(["-c", "sleep 5 >&- 2>&- &"]).status();
        assert!(started.unwrap().success());
    }
    say("ready");
    wait_for_parent();
}

fn tell(opened: Result<Arc<dyn Backend>>) -> Option<Arc<dyn Backend>> {
    match opened {
        Ok(store) => {
            say("owned");
            Some(store)
        }
        Err(error) => {
            say(&format!("{:?} {error}", error.kind()));
            None
        }
    }
}

/// What a worker does too, for files that others want.
#[tokio::test]
async fn a_store_that_is_dropped_lets_the_file_go() {
    if let (paths, urls) = (setting(PATHS), setting(URLS))
        && (paths.is_some() || urls.is_some())
    {
        return work(&paths.unwrap_or_default(), &urls.unwrap_or_default()).await;
    }
    let (_folder, path) = place();
    for _ in 0..5 {
        drop(open(&path).await.unwrap());
        assert!(note_of(&path).exists(), "the note is never deleted");
    }
}

/// It names the owner and says what to do instead.
fn assert_names_the_owner(error: &Error, path: &Path, pid: u32) {
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = error.to_string();
    let owner = format!("pid {pid} on {}", host());
    for part in [&*path.display().to_string(), &owner, "run the server"] {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
}

#[tokio::test]
async fn a_second_owner_in_the_same_process_is_refused_and_told_who_has_the_file() {
    let (_folder, path) = place();
    let store = open(&path).await.unwrap();
    let error = open(&path).await.unwrap_err();
    assert_names_the_owner(&error, &path, std::process::id());
    // Being refused has done the owner no harm.
    take(&store, &name("k"), &Holder::random(), seconds(30)).await;
    drop(store);
    open(&path).await.unwrap();
}

#[tokio::test]
async fn a_second_owner_in_another_process_is_refused_and_told_who_has_the_file() {
    let (_folder, path) = place();
    let owner = Owner::of(&path);
    let error = open(&path).await.unwrap_err();
    assert_names_the_owner(&error, &path, owner.0.id());
    assert!(owner.0.finish());
    let _store = open(&path).await.unwrap();
    let worker = Worker::start(WORKER, &[(PATHS, path.display().to_string())]);
    let told = answers(&worker).remove(0);
    let me = format!("pid {} on {}", std::process::id(), host());
    assert!(
        told.starts_with("Unavailable") && told.contains(&me),
        "{told}"
    );
}

/// F2: nobody has to wait, or delete a file.
#[tokio::test]
async fn after_a_kill_of_the_owner_the_next_one_has_the_file_at_once() {
    let (_folder, path) = place();
    for _ in 0..3 {
        let owner = Owner::of(&path);
        assert!(open(&path).await.is_err());
        owner.0.kill();
        let store = open(&path).await.unwrap();
        let error = open(&path).await.unwrap_err();
        assert_names_the_owner(&error, &path, std::process::id());
        drop(store);
    }
}

/// A program that the owner has started does not own the file.
#[tokio::test]
async fn a_child_of_a_killed_owner_does_not_keep_the_file() {
    let (_folder, path) = place();
    Owner::with_child(&path).0.kill();
    open(&path).await.unwrap();
}

/// A process that is being started has a copy of everything that is open, for a moment. A lock that is let go only by
/// closing the file lives on in it.
#[tokio::test]
async fn a_file_can_be_opened_again_at_once_while_the_process_starts_others() {
    let (_folder, path) = place();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let starter = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            assert!(Command::new("true").status().unwrap().success());
        }
    });
    let mut refused = Vec::new();
    for _ in 0..100 {
        refused.extend(open(&path).await.err());
    }
    stop.store(true, Ordering::Relaxed);
    starter.join().unwrap();
    assert!(
        refused.is_empty(),
        "{} times: {}",
        refused.len(),
        refused[0]
    );
}

/// Two names of one file, or a note that somebody has deleted: there is still only one owner.
#[tokio::test]
async fn neither_links_nor_a_deleted_note_let_a_second_owner_in() {
    let (folder, path) = place();
    let owner = open(&path).await.unwrap();
    let (soft, hard) = (folder.path().join("soft"), folder.path().join("hard"));
    symlink(&path, &soft).unwrap();
    std::fs::hard_link(&path, &hard).unwrap();
    std::fs::remove_file(note_of(&path)).unwrap();
    for other in [&path, &soft, &hard] {
        let error = open(other).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    drop(owner);
    open(&soft).await.unwrap();
}

/// The note is for people: whatever is in it, the lock decides.
#[tokio::test]
async fn a_note_that_makes_no_sense_keeps_nobody_out_and_lets_nobody_in() {
    let (_folder, path) = place();
    for junk in [
        &b""[..],
        b"\xff\xfe",
        &[b'x'; 100_000],
        "ä".repeat(500).as_bytes(),
    ] {
        std::fs::write(note_of(&path), junk).unwrap();
        let _store = open(&path).await.unwrap();
        std::fs::write(note_of(&path), junk).unwrap();
        let error = open(&path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().len() < 600, "{error}");
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn file_and_note_are_for_their_user_only_under_any_umask() {
    for umask in ["000", "002", "022", "027", "077", "177"] {
        let (folder, path) = place();
        let settings = [(PATHS, path.display().to_string())];
        let worker = Worker::start_under_umask(umask, WORKER, &settings);
        let owner = Owner::expect(worker);
        for made in std::fs::read_dir(folder.path()).unwrap() {
            let made = made.unwrap().path();
            assert_eq!(mode(&made), 0o600, "{} under {umask}", made.display());
        }
        assert!(owner.0.finish());
        assert_eq!((mode(&path), mode(&note_of(&path))), (0o600, 0o600));
    }
}

#[tokio::test]
async fn a_missing_folder_is_a_mistake_of_configuration_and_is_not_made() {
    let (folder, _) = place();
    let missing = folder.path().join("missing");
    let error = open(missing.join("leases.redb")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(
        error.to_string().contains("folder does not exist"),
        "{error}"
    );
    assert!(!missing.exists());
}

#[tokio::test]
async fn a_path_that_is_a_folder_is_a_mistake_of_configuration() {
    let (folder, _) = place();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    for path in [inner.clone(), inner.join("."), inner.join("..")] {
        let error = open(&path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{path:?}: {error}");
    }
}

/// Trying again helps none of these, which is what `Unavailable` would say.
#[tokio::test]
async fn a_path_that_can_never_be_a_file_is_a_mistake_of_configuration() {
    let (folder, path) = place();
    drop(open(&path).await.unwrap());
    let long = folder.path().join("x".repeat(300));
    for never in [path.join("leases.redb"), long] {
        let error = open(&never).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Whether what we make belongs to root, whom no mode keeps out.
fn is_root(folder: &Path) -> bool {
    std::fs::metadata(folder).unwrap().uid() == 0
}

/// A folder that takes nothing, a file that is somebody else's, and one that can only be read.
async fn closed_places(folder: &Path) -> Vec<PathBuf> {
    let inside = |name: &str, mode| {
        let folder = folder.join(name);
        std::fs::create_dir(&folder).unwrap();
        set_mode(&folder, mode);
        folder.join("leases.redb")
    };
    let places = vec![
        inside("takes-nothing", 0o777),
        inside("closed", 0o777),
        inside("read-only", 0o777),
    ];
    for path in &places[1..] {
        drop(open(path).await.unwrap());
    }
    set_mode(places[0].parent().unwrap(), 0o555);
    set_mode(&places[1], 0);
    set_mode(&note_of(&places[1]), 0);
    set_mode(&places[2], 0o444);
    set_mode(&note_of(&places[2]), 0o666);
    places
}

/// As root, who may do everything, somebody else tries.
#[tokio::test]
async fn without_permission_opening_says_so() {
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o755);
    let places = closed_places(folder.path()).await;
    let paths: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
    let settings = [(PATHS, paths.join("\n"))];
    let worker = if is_root(folder.path()) {
        Worker::start_as_nobody(folder.path(), WORKER, &settings)
    } else {
        Worker::start(WORKER, &settings)
    };
    let told = answers(&worker);
    assert_eq!(told.len(), places.len());
    for (told, path) in told.iter().zip(&paths) {
        let named = told.starts_with("Denied") && told.contains(path.as_str());
        assert!(named, "{path}: {told}");
    }
}

/// A place where not even root can make a file.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn where_the_system_allows_no_files_opening_says_so() {
    let error = open("/sys/leases.redb").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[tokio::test]
async fn names_with_spaces_letters_of_any_kind_and_no_letters_at_all_work() {
    let folder = tempfile::tempdir().unwrap();
    let names = [
        OsStr::new("my leases.redb"),
        OsStr::new("Mietverträge – 賃貸.redb"),
        OsStr::new("%20?#&.redb"),
        OsStr::new("a\nb"),
        OsStr::from_bytes(b"not-utf8-\xff"),
    ];
    for called in names {
        let path = folder.path().join(called);
        let store = open(&path).await.unwrap();
        take(&store, &name("k"), &Holder::random(), seconds(30)).await;
        let error = open(&path).await.unwrap_err();
        assert_names_the_owner(&error, &path, std::process::id());
        drop(store);
        assert!(!is_free(&open(&path).await.unwrap(), &name("k")).await);
    }
}

#[test]
fn a_relative_path_begins_where_the_process_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("inner")).unwrap();
    let paths = "a.redb\n./b.redb\ninner/c.redb\ninner/../d.redb".to_owned();
    let urls = "file:e.redb\nfile:inner/f.redb".to_owned();
    let settings = [(PATHS, paths), (URLS, urls)];
    let worker = Worker::start_in(folder.path(), WORKER, &settings);
    assert_eq!(answers(&worker), ["owned"; 6]);
    let made = ["a", "b", "inner/c", "d", "e", "inner/f"];
    for made in made.map(|path| folder.path().join(format!("{path}.redb"))) {
        assert!(made.exists() && note_of(&made).exists(), "{made:?}");
    }
}

/// Every byte that is not plain, as a URL has it.
fn encoded(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/.-_".contains(&byte);
    let bytes = path.as_os_str().as_bytes().iter();
    bytes
        .map(|&byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

#[tokio::test]
async fn every_form_of_url_leads_to_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my Mietverträge?.redb");
    let path_text = encoded(&path);
    let urls = [
        format!("file://{path_text}"),
        format!("file:{path_text}"),
        format!("file://{path_text}?sync=always&cache=1MiB"),
        format!("file://{path_text}?sync=50ms"),
        format!("file://{path_text}?sync=1s"),
    ];
    let first = open(&path).await.unwrap();
    take(&first, &name("k"), &Holder::random(), seconds(3600)).await;
    drop(first);
    for url in urls {
        let store = connect_to(&url).await.unwrap();
        let record = store.get(&name("k")).await.unwrap().what.unwrap();
        assert_eq!(record.grants.len(), 1, "{url}");
        let durable = store.describe().guarantees.durable;
        assert_eq!(
            durable,
            !url.ends_with('s') || url.ends_with("always"),
            "{url}"
        );
        let error = connect_to(&url).await.unwrap_err();
        assert_names_the_owner(&error, &path, std::process::id());
    }
}

#[tokio::test]
async fn a_wrong_url_makes_nothing() {
    let (folder, path) = place();
    let path_text = encoded(&path);
    for url in [
        format!("file://{path_text}?sync=never"),
        format!("file://{path_text}?fsync=1s"),
        format!("file://{path_text}/"),
        format!("file://host{path_text}"),
        format!("file://{path_text}%00"),
    ] {
        let error = connect_to(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
    }
    let made = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(made, 0);
}

/// L5: a call to open that is given up closes the file again by itself.
#[tokio::test]
async fn an_opening_that_is_given_up_does_not_keep_the_file() {
    let (_folder, path) = place();
    for _ in 0..10 {
        tokio::select! {
            biased;
            _ = Options::new(&path).open() => {}
            () = tokio::task::yield_now() => {}
        }
    }
    let give_up = SystemClock.now().after(seconds(5));
    while let Err(error) = open(&path).await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(SystemClock.now() < give_up, "{error}");
        SystemClock
            .sleep_until(SystemClock.now().after(millis(5)))
            .await;
    }
}
