//! How long a reservation may last, and what it may belong to.

use std::time::Duration;

use super::code::Code;
use super::key::{is_blank, is_longer};
use crate::error::{Error, Result};
use crate::lease::Ttl;

/// The shortest reservation.
pub const MIN_TTL: Duration = Duration::from_secs(1);
/// The longest reservation.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a reservation lasts unless told otherwise.
pub const DEFAULT_TTL: Duration = Duration::from_secs(300);
/// The longest entity, in UTF-16 units.
pub const MAX_ENTITY: usize = 256;

pub(super) fn checked_ttl(ttl: Duration) -> Result<Ttl> {
    if ttl < MIN_TTL {
        return Err(too_short(format!("{ttl:?}")));
    }
    if ttl > MAX_TTL {
        return Err(too_long(format!("{ttl:?}")));
    }
    Ttl::new(ttl)
}

/// Reads a ttl given as a number of milliseconds, as JSON has it. Fractions of a millisecond are dropped.
///
/// # Errors
/// [`INVALID_TTL`](Code::InvalidTtl) if it is not a finite number or under 1000,
/// [`TTL_TOO_LONG`](Code::TtlTooLong) if it is over 86,400,000.
pub fn ttl_from_millis(millis: f64) -> Result<Duration> {
    // Not a number is not at least anything.
    if !millis.is_finite() || millis < MIN_TTL.as_millis() as f64 {
        return Err(too_short(format!("{millis} ms")));
    }
    if millis > MAX_TTL.as_millis() as f64 {
        return Err(too_long(format!("{millis} ms")));
    }
    Ok(Duration::from_millis(millis as u64))
}

fn too_short(ttl: String) -> Error {
    Code::InvalidTtl.error(format!(
        "a ttl of {ttl} is not allowed; a reservation lasts 1 second to 24 hours"
    ))
}

fn too_long(ttl: String) -> Error {
    Code::TtlTooLong.error(format!(
        "a ttl of {ttl} is over 24 hours, which is the longest a reservation lasts"
    ))
}

pub(super) fn check_entity(entity: &str) -> Result<()> {
    if is_blank(entity) || entity.contains('\0') {
        return Err(Code::EntityIdRequired.error("the entity is missing, blank or holds NUL"));
    }
    if is_longer(entity, MAX_ENTITY) {
        return Err(Code::EntityIdTooLong.error("the entity is longer than 256 UTF-16 units"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code<T>(result: Result<T>) -> Option<Code> {
        result.err().and_then(|error| error.code())
    }

    /// S3-04: 0, -1, 999, NaN and infinities are refused, both bounds and fractions accepted.
    #[test]
    fn ttls_have_inclusive_bounds_and_must_be_numbers() {
        for bad in [
            0.0,
            -1.0,
            999.0,
            999.9,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ] {
            assert_eq!(code(ttl_from_millis(bad)), Some(Code::InvalidTtl), "{bad}");
        }
        for (good, millis) in [(1000.0, 1000), (1000.5, 1000), (86_400_000.0, 86_400_000)] {
            assert_eq!(
                ttl_from_millis(good).unwrap(),
                Duration::from_millis(millis)
            );
            assert!(checked_ttl(Duration::from_millis(millis)).is_ok());
        }
        let long = ttl_from_millis(86_400_001.0).unwrap_err();
        assert_eq!(long.code(), Some(Code::TtlTooLong));
        assert!(long.to_string().contains("24 hours"), "{long}");
        for bad in [Duration::ZERO, Duration::from_millis(999)] {
            assert_eq!(code(checked_ttl(bad)), Some(Code::InvalidTtl));
        }
        for bad in [Duration::from_millis(86_400_001), Duration::MAX] {
            assert_eq!(code(checked_ttl(bad)), Some(Code::TtlTooLong));
        }
    }

    /// S3-04: 1 to 256 UTF-16 units, not blank.
    #[test]
    fn entities_are_bounded() {
        assert!(check_entity(&"€".repeat(256)).is_ok());
        assert_eq!(
            code(check_entity(&"x".repeat(257))),
            Some(Code::EntityIdTooLong)
        );
        for bad in ["", "  ", "\0"] {
            assert_eq!(code(check_entity(bad)), Some(Code::EntityIdRequired));
        }
    }
}
