//! An open table: looks up keys and reads blocks.
//!
//! Footer, index, filter and properties are read and checked once, by [`Table::open`]; data blocks
//! are read when they are asked for, and checked each time they are read. Where there is no memory
//! for index and filter, these are read part by part as well ([`super::parts`]). Immutable, shared
//! by all threads. Whether a table's key range or filter excludes a key is asked by the caller
//! ([`Table::may_contain`]), which has the hash for all tables; [`Table::get`] asks it as well.

use super::block::{
    Block, EntryMeta, EntrySpan, Place, TRAILER_BYTES, is_stored_as_it_is, open_stored,
};
use super::footer::{FOOTER_BYTES, Footer, Section};
use super::index::{FlatIndex, Index, Leaves, NodeMemory, TreeIndex};
use super::parts::Parts;
use super::properties::{TableSummary, ValueReferences};
use super::writer::MIN_TABLE_BYTES;
use super::{BlockHandle, BlockSource, Uncached};
use crate::filter::{Filters, prefix_hash};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidesdb_base::key_ranges::prefix_end;
use tidesdb_base::{Error, Result, SequenceNumber};
use tidesdb_sys::large_vec::LargeVec;
use tidesdb_sys::vfs::File;

/// A version found by a lookup. Keeps its block alive, so the value is borrowed without a copy.
#[derive(Debug)]
pub struct Found<B> {
    block: B,
    entry: EntrySpan,
}

impl<B: Deref<Target = Block>> Found<B> {
    /// Sequence number, kind and expiry.
    #[must_use]
    pub const fn meta(&self) -> EntryMeta {
        self.entry.meta
    }

    /// The same version, in a handle on the block made of this one.
    #[must_use]
    pub fn map<C>(self, block: impl FnOnce(B) -> C) -> Found<C> {
        Found { block: block(self.block), entry: self.entry }
    }

    /// The block.
    #[must_use]
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// The value, or the encoded value pointer, or nothing for a tombstone.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.block.value(&self.entry)
    }
}

/// What one block tells of a key.
#[derive(Debug)]
pub enum FoundInBlock<'b> {
    /// The version.
    Here(Found<&'b Block>),
    /// There is none that is visible.
    Absent,
    /// All of the block lies before it: usually there is none, but versions of one key may straddle
    /// blocks, and [`Table::lookup`] looks on.
    Beyond,
}

/// An open table. See the module's documentation.
#[derive(Debug)]
pub struct Table {
    file: Arc<dyn File>,
    path: PathBuf,
    identity: u64,
    pub(super) index: Index,
    filters: Filters,
    /// What is read part by part.
    parts: Option<Box<Parts>>,
    summary: TableSummary,
    /// What says how much of a tree index may be held; no node is without it.
    node_memory: Option<Arc<dyn NodeMemory>>,
}

impl Table {
    /// Opens the table in `file`, called `path` in errors, that was written as `identity`.
    ///
    /// # Errors
    /// [`Error::Corruption`] when anything but the data blocks is damaged, or [`Error::Io`].
    pub fn open(file: Arc<dyn File>, path: &Path, identity: u64) -> Result<Self> {
        Self::open_within(file, path, identity, |_| true)
    }

