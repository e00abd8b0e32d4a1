//! Ending grants and claims, and leaving queues.

use leasehold_core::backend::{Release, Released, Releases, Withdraw, Withdrawn};
use leasehold_core::{Effect, Name, Result, Token, transition};

use super::{digest, named, refuse_repeated};
use crate::answer::{Answer, unexpected_word};
use crate::backend::Redis;
use crate::pack::Pack;
use crate::script;
use crate::value;

impl Redis {
    pub(crate) async fn release_now(&self, request: &Release) -> Result<Releases> {
        let names = released_names(request);
        if let [_] = &names[..] {
            return self.release_group(request, &names).await;
        }
        refuse_repeated(names.iter().map(|(name, _)| *name))?;
        let mut answered = Vec::with_capacity(names.len());
        for group in self.groups(names.iter().map(|(name, _)| *name)) {
            let some: Vec<_> = group.iter().map(|at| names[*at]).collect();
            let released = self.release_group(request, &some).await;
            // What was released before is released, whatever comes of the rest.
            let is_first = answered.is_empty();
            let released = released.map_err(|error| match is_first {
                true => error,
                false => error.with_effect(Effect::Unknown),
            })?;
            answered.extend(group.into_iter().zip(released));
        }
        answered.sort_unstable_by_key(|(at, _)| *at);
        Ok(answered.into_iter().map(|(_, answer)| answer).collect())
    }

    async fn release_group(
        &self,
        request: &Release,
        names: &[(&Name, Option<Token>)],
    ) -> Result<Releases> {
        let spread = self.spread(names.iter().map(|(name, _)| *name));
        let answer = self.caller.write(&script::RELEASE, &spread, |command| {
            match request {
                Release::Grants { holder, .. } => {
                    command.arg("grants");
                    digest(command, holder.digest());
                    command.arg("");
                }
                Release::Claims { holder, spend, .. } => {
                    command.arg(if *spend { "spend" } else { "claims" });
                    digest(command, holder.digest());
                    command.arg("");
                }
                Release::Force { by, reason, .. } => {
                    command.arg("force").arg(by.as_str()).arg(reason);
                }
            }
            for (at, (name, token)) in names.iter().enumerate() {
                named(command, spread.place(at), token.map_or(0, Token::get), name);
            }
        });
        let mut answer = answer.await?;
        if answer.is_single() {
            return Ok(Releases::from_buf([Released::Released]));
        }
        let _now = answer.moment()?;
        let names = names.iter();
        names
            .map(|(name, token)| released_in(request, name, *token, &mut answer))
            .collect()
    }

    pub(crate) async fn withdraw_now(&self, request: &Withdraw) -> Result<Withdrawn> {
        let names = request.names.as_slice();
        let mut withdrawn = Withdrawn::default();
        for group in self.groups(names) {
            let some: Vec<_> = group.iter().map(|at| &names[*at]).collect();
            let spread = self.spread(some.iter().copied());
            let answer = self.caller.write(&script::WITHDRAW, &spread, |command| {
                digest(command, request.holder.digest());
                for (at, name) in some.iter().enumerate() {
                    let place = Pack::new().place(spread.place(at));
                    place.bytes(name.encoded().as_bytes()).to(command);
                }
            });
            // Whoever withdraws does so again until it is answered, so that half of it done is no harm.
            let mut answer = answer.await?;
            answer.text()?;
            withdrawn.tickets += answer.count()?;
            withdrawn.grants += answer.count()?;
        }
        Ok(withdrawn)
    }
}

fn released_in(
    request: &Release,
    name: &Name,
    token: Option<Token>,
    answer: &mut Answer,
) -> Result<Released> {
    let word = answer.text()?;
    let bytes = answer.bytes()?;
    let record = || value::decode(name, &bytes);
    let holder = match request {
        Release::Grants { holder, .. } | Release::Claims { holder, .. } => Some(holder.digest()),
        Release::Force { .. } => None,
    };
    Ok(match (word.as_str(), holder) {
        ("released", _) => Released::Released,
        ("forced", _) => Released::Forced(transition::forcible(&record()?, token)),
        ("not held", Some(holder)) => {
            Released::NotHeld(transition::not_held(&record()?, holder, token))
        }
        ("not held", None) => Released::NotHeld(transition::not_forcible(&record()?, token)),
        (word, _) => return Err(unexpected_word(word)),
    })
}

/// The names a release is about, each with its token.
fn released_names(request: &Release) -> Vec<(&Name, Option<Token>)> {
    match request {
        Release::Force { name, token, .. } => vec![(name, *token)],
        request => {
            let items = request.items().iter();
            items.map(|(name, token)| (name, Some(*token))).collect()
        }
    }
}
