//! What is kept in memory of the files: decoded blocks, and open files.

mod held_block;
mod open_files;
mod table_memory;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use tidesdb_base::error::Result;
use tidesdb_base::thread_buffer::{keep_buffer, take_buffer};
use tidesdb_files::sstable::{BlockHandle, BlockHolder, BlockShape, BlockSource, Table};
use tidesdb_lockfree::cache::{self, CacheKey};
use tidesdb_lockfree::prefetch::prefetch;
use tidesdb_lockfree::stripe::ThisThread;

use crate::memory::{BoundedCache, Holder, MemoryBudget};
use crate::telemetry::counters::{Hot, HotCounters, ReadTally, tick};

pub(crate) use self::held_block::HeldBlock;
pub(crate) use self::open_files::{OpenFile, OpenFiles, OpenKind};
pub(crate) use self::table_memory::{Claim, CountsSince, HeldTable, TableMemory, Wanted};

/// What a cached block costs beyond its own bytes: the slot and the value's header.
const BLOCK_OVERHEAD_BYTES: usize = 64;

/// The block cache of a database: decoded blocks of all tables, within one budget of bytes.
#[derive(Debug)]
pub(crate) struct BlockCache(cache::BlockCache<BlockShape>);

impl BlockCache {
    /// A cache of so many bytes, for blocks of about `block_bytes`.
    pub(crate) fn new(capacity_bytes: usize, block_bytes: usize) -> Self {
        Self(cache::BlockCache::new(capacity_bytes, block_bytes + BLOCK_OVERHEAD_BYTES))
    }

    /// Drops the blocks of deleted tables. Looks at every block, whatever their number.
    pub(crate) fn erase_files(&self, files: &BTreeSet<u64>) {
        self.0.erase_files(files);
    }

    /// Blocks in the cache.
    pub(crate) fn entries(&self) -> u64 {
        self.0.entries() as u64
    }

    /// Parts of the cache.
    pub(crate) fn shards(&self) -> u64 {
        self.0.shards() as u64
    }

    /// Blocks that left to make room for others.
    pub(crate) fn evictions(&self) -> u64 {
        self.0.evictions()
    }

    /// Bytes used, capacity, hits, misses.
    pub(crate) fn statistics(&self) -> [u64; 4] {
        [
            self.0.usage_bytes() as u64,
            self.0.capacity_bytes() as u64,
            self.0.hits(),
            self.0.misses(),
        ]
    }
}

impl BoundedCache for BlockCache {
    fn used_bytes(&self) -> u64 {
        self.0.usage_bytes() as u64
    }

    fn capacity_bytes(&self) -> u64 {
        self.0.capacity_bytes() as u64
    }

    fn set_capacity(&self, bytes: u64) {
        self.0.set_capacity(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
}

thread_local! {
    /// Holds the stored bytes of a block while it is decoded.
    static STORED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A block, and whether the cache had it.
type Looked = (HeldBlock, bool);

/// Blocks that the cache does not have are read, and put into it where that is worth it: what is
/// read once lies in a buffer of the reader's and displaces nothing.
impl BlockCache {
    #[inline]
    fn look(&self, table: &Table, handle: BlockHandle, thread: ThisThread) -> Result<Looked> {
        let key = key_of(table, handle);
        if let Some(block) = self.0.get_by(key, thread) {
            return Ok((HeldBlock::Cached(block), true));
        }
        Ok((self.read(table, handle)?, false))
    }

    /// Reads a block that was looked for in vain.
    fn read(&self, table: &Table, handle: BlockHandle) -> Result<HeldBlock> {
        let key = key_of(table, handle);
        let raw = held_block::spare_buffer();
        let mut stored = take_buffer(&STORED);
        let block = table.read_block_into(handle, &mut stored, raw);
        keep_buffer(&STORED, stored, held_block::LARGEST_KEPT_BYTES);
        let block = block?;
        // Copied into the cache, it leaves its buffer to the thread's next read.
        let block = HeldBlock::own(block);
        let view = block.view();
        let charge = view.memory_bytes() + BLOCK_OVERHEAD_BYTES;
        if !self.0.admits(key, charge) {
            return Ok(block);
        }
        let cached = self.0.insert_with_tail(key, view.shape(), view.bytes(), charge);
        // Without memory for the copy, the read has its block all the same.
        Ok(cached.map_or(block, HeldBlock::Cached))
    }

    fn look_in_memory(
        &self,
        table: &Table,
        handle: BlockHandle,
        thread: ThisThread,
    ) -> Option<HeldBlock> {
        self.0.get_by(key_of(table, handle), thread).map(HeldBlock::Cached)
    }

    fn has(&self, table: &Table, handle: BlockHandle) -> bool {
        self.0.contains(key_of(table, handle))
    }
}

/// Blocks for one get, which tallies them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TalliedBlocks<'a> {
    pub cache: &'a BlockCache,
    pub tally: &'a ReadTally,
    /// That of the get.
    pub thread: ThisThread,
}

impl BlockSource for TalliedBlocks<'_> {
    type Block = HeldBlock;

    #[inline]
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Self::Block> {
        let (block, cached) = self.cache.look(table, handle, self.thread)?;
        tick(if cached { &self.tally.blocks_cached } else { &self.tally.blocks_read });
        Ok(block)
    }

    fn cached(&self, table: &Table, handle: BlockHandle) -> Option<Self::Block> {
        let found = self.cache.look_in_memory(table, handle, self.thread)?;
        tick(&self.tally.blocks_cached);
        Some(found)
    }

    fn has(&self, table: &Table, handle: BlockHandle) -> bool {
        self.cache.has(table, handle)
    }

    fn expect(&self, table: &Table, handle: BlockHandle) {
        self.cache.0.prefetch(key_of(table, handle));
    }

    fn uncached(&self, table: &Table, handle: BlockHandle) -> Result<Self::Block> {
        tick(&self.tally.blocks_read);
        self.cache.read(table, handle)
    }
}

/// Blocks for iterators, which outlive the call: cache and counters are kept alive.
#[derive(Clone, Debug)]
pub(crate) struct CachedBlocks(Arc<KeptBlocks>);

#[derive(Debug)]
struct KeptBlocks {
    cache: Arc<BlockCache>,
    counters: Option<Arc<HotCounters>>,
    /// Accounts for the memory that the iterators keep.
    budget: Option<Arc<MemoryBudget>>,
}

impl CachedBlocks {
    /// Blocks for a scan of a family, whose counters count them; what the scan reads ahead counts
    /// in the budget.
    pub(crate) fn for_scan(
        cache: &Arc<BlockCache>,
        budget: &Arc<MemoryBudget>,
        counters: &Arc<HotCounters>,
    ) -> Self {
        let (cache, counters) = (Arc::clone(cache), Some(Arc::clone(counters)));
        Self(Arc::new(KeptBlocks { cache, counters, budget: Some(Arc::clone(budget)) }))
    }

