//! One turn of one worker, and the clock that all processes share.

use rustix::time::{ClockId, clock_gettime};

/// What a worker did with the name once, in nanoseconds of [`now`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Section {
    /// Who.
    pub(super) worker: usize,
    /// When it asked for the name.
    pub(super) asked: u64,
    /// When it had it.
    pub(super) got: u64,
    /// When it was about to release it.
    pub(super) gave: u64,
}

impl Section {
    /// As it goes through a pipe.
    pub(super) fn to_line(self) -> String {
        let Self {
            worker,
            asked,
            got,
            gave,
        } = self;
        format!("{worker} {asked} {got} {gave}")
    }

    /// Reads what [`to_line`](Self::to_line) wrote.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        let (worker, times) = line.split_once(' ')?;
        let times: Result<Vec<u64>, _> = times.split_whitespace().map(str::parse).collect();
        let [asked, got, gave] = times.ok()?[..] else {
            return None;
        };
        Some(Self {
            worker: worker.parse().ok()?,
            asked,
            got,
            gave,
        })
    }
}

/// From when to when workers ask for the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// When they begin.
    pub(super) from: u64,
    /// When nobody asks any more.
    pub(super) until: u64,
}

impl Window {
    /// Its length.
    pub(super) fn nanos(self) -> f64 {
        self.until.saturating_sub(self.from) as f64
    }

    /// Whether a moment lies in it.
    pub(super) fn has(self, moment: u64) -> bool {
        (self.from..self.until).contains(&moment)
    }

    /// As it goes through a pipe.
    pub(super) fn to_line(self) -> String {
        format!("{} {}", self.from, self.until)
    }

    /// Reads what [`to_line`](Self::to_line) wrote.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        let (from, until) = line.trim().split_once(' ')?;
        Some(Self {
            from: from.parse().ok()?,
            until: until.parse().ok()?,
        })
    }
}

/// A moment in nanoseconds, the same in all processes of the machine.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec * 1_000_000_000 + now.tv_nsec).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_through_a_pipe_comes_out_as_it_was() {
        let section = Section {
            worker: 63,
            asked: 1,
            got: 20,
            gave: u64::MAX,
        };
        assert_eq!(Section::from_line(&section.to_line()), Some(section));
        assert_eq!(Section::from_line("1 2 3"), None);
        assert_eq!(Section::from_line(""), None);
        let window = Window { from: 5, until: 9 };
        assert_eq!(Window::from_line(&window.to_line()), Some(window));
        assert_eq!(Window::from_line("5"), None);
    }

    #[test]
    fn a_window_ends_before_its_end() {
        let window = Window { from: 5, until: 9 };
        assert_eq!(
            [4, 5, 8, 9].map(|at| window.has(at)),
            [false, true, true, false]
        );
    }
}
