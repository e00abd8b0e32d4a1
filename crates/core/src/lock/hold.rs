//! One acquisition: what was granted, until when it may be believed in, and how it ended.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::Notify;

use super::deadline::{deadline, lead};
use super::event::{LockEvent, ReleaseOutcome};
use super::guard::Held;
use super::handle::Terms;
use super::shared::Shared;
use crate::backend::{Holding, NotHeld, Release};
use crate::clock::{Moment, Timestamp};
use crate::holder::{Holder, Owner};
use crate::lease::{Lease, Token};
use crate::name::Name;
use crate::record::Ending;

/// How sure a holder may be of its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// The lease is ours.
    Held,
    /// The lease is still ours, but a renewal failed or little time is left.
    AtRisk,
    /// The lease is not ours any more.
    Lost(LostCause),
    /// The lease was released by us.
    Released,
}

/// Why a lease is not held any more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostCause {
    /// Its time ran out, by our own clock or the store's. Exclusivity may have been broken meanwhile.
    Expired,
    /// Somebody else holds the name now.
    TakenOver {
        /// Who.
        by: Box<Holding>,
    },
    /// Somebody ended it on purpose.
    Forced {
        /// Who.
        by: Owner,
        /// Why.
        reason: String,
    },
    /// It went to another holder.
    HandedOver,
    /// The longest time it may be held is over.
    MaxHold,
    /// The manager was shut down, which released it.
    ShutDown,
    /// It is over, and the store does not remember how.
    Ended,
    /// It was released by us.
    Released,
    /// The store does not know it, and nothing says that it ever did.
    NeverHeld,
}

impl fmt::Display for LostCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => {
                f.write_str("the lease had run out, so exclusivity may have been broken")
            }
            Self::TakenOver { by } => {
                write!(f, "taken over by {} with token {}", by.owner, by.token)
            }
            Self::Forced { by, reason } => write!(f, "ended by {by}: {}", reason.escape_debug()),
            Self::HandedOver => f.write_str("handed over to another holder"),
            Self::MaxHold => f.write_str("the longest time it may be held is over"),
            Self::ShutDown => f.write_str("its manager was shut down"),
            Self::Ended => f.write_str("it had ended, and the store does not remember how"),
            Self::Released => f.write_str("it was released"),
            Self::NeverHeld => f.write_str("the store never granted it, or has forgotten"),
        }
    }
}

impl LostCause {
    /// What the store's "not held" means for somebody who was granted the lease and whose own deadline has passed
    /// (`overdue`) or not.
    pub(super) fn of(not_held: &NotHeld, overdue: bool) -> Self {
        match (
            not_held.ended.as_ref().map(|end| &end.how),
            &not_held.current,
        ) {
            (Some(Ending::Forced(forced)), _) => Self::Forced {
                by: forced.by.clone(),
                reason: forced.reason.clone(),
            },
            (Some(Ending::HandedOver), _) => Self::HandedOver,
            (_, Some(by)) => Self::TakenOver {
                by: Box::new(by.clone()),
            },
            (Some(Ending::Expired), None) => Self::Expired,
            (Some(Ending::Released | Ending::Spent), None) => Self::Released,
            (_, None) if overdue => Self::Expired,
            (_, None) => Self::Ended,
        }
    }
}

const HELD: u8 = 0;
const AT_RISK: u8 = 1;
/// The release is on its way: nobody may believe in the lease any more, but how it ended is not known yet.
const ENDING: u8 = 2;
const LOST: u8 = 3;
const RELEASED: u8 = 4;

/// The shared state of one acquisition.
pub(super) struct Hold {
    pub(super) terms: Arc<Terms>,
    /// What it has, as the request that gives it back: made ahead, so that a release has nothing to make.
    release: Release,
    pub(super) acquired: Moment,
    pub(super) last_moment: Moment,
    /// Set as soon as it sits.
    seat: AtomicU32,
    /// Guards that share this acquisition.
    pub(super) depth: AtomicU32,
    phase: AtomicU8,
    deadline: AtomicU64,
    next_renewal: AtomicU64,
    expires_at: AtomicU64,
    cause: OnceLock<Box<LostCause>>,
    changed: Notify,
    /// Whether anybody ever waited for a change; nobody is notified otherwise.
    watched: AtomicBool,
}

/// The names and tokens of some leases; of one, as a rule.
fn tokens(mut leases: Leases) -> SmallVec<[(Name, Token); 1]> {
    let pair = |lease: Lease| (lease.name, lease.token);
    match leases.pop() {
        Some(only) if leases.is_empty() => SmallVec::from_buf([pair(only)]),
        last => leases.into_iter().chain(last).map(pair).collect(),
    }
}

/// The leases of one acquisition; one, as a rule.
pub(super) type Leases = SmallVec<[Lease; 1]>;