    /// Blocks for looks that are not a reader's.
    pub(crate) fn uncounted(cache: &Arc<BlockCache>) -> Self {
        Self(Arc::new(KeptBlocks { cache: Arc::clone(cache), counters: None, budget: None }))
    }

    fn count(&self, thread: ThisThread, cached: bool) {
        if let Some(counters) = &self.0.counters {
            counters.add_by(thread, if cached { Hot::BlocksCached } else { Hot::BlocksRead }, 1);
        }
    }
}

impl BlockSource for CachedBlocks {
    type Block = HeldBlock;

    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Self::Block> {
        let thread = ThisThread::get();
        let (block, cached) = self.0.cache.look(table, handle, thread)?;
        self.count(thread, cached);
        Ok(block)
    }

    fn kept_by_reader(&self, before: usize, after: usize) {
        let Some(budget) = &self.0.budget else { return };
        if after > before {
            budget.take(Holder::Scans, (after - before) as u64);
        } else {
            budget.give_back(Holder::Scans, (before - after) as u64);
        }
    }

    /// What is not cached the caller reads itself.
    fn cached(&self, table: &Table, handle: BlockHandle) -> Option<Self::Block> {
        let thread = ThisThread::get();
        let found = self.0.cache.look_in_memory(table, handle, thread);
        self.count(thread, found.is_some());
        found
    }

    fn expect(&self, table: &Table, handle: BlockHandle) {
        self.0.cache.0.prefetch(key_of(table, handle));
    }

    fn expect_soon(&self, table: &Table, handle: BlockHandle) {
        self.0.cache.0.prefetch_entry(key_of(table, handle));
    }

    fn cached_next(&self, table: &Table, handle: BlockHandle) -> Option<Self::Block> {
        let found = self.cached(table, handle)?;
        found.view().front().for_each(prefetch);
        Some(found)
    }
}

/// The name of a block in the cache.
#[inline]
fn key_of(table: &Table, handle: BlockHandle) -> CacheKey {
    CacheKey { file: table.identity(), offset: handle.offset }
}

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};
    use tidesdb_sim::rng::SplitMix64;

    use super::*;
    use crate::db::{Components, Db};

    /// The buffer of the largest block that a thread had ever read stayed with the thread.
    #[test]
    fn a_thread_keeps_no_large_buffer() {
        let options = DbOptions::default().block_cache_bytes(0);
        let db = Db::open_with("/db", options, Components::simulated()).unwrap();
        let options = FamilyOptions::default().klog_value_threshold(1 << 30);
        let family = db.create_family("values", options).unwrap();
        // Half of it can be compressed.
        let mut value = vec![7; 1_000_000];
        SplitMix64::new(1).fill(&mut value[..500_000]);
        family.put(b"large", &value).unwrap();
        family.flush().unwrap();
        family.put(b"small", b"value").unwrap();
        family.flush().unwrap();
        assert_eq!(family.get(b"large").unwrap(), Some(value));
        let kept = || {
            let buffer = take_buffer(&STORED);
            let bytes = buffer.capacity();
            keep_buffer(&STORED, buffer, usize::MAX);
            bytes
        };
        assert!(kept() <= 256 << 10, "{} bytes are kept", kept());
        assert_eq!(family.get(b"small").unwrap(), Some(b"value".to_vec()));
        assert!(kept() > 0, "nothing was put to the test");
    }
}
