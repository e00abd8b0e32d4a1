//! A bench: a name, and a function that measures.

use crate::report::Row;

/// What a bench gives, or why it could not.
pub(crate) type Outcome<T = Vec<Row>> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How often a bench that missed a target is run before the miss counts: other work on the machine comes and goes.
const TRIES: usize = 3;

/// One bench.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bench {
    /// Its name: a group, a slash, and what is measured.
    pub(crate) name: &'static str,
    /// What it measures, in a few words.
    pub(crate) about: &'static str,
    /// Measures once.
    pub(crate) measure: fn() -> Outcome,
}

impl Bench {
    /// The part of the name before the slash.
    pub(crate) fn group(&self) -> &'static str {
        self.name.split('/').next().unwrap_or(self.name)
    }

    /// Whether a name on the command line stands for this bench.
    pub(crate) fn is_in(&self, name: &str) -> bool {
        self.name == name || self.group() == name
    }

    /// Measures; if targets count, again while one is missed, keeping the best of each.
    pub(crate) fn run(&self, check: bool) -> Outcome {
        eprintln!("{} ...", self.name);
        let mut best = (self.measure)()?;
        let tries = if check { TRIES } else { 1 };
        for _ in 1..tries {
            if !best.iter().any(Row::is_missed) {
                break;
            }
            eprintln!("{} again ...", self.name);
            for (kept, new) in best.iter_mut().zip((self.measure)()?) {
                if new.is_better_than(kept) {
                    *kept = new;
                }
            }
        }
        Ok(best)
    }
}
