//! Index and filter of an open table that are read part by part.
//!
//! Where there is no memory for all of them, only what finds the parts stays: where each begins,
//! and its checksum. A part is a few hundred bytes to two kilobytes of a section, and is read
//! through the block source like a block, so that what is hot stays in the cache. In the file the
//! sections are sealed as a whole; they are read and checked as such when the table is opened, and
//! each part is compared at every later reading with the checksum that it had then.
//!
//! A part of a flat index becomes a block like the nodes of a tree index, so that the table is
//! looked up, and walked, as one with a tree index. A filter that is not a Bloom filter of keys
//! alone has no parts and stays in memory as a whole.

use super::block::{Block, BlockBuilder, BlockHolder, EntryMeta};
use super::footer::Section;
use super::index::tree::encode_leaf;
use super::index::{RootBuilder, TreeIndex};
use super::{BlockHandle, BlockSource, HeldSizes, Table};
use crate::decode_error::DecodeError;
use crate::filter::LinesOfKeys;
use std::cell::Cell;
use tidesdb_base::checksum;
use tidesdb_base::codec::{Decoder, Malformed};
use tidesdb_base::entry::NEVER_EXPIRES;
use tidesdb_base::{Result, ValueKind};

/// Data blocks of one part of an index.
// A part is decoded as a whole at each reading. With more blocks in it that costs a get more than
// the reading; with fewer, what stays in memory is not small.
const BLOCKS_OF_PART: usize = 32;
/// Lines of one part of a filter.
const LINES_OF_PART: u64 = 32;

/// A builder larger than this is not kept for the thread's next part.
const LARGEST_KEPT_BYTES: usize = 64 << 10;

thread_local! {
    /// Makes blocks of parts of indexes, one after the other. A thread whose locals are gone makes
    /// one with a builder of its own.
    static BUILDER: Cell<BlockBuilder> = Cell::default();
}

/// Where the parts of index and filter begin, and their checksums.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Where the sections begin: behind all blocks.
    begin: u64,
    /// About what index and filter would take in memory.
    sizes: HeldSizes,
    index: IndexParts,
    filter: Option<FilterParts>,
}

impl Parts {
    /// Of a table whose sections begin at `begin`, and would take so many bytes in memory.
    pub(super) fn new(begin: u64, sizes: HeldSizes) -> Self {
        Self { begin, sizes, ..Self::default() }
    }

    /// About what index and filter would take in memory.
    pub(super) const fn sizes(&self) -> HeldSizes {
        self.sizes
    }

    /// Cuts a flat index whose section is `raw`, and returns the tree that finds the parts.
    pub(super) fn cut_index(
        &mut self,
        identity: u64,
        section: Section,
        raw: &[u8],
    ) -> std::result::Result<TreeIndex, DecodeError> {
        let (parts, tree) = IndexParts::cut(identity, section, raw)?;
        self.index = parts;
        Ok(tree)
    }

    /// Cuts a filter whose section is `raw`; false when it has no parts.
    pub(super) fn cut_filter(&mut self, identity: u64, section: Section, raw: &[u8]) -> bool {
        self.filter = FilterParts::cut(identity, section, raw);
        self.filter.is_some()
    }

    /// Whether a handle is one of a part.
    pub(super) const fn hold(&self, handle: BlockHandle) -> bool {
        handle.offset >= self.begin
    }

    /// Whether there is a filter in parts.
    pub(super) const fn have_filter(&self) -> bool {
        self.filter.is_some()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, |filter| filter.sums.capacity() * 8);
        size_of::<Self>() + self.index.memory_bytes() + filter
    }

    /// The block that the stored bytes of a part stand for, in the allocation of `raw`.
    ///
    /// # Errors
    /// A text saying what is wrong.
    pub(super) fn decode(
        &self,
        handle: BlockHandle,
        identity: u64,
        stored: &[u8],
        mut raw: Vec<u8>,
    ) -> std::result::Result<Block, String> {
        let found = checksum::placed(identity, handle.offset, stored);
        let of_filter = self.filter.as_ref().and_then(|filter| filter.sum(handle.offset));
        let expected = of_filter.or_else(|| self.index.sum(handle.offset));
        if expected != Some(found) {
            return Err("expected the bytes that the table was opened with, found others".into());
        }
        if of_filter.is_some() {
            raw.clear();
            raw.extend_from_slice(stored);
            return Ok(Block::of_bytes(raw));
        }
        let malformed = |Malformed| "expected an entry of the index, found none".to_owned();
        self.index.build(stored, &mut raw).map_err(malformed)?;
        Block::from_raw(raw).map_err(malformed)
    }

    /// Whether the part of the filter that knows lets a key with this hash through; true without a
    /// filter.
    ///
    /// # Errors
    /// When the part can't be read.
    pub(super) fn may_contain<S: BlockSource>(
        &self,
        table: &Table,
        hash: u64,
        source: &S,
    ) -> Result<bool> {
        let Some(filter) = &self.filter else { return Ok(true) };
        let line = filter.lines.line_of(hash);
        let handle = filter.handle(line / LINES_OF_PART);
        let block = source.block(table, handle)?;
        let answer = filter.lines.may_contain(hash, block.view().bytes(), line % LINES_OF_PART);
        answer.ok_or_else(|| table.malformed(handle))
    }
}

