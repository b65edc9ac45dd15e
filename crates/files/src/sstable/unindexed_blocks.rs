//! Finds sealed blocks in bytes of which no index says where they begin.
//!
//! A block does not say how long it is: its end is where a trailer stands whose checksum matches
//! for a block of that beginning. So from a known beginning all places are tried at which a trailer
//! may stand, of which there are few: the codec must be known, and the raw length possible. Behind
//! damage the next beginning is looked for, first behind what looks like the trailer of the damaged
//! block, then at every place. The checksum is seeded with the place, so bytes that pass are a
//! block of this file.
//!
//! Work is bounded: bytes may be made to look like trailers throughout. Plain functions over
//! memory.

use super::BlockHandle;
use super::block::{Place, TRAILER_BYTES, Unopened, open_stored};
use std::ops::Range;
use tidesdb_base::checksum;
use tidesdb_base::codec::Decoder;
use tidesdb_base::compress::Compression;
use tidesdb_sys::large_vec::NoMemory;

/// Longer blocks are found through an index only: values of that size lie in value logs.
pub(super) const LONGEST_BLOCK: usize = 4 << 20;
/// Longest block that is looked for at every place.
const LONGEST_BLIND: usize = 128 << 10;
/// Bytes whose checksums are calculated in vain for one block that is looked for.
const BUDGET_BYTES: u64 = 1 << 28;
/// Shortest raw block: a count, two short fields, and an entry.
const SHORTEST_RAW: usize = 8;

/// A place where a block may end.
#[derive(Clone, Copy, Debug)]
struct End {
    /// Behind the trailer.
    at: usize,
    codec: Compression,
    raw_len: usize,
}

impl End {
    /// Whether a block from `start` may end here, going by its lengths.
    fn fits(&self, start: usize) -> bool {
        let Some(stored) = self.at.checked_sub(start + TRAILER_BYTES) else { return false };
        match self.codec {
            Compression::None => stored == self.raw_len,
            // A block is compressed only where that saves an eighth.
            _ => stored > 0 && stored <= self.raw_len - self.raw_len / 8,
        }
    }
}

/// What [`find_blocks`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A block whose checksum matches.
    Block(BlockHandle),
    /// Bytes that no block could be found in.
    Gap { offset: u64, len: u64 },
}

impl Found {
    pub(super) const fn offset(&self) -> u64 {
        match self {
            Self::Block(handle) => handle.offset,
            Self::Gap { offset, .. } => *offset,
        }
    }

    pub(super) const fn len(&self) -> u64 {
        match self {
            Self::Block(handle) => handle.len as u64,
            Self::Gap { len, .. } => *len,
        }
    }
}

/// Bytes of a file, searched for blocks.
struct Search<'a> {
    bytes: &'a [u8],
    base: u64,
    identity: u64,
    ends: Vec<End>,
}

impl<'a> Search<'a> {
    fn new(bytes: &'a [u8], base: u64, identity: u64) -> Self {
        let places = TRAILER_BYTES..=bytes.len();
        let ends = places.filter_map(|at| end_at(bytes, at)).collect();
        Self { bytes, base, identity, ends }
    }

    /// The ends behind `start`, not further than a block may be long.
    fn ends_behind(&self, start: usize, longest: usize) -> Range<usize> {
        let first = self.ends.partition_point(|end| end.at < start + TRAILER_BYTES);
        let limit = start.saturating_add(longest + TRAILER_BYTES);
        first..self.ends.partition_point(|end| end.at <= limit)
    }

    /// Whether the block from `start` to `end` is whole.
    fn is_block(&self, start: usize, end: End, budget: &mut u64) -> bool {
        let covered = self.bytes.get(start..end.at).and_then(|bytes| bytes.split_last_chunk::<8>());
        let Some((covered, sum)) = covered.filter(|_| *budget > 0) else { return false };
        *budget = budget.saturating_sub(covered.len() as u64);
        let place = self.base + start as u64;
        checksum::placed(self.identity, place, covered) == u64::from_le_bytes(*sum)
    }

    /// Where the block that begins at `start` ends. Trailers of blocks that are stored as they are
    /// have to fit exactly and cost next to nothing, so they are tried first.
    fn block_from(&self, start: usize, longest: usize, budget: &mut u64) -> Option<usize> {
        let ends = self.ends.get(self.ends_behind(start, longest))?;
        // Looking at an end costs something too.
        *budget = budget.checked_sub(ends.len() as u64)?;
        let fit = || ends.iter().filter(|end| end.fits(start));
        let plain = fit().filter(|end| end.codec == Compression::None);
        let compressed = fit().filter(|end| end.codec != Compression::None);
        let mut all = plain.chain(compressed);
        all.find(|end| self.is_block(start, **end, budget)).map(|end| end.at)
    }

    /// The first block behind damage that begins at `damaged`.
    fn next_block(&self, damaged: usize) -> Option<Range<usize>> {
        // The trailer of the damaged block may be whole: then the next one begins behind it.
        let mut budget = BUDGET_BYTES;
        let behind = self.ends.get(self.ends_behind(damaged, LONGEST_BLOCK))?;
        let mut by_trailer = None;
        for end in behind.iter().filter(|end| end.fits(damaged)) {
            by_trailer = self.block_from(end.at, LONGEST_BLOCK, &mut budget).map(|to| end.at..to);
            if by_trailer.is_some() || budget < BUDGET_BYTES / 8 {
                break;
            }
        }
        // A whole block may still lie in front of it.
        let limit = by_trailer.as_ref().map_or(self.bytes.len(), |found| found.start);
        let plain = self.first_plain_block(damaged + 1..limit);
        let limit = plain.as_ref().map_or(limit, |found| found.start);
        let mut budget = BUDGET_BYTES;
        for start in damaged + 1..limit {
            if let Some(end) = self.block_from(start, LONGEST_BLIND, &mut budget) {
                return Some(start..end);
            }
            if budget < BUDGET_BYTES / 8 {
                break;
            }
        }
        plain.or(by_trailer)
    }

