//! One attempt to acquire: asks the store, and makes sure that nothing is left behind if it is given up.

use std::sync::Arc;

use super::deadline::deadline;
use super::hold::{Granted, Leases};
use super::shared::{Shared, unanswered};
use crate::backend::{Acquire, Acquired, Names, Queue, Withdraw};
use crate::background::Withdrawal;
use crate::clock::Moment;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::name::Name;

/// An attempt under one holder id. Dropping it gives back whatever the store may have given.
pub(super) struct Attempt<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) request: Acquire,
    doubt: Doubt,
    /// When the last request left that the store has answered.
    t0: Moment,
    /// Whether the store granted it at once, at `t0`, so that it cannot have come too late.
    fresh: bool,
}

/// What a store may know of a holder.
#[derive(Clone, Copy, Default)]
struct Doubt {
    /// Whether the store may know of this holder.
    known: bool,
    /// Whether a request got no answer and may still be on its way, so that a later answer does not settle it.
    in_doubt: bool,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, request: Acquire) -> Self {
        let t0 = Moment::from_nanos(0);
        Self {
            shared,
            request,
            doubt: Doubt::default(),
            t0,
            fresh: false,
        }
    }

    /// Asks the store once, with or without a wish to be queued.
    pub(super) async fn ask(&mut self, queue: bool) -> Result<Acquired> {
        if let Some(answer) = self.ask_at_once(queue) {
            return answer;
        }
        let before = self.leave(queue);
        let t0 = self.shared.clock.now();
        let together = self.request.names.single().is_some() || self.shared.takes_names_together();
        let answer = if together {
            self.shared.backend.acquire(&self.request).await
        } else {
            // Boxed, so that the rest need not carry the room for it around.
            Box::pin(self.ask_one_by_one()).await
        };
        self.fresh = false;
        self.learn(&answer, t0, before);
        answer
    }

    /// As [`ask`](Self::ask), if the store answers without waiting.
    pub(super) fn ask_at_once(&mut self, queue: bool) -> Option<Result<Acquired>> {
        let store = self.shared.at_once()?;
        let before = self.leave(queue);
        let (at, answer) = store.acquire_at_once(&self.request);
        self.fresh = matches!(answer, Ok(Acquired::Granted(_)));
        self.learn(&answer, at, before);
        Some(answer)
    }

    /// The request is about to leave. Until there is an answer the store may know of us; it stays so if the wait for it
    /// is given up.
    fn leave(&mut self, queue: bool) -> Doubt {
        self.request.queue = queue.then_some(Queue {
            inbox: self.shared.inbox.id(),
        });
        let unanswered = Doubt {
            known: true,
            in_doubt: true,
        };
        std::mem::replace(&mut self.doubt, unanswered)
    }

    /// What the answer to a request that left at `t0` says about what the store knows.
    fn learn(&mut self, answer: &Result<Acquired>, t0: Moment, before: Doubt) {
        match answer {
            // A refusal without a wish to be queued has also given up the place in the queue.
            Ok(Acquired::Held(_)) => self.doubt.known = before.in_doubt,
            Ok(Acquired::Granted(_) | Acquired::Queued(_)) => self.t0 = t0,
            Err(error) if error.effect() == Effect::None => self.doubt.known = before.known,
            Err(_) => return,
        }
        self.doubt.in_doubt = before.in_doubt;
    }

    /// Takes several names from a store that can only do one at a time: in order, so that nobody waits in a circle, and
    /// giving back what was taken as soon as one is refused.
    async fn ask_one_by_one(&self) -> Result<Acquired> {
        let mut leases = Leases::new();
        for name in self.request.names.as_slice() {
            let single = Acquire {
                names: Names::one(name.clone()),
                ..self.request.clone()
            };
            match self.shared.backend.acquire(&single).await {
                Ok(Acquired::Granted(granted)) => leases.extend(granted),
                Ok(refused) => {
                    self.give_back(leases.iter().map(|lease| &lease.name))
                        .await?;
                    return Ok(refused);
                }
                Err(error) if leases.is_empty() => return Err(error),
                // What was taken before is given back in the background.
                Err(error) => return Err(error.with_effect(Effect::Unknown)),
            }
        }
        Ok(Acquired::Granted(leases))
    }

    async fn give_back(&self, taken: impl DoubleEndedIterator<Item = &Name>) -> Result<()> {
        for name in taken.rev() {
            let request = Withdraw {
                names: Names::one(name.clone()),
                holder: self.request.holder.clone(),
            };
            let withdrawn = self.shared.backend.withdraw(&request).await;
            withdrawn.map_err(|error| error.with_effect(Effect::Unknown))?;
        }
        Ok(())
    }

    /// Turns a grant into something to hold, unless it came too late to be believed in.
    pub(super) fn granted(&mut self, leases: Leases) -> Result<Granted> {
        if leases.len() != self.request.names.as_slice().len() {
            return Err(unanswered());
        }
        let ttl = leases
            .iter()
            .map(|lease| lease.ttl)
            .min()
            .unwrap_or_default();
        let deadline = deadline(self.t0, ttl);
        if self.now() >= deadline {
            return Err(Error::new(
                ErrorKind::Timeout,
                format!("the store took so long that a lease of {ttl:?} was already over; use a longer ttl"),
            )
            .with_effect(Effect::Unknown)
            .during("acquire", self.shared.scheme())
            .with_name(self.request.names.first()));
        }
        self.doubt.known = false;
        Ok(Granted {
            holder: self.request.holder.clone(),
            leases,
            t0: self.t0,
            deadline,
        })
    }

    fn now(&self) -> Moment {
        if self.fresh {
            self.t0
        } else {
            self.shared.clock.now()
        }
    }

    /// When the last request left that the store has answered with a grant or a ticket.
    pub(super) fn t0(&self) -> Moment {
        self.t0
    }

    /// Whether so little would be left of a lease granted to the ticket that it should be refreshed first.
    pub(super) fn is_stale(&self) -> bool {
        let ttl = self.request.ttl.as_duration();
        self.shared.clock.now() >= self.t0.after(ttl / 2)
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.doubt.known {
            let until = self
                .shared
                .clock
                .now()
                .after(self.request.ttl.as_duration() * 2);
            self.shared.keeper.withdraw(Withdrawal {
                names: self.request.names.clone(),
                holder: self.request.holder.clone(),
                until,
            });
        }
    }
}
