//! Prolonging leases and tickets.

use futures_util::future::join_all;
use leasehold_core::backend::{BlockedBy, Renew, RenewItem, RenewMode, RenewWhat, Renewed};
use leasehold_core::{Error, Result, Timestamp, Token, Ttl, transition};
use redis::Cmd;

use super::acquire::queued;
use super::{heir, text_of};
use crate::SCHEME;
use crate::answer::{Answer, unexpected_word};
use crate::backend::Redis;
use crate::error::damage_in;
use crate::pack::Pack;
use crate::script;
use crate::value::damaged;

impl Redis {
    pub(crate) async fn renew_now(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        for item in &request.items {
            let (RenewMode::Set(ttl) | RenewMode::Add { by: ttl, .. }) = item.mode;
            self.caller.asks_for(ttl);
        }
        let groups = self.groups(request.items.iter().map(|item| &item.name));
        if let [_] = &groups[..] {
            return self
                .renew_group(&request.items.iter().collect::<Vec<_>>())
                .await;
        }
        let renewals = groups.into_iter().map(|group| async move {
            let items: Vec<_> = group.iter().map(|at| &request.items[*at]).collect();
            let answers = match self.renew_group(&items).await {
                Ok(answers) => answers,
                // One slot that is down must not cost the others their leases.
                Err(error) => items.iter().map(|_| Err(error.copy())).collect(),
            };
            group.into_iter().zip(answers).collect::<Vec<_>>()
        });
        let mut answered: Vec<_> = join_all(renewals).await.into_iter().flatten().collect();
        answered.sort_unstable_by_key(|(at, _)| *at);
        Ok(answered.into_iter().map(|(_, answer)| answer).collect())
    }

    async fn renew_group(&self, items: &[&RenewItem]) -> Result<Vec<Result<Renewed>>> {
        let spread = self.spread(items.iter().map(|item| &item.name));
        let answer = self.caller.write(&script::RENEW, &spread, |command| {
            command.arg(Ttl::MAX.as_millis());
            for (at, item) in items.iter().enumerate() {
                renewal(command, item, spread.place(at));
            }
        });
        let mut answer = answer.await?;
        let now = answer.moment()?;
        let answers = items.iter().map(|item| {
            let renewed = match answer.number_or_list()? {
                Ok(end) => Ok(self.goes_on(item, Timestamp::from_millis(end), now)),
                Err(mut answer) => self.renewed(item, now, &mut answer),
            };
            Ok(renewed.map_err(|error| error.during("renew", SCHEME).with_name(&item.name)))
        });
        answers.collect()
    }

    /// A lease that goes on under the token that was named.
    fn goes_on(&self, item: &RenewItem, expires_at: Timestamp, now: Timestamp) -> Renewed {
        let token = match item.what {
            RenewWhat::Lease(token) => token,
            RenewWhat::Ticket => Token::new(0),
        };
        Renewed::Renewed(self.lease(&item.name, token, expires_at, now))
    }

    fn renewed(&self, item: &RenewItem, now: Timestamp, answer: &mut Answer) -> Result<Renewed> {
        let holder = item.holder.digest();
        match answer.text()?.as_str() {
            word @ ("renewed" | "changed") => {
                let (token, expires_at) = (answer.token()?, answer.moment()?);
                let lease = self.lease(&item.name, token, expires_at, now);
                Ok(match word {
                    "renewed" => Renewed::Renewed(lease),
                    _ => Renewed::Changed(lease),
                })
            }
            "queued" => {
                let (position, expires_at) = (answer.count()?, answer.moment()?);
                let limit = u32::try_from(answer.number()?).unwrap_or(u32::MAX);
                let record = answer.record(&item.name)?;
                let blocked = transition::blocked(&record, BlockedBy::Queue, limit, holder, now);
                Ok(Renewed::Queued(Box::new(queued(
                    position, expires_at, now, blocked,
                ))))
            }
            "not held" => {
                let record = answer.record(&item.name)?;
                let token = match item.what {
                    RenewWhat::Lease(token) => Some(token),
                    RenewWhat::Ticket => None,
                };
                Ok(Renewed::NotHeld(transition::not_held(
                    &record, holder, token,
                )))
            }
            "heir is here" => Err(Error::invalid(
                "the heir holds or awaits the name already, so that it cannot take this lease over",
            )),
            "only set" => Err(Error::invalid(
                "a place in the queue can only be set to a ttl, not added to or handed over",
            )),
            "damaged" => Err(damage_in(&answer.text()?).unwrap_or_else(damaged)),
            word => Err(unexpected_word(word)),
        }
    }
}

fn renewal(command: &mut Cmd, item: &RenewItem, place: usize) {
    let token = match item.what {
        RenewWhat::Lease(token) => token.get(),
        RenewWhat::Ticket => 0,
    };
    let (ttl, if_end) = match item.mode {
        RenewMode::Set(ttl) => (ttl, 0),
        RenewMode::Add { by, if_expires_at } => (by, if_expires_at.as_millis()),
    };
    let more = item.metadata.is_some() || item.heir.is_some();
    let terms = Pack::new().place(place).digest(item.holder.digest());
    let terms = terms
        .u64(token)
        .u64(ttl.as_millis())
        .u64(if_end)
        .u8(more.into());
    terms.bytes(item.name.encoded().as_bytes()).to(command);
    if more {
        command.arg(text_of(item.metadata.as_ref()));
        heir(command, item.heir.as_ref());
    }
}