/// The parts of a flat index.
#[derive(Debug, Default)]
struct IndexParts {
    /// What all separators begin with.
    prefix: Vec<u8>,
    /// Where each part begins, and its checksum.
    parts: Vec<(u64, u64)>,
}

/// An entry of a flat index: the separator behind the prefix, and the length of its block.
type IndexEntry<'a> = (&'a [u8], u32);

fn next_entry<'a>(decoder: &mut Decoder<'a>) -> std::result::Result<IndexEntry<'a>, Malformed> {
    let suffix = decoder.bytes()?;
    let len = u32::try_from(decoder.varint()?).map_err(|_| Malformed)?;
    Ok((suffix, len))
}

impl IndexParts {
    fn cut(
        identity: u64,
        section: Section,
        raw: &[u8],
    ) -> std::result::Result<(Self, TreeIndex), DecodeError> {
        let mut decoder = Decoder::new(raw);
        let mut left = decoder.u32()? as usize;
        let prefix = decoder.bytes()?.to_vec();
        let at = |decoder: &Decoder<'_>| raw.len() - decoder.remaining().len();
        let begin = section.offset + at(&decoder) as u64;
        let (mut root, mut parts, mut separator) = (RootBuilder::default(), Vec::new(), Vec::new());
        while left > 0 {
            let blocks = left.min(BLOCKS_OF_PART);
            let (start, mut bytes) = (at(&decoder), 0);
            for _ in 0..blocks {
                let (suffix, len) = next_entry(&mut decoder)?;
                bytes += u64::from(len);
                separator.clear();
                separator.extend_from_slice(&prefix);
                separator.extend_from_slice(suffix);
            }
            let stored = raw.get(start..at(&decoder)).ok_or(Malformed)?;
            let offset = section.offset + start as u64;
            parts.push((offset, checksum::placed(identity, offset, stored)));
            let len = u32::try_from(stored.len()).map_err(|_| Malformed)?;
            root.push(&separator, len, blocks, bytes)?;
            left -= blocks;
        }
        if !decoder.is_empty() {
            return Err(DecodeError::Malformed);
        }
        Ok((Self { prefix, parts }, root.into_tree(begin)?))
    }

    fn memory_bytes(&self) -> usize {
        self.prefix.capacity() + self.parts.capacity() * size_of::<(u64, u64)>()
    }

    fn sum(&self, offset: u64) -> Option<u64> {
        let at = self.parts.binary_search_by_key(&offset, |part| part.0).ok()?;
        self.parts.get(at).map(|part| part.1)
    }

    /// Replaces `out` by the raw bytes of the block that stands for a part.
    fn build(&self, stored: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), Malformed> {
        let mut builder = BUILDER.try_with(Cell::take).unwrap_or_default();
        let meta = EntryMeta { seq: 0, kind: ValueKind::Value, expires_at: NEVER_EXPIRES };
        let (mut decoder, mut before) = (Decoder::new(stored), 0);
        let (mut separator, mut place) = (self.prefix.clone(), Vec::new());
        while !decoder.is_empty() {
            let (suffix, len) = next_entry(&mut decoder)?;
            separator.truncate(self.prefix.len());
            separator.extend_from_slice(suffix);
            place.clear();
            encode_leaf(before, len, &mut place);
            builder.push(&separator, meta, &place);
            before += u64::from(len);
        }
        if builder.is_empty() {
            return Err(Malformed);
        }
        builder.finish(out);
        if builder.memory_bytes() <= LARGEST_KEPT_BYTES {
            // On a thread that is ending the memory is freed.
            let _ = BUILDER.try_with(|kept| kept.set(builder));
        }
        Ok(())
    }
}

/// The parts of a filter.
#[derive(Debug)]
struct FilterParts {
    lines: LinesOfKeys,
    /// Where the first line lies in the file.
    begin: u64,
    sums: Vec<u64>,
}

impl FilterParts {
    fn cut(identity: u64, section: Section, raw: &[u8]) -> Option<Self> {
        let (lines, bytes) = LinesOfKeys::decode(raw)?;
        let begin = section.offset + (raw.len() - bytes.len()) as u64;
        let part_bytes = Self::PART_BYTES;
        let parts = bytes.chunks(usize::try_from(part_bytes).ok()?).zip(0..);
        let sums = parts
            .map(|(part, at): (_, u64)| checksum::placed(identity, begin + at * part_bytes, part));
        let sums = sums.collect();
        Some(Self { lines, begin, sums })
    }

    const PART_BYTES: u64 = LINES_OF_PART * LinesOfKeys::LINE_BYTES as u64;

    fn handle(&self, part: u64) -> BlockHandle {
        let left = self.lines.count().saturating_sub(part * LINES_OF_PART).min(LINES_OF_PART);
        let len = left * LinesOfKeys::LINE_BYTES as u64;
        BlockHandle {
            offset: self.begin + part * Self::PART_BYTES,
            // Of one part at most.
            len: u32::try_from(len).unwrap_or(u32::MAX),
        }
    }

    fn sum(&self, offset: u64) -> Option<u64> {
        let before = offset.checked_sub(self.begin)?;
        // The index lies behind the last part, which may be shorter than the others.
        let at = before.is_multiple_of(Self::PART_BYTES).then_some(before / Self::PART_BYTES)?;
        self.sums.get(usize::try_from(at).ok()?).copied()
    }
}
