//! Names: a namespace and a key, validated once and encoded so that two different pairs never meet.
//!
//! The encoded form is `namespace/key`, with `/` and `%` of the *namespace* percent-escaped. The first
//! `/` therefore always ends the namespace, and the key needs no escaping at all.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The longest namespace, in bytes of UTF-8.
pub const MAX_NAMESPACE_BYTES: usize = 255;
/// The longest key, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = 3328;

/// What a lease is for: a namespace and a key inside it.
///
/// Any UTF-8 text will do for either part, except that neither may be empty, hold a NUL character or be
/// longer than [`MAX_NAMESPACE_BYTES`] and [`MAX_KEY_BYTES`]. Nothing is trimmed, folded or normalised:
/// `Orders` and `orders` are different namespaces.
///
/// Cloning is cheap; the text is shared.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<Inner>);

struct Inner {
    hash: u64,
    /// Byte length of the escaped namespace inside `encoded`.
    split: u16,
    encoded: Box<str>,
}

impl Name {
    /// Builds a name from its two parts.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if a part is empty, too long or holds NUL.
    pub fn new(namespace: &str, key: &str) -> Result<Self> {
        check_part("namespace", namespace, MAX_NAMESPACE_BYTES)?;
        check_part("key", key, MAX_KEY_BYTES)?;
        let escaped = escape(namespace);
        let mut encoded = String::with_capacity(escaped.len() + 1 + key.len());
        encoded.push_str(&escaped);
        encoded.push('/');
        encoded.push_str(key);
        Ok(Self::from_valid(escaped.len(), encoded))
    }

    /// Reads a name back from its [encoded](Self::encoded) form.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the text is not what [`encoded`](Self::encoded) writes.
    pub fn decode(encoded: &str) -> Result<Self> {
        let malformed =
            || Error::invalid(format!("name {encoded:?} is not of the form namespace/key"));
        let (escaped, key) = encoded.split_once('/').ok_or_else(malformed)?;
        let name = Self::new(&unescape(escaped).ok_or_else(malformed)?, key)?;
        // Only the canonical spelling is accepted, or one name would have several encodings.
        if name.encoded() == encoded {
            Ok(name)
        } else {
            Err(malformed())
        }
    }

    fn from_valid(split: usize, encoded: String) -> Self {
        // A namespace of 255 bytes escapes to at most 765, which fits.
        let split = u16::try_from(split).unwrap_or(u16::MAX);
        let encoded = encoded.into_boxed_str();
        Self(Arc::new(Inner {
            hash: hash_text(&encoded),
            split,
            encoded,
        }))
    }

    /// The namespace as it was given.
    #[must_use]
    pub fn namespace(&self) -> Cow<'_, str> {
        let escaped = &self.0.encoded[..usize::from(self.0.split)];
        if escaped.contains('%') {
            Cow::Owned(unescape(escaped).unwrap_or_default())
        } else {
            Cow::Borrowed(escaped)
        }
    }

    /// The key as it was given.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.0.encoded[usize::from(self.0.split) + 1..]
    }

    /// One text for both parts; different names have different texts.
    #[must_use]
    pub fn encoded(&self) -> &str {
        &self.0.encoded
    }

    /// A hash of the name that is the same for the life of this process and unpredictable from outside it.
    #[must_use]
    pub fn process_hash(&self) -> u64 {
        self.0.hash
    }
}

fn check_part(what: &str, text: &str, max: usize) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(format!(
            "the {what} is empty; it needs 1 to {max} bytes of UTF-8"
        )));
    }
    if text.len() > max {
        return Err(Error::invalid(format!(
            "the {what} has {} bytes; at most {max} are allowed",
            text.len()
        )));
    }
    if text.contains('\0') {
        return Err(Error::invalid(format!(
            "the {what} holds a NUL character, which is not allowed"
        )));
    }
    Ok(())
}

