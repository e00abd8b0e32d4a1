//! Writes the requests of a play, once for each side.

use std::sync::OnceLock;
use std::time::Duration;

use leasehold_core::backend::{
    Acquire, Amount, Confirm, Heir, Names, Release, RenewItem, SetCapacity, Withdraw,
};
use leasehold_core::transition::Request;
use leasehold_core::{AtomicNames, Kind, Name, Owner, Token, Ttl};

use super::super::compare::failed;
use super::super::step::{By, Expect, HOLDERS, Length, Step, Terms, Wish};
use super::{Known, Pace, Player};
use crate::scene::{Party, text, units};

/// A request as it goes to one side. Both sides get the same, but for tokens, ends and versions.
#[derive(Debug, Clone)]
pub(super) enum Sent {
    Acquire(Acquire),
    Renew(RenewItem),
    Release(Release),
    Confirm(Confirm),
    Withdraw(Withdraw),
    SetCapacity(SetCapacity),
}

/// A request, and the number of whoever will hold what it grants.
type Written = (Sent, usize);

/// Which of the two sides a request is written for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Theirs,
    Ours,
}

/// The holders of every play; making one costs a hash.
fn parties() -> &'static [Party] {
    static PARTIES: OnceLock<Vec<Party>> = OnceLock::new();
    PARTIES.get_or_init(|| {
        (0..=HOLDERS)
            .map(|number| Party::new(&format!("party-{number}")))
            .collect()
    })
}

