//! What sections come down to.

use super::section::{Section, Window};
use crate::bench::Outcome;
use crate::measure::{Samples, median, quantile};

/// One contest.
#[derive(Debug)]
pub(in crate::redis) struct Contest {
    /// In the order in which the name was had.
    sections: Vec<Section>,
    window: Window,
    /// Of the window, per worker.
    served: Vec<usize>,
    /// On the wire, by all workers.
    requests: u64,
}

impl Contest {
    /// Puts together what workers said, unless two of them had the name at once.
    pub(super) fn new(
        mut sections: Vec<Section>,
        window: Window,
        workers: usize,
        requests: u64,
    ) -> Outcome<Self> {
        sections.sort_unstable_by_key(|section| section.got);
        if let Some(two) = sections.windows(2).find(|two| two[1].got < two[0].gave) {
            return Err(format!("two workers had the name at once: {two:?}").into());
        }
        let mut served = vec![0; workers];
        for section in sections.iter().filter(|section| window.has(section.got)) {
            let count = served.get_mut(section.worker);
            *count.ok_or_else(|| format!("there is no worker {}", section.worker))? += 1;
        }
        Ok(Self {
            sections,
            window,
            served,
            requests,
        })
    }

    /// The time per section, in nanoseconds.
    pub(in crate::redis) fn nanos_per_section(&self) -> f64 {
        self.window.nanos() / self.served.iter().sum::<usize>() as f64
    }

    /// From just before a release to the next worker having the name, in the middle; in nanoseconds.
    pub(in crate::redis) fn handover_p50(&self) -> f64 {
        median(self.handovers())
    }

    /// The same, of which one in a hundred takes longer.
    pub(in crate::redis) fn handover_p99(&self) -> f64 {
        quantile(self.handovers(), 0.99)
    }

    /// From asking to having, in the middle; in nanoseconds.
    pub(in crate::redis) fn wait_p50(&self) -> f64 {
        median(self.waits())
    }

    /// The same, of which one in a hundred takes longer.
    pub(in crate::redis) fn wait_p99(&self) -> f64 {
        quantile(self.waits(), 0.99)
    }

    /// How much longer the longest waits are than the mean.
    pub(in crate::redis) fn wait_p99_over_mean(&self) -> f64 {
        let waits = self.waits();
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        self.wait_p99() / mean
    }

    fn waits(&self) -> Vec<f64> {
        let wait = |section: &Section| section.got.saturating_sub(section.asked) as f64;
        self.sections.iter().map(wait).collect()
    }

    /// Only if the next worker is another one, and waited already: a name that lay free was not handed over.
    fn handovers(&self) -> Vec<f64> {
        let pairs = self.sections.windows(2).map(|two| (two[0], two[1]));
        pairs
            .filter(|(last, next)| last.worker != next.worker && next.asked <= last.gave)
            .map(|(last, next)| (next.got - last.gave) as f64)
            .collect()
    }
}

/// All contests of one crew.
#[derive(Debug)]
pub(in crate::redis) struct Contests(Vec<Contest>);

impl Contests {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn add(&mut self, contest: Contest) {
        self.0.push(contest);
    }

    /// One figure of each contest.
    pub(in crate::redis) fn each(&self, figure: impl Fn(&Contest) -> f64) -> Samples {
        self.0.iter().map(figure).collect()
    }

    /// Requests on the wire per section.
    pub(in crate::redis) fn requests(&self) -> f64 {
        let requests: u64 = self.0.iter().map(|contest| contest.requests).sum();
        let sections: usize = self.0.iter().map(|contest| contest.sections.len()).sum();
        requests as f64 / sections as f64
    }

    /// Sections of the worker that had fewest ÷ those of the worker that had most.
    pub(in crate::redis) fn fairness(&self) -> f64 {
        let workers = self.0.first().map_or(0, |contest| contest.served.len());
        let served = |worker: usize| -> usize {
            let of = |contest: &Contest| contest.served.get(worker).copied().unwrap_or_default();
            self.0.iter().map(of).sum()
        };
        let all = || (0..workers).map(served);
        all().min().unwrap_or_default() as f64 / all().max().unwrap_or_default() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        from: 0,
        until: 1000,
    };

    fn section(worker: usize, asked: u64, got: u64, gave: u64) -> Section {
        Section {
            worker,
            asked,
            got,
            gave,
        }
    }

    fn contest(sections: &[Section], requests: u64) -> Contest {
        Contest::new(sections.to_vec(), WINDOW, 3, requests).unwrap()
    }

    #[test]
    fn two_workers_at_once_are_an_error_and_not_a_fast_handover() {
        let sections = vec![section(0, 0, 10, 20), section(1, 0, 19, 30)];
        let why = Contest::new(sections, WINDOW, 2, 0).unwrap_err();
        assert!(why.to_string().contains("at once"), "{why}");
    }

    #[test]
    fn a_handover_is_to_another_worker_that_waited_already() {
        let figures = contest(
            &[
                section(1, 5, 130, 200),
                section(0, 0, 10, 100),
                // To itself, and after the name lay free.
                section(1, 150, 240, 300),
                section(2, 310, 320, 400),
                section(0, 90, 410, 500),
            ],
            0,
        );
        assert_eq!(figures.handovers(), [30.0, 10.0]);
        assert_eq!(figures.waits(), [10.0, 125.0, 90.0, 10.0, 320.0]);
    }

    #[test]
    fn sections_after_the_window_do_not_count_as_served() {
        let figures = contest(
            &[
                section(0, 0, 10, 20),
                section(1, 0, 30, 40),
                section(0, 900, 999, 1050),
                section(1, 900, 1060, 1070),
            ],
            0,
        );
        assert_eq!(figures.served, [2, 1, 0]);
        assert_eq!(figures.nanos_per_section(), 1000.0 / 3.0);
    }

    #[test]
    fn requests_are_shared_by_all_sections_and_turns_add_up_over_contests() {
        let mut all = Contests::new();
        let turns = |workers: [usize; 4]| -> Vec<Section> {
            let turn = |(at, worker)| section(worker, 0, at, at + 5);
            (0..).step_by(10).zip(workers).map(turn).collect()
        };
        all.add(contest(&turns([0, 0, 1, 2]), 8));
        all.add(contest(&turns([1, 1, 2, 2]), 12));
        assert_eq!(all.requests(), 20.0 / 8.0);
        assert_eq!(all.fairness(), 2.0 / 3.0);
    }

    #[test]
    fn a_worker_that_was_never_served_is_seen() {
        let mut all = Contests::new();
        all.add(contest(&[section(0, 0, 1, 2), section(1, 0, 3, 4)], 0));
        assert_eq!(all.fairness(), 0.0);
    }

    #[test]
    fn long_waits_are_compared_to_the_mean() {
        let figures = contest(&[section(0, 0, 10, 20), section(1, 0, 30, 40)], 0);
        assert_eq!(figures.wait_p99_over_mean(), 1.5);
    }
}
