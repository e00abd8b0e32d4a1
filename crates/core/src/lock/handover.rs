//! A lease on its way to another process.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::deadline::deadline;
use super::guard::{Guard, lost, withdraw_in_background};
use super::hold::{Granted, Hold, Leases, LostCause};
use super::locks::Locks;
use crate::backend::{Names, RenewItem, Renewed};
use crate::error::{Error, ErrorKind, Result};
use crate::holder::{Holder, Owner};
use crate::lease::{Token, Ttl};
use crate::name::Name;

/// What another process needs to go on holding a lock. It contains the secret: treat it like a password.
///
/// `to_string` and `parse` turn it into one line of text and back. Adopting swaps the secret, so that a handover
/// works once.
#[derive(Clone, Serialize, Deserialize)]
pub struct Handover {
    pub(super) leases: Vec<(Name, Token)>,
    secret: [u8; 16],
    pub(super) ttl: Ttl,
}

impl Handover {
    pub(super) fn of(hold: &Hold) -> Self {
        Self {
            leases: hold.leases().to_vec(),
            secret: *hold.holder().secret(),
            ttl: hold.terms.ttl,
        }
    }

    pub(super) fn holder(&self) -> Holder {
        Holder::from_secret(self.secret)
    }

    fn items(&self, heir: &Holder, owner: &Owner) -> Vec<RenewItem> {
        let item = |(name, token): &(Name, Token)| {
            RenewItem::lease(name.clone(), self.holder(), *token, self.ttl)
                .heir(heir.clone(), owner.clone())
        };
        self.leases.iter().map(item).collect()
    }

    /// The names handed over, each with its token.
    pub fn tokens(&self) -> impl Iterator<Item = (&Name, Token)> {
        self.leases.iter().map(|(name, token)| (name, *token))
    }
}

impl Locks {
    /// Goes on holding what another process handed over. The secret is swapped, so that this works once.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the lease is over or somebody else adopted it; [`ErrorKind::Unsupported`] if the store
    /// cannot swap holders; otherwise if the store fails.
    ///
    /// # Cancel safety
    /// Dropped midway, the lease may be left to run out.
    pub async fn adopt(&self, handover: &Handover) -> Result<Guard> {
        let shared = self.manager();
        if !shared.can().adopt {
            return Err(Error::unsupported(format!(
                "{} cannot hand leases over",
                shared.scheme()
            )));
        }
        let names = Names::new(handover.leases.iter().map(|(name, _)| name.clone()))?;
        let lock = self.handle(Ok(names)).ttl(handover.ttl.as_duration());
        lock.names()?;
        shared.check_ttl(handover.ttl)?;
        let heir = Holder::random();
        let t0 = shared.clock.now();
        let answers = shared.renew(handover.items(&heir, &self.terms.owner)).await;
        let (leases, failure) = sort(handover, answers);
        if leases.is_empty() {
            return Err(failure
                .unwrap_or_else(|| Error::new(ErrorKind::Internal, "the store did not answer")));
        }
        let hold = Hold::new(
            &lock.terms,
            Granted {
                holder: heir,
                leases,
                t0,
                deadline: deadline(t0, handover.ttl.as_duration()),
            },
        );
        let over = || hold.check().err().map(|cause| lost(hold.name(), cause));
        if let Some(failure) = failure
            .or_else(over)
            .or_else(|| shared.refuse_if_closed().err())
        {
            // All or nothing, and nothing that is over: what was swapped already is given back.
            withdraw_in_background(&hold);
            return Err(failure);
        }
        Ok(lock.guard(hold, t0))
    }
}

/// What was swapped, and what stood in the way of the rest.
fn sort(handover: &Handover, answers: Vec<Result<Renewed>>) -> (Leases, Option<Error>) {
    let mut leases = Leases::new();
    let mut failure = None;
    for (answer, (name, _)) in answers.into_iter().zip(&handover.leases) {
        match answer {
            Ok(Renewed::Renewed(lease)) => leases.push(lease),
            Ok(Renewed::NotHeld(not_held)) => {
                failure = Some(lost(name, LostCause::of(&not_held, false)))
            }
            Ok(_) => {
                failure = Some(Error::new(
                    ErrorKind::Internal,
                    "the store gave an answer that makes no sense",
                ))
            }
            Err(error) => failure = Some(error),
        }
    }
    (leases, failure)
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

impl FromStr for Handover {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let handover: Self = serde_json::from_str(text).map_err(|_| {
            Error::invalid("this text is not a handover; it must be exactly what Handover wrote")
        })?;
        if handover.leases.is_empty() {
            return Err(Error::invalid("this handover names no lease"));
        }
        Ok(handover)
    }
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handover")
            .field("leases", &self.leases)
            .finish_non_exhaustive()
    }
}
