//! What is reserved: a kind and a value, and the one text that stands for both.

use std::fmt;
use std::str::FromStr;

use super::code::Code;
use crate::error::{Error, Result};

/// The longest kind, in UTF-16 units.
pub const MAX_KIND: usize = 64;
/// The longest value, in UTF-16 units.
pub const MAX_VALUE: usize = 1024;
/// Stands between the kind and the value. A kind may not hold it, a value may.
pub const SEPARATOR: char = ':';

/// What is reserved: `email:alice@example.com` is the value `alice@example.com` of the kind `email`.
///
/// The text is split at its first colon. Nothing is trimmed or folded; see [`Normalise`](super::Normalise).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    text: Box<str>,
    colon: usize,
}

impl Key {
    /// Puts a key together.
    ///
    /// # Errors
    /// [`KEY_EMPTY`](Code::KeyEmpty), [`TYPE_REQUIRED`](Code::TypeRequired),
    /// [`VALUE_REQUIRED`](Code::ValueRequired), [`TYPE_CONTAINS_SEPARATOR`](Code::TypeContainsSeparator),
    /// [`TYPE_TOO_LONG`](Code::TypeTooLong), [`VALUE_TOO_LONG`](Code::ValueTooLong), or
    /// [`INVALID_KEY_FORMAT`](Code::InvalidKeyFormat) for a NUL character.
    pub fn new(kind: &str, value: &str) -> Result<Self> {
        Self::validate(kind, value).map_err(refusal)?;
        Ok(Self {
            text: format!("{kind}{SEPARATOR}{value}").into(),
            colon: kind.len(),
        })
    }

    /// Puts a key together if its parts allow it.
    #[must_use]
    pub fn try_new(kind: &str, value: &str) -> Option<Self> {
        Self::new(kind, value).ok()
    }

    /// Reads a whole key.
    ///
    /// # Errors
    /// [`KEY_EMPTY`](Code::KeyEmpty), [`INVALID_KEY_FORMAT`](Code::InvalidKeyFormat),
    /// [`TYPE_REQUIRED`](Code::TypeRequired), [`VALUE_EMPTY`](Code::ValueEmpty),
    /// [`TYPE_TOO_LONG`](Code::TypeTooLong) or [`VALUE_TOO_LONG`](Code::ValueTooLong).
    pub fn parse(text: &str) -> Result<Self> {
        Self::check(text)?;
        let (kind, value) = split(text).map_err(refusal)?;
        Self::new(kind, value)
    }

    /// The kind in a whole key, which need not be a valid one otherwise.
    #[must_use]
    pub fn kind_of(text: &str) -> Option<&str> {
        split(text).ok().map(|(kind, _)| kind)
    }

    /// The value in a whole key, which need not be a valid one otherwise.
    #[must_use]
    pub fn value_of(text: &str) -> Option<&str> {
        split(text).ok().map(|(_, value)| value)
    }

    /// Checks the parts of a key.
    ///
    /// # Errors
    /// The code that [`new`](Self::new) would give.
    pub fn validate(kind: &str, value: &str) -> Result<(), Code> {
        if is_blank(kind) && is_blank(value) {
            return Err(Code::KeyEmpty);
        }
        if is_blank(kind) {
            return Err(Code::TypeRequired);
        }
        if is_blank(value) {
            return Err(Code::ValueRequired);
        }
        if kind.contains(SEPARATOR) {
            return Err(Code::TypeContainsSeparator);
        }
        if is_longer(kind, MAX_KIND) {
            return Err(Code::TypeTooLong);
        }
        if is_longer(value, MAX_VALUE) {
            return Err(Code::ValueTooLong);
        }
        if kind.contains('\0') || value.contains('\0') {
            return Err(Code::InvalidKeyFormat);
        }
        Ok(())
    }

    /// Whether a text is a whole key.
    #[must_use]
    pub fn is_valid(text: &str) -> bool {
        Self::check(text).is_ok()
    }

    /// Insists that a text is a whole key.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn check(text: &str) -> Result<()> {
        let (kind, value) = split(text).map_err(refusal)?;
        if is_blank(kind) {
            return Err(refusal(Code::TypeRequired));
        }
        if is_blank(value) {
            return Err(refusal(Code::ValueEmpty));
        }
        Self::validate(kind, value).map_err(refusal)
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.text[..self.colon]
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.text[self.colon + SEPARATOR.len_utf8()..]
    }

    /// The whole key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As [`new`](Self::new), with the codes a request to reserve answers with.
    pub(super) fn to_reserve(kind: &str, value: &str) -> Result<Self> {
        Self::validate(kind, value).map_err(|code| {
            refusal(match code {
                Code::KeyEmpty | Code::TypeRequired | Code::TypeContainsSeparator => {
                    Code::InvalidType
                }
                Code::ValueRequired => Code::InvalidValue,
                Code::InvalidKeyFormat if kind.contains('\0') => Code::InvalidType,
                Code::InvalidKeyFormat => Code::InvalidValue,
                other => other,
            })
        })?;
        Self::new(kind, value)
    }
}