    /// The first block within a range that is stored as it is: its trailer says where it begins.
    fn first_plain_block(&self, within: Range<usize>) -> Option<Range<usize>> {
        let mut budget = BUDGET_BYTES;
        let first = self.ends.partition_point(|end| end.at <= within.start);
        let ends = self.ends.get(first..)?.iter().take_while(|end| end.at <= within.end);
        let plain =
            ends.filter(|end| end.codec == Compression::None && end.raw_len <= LONGEST_BLIND);
        plain
            .filter_map(|end| {
                let start = end.at.checked_sub(end.raw_len + TRAILER_BYTES)?;
                (start >= within.start && self.is_block(start, *end, &mut budget))
                    .then_some(start..end.at)
            })
            .next()
    }
}

/// The trailer that may end at `at`.
fn end_at(bytes: &[u8], at: usize) -> Option<End> {
    let trailer = bytes.get(at.checked_sub(TRAILER_BYTES)?..at)?;
    let mut decoder = Decoder::new(trailer);
    let codec = Compression::from_u8(decoder.u8().ok()?)?;
    let raw_len = decoder.u32().ok()? as usize;
    (SHORTEST_RAW..=LONGEST_BLOCK).contains(&raw_len).then_some(End { at, codec, raw_len })
}

/// Finds the blocks in `bytes`, which lie at offset `base` of the file `identity` and begin with a
/// block unless that is damaged. The last gap reaches to the end of the bytes.
pub(super) fn find_blocks(bytes: &[u8], base: u64, identity: u64) -> Vec<Found> {
    let search = Search::new(bytes, base, identity);
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let block = match search.block_from(at, LONGEST_BLOCK, &mut { BUDGET_BYTES }) {
            Some(end) => Some(at..end),
            None => search.next_block(at),
        };
        let Some(block) = block else { break };
        if block.start > at {
            found.push(Found::Gap { offset: base + at as u64, len: (block.start - at) as u64 });
        }
        // It ends where its trailer says, which has 32 bits for that.
        let len = u32::try_from(block.end - block.start).unwrap_or(u32::MAX);
        found.push(Found::Block(BlockHandle { offset: base + block.start as u64, len }));
        at = block.end;
    }
    if at < bytes.len() {
        found.push(Found::Gap { offset: base + at as u64, len: (bytes.len() - at) as u64 });
    }
    found
}

/// The raw form of what is sealed as `sealed`, if it is not damaged.
pub(super) fn opened(sealed: &[u8], place: Place) -> Result<Option<Vec<u8>>, NoMemory> {
    let mut raw = Vec::new();
    match open_stored(sealed, place, &mut raw) {
        Ok(()) => Ok(Some(raw)),
        Err(Unopened::Damaged(_)) => Ok(None),
        Err(Unopened::NoMemory) => Err(NoMemory),
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::seal_stored;
    use super::*;
    use tidesdb_sim::rng::SplitMix64;

    const BASE: u64 = 4000;

    fn sealed(blocks: &[Vec<u8>], codec: Compression) -> (Vec<u8>, Vec<Range<usize>>) {
        let (mut out, mut scratch, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for raw in blocks {
            let start = out.len();
            let place = Place { identity: 7, offset: BASE + start as u64 };
            seal_stored(raw, codec, place, &mut scratch, &mut out).unwrap();
            places.push(start..out.len());
        }
        (out, places)
    }

    fn found(bytes: &[u8]) -> Vec<Range<usize>> {
        let range = |handle: BlockHandle| {
            let start = (handle.offset - BASE) as usize;
            start..start + handle.len as usize
        };
        let blocks = find_blocks(bytes, BASE, 7).into_iter().filter_map(|found| match found {
            Found::Block(handle) => Some(range(handle)),
            Found::Gap { .. } => None,
        });
        blocks.collect()
    }

    #[test]
    fn all_blocks_but_the_damaged_are_found() {
        let mut random = SplitMix64::new(11);
        for codec in [Compression::None, Compression::Lz4, Compression::Zstd, Compression::Snappy] {
            for _ in 0..40 {
                let block = |random: &mut SplitMix64| -> Vec<u8> {
                    let (len, kinds) = (20 + random.below(3000), 6 + random.below(200));
                    (0..len).map(|_| random.below(kinds) as u8).collect()
                };
                let blocks: Vec<_> =
                    (0..1 + random.below(20)).map(|_| block(&mut random)).collect();
                let (mut bytes, mut places) = sealed(&blocks, codec);
                assert_eq!(found(&bytes), places);
                for _ in 0..random.below(4) {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                    places.retain(|place| !place.contains(&at));
                }
                let walked = found(&bytes);
                // A bit that was flipped twice is whole again.
                assert!(places.iter().all(|place| walked.contains(place)), "{places:?} {walked:?}");
            }
        }
    }

    #[test]
    fn what_looks_like_trailers_everywhere_takes_bounded_work() {
        let mut bytes = Vec::new();
        while bytes.len() < 1 << 20 {
            bytes.extend_from_slice(&[3, 0, 0, 3, 0, 0, 3]);
        }
        assert!(found(&bytes).is_empty());
    }
}
