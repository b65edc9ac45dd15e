//! The payload of a commit record: the operations of one write batch, in order.
//!
//! ```text
//! operation = kind 8 | family varint | key length varint | value length varint
//!             | [expiry 64, when bit 7 of kind is set] | key | value
//! ```
//! The value of a [`ValueKind::ValuePointer`] is the encoded pointer into a value-log file. Key and
//! value of a [`ValueKind::RangeTombstone`] are the first key deleted and the one behind the last.
//! Keys have 1 to [`MAX_KEY_BYTES`] bytes and ranges hold some key: [`Operation::checked`].

use tidesdb_base::codec::{Decoder, Malformed, put_varint};
use tidesdb_base::entry::{NEVER_EXPIRES, ValueKind};
use tidesdb_base::key_ranges::is_range;
use tidesdb_base::limits::MAX_KEY_BYTES;

const EXPIRY_FLAG: u8 = 0x80;

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// Number of the column family.
    pub family: u32,
    /// Put, pointer, deletion or deletion of a range.
    pub kind: ValueKind,
    /// Unix second at which the value expires; zero for never.
    pub expires_at: u64,
    /// The key.
    pub key: &'a [u8],
    /// The value; empty for deletions.
    pub value: &'a [u8],
}

impl Operation<'_> {
    /// The operation, if it is one that a commit can hold. Bytes of a log with the right checksum
    /// may be made up, and what is built from an operation relies on these bounds: a manifest with
    /// an empty range would not be read again.
    ///
    /// # Errors
    /// [`Malformed`] for a key of no or too many bytes, and for a range without keys.
    #[inline]
    pub fn checked(self) -> Result<Self, Malformed> {
        let is_key = |bytes: &[u8]| (1..=MAX_KEY_BYTES).contains(&bytes.len());
        let is_possible = match self.kind {
            ValueKind::RangeTombstone => {
                let ends = self.value.is_empty() || is_key(self.value);
                ends && is_range(self.key, self.value)
            }
            _ => true,
        };
        if is_key(self.key) && is_possible { Ok(self) } else { Err(Malformed) }
    }
}

/// Appends operations to a buffer.
#[derive(Debug)]
pub struct BatchWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> BatchWriter<'a> {
    /// A writer that appends to `out`.
    pub const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Appends one operation.
    #[inline(always)]
    pub fn push(&mut self, operation: Operation<'_>) {
        let expires = operation.expires_at != NEVER_EXPIRES;
        self.out.reserve(operation.key.len() + operation.value.len() + 30);
        self.out.push(operation.kind as u8 | if expires { EXPIRY_FLAG } else { 0 });
        put_varint(self.out, u64::from(operation.family));
        put_varint(self.out, operation.key.len() as u64);
        put_varint(self.out, operation.value.len() as u64);
        if expires {
            self.out.extend_from_slice(&operation.expires_at.to_le_bytes());
        }
        self.out.extend_from_slice(operation.key);
        self.out.extend_from_slice(operation.value);
    }
}

/// Reads the operations of a payload in order. After an error it ends.
#[derive(Clone, Debug)]
pub struct BatchReader<'a> {
    decoder: Decoder<'a>,
}

impl<'a> BatchReader<'a> {
    /// A reader over a whole payload.
    #[must_use]
    pub const fn new(payload: &'a [u8]) -> Self {
        Self { decoder: Decoder::new(payload) }
    }

    /// Bytes that are left to read.
    #[inline]
    #[must_use]
    pub const fn remaining_bytes(&self) -> usize {
        self.decoder.remaining().len()
    }

    #[inline(always)]
    fn read(&mut self) -> Result<Operation<'a>, Malformed> {
        let tag = self.decoder.u8()?;
        let kind = ValueKind::from_u8(tag & !EXPIRY_FLAG).ok_or(Malformed)?;
        let family = u32::try_from(self.decoder.varint()?).map_err(|_| Malformed)?;
        let key_length = self.decoder.length()?;
        let value_length = self.decoder.length()?;
        let expires_at = if tag & EXPIRY_FLAG == 0 { NEVER_EXPIRES } else { self.decoder.u64()? };
        let key = self.decoder.take(key_length)?;
        let value = self.decoder.take(value_length)?;
        Ok(Operation { family, kind, expires_at, key, value })
    }
}

impl<'a> Iterator for BatchReader<'a> {
    type Item = Result<Operation<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.decoder.is_empty() {
            return None;
        }
        let item = self.read();
        if item.is_err() {
            self.decoder = Decoder::new(&[]);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn batches_round_trip(operations: Vec<(u32, bool, u64, Vec<u8>, Vec<u8>)>) {
            let mut out = Vec::new();
            let wanted: Vec<Operation<'_>> = operations
                .iter()
                .map(|(family, put, expires_at, key, value)| Operation {
                    family: *family,
                    kind: if *put { ValueKind::Value } else { ValueKind::Tombstone },
                    expires_at: *expires_at,
                    key,
                    value,
                })
                .collect();
            for operation in &wanted {
                BatchWriter::new(&mut out).push(*operation);
            }
            let read: Result<Vec<_>, _> = BatchReader::new(&out).collect();
            prop_assert_eq!(read.unwrap(), wanted);
        }

        #[test]
        fn hostile_payloads_end_in_an_error(bytes: Vec<u8>) {
            prop_assert!(BatchReader::new(&bytes).count() <= bytes.len());
        }
    }
}
