//! Ribbon filter: about three tenths smaller than a Bloom filter of the same rate, and slower to
//! build and to ask.
//!
//! Each key gives an equation over bits: 128 coefficients from a place `start` on, and a
//! fingerprint. The filter is a solution of all of them, a column for each bit of the fingerprint:
//! a key that was put in satisfies its equation, any other one does by chance, with probability one
//! half for each column. The equations are solved by Gaussian elimination while they come, which is
//! fast because each reaches over 128 places only (Dillinger and Walzer, "Ribbon filter:
//! practically smaller than Bloom and Xor", 2021). Where they contradict each other, which is rare
//! in a filter with a few per cent of spare places, another seed makes other equations.
//!
//! Rates between two powers of a half come from a column less in the first blocks of 128 places: a
//! key whose equation starts there is checked by one column less.
//!
//! ```text
//! version u8 (2) | columns u8 | seed u8 | 0 u8 | blocks u32 | short blocks u32
//! for each block, for each of its columns: 128 bits, little-endian
//! ```
//!
//! The first `short blocks` blocks have a column less than `columns`.
#![expect(
    clippy::cast_possible_truncation,
    reason = "takes some bits of a hash, and sizes that its options bound"
)]

use tidesdb_base::codec::{Decoder, put_u32};
use tidesdb_sys::large_vec::{LargeVec, NoMemory};

use crate::decode_error::DecodeError;
use crate::sink::Sink;

/// Version 2: equations of 128 coefficients, see [`Equation`].
pub(super) const VERSION: u8 = 2;
/// Coefficients of an equation, and places of a block.
const WIDTH: usize = 128;
const HEADER_BYTES: usize = 12;
const BLOCK_COLUMN_BYTES: usize = 16;
/// Enough for the smallest rate that is asked for.
const MAX_COLUMNS: u8 = 24;
/// Seeds that are tried before the filter is given up for another kind.
const ATTEMPTS: u8 = 16;
/// After each failed attempt the filter gets this share of its blocks more.
const MORE_BLOCKS: usize = 64;

/// The bits of a block in one column, the lower half first.
type Column = [u64; 2];

/// The halves of 128 bits.
#[inline]
const fn halves(bits: u128) -> Column {
    [bits as u64, (bits >> 64) as u64]
}

/// What a key says of the solution: coefficients from place `start` on, the first of which is one,
/// and the sum that each column must have over them, as bits.
#[derive(Clone, Copy, Debug)]
struct Equation {
    start: usize,
    coefficients: u128,
    fingerprint: u32,
}

impl Equation {
    #[inline]
    fn of(hash: u64, seed: u8, starts: u64) -> Self {
        // Each step of a mixing function that leaves no relation between its steps that the
        // elimination, which is linear, could find.
        let seeded = hash ^ u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let first = mixed(seeded, 0xBF58_476D_1CE4_E5B9);
        let second = mixed(first, 0x94D0_49BB_1331_11EB);
        let third = mixed(second, 0xD6E8_FEB8_6659_FD93);
        let start = ((u128::from(first) * u128::from(starts)) >> 64) as usize;
        let coefficients = u128::from(second) << 64 | u128::from(third) | 1;
        let fingerprint = (mixed(third, 0xE703_7ED1_A0B4_28DB) >> 32) as u32;
        Self { start, coefficients, fingerprint }
    }
}

#[inline]
const fn mixed(word: u64, factor: u64) -> u64 {
    let product = (word ^ word >> 32).wrapping_mul(factor);
    product ^ product >> 29
}

/// One where the number of ones is odd.
#[inline]
const fn parity(bits: u128) -> u32 {
    ((bits >> 64) as u64 ^ bits as u64).count_ones() & 1
}

/// Size of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    columns: u8,
    blocks: usize,
    short_blocks: usize,
}

impl Shape {
    /// For so many keys and a rate; of `more` blocks than usual.
    fn new(keys: usize, rate: f64, more: usize) -> Self {
        let rate = rate.clamp(1e-7, 0.99);
        let columns = (-rate.log2()).ceil().clamp(1.0, f64::from(MAX_COLUMNS));
        // The share of keys that all columns check: rate = share / 2^c + (1 - share) / 2^(c - 1).
        let share = (2.0 - rate * columns.exp2()).clamp(0.0, 1.0);
        let blocks = blocks_for(keys) + more;
        let short_blocks = ((1.0 - share) * blocks as f64) as usize;
        Self { columns: columns as u8, blocks, short_blocks }
    }