impl Player<'_> {
    /// The two forms of a request and the number of whoever will hold what it grants; `None` to leave it out.
    pub(super) async fn requests(
        &self,
        step: &Step,
    ) -> Result<Option<(Sent, Sent, usize)>, String> {
        let Some((theirs, holder)) = self.request(step, For::Theirs).await? else {
            return Ok(None);
        };
        let ours = self.request(step, For::Ours).await?;
        Ok(ours.map(|(ours, _)| (theirs, ours, holder)))
    }

    async fn request(&self, step: &Step, side: For) -> Result<Option<Written>, String> {
        let (queue, quantities) = (self.can.queue, self.can.quantities);
        Ok(match step {
            Step::Acquire(wish) => self.acquire(*wish).map(|request| (request, wish.holder)),
            Step::AcquireAll { holder, ttl } => self.acquire_all(*holder, *ttl),
            Step::Confirm {
                grant,
                by,
                entity,
                expect,
            } if self.can.reservations => match self.pick(*grant) {
                Some(known) => Some(self.confirm(known, *by, *entity, *expect, side).await?),
                None => None,
            },
            Step::SetCapacity {
                name,
                units,
                expect,
            } if quantities => Some(self.set_capacity(*name, *units, *expect, side).await?),
            Step::RenewTicket { name, holder, ttl } if queue => {
                let secret = parties()[*holder].holder.clone();
                let item = RenewItem::ticket(self.name(*name), secret, self.ttl(*ttl));
                Some((Sent::Renew(item), *holder))
            }
            Step::Withdraw { name, holder } => {
                let names = Names::one(self.name(*name));
                let secret = parties()[*holder].holder.clone();
                let request = Withdraw {
                    names,
                    holder: secret,
                };
                Some((Sent::Withdraw(request), *holder))
            }
            Step::Force { name, grant: None } => self.force(self.name(*name), None),
            step => self.about_a_grant(step, side),
        })
    }

    fn about_a_grant(&self, step: &Step, side: For) -> Option<Written> {
        let (reservations, adopt) = (self.can.reservations, self.can.adopt);
        match step {
            Step::Renew { grant, by, ttl } => {
                let known = self.pick(*grant)?;
                Some((
                    Sent::Renew(self.renewal(known, *by, *ttl, side)),
                    known.holder,
                ))
            }
            // Whether the expected end is the right one is a matter of a millisecond, which two clocks see differently.
            Step::Add { .. } if matches!(self.pace, Pace::Still) => None,
            Step::Add { grant, ttl, expect } => {
                let known = self.pick(*grant)?;
                Some((
                    Sent::Renew(self.addition(known, *ttl, *expect, side)),
                    known.holder,
                ))
            }
            Step::Adopt { grant, heir, ttl } if adopt => {
                let item = self.renewal(self.pick(*grant)?, By::Holder, *ttl, side);
                let to = parties()[*heir].clone();
                Some((Sent::Renew(item.heir(to.holder, to.owner)), *heir))
            }
            Step::Release { grant, by } => {
                let known = self.pick(*grant)?;
                let (party, token) = speaker(known, *by, side);
                let release = Release::grant(known.ours.name.clone(), party.holder, token);
                Some((Sent::Release(release), known.holder))
            }
            Step::FreeClaim { grant, by, spend } if reservations => {
                let known = self.pick(*grant)?;
                let (party, token) = speaker(known, *by, side);
                let release = Release::Claims {
                    holder: party.holder,
                    claims: [(known.ours.name.clone(), token)].into_iter().collect(),
                    spend: *spend,
                };
                Some((Sent::Release(release), known.holder))
            }
            Step::HandOver { grant, heir } if reservations => {
                let known = self.pick(*grant)?;
                hand_over(known, *heir, side).map(|sent| (sent, known.holder))
            }
            Step::Force {
                grant: Some(grant), ..
            } => {
                let known = self.pick(*grant)?;
                let (_, token) = speaker(known, By::Holder, side);
                self.force(known.ours.name.clone(), Some(token))
            }
            _ => None,
        }
    }

    fn name(&self, number: usize) -> Name {
        self.names[number % self.names.len()].clone()
    }

    fn ttl(&self, length: Length) -> Ttl {
        let millis = match (&self.pace, length) {
            (Pace::Still, Length::Short) => 100_000,
            (Pace::Still, Length::Middle) => 200_000,
            (Pace::Still, Length::Long) => 300_000,
            (Pace::Virtual(_), Length::Short) => 20,
            (Pace::Virtual(_), Length::Middle) => 100,
            (Pace::Virtual(_), Length::Long) => 1000,
        };
        let step = self.can.ttl_step.as_millis();
        let rounded = millis.max(self.can.min_ttl.as_millis()).div_ceil(step) * step;
        Ttl::from_millis(rounded).unwrap_or(Ttl::MAX)
    }

    /// The grant seen so many grants ago.
    fn pick(&self, back: usize) -> Option<&Known> {
        let count = self.known.len();
        let at = count.checked_sub(1 + back % count.max(1))?;
        self.known.get(at)
    }

    /// The version a conditional request names, on one side.
    async fn version(&self, name: &Name, expect: Expect, side: For) -> Result<Option<u64>, String> {
        if expect == Expect::Nothing {
            return Ok(None);
        }
        let current = match side {
            For::Theirs => {
                let record = self.backend.get(name).await;
                let record = record.map_err(|error| failed(&error))?;
                record.what.map_or(0, |record| record.version)
            }
            For::Ours => self.oracle.record(name).seen_at(self.now()).version,
        };
        let wrong = u64::from(expect == Expect::Wrong) * 7;
        Ok(Some(current + wrong))
    }

    fn acquire(&self, wish: Wish) -> Option<Sent> {
        let party = parties()[wish.holder].clone();
        let names = Names::one(self.name(wish.name));
        let request = Acquire::new(names, party.holder, party.owner, self.ttl(wish.ttl));
        let request = request.own(wish.own).metadata(Some(text("model")));
        let (quantities, reservations) = (self.can.quantities, self.can.reservations);
        let mut request = match wish.terms {
            Terms::Lock => request,
            Terms::Reservation if reservations => request.kind(Kind::Reservation),
            Terms::Shared if quantities => request.shared(),
            Terms::Units(count) if quantities => request.units(units(count), units(3)),
            Terms::Reserved(count) if quantities && reservations => request
                .kind(Kind::Reservation)
                .units(units(count), units(3)),
            Terms::Stock(count) if quantities && reservations => {
                let units = units(count);
                request
                    .kind(Kind::Reservation)
                    .each(|_| Amount { units, limit: 0 })
            }
            _ => return None,
        };
        if wish.queue && self.can.queue {
            request = request.queue(self.mail.id());
        }
        if wish.delay {
            request = request.lock_delay(Duration::from_millis(50)).ok()?;
        }
        Some(Sent::Acquire(request))
    }

    fn acquire_all(&self, holder: usize, ttl: Length) -> Option<Written> {
        if self.names.len() > 1 && self.can.atomic_names != AtomicNames::All {
            return None;
        }
        let party = parties()[holder].clone();
        let names = Names::new(self.names.iter().cloned()).ok()?;
        let request = Acquire::new(names, party.holder, party.owner, self.ttl(ttl));
        Some((Sent::Acquire(request), holder))
    }

    fn renewal(&self, known: &Known, by: By, ttl: Length, side: For) -> RenewItem {
        let (party, token) = speaker(known, by, side);
        RenewItem::lease(known.ours.name.clone(), party.holder, token, self.ttl(ttl))
    }

    fn addition(&self, known: &Known, ttl: Length, expect: Expect, side: For) -> RenewItem {
        let ends = match side {
            For::Theirs => known.theirs.expires_at,
            For::Ours => known.ours.expires_at,
        };
        let wrong = Duration::from_millis(u64::from(expect == Expect::Wrong) * 3);
        self.renewal(known, By::Holder, ttl, side)
            .add(self.ttl(ttl), ends.after(wrong))
    }

    async fn confirm(
        &self,
        known: &Known,
        by: By,
        entity: usize,
        expect: Expect,
        side: For,
    ) -> Result<Written, String> {
        let (party, token) = speaker(known, by, side);
        let name = known.ours.name.clone();
        let version = self.version(&name, expect, side).await?;
        let entity = format!("entity-{entity}");
        let confirm = Confirm::new(name, token, party.holder, &entity);
        let mut confirm = confirm.map_err(|error| error.to_string())?;
        confirm.expect_version = version;
        Ok((Sent::Confirm(confirm), known.holder))
    }

    async fn set_capacity(
        &self,
        name: usize,
        units: Option<u32>,
        expect: Expect,
        side: For,
    ) -> Result<Written, String> {
        let name = self.name(name);
        let request = SetCapacity {
            expect_version: self.version(&name, expect, side).await?,
            units,
            name,
        };
        Ok((Sent::SetCapacity(request), 0))
    }

    fn force(&self, name: Name, token: Option<Token>) -> Option<Written> {
        let by = Owner::new("operator").ok()?;
        let force = Release::force(name, token, by, "model").ok()?;
        Some((Sent::Release(force), 0))
    }
}

