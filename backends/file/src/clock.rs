//! The store's time: it never steps while the file is open, and owes no lease anything when it is opened again.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Clock, Moment, Timestamp};

/// Microseconds of Unix time that go by the monotonic clock.
#[derive(Debug)]
pub(crate) struct StoreClock {
    clock: Arc<dyn Clock>,
    boot: Option<String>,
    /// A moment and the time it was.
    origin: (Moment, u64),
}

/// A reading that outlives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The store's time, in microseconds.
    pub(crate) micros: u64,
    /// The monotonic clock at the same moment, which means something only under the same boot.
    pub(crate) moment: Moment,
    /// The start of the machine that the moment counts from; empty if that is not known.
    pub(crate) boot: String,
}

impl StoreClock {
    /// Goes on from the last reading in the file.
    ///
    /// Under the same boot the monotonic clock has gone on meanwhile, and so has the store's time. Otherwise nobody knows
    /// how long the file was closed: the wall clock tells what time it is now, and the second answer how far that is from
    /// the last reading. What was live then must be prolonged by as much.
    pub(crate) fn resume(
        clock: Arc<dyn Clock>,
        boot: Option<String>,
        last: Option<&Reading>,
    ) -> (Self, Duration) {
        let moment = clock.now();
        let wall = clock.wall().as_millis().saturating_mul(1000);
        let (micros, gap) = match last {
            None => (wall, 0),
            Some(last) if boot.as_ref() == Some(&last.boot) && moment >= last.moment => {
                let since = moment.since(last.moment);
                (last.micros.saturating_add(micros_of(since)), 0)
            }
            Some(last) => (wall.max(last.micros), wall.saturating_sub(last.micros)),
        };
        let origin = (moment, micros);
        let clock = Self {
            clock,
            boot,
            origin,
        };
        // Leases are counted in whole milliseconds, and none may lose a part of one.
        (clock, Duration::from_millis(gap.div_ceil(1000)))
    }

    pub(crate) fn micros(&self) -> u64 {
        self.micros_at(self.clock.now())
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.micros() / 1000)
    }

    /// What to write into the file.
    pub(crate) fn reading(&self) -> Reading {
        let moment = self.clock.now();
        Reading {
            micros: self.micros_at(moment),
            moment,
            boot: self.boot.clone().unwrap_or_default(),
        }
    }

    fn micros_at(&self, moment: Moment) -> u64 {
        let since = moment.since(self.origin.0);
        self.origin.1.saturating_add(micros_of(since))
    }
}

/// Whole microseconds, at most what a `u64` holds.
pub(crate) fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// What tells one start of this machine from another, where the system says.
pub(crate) fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let id = id.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use leasehold_core::ManualClock;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn resumed(clock: &ManualClock, boot: &str, last: Option<&Reading>) -> (StoreClock, Duration) {
        StoreClock::resume(Arc::new(clock.clone()), Some(boot.to_owned()), last)
    }

    #[test]
    fn a_new_file_starts_at_the_wall_clock_and_then_leaves_it() {
        let clock = ManualClock::new();
        let (store, gap) = resumed(&clock, "a", None);
        assert_eq!((store.now(), gap), (clock.wall(), Duration::ZERO));
        let before = store.now();
        clock.set_wall(Timestamp::from_millis(5));
        assert_eq!(store.now(), before);
        clock.advance(HOUR);
        assert_eq!(store.now(), before.after(HOUR));
    }

    #[test]
    fn under_the_same_boot_time_goes_on_whatever_the_wall_clock_says() {
        let clock = ManualClock::new();
        let (store, _) = resumed(&clock, "a", None);
        let last = store.reading();
        clock.advance(HOUR);
        clock.set_wall(Timestamp::from_millis(5));
        let (again, gap) = resumed(&clock, "a", Some(&last));
        assert_eq!((again.now(), gap), (store.now(), Duration::ZERO));
    }

    #[test]
    fn under_another_boot_the_gap_is_told_and_time_never_goes_back() {
        let clock = ManualClock::new();
        let (store, _) = resumed(&clock, "a", None);
        let last = store.reading();
        clock.advance(HOUR);
        let (later, gap) = resumed(&clock, "b", Some(&last));
        assert_eq!((later.now(), gap), (clock.wall(), HOUR));
        clock.set_wall(Timestamp::from_millis(5));
        let (set_back, gap) = resumed(&clock, "b", Some(&last));
        assert_eq!(set_back.micros(), last.micros);
        assert_eq!(gap, Duration::ZERO);
        let unknown = StoreClock::resume(Arc::new(clock), None, Some(&last));
        assert_eq!(unknown.0.micros(), last.micros);
    }
}