    /// As [`Table::open`], with index and filter in memory when `has_room` says so of about how
    /// many bytes they take; otherwise they are read part by part through the block source of each
    /// call.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn open_within(
        file: Arc<dyn File>,
        path: &Path,
        identity: u64,
        has_room: impl FnOnce(u64) -> bool,
    ) -> Result<Self> {
        let len = file.len().map_err(|error| Error::io("read length", path, error))?;
        if len < MIN_TABLE_BYTES {
            let text = format!("table of {len} bytes, shorter than an empty one");
            return Err(Error::corruption(path, len, text));
        }
        let footer_at = len - FOOTER_BYTES as u64;
        let mut bytes = vec![0; FOOTER_BYTES];
        read_exact(file.as_ref(), path, &mut bytes, footer_at)?;
        let footer = Footer::decode(&bytes, identity, footer_at)
            .map_err(|text| Error::corruption(path, footer_at, text))?;
        let section = |section: Section| read_section(file.as_ref(), path, identity, section);
        let damaged = |section: Section, what: &str| {
            Error::corruption(path, section.offset, format!("{what} is malformed"))
        };
        // In memory an index has another form, of about twice the size.
        let wanted = footer.filter.len + 2 * footer.index.len;
        let mut parts =
            (!has_room(wanted)).then(|| Box::new(Parts::new(footer.filter.offset, wanted)));
        let bytes = section(footer.index)?;
        let index = match (&mut parts, footer.has_tree_index) {
            (_, true) => TreeIndex::decode(&bytes).map(Index::Tree),
            // Parts are read where they lie, so the section must lie there as it is.
            (Some(parts), false) if is_stored_raw(footer.index, &bytes) => {
                parts.cut_index(identity, footer.index, &bytes).map(Index::Tree)
            }
            (_, false) => FlatIndex::decode(&bytes).map(Index::Flat),
        };
        let index = index.map_err(|_| damaged(footer.index, "index"))?;
        let blocks_end = match (&parts, footer.has_tree_index) {
            (Some(_), false) => Some(index.data_bytes()),
            _ => index.blocks_end(),
        };
        if blocks_end != Some(footer.filter.offset) {
            return Err(damaged(footer.index, "index does not cover the data blocks and so"));
        }
        drop(bytes);
        let filters = match footer.filter.len {
            0 => Filters::default(),
            _ => {
                let bytes = section(footer.filter)?;
                let in_parts = parts.as_mut().is_some_and(|parts| {
                    is_stored_raw(footer.filter, &bytes)
                        && parts.cut_filter(identity, footer.filter, &bytes)
                });
                let all = if in_parts { Ok(Filters::default()) } else { Filters::decode(&bytes) };
                all.map_err(|_| damaged(footer.filter, "filter"))?
            }
        };
        let properties = TableSummary::decode(&section(footer.properties)?)
            .map_err(|_| damaged(footer.properties, "properties section"))?;
        let summary = TableSummary {
            file_len: len,
            entries: footer.entries,
            tombstones: footer.tombstones,
            data_blocks: index.len() as u64,
            index_nodes: if footer.has_tree_index { index.nodes() as u64 } else { 0 },
            ..properties
        };
        let path = path.to_path_buf();
        Ok(Self { file, path, identity, index, filters, parts, summary, node_memory: None })
    }

    /// The table, which from now on holds the index nodes that lookups need as long as `memory` has
    /// room, until it is dropped.
    #[must_use]
    pub fn holding_nodes(mut self, memory: Arc<dyn NodeMemory>) -> Self {
        self.node_memory = Some(memory);
        self
    }

    /// The path the table was opened as.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of the file.
    #[must_use]
    pub const fn identity(&self) -> u64 {
        self.identity
    }

    /// What the table holds.
    #[must_use]
    pub const fn summary(&self) -> &TableSummary {
        &self.summary
    }

    /// Bytes of memory held by the open table: index and filter above all, and what it knows of
    /// value logs. Index nodes that are held ([`Table::holding_nodes`]) are left out.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.index.memory_bytes()
            + self.filters.memory_bytes()
            + self.parts.as_ref().map_or(0, |parts| parts.memory_bytes())
            + self.summary.min_key.capacity()
            + self.summary.max_key.capacity()
            + self.summary.value_references.capacity() * size_of::<ValueReferences>()
    }

    /// Whether index and filter are read part by part.
    #[inline]
    #[must_use]
    pub const fn is_in_parts(&self) -> bool {
        self.parts.is_some()
    }

    /// About how many bytes index and filter would take in memory, of a table that is read part by
    /// part; 0 of another.
    #[must_use]
    pub fn bytes_as_a_whole(&self) -> u64 {
        self.parts.as_ref().map_or(0, |parts| parts.whole_bytes())
    }

    /// As [`Table::may_contain`], of a table that [is read part by part](Table::is_in_parts): what
    /// that can't tell without reading.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Io`] when the part of the filter can't be read.
    pub fn may_contain_by_parts<S: BlockSource>(&self, hash: u64, blocks: &S) -> Result<bool> {
        self.parts.as_ref().map_or(Ok(true), |parts| parts.may_contain(self, hash, blocks))
    }

    /// False when the key with this [`crate::filter::key_hash`] is certainly not in the table, as
    /// far as that is known without reading.
    #[inline]
    #[must_use]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filters.may_contain(hash)
    }

    /// Whether the table has a filter of keys, which [`Table::may_contain`] asks.
    #[inline]
    #[must_use]
    pub fn has_filter(&self) -> bool {
        self.filters.has_keys() || self.parts.as_ref().is_some_and(|parts| parts.have_filter())
    }

    /// What [`Table::may_contain`] will look at first, for a caller that wants it loaded
    /// beforehand.
    #[inline]
    #[must_use]
    pub fn filter_word(&self, hash: u64) -> Option<&u64> {
        self.filters.first_word(hash)
    }

    /// False when the table certainly holds no key from `lower` on and before `upper`, as far as
    /// the filter of prefixes tells: when all keys in between begin with a prefix that no key of
    /// the table has.
    #[must_use]
    pub fn may_hold_between(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let prefix_bytes = self.filters.prefix_bytes();
        if prefix_bytes == 0 || !share_prefix(lower, upper, prefix_bytes) {
            return true;
        }
        prefix_hash(lower, prefix_bytes).is_none_or(|hash| self.filters.may_contain_prefix(hash))
    }

    /// Whether all filters let a key with this hash through, as they must each key of the table.
    pub(super) fn filters_know(&self, key: &[u8], hash: u64) -> Result<bool> {
        let prefix = prefix_hash(key, self.filters.prefix_bytes());
        let known = self.may_contain(hash)
            && prefix.is_none_or(|hash| self.filters.may_contain_prefix(hash));
        Ok(known && self.may_contain_by_parts(hash, &Uncached)?)
    }

    /// Whether `key` lies between the table's smallest and largest key.
    #[inline]
    #[must_use]
    pub fn covers(&self, key: &[u8]) -> bool {
        self.summary.min_key.as_slice() <= key && key <= self.summary.max_key.as_slice()
    }

    /// Whether the index has nodes that are read through a block source.
    #[must_use]
    pub const fn has_tree_index(&self) -> bool {
        matches!(self.index, Index::Tree(_))
    }

    /// Holds an index node, whose block this is, if that is possible; true when it is held now.
    pub(super) fn hold_node(&self, index: &TreeIndex, node: usize, block: &Block) -> bool {
        let Some(memory) = self.node_memory.as_ref().filter(|memory| memory.has_room()) else {
            return false;
        };
        let Some(bytes) = index.hold(node, block) else { return false };
        if bytes > 0 {
            memory.take(bytes);
        }
        true
    }

    /// Number of data blocks.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.index.len()
    }

    /// Where data block `at` lies; `None` past the last.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Io`] when the index node that tells can't be read.
    pub fn block_handle<S: BlockSource>(
        &self,
        at: usize,
        blocks: &S,
    ) -> Result<Option<BlockHandle>> {
        Leaves::new().handle(self, blocks, at)
    }

    /// Keys that cut the table into at most `parts` parts of about equal size, in order. Told
    /// without reading.
    #[must_use]
    pub fn keys_between(&self, parts: usize) -> Vec<Vec<u8>> {
        self.index.keys_between(parts)
    }

    /// About how many bytes of data blocks lie before `key`.
    #[must_use]
    pub fn bytes_before(&self, key: &[u8]) -> u64 {
        self.index.bytes_before(key)
    }

    /// The newest version of `key` with a sequence number of at most `snapshot`, looked for
    /// without asking filter or key range.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Io`].
    #[inline]
    pub fn lookup<S: BlockSource>(
        &self,
        key: &[u8],
        snapshot: SequenceNumber,
        blocks: &S,
    ) -> Result<Option<Found<S::Block>>> {
        let mut leaves = Leaves::new();
        let mut at = leaves.first_for(self, blocks, key)?;
        // More than one turn only when the versions of `key` straddle blocks.
        while let Some(handle) = leaves.handle(self, blocks, at)? {
            let block = blocks.block(self, handle)?;
            let malformed = || self.malformed(handle);
            let position = block.lower_bound(key, snapshot).ok_or_else(malformed)?;
            if position < block.len() {
                let entry = block.entry(position).ok_or_else(malformed)?;
                let found = block.has_key(&entry, key);
                return Ok(found.then_some(Found { block, entry }));
            }
            if !leaves.separator_is(self, blocks, at, key)? {
                break;
            }
            at += 1;
        }
        Ok(None)
    }

    /// The newest version of `key` with a sequence number of at most `snapshot` in a data block of
    /// this table at `handle`, which [`BlockFinder::first_for`] told.
    ///
    /// # Errors
    /// [`Error::Corruption`].
    pub fn lookup_in<'b>(
        &self,
        (handle, block): (BlockHandle, &'b Block),
        key: &[u8],
        snapshot: SequenceNumber,
    ) -> Result<FoundInBlock<'b>> {
        let malformed = || self.malformed(handle);
        let position = block.lower_bound(key, snapshot).ok_or_else(malformed)?;
        if position >= block.len() {
            return Ok(FoundInBlock::Beyond);
        }
        let entry = block.entry(position).ok_or_else(malformed)?;
        if !block.has_key(&entry, key) {
            return Ok(FoundInBlock::Absent);
        }
        Ok(FoundInBlock::Here(Found { block, entry }))
    }

    /// As [`Table::lookup`], after asking the filter for `hash`, the key's
    /// [`crate::filter::key_hash`].
    ///
    /// # Errors
    /// As [`Table::lookup`].
    #[inline]
    pub fn get<S: BlockSource>(
        &self,
        key: &[u8],
        hash: u64,
        snapshot: SequenceNumber,
        blocks: &S,
    ) -> Result<Option<Found<S::Block>>> {
        if !self.may_contain(hash) || !self.covers(key) {
            return Ok(None);
        }
        if !self.may_contain_by_parts(hash, blocks)? {
            return Ok(None);
        }
        self.lookup(key, snapshot, blocks)
    }

    /// Reads, checks and decodes one data block; `scratch` holds the stored bytes meanwhile.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Io`].
    pub fn read_block(&self, handle: BlockHandle, scratch: &mut Vec<u8>) -> Result<Block> {
        self.read_block_into(handle, scratch, Vec::new())
    }

    /// As [`Table::read_block`]; the block takes over the allocation of `raw` if it is large
    /// enough.
    ///
    /// # Errors
    /// As [`Table::read_block`].
    pub fn read_block_into(
        &self,
        handle: BlockHandle,
        scratch: &mut Vec<u8>,
        raw: Vec<u8>,
    ) -> Result<Block> {
        let stored = self.read_stored(handle.offset, handle.len as usize, scratch)?;
        match &self.parts {
            Some(parts) if parts.hold(handle) => parts
                .decode(handle, self.identity, stored, raw)
                .map_err(|text| Error::corruption(&self.path, handle.offset, text)),
            _ => self.decode_block(handle, stored, raw),
        }
    }

    /// Reads `len` bytes at `offset` into the front of `scratch`, which grows as needed.
    pub(super) fn read_stored<'a>(
        &self,
        offset: u64,
        len: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        // A longer buffer is kept as it is: growing it again would mean clearing it again.
        if scratch.len() < len {
            scratch.resize(len, 0);
        }
        let buffer = scratch.get_mut(..len).unwrap_or_default();
        read_exact(self.file.as_ref(), &self.path, buffer, offset)?;
        Ok(buffer)
    }

    /// Replaces `buffer` by `len` bytes at `offset`.
    pub(super) fn read_ahead(
        &self,
        offset: u64,
        len: usize,
        buffer: &mut LargeVec<u8>,
    ) -> Result<()> {
        // A longer buffer is kept as it is: growing it again would mean clearing it again.
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let buffer = buffer.get_mut(..len).unwrap_or_default();
        read_exact(self.file.as_ref(), &self.path, buffer, offset)
    }

    /// Has the system begin to read a block that will be wanted soon.
    pub fn start_reading_block(&self, handle: BlockHandle) {
        self.file.start_reading(handle.offset, u64::from(handle.len));
    }

    /// Has the system begin to read data blocks that will be wanted soon.
    pub(super) fn start_reading(&self, offset: u64, len: u64) {
        let len = len.min(self.index.data_bytes().saturating_sub(offset));
        if len > 0 {
            self.file.start_reading(offset, len);
        }
    }

    /// Checks and decodes the stored bytes of a data block, reusing the allocation of `raw`.
    pub(super) fn decode_block(
        &self,
        handle: BlockHandle,
        stored: &[u8],
        mut raw: Vec<u8>,
    ) -> Result<Block> {
        let place = Place { identity: self.identity, offset: handle.offset };
        open_stored(stored, place, &mut raw)
            .map_err(|text| Error::corruption(&self.path, handle.offset, text))?;
        Block::from_raw(raw).map_err(|_| self.malformed(handle))
    }

    #[cold]
    pub(super) fn malformed(&self, handle: BlockHandle) -> Error {
        Error::corruption(&self.path, handle.offset, "block is malformed")
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let (Some(memory), Index::Tree(index)) = (&self.node_memory, &self.index) {
            memory.give_back(index.held_bytes());
        }
    }
}