/// Who sends a request about a grant, and with which token.
fn speaker(known: &Known, by: By, side: For) -> (Party, Token) {
    let token = match side {
        For::Theirs => known.theirs.token,
        For::Ours => known.ours.token,
    };
    match by {
        By::Holder => (parties()[known.holder].clone(), token),
        By::Stranger => (parties()[HOLDERS].clone(), token),
        By::WrongToken => {
            let wrong = Token::new(token.get() ^ (1 << 52));
            (parties()[known.holder].clone(), wrong)
        }
    }
}

fn hand_over(known: &Known, heir: usize, side: For) -> Option<Sent> {
    let (party, token) = speaker(known, By::Holder, side);
    let to = parties()[heir].clone();
    let confirm = Confirm::new(known.ours.name.clone(), token, party.holder, "entity-0").ok()?;
    Some(Sent::Confirm(confirm.hand_over(Heir {
        holder: to.holder,
        owner: to.owner,
    })))
}

impl Sent {
    pub(super) fn request(&self) -> Request<'_> {
        match self {
            Self::Acquire(request) => Request::Acquire(request),
            Self::Renew(item) => Request::Renew(item),
            Self::Release(request) => Request::Release(request),
            Self::Confirm(request) => Request::Confirm(request),
            Self::Withdraw(request) => Request::Withdraw(request),
            Self::SetCapacity(request) => Request::SetCapacity(request),
        }
    }
}
