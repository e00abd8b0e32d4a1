//! A record as bytes: a checksum, the moment the index knows it by, and the record itself.

use leasehold_core::{Error, ErrorKind, Record, Result};

/// The index has no entry for the record.
pub(crate) const NOT_INDEXED: u64 = u64::MAX;

const CHECKSUM: usize = 4;
const HEAD: usize = CHECKSUM + 8;

/// What the file has under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    /// Under which moment the index has the record, in milliseconds; at or before the one it is really due.
    pub(crate) indexed: u64,
    pub(crate) record: Record,
}

/// The bytes of a record that the index knows by `indexed`.
pub(crate) fn encode(record: &Record, indexed: u64) -> Result<Vec<u8>> {
    let json = record.encode()?;
    let mut bytes = Vec::with_capacity(HEAD + json.len());
    bytes.extend([0; CHECKSUM]);
    bytes.extend(indexed.to_le_bytes());
    bytes.extend(json);
    let sum = checksum(record.name.encoded().as_bytes(), &bytes[CHECKSUM..]);
    bytes[..CHECKSUM].copy_from_slice(&sum);
    Ok(bytes)
}

/// Reads what [`encode`] wrote. The engine does not verify what it reads, so the checksum is ours; the name is under it as
/// well, so that a record under the wrong name is found out.
pub(crate) fn decode(name: &[u8], bytes: &[u8]) -> Result<Value> {
    let (Some((sum, rest)), Some((indexed, json))) = (
        bytes.split_first_chunk::<CHECKSUM>(),
        bytes
            .get(CHECKSUM..)
            .and_then(<[u8]>::split_first_chunk::<8>),
    ) else {
        return Err(damaged(name));
    };
    if *sum != checksum(name, rest) {
        return Err(damaged(name));
    }
    let record = Record::decode(json)?;
    if record.name.encoded().as_bytes() != name {
        return Err(damaged(name));
    }
    Ok(Value {
        indexed: u64::from_le_bytes(*indexed),
        record,
    })
}

fn checksum(name: &[u8], rest: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(name);
    hasher.update(rest);
    hasher.finalize().to_le_bytes()
}

fn damaged(name: &[u8]) -> Error {
    let name = String::from_utf8_lossy(name);
    let detail = format!("the stored record of {name:?} is damaged: its checksum is wrong");
    Error::new(ErrorKind::Corrupt, detail)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use leasehold_core::Name;

    use super::*;

    #[test]
    fn a_record_comes_back_and_any_flipped_bit_is_found() {
        let record = Record::new(Name::new("n", "k").unwrap());
        let bytes = encode(&record, 7).unwrap();
        let value = decode(b"n/k", &bytes).unwrap();
        assert_eq!(value, Value { indexed: 7, record });
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            let error = decode(b"n/k", &flipped).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "bit {at}");
        }
        for length in 0..bytes.len() {
            assert!(decode(b"n/k", &bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(decode(b"n/l", &bytes).is_err());
    }
}
