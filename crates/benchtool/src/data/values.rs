//! Values: the bytes of a record's n-th generation, cheap to make and cheap to check.
//!
//! A value begins with the record number and the generation (12 bytes, little-endian); the rest is
//! a slice of a pool at a place that depends on both. So a reader that knows the record can tell a
//! wrong value, a stale generation and damaged bytes apart without any table of what was written.
//! Neighbouring records have neighbouring slices: those of an ordered load come out of the
//! processor's prefetcher, where a place of its own for each would cost a cache miss that only slow
//! engines hide.
//!
//! The pool is made of 32-byte cells, each some random bytes followed by a run of one byte, in a
//! proportion that lets LZ4 reach about the wanted ratio at any place of the slice. Values of
//! [`Contents::Repeated`] are made otherwise, as `db_bench` makes its own: printable random bytes,
//! as many as the ratio says, and these once more until the value is full. The header hides in the
//! random bytes: it is XORed with the twelve bytes behind it in reverse (forwards, its zeros would
//! repeat them), so that a codec finds nothing in it either.

use crate::data::random::Random;
use crate::spec::{Contents, Shape, Sizes};

/// Bytes before the pool slice.
pub(crate) const HEADER_BYTES: usize = 12;
const CELL_BYTES: usize = 32;
/// Places in the pool at which a slice may begin, at least.
const LEAST_PLACES: usize = 1 << 20;

/// Maker and checker of values.
#[derive(Debug)]
pub(crate) struct Values {
    pool: Vec<u8>,
    /// One less than the number of places where a slice may begin, a power of two.
    last_place: u64,
    largest: usize,
    smallest: usize,
    sizes: Sizes,
    seed: u64,
    /// Share of a value that is random before it repeats; 1 if it does not.
    fresh: f64,
}

const WORDS: [&str; 24] = [
    "the ",
    "order ",
    "of ",
    "customer ",
    "was ",
    "sent ",
    "to ",
    "a ",
    "store ",
    "in ",
    "London ",
    "and ",
    "arrived ",
    "on ",
    "Monday ",
    "with ",
    "no ",
    "damage, ",
    "which ",
    "status ",
    "paid ",
    "shipped ",
    "returned. ",
    "12.50 ",
];

/// Bytes to cut values from.
fn pool(contents: Contents, ratio: f64, bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed, 0x7661_6c75_6573);
    match contents {
        Contents::Repeated => (0..bytes).map(|_| b' ' + random.below(95) as u8).collect(),
        Contents::Ramp => (0..bytes).map(|place| place as u8).collect(),
        Contents::Text => {
            let mut text = Vec::with_capacity(bytes + 16);
            while text.len() < bytes {
                text.extend(WORDS[random.below(WORDS.len() as u64) as usize].as_bytes());
            }
            text.truncate(bytes);
            text
        }
        Contents::Random => {
            let mut pool = vec![0; bytes];
            // A run costs LZ4 about four bytes: token, offset, and the byte that is repeated.
            let some = (ratio * CELL_BYTES as f64 - 4.0).clamp(0.0, CELL_BYTES as f64) as usize;
            let random_bytes = if ratio >= 1.0 { CELL_BYTES } else { some };
            for cell in pool.chunks_mut(CELL_BYTES) {
                let run = (random.next_u64() >> 56) as u8;
                for (place, byte) in cell.iter_mut().enumerate() {
                    let next = if place < random_bytes { random.next_u64() >> 56 } else { 0 };
                    *byte = if place < random_bytes { next as u8 } else { run };
                }
            }
            pool
        }
    }
}

impl Values {
    /// The smallest value of a test, or why its sizes are impossible.
    pub(crate) fn check_sizes(shape: &Shape) -> Result<usize, String> {
        let largest = shape.value_size;
        let fixed = shape.value_sizes == Sizes::Fixed;
        let smallest = if fixed { largest } else { shape.value_min };
        if smallest < HEADER_BYTES {
            return Err(format!("values need at least {HEADER_BYTES} bytes to be checkable"));
        }
        if smallest > largest {
            return Err("the smallest value is larger than the largest".to_owned());
        }
        Ok(smallest)
    }

    /// Values of the sizes and contents that a test asks for.
    pub(crate) fn new(shape: &Shape) -> Result<Self, String> {
        let smallest = Self::check_sizes(shape)?;
        let largest = shape.value_size;
        let places = largest.next_power_of_two().max(LEAST_PLACES);
        let pool = pool(shape.contents, shape.compress_ratio, places + largest, shape.seed);
        let last_place = places as u64 - 1;
        let repeats = shape.contents == Contents::Repeated;
        let fresh = if repeats { shape.compress_ratio } else { 1.0 };
        let (sizes, seed) = (shape.value_sizes, shape.seed);
        Ok(Self { pool, last_place, largest, smallest, sizes, seed, fresh })
    }

    /// Bytes of the largest value.
    pub(crate) fn largest(&self) -> usize {
        self.largest
    }

