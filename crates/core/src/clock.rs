//! Time, injected. The only module that may ask the system for it.
//!
//! Two readings, never mixed: [`Moment`] is monotonic, keeps counting while the machine is suspended and
//! means nothing outside this process; [`Timestamp`] is milliseconds of Unix time for people and stores.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::lease::Ttl;
use crate::sync::{Mutex, lock};

/// A point on this process's suspend-aware monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The last representable moment; stands for "never".
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The moment this many nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This moment moved later, stopping at [`FAR_FUTURE`](Self::FAR_FUTURE).
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }

    /// This moment moved earlier, stopping at the origin.
    #[must_use]
    pub fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Moment({:?})", Duration::from_nanos(self.0))
    }
}

/// Whole nanoseconds, at most what a `u64` holds. The standard library counts in 128 bits, which is slow to divide and
/// is on the way of every acquisition.
pub(crate) fn nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000_000);
    seconds.saturating_add(u64::from(duration.subsec_nanos()))
}

/// Whole milliseconds, at most what a `u64` holds.
fn millis(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1000)
        .saturating_add(u64::from(duration.subsec_millis()))
}

/// Milliseconds since the Unix epoch, by the clock of whoever wrote it (a store's, as a rule).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Stands for "never" where a timestamp must be given; small enough to survive JSON.
    pub const NEVER: Self = Self((1 << 53) - 1);

    /// The timestamp this many milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This timestamp moved later, rounded down to a millisecond.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(millis(by)))
    }

    /// When a lease of `ttl` that begins now ends.
    #[must_use]
    pub fn after_ttl(self, ttl: Ttl) -> Self {
        Self(self.0.saturating_add(ttl.as_millis()))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({}ms)", self.0)
    }
}

/// A future that is ready once its moment has come.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where time comes from. Every deadline of this library is judged by one of these.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The current moment: monotonic, and counting through suspend where the system can.
    fn now(&self) -> Moment;

    /// The current Unix time, which may step.
    fn wall(&self) -> Timestamp;

    /// Sleeps until `at`; ready at once if that has passed. Dropping the future cancels the sleep.
    fn sleep_until(&self, at: Moment) -> Sleep;
}

/// The system's clock: `CLOCK_BOOTTIME` on Linux and Android, and the closest thing elsewhere.
///
/// On macOS `CLOCK_MONOTONIC` counts through sleep as well. On other systems the reading may stop during suspend;
/// a guard can then notice its loss late, by the length of the suspend.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl SystemClock {
    /// The system clock, ready to share: always the same one, so that those who go by it know that they do.
    #[must_use]
    pub fn shared() -> Arc<dyn Clock> {
        static SHARED: OnceLock<Arc<dyn Clock>> = OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Self)).clone()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        monotonic()
    }

    fn wall(&self) -> Timestamp {
        #[allow(clippy::disallowed_methods, reason = "this is the clock module")]
        let since_epoch = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }

    fn sleep_until(&self, at: Moment) -> Sleep {
        let clock = *self;
        Box::pin(async move {
            // Tokio's timers stop during suspend, so a long sleep is taken in naps and judged by our own clock.
            loop {
                let left = at.since(clock.now());
                if left.is_zero() {
                    return;
                }
                #[allow(clippy::disallowed_methods, reason = "this is the clock module")]
                tokio::time::sleep(left.min(LONGEST_NAP)).await;
            }
        })
    }
}

/// The longest a sleeper can overlook that the machine was suspended.
const LONGEST_NAP: Duration = Duration::from_secs(1);

