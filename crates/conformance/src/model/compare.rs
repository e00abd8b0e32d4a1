//! Whether two answers say the same, tokens and versions aside.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use leasehold_core::backend::outcome::Queued;
use leasehold_core::backend::{
    Acquired, Blocked, CapacitySet, Confirmed, Event, Holding, NotHeld, Released, Renewed, What,
};
use leasehold_core::transition::Outcome;
use leasehold_core::{End, Error, Grant, Lease, Name, Record, Ticket, Timestamp, Token};

pub(super) type Verdict = Result<(), String>;

/// What corresponds to what: tokens of the store and of the rule, and the difference of their clocks.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    tokens: BTreeMap<(Name, Token), Token>,
    /// Whether ends and remaining times are comparable at all.
    exact: bool,
}

fn same<T: PartialEq + Debug>(what: &str, theirs: &T, ours: &T) -> Verdict {
    if theirs == ours {
        Ok(())
    } else {
        Err(format!(
            "{what}: the store says {theirs:?}, the rule says {ours:?}"
        ))
    }
}

fn differ(theirs: &impl Debug, ours: &impl Debug) -> Verdict {
    Err(format!("the store says {theirs:?}, the rule says {ours:?}"))
}

impl Pairs {
    pub(super) fn new(exact: bool) -> Self {
        Self {
            exact,
            ..Self::default()
        }
    }

    /// Notes that a grant of the store is this grant of the rule, for good.
    fn token(&mut self, name: &Name, theirs: Token, ours: Token) -> Verdict {
        let key = (name.clone(), theirs);
        if let Some(known) = self.tokens.get(&key) {
            return same("the grant", known, &ours);
        }
        if self.tokens.values().any(|known| *known == ours) {
            return Err(format!(
                "{theirs:?} is a second token for one grant, {ours:?}"
            ));
        }
        self.tokens.insert(key, ours);
        Ok(())
    }

    fn moment(&self, what: &str, theirs: Timestamp, ours: Timestamp) -> Verdict {
        if self.exact {
            same(what, &theirs, &ours)
        } else {
            Ok(())
        }
    }

    fn length(&self, what: &str, theirs: Duration, ours: Duration) -> Verdict {
        if self.exact {
            same(what, &theirs, &ours)
        } else {
            Ok(())
        }
    }

    pub(super) fn lease(&mut self, theirs: &Lease, ours: &Lease) -> Verdict {
        same("the name", &theirs.name, &ours.name)?;
        self.token(&ours.name, theirs.token, ours.token)?;
        self.moment("the end", theirs.expires_at, ours.expires_at)?;
        self.length("the time left", theirs.ttl, ours.ttl)
    }

    fn holding(&mut self, name: &Name, theirs: &Holding, ours: &Holding) -> Verdict {
        self.token(name, theirs.token, ours.token)?;
        self.moment("the end", theirs.expires_at, ours.expires_at)?;
        self.moment("the beginning", theirs.acquired_at, ours.acquired_at)?;
        let facts = |h: &Holding| (h.owner.clone(), h.kind, h.mode, h.units, h.metadata.clone());
        same("the holding", &facts(theirs), &facts(ours))
    }

    fn maybe_holding(
        &mut self,
        name: &Name,
        theirs: Option<&Holding>,
        ours: Option<&Holding>,
    ) -> Verdict {
        match (theirs, ours) {
            // Of several holdings the one that ends last is told, which two clocks may see differently.
            (Some(_), Some(_)) if !self.exact => Ok(()),
            (Some(theirs), Some(ours)) => self.holding(name, theirs, ours),
            (None, None) => Ok(()),
            (theirs, ours) => differ(&theirs, &ours),
        }
    }

    fn blocked(&mut self, theirs: &Blocked, ours: &Blocked) -> Verdict {
        let facts = |b: &Blocked| (b.name.clone(), b.by, b.waiting, b.free_units);
        same("what is in the way", &facts(theirs), &facts(ours))?;
        if self.exact {
            same("the next change", &theirs.change_in, &ours.change_in)?;
        }
        self.maybe_holding(&ours.name, theirs.holding.as_ref(), ours.holding.as_ref())
    }

    fn queued(&mut self, theirs: &Queued, ours: &Queued) -> Verdict {
        same("the place", &theirs.position, &ours.position)?;
        self.length("the ticket", theirs.ttl, ours.ttl)?;
        self.blocked(&theirs.blocked, &ours.blocked)
    }

    fn end(&mut self, name: &Name, theirs: &End, ours: &End) -> Verdict {
        same(
            "how it ended",
            &(&theirs.how, theirs.holder),
            &(&ours.how, ours.holder),
        )?;
        self.token(name, theirs.token, ours.token)?;
        self.moment("when it ended", theirs.at, ours.at)
    }

