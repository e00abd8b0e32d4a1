//! Runs the cases as a test binary.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use leasehold_core::{Clock, Description, SystemClock};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::Runtime;

use crate::case::{Case, all};
use crate::harness::{Harness, Time, Unavailable};
use crate::scene::Scene;

/// How long a case may take, in real time.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Most cases on a real store sleep, so more of them than there are cores may run at once.
const SLEEPING_CASES: usize = 8;

/// Runs every case the backend declares itself able for; the rest is listed as ignored, with what is missing.
///
/// Takes the usual arguments of a test binary. A store that is [`Unavailable`] has all its cases ignored with the
/// reason, unless `CI` is `true` or `LEASEHOLD_REQUIRE` (a comma-separated list) names the harness: then they fail.
pub fn run(harness: impl Harness) -> ExitCode {
    run_cases(harness, all())
}

/// As [`run`], with cases of one's own choice.
pub fn run_cases(harness: impl Harness, cases: Vec<Case>) -> ExitCode {
    let stage = Stage::new(Arc::new(harness), None, cases);
    run_stages(vec![stage])
}

/// As [`run`], for several stores in one binary. Their names come before those of the cases.
pub fn run_all(harnesses: Vec<Box<dyn Harness>>) -> ExitCode {
    run_all_cases(
        harnesses
            .into_iter()
            .map(|harness| (harness, all()))
            .collect(),
    )
}

/// As [`run_all`], with cases of one's own choice for each store.
pub fn run_all_cases(harnesses: Vec<(Box<dyn Harness>, Vec<Case>)>) -> ExitCode {
    let stages = harnesses.into_iter().map(|(harness, cases)| {
        let harness: Arc<dyn Harness> = Arc::from(harness);
        let prefix = harness.name().to_owned();
        Stage::new(harness, Some(prefix), cases)
    });
    run_stages(stages.collect())
}

/// One store and what it is to show.
struct Stage {
    harness: Arc<dyn Harness>,
    prefix: Option<String>,
    cases: VecDeque<Case>,
    found: Result<Description, Unavailable>,
    /// Taken by everybody who uses the store, and as a whole by those who must be alone.
    turn: Arc<RwLock<()>>,
}

impl Stage {
    fn new(harness: Arc<dyn Harness>, prefix: Option<String>, cases: Vec<Case>) -> Self {
        Self {
            found: probe(&harness),
            harness,
            prefix,
            cases: cases.into(),
            turn: Arc::default(),
        }
    }

    fn title(&self, case: &Case) -> String {
        match &self.prefix {
            Some(prefix) => format!("{prefix}::{}", case.path()),
            None => case.path(),
        }
    }

    fn next_trial(&mut self) -> Option<Trial> {
        let case = self.cases.pop_front()?;
        let title = self.title(&case);
        Some(match &self.found {
            Ok(description) => match case.lacks(description, &*self.harness) {
                Some(need) => left_out(title, &format!("needs {}", need.as_str())),
                None => Trial::test(title, {
                    let (harness, turn) = (Arc::clone(&self.harness), Arc::clone(&self.turn));
                    move || run_case(&case, &harness, &turn)
                }),
            },
            Err(missing) if is_required(self.harness.name()) => {
                let name = self.harness.name();
                let message = format!("{name} is required but unavailable: {missing}");
                Trial::test(title, move || Err(Failed::from(message)))
            }
            Err(missing) => left_out(title, &format!("unavailable: {missing}")),
        })
    }
}

fn run_stages(mut stages: Vec<Stage>) -> ExitCode {
    let mut args = Arguments::from_args();
    args.test_threads = args.test_threads.or(Some(threads(&stages)));
    let mut trials = Vec::new();
    // Case by case and not store by store: those of one store may have to wait for each other.
    loop {
        let before = trials.len();
        trials.extend(stages.iter_mut().filter_map(Stage::next_trial));
        if trials.len() == before {
            break;
        }
    }
    libtest_mimic::run(&args, trials).exit_code()
}

/// How many cases run at once. Those of a store under virtual time take turns, so they need one thread per store.
fn threads(stages: &[Stage]) -> usize {
    let is_real = |stage: &Stage| stage.harness.time() == Time::Real;
    if stages.iter().any(is_real) {
        return SLEEPING_CASES;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    stages.len().min(cores)
}

/// Asks once whether the store is there and what it can do.
fn probe(harness: &Arc<dyn Harness>) -> Result<Description, Unavailable> {
    let runtime = runtime().map_err(|error| Unavailable::new(error.to_string()))?;
    let found = runtime.block_on(async {
        let backend = harness.connect().await?;
        Ok(backend.describe().clone())
    });
    runtime.shutdown_background();
    found
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}

/// A case that is shown but not run, even if ignored ones are asked for.
fn left_out(title: String, reason: &str) -> Trial {
    let reason = reason.to_owned();
    Trial::ignorable_test(title, {
        let reason = reason.clone();
        move || Ok(Completion::ignored_with(reason))
    })
    .with_kind(reason)
    .with_ignored_flag(true)
}

/// Whether a missing store is a failure.
fn is_required(name: &str) -> bool {
    let variable = |key: &str| {
        #[allow(
            clippy::disallowed_methods,
            reason = "a test binary is told by its environment what it must find"
        )]
        std::env::var(key).unwrap_or_default()
    };
    variable("CI") == "true"
        || variable("LEASEHOLD_REQUIRE")
            .split(',')
            .any(|required| required.trim() == name)
}

fn run_case(case: &Case, harness: &Arc<dyn Harness>, turn: &Arc<RwLock<()>>) -> Result<(), Failed> {
    let runtime = runtime()?;
    // Moving the one clock under one case would end the leases of another.
    let outcome = if case.alone || harness.time() == Time::Virtual {
        let _whole = turn.write().unwrap_or_else(PoisonError::into_inner);
        play(&runtime, case, harness)
    } else {
        let _part = turn.read().unwrap_or_else(PoisonError::into_inner);
        play(&runtime, case, harness)
    };
    // A case that hangs must not hang the runner as well.
    runtime.shutdown_background();
    outcome
}

fn play(runtime: &Runtime, case: &Case, harness: &Arc<dyn Harness>) -> Result<(), Failed> {
    let (run, harness) = (case.run, Arc::clone(harness));
    let task = runtime.spawn(async move {
        let backend = harness.connect().await.expect("the store was there before");
        run(Scene::new(harness, backend)).await;
    });
    runtime.block_on(async {
        tokio::select! {
            ended = task => ended.map_err(|panic| describe(panic).into()),
            () = SystemClock.sleep_until(SystemClock.now().after(WATCHDOG)) => {
                Err(Failed::from(format!("{} did not end within {WATCHDOG:?}", case.path())))
            }
        }
    })
}

fn describe(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "the case was cancelled".to_owned();
    };
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("the case panicked").to_owned()
}
