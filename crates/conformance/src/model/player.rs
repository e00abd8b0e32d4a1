//! Plays a sequence against a backend and against the rule, side by side.

mod request;

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{Acquired, Renew, Renewed, Sweep};
use leasehold_core::transition::Outcome;
use leasehold_core::{
    Backend, Capabilities, Clock, Lease, ManualClock, Name, Result as CoreResult, Timestamp,
};

use super::compare::{Pairs, Verdict, failed};
use super::oracle::Oracle;
use super::step::{Play, Side, Step, Until};
use crate::mailbox::Mailbox;
use request::Sent;

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
        let swept = self.backend.sweep(&Sweep::default()).await;
        let swept = swept.map_err(|error| failed(&error))?;
        let (mut expired, tickets) = self.oracle.sweep(now);
        let mut found: Vec<_> = swept.expired.iter().map(|e| e.name.clone()).collect();
        found.sort_unstable();
        expired.sort_unstable();
        if (&found, swept.tickets) != (&expired, tickets) {
            return Err(format!(
                "swept {swept:?}, not {expired:?} and {tickets} tickets"
            ));
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
            Sent::SetCapacity(request) => backend
                .set_capacity(request)
                .await
                .map(Outcome::CapacitySet),
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
            self.known.push(Known {
                holder,
                theirs,
                ours,
            });
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
            let theirs = self
                .backend
                .get(name)
                .await
                .map_err(|error| failed(&error))?;
            let ours = self.oracle.record(name).seen_at(now);
            self.pairs.record(theirs.what.as_ref(), &ours)?;
        }
        Ok(())
    }
}