    const fn places(self) -> usize {
        self.blocks * WIDTH
    }

    /// Number of different starts.
    const fn starts(self) -> u64 {
        (self.places() + 1 - WIDTH) as u64
    }

    /// Columns of a block.
    #[inline]
    fn columns_of(self, block: usize) -> usize {
        usize::from(self.columns) - usize::from(block < self.short_blocks)
    }

    /// Columns of all blocks before this one.
    #[inline]
    fn columns_before(self, block: usize) -> usize {
        usize::from(self.columns) * block - block.min(self.short_blocks)
    }

    /// Bytes of the persisted form.
    fn encoded_bytes(self) -> usize {
        HEADER_BYTES + self.columns_before(self.blocks) * BLOCK_COLUMN_BYTES
    }
}

/// Bytes that the persisted form takes, usually.
pub(super) fn bytes_for(keys: usize, rate: f64) -> usize {
    Shape::new(keys, rate, 0).encoded_bytes()
}

/// Blocks with which the first seed nearly always does: the more keys, the more room the
/// elimination needs.
fn blocks_for(keys: usize) -> usize {
    let doublings = (keys.max(1024) as f64 / 1024.0).log2();
    let places = keys as f64 * (1.02 + 0.0035 * doublings);
    // Keys at both ends have fewer places to choose from.
    (places / WIDTH as f64).ceil() as usize + 1
}

/// Memory in which equations are solved.
#[derive(Debug, Default)]
pub(super) struct Elimination {
    coefficients: LargeVec<u128>,
    fingerprints: LargeVec<u32>,
}

impl Elimination {
    pub(super) fn memory_bytes(&self) -> usize {
        self.coefficients.capacity() * size_of::<u128>()
            + self.fingerprints.capacity() * size_of::<u32>()
    }

    /// Brings the equations of all hashes into a form in which each place has at most one that
    /// begins there; false when they contradict each other.
    fn solve(&mut self, hashes: &[u64], seed: u8, shape: Shape) -> Result<bool, NoMemory> {
        self.coefficients.clear();
        self.coefficients.resize(shape.places(), 0)?;
        self.fingerprints.clear();
        self.fingerprints.resize(shape.places(), 0)?;
        Ok(hashes.iter().all(|&hash| self.add(Equation::of(hash, seed, shape.starts()))))
    }

    #[inline]
    fn add(&mut self, equation: Equation) -> bool {
        let Equation { start: mut at, mut coefficients, mut fingerprint } = equation;
        while let Some(place) = self.coefficients.get_mut(at)
            && let Some(sums) = self.fingerprints.get_mut(at)
        {
            if *place == 0 {
                (*place, *sums) = (coefficients, fingerprint);
                return true;
            }
            coefficients ^= *place;
            fingerprint ^= *sums;
            if coefficients == 0 {
                // Says what others say already, or the contrary.
                return fingerprint == 0;
            }
            let skipped = coefficients.trailing_zeros();
            coefficients >>= skipped;
            at += skipped as usize;
        }
        false
    }

    /// The columns of the solution, block by block. Places that no equation begins at are zero.
    fn columns(&self, shape: Shape) -> Result<LargeVec<Column>, NoMemory> {
        let mut columns = LargeVec::filled(shape.columns_before(shape.blocks), [0; 2])?;
        // The solution at the last 128 places looked at, the last of them in the lowest bit.
        let mut windows = [0_u128; MAX_COLUMNS as usize];
        let windows = windows.get_mut(..usize::from(shape.columns)).unwrap_or_default();
        let places = self.coefficients.iter().zip(self.fingerprints.iter()).enumerate().rev();
        for (at, (coefficients, sums)) in places {
            for (column, window) in windows.iter_mut().enumerate() {
                *window <<= 1;
                *window |= u128::from(parity(*window & coefficients) ^ (sums >> column & 1));
            }
            if at.is_multiple_of(WIDTH) {
                let block = at / WIDTH;
                let (first, count) = (shape.columns_before(block), shape.columns_of(block));
                let cells = columns.get_mut(first..first + count).unwrap_or_default();
                for (cell, &window) in cells.iter_mut().zip(&*windows) {
                    *cell = halves(window);
                }
            }
        }
        Ok(columns)
    }
}