/// Checks a namespace on its own, before there is a key to go with it.
pub(crate) fn check_namespace(namespace: &str) -> Result<()> {
    check_part("namespace", namespace, MAX_NAMESPACE_BYTES)
}

fn escape(namespace: &str) -> Cow<'_, str> {
    if namespace.contains(['/', '%']) {
        Cow::Owned(namespace.replace('%', "%25").replace('/', "%2F"))
    } else {
        Cow::Borrowed(namespace)
    }
}

fn unescape(escaped: &str) -> Option<String> {
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        out.push(match rest.get(at..at + 3)? {
            "%25" => '%',
            "%2F" => '/',
            _ => return None,
        });
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    Some(out)
}

fn hash_text(text: &str) -> u64 {
    static SEED: OnceLock<RandomState> = OnceLock::new();
    SEED.get_or_init(RandomState::new).hash_one(text)
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.hash == other.0.hash && self.0.encoded == other.0.encoded)
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.encoded.cmp(&other.0.encoded)
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

/// Shows the encoded form with control characters escaped, so that a name cannot forge a log line.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.encoded();
        while let Some(at) = rest.find(is_unprintable) {
            f.write_str(&rest[..at])?;
            let Some(bad) = rest[at..].chars().next() else {
                break;
            };
            write!(f, "{}", bad.escape_unicode())?;
            rest = &rest[at + bad.len_utf8()..];
        }
        f.write_str(rest)
    }
}

fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

impl TryFrom<String> for Name {
    type Error = Error;

    fn try_from(encoded: String) -> Result<Self> {
        Self::decode(&encoded)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.encoded().to_owned()
    }
}

/// For maps keyed by names.
pub(crate) type NameHash = BuildHasherDefault<NameHasher>;

/// Passes on the hash that a name already carries.
#[derive(Default)]
pub(crate) struct NameHasher(u64);

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_as_given() {
        for (namespace, key) in [
            ("orders", "12345"),
            ("a/b%c", "d/e%2F"),
            ("ü", "\u{1f600}"),
            ("%2F", "/"),
        ] {
            let name = Name::new(namespace, key).unwrap();
            assert_eq!((name.namespace().as_ref(), name.key()), (namespace, key));
            assert_eq!(Name::decode(name.encoded()).unwrap(), name);
        }
    }

    /// W0-13, W4-12, G-10: delimiter-heavy neighbours stay apart.
    #[test]
    fn different_pairs_never_share_an_encoding() {
        let parts = [
            "a", "a/", "/a", "a/b", "b", "b/c", "a%2F", "a%", "%2Fb", "::", "a:", ":b", "a::b",
        ];
        let mut seen = std::collections::HashMap::new();
        for namespace in parts {
            for key in parts {
                let name = Name::new(namespace, key).unwrap();
                assert_eq!(
                    seen.insert(name.encoded().to_owned(), (namespace, key)),
                    None
                );
            }
        }
    }

    #[test]
    fn bad_parts_are_named_with_what_is_allowed() {
        let text = |r: Result<Name>| r.unwrap_err().to_string();
        assert!(text(Name::new("", "k")).contains("namespace is empty; it needs 1 to 255 bytes"));
        assert!(text(Name::new("n", "")).contains("key is empty"));
        assert!(text(Name::new("n", &"k".repeat(3329))).contains("3329 bytes; at most 3328"));
        assert!(text(Name::new("n\0", "k")).contains("NUL"));
        assert!(Name::new(&"n".repeat(255), &"k".repeat(3328)).is_ok());
    }

    #[test]
    fn only_the_canonical_encoding_is_read() {
        for text in ["nokey", "a%2f/b", "a%/b", "/b", "a/", "%41/b"] {
            assert!(Name::decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn display_cannot_break_a_log_line() {
        let name = Name::new("n", "a\nb\u{202e}c\u{1b}[31m").unwrap();
        assert_eq!(name.to_string(), "n/a\\u{a}b\\u{202e}c\\u{1b}[31m");
    }
}
