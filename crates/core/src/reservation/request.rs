//! Asking for something to be reserved: one value or several, whole or by units.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::claim::Claim;
use super::code::Code;
use super::conflict::{Conflict, ReserveOutcome, Taken};
use super::event::ReservationEvent;
use super::key::is_blank;
use super::limits::checked_ttl;
use super::notes::Notes;
use super::pass::{Item, Pass};
use super::reserved::Reservation;
use super::shared::Shared;
use crate::backend::{Acquire, Acquired, Amount, Blocked, BlockedBy, MAX_NAMES, Names, Own};
use crate::clock::Timestamp;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::holder::Holder;
use crate::lease::{Kind, Lease, ONE_UNIT, Units};
use crate::name::Name;
use crate::record;

/// A wish to reserve; made by [`Reservations::request`](super::Reservations::request).
///
/// Everything in one request is reserved, or nothing is. What is wrong with it is reported by
/// [`reserve`](Self::reserve).
#[derive(Clone)]
#[must_use = "nothing is reserved until reserve is called"]
pub struct Reserve {
    shared: Arc<Shared>,
    wishes: Result<Vec<(Name, Amount)>, Arc<Error>>,
    ttl: Option<Duration>,
    caller: Option<String>,
    notes: Notes,
}

impl Reserve {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            wishes: Ok(Vec::new()),
            ttl: None,
            caller: None,
            notes: Notes::default(),
        }
    }

    /// Asks for a value that only one can have, unless there is a [stock](super::Reservations::set_stock) of it: then it
    /// is one unit of that.
    pub fn value(self, kind: &str, value: &str) -> Self {
        let amount = Amount {
            units: ONE_UNIT,
            limit: ONE_UNIT.get(),
        };
        self.wish(kind, value, Ok(amount))
    }

    /// Asks for units of something that there is a [stock](super::Reservations::set_stock) of.
    pub fn units(self, kind: &str, value: &str, units: u32) -> Self {
        let amount = Units::new(units)
            .map(|units| Amount { units, limit: 0 })
            .ok_or_else(|| Code::InvalidQuantity.error("a quantity must be at least one"));
        self.wish(kind, value, amount)
    }

    fn wish(mut self, kind: &str, value: &str, amount: Result<Amount>) -> Self {
        if let Ok(wishes) = &mut self.wishes {
            let name = self
                .shared
                .key(kind, value)
                .and_then(|key| self.shared.name(&key));
            match name.and_then(|name| Ok((name, amount?))) {
                // One more than allowed is enough to be refused, however many there are.
                Ok(wish) if wishes.len() <= MAX_NAMES => wishes.push(wish),
                Ok(_) => {}
                Err(error) => self.wishes = Err(Arc::new(error)),
            }
        }
        self
    }

    /// Sets how long the reservation lasts: one second to 24 hours.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Makes the request idempotent for this caller: asked again, the same caller gets the same reservation back,
    /// with the end it has, and anybody else a conflict.
    ///
    /// Whoever knows this text can act on the reservation, so it should be one that others cannot guess: an
    /// idempotency key, or a user together with a request id.
    pub fn caller(mut self, caller: impl Into<String>) -> Self {
        self.caller = Some(caller.into());
        self
    }

    /// Keeps what ties the reservation to a request, a trace or a saga.
    pub fn correlation(mut self, id: impl Into<String>) -> Self {
        self.notes.correlation = Some(id.into());
        self
    }

    /// Keeps free text with the reservation, for others to see.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.notes.text = Some(text.into());
        self
    }

    /// Reserves everything, or nothing.
    ///
    /// # Errors
    /// With a [code](Error::code) for what is wrong with the request; otherwise if the store fails. That something is
    /// taken is no error.
    ///
    /// # Cancel safety
    /// Dropped midway, or failed with an unknown effect, whatever the store may have reserved is given back in the
    /// background. A request with a [caller](Self::caller) is not: asking again finds out.
    pub async fn reserve(self) -> Result<ReserveOutcome> {
        let shared = &self.shared;
        let request = self
            .acquire()
            .map_err(|error| error.during("reserve", shared.scheme()))?;
        let fresh = self.caller.is_none();
        let mut open = Open {
            shared,
            request: &request,
            armed: fresh,
        };
        let t0 = shared.clock.now();
        let answer = shared.backend.acquire(&request).await;
        open.settle(&answer);
        let context = |error: Error| {
            let error = error.during("reserve", shared.scheme());
            error.with_name(request.names.first())
        };
        let outcome = match answer.map_err(context)? {
            Acquired::Granted(leases) if leases.len() == request.names.as_slice().len() => {
                let pass = pass(&request, &leases).ok_or_else(|| context(senseless()))?;
                open.armed = false;
                let ttl = leases
                    .iter()
                    .map(|lease| lease.ttl)
                    .min()
                    .unwrap_or_default();
                ReserveOutcome::Reserved(Reservation::new(shared.clone(), pass, t0.after(ttl)))
            }
            Acquired::Held(blocked) if !blocked.is_empty() => {
                let conflict = self.conflict(&request, &blocked).await;
                ReserveOutcome::Conflict(conflict.map_err(context)?)
            }
            _ => return Err(context(senseless())),
        };
        shared.emit(|| match &outcome {
            ReserveOutcome::Reserved(reservation) => ReservationEvent::Reserved { reservation },
            ReserveOutcome::Conflict(conflict) => ReservationEvent::Refused { conflict },
        });
        Ok(outcome)
    }

    fn acquire(&self) -> Result<Acquire> {
        let shared = &self.shared;
        shared.refuse_if_closed()?;
        let ttl = self.ttl.map_or(Ok(shared.ttl), checked_ttl)?;
        let wishes = self.wishes.as_ref().map_err(|error| error.copy())?;
        if wishes.is_empty() {
            return Err(Code::EmptyReservation.error("nothing was asked for"));
        }
        if wishes.iter().any(|(_, amount)| amount.limit == 0) {
            shared.check_quantities()?;
        }
        shared.backend.describe().check_ttl(ttl)?;
        refuse_repeated(wishes)?;
        let names = Names::new(wishes.iter().map(|(name, _)| name.clone()))?;
        shared.check_together(&names)?;
        let holder = self.holder(&names)?;
        let own = if self.caller.is_some() {
            Own::Keep
        } else {
            Own::Refresh
        };
        Ok(Acquire::new(names, holder, shared.owner.clone(), ttl)
            .kind(Kind::Reservation)
            .own(own)
            .metadata(self.notes.write()?)
            .each(|name| amount_of(wishes, name)))
    }

    /// A fresh secret, or the one this caller has for these names.
    fn holder(&self, names: &Names) -> Result<Holder> {
        let Some(caller) = &self.caller else {
            return Ok(Holder::random());
        };
        if is_blank(caller) {
            return Err(Error::invalid(
                "the caller of an idempotent request is blank",
            ));
        }
        let names = names.as_slice().iter().map(Name::encoded);
        let parts = ["reservation", caller.as_str()].into_iter().chain(names);
        Ok(Holder::derived(parts))
    }

    async fn conflict(&self, request: &Acquire, blocked: &[Blocked]) -> Result<Conflict> {
        let wishes = self.wishes.as_deref().unwrap_or_default();
        let taken = |blocked: &Blocked| Taken::of(blocked, amount_of(wishes, &blocked.name));
        let taken: Option<Vec<_>> = blocked.iter().map(taken).collect();
        // Only a caller that is known by its secret can have been here before.
        let all_confirmed = blocked.len() == request.names.as_slice().len()
            && blocked.iter().all(|blocked| blocked.by == BlockedBy::Claim);
        let mine = if self.caller.is_some() && all_confirmed {
            self.own_claim(request).await?
        } else {
            None
        };
        Ok(Conflict {
            taken: taken.ok_or_else(senseless)?,
            mine: mine.map(Box::new),
        })
    }

    /// What this holder has confirmed of all the names, if it has.
    async fn own_claim(&self, request: &Acquire) -> Result<Option<Claim>> {
        let (mut items, mut entity) = (Vec::new(), None);
        for name in request.names.as_slice() {
            let record = self.shared.backend.get(name).await?.what;
            let own = |claim: &&record::Claim| claim.holder == request.holder.digest();
            let claim = record
                .as_ref()
                .and_then(|record| record.claims.iter().find(own));
            let (Some(claim), Some(key)) = (claim, Shared::key_of(name)) else {
                return Ok(None);
            };
            items.push(Item {
                name: name.clone(),
                key,
                token: claim.token,
                units: claim.units,
            });
            entity.get_or_insert_with(|| claim.entity.clone());
        }
        let pass = Pass::new(items, &request.holder, Timestamp::NEVER);
        let entity = entity.unwrap_or_default();
        Ok(Some(Claim::new(self.shared.clone(), pass, &entity)))
    }
}