/// Splits a whole key at its first colon.
fn split(text: &str) -> Result<(&str, &str), Code> {
    if is_blank(text) {
        return Err(Code::KeyEmpty);
    }
    text.split_once(SEPARATOR).ok_or(Code::InvalidKeyFormat)
}

fn refusal(code: Code) -> Error {
    code.error(match code {
        Code::KeyEmpty => "the key is empty; it has the form kind:value",
        Code::TypeRequired => "the kind is missing; a key has the form kind:value",
        Code::ValueRequired | Code::ValueEmpty => {
            "the value is missing; a key has the form kind:value"
        }
        Code::TypeContainsSeparator => "the kind holds a colon; only the value may",
        Code::TypeTooLong => "the kind is longer than 64 UTF-16 units",
        Code::ValueTooLong => "the value is longer than 1024 UTF-16 units",
        Code::InvalidType => "the kind needs 1 to 64 characters, not only spaces, no colon, no NUL",
        Code::InvalidValue => "the value needs 1 to 1024 characters, not only spaces, no NUL",
        _ => "a key has the form kind:value, without NUL",
    })
}

pub(super) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Whether a text has more UTF-16 units than allowed.
pub(super) fn is_longer(text: &str, max: usize) -> bool {
    // Never fewer bytes than units, so that most texts need not be counted.
    text.len() > max && text.encode_utf16().count() > max
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.text.escape_debug())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code<T>(result: Result<T>) -> Option<Code> {
        result.err().and_then(|error| error.code())
    }

    /// S3-02, S3-17: three formats, the first colon splits, extraction.
    #[test]
    fn keys_are_put_together_and_taken_apart() {
        for (kind, value, text) in [
            ("email", "alice@example.com", "email:alice@example.com"),
            ("phone", "+1-555-0123", "phone:+1-555-0123"),
            ("url", "https://x:8080", "url:https://x:8080"),
        ] {
            let key = Key::new(kind, value).unwrap();
            assert_eq!(key.as_str(), text);
            assert_eq!(Key::parse(text).unwrap(), key);
            assert_eq!((key.kind(), key.value()), (kind, value));
            assert_eq!(Key::kind_of(text), Some(kind));
            assert_eq!(Key::value_of(text), Some(value));
            assert!(Key::is_valid(text) && Key::check(text).is_ok());
        }
        assert_eq!(Key::try_new("", "x"), None);
        assert_eq!((Key::kind_of("none"), Key::value_of("none")), (None, None));
    }

    /// S3-03, S3-17: every code of the parts and of the whole key.
    #[test]
    fn what_is_wrong_with_a_key_has_its_own_code() {
        let long = |length| "x".repeat(length);
        for (kind, value, wanted) in [
            ("", " ", Code::KeyEmpty),
            (" ", "x", Code::TypeRequired),
            ("x", "\t", Code::ValueRequired),
            ("a:b", "x", Code::TypeContainsSeparator),
            (&*long(65), "x", Code::TypeTooLong),
            ("x", &*long(1025), Code::ValueTooLong),
            ("x", "\0", Code::InvalidKeyFormat),
        ] {
            assert_eq!(
                code(Key::new(kind, value)),
                Some(wanted),
                "{kind:?} {value:?}"
            );
        }
        for (text, wanted) in [
            ("  ", Code::KeyEmpty),
            ("nocolon", Code::InvalidKeyFormat),
            (":x", Code::TypeRequired),
            ("x: ", Code::ValueEmpty),
            (&*format!("{}:x", long(65)), Code::TypeTooLong),
            (&*format!("x:{}", long(1025)), Code::ValueTooLong),
        ] {
            assert_eq!(code(Key::parse(text)), Some(wanted), "{text:?}");
            assert!(!Key::is_valid(text));
        }
    }

    /// S3-04: the bounds are inclusive and count UTF-16 units.
    #[test]
    fn lengths_are_counted_in_utf_16_units_and_bounds_are_inclusive() {
        assert!(Key::new(&"x".repeat(64), &"x".repeat(1024)).is_ok());
        assert!(Key::new(&"€".repeat(64), &"€".repeat(1024)).is_ok());
        let pairs = "\u{1f600}".repeat(512);
        assert!(Key::new("x", &pairs).is_ok());
        assert_eq!(
            code(Key::new("x", &format!("{pairs}x"))),
            Some(Code::ValueTooLong)
        );
    }
}
