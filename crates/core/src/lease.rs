//! What a store grants: plain data with its invariants.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::name::Name;

/// A fencing token: strictly greater for every new grant of the same name.
///
/// Hand it to the resource you protect and let the resource refuse anything lower than the highest it has seen.
/// Tokens stay below 2^53, so they survive JSON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(u64);

impl Token {
    /// The largest token there can be.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The token with this value.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The token's value.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.0)
    }
}

/// How long a lease lasts from the moment it is granted or renewed: whole milliseconds, 1 ms to 366 days.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Ttl(u64);

impl Ttl {
    /// The shortest time to live.
    pub const MIN: Self = Self(1);
    /// The longest time to live: 366 days.
    pub const MAX: Self = Self(366 * 24 * 60 * 60 * 1000);

    /// Checks and rounds down to whole milliseconds.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if it is under 1 ms or over 366 days.
    pub fn new(ttl: Duration) -> Result<Self> {
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        Self::from_millis(millis).map_err(|_| {
            Error::invalid(format!("a ttl of {ttl:?} is not between 1ms and 366 days"))
        })
    }

    /// As [`new`](Self::new), from milliseconds.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if it is zero or over 366 days.
    pub fn from_millis(millis: u64) -> Result<Self> {
        let ttl = Self(millis);
        if ttl < Self::MIN || ttl > Self::MAX {
            return Err(Error::invalid(format!(
                "a ttl of {millis} ms is not between 1ms and 366 days"
            )));
        }
        Ok(ttl)
    }

    /// The time to live in milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The time to live as a duration.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl fmt::Debug for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ttl({:?})", self.as_duration())
    }
}

impl TryFrom<u64> for Ttl {
    type Error = Error;

    fn try_from(millis: u64) -> Result<Self> {
        Self::from_millis(millis)
    }
}

impl From<Ttl> for u64 {
    fn from(ttl: Ttl) -> Self {
        ttl.0
    }
}

/// What a record is used as, so that one is never taken for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Guarded use by running code.
    Lock,
    /// A claim that outlives the code that made it.
    Reservation,
}

/// Whether the units of a grant are for its holder alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// These units are mine alone; nobody may share the name meanwhile.
    Exclusive,
    /// Any number of shared grants may exist together, but none beside an exclusive one.
    Shared,
}

/// A number of units of a name; a plain lock takes one.
pub type Units = NonZeroU32;

/// One unit.
pub const ONE_UNIT: Units = NonZeroU32::MIN;

/// Free text kept with a grant: a purpose, a trace id, a stored result. At most 4096 bytes of UTF-8 without NUL.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Metadata(Arc<str>);

impl Metadata {
    /// The longest text, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 4096;

    /// Checks the text.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if it is too long or holds NUL.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        if text.len() > Self::MAX_BYTES || text.contains('\0') {
            return Err(Error::invalid(format!(
                "the metadata has {} bytes; at most {} bytes of UTF-8 without NUL are allowed",
                text.len(),
                Self::MAX_BYTES
            )));
        }
        Ok(Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metadata({:?})", self.as_str())
    }
}

impl TryFrom<String> for Metadata {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::new(text)
    }
}

impl From<Metadata> for String {
    fn from(metadata: Metadata) -> Self {
        metadata.0.as_ref().to_owned()
    }
}

/// What a store granted: this name, with this token, for this long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The name granted.
    pub name: Name,
    /// The fencing token of this grant.
    pub token: Token,
    /// When the lease ends, by the store's clock. It has ended once `now >= expires_at`.
    pub expires_at: Timestamp,
    /// How much of it was left when the store answered, by the store's clock. Deadlines of a holder start here.
    #[serde(with = "millis")]
    pub ttl: Duration,
}

pub(crate) mod millis {
    //! Durations as whole milliseconds.
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        Ok(Duration::from_millis(u64::deserialize(d)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// etcd#9399 and kin: absurd ttls are refused, never wrapped.
    #[test]
    fn ttl_bounds_are_inclusive_and_absurd_values_are_refused() {
        assert!(Ttl::new(Duration::from_millis(1)).is_ok());
        assert!(Ttl::new(Ttl::MAX.as_duration()).is_ok());
        for bad in [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::MAX,
            Duration::from_secs(u64::MAX),
        ] {
            let text = Ttl::new(bad).unwrap_err().to_string();
            assert!(text.contains("between 1ms and 366 days"), "{text}");
        }
        assert!(Ttl::from_millis(u64::MAX).is_err());
    }

    #[test]
    fn metadata_is_bounded() {
        assert!(Metadata::new("x".repeat(4096)).is_ok());
        assert!(Metadata::new("x".repeat(4097)).is_err());
    }
}
