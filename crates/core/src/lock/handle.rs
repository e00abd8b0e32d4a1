//! A lock that can be taken: what to take, and how.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::attempt::Attempt;
use super::deadline::{check_max_hold, deadline, lock_ttl, renewal_interval};
use super::event::{LockEvent, NotAcquired};
use super::guard::{Guard, Held, lost, withdraw_in_background};
use super::hold::{Granted, Hold, Leases};
use super::scope::Scope;
use super::shared::Shared;
use super::wait::{Patience, try_now, wait};
use crate::backend::request::lock_delay_millis;
use crate::backend::{Acquire, Acquired, Blocked, Names};
use crate::background::Withdrawal;
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::holder::{Holder, Owner};
use crate::lease::{Metadata, Mode, ONE_UNIT, Ttl, Units};

/// A lock that can be taken: one name or several, exclusive or shared, one unit or more.
///
/// A handle is cheap and holds nothing. Every acquisition through it has an identity of its own, so that tasks that
/// share a handle exclude each other; see [`scope`](Self::scope) for taking a lock again while holding it.
///
/// A wrong name or option is reported by the first verb that would use it.
#[derive(Debug, Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock {
    /// What to take, or what is wrong with that or with how.
    names: std::result::Result<Names, Arc<Error>>,
    pub(super) terms: Arc<Terms>,
}

/// Where and how to take a lock. Shared by the locks of a manager until one of them is told otherwise, and by what they
/// hold, so that both are small.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) shared: Arc<Shared>,
    pub(super) owner: Owner,
    pub(super) ttl: Ttl,
    pub(super) mode: Mode,
    pub(super) units: Units,
    pub(super) limit: Units,
    pub(super) renew: Renewal,
    pub(super) max_hold: Option<Duration>,
    pub(super) lock_delay_ms: u32,
    pub(super) metadata: Option<Metadata>,
    pub(super) cancel: Option<CancellationToken>,
    pub(super) scope: Option<Scope>,
}

/// Whether and how often a lease is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    Off,
    Automatic,
    Every(Duration),
}

impl Lock {
    pub(super) fn new(names: Result<Names>, terms: Arc<Terms>) -> Self {
        Self {
            names: names.map_err(Arc::new),
            terms,
        }
    }

    pub(super) fn manager(&self) -> &Arc<Shared> {
        &self.terms.shared
    }

    fn with(mut self, change: impl FnOnce(&mut Terms) -> Result<()>) -> Self {
        if self.names.is_ok()
            && let Err(error) = change(Arc::make_mut(&mut self.terms))
        {
            self.names = Err(Arc::new(error));
        }
        self
    }

