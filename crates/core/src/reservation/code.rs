//! The permanent names of everything that can be wrong with a reservation.

use std::fmt;

use crate::error::{Error, ErrorKind};

/// Declares the codes together with the words they are known by and the kind of error each belongs to.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $kind:ident;)*) => {
        /// Why a reservation was refused or could not be acted upon, as a word that never changes.
        ///
        /// [`Error::code`] tells it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code as a permanent word.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The kind of error it belongs to.
            #[must_use]
            pub fn kind(self) -> ErrorKind {
                match self {
                    $(Self::$name => ErrorKind::$kind,)*
                }
            }
        }
    };
}

codes! {
    /// The ttl is not a number, or under one second.
    InvalidTtl = "INVALID_TTL", InvalidInput;
    /// The ttl is over 24 hours.
    TtlTooLong = "TTL_TOO_LONG", InvalidInput;
    /// The kind is missing, blank, or holds a colon.
    InvalidType = "INVALID_TYPE", InvalidInput;
    /// The value is missing or blank.
    InvalidValue = "INVALID_VALUE", InvalidInput;
    /// The kind is longer than 64 UTF-16 units.
    TypeTooLong = "TYPE_TOO_LONG", InvalidInput;
    /// The value is longer than 1024 UTF-16 units.
    ValueTooLong = "VALUE_TOO_LONG", InvalidInput;
    /// Somebody has reserved or confirmed it.
    AlreadyReserved = "ALREADY_RESERVED", Conflict;
    /// The id is missing or blank.
    ReservationIdRequired = "RESERVATION_ID_REQUIRED", InvalidInput;
    /// The id is longer than 64 UTF-16 units.
    ReservationIdTooLong = "RESERVATION_ID_TOO_LONG", InvalidInput;
    /// The entity is missing or blank.
    EntityIdRequired = "ENTITY_ID_REQUIRED", InvalidInput;
    /// The entity is longer than 256 UTF-16 units.
    EntityIdTooLong = "ENTITY_ID_TOO_LONG", InvalidInput;
    /// The store knows no such reservation, or has forgotten it.
    ReservationNotFound = "RESERVATION_NOT_FOUND", Lost;
    /// Its time had run out.
    ReservationAlreadyExpired = "RESERVATION_ALREADY_EXPIRED", Lost;
    /// It was confirmed before.
    ReservationAlreadyConfirmed = "RESERVATION_ALREADY_CONFIRMED", Conflict;
    /// It was released before.
    ReservationAlreadyReleased = "RESERVATION_ALREADY_RELEASED", Lost;
    /// The record changed since it was looked at.
    VersionChanged = "VERSION_CHANGED", Conflict;
    /// There is neither a kind nor a value, or no text at all.
    KeyEmpty = "KEY_EMPTY", InvalidInput;
    /// The kind of a key is missing or blank.
    TypeRequired = "TYPE_REQUIRED", InvalidInput;
    /// The value of a key is missing or blank.
    ValueRequired = "VALUE_REQUIRED", InvalidInput;
    /// The kind of a key holds a colon.
    TypeContainsSeparator = "TYPE_CONTAINS_SEPARATOR", InvalidInput;
    /// A whole key has no colon, or holds NUL.
    InvalidKeyFormat = "INVALID_KEY_FORMAT", InvalidInput;
    /// There is nothing but space behind the colon of a whole key.
    ValueEmpty = "VALUE_EMPTY", InvalidInput;
    /// Nothing was asked for.
    EmptyReservation = "EMPTY_RESERVATION", InvalidInput;
    /// A quantity is zero.
    InvalidQuantity = "INVALID_QUANTITY", InvalidInput;
    /// The same thing was asked for twice in one request.
    DuplicateProductIds = "DUPLICATE_PRODUCT_IDS", InvalidInput;
    /// Fewer units are free than were asked for.
    InsufficientStock = "INSUFFICIENT_STOCK", Conflict;
}

impl Code {
    /// An error with this code that changed nothing in the store.
    pub(super) fn error(self, detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
        Error::new(self.kind(), detail).with_code(self)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