    /// A store may have forgotten how something ended, but it does not remember what was not.
    fn not_held(&mut self, name: &Name, theirs: &NotHeld, ours: &NotHeld) -> Verdict {
        self.maybe_holding(name, theirs.current.as_ref(), ours.current.as_ref())?;
        match (&theirs.ended, &ours.ended) {
            (Some(theirs), Some(ours)) => self.end(name, theirs, ours),
            (None, None) => Ok(()),
            (None, Some(_)) if !self.exact => Ok(()),
            (theirs, ours) => differ(theirs, ours),
        }
    }

    /// Compares the answers to a request over these names.
    pub(super) fn answer(
        &mut self,
        names: &[&Name],
        theirs: &leasehold_core::Result<Outcome>,
        ours: &leasehold_core::Result<Outcome>,
    ) -> Verdict {
        match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => self.outcome(names, theirs, ours),
            (Err(theirs), Err(ours)) => same("the error", &theirs.kind(), &ours.kind()),
            (theirs, ours) => differ(theirs, ours),
        }
    }

    fn outcome(&mut self, names: &[&Name], theirs: &Outcome, ours: &Outcome) -> Verdict {
        match (theirs, ours) {
            (Outcome::Acquired(theirs), Outcome::Acquired(ours)) => self.acquired(theirs, ours),
            (Outcome::Renewed(theirs), Outcome::Renewed(ours)) => {
                self.renewed(names[0], theirs, ours)
            }
            (Outcome::Released(theirs), Outcome::Released(ours)) => {
                same("how many answers", &theirs.len(), &ours.len())?;
                let mut both = names.iter().zip(theirs.iter().zip(ours));
                both.try_for_each(|(name, (theirs, ours))| self.released(name, theirs, ours))
            }
            (Outcome::Confirmed(theirs), Outcome::Confirmed(ours)) => self.confirmed(theirs, ours),
            (Outcome::Withdrawn(theirs), Outcome::Withdrawn(ours)) => {
                same("withdrawn", theirs, ours)
            }
            (Outcome::CapacitySet(theirs), Outcome::CapacitySet(ours)) => {
                let is_set = |answer: &CapacitySet| matches!(answer, CapacitySet::Set(_));
                same(
                    "whether the capacity is set",
                    &is_set(theirs),
                    &is_set(ours),
                )
            }
            (theirs, ours) => differ(theirs, ours),
        }
    }

    fn acquired(&mut self, theirs: &Acquired, ours: &Acquired) -> Verdict {
        match (theirs, ours) {
            (Acquired::Granted(theirs), Acquired::Granted(ours)) if theirs.len() == ours.len() => {
                let mut both = theirs.iter().zip(ours);
                both.try_for_each(|(theirs, ours)| self.lease(theirs, ours))
            }
            (Acquired::Held(theirs), Acquired::Held(ours)) if theirs.len() == ours.len() => {
                let mut both = theirs.iter().zip(ours);
                both.try_for_each(|(theirs, ours)| self.blocked(theirs, ours))
            }
            (Acquired::Queued(theirs), Acquired::Queued(ours)) => self.queued(theirs, ours),
            (theirs, ours) => differ(theirs, ours),
        }
    }

    fn renewed(&mut self, name: &Name, theirs: &Renewed, ours: &Renewed) -> Verdict {
        match (theirs, ours) {
            (Renewed::Renewed(theirs), Renewed::Renewed(ours))
            | (Renewed::Changed(theirs), Renewed::Changed(ours)) => self.lease(theirs, ours),
            (Renewed::Queued(theirs), Renewed::Queued(ours)) => self.queued(theirs, ours),
            (Renewed::NotHeld(theirs), Renewed::NotHeld(ours)) => self.not_held(name, theirs, ours),
            (theirs, ours) => differ(theirs, ours),
        }
    }

    fn released(&mut self, name: &Name, theirs: &Released, ours: &Released) -> Verdict {
        match (theirs, ours) {
            (Released::Released, Released::Released) => Ok(()),
            (Released::Forced(theirs), Released::Forced(ours)) if theirs.len() == ours.len() => {
                let mut both = theirs.iter().zip(ours);
                both.try_for_each(|(theirs, ours)| self.holding(name, theirs, ours))
            }
            (Released::NotHeld(theirs), Released::NotHeld(ours)) => {
                self.not_held(name, theirs, ours)
            }
            (theirs, ours) => differ(theirs, ours),
        }
    }

    fn confirmed(&mut self, theirs: &Confirmed, ours: &Confirmed) -> Verdict {
        match (theirs, ours) {
            (Confirmed::Confirmed(theirs), Confirmed::Confirmed(ours)) => {
                same("how many versions", &theirs.len(), &ours.len())
            }
            (Confirmed::NotHeld(name, theirs), Confirmed::NotHeld(other, ours)) => {
                same("the name", name, other)?;
                self.not_held(name, theirs, ours)
            }
            (Confirmed::VersionChanged(name, _), Confirmed::VersionChanged(other, _)) => {
                same("the name", name, other)
            }
            (theirs, ours) => differ(theirs, ours),
        }
    }

    /// Grants by hand-over, in the order in which they were told for each name.
    pub(super) fn events(&mut self, theirs: &[Event], ours: &[Event]) -> Verdict {
        let granted = |events: &[Event]| -> Vec<_> {
            let grant = |event: &Event| match &event.what {
                What::Granted { holder, lease } => Some((*holder, lease.clone())),
                What::Changed => None,
            };
            let mut grants: Vec<_> = events.iter().filter_map(grant).collect();
            grants.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
            grants
        };
        let (theirs, ours) = (granted(theirs), granted(ours));
        same("how many were told of a grant", &theirs.len(), &ours.len())?;
        let mut both = theirs.iter().zip(&ours);
        both.try_for_each(|((to, theirs), (holder, ours))| {
            same("who was told", to, holder)?;
            self.lease(theirs, ours)
        })
    }

    /// A record as an onlooker sees it. One that is only history may be gone.
    pub(super) fn record(&mut self, theirs: Option<&Record>, ours: &Record) -> Verdict {
        if ours.is_idle() {
            return match theirs {
                Some(theirs) if !theirs.is_idle() => differ(theirs, ours),
                _ => Ok(()),
            };
        }
        let Some(theirs) = theirs else {
            return differ(&theirs, ours);
        };
        let facts = |r: &Record| (r.name.clone(), r.capacity, r.grants.len(), r.tickets.len());
        same("the record", &facts(theirs), &facts(ours))?;
        if !ours.grants.is_empty() || !ours.claims.is_empty() {
            same("the kind", &theirs.kind, &ours.kind)?;
        }
        if self.exact {
            same(
                "the lock delay",
                &theirs.quarantined_until,
                &ours.quarantined_until,
            )?;
        }
        let ours_name = ours.name.clone();
        for (theirs, ours) in theirs.grants.iter().zip(&ours.grants) {
            self.grant(&ours_name, theirs, ours)?;
        }
        for (theirs, ours) in theirs.tickets.iter().zip(ours.tickets.iter()) {
            self.ticket(theirs, ours)?;
        }
        self.claims(theirs, ours)
    }

    fn grant(&mut self, name: &Name, theirs: &Grant, ours: &Grant) -> Verdict {
        let facts = |g: &Grant| {
            let terms = (g.mode, g.units, g.lock_delay_ms);
            (g.holder, terms, g.owner.clone(), g.metadata.clone())
        };
        self.token(name, theirs.token, ours.token)?;
        self.moment("the end", theirs.expires_at, ours.expires_at)?;
        same("the grant", &facts(theirs), &facts(ours))
    }

    fn ticket(&self, theirs: &Ticket, ours: &Ticket) -> Verdict {
        let facts = |t: &Ticket| {
            let terms = (t.mode, t.units, t.limit, t.kind, t.lock_delay_ms);
            (
                t.holder,
                t.inbox,
                terms,
                t.owner.clone(),
                t.metadata.clone(),
            )
        };
        self.moment("the end", theirs.expires_at, ours.expires_at)?;
        self.moment("the beginning", theirs.since, ours.since)?;
        same("the ticket", &facts(theirs), &facts(ours))
    }

    fn claims(&mut self, theirs: &Record, ours: &Record) -> Verdict {
        let name = &ours.name;
        same("how many claims", &theirs.claims.len(), &ours.claims.len())?;
        for (theirs, ours) in theirs.claims.iter().zip(ours.claims.iter()) {
            self.token(name, theirs.token, ours.token)?;
            same(
                "the claim",
                &(theirs.holder, &theirs.entity, theirs.units, &theirs.owner),
                &(ours.holder, &ours.entity, ours.units, &ours.owner),
            )?;
        }
        Ok(())
    }

    /// Tokens that are paired must be ordered alike for each name.
    pub(super) fn order(&self) -> Verdict {
        let pairs: Vec<_> = self.tokens.iter().collect();
        let went_back = |pair: &[(&(Name, Token), &Token)]| {
            let [((name, _), earlier), ((next, _), later)] = pair else {
                return false;
            };
            name == next && later < earlier
        };
        if pairs.windows(2).any(went_back) {
            return Err(format!("tokens are in another order: {:?}", self.tokens));
        }
        Ok(())
    }
}

/// A failure of the store that the rule does not know.
pub(super) fn failed(error: &Error) -> String {
    format!("the store failed: {error}")
}