/// What a new [`Hold`] starts from.
pub(super) struct Granted {
    pub(super) holder: Holder,
    pub(super) leases: Leases,
    /// Read before the request that granted it left.
    pub(super) t0: Moment,
    /// Up to when it may be believed in.
    pub(super) deadline: Moment,
}

impl Hold {
    pub(super) fn new(terms: &Arc<Terms>, granted: Granted) -> Arc<Self> {
        let expires_at = granted
            .leases
            .iter()
            .map(|lease| lease.expires_at.as_millis())
            .min();
        let renewal = terms
            .renew_every()
            .map_or(Moment::FAR_FUTURE, |every| granted.t0.after(every));
        let hold = Arc::new(Self {
            terms: terms.clone(),
            release: Release::Grants {
                holder: granted.holder,
                grants: tokens(granted.leases),
            },
            acquired: granted.t0,
            last_moment: terms
                .max_hold
                .map_or(Moment::FAR_FUTURE, |max| granted.t0.after(max)),
            seat: AtomicU32::new(0),
            depth: AtomicU32::new(1),
            phase: AtomicU8::new(HELD),
            deadline: AtomicU64::new(granted.deadline.as_nanos()),
            next_renewal: AtomicU64::new(renewal.as_nanos()),
            expires_at: AtomicU64::new(expires_at.unwrap_or_default()),
            cause: OnceLock::new(),
            changed: Notify::new(),
            watched: AtomicBool::new(false),
        });
        hold.seat
            .store(terms.shared.roster.seat(&hold), Ordering::Relaxed);
        hold
    }

    pub(super) fn manager(&self) -> &Arc<Shared> {
        &self.terms.shared
    }

    /// How often it is renewed, if it is.
    pub(super) fn renew_every(&self) -> Option<Duration> {
        self.terms.renew_every()
    }

    /// The request that gives everything back at once.
    pub(super) fn release(&self) -> &Release {
        &self.release
    }

    /// What is held, in the order of the names.
    pub(super) fn leases(&self) -> &[(Name, Token)] {
        self.release.items()
    }

    pub(super) fn holder(&self) -> &Holder {
        match &self.release {
            Release::Grants { holder, .. } | Release::Claims { holder, .. } => holder,
            Release::Force { .. } => unreachable!("a hold gives back what is its own"),
        }
    }

    pub(super) fn name(&self) -> &Name {
        &self.leases()[0].0
    }

    pub(super) fn token(&self) -> Token {
        self.leases()[0].1
    }

