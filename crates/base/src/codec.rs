//! Bounded encoding and decoding of integers and byte strings.
//!
//! Bytes that come from a file are hostile: [`Decoder`] never reads past its slice and never
//! trusts a length before comparing it with what is left. All integers are little-endian;
//! variable-length ones are LEB128 (seven bits a byte, low bits first).

/// Appends `value` as a LEB128 integer of at most ten bytes.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "takes seven bits at a time")]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Number of bytes [`put_varint`] appends for `value`.
#[inline]
#[must_use]
pub const fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends a length-prefixed byte string.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The first eight bytes of `key` as a big-endian number, padded with zeros: sorts like the keys
/// do, except that keys with equal heads must be compared whole.
#[inline]
#[must_use]
pub fn key_head(key: &[u8]) -> u64 {
    if let Some(head) = key.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    for (to, &from) in head.iter_mut().zip(key) {
        *to = from;
    }
    u64::from_be_bytes(head)
}

/// Appends a little-endian 32-bit integer.
#[inline]
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a little-endian 64-bit integer.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// The bytes ended before the value did, or the value is not one this version can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("malformed or truncated encoding")
    }
}

impl std::error::Error for Malformed {}

/// Reads values from the front of a byte slice.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// A decoder over all of `bytes`.
    #[inline]
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not read yet.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    /// True when every byte was read.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes the next `count` bytes.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = tail;
        Ok(head)
    }

    /// Takes one byte.
    ///
    /// # Errors
    /// [`Malformed`] when none is left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        let (&first, tail) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = tail;
        Ok(first)
    }

    /// Takes a little-endian 16-bit integer.
    ///
    /// # Errors
    /// [`Malformed`] when fewer than two bytes are left.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        let (head, tail) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = tail;
        Ok(u16::from_le_bytes(*head))
    }

    /// Takes a little-endian 32-bit integer.
    ///
    /// # Errors
    /// [`Malformed`] when fewer than four bytes are left.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        let (head, tail) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = tail;
        Ok(u32::from_le_bytes(*head))
    }

    /// Takes a little-endian 64-bit integer.
    ///
    /// # Errors
    /// [`Malformed`] when fewer than eight bytes are left.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        let (head, tail) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = tail;
        Ok(u64::from_le_bytes(*head))
    }

    /// Takes a LEB128 integer.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes end inside it or it does not fit 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        match self.rest.split_first() {
            Some((&first, tail)) if first < 0x80 => {
                self.rest = tail;
                Ok(u64::from(first))
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7F);
            if shift > 63 || (shift == 63 && bits > 1) {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    /// Takes a LEB128 integer as a length in memory.
    ///
    /// # Errors
    /// [`Malformed`] when it is cut short or does not fit `usize`.
    #[inline]
    pub fn length(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.varint()?).map_err(|_| Malformed)
    }

    /// Takes a length-prefixed byte string.
    ///
    /// # Errors
    /// [`Malformed`] when the length exceeds what is left.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.length()?;
        self.take(length)
    }

    /// Takes a length-prefixed UTF-8 string.
    ///
    /// # Errors
    /// [`Malformed`] when it is cut short or not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_len(value));
            let mut decoder = Decoder::new(&out);
            prop_assert_eq!(decoder.varint(), Ok(value));
            prop_assert!(decoder.is_empty());
        }

        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(&bytes);
            while decoder.bytes().is_ok() && !decoder.is_empty() {}
            let _ = Decoder::new(&bytes).text();
            let _ = Decoder::new(&bytes).varint();
        }
    }

    #[test]
    fn overlong_varints_are_refused() {
        assert_eq!(Decoder::new(&[0xFF; 11]).varint(), Err(Malformed));
        let mut max = vec![0xFF; 9];
        max.push(0x02);
        assert_eq!(Decoder::new(&max).varint(), Err(Malformed));
    }
}
