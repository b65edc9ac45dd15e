//! Bloom filter whose probes for one key fall into one cache line.
//!
//! The filter answers "certainly absent" or "perhaps present" for exact keys; seeks and ranges
//! never ask it. It is an array of 64-byte lines. The upper half of a key's hash chooses the line,
//! the lower half `probes` bits in it, so that a lookup costs one cache miss (Putze, Sanders and
//! Singler, "Cache-, hash- and space-efficient Bloom filters", 2009). Crowded lines make such a
//! filter a little less exact than a plain one; `Shape::for_rate` accounts for that by summing
//! over the Poisson distribution of keys per line.
//!
//! Persisted form: version byte (which fixes hash and layout), probes, two zero bytes, number of
//! lines (u32), then the lines, each eight little-endian 64-bit words. Immutable once built, shared
//! by all threads.

use tidesdb_base::checksum;
use tidesdb_base::codec::{Decoder, Malformed, put_u32};

/// Version 1: XXH3-64 of the user key, 512-bit lines, probe bits by multiplicative stepping.
const VERSION: u8 = 1;
const LINE_BITS: u32 = 512;
const LINE_BYTES: usize = 64;
const HEADER_BYTES: usize = 8;
const MAX_PROBES: u8 = 16;
/// Past this size per key, 32 hash bits per line stop paying.
const MAX_BITS_PER_KEY: f64 = 40.0;
/// Odd multiplier close to 2^32 divided by the golden ratio.
const STEP: u32 = 0x9E37_79B9;

/// Hash of a user key as filters want it. Compute it once and ask any number of filters.
#[inline]
#[must_use]
pub fn key_hash(key: &[u8]) -> u64 {
    checksum::plain(key)
}

/// One cache line of bits: all that a filter looks at for one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub struct Line([u64; 8]);

/// Size and number of probes that reach a false-positive rate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    bits_per_key: f64,
    probes: u8,
}

impl Shape {
    /// The smallest shape whose expected rate is at most `rate`, taken to the nearest sensible one.
    fn for_rate(rate: f64) -> Self {
        let rate = rate.clamp(1e-7, 0.5);
        let (mut low, mut high) = (0.5, MAX_BITS_PER_KEY);
        for _ in 0..10 {
            let middle = f64::midpoint(low, high);
            if Self::best(middle).1 <= rate { high = middle } else { low = middle }
        }
        Self::best(high).0
    }

    /// Lines of a filter over so many keys.
    fn lines(self, keys: usize) -> usize {
        let bits = keys as f64 * self.bits_per_key;
        ((bits / f64::from(LINE_BITS)).ceil() as usize).max(1)
    }

    /// The best number of probes for a size, and the rate it gives.
    fn best(bits_per_key: f64) -> (Self, f64) {
        let ideal = (bits_per_key * std::f64::consts::LN_2).round() as u8;
        let mut best = (Self { bits_per_key, probes: 1 }, 1.0);
        for probes in ideal.saturating_sub(3).max(1)..=ideal.clamp(1, MAX_PROBES) {
            let rate = expected_rate(bits_per_key, probes);
            if rate < best.1 {
                best = (Self { bits_per_key, probes }, rate);
            }
        }
        best
    }
}

/// Expected false-positive rate: the rate of a line with `i` keys, weighted by the probability
/// that a line has `i` keys.
fn expected_rate(bits_per_key: f64, probes: u8) -> f64 {
    let mean = f64::from(LINE_BITS) / bits_per_key;
    let unset_after_one = (1.0 - 1.0 / f64::from(LINE_BITS)).powi(i32::from(probes));
    let limit = (mean + 8.0 * mean.sqrt()) as u32 + 8;
    let mut weight = (-mean).exp();
    let mut unset = 1.0;
    let mut rate = 0.0;
    for keys in 1..=limit {
        weight *= mean / f64::from(keys);
        unset *= unset_after_one;
        rate += weight * (1.0 - unset).powi(i32::from(probes));
    }
    rate
}

/// Makes the filter of one table after the other in the same memory.
#[derive(Debug, Default)]
pub(crate) struct FilterBuilder {
    hashes: Vec<u64>,
    lines: Vec<Line>,
}

impl FilterBuilder {
    /// Expects about so many keys; only saves allocations.
    pub(crate) fn reserve(&mut self, keys: usize) {
        self.hashes.reserve(keys);
    }