    /// The moment after which this lease must not be believed in, also if nobody has said that it is lost.
    pub(super) fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Ordering::Acquire)).min(self.last_moment)
    }

    pub(super) fn expires_at(&self) -> Timestamp {
        Timestamp::from_millis(self.expires_at.load(Ordering::Acquire))
    }

    pub(super) fn next_renewal(&self) -> Moment {
        Moment::from_nanos(self.next_renewal.load(Ordering::Acquire))
    }

    pub(super) fn renew_at(&self, at: Moment) {
        self.next_renewal.store(at.as_nanos(), Ordering::Release);
    }

    /// When the lease is at risk by time alone.
    pub(super) fn risky_from(&self) -> Moment {
        self.deadline().before(lead(self.terms.ttl.as_duration()))
    }

    pub(super) fn state(&self) -> State {
        match self.phase.load(Ordering::Acquire) {
            ENDING | RELEASED => return State::Released,
            LOST => return State::Lost(self.cause()),
            _ => {}
        }
        let now = self.manager().clock.now();
        if now >= self.deadline() {
            self.lose(self.overdue());
            return self.state();
        }
        if self.is_marked_at_risk() || now >= self.risky_from() {
            State::AtRisk
        } else {
            State::Held
        }
    }

    /// What the store's "not held" means for this hold.
    pub(super) fn why_not_held(&self, not_held: &NotHeld) -> LostCause {
        LostCause::of(not_held, self.manager().clock.now() >= self.deadline())
    }

    /// Why it is lost once its deadline has passed.
    pub(super) fn overdue(&self) -> LostCause {
        if self.deadline() == self.last_moment {
            LostCause::MaxHold
        } else {
            LostCause::Expired
        }
    }

    /// Whether the lease may be acted upon; no I/O.
    pub(super) fn check(&self) -> Result<(), LostCause> {
        match self.phase.load(Ordering::Acquire) {
            HELD | AT_RISK if self.manager().clock.now() < self.deadline() => Ok(()),
            HELD | AT_RISK => {
                self.lose(self.overdue());
                Err(self.cause())
            }
            LOST => Err(self.cause()),
            _ => Err(LostCause::Released),
        }
    }

    fn cause(&self) -> LostCause {
        self.cause
            .get()
            .map_or(LostCause::Expired, |cause| (**cause).clone())
    }

    fn is_marked_at_risk(&self) -> bool {
        self.phase.load(Ordering::Acquire) == AT_RISK
    }

    /// Whether it still matters: neither lost nor released, nor about to be.
    pub(super) fn is_live(&self) -> bool {
        self.phase.load(Ordering::Acquire) < ENDING
    }

    /// Why the lease is lost, if somebody has been told so.
    pub(super) fn known_loss(&self) -> Option<LostCause> {
        (self.phase.load(Ordering::Acquire) == LOST).then(|| self.cause())
    }

    /// One guard less; says whether it was the last. Only guards of a scope can be more than one.
    pub(super) fn leave(&self, scoped: bool) -> bool {
        if scoped {
            return self.depth.fetch_sub(1, Ordering::AcqRel) == 1;
        }
        self.depth.store(0, Ordering::Release);
        true
    }

    /// Ends the belief in the lease before its release leaves.
    pub(super) fn begin_release(&self) {
        let begun = self
            .phase
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |phase| {
                (phase < ENDING).then_some(ENDING)
            });
        if begun.is_ok() {
            self.notify();
        }
    }

    /// Whether a release has been acknowledged, handed over or made pointless.
    pub(super) fn is_released(&self) -> bool {
        self.phase.load(Ordering::Acquire) == RELEASED
    }

    /// The store prolonged the lease: `ttl` counted from `t0`.
    pub(super) fn renewed(self: &Arc<Self>, t0: Moment, ttl: Duration, expires_at: Timestamp) {
        self.deadline
            .fetch_max(deadline(t0, ttl).as_nanos(), Ordering::AcqRel);
        self.expires_at
            .store(expires_at.as_millis(), Ordering::Release);
        let _ = self
            .phase
            .compare_exchange(AT_RISK, HELD, Ordering::SeqCst, Ordering::SeqCst);
        // Also if it was at risk by time alone, which the phase does not show.
        self.notify();
    }

    pub(super) fn at_risk(self: &Arc<Self>) {
        let now_at_risk =
            self.phase
                .compare_exchange(HELD, AT_RISK, Ordering::SeqCst, Ordering::SeqCst);
        if now_at_risk.is_ok() {
            self.notify();
            self.manager().emit(|| LockEvent::AtRisk {
                held: Held::of(self),
            });
        }
    }

    /// Marks the lease as lost, once, unless its release is on its way, which will say how it ended.
    pub(super) fn lose(&self, cause: LostCause) {
        self.lose_before(ENDING, cause);
    }

    /// Marks the lease as lost because its release found it so.
    pub(super) fn found_lost(&self, cause: LostCause) {
        self.lose_before(LOST, cause);
    }

    fn lose_before(&self, limit: u8, cause: LostCause) {
        let lost = self
            .phase
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |phase| {
                (phase < limit).then(|| {
                    self.cause.get_or_init(|| Box::new(cause.clone()));
                    LOST
                })
            });
        if lost.is_ok() {
            self.notify();
            let cause = self.cause();
            self.manager().emit(|| LockEvent::Lost {
                name: self.name(),
                names: self.leases().len(),
                token: self.token(),
                held_for: self.manager().clock.now().since(self.acquired),
                cause: &cause,
            });
        }
    }

    /// Marks the lease as given up, so that nobody releases it again, and tells the hooks unless it was lost before.
    pub(super) fn finish(&self, outcome: ReleaseOutcome<'_>) {
        self.begin_release();
        // From here on only the guard that began it moves the phase on, and onlookers took it for released before.
        if self.phase.load(Ordering::Acquire) == ENDING {
            self.phase.store(RELEASED, Ordering::Release);
            self.tell_released(outcome);
        }
    }

    pub(super) fn tell_released(&self, outcome: ReleaseOutcome<'_>) {
        self.manager().emit(|| LockEvent::Released {
            name: self.name(),
            token: self.token(),
            held_for: self.manager().clock.now().since(self.acquired),
            outcome,
        });
    }

    fn notify(&self) {
        // Pairs with the store in `change_after`: either this sees the watcher, or the watcher sees the change.
        if self.watched.load(Ordering::SeqCst) {
            self.changed.notify_waiters();
        }
    }

    /// Resolves when the state changes, or when time alone may have changed it.
    pub(super) async fn change_after(&self, seen: &State) -> State {
        self.watched.store(true, Ordering::SeqCst);
        loop {
            let notified = self.changed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            let state = self.state();
            if state != *seen {
                return state;
            }
            let wake = match state {
                State::Held => self.risky_from(),
                State::AtRisk => self.deadline(),
                State::Lost(_) | State::Released => Moment::FAR_FUTURE,
            };
            tokio::select! {
                biased;
                () = notified => {}
                () = self.manager().clock.sleep_until(wake) => {}
            }
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let seat = *self.seat.get_mut();
        self.manager().roster.leave(self.name(), seat);
    }
}
