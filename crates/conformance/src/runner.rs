//! Runs the cases as a test binary.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Clock, Description, SystemClock};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::sync::RwLock;

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
    let harness: Arc<dyn Harness> = Arc::new(harness);
    let mut args = Arguments::from_args();
    args.test_threads = args.test_threads.or(Some(match harness.time() {
        Time::Real => SLEEPING_CASES,
        // Moving the one clock under one case would end the leases of another.
        Time::Virtual => 1,
    }));
    let found = probe(&harness);
    let store = Arc::new(RwLock::new(()));
    let trials = cases
        .into_iter()
        .map(|case| trial(case, &harness, &found, &store))
        .collect();
    libtest_mimic::run(&args, trials).exit_code()
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

fn trial(
    case: Case,
    harness: &Arc<dyn Harness>,
    found: &Result<Description, Unavailable>,
    store: &Arc<RwLock<()>>,
) -> Trial {
    match found {
        Ok(description) => match case.lacks(description, &**harness) {
            Some(need) => left_out(&case, &format!("needs {}", need.as_str())),
            None => Trial::test(case.path(), {
                let (harness, store) = (Arc::clone(harness), Arc::clone(store));
                move || run_case(&case, &harness, &store)
            }),
        },
        Err(missing) if is_required(harness.name()) => {
            let message = format!("{} is required but unavailable: {missing}", harness.name());
            Trial::test(case.path(), move || Err(Failed::from(message)))
        }
        Err(missing) => left_out(&case, &format!("unavailable: {missing}")),
    }
}

/// A case that is shown but not run, even if ignored ones are asked for.
fn left_out(case: &Case, reason: &str) -> Trial {
    let reason = reason.to_owned();
    Trial::ignorable_test(case.path(), {
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

fn run_case(
    case: &Case,
    harness: &Arc<dyn Harness>,
    store: &Arc<RwLock<()>>,
) -> Result<(), Failed> {
    let runtime = runtime()?;
    let run = case.run;
    let (harness, store, alone) = (Arc::clone(harness), Arc::clone(store), case.alone);
    let task = runtime.spawn(async move {
        let backend = harness.connect().await.expect("the store was there before");
        let scene = Scene::new(harness, backend);
        if alone {
            let _all = store.write().await;
            run(scene).await;
        } else {
            let _shared = store.read().await;
            run(scene).await;
        }
    });
    let outcome = runtime.block_on(async {
        tokio::select! {
            ended = task => ended.map_err(|panic| describe(panic).into()),
            () = SystemClock.sleep_until(SystemClock.now().after(WATCHDOG)) => {
                Err(Failed::from(format!("{} did not end within {WATCHDOG:?}", case.path())))
            }
        }
    });
    // A case that hangs must not hang the runner as well.
    runtime.shutdown_background();
    outcome
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
