//! Bloom filter whose probes for one key fall into one cache line.
//!
//! An array of 64-byte lines. The upper half of a key's hash chooses the line, the lower half
//! `probes` bits in it, so that a lookup costs one cache miss (Putze, Sanders and Singler,
//! "Cache-, hash- and space-efficient Bloom filters", 2009). Crowded lines make such a filter a
//! little less exact than a plain one; `Shape::for_rate` accounts for that by the Poisson
//! distribution of keys per line.
//!
//! Persisted form: version byte (which fixes hash and layout), probes, two zero bytes, number of
//! lines (u32), then the lines, each eight little-endian 64-bit words.
#![expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "takes some bits of a hash: three for a word of eight"
)]

use tidesdb_base::codec::{Decoder, put_u32};
use tidesdb_sys::large_vec::{LargeVec, NoMemory};

use crate::decode_error::DecodeError;
use crate::sink::Sink;

/// Version 1: XXH3-64 of the key, 512-bit lines, probe bits by multiplicative stepping.
pub(super) const VERSION: u8 = 1;
const LINE_BITS: u32 = 512;
const LINE_BYTES: usize = 64;
const HEADER_BYTES: usize = 8;
const MAX_PROBES: u8 = 16;
/// Past this size per key, 32 hash bits per line stop paying.
const MAX_BITS_PER_KEY: f64 = 40.0;
/// Enough for the largest rate that is asked for.
const MIN_BITS_PER_KEY: f64 = 0.1;
/// Odd multiplier close to 2^32 divided by the golden ratio.
const STEP: u32 = 0x9E37_79B9;

/// One cache line of bits: all that the filter looks at for one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct Line([u64; 8]);

impl Line {
    #[inline]
    fn may_contain(&self, hash: u64, probes: u8) -> bool {
        let mut bits = hash as u32;
        for _ in 0..probes {
            bits = bits.wrapping_mul(STEP);
            let bit = bits >> 23;
            if self.0[(bit >> 6) as usize & 7] & (1 << (bit & 63)) == 0 {
                return false;
            }
        }
        true
    }
}

/// The line of a hash among so many: multiply-shift maps 32 bits onto them without a division.
#[inline]
const fn line_of(hash: u64, lines: u64) -> u64 {
    ((hash >> 32) * lines) >> 32
}

/// A filter of keys whose lines are elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinesOfKeys {
    lines: u32,
    probes: u8,
}

impl LinesOfKeys {
    pub(crate) const LINE_BYTES: usize = LINE_BYTES;

    /// The filter with this persisted form, and the bytes of its lines; `None` for one of another
    /// kind and for a malformed one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut decoder = Decoder::new(bytes);
        let (version, probes) = (decoder.u8().ok()?, decoder.u8().ok()?);
        let (reserved, lines) = (decoder.u16().ok()?, decoder.u32().ok()?);
        let bytes = decoder.remaining();
        let known = version == VERSION && reserved == 0 && (1..=MAX_PROBES).contains(&probes);
        let sized = lines > 0 && bytes.len() as u64 == u64::from(lines) * LINE_BYTES as u64;
        (known && sized).then_some((Self { lines, probes }, bytes))
    }

    /// Number of lines.
    pub(crate) fn count(self) -> u64 {
        u64::from(self.lines)
    }

    /// Number of the line of a key with this hash.
    pub(crate) fn line_of(self, hash: u64) -> u64 {
        line_of(hash, self.count())
    }

    /// Whether line `at` of these lets a key with this hash through; `None` when it is not there.
    pub(crate) fn may_contain(self, hash: u64, lines: &[u8], at: u64) -> Option<bool> {
        let start = usize::try_from(at).ok()?.checked_mul(LINE_BYTES)?;
        let words = lines.get(start..)?.first_chunk::<LINE_BYTES>()?.as_chunks::<8>().0;
        let mut line = Line::default();
        for (word, bytes) in line.0.iter_mut().zip(words) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(line.may_contain(hash, self.probes))
    }
}

