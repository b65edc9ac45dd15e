//! Statistics of the block cache.

use super::ratio;
use crate::cache::BlockCache;

/// Statistics of the block cache, which all families share. Cheap: nothing else is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Size in bytes now; it gives way when the memory budget is short. 0 when there is no cache.
    pub capacity_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Blocks in the cache.
    pub entries: u64,
    /// Parts that have a budget and an order of eviction of their own.
    pub shards: u64,
    /// Blocks found since the open.
    pub hits: u64,
    /// Blocks that were not there.
    pub misses: u64,
    /// Blocks that left to make room for others.
    pub evictions: u64,
}

impl CacheStats {
    pub(crate) fn of(blocks: &BlockCache) -> Self {
        let [used_bytes, capacity_bytes, hits, misses] = blocks.statistics();
        Self {
            capacity_bytes,
            used_bytes,
            entries: blocks.entries(),
            shards: blocks.shards(),
            hits,
            misses,
            evictions: blocks.evictions(),
        }
    }

    /// Share of the lookups that found their block, 0 when there were none.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        ratio(self.hits, self.hits + self.misses)
    }
}
