//! Measuring fairly: all subjects take turns in every round, so that what slows one slows its neighbours as well.
//!
//! Work on one thread is measured in that thread's own processor time: on a busy machine the scheduler interrupts
//! long runs and spares short ones, which would favour whatever is fast already.
//!
//! In every round a subject runs once off the clock, because its neighbours have left the caches full of their own
//! data, and then [`PASSES`] times on it.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// How often a subject runs on the clock in one round.
const PASSES: usize = 3;

/// Something to measure. One run gives one figure, in nanoseconds.
pub(crate) struct Subject<'a> {
    run: Box<dyn FnMut() -> f64 + 'a>,
}

impl<'a> Subject<'a> {
    /// A subject that does `operations` operations per run on this thread; the figure is the processor time of one.
    pub(crate) fn on_this_thread(operations: usize, mut run: impl FnMut() + 'a) -> Self {
        Self::new(move || {
            run();
            let start = busy_nanos();
            (0..PASSES).for_each(|_| run());
            (busy_nanos() - start) / (PASSES * operations) as f64
        })
    }

    /// A subject that does `operations` operations per run, on any threads; the figure is the time of one.
    pub(crate) fn timed(operations: usize, mut run: impl FnMut() + 'a) -> Self {
        Self::new(move || {
            run();
            let start = Instant::now();
            (0..PASSES).for_each(|_| run());
            start.elapsed().as_nanos() as f64 / (PASSES * operations) as f64
        })
    }

    /// The same subject with something to do after each run, off the clock.
    pub(crate) fn then(mut self, mut after: impl FnMut() + 'a) -> Self {
        Self::new(move || {
            let figure = (self.run)();
            after();
            figure
        })
    }

    /// A subject that takes its own time.
    pub(crate) fn new(run: impl FnMut() -> f64 + 'a) -> Self {
        Self { run: Box::new(run) }
    }
}

/// The processor time this thread has used, in nanoseconds.
fn busy_nanos() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as f64 * 1e9 + used.tv_nsec as f64
}

/// The figures of one subject, one per round.
#[derive(Debug, Clone)]
pub(crate) struct Samples(Vec<f64>);

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(figures: I) -> Self {
        Self(figures.into_iter().collect())
    }
}

impl Samples {
    /// The figure in the middle.
    pub(crate) fn median(&self) -> f64 {
        median(self.0.clone())
    }

    /// This ÷ other, the middle of the quotients of each round.
    pub(crate) fn over(&self, other: &Self) -> f64 {
        median(self.0.iter().zip(&other.0).map(|(a, b)| a / b).collect())
    }
}

/// The value in the middle; not a number if there is none.
pub(crate) fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

/// The smallest value that more than this share of all values do not exceed; not a number if there is none.
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = (values.len() as f64 * share) as usize;
    values.get(at).copied().unwrap_or(f64::NAN)
}

/// Runs every subject once to warm up and then once per round, in turn, and gives the samples of each.
pub(crate) fn interleave<const N: usize>(
    rounds: usize,
    mut subjects: [Subject<'_>; N],
) -> [Samples; N] {
    let mut samples = [const { Samples(Vec::new()) }; N];
    for round in 0..=rounds {
        for (subject, samples) in subjects.iter_mut().zip(&mut samples) {
            let figure = (subject.run)();
            if round > 0 {
                samples.0.push(figure);
            }
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_does_not_count_and_ratios_are_taken_round_by_round() {
        let mut figures = [900.0, 2.0, 4.0, 8.0].into_iter();
        let ours = Subject::new(move || figures.next().unwrap_or_default());
        let floor = Subject::new(|| 2.0);
        let [ours, floor] = interleave(3, [ours, floor]);
        assert_eq!((ours.median(), ours.over(&floor)), (4.0, 2.0));
    }

    #[test]
    fn a_quantile_leaves_its_share_below() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(median(hundred.clone()), 51.0);
        assert_eq!(quantile(hundred, 0.99), 100.0);
        assert_eq!(quantile(vec![3.0], 0.99), 3.0);
        assert!(quantile(Vec::new(), 0.5).is_nan());
    }
}
