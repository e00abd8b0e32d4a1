//! A small text that is changed only by who has seen its latest version: an alternative to locking it.
//!
//! Read, compute, write if nothing changed meanwhile; otherwise read again. Nobody ever waits, and nothing is held.
//!
//! ```
//! use std::sync::Arc;
//! use leasehold_core::memory::Memory;
//! use leasehold_core::versioned::{Versioned, Write};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> leasehold_core::Result<()> {
//! let price = Versioned::new(Arc::new(Memory::new()), "prices", "tv-55")?;
//! let Write::Done(seen) = price.create("499").await? else { panic!("somebody was faster") };
//! assert!(matches!(price.replace(&seen, "479").await?, Write::Done(_)));
//! // What was seen is old by now.
//! assert!(matches!(price.replace(&seen, "459").await?, Write::Changed));
//! # Ok(()) }
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::backend::{
    Acquire, Acquired, Backend, BlockedBy, Confirm, Confirmed, Heir, IntoStore, Names, Own,
};
use crate::error::{Error, ErrorKind, Result};
use crate::holder::{Holder, Owner};
use crate::lease::{Kind, Metadata, Token, Ttl};
use crate::name::Name;

/// How long a text that is being created may be half there before others may try.
const CREATION: Duration = Duration::from_secs(10);
/// How often [`Versioned::update`] starts over before it gives up.
const TRIES: u32 = 64;

/// A text of at most [`Metadata::MAX_BYTES`] with a version, kept by a store under a name.
#[derive(Clone)]
pub struct Versioned {
    store: Arc<dyn Backend>,
    name: Name,
    /// Everybody's: what counts is the version, not who writes.
    holder: Holder,
    owner: Owner,
}

/// A text as it was at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    text: String,
    version: u64,
    token: Token,
}

impl Snapshot {
    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its version: another one after every change, and never the same again.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// What came of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a write that met a change did nothing"]
pub enum Write {
    /// It is written; this is how it looks now.
    Done(Snapshot),
    /// Nothing is written: somebody else changed it first.
    Changed,
}

impl Versioned {
    /// The text under this name; no I/O.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the name breaks the rules of [`Name`]; [`ErrorKind::Unsupported`] if the store
    /// cannot keep anything for good.
    pub fn new(store: impl IntoStore, namespace: &str, key: &str) -> Result<Self> {
        let store = store.into_store();
        let description = store.describe();
        if !description.capabilities.reservations {
            return Err(Error::unsupported(format!(
                "{} cannot keep anything for good",
                description.scheme
            )));
        }
        let name = Name::new(namespace, key)?;
        Ok(Self {
            holder: Holder::derived(["versioned", name.encoded()]),
            owner: Owner::this_process(),
            store,
            name,
        })
    }

    /// The text as it is; `None` if there is none.
    ///
    /// # Errors
    /// If the store fails.
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn read(&self) -> Result<Option<Snapshot>> {
        let record = self.store.get(&self.name).await?.what;
        Ok(record.and_then(|record| {
            let digest = self.holder.digest();
            let ours = record.claims.iter().find(|claim| claim.holder == digest);
            ours.map(|claim| Snapshot {
                text: text_of(claim.metadata.as_ref()),
                version: record.version,
                token: claim.token,
            })
        }))
    }

    /// Writes the first text, if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the text is too long; [`ErrorKind::Conflict`] if the name is used as something
    /// else; otherwise if the store fails.
    ///
    /// # Cancel safety
    /// Dropped midway, it is written or not, or written by the next one who tries within ten seconds.
    pub async fn create(&self, text: &str) -> Result<Write> {
        let text = Metadata::new(text)?;
        let names = Names::one(self.name.clone());
        let ttl = Ttl::new(CREATION)?;
        let request = Acquire::new(names, self.holder.clone(), self.owner.clone(), ttl);
        let request = request.kind(Kind::Reservation).own(Own::Keep);
        match self.store.acquire(&request).await? {
            Acquired::Granted(leases) => match leases.first() {
                Some(lease) => self.confirm(self.confirmation(lease.token, text)?).await,
                None => Err(Error::new(
                    ErrorKind::Internal,
                    "the store did not answer for every name",
                )),
            },
            Acquired::Held(by) if by.iter().all(|by| by.by == BlockedBy::Claim) => {
                Ok(Write::Changed)
            }
            Acquired::Held(_) | Acquired::Queued(_) => Err(Error::new(
                ErrorKind::Conflict,
                "the name is used as something else",
            )
            .with_name(&self.name)),
        }
    }

    /// Writes another text, if nobody has changed it since the snapshot.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the text is too long; otherwise if the store fails.
    ///
    /// # Cancel safety
    /// Dropped midway, it is written or not.
    pub async fn replace(&self, seen: &Snapshot, text: &str) -> Result<Write> {
        let request = self.confirmation(seen.token, Metadata::new(text)?)?;
        let request = request.expect_version(seen.version).hand_over(Heir {
            holder: self.holder.clone(),
            owner: self.owner.clone(),
        });
        self.confirm(request).await
    }

    /// Reads, changes and writes, again and again until nobody was faster.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if others were faster every time; otherwise as [`create`](Self::create) and
    /// [`replace`](Self::replace).
    ///
    /// # Cancel safety
    /// Dropped midway, it is written or not.
    pub async fn update(&self, mut change: impl FnMut(Option<&str>) -> String) -> Result<Snapshot> {
        for _ in 0..TRIES {
            let seen = self.read().await?;
            let text = change(seen.as_ref().map(Snapshot::text));
            let written = match &seen {
                Some(seen) => self.replace(seen, &text).await?,
                None => self.create(&text).await?,
            };
            if let Write::Done(now) = written {
                return Ok(now);
            }
            tokio::task::yield_now().await;
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("others changed it {TRIES} times in a row"),
        )
        .with_name(&self.name))
    }

    /// A write of its own: the entity tells it from every other write, and a repeated request from a new one.
    fn confirmation(&self, token: Token, text: Metadata) -> Result<Confirm> {
        let write = format!("write-{:032x}", rand::random::<u128>());
        let items = SmallVec::from_buf([(self.name.clone(), token)]);
        Ok(Confirm::all(items, self.holder.clone(), &write)?.metadata(text))
    }

    async fn confirm(&self, request: Confirm) -> Result<Write> {
        Ok(match self.store.confirm(&request).await? {
            Confirmed::Confirmed(versions) => Write::Done(Snapshot {
                text: text_of(request.metadata.as_ref()),
                version: versions.first().copied().unwrap_or_default(),
                token: request.items[0].1,
            }),
            Confirmed::NotHeld(..) | Confirmed::VersionChanged(..) => Write::Changed,
        })
    }
}

fn text_of(metadata: Option<&Metadata>) -> String {
    metadata
        .map(Metadata::as_str)
        .unwrap_or_default()
        .to_owned()
}

impl fmt::Debug for Versioned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Versioned").field(&self.name).finish()
    }
}
