//! How many distinct keys several tables hold together, without reading them.
//!
//! Each table carries a HyperLogLog sketch of its keys (Flajolet, Fusy, Gandouet, Meunier:
//! "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm", AofA 2007) with
//! 256 registers. Sketches are merged register by register, so the distinct keys of any set of
//! tables follow from their manifest records alone; the standard error is about 6.5 %. The merge
//! planner compares that with the number of entries to see how much of a family is garbage. Nothing
//! that decides an answer to a user depends on it.
//!
//! Written by the table writer from the same hashes as the filter; kept in the table's properties
//! and in its manifest record.
#![expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "takes some bits of a hash: as many as there are registers"
)]

/// Registers of a sketch.
const REGISTERS: usize = 256;
/// Bits of a hash that choose the register.
const REGISTER_BITS: u32 = REGISTERS.trailing_zeros();

/// A sketch of a set of keys.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySketch {
    registers: Box<[u8; REGISTERS]>,
}

impl KeySketch {
    /// What it takes in memory elsewhere.
    pub(crate) const HEAP_BYTES: usize = REGISTERS;
}

impl std::fmt::Debug for KeySketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeySketch(about {})", self.estimate())
    }
}

impl Default for KeySketch {
    fn default() -> Self {
        Self { registers: Box::new([0; REGISTERS]) }
    }
}

/// Exponent of 1.0 as an `f64` has it, and where the exponent begins.
const EXPONENT_OF_ONE: u16 = 1023;
const EXPONENT_SHIFT: u32 = 52;

/// Two to the power of `-rank`. Each plan of a compaction adds up thousands of these: the general
/// function took half of the time.
const fn part_of_one(rank: u8) -> f64 {
    f64::from_bits(((EXPONENT_OF_ONE - rank as u16) as u64) << EXPONENT_SHIFT)
}

impl KeySketch {
    /// Adds the key with this hash, as the filter computes it.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        // The filter uses the hash as it is; another mix keeps the two independent.
        let mixed = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = mixed ^ (mixed >> 32);
        let register = (mixed as usize) & (REGISTERS - 1);
        let rank = ((mixed >> REGISTER_BITS) | 1 << (63 - REGISTER_BITS)).trailing_zeros() as u8;
        let held = &mut self.registers[register];
        *held = (*held).max(rank + 1);
    }

    /// Adds all keys of another sketch.
    pub fn merge(&mut self, other: &Self) {
        for (held, more) in self.registers.iter_mut().zip(other.registers.iter()) {
            *held = (*held).max(*more);
        }
    }

    /// About how many distinct keys were added.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        let count = REGISTERS as f64;
        let sum: f64 = self.registers.iter().map(|&rank| part_of_one(rank)).sum();
        // The constant for 256 registers, from the paper.
        let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
        let empty = self.registers.iter().filter(|&&rank| rank == 0).count();
        if raw <= 2.5 * count && empty > 0 {
            return (count * (count / empty as f64).ln()).round() as u64;
        }
        raw.round() as u64
    }

    /// The persisted form.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.registers.as_slice()
    }

    /// Reads the persisted form; `None` for another length.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let registers: [u8; REGISTERS] = bytes.try_into().ok()?;
        Some(Self { registers: Box::new(registers) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::key_hash;

    fn sketch_of(range: std::ops::Range<u64>) -> KeySketch {
        let mut sketch = KeySketch::default();
        range.for_each(|key| sketch.add(key_hash(&key.to_be_bytes())));
        sketch
    }

    #[test]
    fn parts_of_one_are_powers_of_two() {
        for rank in 0..=u8::MAX {
            assert_eq!(part_of_one(rank), f64::from(-i32::from(rank)).exp2(), "{rank}");
        }
    }

    fn assert_near(estimate: u64, truth: u64) {
        let error = (estimate as f64 - truth as f64).abs() / truth as f64;
        assert!(error < 0.2, "{estimate} for {truth}");
    }

    #[test]
    fn distinct_keys_are_estimated() {
        assert_eq!(KeySketch::default().estimate(), 0);
        for count in [10, 300, 1_000, 50_000, 1_000_000] {
            assert_near(sketch_of(0..count).estimate(), count);
        }
    }

    #[test]
    fn a_key_counts_once_in_a_union() {
        let mut union = sketch_of(0..60_000);
        union.merge(&sketch_of(40_000..100_000));
        assert_near(union.estimate(), 100_000);
        let alone = union.estimate();
        union.merge(&sketch_of(0..100_000));
        assert_eq!(union.estimate(), alone);
    }

    #[test]
    fn the_stored_form_round_trips() {
        let sketch = sketch_of(0..1000);
        assert_eq!(KeySketch::from_bytes(sketch.as_bytes()), Some(sketch));
        assert_eq!(KeySketch::from_bytes(&[0; 255]), None);
    }

    #[test]
    fn hostile_registers_do_no_harm() {
        let sketch = KeySketch::from_bytes(&[255; 256]).unwrap();
        assert!(sketch.estimate() > 0);
    }
}
