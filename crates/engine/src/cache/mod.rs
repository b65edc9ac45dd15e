//! What is kept in memory of the files: decoded blocks, and open files.

mod held_block;
mod open_files;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use tidesdb_base::error::Result;
use tidesdb_files::sstable::{Block, BlockHandle, BlockSource, Table};
use tidesdb_lockfree::cache::{self, CacheKey, Priority};

use crate::thread_buffer::{keep_buffer, take_buffer};

pub(crate) use self::held_block::HeldBlock;
pub(crate) use self::open_files::{OpenFile, OpenFiles};

/// What a cached block costs beyond its own bytes: the slot and the value's header.
const BLOCK_OVERHEAD_BYTES: usize = 64;

/// The block cache of a database: decoded blocks of all tables, within one budget of bytes.
#[derive(Debug)]
pub(crate) struct BlockCache(cache::BlockCache<Block>);

impl BlockCache {
    /// A cache of so many bytes, for blocks of about `block_bytes`.
    pub(crate) fn new(capacity_bytes: usize, block_bytes: usize) -> Self {
        Self(cache::BlockCache::new(capacity_bytes, block_bytes + BLOCK_OVERHEAD_BYTES))
    }

    /// Drops the blocks of deleted tables. Looks at every block, whatever their number.
    pub(crate) fn erase_files(&self, files: &BTreeSet<u64>) {
        self.0.erase_files(files);
    }

    /// Changes the budget, evicting what no longer fits.
    pub(crate) fn set_capacity(&self, capacity_bytes: u64) {
        self.0.set_capacity(usize::try_from(capacity_bytes).unwrap_or(usize::MAX));
    }

    /// Blocks in the cache.
    pub(crate) fn entries(&self) -> u64 {
        self.0.entries() as u64
    }

    /// Parts of the cache.
    pub(crate) fn shards(&self) -> u64 {
        self.0.shards() as u64
    }

    /// Figures for statistics: bytes used, capacity, hits, misses.
    pub(crate) fn figures(&self) -> [u64; 4] {
        [
            self.0.usage_bytes() as u64,
            self.0.capacity_bytes() as u64,
            self.0.hits(),
            self.0.misses(),
        ]
    }
}

thread_local! {
    /// Holds the stored bytes of a block while it is decoded.
    static STORED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Blocks that the cache does not have are read, and put into it where that is worth it: what is
/// read once lies in a buffer of the reader's and displaces nothing.
impl BlockSource for BlockCache {
    type Block = HeldBlock;

    #[inline]
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Self::Block> {
        let key = CacheKey { file: table.identity(), offset: handle.offset };
        if let Some(block) = self.0.get(key) {
            return Ok(HeldBlock::Cached(block));
        }
        let raw = held_block::spare_buffer();
        let mut stored = take_buffer(&STORED);
        let block = table.read_block_into(handle, &mut stored, raw);
        keep_buffer(&STORED, stored, usize::MAX);
        let block = block?;
        if !self.0.admits(key, block.raw_bytes() + BLOCK_OVERHEAD_BYTES) {
            return Ok(HeldBlock::own(block));
        }
        let block = block.without_spare_capacity();
        let charge = block.memory_bytes() + BLOCK_OVERHEAD_BYTES;
        Ok(HeldBlock::Cached(self.0.insert(key, block, charge, Priority::Normal)))
    }

    fn cached(&self, table: &Table, handle: BlockHandle) -> Option<Self::Block> {
        let key = CacheKey { file: table.identity(), offset: handle.offset };
        self.0.get(key).map(HeldBlock::Cached)
    }
}

/// Blocks through a cache that is kept alive: for iterators, which outlive the call.
#[derive(Clone, Debug)]
pub(crate) struct CachedBlocks(pub Arc<BlockCache>);

impl BlockSource for CachedBlocks {
    type Block = HeldBlock;

    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Self::Block> {
        self.0.block(table, handle)
    }

    fn cached(&self, table: &Table, handle: BlockHandle) -> Option<Self::Block> {
        self.0.cached(table, handle)
    }
}
