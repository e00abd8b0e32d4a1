//! Plays a sequence against a backend and against the rule, side by side.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold_core::backend::{
    Acquire, Acquired, Confirm, Heir, Names, Release, Renew, RenewItem, Renewed, SetCapacity,
    Sweep, Withdraw,
};
use leasehold_core::transition::{Outcome, Request};
use leasehold_core::{
    Backend, Capabilities, Clock, Kind, Lease, ManualClock, Name, Owner, Result as CoreResult,
    Timestamp, Token, Ttl, Units,
};

use super::compare::{Pairs, Verdict, failed};
use super::oracle::Oracle;
use super::step::{By, Expect, HOLDERS, Length, Play, Side, Step, Terms, Until, Wish};
use crate::mailbox::Mailbox;
use crate::scene::{Party, text, units};

/// How time passes in a play.
#[derive(Debug, Clone)]
pub(crate) enum Pace {
    /// By this clock, when told.
    Virtual(ManualClock),
    /// It does not: leases outlast the play, and steps that pass time are left out.
    Still,
}

/// A grant as both sides know it.
struct Known {
    holder: usize,
    theirs: Lease,
    ours: Lease,
}

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

/// Which of the two sides a request is written for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Theirs,
    Ours,
}

pub(crate) struct Player<'a> {
    backend: Arc<dyn Backend>,
    can: Capabilities,
    oracle: Oracle,
    names: Vec<Name>,
    pace: Pace,
    clock: &'a dyn Clock,
    mail: Mailbox,
    pairs: Pairs,
    known: Vec<Known>,
    last: Option<(Sent, Sent, usize)>,
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

