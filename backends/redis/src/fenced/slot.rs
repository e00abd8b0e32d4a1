//! Which slot of a cluster a key is in, and how to put another key beside it.

use std::borrow::Cow;

const SLOTS: u16 = 16384;

/// What to put between braces so that a key lands in the slot of this one.
pub(super) fn tag_beside(key: &[u8]) -> Cow<'_, [u8]> {
    match tag(key) {
        Some(tag) => tag.into(),
        None if !key.is_empty() && !key.contains(&b'}') => key.into(),
        // Between braces of ours it would end at its own brace, and be taken for another key.
        None => number_in(slot(key)).into(),
    }
}

/// The part of a key that decides its slot, if it is not the whole: what is between the first brace and the next
/// closing one, unless that is nothing.
fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let rest = &key[open + 1..];
    let close = rest.iter().position(|byte| *byte == b'}')?;
    (close > 0).then(|| &rest[..close])
}

fn slot(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % SLOTS
}

/// The smallest number whose digits are in this slot. There is one below 110,000 for every slot.
fn number_in(wanted: u16) -> Vec<u8> {
    let mut texts = (0..110_000).map(|number: u32| number.to_string().into_bytes());
    texts.find(|text| slot(text) == wanted).unwrap_or_default()
}

/// The checksum that Redis Cluster prescribes: CRC-16 with the polynomial 0x1021, most significant bit first.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| {
            let carry = if sum & 0x8000 == 0 { 0 } else { 0x1021 };
            (sum << 1) ^ carry
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the specification of Redis Cluster.
    #[test]
    fn the_checksum_is_the_prescribed_one() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
    }

    #[test]
    fn a_plain_key_and_a_tag_stay_readable() {
        assert_eq!(tag_beside(b"cart:7"), b"cart:7".as_slice());
        assert_eq!(tag_beside(b"{user:7}:cart"), b"user:7".as_slice());
        assert_eq!(tag_beside(b"a{{b}}c"), b"{b".as_slice());
    }

    #[test]
    fn a_number_stands_in_for_a_key_that_cannot_be_put_between_braces() {
        for key in ["", "{}", "a}", "}{", "{}a{b}", "a}{b", "a{}}"] {
            let tag = tag_beside(key.as_bytes());
            assert!(tag.iter().all(u8::is_ascii_digit), "{key}");
            assert_eq!(slot(&tag), slot(key.as_bytes()), "{key}");
        }
    }

    #[test]
    fn every_slot_has_a_number() {
        let mut slots = vec![false; SLOTS.into()];
        for number in 0..110_000_u32 {
            slots[usize::from(slot(number.to_string().as_bytes()))] = true;
        }
        assert!(slots.into_iter().all(|found| found));
    }
}