    /// Sets how long the lease lasts; at least [`MIN_LOCK_TTL`](super::MIN_LOCK_TTL).
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|terms| {
            terms.ttl = lock_ttl(ttl)?;
            Ok(())
        })
    }

    /// Keeps the lease alive in the background until the guard is gone.
    pub fn renewing(self) -> Self {
        self.with(|terms| {
            terms.renew = Renewal::Automatic;
            Ok(())
        })
    }

    /// Keeps the lease alive in the background, renewing this often.
    pub fn renew_every(self, interval: Duration) -> Self {
        self.with(|terms| {
            terms.renew = Renewal::Every(interval);
            Ok(())
        })
    }

    /// Ends renewal, and the hold, after this long: a wedged holder does not keep the lock for ever.
    pub fn max_hold(self, max: Duration) -> Self {
        self.with(|terms| {
            check_max_hold(max)?;
            terms.max_hold = Some(max);
            Ok(())
        })
    }

    /// Keeps the name out of reach for this long after a lease that ran out, for resources that cannot check tokens.
    pub fn lock_delay(self, delay: Duration) -> Self {
        self.with(|terms| {
            terms.lock_delay_ms = lock_delay_millis(delay)?;
            Ok(())
        })
    }

    /// Takes the lock in shared (read) mode: any number of shared holders, but none beside an exclusive one.
    pub fn shared(self) -> Self {
        self.with(|terms| {
            terms.mode = Mode::Shared;
            Ok(())
        })
    }

    /// Takes this many units; see [`Locks::semaphore`](super::Locks::semaphore).
    pub fn units(self, units: u32) -> Self {
        self.with(|terms| {
            terms.units = Units::new(units)
                .filter(|units| *units <= terms.limit)
                .ok_or_else(|| {
                    Error::invalid(format!(
                        "{units} units are not between 1 and {}, which is all there is; see semaphore",
                        terms.limit
                    ))
                })?;
            Ok(())
        })
    }

    pub(super) fn limit(self, limit: u32) -> Self {
        self.with(|terms| {
            terms.limit = Units::new(limit)
                .ok_or_else(|| Error::invalid("a semaphore needs at least one permit"))?;
            Ok(())
        })
    }

    /// Keeps free text with the lock, for others to see.
    pub fn metadata(self, text: impl AsRef<str>) -> Self {
        self.with(|terms| {
            terms.metadata = Some(Metadata::new(text)?);
            Ok(())
        })
    }

    /// Lets this token cancel a wait.
    pub fn cancelled_by(self, token: CancellationToken) -> Self {
        self.with(|terms| {
            terms.cancel = Some(token);
            Ok(())
        })
    }

    /// Acquires in a scope: while the scope holds the lock, acquiring it again in the same scope succeeds at once,
    /// gives a guard of its own and is counted; the last guard to go releases. The lease is not touched.
    pub fn scope(self, scope: &Scope) -> Self {
        self.with(|terms| {
            terms.scope = Some(scope.clone());
            Ok(())
        })
    }

    /// Whether this scope holds the lock right now; no I/O.
    #[must_use]
    pub fn is_held_by(&self, scope: &Scope) -> bool {
        self.names
            .as_ref()
            .is_ok_and(|names| self.manager().scopes.is_held(scope, names.first()))
    }

    /// Waits as long as it takes.
    ///
    /// # Errors
    /// If the options are wrong, the wait is cancelled, the manager is closed, or the store fails.
    ///
    /// # Cancel safety
    /// Dropped midway, the place in line is given up, and whatever the store may have granted is given back in the
    /// background.
    pub async fn acquire(&self) -> Result<Guard> {
        self.acquire_until(None).await
    }

    /// Waits for at most this long, and at most 100 ms more for a store that does not answer. A zero wait tries once, and
    /// takes the time the store needs for that.
    ///
    /// # Errors
    /// [`ErrorKind::NotAcquired`] if it stayed taken, with [who was in the way](Error::blocked); otherwise as
    /// [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Guard> {
        if wait.is_zero() {
            return match self.try_or_blocked(NotAcquired::TimedOut).await? {
                Ok(guard) => Ok(guard),
                Err(blocked) => Err(self.taken(blocked)),
            };
        }
        self.acquire_until(Some(self.manager().clock.now().after(wait)))
            .await
    }

    async fn acquire_until(&self, deadline: Option<Moment>) -> Result<Guard> {
        if let Some(guard) = self.acquire_at_once() {
            return Ok(guard);
        }
        // Boxed, so that those who need not wait do not carry the room for it around.
        Box::pin(self.acquire_slowly(deadline)).await
    }

    /// The short way to a lock that is free: one name, from a store that answers at once. Whatever is in its way, the
    /// long way tells.
    fn acquire_at_once(&self) -> Option<Guard> {
        let shared = self.manager();
        let names = self.names.as_ref().ok()?;
        let name = names.single()?;
        let store = shared.at_once()?;
        if self.terms.scope.is_some()
            || shared.has_hooks()
            || shared.expects_contention()
            || shared.line.is_waited_for(name)
        {
            return None;
        }
        shared.refuse_if_closed().ok()?;
        let request = self.request(names).ok()?;
        let (t0, leases) = match store.acquire_at_once(&request) {
            (t0, Ok(Acquired::Granted(leases))) if leases.len() == 1 => (t0, leases),
            (_, Ok(Acquired::Held(_))) => return None,
            (t0, _) => {
                let until = t0.after(request.ttl.as_duration() * 2);
                shared.keeper.withdraw(Withdrawal {
                    names: request.names,
                    holder: request.holder,
                    until,
                });
                return None;
            }
        };
        let deadline = deadline(t0, leases[0].ttl);
        let granted = Granted {
            holder: request.holder,
            leases,
            t0,
            deadline,
        };
        let hold = Hold::new(&self.terms, granted);
        if shared.refuse_if_closed().is_err() {
            withdraw_in_background(&hold);
            return None;
        }
        Some(self.guard(hold, t0))
    }

    async fn acquire_slowly(&self, deadline: Option<Moment>) -> Result<Guard> {
        let names = self.names()?;
        if let Some(guard) = self.enter_again(names)? {
            return Ok(guard);
        }
        let mut outcome = Outcome::new(self, names);
        let patience = Patience {
            deadline,
            cancel: self.terms.cancel.as_ref(),
        };
        let acquired = match self.request(names) {
            Ok(request) => {
                let mut attempt = Attempt::new(self.manager(), request);
                wait(&mut attempt, patience)
                    .await
                    .and_then(|leases| outcome.acquired(&mut attempt, leases))
            }
            Err(error) => Err(error),
        };
        acquired.map_err(|error| outcome.failed(error))
    }

    /// Takes the lock if it is free right now.
    ///
    /// # Errors
    /// If the options are wrong, the manager is closed, or the store fails. A lock that is taken is `Ok(None)`.
    ///
    /// # Cancel safety
    /// Dropped midway, whatever the store may have granted is given back in the background.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(self.try_or_blocked(NotAcquired::Unavailable).await?.ok())
    }

    /// Takes the lock if it is free right now, or says who is in the way, which is reported as `refusal`.
    async fn try_or_blocked(&self, refusal: NotAcquired<'_>) -> Result<Result<Guard, Blocked>> {
        let names = self.names()?;
        if let Some(guard) = self.enter_again(names)? {
            return Ok(Ok(guard));
        }
        let mut outcome = Outcome::new(self, names);
        let answer = match self.request(names) {
            Ok(request) => {
                let mut attempt = Attempt::new(self.manager(), request);
                match try_now(&mut attempt).await {
                    Ok(Ok(leases)) => outcome.acquired(&mut attempt, leases).map(Ok),
                    Ok(Err(blocked)) => {
                        outcome.refused(refusal);
                        Ok(Err(blocked))
                    }
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        answer.map_err(|error| outcome.failed(error))
    }

    /// The guard of a new hold, which is looked after from now on.
    pub(super) fn guard(&self, hold: Arc<Hold>, started: Moment) -> Guard {
        let shared = self.manager();
        if hold.renew_every().is_some() || shared.has_hooks() {
            shared
                .keeper
                .look_by(hold.next_renewal().min(hold.risky_from()));
        }
        if shared.has_hooks() {
            let took = shared.clock.now().since(started);
            shared.emit(|| LockEvent::Acquired {
                held: Held::of(&hold),
                took,
            });
        }
        Guard::new(hold, self.terms.scope.clone())
    }

    fn taken(&self, blocked: Blocked) -> Error {
        Error::new(ErrorKind::NotAcquired, "it is taken")
            .during("acquire", self.manager().scheme())
            .with_name(&blocked.name)
            .with_blocked(blocked)
    }

    /// What to take, unless there is something wrong with it or the manager is closed.
    pub(super) fn names(&self) -> Result<&Names> {
        self.manager().refuse_if_closed()?;
        self.names.as_ref().map_err(|error| error.copy())
    }

    /// Another guard for what this scope holds already.
    fn enter_again(&self, names: &Names) -> Result<Option<Guard>> {
        let Some(scope) = &self.terms.scope else {
            return Ok(None);
        };
        let held = |name| self.manager().scopes.enter(scope, name);
        let Some(hold) = names.as_slice().iter().find_map(held) else {
            return Ok(None);
        };
        let guard = Guard::new(hold, Some(scope.clone()));
        let hold = guard.hold();
        let same_names = hold
            .leases()
            .iter()
            .map(|(name, _)| name)
            .eq(names.as_slice());
        if !same_names || (hold.terms.mode, hold.terms.units) != (self.terms.mode, self.terms.units)
        {
            return Err(Error::invalid(
                "this scope holds the lock already, with other names, in another mode or another number of units",
            )
            .with_name(names.first()));
        }
        hold.check().map_err(|cause| lost(hold.name(), cause))?;
        Ok(Some(guard))
    }

    pub(super) fn request(&self, names: &Names) -> Result<Acquire> {
        let (can, terms) = (self.manager().can(), &*self.terms);
        if (terms.mode == Mode::Shared || terms.limit > ONE_UNIT) && !can.quantities {
            return Err(self.unsupported("shared locks and semaphores"));
        }
        self.manager().check_ttl(terms.ttl)?;
        // A name is seldom in the cache. To ask for it now and to count the reference later leaves the processor the
        // making of the holder to do until it is there.
        std::hint::black_box(names.first().process_hash());
        let holder = Holder::random();
        let mut request = Acquire::new(names.clone(), holder, terms.owner.clone(), terms.ttl);
        request.mode = terms.mode;
        request.units = terms.units;
        request.limit = terms.limit.get();
        request.lock_delay_ms = terms.lock_delay_ms;
        request.metadata.clone_from(&terms.metadata);
        Ok(request)
    }

    fn unsupported(&self, what: &str) -> Error {
        Error::unsupported(format!("{} cannot do {what}", self.manager().scheme()))
            .during("acquire", self.manager().scheme())
    }
}

impl Terms {
    /// How often a lease is renewed, if it is.
    pub(super) fn renew_every(&self) -> Option<Duration> {
        let ttl = self.ttl.as_duration();
        match self.renew {
            Renewal::Off => None,
            Renewal::Automatic => Some(renewal_interval(ttl)),
            // Rarer than every half ttl would leave no second try.
            Renewal::Every(interval) => Some(interval.clamp(Duration::from_millis(10), ttl / 2)),
        }
    }
}

/// Reports what came of an acquisition, also if its future is dropped.
struct Outcome<'a> {
    lock: &'a Lock,
    names: &'a Names,
    started: Moment,
    reported: bool,
}

impl<'a> Outcome<'a> {
    fn new(lock: &'a Lock, names: &'a Names) -> Self {
        Self {
            lock,
            names,
            // Only hooks want to know how long it took.
            started: if lock.manager().has_hooks() {
                lock.manager().clock.now()
            } else {
                Moment::from_nanos(0)
            },
            reported: false,
        }
    }

    fn acquired(&mut self, attempt: &mut Attempt<'_>, leases: Leases) -> Result<Guard> {
        let granted = attempt.granted(leases)?;
        let hold = Hold::new(&self.lock.terms, granted);
        // Looked at after the hold is on the roster: a shutdown either finds it there or is seen here.
        if let Err(closed) = self.lock.manager().refuse_if_closed() {
            withdraw_in_background(&hold);
            return Err(closed);
        }
        self.reported = true;
        if let Some(scope) = &self.lock.terms.scope {
            self.lock.manager().scopes.add(scope, &hold);
        }
        Ok(self.lock.guard(hold, self.started))
    }

    fn failed(&mut self, error: Error) -> Error {
        let error = error
            .during("acquire", self.lock.manager().scheme())
            .with_name(self.names.first());
        self.refused(match error.kind() {
            ErrorKind::NotAcquired => NotAcquired::TimedOut,
            ErrorKind::Cancelled | ErrorKind::Closed => NotAcquired::Cancelled,
            _ => NotAcquired::Failed(&error),
        });
        error
    }

    fn refused(&mut self, why: NotAcquired<'_>) {
        self.reported = true;
        let shared = self.lock.manager();
        if !shared.has_hooks() {
            return;
        }
        let took = shared.clock.now().since(self.started);
        shared.emit(|| LockEvent::NotAcquired {
            name: self.names.first(),
            why,
            took,
        });
    }
}

impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        if !self.reported {
            self.refused(NotAcquired::Cancelled);
        }
    }
}