/// Without the caller, which is as good as a secret.
impl fmt::Debug for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserve")
            .field("wishes", &self.wishes)
            .field("ttl", &self.ttl)
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}

fn amount_of(wishes: &[(Name, Amount)], name: &Name) -> Amount {
    let wish = wishes.iter().find(|(wished, _)| wished == name);
    wish.map_or(
        Amount {
            units: ONE_UNIT,
            limit: 0,
        },
        |(_, amount)| *amount,
    )
}

fn refuse_repeated(wishes: &[(Name, Amount)]) -> Result<()> {
    let mut names: Vec<_> = wishes.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Code::DuplicateProductIds
            .error("the same thing is asked for twice in one request")
            .with_name(pair[0])),
        None => Ok(()),
    }
}

/// What the leases are good for; `None` if they are not those asked for.
fn pass(request: &Acquire, leases: &[Lease]) -> Option<Pass> {
    let item = |(at, lease): (usize, &Lease)| {
        Some(Item {
            key: Shared::key_of(&lease.name)?,
            name: lease.name.clone(),
            token: lease.token,
            units: request.amount(at).units,
        })
    };
    let ends = leases.iter().map(|lease| lease.expires_at).min()?;
    let items: Option<Vec<_>> = leases.iter().enumerate().map(item).collect();
    Some(Pass::new(items?, &request.holder, ends))
}

fn senseless() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the store gave an answer that makes no sense",
    )
    .with_effect(Effect::Unknown)
}

/// A request that may have taken effect. Dropped while armed, it gives everything back.
struct Open<'a> {
    shared: &'a Shared,
    request: &'a Acquire,
    armed: bool,
}

impl Open<'_> {
    fn settle(&mut self, answer: &Result<Acquired>) {
        let nothing = match answer {
            Ok(Acquired::Held(_)) => true,
            Ok(_) => false,
            Err(error) => error.effect() == Effect::None,
        };
        self.armed &= !nothing;
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.armed {
            let Acquire {
                names, holder, ttl, ..
            } = self.request;
            self.shared.give_back(names.clone(), holder.clone(), *ttl);
        }
    }
}
