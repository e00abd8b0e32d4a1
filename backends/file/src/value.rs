//! A record as bytes: a checksum, the moment the index knows it by, and the record itself.

use leasehold_core::{Error, ErrorKind, Record, Result};

/// The index has no entry for the record.
pub(crate) const NOT_INDEXED: u64 = u64::MAX;

const CHECKSUM: usize = 4;

/// What the file has under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    /// Under which moment the index has the record, in milliseconds; at or before the one it is really due.
    pub(crate) indexed: u64,
    pub(crate) record: Record,
}

/// What the file gets of an encoded record that the index knows by `indexed`.
pub(crate) fn encode(name: &[u8], record: &[u8], indexed: u64) -> Vec<u8> {
    sealed(name, &[&indexed.to_le_bytes(), record])
}

/// Reads what [`encode`] wrote.
pub(crate) fn decode(name: &[u8], bytes: &[u8]) -> Result<Value> {
    let content = unsealed(name, bytes).and_then(<[u8]>::split_first_chunk::<8>);
    let (indexed, json) = content.ok_or_else(|| damaged(name))?;
    let record = Record::decode(json)?;
    if record.name.encoded().as_bytes() != name {
        return Err(damaged(name));
    }
    Ok(Value {
        indexed: u64::from_le_bytes(*indexed),
        record,
    })
}

/// Some bytes behind a checksum over them and their key. The engine does not verify what it reads, so this is ours to do;
/// with the key under it, a value under the wrong one is found out.
pub(crate) fn sealed(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0; CHECKSUM];
    for part in parts {
        bytes.extend_from_slice(part);
    }
    let sum = checksum(key, &bytes[CHECKSUM..]);
    bytes[..CHECKSUM].copy_from_slice(&sum);
    bytes
}

/// What was [`sealed`] under this key, if it still is what it was.
pub(crate) fn unsealed<'a>(key: &[u8], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (sum, content) = bytes.split_first_chunk::<CHECKSUM>()?;
    (*sum == checksum(key, content)).then_some(content)
}

fn checksum(key: &[u8], content: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(content);
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
        let bytes = encode(b"n/k", &record.encode().unwrap(), 7);
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
