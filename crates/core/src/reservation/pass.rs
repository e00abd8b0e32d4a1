//! The secret side of a reservation, to be kept or carried elsewhere.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::key::Key;
use crate::backend::Names;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::holder::Holder;
use crate::lease::{Token, Units};
use crate::name::Name;

/// What one needs to confirm, release, free or hand over: names, tokens and the secret. Treat it like a password.
///
/// `to_string` and `parse` turn it into one line of text and back; see
/// [`Reservations::resume`](super::Reservations::resume).
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "WrittenPass")]
pub struct Pass {
    pub(super) items: Vec<Item>,
    secret: [u8; 16],
    pub(super) expires_at: Timestamp,
}

/// A [`Pass`] as it is written down, by anybody.
#[derive(Deserialize)]
struct WrittenPass {
    items: Vec<Item>,
    secret: [u8; 16],
    expires_at: Timestamp,
}

impl TryFrom<WrittenPass> for Pass {
    type Error = Error;

    fn try_from(written: WrittenPass) -> Result<Self> {
        let names = written.items.iter().map(|item| item.name.clone());
        // At least one, not too many, none twice.
        Names::new(names)?;
        Ok(Self {
            items: written.items,
            secret: written.secret,
            expires_at: written.expires_at,
        })
    }
}

/// One thing that is reserved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub(super) struct Item {
    pub(super) name: Name,
    /// The key in the name.
    pub(super) key: Key,
    pub(super) token: Token,
    pub(super) units: Units,
}

/// An [`Item`] as it is written down.
#[derive(Serialize, Deserialize)]
struct Written {
    name: Name,
    token: Token,
    units: Units,
}

impl TryFrom<Written> for Item {
    type Error = Error;

    fn try_from(Written { name, token, units }: Written) -> Result<Self> {
        Ok(Self {
            key: Key::parse(name.key())?,
            name,
            token,
            units,
        })
    }
}

impl From<Item> for Written {
    fn from(item: Item) -> Self {
        Self {
            name: item.name,
            token: item.token,
            units: item.units,
        }
    }
}

impl Pass {
    pub(super) fn new(items: Vec<Item>, holder: &Holder, expires_at: Timestamp) -> Self {
        Self {
            items,
            secret: *holder.secret(),
            expires_at,
        }
    }

    pub(super) fn holder(&self) -> Holder {
        Holder::from_secret(self.secret)
    }

    /// The first item; a pass has at least one.
    pub(super) fn first(&self) -> &Item {
        &self.items[0]
    }

    pub(super) fn name(&self) -> &Name {
        &self.first().name
    }

    pub(super) fn items(&self) -> impl Iterator<Item = (&Key, Units, Token)> {
        let items = self.items.iter();
        items.map(|item| (&item.key, item.units, item.token))
    }

    pub(super) fn tokens(&self) -> SmallVec<[(Name, Token); 1]> {
        let pair = |item: &Item| (item.name.clone(), item.token);
        self.items.iter().map(pair).collect()
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass")
            .field("items", &self.items)
            .finish_non_exhaustive()
    }
}

impl FromStr for Pass {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| {
            Error::invalid("this is not the pass of a reservation").with_source(error)
        })
    }
}