    /// Adds the key with this [`key_hash`].
    #[inline]
    pub(crate) fn add(&mut self, hash: u64) {
        self.hashes.push(hash);
    }

    /// Forgets the keys added.
    pub(crate) fn clear(&mut self) {
        self.hashes.clear();
    }

    /// Appends the persisted form of the filter of all keys added, unless that takes more than
    /// `most_bytes`, and forgets the keys. True when it did.
    pub(crate) fn finish(&mut self, rate: f64, most_bytes: usize, out: &mut Vec<u8>) -> bool {
        let shape = Shape::for_rate(rate);
        let fits = HEADER_BYTES + shape.lines(self.hashes.len()) * LINE_BYTES <= most_bytes;
        if fits {
            let filter = Filter::build_in(std::mem::take(&mut self.lines), &self.hashes, shape);
            filter.encode(out);
            self.lines = filter.lines;
        }
        self.hashes.clear();
        fits
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>() + self.lines.capacity() * LINE_BYTES
    }
}

/// A filter over the keys of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    lines: Vec<Line>,
    probes: u8,
}

impl Filter {
    #[cfg(test)]
    fn build(hashes: &[u64], false_positive_rate: f64) -> Self {
        Self::build_in(Vec::new(), hashes, Shape::for_rate(false_positive_rate))
    }

    /// A filter in this memory that holds all of `hashes`.
    fn build_in(mut lines: Vec<Line>, hashes: &[u64], shape: Shape) -> Self {
        lines.clear();
        lines.resize(shape.lines(hashes.len()), Line::default());
        let mut filter = Self { lines, probes: shape.probes };
        for &hash in hashes {
            filter.insert(hash);
        }
        filter
    }

    fn insert(&mut self, hash: u64) {
        let at = self.line_of(hash);
        if let Some(line) = self.lines.get_mut(at) {
            let mut bits = hash as u32;
            for _ in 0..self.probes {
                bits = bits.wrapping_mul(STEP);
                let bit = bits >> 23;
                line.0[(bit >> 6) as usize & 7] |= 1 << (bit & 63);
            }
        }
    }

    #[inline]
    fn line_of(&self, hash: u64) -> usize {
        // Multiply-shift maps 32 bits onto the lines without a division.
        (((hash >> 32) * self.lines.len() as u64) >> 32) as usize
    }

    /// False when the key with this [`key_hash`] is certainly not in the table.
    #[inline]
    #[must_use]
    pub fn may_contain(&self, hash: u64) -> bool {
        let Some(line) = self.line_for(hash) else {
            return true;
        };
        let mut bits = hash as u32;
        for _ in 0..self.probes {
            bits = bits.wrapping_mul(STEP);
            let bit = bits >> 23;
            if line.0[(bit >> 6) as usize & 7] & (1 << (bit & 63)) == 0 {
                return false;
            }
        }
        true
    }

    /// What [`Filter::may_contain`] will look at, for whoever wants it loaded beforehand.
    #[inline]
    #[must_use]
    pub fn line_for(&self, hash: u64) -> Option<&Line> {
        self.lines.get(self.line_of(hash))
    }

    /// Bytes of memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }

    /// Appends the persisted form.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(HEADER_BYTES + self.memory_bytes());
        out.extend_from_slice(&[VERSION, self.probes, 0, 0]);
        put_u32(out, self.lines.len() as u32);
        for line in &self.lines {
            for word in line.0 {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
    }

    /// Reads the persisted form; `None` when a later version wrote it in a way unknown here, in
    /// which case the table is read without its filter.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut decoder = Decoder::new(bytes);
        if decoder.u8()? != VERSION {
            return Ok(None);
        }
        let probes = decoder.u8()?;
        let reserved = decoder.u16()?;
        let line_count = decoder.u32()? as usize;
        let (words, rest) = decoder.remaining().as_chunks::<8>();
        let sized = rest.is_empty() && words.len() == line_count.saturating_mul(8);
        if !sized || line_count == 0 || reserved != 0 || probes == 0 || probes > MAX_PROBES {
            return Err(Malformed);
        }
        let mut lines = vec![Line::default(); line_count];
        for (line, words) in lines.iter_mut().zip(words.as_chunks::<8>().0) {
            line.0 = words.map(u64::from_le_bytes);
        }
        Ok(Some(Self { lines, probes }))
    }
}

#[cfg(test)]
mod tests;
