//! What concerns all records of a file.

use leasehold_core::{Error, ErrorKind, Moment, Result};

use crate::clock::Reading;
use crate::value::{sealed, unsealed};

/// The key it has among the records. No name begins like this.
pub(crate) const KEY: &[u8] = b"\0";

/// The form of the file; see [`leasehold_core::RECORD_SCHEMA`] for that of a record.
const FORM: u64 = 1;

/// What concerns all records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    /// No token below this may be given any more.
    pub(crate) next_token: u64,
    /// The time as it was when this was written.
    pub(crate) reading: Reading,
}

impl Meta {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let numbers = [
            FORM,
            self.next_token,
            self.reading.micros,
            self.reading.moment.as_nanos(),
        ];
        let [form, next_token, micros, moment] = numbers.map(u64::to_le_bytes);
        let boot = self.reading.boot.as_bytes();
        sealed(KEY, &[&form, &next_token, &micros, &moment, boot])
    }

    /// Reads what [`encode`](Self::encode) wrote; refuses a form that is not known here.
    pub(crate) fn decode(bytes: Option<&[u8]>) -> Result<Self> {
        let bytes = bytes.ok_or_else(|| corrupt("it is no file of this store"))?;
        let mut rest = unsealed(KEY, bytes).ok_or_else(cut_off)?;
        let mut number = || {
            let (number, after) = rest.split_first_chunk::<8>().ok_or_else(cut_off)?;
            rest = after;
            Ok::<_, Error>(u64::from_le_bytes(*number))
        };
        let form = number()?;
        if form != FORM {
            return Err(corrupt(format!(
                "it has form {form}, but only {FORM} is known here; use the version of leasehold that wrote it"
            )));
        }
        let (next_token, micros, moment) = (number()?, number()?, number()?);
        let boot = String::from_utf8(rest.to_vec()).map_err(|_| cut_off())?;
        Ok(Self {
            next_token,
            reading: Reading {
                micros,
                moment: Moment::from_nanos(moment),
                boot,
            },
        })
    }
}

fn cut_off() -> Error {
    corrupt("what concerns all records is damaged: its checksum is wrong")
}

fn corrupt(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Corrupt, detail)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_any_flipped_bit_is_found() {
        let meta = Meta {
            next_token: 7,
            reading: Reading {
                micros: 1,
                moment: Moment::from_nanos(2),
                boot: "b".to_owned(),
            },
        };
        let bytes = meta.encode();
        assert_eq!(Meta::decode(Some(&bytes)).unwrap(), meta);
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(Meta::decode(Some(&flipped)).is_err(), "bit {at}");
        }
        for length in 0..bytes.len() {
            assert!(Meta::decode(Some(&bytes[..length])).is_err());
        }
        assert!(Meta::decode(None).is_err());
    }

    #[test]
    fn another_form_is_refused_by_its_number() {
        let bytes = sealed(KEY, &[&99_u64.to_le_bytes()]);
        let error = Meta::decode(Some(&bytes)).unwrap_err();
        assert!(error.to_string().contains("form 99"), "{error}");
    }
}
