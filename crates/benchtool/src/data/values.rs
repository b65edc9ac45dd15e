//! Values: the bytes of a record's n-th generation, cheap to make and cheap to check.
//!
//! A value begins with the record number and the generation (12 bytes, little-endian); the rest is
//! a slice of a pool at a place that depends on both. So a reader that knows the record can tell a
//! wrong value, a stale generation and damaged bytes apart without any table of what was written.
//!
//! The pool is made of 32-byte cells, each some random bytes followed by a run of one byte, in a
//! proportion that lets LZ4 reach about the wanted ratio at any place of the slice.

use crate::data::random::{Random, mix, scale};

/// Bytes before the pool slice.
pub(crate) const HEADER_BYTES: usize = 12;
const CELL_BYTES: usize = 32;
const POOL_BYTES: usize = 1 << 20;

/// Maker and checker of values.
#[derive(Debug)]
pub(crate) struct Values {
    pool: Vec<u8>,
    value_bytes: usize,
    seed: u64,
}

impl Values {
    /// Values of `value_bytes` bytes that compress to about `ratio` (1.0: not at all).
    pub(crate) fn new(value_bytes: usize, ratio: f64, seed: u64) -> Result<Self, String> {
        if value_bytes < HEADER_BYTES {
            return Err(format!("values need at least {HEADER_BYTES} bytes to be checkable"));
        }
        let mut random = Random::new(seed, 0x7661_6c75_6573);
        let mut pool = vec![0; POOL_BYTES.max(2 * value_bytes)];
        // A run costs LZ4 about four bytes: token, offset, and the byte that is repeated.
        let random_bytes = (ratio * CELL_BYTES as f64 - 4.0).clamp(0.0, CELL_BYTES as f64) as usize;
        let random_bytes = if ratio >= 1.0 { CELL_BYTES } else { random_bytes };
        for cell in pool.chunks_mut(CELL_BYTES) {
            let run = (random.next_u64() >> 56) as u8;
            for (place, byte) in cell.iter_mut().enumerate() {
                *byte = if place < random_bytes { (random.next_u64() >> 56) as u8 } else { run };
            }
        }
        Ok(Self { pool, value_bytes, seed })
    }

    /// Bytes of every value.
    pub(crate) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    fn tail(&self, record: u64, generation: u32) -> &[u8] {
        let length = self.value_bytes - HEADER_BYTES;
        let places = (self.pool.len() - length) as u64;
        let turned = u64::from(generation).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = scale(mix(record ^ self.seed).wrapping_add(turned), places) as usize;
        &self.pool[place..place + length]
    }

    /// Writes the value of a record's generation into `value`.
    pub(crate) fn fill(&self, record: u64, generation: u32, value: &mut [u8]) {
        value[..8].copy_from_slice(&record.to_le_bytes());
        value[8..HEADER_BYTES].copy_from_slice(&generation.to_le_bytes());
        value[HEADER_BYTES..].copy_from_slice(self.tail(record, generation));
    }

    /// The generation that the header of a value of `record` names; checks length and record.
    pub(crate) fn check_header(&self, record: u64, value: &[u8]) -> Option<u32> {
        if value.len() != self.value_bytes {
            return None;
        }
        let (number, rest) = value.split_first_chunk::<8>()?;
        let generation = rest.first_chunk::<4>()?;
        (u64::from_le_bytes(*number) == record).then(|| u32::from_le_bytes(*generation))
    }

    /// Like [`Self::check_header`], and checks every other byte too.
    pub(crate) fn check(&self, record: u64, value: &[u8]) -> Option<u32> {
        let generation = self.check_header(record, value)?;
        (value[HEADER_BYTES..] == *self.tail(record, generation)).then_some(generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_noticed() {
        let values = Values::new(100, 0.5, 9).unwrap();
        let mut value = vec![0; 100];
        values.fill(77, 3, &mut value);
        assert_eq!(values.check(77, &value), Some(3));
        assert_eq!(values.check(78, &value), None);
        assert_eq!(values.check(77, &value[..99]), None);
        for place in 0..100 {
            let mut damaged = value.clone();
            damaged[place] ^= 0x10;
            assert_eq!(values.check(77, &damaged), None, "byte {place}");
        }
        assert!(Values::new(11, 0.5, 0).is_err());
    }

    #[test]
    fn large_values_fit_the_pool() {
        let values = Values::new(3 << 20, 1.0, 9).unwrap();
        let mut value = vec![0; 3 << 20];
        values.fill(1, 0, &mut value);
        assert_eq!(values.check(1, &value), Some(0));
    }
}
