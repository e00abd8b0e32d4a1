//! What is for good: confirming, handing over, and how many units a name has.

use leasehold_core::backend::{CapacitySet, Confirm, ConfirmFrom, Confirmed, SetCapacity};
use leasehold_core::{Error, Result, transition};

use super::{digest, heir, name_at, named, place_in, refuse_repeated, text_of};
use crate::answer::unexpected_word;
use crate::backend::Redis;
use crate::script;

impl Redis {
    pub(crate) async fn confirm_now(&self, request: &Confirm) -> Result<Confirmed> {
        let names: Vec<_> = request.items.iter().map(|(name, _)| name.clone()).collect();
        refuse_repeated(&names)?;
        let spread = self.spread(&names);
        let answer = self.caller.write(&script::CONFIRM, &spread, |command| {
            digest(command, request.holder.digest());
            command.arg(&request.entity);
            heir(
                command,
                match &request.from {
                    ConfirmFrom::Grant => None,
                    ConfirmFrom::Claim(heir) => Some(heir),
                },
            );
            match request.expect_version {
                Some(version) => command.arg(version),
                None => command.arg(""),
            };
            command.arg(text_of(request.metadata.as_ref()));
            for (at, (name, token)) in request.items.iter().enumerate() {
                named(command, spread.place(at), token.get(), name);
            }
        });
        let mut answer = answer.await?;
        let word = answer.text()?;
        if word == "confirmed" {
            let versions = names.iter().map(|_| answer.number());
            return Ok(Confirmed::Confirmed(versions.collect::<Result<_>>()?));
        }
        let at = place_in(&mut answer)?;
        let name = name_at(&names, at)?;
        match word.as_str() {
            "not held" => {
                let _now = answer.moment()?;
                let record = answer.record(name)?;
                let token = Some(request.items[at].1);
                let why = transition::not_held(&record, request.holder.digest(), token);
                Ok(Confirmed::NotHeld(name.clone(), why))
            }
            "version" => Ok(Confirmed::VersionChanged(name.clone(), answer.number()?)),
            "no reservation" => Err(Error::invalid(
                "only an exclusive reservation can be confirmed, and this is not one",
            )
            .with_name(name)),
            word => Err(unexpected_word(word)),
        }
    }

    pub(crate) async fn set_capacity_now(&self, request: &SetCapacity) -> Result<CapacitySet> {
        let spread = self.spread([&request.name]);
        let answer = self
            .caller
            .write(&script::SET_CAPACITY, &spread, |command| {
                command.arg(request.name.encoded());
                match request.units {
                    Some(units) => command.arg(units),
                    None => command.arg(""),
                };
                match request.expect_version {
                    Some(version) => command.arg(version),
                    None => command.arg(""),
                };
            });
        let mut answer = answer.await?;
        match answer.text()?.as_str() {
            "set" => Ok(CapacitySet::Set(answer.number()?)),
            "version" => Ok(CapacitySet::VersionChanged(answer.number()?)),
            word => Err(unexpected_word(word)),
        }
    }
}
