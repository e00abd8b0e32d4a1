//! Proof that a lock is held.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::deadline::lock_ttl;
use super::event::ReleaseOutcome;
use super::handover::Handover;
use super::hold::{Hold, LostCause, State};
use super::renew;
use super::scope::Scope;
use super::shared::unanswered;
use crate::backend::{Names, Release, Released, Releases};
use crate::background::Withdrawal;
use crate::clock::Timestamp;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::lease::{Token, Ttl};
use crate::name::Name;

/// A view of a held lock: ask it before you act. Cheap to clone; dropping it releases nothing.
#[derive(Clone)]
pub struct Held(Arc<Hold>);

impl Held {
    pub(super) fn of(hold: &Arc<Hold>) -> Self {
        Self(hold.clone())
    }

    /// The (first) name held.
    #[must_use]
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// All names held, sorted, each with its fencing token.
    pub fn tokens(&self) -> impl Iterator<Item = (&Name, Token)> {
        self.0.leases().iter().map(|(name, token)| (name, *token))
    }

    /// The fencing token of the (first) name. Hand it to the resource you protect.
    #[must_use]
    pub fn token(&self) -> Token {
        self.0.token()
    }

    /// The fencing token of the name with this key.
    #[must_use]
    pub fn token_of(&self, key: &str) -> Option<Token> {
        self.tokens()
            .find(|(name, _)| name.key() == key)
            .map(|(_, token)| token)
    }

    /// Whether you may still act: no I/O, one look at the clock.
    ///
    /// Say it right before each step that must not happen without the lock, and hand the [token](Self::token) along,
    /// because no check can cover what is already on its way.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] once the lease is over or cannot be known to be ours.
    pub fn check(&self) -> Result<()> {
        self.0.check().map_err(|cause| lost(self.name(), cause))
    }

    /// Whether the lock may still be believed to be held; [`check`](Self::check) as a boolean.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.check().is_ok()
    }

    /// How sure one may be of the lease right now.
    #[must_use]
    pub fn state(&self) -> State {
        self.0.state()
    }

    /// How long the lease may still be believed in, if it is not renewed; zero once it is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.0.check() {
            Ok(()) => self.0.deadline().since(self.0.manager().clock.now()),
            Err(_) => Duration::ZERO,
        }
    }

    /// When the lease ends by the store's clock, as of the last answer.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.0.expires_at()
    }

    /// How long ago the lock was acquired.
    #[must_use]
    pub fn held_for(&self) -> Duration {
        self.0.manager().clock.now().since(self.0.acquired)
    }

    /// The ttl this lock was asked for.
    #[must_use]
    pub fn ttl(&self) -> Ttl {
        self.0.terms.ttl
    }

    /// How many guards share this acquisition; more than one only by [reentry](super::Lock::scope).
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.0.depth.load(Ordering::Acquire)
    }

    /// Waits until the lease is lost, and says why. Never resolves if it is released.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn lost(&self) -> LostCause {
        let mut state = self.state();
        loop {
            match state {
                State::Lost(cause) => return cause,
                State::Released => std::future::pending().await,
                _ => state = self.0.change_after(&state).await,
            }
        }
    }

    /// Waits until the state is another than `seen`, and returns it.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn state_after(&self, seen: &State) -> State {
        self.0.change_after(seen).await
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("name", self.name())
            .field("token", &self.token())
            .field("state", &self.state())
            .finish()
    }
}

/// A lock that is yours until you release or drop it, or lose it.
///
/// Dropping a guard releases in the background, as soon as the manager's runtime gets to it; use
/// [`release`](Self::release) to do it now and to learn whether the lease had already ended.
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    held: Held,
    scope: Option<Scope>,
    share: Share,
}

/// What a guard has to do with the lease it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// It is one of those that keep it.
    Counted,
    /// It was the last one, and the lease is to be ended.
    Last,
    /// Nothing any more.
    Gone,
}

impl Guard {
    pub(super) fn new(hold: Arc<Hold>, scope: Option<Scope>) -> Self {
        Self {
            held: Held(hold),
            scope,
            share: Share::Counted,
        }
    }

    pub(super) fn hold(&self) -> &Arc<Hold> {
        &self.held.0
    }