impl<'a> Player<'a> {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        names: Vec<Name>,
        pace: Pace,
        clock: &'a dyn Clock,
    ) -> Self {
        Self {
            can: backend.describe().capabilities.clone(),
            backend,
            oracle: Oracle::new(&names),
            names,
            pairs: Pairs::new(matches!(pace, Pace::Virtual(_))),
            pace,
            clock,
            mail: Mailbox::new(),
            known: Vec::new(),
            last: None,
        }
    }

    /// Plays all steps; the first difference ends it.
    pub(crate) async fn play(&mut self, play: &Play) -> Verdict {
        self.names.truncate(play.names);
        let _watch = if self.can.queue {
            Some(self.mail.arm_on(&*self.backend, None).await)
        } else {
            None
        };
        for (number, step) in play.steps.iter().enumerate() {
            self.step(step)
                .await
                .map_err(|why| format!("step {number} ({step:?}): {why}"))?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Verdict {
        match step {
            Step::Pass(until) => self.pass(*until).await,
            Step::Sweep => self.sweep().await,
            Step::Again => match self.last.clone() {
                Some((theirs, ours, holder)) => self.send(theirs, ours, holder).await,
                None => Ok(()),
            },
            step => match self.requests(step).await? {
                Some((theirs, ours, holder)) => {
                    self.last = Some((theirs.clone(), ours.clone(), holder));
                    self.send(theirs, ours, holder).await
                }
                None => Ok(()),
            },
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.wall()
    }

    async fn pass(&mut self, until: Until) -> Verdict {
        let Pace::Virtual(clock) = &self.pace else {
            return Ok(());
        };
        let now = self.now();
        let ends = self.oracle.records().iter().flat_map(|record| {
            let grants = record.grants.iter().map(|grant| grant.expires_at);
            let tickets = record.tickets.iter().map(|ticket| ticket.expires_at);
            grants.chain(tickets).chain(record.quarantined_until)
        });
        let next = ends.filter(|end| *end > now).min().unwrap_or(now);
        let tick = Duration::from_millis(1);
        clock.advance(match until {
            Until::Millis(millis) => Duration::from_millis(millis),
            Until::NextEnd(Side::Before) => next.since(now).saturating_sub(tick),
            Until::NextEnd(Side::At) => next.since(now),
            Until::NextEnd(Side::After) => next.since(now) + tick,
        });
        if self.names.len() > 1 {
            self.sweep().await?;
        }
        Ok(())
    }

    async fn sweep(&mut self) -> Verdict {
        if matches!(self.pace, Pace::Still) {
            return Ok(());
        }
        let now = self.now();
        let swept = self.backend.sweep(&Sweep { limit: 100 }).await;
        let mut swept = swept.map_err(|error| failed(&error))?;
        let (mut expired, tickets) = self.oracle.sweep(now);
        swept.expired.sort_unstable();
        expired.sort_unstable();
        if (&swept.expired, swept.tickets) != (&expired, tickets) {
            return Err(format!("swept {swept:?}, not {expired:?} and {tickets} tickets"));
        }
        self.compare_events()?;
        self.compare_records().await
    }

    async fn send(&mut self, theirs: Sent, ours: Sent, holder: usize) -> Verdict {
        let now = self.now();
        let answer = self.ask_backend(&theirs).await;
        let request = ours.request();
        let rule = self.oracle.ask(request, now);
        self.pairs.answer(&request.names(), &answer, &rule)?;
        self.learn(&answer, &rule, holder);
        self.compare_events()?;
        self.pairs.order()?;
        self.compare_records().await
    }

    async fn ask_backend(&self, sent: &Sent) -> CoreResult<Outcome> {
        let backend = &self.backend;
        match sent {
            Sent::Acquire(request) => backend.acquire(request).await.map(Outcome::Acquired),
            Sent::Renew(item) => {
                let items = vec![item.clone()];
                let mut answers = backend.renew(&Renew { items }).await?;
                answers.remove(0).map(Outcome::Renewed)
            }
            Sent::Release(request) => backend.release(request).await.map(Outcome::Released),
            Sent::Confirm(request) => backend.confirm(request).await.map(Outcome::Confirmed),
            Sent::Withdraw(request) => backend.withdraw(request).await.map(Outcome::Withdrawn),
            Sent::SetCapacity(request) => {
                backend.set_capacity(request).await.map(Outcome::CapacitySet)
            }
        }
    }

    /// Remembers leases, so that later steps can pick them.
    fn learn(&mut self, theirs: &CoreResult<Outcome>, ours: &CoreResult<Outcome>, holder: usize) {
        let leases = |answer: &CoreResult<Outcome>| match answer {
            Ok(Outcome::Acquired(Acquired::Granted(leases))) => leases.to_vec(),
            Ok(Outcome::Renewed(Renewed::Renewed(lease))) => vec![lease.clone()],
            _ => Vec::new(),
        };
        for (theirs, ours) in leases(theirs).into_iter().zip(leases(ours)) {
            self.known.push(Known { holder, theirs, ours });
        }
    }

    fn compare_events(&mut self) -> Verdict {
        let ours = std::mem::take(&mut self.oracle.events);
        let theirs = self.mail.events();
        self.mail.clear();
        // On a real store events arrive when they do; the cases about queues wait for them.
        if matches!(self.pace, Pace::Still) {
            return Ok(());
        }
        self.pairs.events(&theirs, &ours)
    }

    async fn compare_records(&mut self) -> Verdict {
        let now = self.now();
        for name in &self.names {
            let theirs = self.backend.get(name).await.map_err(|error| failed(&error))?;
            let ours = self.oracle.record(name).seen_at(now);
            self.pairs.record(theirs.as_ref(), &ours)?;
        }
        Ok(())
    }
}

impl Player<'_> {
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
        count.checked_sub(1 + back % count.max(1)).map(|at| &self.known[at])
    }

    /// Who sends a request about a grant, and with which token.
    fn speaker(known: &Known, by: By, side: For) -> (Party, Token) {
        let lease = match side {
            For::Theirs => &known.theirs,
            For::Ours => &known.ours,
        };
        match by {
            By::Holder => (parties()[known.holder].clone(), lease.token),
            By::Stranger => (parties()[HOLDERS].clone(), lease.token),
            By::WrongToken => {
                let wrong = Token::new(lease.token.get() ^ (1 << 52));
                (parties()[known.holder].clone(), wrong)
            }
        }
    }

    /// The version a conditional request names, on one side.
    async fn version(&self, name: &Name, expect: Expect, side: For) -> Result<Option<u64>, String> {
        if expect == Expect::Nothing {
            return Ok(None);
        }
        let current = match side {
            For::Theirs => {
                let record = self.backend.get(name).await.map_err(|error| failed(&error))?;
                record.map_or(0, |record| record.version)
            }
            For::Ours => self.oracle.record(name).version,
        };
        let wrong = u64::from(expect == Expect::Wrong) * 7;
        Ok(Some(current + wrong))
    }

    /// The two forms of a request and the number of whoever will hold what it grants; `None` to leave it out.
    async fn requests(&self, step: &Step) -> Result<Option<(Sent, Sent, usize)>, String> {
        let Some((theirs, holder)) = self.request(step, For::Theirs).await? else {
            return Ok(None);
        };
        let ours = self.request(step, For::Ours).await?;
        Ok(ours.map(|(ours, _)| (theirs, ours, holder)))
    }

    async fn request(&self, step: &Step, side: For) -> Result<Option<(Sent, usize)>, String> {
        Ok(match step {
            Step::Acquire(wish) => self.acquire(*wish).map(|request| (request, wish.holder)),
            Step::AcquireAll { holder, ttl } => self.acquire_all(*holder, *ttl),
            Step::Confirm { grant, by, entity, expect } if self.can.reservations => {
                self.confirm(*grant, *by, *entity, *expect, side).await?
            }
            Step::SetCapacity { name, units, expect } if self.can.quantities => {
                let name = self.name(*name);
                let expect_version = self.version(&name, *expect, side).await?;
                let units = Units::new(*units);
                Some((Sent::SetCapacity(SetCapacity { name, units, expect_version }), 0))
            }
            step => self.about_a_grant(step, side).or_else(|| self.about_a_name(step, side)),
        })
    }

    fn acquire(&self, wish: Wish) -> Option<Sent> {
        let party = &parties()[wish.holder];
        let names = Names::one(self.name(wish.name));
        let request = Acquire::new(
            names,
            party.holder.clone(),
            party.owner.clone(),
            self.ttl(wish.ttl),
        );
        let request = request.own(wish.own).metadata(Some(text("model")));
        let (quantities, reservations) = (self.can.quantities, self.can.reservations);
        let mut request = match wish.terms {
            Terms::Lock => request,
            Terms::Reservation if reservations => request.kind(Kind::Reservation),
            Terms::Shared if quantities => request.shared(),
            Terms::Units(count) if quantities => request.units(units(count), units(3)),
            Terms::Stock(count) if quantities && reservations => request
                .kind(Kind::Reservation)
                .units(units(count), units(3)),
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

    fn acquire_all(&self, holder: usize, ttl: Length) -> Option<(Sent, usize)> {
        if self.names.len() > 1 && self.can.atomic_names != leasehold_core::AtomicNames::All {
            return None;
        }
        let party = &parties()[holder];
        let names = Names::new(self.names.iter().cloned()).ok()?;
        let request = Acquire::new(
            names,
            party.holder.clone(),
            party.owner.clone(),
            self.ttl(ttl),
        );
        Some((Sent::Acquire(request), holder))
    }

    async fn confirm(
        &self,
        grant: usize,
        by: By,
        entity: usize,
        expect: Expect,
        side: For,
    ) -> Result<Option<(Sent, usize)>, String> {
        let Some(known) = self.pick(grant) else {
            return Ok(None);
        };
        let (party, token) = Self::speaker(known, by, side);
        let name = known.ours.name.clone();
        let version = self.version(&name, expect, side).await?;
        let entity = format!("entity-{entity}");
        let confirm = Confirm::new(name, token, party.holder, &entity);
        let mut confirm = confirm.map_err(|error| error.to_string())?;
        confirm.expect_version = version;
        Ok(Some((Sent::Confirm(confirm), known.holder)))
    }

    fn about_a_grant(&self, step: &Step, side: For) -> Option<(Sent, usize)> {
        let (Step::Renew { grant, .. }
        | Step::Add { grant, .. }
        | Step::Adopt { grant, .. }
        | Step::Release { grant, .. }
        | Step::FreeClaim { grant, .. }
        | Step::HandOver { grant, .. }) = step
        else {
            return None;
        };
        let known = self.pick(*grant)?;
        let name = known.ours.name.clone();
        let speaker = |by| Self::speaker(known, by, side);
        let sent = match step {
            Step::Renew { by, ttl, .. } => {
                let (party, token) = speaker(*by);
                Sent::Renew(RenewItem::lease(name, party.holder, token, self.ttl(*ttl)))
            }
            Step::Add { ttl, expect, .. } => {
                let (party, token) = speaker(By::Holder);
                let ends = match side {
                    For::Theirs => known.theirs.expires_at,
                    For::Ours => known.ours.expires_at,
                };
                let wrong = u64::from(*expect == Expect::Wrong) * 3;
                let ends = ends.after(Duration::from_millis(wrong));
                let item = RenewItem::lease(name, party.holder, token, self.ttl(*ttl));
                Sent::Renew(item.add(self.ttl(*ttl), ends))
            }
            Step::Adopt { heir, ttl, .. } if self.can.adopt => {
                let (party, token) = speaker(By::Holder);
                let heir_party = &parties()[*heir];
                let item = RenewItem::lease(name, party.holder, token, self.ttl(*ttl))
                    .heir(heir_party.holder.clone(), heir_party.owner.clone());
                return Some((Sent::Renew(item), *heir));
            }
            Step::Release { by, .. } => {
                let (party, token) = speaker(*by);
                Sent::Release(Release::grant(name, party.holder, token))
            }
            Step::FreeClaim { by, .. } if self.can.reservations => {
                let (party, token) = speaker(*by);
                let claims = [(name, token)].into_iter().collect();
                Sent::Release(Release::Claims { holder: party.holder, claims })
            }
            Step::HandOver { heir, .. } if self.can.reservations => {
                let (party, token) = speaker(By::Holder);
                let to = parties()[*heir].clone();
                let heir = Heir { holder: to.holder, owner: to.owner };
                let confirm = Confirm::new(name, token, party.holder, "entity-0").ok()?;
                Sent::Confirm(confirm.hand_over(heir))
            }
            _ => return None,
        };
        Some((sent, known.holder))
    }

    fn about_a_name(&self, step: &Step, side: For) -> Option<(Sent, usize)> {
        match step {
            Step::RenewTicket { name, holder, ttl } if self.can.queue => {
                let secret = parties()[*holder].holder.clone();
                let item = RenewItem::ticket(self.name(*name), secret, self.ttl(*ttl));
                Some((Sent::Renew(item), *holder))
            }
            Step::Withdraw { name, holder } => {
                let names = Names::one(self.name(*name));
                let secret = parties()[*holder].holder.clone();
                Some((Sent::Withdraw(Withdraw { names, holder: secret }), *holder))
            }
            Step::Force { name, grant } => {
                let (name, token) = match grant {
                    None => (self.name(*name), None),
                    Some(back) => {
                        let known = self.pick(*back)?;
                        let (_, token) = Self::speaker(known, By::Holder, side);
                        (known.ours.name.clone(), Some(token))
                    }
                };
                let by = Owner::new("operator").ok()?;
                let force = Release::force(name, token, by, "model").ok()?;
                Some((Sent::Release(force), 0))
            }
            _ => None,
        }
    }
}

impl Sent {
    fn request(&self) -> Request<'_> {
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
