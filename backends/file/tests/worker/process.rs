//! Other processes: this test binary, started again to run a single test that finds its orders in the environment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Lines of a worker begin like this; whatever else is on its output is the test harness talking.
const MARK: char = '@';

/// Nothing a worker says is ever later than this.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the environment says.
#[allow(
    clippy::disallowed_methods,
    reason = "a test is told by its environment what to do"
)]
pub fn setting(key: &str) -> Option<String> {
    std::env::var(key).ok()
}

/// Says a line to the parent, which has it once this returns, whatever happens to this process.
pub fn say(line: &str) {
    let text = format!("{MARK}{line}\n");
    let mut out = std::io::stdout().lock();
    // The harness may have left a line unfinished.
    let text = if line.starts_with("hello") {
        format!("\n{text}")
    } else {
        text
    };
    out.write_all(text.as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Waits until the parent closes our input, or ends.
pub fn wait_for_parent() {
    let _ = std::io::stdin().lock().lines().count();
}

/// A process that runs one test of this binary, and is killed when this is dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    lines: Receiver<String>,
}

impl Worker {
    /// Runs `test` with these settings in its environment.
    pub fn start(test: &str, settings: &[(&str, String)]) -> Self {
        Self::spawn(Command::new(this_program()), test, settings)
    }

    /// The same under this umask.
    pub fn start_under_umask(umask: &str, test: &str, settings: &[(&str, String)]) -> Self {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(r#"umask "$0" && exec "$@""#);
        shell.arg(umask).arg(this_program());
        Self::spawn(shell, test, settings)
    }

    /// The same in this folder.
    pub fn start_in(folder: &Path, test: &str, settings: &[(&str, String)]) -> Self {
        let mut command = Command::new(this_program());
        command.current_dir(folder);
        Self::spawn(command, test, settings)
    }

    /// The same as a user who may do nothing. The program is copied to `folder`, because the folder it is in may be closed
    /// to that user.
    #[cfg(unix)]
    pub fn start_as_nobody(folder: &Path, test: &str, settings: &[(&str, String)]) -> Self {
        use std::os::unix::process::CommandExt as _;
        const NOBODY: u32 = 65534;
        let copy = folder.join("program");
        // By another process: a file that this one has open for writing, even in the copy that a thread is just making of
        // it to start something, cannot be run.
        let mut copier = Command::new("cp");
        let copied = copier.arg(this_program()).arg(&copy).status();
        assert!(copied.unwrap().success());
        let mut command = Command::new(copy);
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
        Self::spawn(command, test, settings)
    }

    fn spawn(mut command: Command, test: &str, settings: &[(&str, String)]) -> Self {
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        command.envs(settings.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (found, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix(MARK) {
                    let _ = found.send(line.to_owned());
                }
            }
        });
        Self { child, lines }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line it says; `None` if it has ended.
    pub fn line(&self) -> Option<String> {
        self.line_within(PATIENCE).unwrap_or_else(|| {
            panic!(
                "the worker {} has not said anything for a minute",
                self.id()
            )
        })
    }

    /// What it says within this time: `None` if nothing, `Some(None)` if it has ended.
    pub fn line_within(&self, time: Duration) -> Option<Option<String>> {
        match self.lines.recv_timeout(time) {
            Ok(line) => Some(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Some(None),
            Err(RecvTimeoutError::Timeout) => None,
        }
    }

    /// Kills it (SIGKILL) and gives what it said before that. It is gone when this returns.
    pub fn kill(mut self) -> Vec<String> {
        self.end();
        self.lines.iter().collect()
    }

    /// Closes its input, waits for its end and says whether that went well.
    pub fn finish(mut self) -> bool {
        drop(self.child.stdin.take());
        self.child.wait().unwrap().success()
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

fn this_program() -> std::path::PathBuf {
    std::env::current_exe().unwrap()
}