/// A filter over the keys of one table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ribbon {
    shape: Shape,
    seed: u8,
    columns: LargeVec<Column>,
}

impl Ribbon {
    /// A filter that holds all of `hashes`; `None` when no seed gave equations that can be solved.
    pub(super) fn build(
        elimination: &mut Elimination,
        hashes: &[u64],
        rate: f64,
    ) -> Result<Option<Self>, NoMemory> {
        for seed in 0..ATTEMPTS {
            let usual = blocks_for(hashes.len());
            let more = usize::from(seed) * usual.div_ceil(MORE_BLOCKS);
            let shape = Shape::new(hashes.len(), rate, more);
            if elimination.solve(hashes, seed, shape)? {
                return Ok(Some(Self { shape, seed, columns: elimination.columns(shape)? }));
            }
        }
        Ok(None)
    }

    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let shape = self.shape;
        let equation = Equation::of(hash, self.seed, shape.starts());
        let (block, offset) = (equation.start / WIDTH, equation.start % WIDTH);
        let (first, count) = (shape.columns_before(block), shape.columns_of(block));
        let here = self.columns.get(first..first + count).unwrap_or_default();
        // The last block has none behind it, and an equation that begins there ends there.
        let next = if offset == 0 { block } else { block + 1 };
        let next = shape.columns_before(next);
        let next = self.columns.get(next..next + count).unwrap_or_default();
        let low = halves(equation.coefficients << offset);
        let high = halves(equation.coefficients.unbounded_shr((WIDTH - offset) as u32));
        let mut fingerprint = equation.fingerprint;
        here.iter().zip(next).all(|(here, next)| {
            let sum = here[0] & low[0] ^ here[1] & low[1] ^ next[0] & high[0] ^ next[1] & high[1];
            let fits = sum.count_ones() & 1 == fingerprint & 1;
            fingerprint >>= 1;
            fits
        })
    }

    /// The first word that is looked at for a hash.
    #[inline]
    pub(super) fn first_word(&self, hash: u64) -> Option<&u64> {
        let equation = Equation::of(hash, self.seed, self.shape.starts());
        let first = self.shape.columns_before(equation.start / WIDTH);
        self.columns.get(first).map(|[low, _]| low)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.columns.capacity() * BLOCK_COLUMN_BYTES
    }

    /// Appends the persisted form.
    pub(super) fn encode(&self, out: &mut impl Sink) -> Result<(), NoMemory> {
        let mut header = vec![VERSION, self.shape.columns, self.seed, 0];
        put_u32(&mut header, self.shape.blocks as u32);
        put_u32(&mut header, self.shape.short_blocks as u32);
        out.put(&header)?;
        for column in self.columns.iter() {
            out.put(&column[0].to_le_bytes())?;
            out.put(&column[1].to_le_bytes())?;
        }
        Ok(())
    }

    /// Reads the persisted form behind its version.
    pub(super) fn decode(mut decoder: Decoder<'_>) -> Result<Self, DecodeError> {
        let (columns, seed, reserved) = (decoder.u8()?, decoder.u8()?, decoder.u8()?);
        let (blocks, short_blocks) = (decoder.u32()? as usize, decoder.u32()? as usize);
        let shape = Shape { columns, blocks, short_blocks };
        if reserved != 0 || columns == 0 || columns > MAX_COLUMNS {
            return Err(DecodeError::Malformed);
        }
        // Blocks without any column are only believed as far as their number is.
        let (stored, rest) = decoder.remaining().as_chunks::<BLOCK_COLUMN_BYTES>();
        let sized = rest.is_empty() && stored.len() == shape.columns_before(blocks);
        if !sized || blocks == 0 || short_blocks > blocks {
            return Err(DecodeError::Malformed);
        }
        let mut all = LargeVec::with_capacity(stored.len())?;
        for bits in stored {
            all.push(halves(u128::from_le_bytes(*bits)))?;
        }
        Ok(Self { shape, seed, columns: all })
    }
}
