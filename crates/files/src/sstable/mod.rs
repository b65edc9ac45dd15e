//! Sorted tables: immutable files of versions ordered by key ascending, sequence descending.
//!
//! ```text
//! data blocks | [index nodes] | filter | index | properties | footer (fixed size, at the end)
//! ```
//!
//! [`TableWriter`] makes one from entries in order; [`Table`] opens one, looks up keys, and reads
//! blocks; [`TableIterator`] walks one. Decoded blocks come through a [`BlockSource`], behind
//! which the engine keeps its cache, so that this module knows no cache.
//!
//! | file | what |
//! |---|---|
//! | `writer`, `block`, `index`, `footer`, `properties` | the parts of a table, written and read |
//! | `sketch`, `expiry` | what properties say of keys and of times of expiry |
//! | `table`, `sections_in_parts` | an open table, also where there is no memory for its index |
//! | `iterator`, `prefetch` | a walk over a table, and blocks that it comes to next |
//! | `block_finder` | the blocks of many keys, before any is read |
//! | `verify` | everything that a table says, compared |
//! | `salvage`, `unindexed_blocks` | what is left of a damaged table, and blocks that no index names |
//!
//! A table is written by one thread. An open [`Table`] is immutable and shared by all threads; an
//! iterator belongs to one. The bytes are pictured in `docs/formats/sstable-block.md`.

mod block;
mod block_finder;
mod expiry;
mod footer;
#[cfg(feature = "testing")]
mod hostile;
mod index;
mod iterator;
mod prefetch;
mod properties;
mod salvage;
mod sections_in_parts;
mod sketch;
mod table;
mod unindexed_blocks;
mod verify;
mod writer;

pub use block::{Block, BlockHolder, BlockRef, BlockShape, EntryMeta};
pub use block_finder::BlockFinder;
pub use expiry::ExpiryOctiles;
#[cfg(feature = "testing")]
pub(crate) use hostile::{read_hostile_block, read_hostile_sections, sealed};
pub use index::NodeMemory;
pub use iterator::{Readahead, TableIterator};
pub use properties::{TableOrigin, TableSummary, ValueReferences};
pub use salvage::{Part, SalvagedEntry, SalvagedTable};
pub use sketch::KeySketch;
pub use table::{Found, FoundInBlock, HeldParts, HeldSizes, Table};
pub use writer::{IndexForm, TableOptions, TableWriter, WriterBuffers};

use tidesdb_base::Result;

/// What is written.
pub(crate) const FORMAT_VERSION: u32 = footer::VERSION as u32;
/// The oldest version that is read.
pub(crate) const OLDEST_VERSION: u32 = 1;
/// Bytes of the footer, which ends a table.
pub(crate) const FOOTER_LEN: u64 = footer::FOOTER_BYTES as u64;

/// Where a stored block lies in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockHandle {
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Its length with its trailer, in bytes.
    pub len: u32,
}

/// Hands out decoded blocks of tables, usually from a cache.
pub trait BlockSource {
    /// A decoded block that stays alive as long as this handle on it.
    type Block: BlockHolder;

    /// The block of `table` at `handle`; a source that does not have it calls
    /// [`Table::read_block`].
    ///
    /// # Errors
    /// As [`Table::read_block`].
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Self::Block>;

    /// The block if it can be had without reading the file. Iterators that read ahead ask this
    /// before they read the block themselves, and never put what they read into the source.
    fn cached(&self, table: &Table, handle: BlockHandle) -> Option<Self::Block> {
        let _ = (table, handle);
        None
    }

    /// Whether the block can be had without reading the file. Only asked to decide what is worth
    /// reading ahead.
    fn has(&self, table: &Table, handle: BlockHandle) -> bool {
        let _ = (table, handle);
        false
    }

    /// An iterator over blocks of this source keeps `after` bytes of memory, for what it has read
    /// ahead and for a large block of the source, and kept `before` until now.
    fn kept_by_reader(&self, before: usize, after: usize) {
        let _ = (before, after);
    }

    /// The block will be asked for in a moment.
    fn expect(&self, table: &Table, handle: BlockHandle) {
        let _ = (table, handle);
    }

    /// The block will be asked for, after another one; it was expected before.
    fn expect_soon(&self, table: &Table, handle: BlockHandle) {
        let _ = (table, handle);
    }

    /// As [`BlockSource::cached`], for a block that is read after another one.
    fn cached_next(&self, table: &Table, handle: BlockHandle) -> Option<Self::Block> {
        self.cached(table, handle)
    }

    /// The block, which [`BlockSource::cached`] has just not had.
    ///
    /// # Errors
    /// As [`Table::read_block`].
    fn uncached(&self, table: &Table, handle: BlockHandle) -> Result<Self::Block> {
        self.block(table, handle)
    }
}

impl<S: BlockSource + ?Sized> BlockSource for &S {
    type Block = S::Block;

    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Self::Block> {
        (**self).block(table, handle)
    }

    fn cached(&self, table: &Table, handle: BlockHandle) -> Option<Self::Block> {
        (**self).cached(table, handle)
    }

    fn has(&self, table: &Table, handle: BlockHandle) -> bool {
        (**self).has(table, handle)
    }

    fn kept_by_reader(&self, before: usize, after: usize) {
        (**self).kept_by_reader(before, after);
    }

    fn expect(&self, table: &Table, handle: BlockHandle) {
        (**self).expect(table, handle);
    }

    fn expect_soon(&self, table: &Table, handle: BlockHandle) {
        (**self).expect_soon(table, handle);
    }

    fn cached_next(&self, table: &Table, handle: BlockHandle) -> Option<Self::Block> {
        (**self).cached_next(table, handle)
    }

    fn uncached(&self, table: &Table, handle: BlockHandle) -> Result<Self::Block> {
        (**self).uncached(table, handle)
    }
}

/// Reads every block from the file, keeping none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uncached;

impl BlockSource for Uncached {
    type Block = Box<Block>;

    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Self::Block> {
        Ok(Box::new(table.read_block(handle, &mut Vec::new())?))
    }
}

/// How many leading bytes `a` and `b` share.
#[inline]
pub(crate) fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    let mut shared = 0;
    for (left, right) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differing = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if differing != 0 {
            return shared + differing.trailing_zeros() as usize / 8;
        }
        shared += 8;
    }
    let tail = |bytes| <[u8]>::get(bytes, shared..).unwrap_or_default();
    let tails = tail(a).iter().zip(tail(b));
    shared + tails.take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests;
