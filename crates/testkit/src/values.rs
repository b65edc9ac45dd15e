//! Values that describe themselves.
//!
//! A value is a function of the transaction and the operation that wrote it, its key and its
//! length: 24 bytes that say so, then a pattern drawn from them, half of it compressible. An old
//! value, the value of another key and a mixture of two are all told apart.

use tidesdb_base::checksum;
use tidesdb_sim::rng::{SplitMix64, mix64};

/// Who wrote a value and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Number of the transaction.
    pub transaction: u64,
    /// Place of the operation in it.
    pub operation: u32,
    /// Bytes of the value.
    pub length: u32,
}

impl Tag {
    /// The value's bytes under `key`.
    #[must_use]
    pub fn bytes(&self, key: &[u8]) -> Vec<u8> {
        let key_hash = checksum::plain(key);
        let length = self.length as usize;
        let mut out = Vec::with_capacity(length + 24);
        out.extend_from_slice(&self.transaction.to_le_bytes());
        out.extend_from_slice(&self.operation.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&key_hash.to_le_bytes());
        let operation = u64::from(self.operation);
        let mut random = SplitMix64::new(mix64(self.transaction ^ mix64(key_hash ^ operation)));
        while out.len() < length {
            let word = random.next_u64().to_le_bytes();
            out.extend_from_slice(&word);
            out.extend_from_slice(&word);
        }
        out.truncate(length);
        out
    }
}

/// What a value says of itself, for reports.
#[must_use]
pub fn describe(value: &[u8]) -> String {
    let number = |from: usize, count: usize| {
        let bytes = value.get(from..from + count).unwrap_or_default();
        bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    if value.len() < 24 {
        return format!("{} bytes {value:02x?}", value.len());
    }
    let claimed = number(12, 4);
    format!(
        "{} bytes, of transaction {} operation {} (length {claimed})",
        value.len(),
        number(0, 8),
        number(8, 4)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_tag_and_the_key_changes_the_value() {
        let tag = Tag { transaction: 7, operation: 2, length: 100 };
        let value = tag.bytes(b"key");
        assert_eq!(value.len(), 100);
        assert_eq!(value, tag.bytes(b"key"));
        for other in [Tag { transaction: 8, ..tag }, Tag { operation: 3, ..tag }] {
            assert_ne!(other.bytes(b"key")[24..], value[24..]);
        }
        assert_ne!(tag.bytes(b"kez")[16..], value[16..]);
        assert_eq!(Tag { length: 3, ..tag }.bytes(b"key"), value[..3]);
        assert!(describe(&value).contains("transaction 7 operation 2 (length 100)"));
    }
}