/// Size and number of probes that reach a false-positive rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) bits_per_key: f64,
    probes: u8,
}

impl Shape {
    /// The smallest shape whose expected rate is at most `rate`.
    pub(super) fn for_rate(rate: f64) -> Self {
        let rate = rate.clamp(1e-7, 0.99);
        let (mut low, mut high) = (MIN_BITS_PER_KEY, MAX_BITS_PER_KEY);
        for _ in 0..16 {
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

    /// Bytes of the persisted form of a filter over so many keys.
    pub(super) fn encoded_bytes(self, keys: usize) -> usize {
        HEADER_BYTES + self.lines(keys) * LINE_BYTES
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

/// Expected false-positive rate: that of a line with `i` keys, which is `(1 - q^i)^probes` where
/// `q` is how likely a key leaves a bit alone, weighted by how likely a line has `i` keys. The
/// power multiplied out, each term is the generating function of the Poisson distribution at a
/// power of `q`.
fn expected_rate(bits_per_key: f64, probes: u8) -> f64 {
    let keys_per_line = f64::from(LINE_BITS) / bits_per_key;
    let unset = (1.0 - 1.0 / f64::from(LINE_BITS)).powi(i32::from(probes));
    let (mut rate, mut choices) = (0.0, 1.0);
    for term in 0..=probes {
        let weight = (-keys_per_line * (1.0 - unset.powi(i32::from(term)))).exp();
        rate += choices * weight;
        choices *= -f64::from(probes - term) / f64::from(term + 1);
    }
    rate
}

/// A filter over the keys of one table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Bloom {
    lines: LargeVec<Line>,
    probes: u8,
}

impl Bloom {
    /// A filter in the memory of `old` that holds all of `hashes`.
    pub(super) fn build(old: Self, hashes: &[u64], shape: Shape) -> Result<Self, NoMemory> {
        let mut lines = old.lines;
        lines.clear();
        lines.resize(shape.lines(hashes.len()), Line::default())?;
        let mut filter = Self { lines, probes: shape.probes };
        for &hash in hashes {
            filter.insert(hash);
        }
        Ok(filter)
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
        line_of(hash, self.lines.len() as u64) as usize
    }

    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let line = self.lines.get(self.line_of(hash));
        line.is_none_or(|line| line.may_contain(hash, self.probes))
    }

    /// The first word of the line that is looked at for a hash.
    #[inline]
    pub(super) fn first_word(&self, hash: u64) -> Option<&u64> {
        self.lines.get(self.line_of(hash)).map(|line| &line.0[0])
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.capacity() * LINE_BYTES
    }

    /// Appends the persisted form.
    pub(super) fn encode(&self, out: &mut impl Sink) -> Result<(), NoMemory> {
        let mut header = vec![VERSION, self.probes, 0, 0];
        put_u32(&mut header, self.lines.len() as u32);
        out.put(&header)?;
        let mut bytes = [0; LINE_BYTES];
        for line in self.lines.iter() {
            for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(line.0) {
                *bytes = word.to_le_bytes();
            }
            out.put(&bytes)?;
        }
        Ok(())
    }

    /// Reads the persisted form behind its version.
    pub(super) fn decode(mut decoder: Decoder<'_>) -> Result<Self, DecodeError> {
        let probes = decoder.u8()?;
        let reserved = decoder.u16()?;
        let line_count = decoder.u32()? as usize;
        let (words, rest) = decoder.remaining().as_chunks::<8>();
        let sized = rest.is_empty() && words.len() == line_count.saturating_mul(8);
        if !sized || line_count == 0 || reserved != 0 || probes == 0 || probes > MAX_PROBES {
            return Err(DecodeError::Malformed);
        }
        let mut lines = LargeVec::filled(line_count, Line::default())?;
        for (line, words) in lines.iter_mut().zip(words.as_chunks::<8>().0) {
            line.0 = words.map(u64::from_le_bytes);
        }
        Ok(Self { lines, probes })
    }
}
