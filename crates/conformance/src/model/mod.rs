//! Random requests, sent to a backend and to the rule, which must agree.
//!
//! The rule ([`leasehold_core::transition`]) runs over plain records; the backend does whatever it does. Answers are
//! compared except for the values of tokens (which must correspond one to one and in the same order) and versions.
//! A sequence that fails is cut down to a small one and shown with its seed.

mod compare;
mod oracle;
mod player;
mod step;

use std::sync::Arc;

use leasehold_core::{Backend, ManualClock, Name};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use proptest::strategy::{Strategy as _, ValueTree as _};

pub(crate) use player::{Pace, Player};
use step::{Play, plays};

/// Runs this many random sequences, each on a fresh backend under virtual time.
///
/// `make` returns the backend and the clock its leases run out by. Panics at the first difference.
pub fn check_model(cases: u32, make: impl Fn() -> (Arc<dyn Backend>, ManualClock)) {
    check_model_seeded(cases, rand::random(), make);
}

/// As [`check_model`], from a seed that an earlier failure showed.
pub fn check_model_seeded(
    cases: u32,
    seed: u64,
    make: impl Fn() -> (Arc<dyn Backend>, ManualClock),
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime without drivers can always be built");
    let names: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|key| Name::new("model", key).expect("a valid name"))
        .collect();
    let play = |play: Play| {
        let (backend, clock) = make();
        let pace = Pace::Virtual(clock.clone());
        let mut player = Player::new(backend, names.clone(), pace, &clock);
        runtime.block_on(player.play(&play))
    };
    run_plays(cases, seed, play);
}

/// Generates plays from a seed and panics with the smallest one that fails.
fn run_plays(cases: u32, seed: u64, play: impl Fn(Play) -> Result<(), String>) {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let mut runner = seeded(config, seed);
    let result = runner.run(&plays(), |case| play(case).map_err(TestCaseError::fail));
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, smallest)) => {
            panic!("the backend disagrees with the rule (seed {seed}): {reason}\n{smallest:#?}")
        }
        Err(TestError::Abort(reason)) => panic!("gave up (seed {seed}): {reason}"),
    }
}

/// Some plays from a seed, for stores where a failing one cannot be played again and cut down.
pub(crate) fn generate(seed: u64, count: usize) -> Vec<Play> {
    let mut runner = seeded(Config::default(), seed);
    let mut play = || {
        let tree = plays().new_tree(&mut runner);
        tree.map(|tree| tree.current())
    };
    (0..count).filter_map(|_| play().ok()).collect()
}

fn seeded(config: Config, seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(config, random)
}

#[cfg(test)]
mod tests {
    use leasehold_core::memory::Memory;

    use super::*;
    use crate::fault::{FaultBackend, Faults};

    fn memory() -> (Arc<dyn Backend>, ManualClock) {
        let clock = ManualClock::new();
        (Arc::new(Memory::with_clock(Arc::new(clock.clone()))), clock)
    }

    #[test]
    fn memory_answers_as_the_rule_says() {
        check_model(2_000, memory);
    }

    /// A forced release or a withdrawal that is done twice finds nothing the second time; the rule would find it.
    #[test]
    fn a_backend_that_answers_otherwise_is_found_out() {
        let faulty = || {
            let (memory, clock) = memory();
            let faults = Faults {
                duplicate: 1.0,
                ..Faults::NONE
            };
            let backend: Arc<dyn Backend> = Arc::new(FaultBackend::new(memory, faults, 1));
            (backend, clock)
        };
        let run = std::panic::AssertUnwindSafe(|| check_model_seeded(500, 1, faulty));
        let panic = std::panic::catch_unwind(run).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("disagrees with the rule (seed 1)"), "{text}");
    }
}