#[cfg(unix)]
fn monotonic() -> Moment {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const ID: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const ID: ClockId = ClockId::Monotonic;
    let time = clock_gettime(ID);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    Moment(secs * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(not(unix))]
fn monotonic() -> Moment {
    use std::sync::OnceLock;
    use std::time::Instant;
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    #[allow(clippy::disallowed_methods, reason = "this is the clock module")]
    let now = Instant::now();
    let origin = *ORIGIN.get_or_init(|| now);
    Moment(u64::try_from(now.duration_since(origin).as_nanos()).unwrap_or(u64::MAX))
}

/// A clock that moves only when told to. Clones share their time.
#[derive(Clone)]
pub struct ManualClock(Arc<Mutex<Manual>>);

struct Manual {
    now: Moment,
    wall: Timestamp,
    sleepers: BTreeMap<(Moment, u64), Option<Waker>>,
    next_id: u64,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ManualClock {
    /// A clock that stands at an arbitrary point well after both origins.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Manual {
            now: Moment::from_nanos(1_000_000_000_000),
            wall: Timestamp::from_millis(1_700_000_000_000),
            sleepers: BTreeMap::new(),
            next_id: 0,
        })))
    }

    /// Moves both readings on and wakes every sleeper whose moment has come.
    pub fn advance(&self, by: Duration) {
        let due = {
            let mut inner = lock(&self.0);
            inner.now = inner.now.after(by);
            inner.wall = inner.wall.after(by);
            let now = inner.now;
            inner.wake_due(now)
        };
        due.into_iter().for_each(Waker::wake);
    }

    /// Steps the wall clock only, as an administrator or a time server would.
    pub fn set_wall(&self, wall: Timestamp) {
        lock(&self.0).wall = wall;
    }

    /// The earliest moment somebody sleeps for, if anybody does.
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        lock(&self.0).sleepers.keys().next().map(|(at, _)| *at)
    }

    /// How many sleeps are under way.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        lock(&self.0).sleepers.len()
    }
}

impl Manual {
    fn wake_due(&mut self, now: Moment) -> Vec<Waker> {
        self.sleepers
            .range_mut(..=(now, u64::MAX))
            .filter_map(|(_, waker)| waker.take())
            .collect()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        lock(&self.0).now
    }

    fn wall(&self) -> Timestamp {
        lock(&self.0).wall
    }

    fn sleep_until(&self, at: Moment) -> Sleep {
        let mut inner = lock(&self.0);
        let id = inner.next_id;
        inner.next_id += 1;
        inner.sleepers.insert((at, id), None);
        Box::pin(ManualSleep {
            clock: self.0.clone(),
            at,
            id,
        })
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = lock(&self.0);
        f.debug_struct("ManualClock")
            .field("now", &inner.now)
            .field("wall", &inner.wall)
            .finish()
    }
}

struct ManualSleep {
    clock: Arc<Mutex<Manual>>,
    at: Moment,
    id: u64,
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = lock(&self.clock);
        if inner.now >= self.at {
            return Poll::Ready(());
        }
        inner
            .sleepers
            .insert((self.at, self.id), Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        lock(&self.clock).sleepers.remove(&(self.at, self.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_time_moves_only_when_told() {
        let clock = ManualClock::new();
        let (now, wall) = (clock.now(), clock.wall());
        clock.advance(Duration::from_millis(1500));
        assert_eq!(clock.now().since(now), Duration::from_millis(1500));
        assert_eq!(clock.wall().since(wall), Duration::from_millis(1500));
    }

    #[tokio::test]
    async fn a_sleeper_wakes_when_its_moment_comes_and_leaves_nothing() {
        let clock = ManualClock::new();
        let sleep = clock.sleep_until(clock.now().after(Duration::from_secs(5)));
        let task = tokio::spawn(sleep);
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(5));
        task.await.unwrap();
        assert_eq!(clock.sleepers(), 0);
        drop(clock.sleep_until(Moment::FAR_FUTURE));
        assert_eq!(clock.sleepers(), 0);
    }

    /// F14: a stepped wall clock leaves monotonic time alone.
    #[test]
    fn a_wall_step_does_not_move_the_monotonic_reading() {
        let clock = ManualClock::new();
        let now = clock.now();
        clock.set_wall(Timestamp::from_millis(1));
        assert_eq!(clock.now(), now);
    }

    #[test]
    fn the_system_clock_counts_up() {
        let a = SystemClock.now();
        assert!(SystemClock.now() >= a);
        assert!(SystemClock.wall() > Timestamp::from_millis(1_600_000_000_000));
    }
}