    /// A view to give to others.
    #[must_use]
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Prolongs the lease to `ttl` from now; never shortens it.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the lease is over; otherwise what the store said, in which case the lease goes on as
    /// before until its deadline.
    ///
    /// # Cancel safety
    /// Dropped midway, the lease is prolonged or not; it is not lost.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        let ttl = lock_ttl(ttl)?;
        self.check()?;
        let hold = &self.held.0;
        hold.manager().check_ttl(ttl)?;
        let t0 = hold.manager().clock.now();
        let answers = hold
            .manager()
            .renew(renew::items(hold, ttl).collect())
            .await;
        let failure = answers
            .iter()
            .find_map(|answer| answer.as_ref().err())
            .map(Error::copy);
        match (renew::settle(hold, answers, t0, t0), failure) {
            (Some(Ok(())), _) => Ok(()),
            (Some(Err(cause)), _) => Err(lost(self.name(), cause)),
            (None, failure) => Err(failure.unwrap_or_else(unanswered)),
        }
    }

    /// Releases the lock, strictly: an error says if the lease was not held to the end.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the lease had already ended ([`Error::lost_cause`] says how), so that exclusivity may
    /// have been broken; any other kind if the store failed, in which case the background goes on trying.
    ///
    /// # Cancel safety
    /// Dropped midway, the background finishes the release.
    pub async fn release(self) -> Result<()> {
        match self.give_up().await? {
            Ok(()) => Ok(()),
            Err((name, cause)) => Err(lost(&name, cause)),
        }
    }

    /// Releases the lock and says whether it was still ours.
    ///
    /// # Errors
    /// If the store failed; the background goes on trying.
    ///
    /// # Cancel safety
    /// Dropped midway, the background finishes the release.
    pub async fn release_if_held(self) -> Result<bool> {
        Ok(self.give_up().await?.is_ok())
    }

    /// Makes sure the lock is not ours any more, however that came about.
    ///
    /// # Errors
    /// If the store failed; the background goes on trying.
    ///
    /// # Cancel safety
    /// Dropped midway, the background finishes the release.
    pub async fn release_any(self) -> Result<()> {
        self.give_up().await.map(drop)
    }

    /// Stops looking after the lock without releasing it: it stays taken until its lease runs out.
    pub fn forget(mut self) {
        if self.is_last() {
            self.leave_scope();
            self.held.0.finish(ReleaseOutcome::LeftBehind);
        }
        self.share = Share::Gone;
    }

    /// Gives the lock away: whoever [adopts](super::Locks::adopt) the result holds it from then on.
    ///
    /// The lease is not renewed meanwhile, and this guard counts as released.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the lease is over; [`ErrorKind::InvalidInput`] if other guards share it, which go on
    /// without this one.
    pub fn hand_over(mut self) -> Result<Handover> {
        self.check()?;
        if !self.is_last() {
            let error =
                Error::invalid("a lock that other guards of its scope share cannot be handed over");
            return Err(error.with_name(self.name()));
        }
        self.share = Share::Gone;
        self.leave_scope();
        self.held.0.finish(ReleaseOutcome::LeftBehind);
        Ok(Handover::of(&self.held.0))
    }

    /// Gives up this guard's share; the last one ends the lease.
    async fn give_up(mut self) -> Result<Result<(), (Name, LostCause)>> {
        if self.give_up_at_once() {
            return Ok(Ok(()));
        }
        // Boxed, so that those who need not wait do not carry the room for it around.
        Box::pin(self.give_up_slowly()).await
    }

    /// The short way to end a lease that is ours to the end, at a store that answers at once. Says whether it was; if
    /// not, the long way asks again, and gets the same answer.
    fn give_up_at_once(&mut self) -> bool {
        let hold = &self.held.0;
        let Some(store) = hold.manager().at_once() else {
            return false;
        };
        if self.scope.is_some() || hold.leases().len() > 1 || !hold.is_live() {
            return false;
        }
        hold.begin_release();
        let Ok(answers) = store.release_at_once(hold.release()) else {
            return false;
        };
        if !matches!(*answers, [Released::Released]) {
            return false;
        }
        hold.finish(ReleaseOutcome::Released);
        self.share = Share::Gone;
        self.pass_on();
        true
    }

    async fn give_up_slowly(mut self) -> Result<Result<(), (Name, LostCause)>> {
        let last = self.is_last();
        let hold = &self.held.0;
        if !last {
            return Ok(hold.check().map_err(|cause| (hold.name().clone(), cause)));
        }
        // Whoever was told that the lease is lost is not told otherwise now.
        let known = hold.known_loss().map(|cause| (hold.name().clone(), cause));
        hold.begin_release();
        // Apart from that the store's answer counts, not our own deadline: a lease it could still end was ours to the end.
        let answers = match release_at_once(hold) {
            Some(answers) => answers,
            None => release(hold).await,
        };
        let answers = answers.and_then(|answers| {
            let complete = answers.len() == hold.leases().len();
            if complete {
                Ok(answers)
            } else {
                Err(unanswered())
            }
        });
        let outcome = match answers {
            Ok(answers) => first_loss(hold, &answers).or(known),
            Err(error) => {
                // Its share is not gone yet: dropping the guard leaves the rest to the background.
                hold.tell_released(ReleaseOutcome::Failed(&error));
                return Err(error);
            }
        };
        self.share = Share::Gone;
        self.leave_scope();
        match outcome {
            None => {
                hold.finish(ReleaseOutcome::Released);
                self.pass_on();
                Ok(Ok(()))
            }
            Some((name, cause)) => {
                hold.found_lost(cause.clone());
                hold.tell_released(ReleaseOutcome::Lost(&cause));
                Ok(Err((name, cause)))
            }
        }
    }

    /// Gives up this guard's share, and says whether the lease is now to be ended.
    fn is_last(&mut self) -> bool {
        if self.share == Share::Counted {
            let last = self.held.0.leave(self.scope.is_some());
            self.share = if last { Share::Last } else { Share::Gone };
        }
        self.share == Share::Last
    }

    /// Lets local waiters ask at once where the store does not hand over by itself.
    fn pass_on(&self) {
        let shared = self.held.0.manager();
        if shared.line.waiters() > 0 && !shared.can().queue {
            self.tokens().for_each(|(name, _)| shared.line.hint(name));
        }
    }

    fn leave_scope(&self) {
        if let Some(scope) = &self.scope {
            self.held.0.manager().scopes.remove(scope, &self.held.0);
        }
    }
}