    /// Bytes of the value of a record's generation.
    pub(crate) fn size_of(&self, record: u64, generation: u32) -> usize {
        if self.smallest == self.largest {
            return self.largest;
        }
        let mut random = Random::new(record ^ self.seed, u64::from(generation) + 0x73_697a);
        let (low, high) = (self.smallest as f64, self.largest as f64);
        let size = match self.sizes {
            Sizes::Fixed => return self.largest,
            Sizes::Uniform => low + random.unit() * (high - low + 1.0),
            Sizes::Normal => {
                let bell: f64 = (0..4).map(|_| random.unit()).sum();
                low + bell / 4.0 * (high - low + 1.0)
            }
            Sizes::Pareto => {
                // A Pareto law with exponent 1.2, cut at the largest size.
                let left = 1.0 - random.unit() * (1.0 - (low / high).powf(1.2));
                low * left.powf(-1.0 / 1.2)
            }
        };
        (size as usize).clamp(self.smallest, self.largest)
    }

    fn tail(&self, record: u64, generation: u32, bytes: usize) -> &[u8] {
        let length = bytes - HEADER_BYTES;
        // Odd, so that records meet all places before one comes again.
        let stride = self.largest as u64 | 1;
        let turned = (u64::from(generation) ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let place = (record.wrapping_mul(stride).wrapping_add(turned) & self.last_place) as usize;
        &self.pool[place..place + length]
    }

    /// Writes the value of a record's generation to the front of `value`, which has room for the
    /// largest; returns its size.
    pub(crate) fn fill(&self, record: u64, generation: u32, value: &mut [u8]) -> usize {
        let bytes = self.size_of(record, generation);
        value[..8].copy_from_slice(&record.to_le_bytes());
        value[8..HEADER_BYTES].copy_from_slice(&generation.to_le_bytes());
        value[HEADER_BYTES..bytes].copy_from_slice(self.tail(record, generation, bytes));
        if self.fresh < 1.0 {
            self.repeat(&mut value[..bytes]);
        }
        bytes
    }

    /// Bytes of a value of this size before it repeats: the header and its cover at least.
    fn period(&self, bytes: usize) -> usize {
        ((bytes as f64 * self.fresh) as usize).max(2 * HEADER_BYTES)
    }

    /// Covers the header, and repeats what comes before the period's end.
    fn repeat(&self, value: &mut [u8]) {
        let period = self.period(value.len());
        if value.len() < 2 * HEADER_BYTES {
            return;
        }
        for place in 0..HEADER_BYTES {
            value[place] ^= value[2 * HEADER_BYTES - 1 - place];
        }
        let mut done = period;
        while done < value.len() {
            let more = period.min(value.len() - done);
            value.copy_within(..more, done);
            done += more;
        }
    }

    /// The header of a value, uncovered.
    fn header(&self, value: &[u8]) -> Option<[u8; HEADER_BYTES]> {
        let mut header = *value.first_chunk::<HEADER_BYTES>()?;
        if self.fresh < 1.0 && value.len() >= 2 * HEADER_BYTES {
            let cover = &value[HEADER_BYTES..2 * HEADER_BYTES];
            header.iter_mut().zip(cover.iter().rev()).for_each(|(byte, cover)| *byte ^= cover);
        }
        Some(header)
    }

    /// Appends bytes that depend on a hash and a version and have no header: for data sets whose
    /// values are known otherwise, of any size.
    pub(crate) fn free_form(&self, hash: u64, version: u64, bytes: usize, out: &mut Vec<u8>) {
        let mut stream = Random::new(hash ^ self.seed, version);
        let head = stream.next_u64().to_le_bytes();
        let mut left = bytes;
        let taken = left.min(head.len());
        out.extend_from_slice(&head[..taken]);
        left -= taken;
        while left > 0 {
            let place = stream.below(self.pool.len() as u64) as usize;
            let taken = left.min(self.pool.len() - place);
            out.extend_from_slice(&self.pool[place..place + taken]);
            left -= taken;
        }
    }

    /// The generation that the header of a value of `record` names; checks length and record.
    pub(crate) fn check_header(&self, record: u64, value: &[u8]) -> Option<u32> {
        let header = self.header(value)?;
        let (number, rest) = header.split_first_chunk::<8>()?;
        let generation = u32::from_le_bytes(*rest.first_chunk::<4>()?);
        let right = u64::from_le_bytes(*number) == record
            && value.len() == self.size_of(record, generation);
        right.then_some(generation)
    }

    /// Like [`Self::check_header`], and checks every other byte too.
    pub(crate) fn check(&self, record: u64, value: &[u8]) -> Option<u32> {
        let generation = self.check_header(record, value)?;
        let tail = self.tail(record, generation, value.len());
        let right = if self.fresh < 1.0 && value.len() >= 2 * HEADER_BYTES {
            // The header is right, so its copies are if they equal what they were copied from.
            let period = self.period(value.len()).min(value.len());
            value[HEADER_BYTES..period] == tail[..period - HEADER_BYTES]
                && value[period..] == value[..value.len() - period]
        } else {
            value[HEADER_BYTES..] == *tail
        };
        right.then_some(generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::random::mix;

    fn values(size: usize, contents: Contents, sizes: Sizes) -> Values {
        let shape = Shape {
            value_size: size,
            value_min: 20,
            contents,
            value_sizes: sizes,
            ..Shape::default()
        };
        Values::new(&shape).unwrap()
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        for contents in [Contents::Random, Contents::Text, Contents::Repeated] {
            let values = values(100, contents, Sizes::Fixed);
            let mut value = vec![0; 100];
            assert_eq!(values.fill(77, 3, &mut value), 100);
            assert_eq!(values.check(77, &value), Some(3));
            assert_eq!(values.check(78, &value), None);
            assert_eq!(values.check(77, &value[..99]), None);
            let sizes = [12, 13, 23, 24, 25, 60];
            for bytes in sizes {
                let shape = Shape { value_size: bytes, contents, ..Shape::default() };
                let values = Values::new(&shape).unwrap();
                let mut value = vec![0; bytes];
                values.fill(5, 9, &mut value);
                assert_eq!(values.check(5, &value), Some(9), "{contents:?} of {bytes} bytes");
            }
            for place in 0..100 {
                let mut damaged = value.clone();
                damaged[place] ^= 0x10;
                assert_eq!(values.check(77, &damaged), None, "byte {place}");
            }
        }
        let small = Shape { value_size: 11, ..Shape::default() };
        assert!(Values::new(&small).is_err());
    }

    #[test]
    fn large_values_fit_the_pool() {
        let values = values(3 << 20, Contents::Ramp, Sizes::Fixed);
        let mut value = vec![0; 3 << 20];
        values.fill(1, 0, &mut value);
        assert_eq!(values.check(1, &value), Some(0));
    }

    #[test]
    fn sizes_follow_their_law() {
        for (sizes, mean) in
            [(Sizes::Uniform, 510.0), (Sizes::Normal, 510.0), (Sizes::Pareto, 65.0)]
        {
            let values = values(1_000, Contents::Random, sizes);
            let mut value = vec![0; 1_000];
            let mut sum = 0;
            for record in 0..20_000 {
                let bytes = values.fill(record, 1, &mut value);
                assert!((20..=1_000).contains(&bytes));
                assert_eq!(values.check(record, &value[..bytes]), Some(1));
                sum += bytes;
            }
            let found = sum as f64 / 20_000.0;
            assert!((found / mean - 1.0_f64).abs() < 0.1, "{sizes:?}: {found}");
        }
    }

    /// What LZ4 makes of blocks full of values, over their size.
    fn compressed(shape: &Shape, scattered: bool, block: usize) -> f64 {
        let values = Values::new(shape).unwrap();
        let (mut before, mut after) = (0, 0);
        let mut record = 0;
        for _ in 0..50 {
            let mut bytes = Vec::new();
            while bytes.len() < block {
                let mut value = vec![0; shape.value_size];
                let number = if scattered { mix(record) >> 30 } else { record };
                values.fill(number, 0, &mut value);
                bytes.extend(value);
                record += 1;
            }
            before += bytes.len();
            after += lz4::block::compress(&bytes, None, false).unwrap().len();
        }
        f64::from(after as u32) / f64::from(before as u32)
    }

    /// Sizes on disk say something about an engine only if the values compress as they are said to.
    #[test]
    fn values_compress_to_the_wanted_ratio() {
        for block in [4 << 10, 64 << 10] {
            for bytes in [100, 1_024, 4_096] {
                for ratio in [0.3, 0.5, 0.75, 1.0] {
                    let shape =
                        Shape { value_size: bytes, compress_ratio: ratio, ..Shape::default() };
                    for scattered in [true, false] {
                        let found = compressed(&shape, scattered, block);
                        let off = (found - ratio).abs();
                        assert!(off < 0.1, "{bytes} bytes in {block}: {found} for {ratio}");
                    }
                }
            }
            for ratio in [0.3, 0.5, 0.75] {
                let contents = Contents::Repeated;
                let bytes = if ratio < 0.5 { 1_024 } else { 100 };
                let shape = Shape {
                    value_size: bytes,
                    compress_ratio: ratio,
                    contents,
                    ..Shape::default()
                };
                let found = compressed(&shape, true, block);
                // Each value costs its random bytes, and a few for the record's header and one
                // match.
                let (least, most) = (ratio, ratio + 12.0 / bytes as f64);
                assert!((least..most).contains(&found), "{bytes} repeated: {found} for {ratio}");
            }
            // The ramps of the published runs: what made ten million records fit in memory.
            let ramps = Shape { value_size: 1_024, contents: Contents::Ramp, ..Shape::default() };
            assert!(compressed(&ramps, true, block) < 0.1);
        }
    }

    #[test]
    fn values_are_distinct() {
        let values = values(100, Contents::Random, Sizes::Fixed);
        let mut seen = std::collections::HashSet::new();
        let mut value = vec![0; 100];
        for record in 0..5_000 {
            values.fill(record, 0, &mut value);
            // The header differs anyway; what an engine could fold into one is the rest.
            assert!(seen.insert(value[HEADER_BYTES..].to_vec()) || record > 256, "{record}");
        }
        assert!(seen.len() > 4_900, "{}", seen.len());
    }
}
