//! Who holds a lease: a secret id that proves it, and a label for people.

use std::fmt;
use std::sync::{Arc, LazyLock};

use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use aes::{Aes128, Block};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// The secret that proves a lease is yours: 128 random bits, with their digest.
///
/// Stores keep only the [`HolderDigest`]; whoever can read a store or a list still cannot renew or release.
/// The secret is shown by nothing but [`secret`](Self::secret).
#[derive(Clone)]
pub struct Holder {
    secret: [u8; 16],
    digest: HolderDigest,
}

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
        let digest = HolderDigest::of(&secret);
        Self { secret, digest }
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
        &self.secret
    }

    /// What a store keeps of this holder.
    #[must_use]
    pub fn digest(&self) -> HolderDigest {
        self.digest
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Holder(..)")
    }
}

/// The fixed key of the digest; anything would do that nobody chose with a purpose.
static CIPHER: LazyLock<Aes128> = LazyLock::new(|| Aes128::new(b"leasehold holder".into()));

/// The digest of a [`Holder`]'s secret: enough to recognise the holder, not to act for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HolderDigest([u8; 16]);

impl HolderDigest {
    /// One block of the cipher, with the secret added once more so that it cannot be run backwards: hash-function 1 of
    /// ISO/IEC 10118-2 for a message of one block. See decision 0011.
    fn of(secret: &[u8; 16]) -> Self {
        let mut block = Block::from(*secret);
        CIPHER.encrypt_block(&mut block);
        let digest = u128::from_ne_bytes(block.into()) ^ u128::from_ne_bytes(*secret);
        Self(digest.to_ne_bytes())
    }

    /// The digest stored by a backend.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes a backend stores.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
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
        for byte in &self.0[..4] {
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
    pub fn new(label: impl AsRef<str>) -> Result<Self> {
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

    fn try_from(label: String) -> Result<Self> {
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
    use super::*;

    /// G-02, W0-01: no two acquisitions share an identity.
    #[test]
    fn holders_are_unique_and_keep_their_secret() {
        let (a, b) = (Holder::random(), Holder::random());
        assert_ne!(a.digest(), b.digest());
        assert_eq!(format!("{a:?}"), "Holder(..)");
        assert_eq!(Holder::from_secret(*a.secret()).digest(), a.digest());
    }

    /// The expected values are of another implementation of AES.
    #[test]
    fn the_digest_is_the_enciphered_secret_and_the_secret() {
        for (secret, expected) in [
            ([0; 16], "7563b6294f04fdcfbeae75823eb122db"),
            (*b"0123456789abcdef", "3633145d3bfbb7615cd872ecc43bcf7c"),
        ] {
            let digest = Holder::from_secret(secret).digest();
            let hex: String = digest
                .as_bytes()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(hex, expected);
        }
    }

    #[test]
    fn derived_holders_separate_their_parts() {
        let digest = |parts: [&str; 2]| Holder::derived(parts).digest();
        assert_eq!(digest(["alice", "r1"]), digest(["alice", "r1"]));
        assert_ne!(digest(["ab", "c"]), digest(["a", "bc"]));
    }
}
