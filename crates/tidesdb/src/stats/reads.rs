//! What gets and scans have met.

use super::ratio;
use crate::telemetry::counters::{Counted, Hot};

/// What reads have met since the open, of one family or of all.
///
/// Gets that a memtable answered are not counted: they met no table. The looks of a transaction's
/// commit are no reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadStats {
    /// Gets that no memtable answered, so that tables were asked.
    pub table_gets: u64,
    /// Seeks of scans.
    pub seeks: u64,
    /// Filters asked by gets, one for each table in whose key range the key lies.
    pub filters_asked: u64,
    /// Filters that excluded the key from their table, which was not searched then.
    pub filters_excluded: u64,
    /// Filters that let a key pass which was not in their table (or not yet, in a snapshot).
    pub filters_wrong: u64,
    /// Tables that gets searched, by index and block.
    pub tables_searched: u64,
    /// Blocks that were in the block cache.
    pub blocks_cached: u64,
    /// Blocks that had to be read.
    pub blocks_read: u64,
    /// Values that gets fetched from value logs.
    pub values_read: u64,
}

impl ReadStats {
    pub(super) const fn of(counted: &Counted) -> Self {
        Self {
            table_gets: counted.hot(Hot::TableGets),
            seeks: counted.hot(Hot::Seeks),
            filters_asked: counted.hot(Hot::FiltersAsked),
            filters_excluded: counted.hot(Hot::FiltersExcluded),
            filters_wrong: counted.hot(Hot::FiltersWrong),
            tables_searched: counted.hot(Hot::TablesSearched),
            blocks_cached: counted.hot(Hot::BlocksCached),
            blocks_read: counted.hot(Hot::BlocksRead),
            values_read: counted.hot(Hot::ValuesRead),
        }
    }

    /// Share of the blocks that were in the cache, 0 when there were none.
    #[must_use]
    pub fn cache_hit_rate(&self) -> f64 {
        ratio(self.blocks_cached, self.blocks_cached + self.blocks_read)
    }

    /// Share of the questions about absent keys that filters answered wrongly: what `bloom_fpr`
    /// bounds. 0 when no key was absent from a table.
    #[must_use]
    pub fn filter_false_positive_rate(&self) -> f64 {
        ratio(self.filters_wrong, self.filters_wrong + self.filters_excluded)
    }

    /// Share of the filters asked that spared a search.
    #[must_use]
    pub fn filter_usefulness(&self) -> f64 {
        ratio(self.filters_excluded, self.filters_asked)
    }

    /// Tables searched for each get that came to the tables: the read amplification that was
    /// measured, of which 1 is the best for keys that exist.
    #[must_use]
    pub fn tables_per_get(&self) -> f64 {
        ratio(self.tables_searched, self.table_gets)
    }
}
