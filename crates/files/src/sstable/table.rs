//! An open table: looks up keys and reads blocks.
//!
//! Footer, index, filter and properties are read and checked once, by [`Table::open`]; data blocks
//! are read when they are asked for, and checked each time they are read. Where there is no memory
//! for index and filter, these are read part by part as well ([`super::sections_in_parts`]).
//! Immutable, shared by all threads. Whether a table's key range or filter excludes a key is asked
//! by the caller ([`Table::may_contain`]), which has the hash for all tables; [`Table::get`] asks
//! it as well.
//!
//! | file | what |
//! |---|---|
//! | `opening` | reading and checking footer, index, filter and properties |
//! | `reading` | reading data blocks |
//! | `found` | what a lookup returns |

mod found;
mod opening;
mod reading;

use super::block::{BlockHolder, BlockRef};
use super::index::flattened_tree::read as read_whole;
use super::index::{Index, Leaves, NodeMemory, TreeIndex};
use super::properties::{TableSummary, ValueReferences};
use super::sections_in_parts::Parts;
use super::{BlockHandle, BlockSource, Uncached};
use crate::filter::{Filters, prefix_hash};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidesdb_base::key_ranges::prefix_end;
use tidesdb_base::{Error, Result, SequenceNumber};
use tidesdb_sys::vfs::File;

pub use self::found::{Found, FoundInBlock};

/// About how many bytes index and filter of a table take in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldSizes {
    /// The filters.
    pub filter: u64,
    /// The index.
    pub index: u64,
}

impl HeldSizes {
    /// Of both.
    #[must_use]
    pub const fn both(self) -> u64 {
        self.filter.saturating_add(self.index)
    }
}

/// What of a table is in memory; the rest is read part by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldParts {
    /// Index and filter.
    All,
    /// The filter alone.
    Filter,
    /// Neither.
    None,
}

/// An open table.
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
    memory: Memory,
}

/// Where the memory of a table counts.
#[derive(Debug, Default)]
struct Memory {
    /// What says how much of a tree index may be held; no node is without it.
    of_nodes: Option<Arc<dyn NodeMemory>>,
    /// Has [`Table::memory_bytes`].
    of_table: Option<Arc<dyn NodeMemory>>,
}

impl Table {
    /// The table, whose memory counts in `memory` until it is dropped.
    #[must_use]
    pub fn counted_in(mut self, memory: Arc<dyn NodeMemory>) -> Self {
        debug_assert!(self.memory.of_table.is_none(), "a table counts once");
        memory.take_table(self.memory_bytes() as u64);
        self.memory.of_table = Some(memory);
        self
    }

    /// The table, which from now on holds the index nodes that lookups need as long as `memory` has
    /// room, until it is dropped.
    #[must_use]
    pub fn holding_nodes(mut self, memory: Arc<dyn NodeMemory>) -> Self {
        self.memory.of_nodes = Some(memory);
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

    /// Whether the index, at least, is read part by part.
    #[inline]
    #[must_use]
    pub const fn is_in_parts(&self) -> bool {
        self.parts.is_some()
    }

    /// About how many bytes index and filter would take in memory, of a table that is read part by
    /// part; 0 of another.
    #[must_use]
    pub fn sizes(&self) -> HeldSizes {
        self.parts.as_ref().map_or(HeldSizes::default(), |parts| parts.sizes())
    }

    /// How much of index and filter is in memory.
    #[must_use]
    pub fn held_parts(&self) -> HeldParts {
        match &self.parts {
            None => HeldParts::All,
            Some(parts) if parts.have_filter() => HeldParts::None,
            Some(_) => HeldParts::Filter,
        }
    }

    /// Whether there is a filter of keys that is read part by part.
    #[must_use]
    pub fn reads_filter(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.have_filter())
    }

    /// As [`Table::may_contain`], of a table that [is read part by part](Table::is_in_parts): what
    /// that can't answer without reading.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Corruption`] or [`tidesdb_base::Error::Io`] when the part of the
    /// filter can't be read.
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
        self.filters.has_keys() || self.reads_filter()
    }

    /// What [`Table::may_contain`] will look at first, for a caller that wants it loaded
    /// beforehand.
    #[inline]
    #[must_use]
    pub fn filter_word(&self, hash: u64) -> Option<&u64> {
        self.filters.first_word(hash)
    }

    /// False when the table certainly holds no key from `lower` on and before `upper`, as far as
    /// the filter of prefixes shows: when all keys in between begin with a prefix that no key of
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
    pub(super) fn hold_node(&self, index: &TreeIndex, node: usize, block: BlockRef<'_>) -> bool {
        let Some(memory) = self.memory.of_nodes.as_ref().filter(|memory| memory.has_room()) else {
            return false;
        };
        let Some(bytes) = index.hold(node, block) else { return false };
        if bytes > 0 {
            memory.take(bytes);
            self.hold_whole(index, memory.as_ref());
        }
        true
    }

    /// Holds all of the index, once lookups have needed much of it and if there is room. What fails
    /// is no error here: lookups go on through the nodes, and meet what is wrong with theirs.
    #[cold]
    fn hold_whole(&self, index: &TreeIndex, memory: &dyn NodeMemory) {
        let has_room = index.wanted_whole().is_some_and(|bytes| memory.has_room_for(bytes));
        // Parts of a flat index are read so because there was no room for all.
        if !has_room || self.parts.is_some() || !index.begin_whole() {
            return;
        }
        let whole = match read_whole(self, index) {
            Ok(whole) => whole,
            // There may be memory when the next node is held.
            Err(Error::OutOfMemory(_)) => return index.begin_again(),
            Err(_) => return,
        };
        let bytes = whole.memory_bytes() as u64;
        if memory.has_room_for(bytes) {
            memory.take(bytes);
            index.set_whole(whole);
        }
    }

    /// Number of data blocks.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.index.len()
    }

    /// Where data block `at` lies; `None` past the last.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Corruption`] or [`tidesdb_base::Error::Io`] when the index node that
    /// names can't be read.
    pub fn block_handle<S: BlockSource>(
        &self,
        at: usize,
        blocks: &S,
    ) -> Result<Option<BlockHandle>> {
        Leaves::new().handle(self, blocks, at)
    }

    /// Keys that cut the table into at most `parts` parts of about equal size, in order. Found
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

    /// Into how many pieces [`Table::bytes_before`] divides the table: data blocks, or index nodes
    /// where only their places are in memory.
    #[must_use]
    pub fn pieces_in_memory(&self) -> usize {
        self.index.pieces()
    }

    /// The newest version of `key` with a sequence number of at most `snapshot`, looked for
    /// without asking filter or key range.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Corruption`] or [`tidesdb_base::Error::Io`].
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
            let view = block.view();
            let position = view.lower_bound(key, snapshot).ok_or_else(malformed)?;
            if position < view.len() {
                let entry = view.entry(position).ok_or_else(malformed)?;
                let found = view.has_key(&entry, key);
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
    /// this table at `handle`, which [`super::BlockFinder::first_for`] returned.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Corruption`].
    pub fn lookup_in<'b>(
        &self,
        (handle, block): (BlockHandle, BlockRef<'b>),
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
}

impl Drop for Table {
    fn drop(&mut self) {
        if let (Some(memory), Index::Tree(index)) = (&self.memory.of_nodes, &self.index) {
            memory.give_back(index.held_bytes());
        }
        if let Some(memory) = &self.memory.of_table {
            memory.give_back_table(self.memory_bytes() as u64);
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
