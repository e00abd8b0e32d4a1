//! Who holds a lease: a secret id that proves it, and a label for people.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::result::Result;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::error::{self, Error};

/// The secret that proves a lease is yours: 128 random bits.
///
/// Stores keep only the [`HolderDigest`]; whoever can read a store or a list still cannot renew or release.
/// The secret is shown by nothing but [`secret`](Self::secret).
#[derive(Clone)]
pub struct Holder([u8; 16]);

impl Holder {
    /// A fresh, unguessable holder.
    #[must_use]
    pub fn random() -> Self {
        // As one number: byte by byte would draw four times as much.
        Self::from_secret(rand::random::<u128>().to_ne_bytes())
    }

    /// The holder with this secret, for example one handed over by another process.
    #[must_use]
    pub fn from_secret(secret: [u8; 16]) -> Self {
        Self(secret)
    }

    /// A holder derived from text that identifies it for good, such as a principal and a request id.
    ///
    /// The parts are length-prefixed, so `["ab", "c"]` and `["a", "bc"]` differ. The result is only as secret
    /// as the parts.
    #[must_use]
    pub fn derived<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        Self::from_secret(truncate(&hash.finalize()))
    }

    /// The secret itself. Give it only to whoever takes the lease over.
    #[must_use]
    pub fn secret(&self) -> &[u8; 16] {
        &self.0
    }

    /// What a store keeps of this holder.
    #[must_use]
    pub fn digest(&self) -> HolderDigest {
        HolderDigest {
            bytes: self.0,
            is_made: false,
        }
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Holder(..)")
    }
}

/// The digest of a [`Holder`]'s secret: enough to recognise the holder, not to act for it.
///
/// It is made when somebody looks at it. As long as it is only compared inside the process that has the secret, it need
/// not be, and taking a lock there is a good deal cheaper.
#[derive(Clone, Copy)]
pub struct HolderDigest {
    /// The digest, or the secret it is still to be made from, which is shown to nobody.
    bytes: [u8; 16],
    is_made: bool,
}

impl HolderDigest {
    /// The digest stored by a backend.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self {
            bytes,
            is_made: true,
        }
    }

    /// The bytes a backend stores: SHA-256 of the secret, cut to half.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 16] {
        if self.is_made {
            self.bytes
        } else {
            truncate(&Sha256::digest(self.bytes))
        }
    }
}

impl PartialEq for HolderDigest {
    fn eq(&self, other: &Self) -> bool {
        if self.is_made == other.is_made {
            self.bytes == other.bytes
        } else {
            self.to_bytes() == other.to_bytes()
        }
    }
}

impl Eq for HolderDigest {}

impl Hash for HolderDigest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_bytes().hash(state);
    }
}

impl Serialize for HolderDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!(
            "{:032x}",
            u128::from_be_bytes(self.to_bytes())
        ))
    }
}

impl<'de> Deserialize<'de> for HolderDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        let is_hex = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        match u128::from_str_radix(&text, 16) {
            Ok(number) if is_hex => Ok(Self::from_bytes(number.to_be_bytes())),
            _ => Err(D::Error::custom(
                "a holder's digest is 32 hexadecimal digits",
            )),
        }
    }
}

fn truncate(hash: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    out.copy_from_slice(&hash[..16]);
    out
}

impl fmt::Debug for HolderDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HolderDigest(")?;
        for byte in &self.to_bytes()[..4] {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("..)")
    }
}

/// A label that tells people who holds a lease, such as `billing@host-7`. It proves nothing.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Owner(Arc<str>);

impl Owner {
    /// The longest label, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 256;

    /// Builds a label.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if it is empty, too long or holds NUL.
    pub fn new(label: impl AsRef<str>) -> error::Result<Self> {
        let label = label.as_ref();
        if label.is_empty() || label.len() > Self::MAX_BYTES || label.contains('\0') {
            return Err(Error::invalid(format!(
                "the owner label has {} bytes; it needs 1 to {} bytes of UTF-8 without NUL",
                label.len(),
                Self::MAX_BYTES
            )));
        }
        Ok(Self(label.into()))
    }

    /// The label used when none is given: `pid-<process id>`.
    #[must_use]
    pub fn this_process() -> Self {
        Self(format!("pid-{}", std::process::id()).into())
    }

    /// The label's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_debug())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

impl TryFrom<String> for Owner {
    type Error = Error;

    fn try_from(label: String) -> error::Result<Self> {
        Self::new(label)
    }
}

impl From<Owner> for String {
    fn from(owner: Owner) -> Self {
        owner.0.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher as _, RandomState};

    use super::*;

    /// G-02, W0-01: no two acquisitions share an identity.
    #[test]
    fn holders_are_unique_and_keep_their_secret() {
        let (a, b) = (Holder::random(), Holder::random());
        assert_ne!(a.digest(), b.digest());
        assert_eq!(format!("{a:?}"), "Holder(..)");
        assert_eq!(Holder::from_secret(*a.secret()).digest(), a.digest());
    }

    #[test]
    fn the_digest_is_sha_256_cut_to_half_wherever_it_comes_from() {
        for secret in [[0; 16], [0xff; 16], *b"0123456789abcdef"] {
            let fresh = Holder::from_secret(secret).digest();
            let stored = HolderDigest::from_bytes(fresh.to_bytes());
            assert_eq!(fresh.to_bytes(), truncate(&Sha256::digest(secret)));
            assert_eq!((fresh, stored), (stored, fresh));
            assert_eq!(stored.to_bytes(), fresh.to_bytes());
            let text = serde_json::to_string(&fresh).unwrap();
            assert_eq!(text, serde_json::to_string(&stored).unwrap());
            assert_eq!(format!("{fresh:?}"), format!("{stored:?}"));
            let read: HolderDigest = serde_json::from_str(&text).unwrap();
            assert_eq!((read, read.to_bytes()), (fresh, fresh.to_bytes()));
            let hasher = RandomState::new();
            assert_eq!(hasher.hash_one(fresh), hasher.hash_one(stored));
        }
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        let hex = "00112233445566778899aabbccddeeff";
        for text in [
            &hex[1..],
            &format!("{hex}0"),
            &hex.replace('f', "g"),
            &hex.replacen('0', "+", 1),
        ] {
            let read: Result<HolderDigest, _> = serde_json::from_str(&format!("{text:?}"));
            let why = read.unwrap_err().to_string();
            assert!(why.contains("32 hexadecimal digits"), "{text}: {why}");
        }
    }

    /// Whoever has only the digest cannot pass it off as the secret it was made from.
    #[test]
    fn a_digest_is_no_secret() {
        let holder = Holder::random();
        let forged = Holder::from_secret(holder.digest().to_bytes());
        assert_ne!(forged.digest(), holder.digest());
        let stored = HolderDigest::from_bytes(holder.digest().to_bytes());
        assert_ne!(forged.digest(), stored);
        assert_ne!(HolderDigest::from_bytes(*holder.secret()), holder.digest());
    }

    #[test]
    fn derived_holders_separate_their_parts() {
        let digest = |parts: [&str; 2]| Holder::derived(parts).digest();
        assert_eq!(digest(["alice", "r1"]), digest(["alice", "r1"]));
        assert_ne!(digest(["ab", "c"]), digest(["a", "bc"]));
    }
}
