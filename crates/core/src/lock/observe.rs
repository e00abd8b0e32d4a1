//! Meters and log lines of the lock layer, fed by the same events as any other hook.
//!
//! Labels come from closed sets: the manager's namespace, the backend's word, a result. Never a key, never an owner.

use std::sync::Arc;
use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::event::{LockEvent, NotAcquired, ReleaseOutcome};
use super::hold::LostCause;
use super::shared::Hook;
use crate::name::Name;

/// The label of locks taken in another namespace than the manager's own.
const OTHER: &str = "other";

/// When to warn.
#[derive(Debug, Clone, Copy)]
pub struct Warnings {
    /// Acquiring took at least this long.
    pub slow_acquire: Duration,
    /// A renewed lock has been held for at least this long.
    pub stuck_lock: Duration,
}

impl Default for Warnings {
    /// Warns of acquisitions over 100 milliseconds and locks held over an hour.
    fn default() -> Self {
        Self {
            slow_acquire: Duration::from_millis(100),
            stuck_lock: Duration::from_secs(3600),
        }
    }
}

/// The hook that records meters for a manager of this namespace.
pub(super) fn hook(namespace: String, backend: &'static str, warnings: Warnings) -> Hook {
    describe_meters();
    let meters = Meters {
        namespace,
        backend,
        warnings,
    };
    Arc::new(move |event| meters.record(event))
}

fn describe_meters() {
    describe_histogram!(
        "leasehold_acquire_seconds",
        Unit::Seconds,
        "Time to acquire, waiting included, by result"
    );
    describe_counter!(
        "leasehold_acquire_attempts_total",
        "Acquisitions, by result"
    );
    describe_histogram!(
        "leasehold_held_seconds",
        Unit::Seconds,
        "How long locks were held"
    );
    describe_counter!(
        "leasehold_expired_total",
        "Locks whose lease ran out while they were held"
    );
    describe_gauge!("leasehold_active", "Locks held right now");
    describe_gauge!("leasehold_waiters", "Acquisitions waiting right now");
    describe_counter!("leasehold_releases_total", "Releases, by outcome");
    describe_histogram!(
        "leasehold_renewal_lag_seconds",
        Unit::Seconds,
        "How much later than planned renewals were"
    );
    describe_counter!("leasehold_lost_total", "Locks lost, by cause");
    describe_counter!(
        "leasehold_forced_total",
        "Locks ended by force through this manager"
    );
}

struct Meters {
    namespace: String,
    backend: &'static str,
    warnings: Warnings,
}

impl Meters {
    fn record(&self, event: &LockEvent<'_>) {
        match event {
            LockEvent::Waiting { name } => {
                gauge!("leasehold_waiters", &self.labels(name)).increment(1)
            }
            LockEvent::WaitEnded { name } => {
                gauge!("leasehold_waiters", &self.labels(name)).decrement(1)
            }
            LockEvent::Acquired { held, took } => {
                self.attempt(held.name(), "acquired", *took);
                gauge!("leasehold_active", &self.labels(held.name())).increment(1);
            }
            LockEvent::NotAcquired { name, why, took } => self.attempt(name, result(why), *took),
            LockEvent::Released {
                name,
                held_for,
                outcome,
                ..
            } => self.released(name, *held_for, outcome),
            LockEvent::Renewed { held, lag } => self.renewed(held, *lag),
            LockEvent::AtRisk { held } => {
                tracing::warn!(name = %held.name(), token = held.token().get(), "lock at risk");
            }
            LockEvent::Lost {
                name,
                token,
                held_for,
                cause,
                ..
            } => self.lost(name, token.get(), *held_for, cause),
            LockEvent::Forced {
                name,
                by,
                reason,
                ended,
            } => {
                counter!("leasehold_forced_total", &self.labels(name)).increment(*ended as u64);
                tracing::warn!(name = %name, by = %by, reason = ?reason, ended, "lock ended by force");
            }
        }
    }

    fn labels(&self, name: &Name) -> [(&'static str, String); 2] {
        let own = name.namespace() == self.namespace.as_str();
        let namespace = if own {
            self.namespace.clone()
        } else {
            OTHER.to_owned()
        };
        [
            ("namespace", namespace),
            ("backend", self.backend.to_owned()),
        ]
    }

    fn labels_with(
        &self,
        name: &Name,
        label: &'static str,
        value: &'static str,
    ) -> [(&'static str, String); 3] {
        let [namespace, backend] = self.labels(name);
        [namespace, backend, (label, value.to_owned())]
    }

    fn attempt(&self, name: &Name, result: &'static str, took: Duration) {
        let labels = self.labels_with(name, "result", result);
        counter!("leasehold_acquire_attempts_total", &labels).increment(1);
        histogram!("leasehold_acquire_seconds", &labels).record(took);
        if took >= self.warnings.slow_acquire {
            tracing::warn!(name = %name, result, took_ms = took.as_millis() as u64, "slow to acquire");
        }
    }

    fn released(&self, name: &Name, held_for: Duration, outcome: &ReleaseOutcome<'_>) {
        let (word, ended) = match outcome {
            ReleaseOutcome::Released => ("released", true),
            ReleaseOutcome::Dropped => ("dropped", true),
            ReleaseOutcome::LeftBehind => ("left_behind", true),
            ReleaseOutcome::Lost(_) => ("lost", false),
            ReleaseOutcome::Failed(_) => ("failed", false),
        };
        counter!(
            "leasehold_releases_total",
            &self.labels_with(name, "outcome", word)
        )
        .increment(1);
        if ended {
            self.ended(name, held_for);
        }
    }

    /// Every lock that was acquired comes here once.
    fn ended(&self, name: &Name, held_for: Duration) {
        gauge!("leasehold_active", &self.labels(name)).decrement(1);
        histogram!("leasehold_held_seconds", &self.labels(name)).record(held_for);
    }

    fn lost(&self, name: &Name, token: u64, held_for: Duration, cause: &LostCause) {
        self.ended(name, held_for);
        counter!(
            "leasehold_lost_total",
            &self.labels_with(name, "cause", cause_word(cause))
        )
        .increment(1);
        if *cause == LostCause::Expired {
            counter!("leasehold_expired_total", &self.labels(name)).increment(1);
        }
        tracing::error!(name = %name, token, cause = %cause, "lock lost");
    }

    fn renewed(&self, held: &super::Held, lag: Duration) {
        histogram!("leasehold_renewal_lag_seconds", &self.labels(held.name())).record(lag);
        let held_for = held.held_for();
        if held_for >= self.warnings.stuck_lock {
            let held_secs = held_for.as_secs();
            tracing::warn!(name = %held.name(), token = held.token().get(), held_secs, "lock held for very long");
        }
    }
}

fn result(why: &NotAcquired<'_>) -> &'static str {
    match why {
        NotAcquired::Unavailable => "unavailable",
        NotAcquired::TimedOut => "timeout",
        NotAcquired::Cancelled => "interrupted",
        NotAcquired::Failed(_) => "error",
    }
}

fn cause_word(cause: &LostCause) -> &'static str {
    match cause {
        LostCause::Expired => "expired",
        LostCause::TakenOver { .. } => "taken_over",
        LostCause::Forced { .. } => "forced",
        LostCause::HandedOver => "handed_over",
        LostCause::MaxHold => "max_hold",
        LostCause::ShutDown => "shut_down",
        LostCause::Ended => "ended",
        LostCause::Released => "released",
        LostCause::NeverHeld => "never_held",
    }
}
