//! Keys: record number to key bytes and back, in order.
//!
//! Records are numbered `0..count`, and a larger number always has a larger key, so a scan must
//! meet the numbers in sequence: that makes every seek and range checkable. The position of a
//! record in the 64-bit key space is its number ([`Layout::Dense`]) or a pseudo-random point of its
//! share of the space ([`Layout::Scattered`], the default: keys as unlike each other as hashes or
//! UUIDs); in [`Layout::Clustered`] the shares belong to groups of consecutive keys. From 16 bytes
//! on the position is printed in hex, zero-padded on the left; shorter keys, and those of
//! [`Layout::Binary`], hold it in big-endian binary.

use crate::data::random::{mix, scale};
use serde::{Deserialize, Serialize};

/// How record numbers are spread over the key space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Layout {
    /// Consecutive numbers are consecutive keys.
    Dense,
    /// Each record lies at a pseudo-random point of its equal share.
    Scattered,
    /// Groups of consecutive keys; the groups lie scattered.
    Clustered,
    /// Dense, and of any length the number in eight bytes, big-endian, before `0` characters: the
    /// keys of `db_bench`.
    Binary,
}

const HEX_DIGITS: usize = 16;

/// The keys of one data set.
#[derive(Debug, Clone)]
pub(crate) struct KeySpace {
    count: u64,
    key_bytes: usize,
    /// Distance between two shares of the space; 1 when dense.
    stride: u64,
    /// Records of one share: 1, or the size of a cluster.
    group: u64,
    layout: Layout,
    seed: u64,
}

impl KeySpace {
    /// A space of `count` keys of `key_bytes` bytes, or why there is none; `group` is the size of a
    /// cluster and matters only in the clustered layout.
    pub(crate) fn new(
        count: u64,
        key_bytes: usize,
        layout: Layout,
        group: u64,
        seed: u64,
    ) -> Result<Self, String> {
        let position_bits = if key_bytes >= 8 { 64 } else { 8 * key_bytes };
        let last = if position_bits == 64 { u64::MAX } else { (1_u64 << position_bits) - 1 };
        if key_bytes == 0 || count == 0 || count - 1 > last {
            return Err(format!("{count} keys do not fit in keys of {key_bytes} bytes"));
        }
        let group = if layout == Layout::Clustered { group.max(1) } else { 1 };
        let stride = match layout {
            Layout::Dense | Layout::Binary => 1,
            Layout::Scattered | Layout::Clustered => (last / count.div_ceil(group)).max(1),
        };
        if stride < group {
            return Err(format!("clusters of {group} do not fit in keys of {key_bytes} bytes"));
        }
        Ok(Self { count, key_bytes, stride, group, layout, seed })
    }

    /// Number of records.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of every key.
    pub(crate) fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Whether keys hold hex digits.
    fn prints(&self) -> bool {
        self.key_bytes >= HEX_DIGITS && self.layout != Layout::Binary
    }

    fn position(&self, record: u64) -> u64 {
        match self.layout {
            Layout::Dense | Layout::Binary => record,
            Layout::Scattered => record * self.stride + scale(mix(record ^ self.seed), self.stride),
            Layout::Clustered => {
                let (share, place) = (record / self.group, record % self.group);
                let free = self.stride - self.group + 1;
                share * self.stride + scale(mix(share ^ self.seed), free) + place
            }
        }
    }

    /// Writes a key that no record has, right after the record's key if there is room; false if the
    /// space is too full for one.
    pub(crate) fn encode_absent(&self, record: u64, key: &mut [u8]) -> bool {
        self.encode(record, key);
        if self.key_bytes > 8 {
            // Digits and padding are ASCII, so no record's key has this bit in its last byte.
            if let Some(last) = key.last_mut() {
                *last |= 0x80;
            }
            return true;
        }
        for distance in 1..=4 {
            let position = self.position(record).wrapping_add(distance);
            key.copy_from_slice(&position.to_be_bytes()[8 - self.key_bytes..]);
            if self.decode(key).is_none() {
                return true;
            }
        }
        false
    }