/// Whether all keys from `lower` on and before `upper` begin with the first `prefix_bytes` bytes of
/// `lower`, bytewise.
fn share_prefix(lower: &[u8], upper: Option<&[u8]>, prefix_bytes: usize) -> bool {
    let Some(prefix) = lower.get(..prefix_bytes) else { return false };
    match (prefix_end(prefix), upper) {
        (Some(end), Some(upper)) => upper <= end.as_slice(),
        (Some(_), None) => false,
        // Nothing lies behind a prefix of the highest bytes.
        (None, _) => true,
    }
}

/// Whether the raw bytes of a section lie in the file as they are.
const fn is_stored_raw(section: Section, raw: &[u8]) -> bool {
    section.len == (raw.len() + TRAILER_BYTES) as u64
}

fn read_exact(file: &dyn File, path: &Path, buffer: &mut [u8], at: u64) -> Result<()> {
    file.read_exact_at(buffer, at).map_err(|error| {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Error::corruption(path, at, error.to_string());
        }
        Error::io("read", path, error)
    })
}

/// A section of a table, which was checked.
enum SectionBytes {
    /// As it lies in the file, with its trailer.
    Stored(LargeVec<u8>),
    Decoded(Vec<u8>),
}

impl Deref for SectionBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Stored(bytes) => {
                bytes.get(..bytes.len().saturating_sub(TRAILER_BYTES)).unwrap_or_default()
            }
            Self::Decoded(bytes) => bytes,
        }
    }
}

fn read_section(
    file: &dyn File,
    path: &Path,
    identity: u64,
    section: Section,
) -> Result<SectionBytes> {
    // The footer was checked to lie behind all sections, so this allocates at most the file.
    let len = usize::try_from(section.len)
        .map_err(|_| Error::corruption(path, section.offset, "section too long for memory"))?;
    let mut stored = LargeVec::filled(len, 0);
    read_exact(file, path, &mut stored, section.offset)?;
    let place = Place { identity, offset: section.offset };
    let damaged = |text| Error::corruption(path, section.offset, text);
    // Sections are large and never compressed: most of them are not copied once more.
    if is_stored_as_it_is(&stored, place).map_err(damaged)? {
        return Ok(SectionBytes::Stored(stored));
    }
    let mut raw = Vec::new();
    open_stored(&stored, place, &mut raw).map_err(damaged)?;
    Ok(SectionBytes::Decoded(raw))
}
