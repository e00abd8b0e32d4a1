//! Ids of what is reserved: one that cannot collide, and the short one of older systems.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::code::Code;
use super::key::{Key, is_blank, is_longer};
use crate::error::Result;
use crate::name::Name;

/// The longest id, in UTF-16 units.
pub const MAX_ID: usize = 64;

/// The id of whatever is reserved under one key: always the same for the same key, and never the same for two.
///
/// `rsv_` and 160 bits of the SHA-256 of the full name. It proves nothing: confirming and releasing need the secret
/// that only a [`Reservation`](super::Reservation) or its [`Pass`](super::Pass) has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId([u8; 20]);

impl ReservationId {
    /// The id of what is reserved under this name.
    #[must_use]
    pub fn of(name: &Name) -> Self {
        let mut id = [0; 20];
        id.copy_from_slice(&Sha256::digest(name.encoded())[..20]);
        Self(id)
    }

    /// Reads an id; `None` if it is well-formed but not an id of ours, so that nothing can have it.
    ///
    /// # Errors
    /// [`RESERVATION_ID_REQUIRED`](Code::ReservationIdRequired) or
    /// [`RESERVATION_ID_TOO_LONG`](Code::ReservationIdTooLong).
    pub fn parse(text: &str) -> Result<Option<Self>> {
        if is_blank(text) {
            return Err(Code::ReservationIdRequired.error("the reservation id is missing"));
        }
        if is_longer(text, MAX_ID) {
            return Err(Code::ReservationIdTooLong
                .error("the reservation id is longer than 64 UTF-16 units"));
        }
        Ok(text.strip_prefix("rsv_").and_then(from_hex).map(Self))
    }
}

fn from_hex(text: &str) -> Option<[u8; 20]> {
    let lower = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    if text.len() != 40 || !text.bytes().all(lower) {
        return None;
    }
    let mut bytes = [0; 20];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok()?;
    }
    Some(bytes)
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rsv_")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReservationId({self})")
    }
}

impl Key {
    /// The short id that older systems give this key: `res_` and a hash of 32 bits.
    ///
    /// Of 77,000 keys two share an id as often as not, so it finds candidates and decides nothing.
    #[must_use]
    pub fn short_id(&self) -> String {
        let hash = self.as_str().encode_utf16().fold(5381_u32, |hash, unit| {
            hash.wrapping_mul(33) ^ u32::from(unit)
        });
        format!("res_{hash:08x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S3-05: the eight vectors.
    #[test]
    fn short_ids_are_those_of_older_systems() {
        for (key, id) in [
            ("email:alice@example.com", "res_f744ee56"),
            ("username:alice", "res_c2dbfc0b"),
            ("email:alice", "res_d9a402f1"),
            ("url:https://example.com:8080", "res_25db0398"),
            ("phone:+1-555-0123", "res_dc0f052c"),
            ("a:b", "res_0b873e5c"),
            ("username:\u{e9}", "res_586b7320"),
            ("username:\u{1f600}", "res_65e1f474"),
        ] {
            assert_eq!(Key::parse(key).unwrap().short_id(), id, "{key}");
        }
    }

    /// S3-05, W3-04: two keys whose short ids collide have different ids here.
    #[test]
    fn ids_do_not_collide_where_short_ids_do() {
        let key = |number: u32| Key::new("email", &format!("user{number}@example.com")).unwrap();
        let (one, other) = (key(3_349_094), key(4_805_900));
        let id = |key: &Key| ReservationId::of(&Name::new("n", key.as_str()).unwrap());
        assert_eq!(one.short_id(), other.short_id());
        assert_ne!(id(&one), id(&other));
    }

    #[test]
    fn an_id_is_deterministic_and_reads_back() {
        let name = Name::new("shop", "email:alice").unwrap();
        let id = ReservationId::of(&name);
        assert_eq!(id, ReservationId::of(&name));
        assert_eq!(ReservationId::parse(&id.to_string()).unwrap(), Some(id));
        assert_ne!(
            id,
            ReservationId::of(&Name::new("other", "email:alice").unwrap())
        );
        let code = |text: &str| ReservationId::parse(text).unwrap_err().code();
        assert_eq!(code(" "), Some(Code::ReservationIdRequired));
        assert_eq!(code(&"x".repeat(65)), Some(Code::ReservationIdTooLong));
        for unknown in ["res_f744ee56", "rsv_", &"x".repeat(64), "rsv_+1"] {
            assert_eq!(ReservationId::parse(unknown).unwrap(), None);
        }
    }
}
