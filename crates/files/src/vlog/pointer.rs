//! Where a large value lies. Encoded into the table entry, and into log records, in place of the
//! value: four varints, at most [`MAX_POINTER_BYTES`].

use super::record::RECORD_HEADER_BYTES;
use tidesdb_base::codec::{Decoder, Malformed, put_varint};

/// Longest encoded pointer: file and offset take at most ten bytes each, the lengths five.
pub const MAX_POINTER_BYTES: usize = 30;

/// Where a value lies in which value log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValuePointer {
    /// Number of the value-log file.
    pub file: u64,
    /// Offset of the record in bytes.
    pub offset: u64,
    /// Bytes of the value as stored.
    pub stored_len: u32,
    /// Bytes of the value.
    pub raw_len: u32,
}

impl ValuePointer {
    /// Appends the encoded form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.file);
        put_varint(out, self.offset);
        put_varint(out, u64::from(self.stored_len));
        put_varint(out, u64::from(self.raw_len));
    }

    /// Reads the encoded form, which must fill `bytes`.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let length = |number: u64| u32::try_from(number).map_err(|_| Malformed);
        let pointer = Self {
            file: decoder.varint()?,
            offset: decoder.varint()?,
            stored_len: length(decoder.varint()?)?,
            raw_len: length(decoder.varint()?)?,
        };
        if decoder.is_empty() { Ok(pointer) } else { Err(Malformed) }
    }

    /// Bytes that the record takes in its file.
    #[must_use]
    pub const fn record_bytes(&self) -> u64 {
        RECORD_HEADER_BYTES as u64 + self.stored_len as u64
    }
}