/// Ends the only lease of a hold, if the store answers without waiting.
fn release_at_once(hold: &Hold) -> Option<Result<Releases>> {
    let store = hold.manager().at_once()?;
    (hold.leases().len() == 1).then(|| store.release_at_once(hold.release()))
}

/// Ends the leases of a hold in reverse, as several locks always are; one answer per name.
async fn release(hold: &Hold) -> Result<Releases> {
    let store = &hold.manager().backend;
    if hold.leases().len() == 1 {
        return store.release(hold.release()).await;
    }
    let grants = hold.leases().iter().rev().cloned();
    if hold.manager().takes_names_together() {
        let request = Release::Grants {
            holder: hold.holder().clone(),
            grants: grants.collect(),
        };
        return store.release(&request).await;
    }
    let mut answers = Releases::with_capacity(hold.leases().len());
    for (name, token) in grants {
        answers.extend(
            store
                .release(&Release::grant(name, hold.holder().clone(), token))
                .await?,
        );
    }
    Ok(answers)
}

fn first_loss(hold: &Hold, answers: &[Released]) -> Option<(Name, LostCause)> {
    hold.leases()
        .iter()
        .rev()
        .zip(answers)
        .find_map(|((name, _), answer)| match answer {
            Released::Released | Released::Forced(_) => None,
            Released::NotHeld(not_held) => Some((name.clone(), hold.why_not_held(not_held))),
        })
}

/// Gives back everything a hold has, in the background.
pub(super) fn withdraw_in_background(hold: &Hold) {
    let Ok(names) = Names::new(hold.leases().iter().map(|(name, _)| name.clone())) else {
        return;
    };
    let until = hold
        .manager()
        .clock
        .now()
        .after(hold.terms.ttl.as_duration() * 2);
    hold.manager().keeper.withdraw(Withdrawal {
        names,
        holder: hold.holder().clone(),
        until,
    });
}

pub(super) fn lost(name: &Name, cause: LostCause) -> Error {
    Error::new(
        ErrorKind::Lost,
        format!("the lock is not held any more: {cause}"),
    )
    .with_name(name)
    .with_effect(Effect::None)
    .with_lost(cause)
}

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_last() {
            return;
        }
        let hold = &self.held.0;
        self.leave_scope();
        if !hold.is_released() {
            withdraw_in_background(hold);
            hold.finish(ReleaseOutcome::Dropped);
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.held).finish()
    }
}