    /// Writes the key of a record into `key`, which has `key_bytes` bytes.
    pub(crate) fn encode(&self, record: u64, key: &mut [u8]) {
        let position = self.position(record);
        let chunk = key.split_last_chunk_mut::<HEX_DIGITS>();
        if let (true, Some((padding, digits))) = (self.prints(), chunk) {
            if !padding.is_empty() {
                padding.fill(b'0');
            }
            digits[..8].copy_from_slice(&hex_digits((position >> 32) as u32));
            digits[8..].copy_from_slice(&hex_digits(position as u32));
        } else if self.key_bytes >= 8 {
            let (digits, padding) = key.split_at_mut(8);
            digits.copy_from_slice(&position.to_be_bytes());
            padding.fill(b'0');
        } else {
            key.copy_from_slice(&position.to_be_bytes()[8 - self.key_bytes..]);
        }
    }

    /// The record whose key this is, or `None` if no record has this key.
    pub(crate) fn decode(&self, key: &[u8]) -> Option<u64> {
        if key.len() != self.key_bytes {
            return None;
        }
        let (position, padding) = if self.prints() {
            let (padding, digits) = key.split_at(self.key_bytes - HEX_DIGITS);
            (parse_hex(digits)?, padding)
        } else {
            let (number, padding) = key.split_at(self.key_bytes.min(8));
            (number.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte)), padding)
        };
        let share = position / self.stride;
        let record = if self.group == 1 {
            share
        } else {
            let first = share.checked_mul(self.group)?;
            first + position.checked_sub(self.position(first))?.min(self.group - 1)
        };
        let padded = padding.iter().all(|byte| *byte == b'0');
        (record < self.count && padded && self.position(record) == position).then_some(record)
    }
}

/// The number that lower-case hex digits stand for.
fn parse_hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some((number << 4) | u64::from(value))
    })
}

/// Eight lower-case hex digits of a number, without a branch or a table.
fn hex_digits(number: u32) -> [u8; 8] {
    let mut nibbles = u64::from(number);
    nibbles = ((nibbles & 0xffff_0000) << 16) | (nibbles & 0xffff);
    nibbles = ((nibbles & 0x0000_ff00_0000_ff00) << 8) | (nibbles & 0x0000_00ff_0000_00ff);
    nibbles = ((nibbles & 0x00f0_00f0_00f0_00f0) << 4) | (nibbles & 0x000f_000f_000f_000f);
    // A nibble above 9 carries into bit 4 when 6 is added; letters are 0x27 further than digits.
    let letters = ((nibbles + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (nibbles + 0x3030_3030_3030_3030 + letters * 0x27).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_matches_the_standard_library() {
        for number in [0, 1, 9, 10, 15, 16, 0x89ab_cdef, 0x1234_5678, u32::MAX] {
            assert_eq!(hex_digits(number), format!("{number:08x}").as_bytes());
        }
    }

    #[test]
    fn keys_are_ordered_distinct_and_decodable() {
        for key_bytes in [3, 4, 8, 9, 16, 24, 256] {
            use Layout::{Binary, Clustered, Dense, Scattered};
            for layout in [Dense, Scattered, Clustered, Binary] {
                let keys = KeySpace::new(5_000, key_bytes, layout, 64, 7).unwrap();
                let mut previous = Vec::new();
                for record in 0..5_000 {
                    let mut key = vec![0; key_bytes];
                    keys.encode(record, &mut key);
                    assert!(key > previous, "{key_bytes} {layout:?} {record}");
                    assert_eq!(keys.decode(&key), Some(record));
                    previous.clone_from(&key);
                    if keys.encode_absent(record, &mut key) {
                        assert_eq!(keys.decode(&key), None, "{key_bytes} {layout:?} {record}");
                        assert_ne!(key, previous);
                    } else {
                        assert!(key_bytes <= 8 && layout != Layout::Scattered);
                    }
                }
                previous[key_bytes - 1] ^= 1;
                assert_eq!(keys.decode(&previous[1..]), None);
            }
        }
        let binary = KeySpace::new(5_000, 16, Layout::Binary, 1, 7).unwrap();
        let mut key = [0; 16];
        binary.encode(0x0102, &mut key);
        assert_eq!(&key, b"\0\0\0\0\0\0\x01\x0200000000");
        assert!(KeySpace::new(257, 1, Layout::Dense, 1, 0).is_err());
        assert!(KeySpace::new(256, 1, Layout::Scattered, 1, 0).is_ok());
    }
}
