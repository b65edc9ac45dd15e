//! What one operation did and waited for.

use std::fmt;

use super::StallReason;

/// What an operation did and waited for; what does not concern it is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationProfile {
    /// Memtables that were searched.
    pub memtables_searched: u64,
    /// Tables that a get searched, or sorted runs that a scan has.
    pub tables_searched: u64,
    /// Filters that spared a search.
    pub filters_excluded: u64,
    /// Blocks that were in the block cache.
    pub blocks_cached: u64,
    /// Blocks that had to be read.
    pub blocks_read: u64,
    /// Values fetched from value logs.
    pub values_read: u64,
    /// Microseconds that flow control held the operation up.
    pub stall_micros: u64,
    /// Why it did; the last reason when there were several.
    pub stall_reason: Option<StallReason>,
    /// Microseconds of waiting for a sync of the log.
    pub sync_micros: u64,
}

impl fmt::Display for OperationProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        let mut part = |amount: u64, text: &dyn fmt::Display| {
            if amount == 0 {
                return Ok(());
            }
            let comma = if std::mem::take(&mut first) { "" } else { ", " };
            write!(f, "{comma}{text}")
        };
        part(self.memtables_searched, &format_args!("{} memtables", self.memtables_searched))?;
        part(self.tables_searched, &format_args!("{} tables", self.tables_searched))?;
        part(self.filters_excluded, &format_args!("{} spared by filters", self.filters_excluded))?;
        part(self.blocks_read, &format_args!("{} blocks read", self.blocks_read))?;
        part(self.blocks_cached, &format_args!("{} blocks cached", self.blocks_cached))?;
        part(self.values_read, &format_args!("{} values from value logs", self.values_read))?;
        let reason = self.stall_reason.map_or("flow control", StallReason::name);
        part(self.stall_micros, &format_args!("held up {} us: {reason}", self.stall_micros))?;
        part(self.sync_micros, &format_args!("{} us in a sync", self.sync_micros))
    }
}
