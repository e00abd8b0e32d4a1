//! A lease on its way to another process.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::hold::Hold;
use crate::error::{Error, Result};
use crate::holder::Holder;
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
            leases: hold.leases.to_vec(),
            secret: *hold.holder.secret(),
            ttl: hold.ttl,
        }
    }

    pub(super) fn holder(&self) -> Holder {
        Holder::from_secret(self.secret)
    }

    /// The names handed over, each with its token.
    pub fn tokens(&self) -> impl Iterator<Item = (&Name, Token)> {
        self.leases.iter().map(|(name, token)| (name, *token))
    }
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
