//! What commits, flushes and compactions have done.

use super::ratio;
use crate::telemetry::counters::{Counted, Hot, Work};

/// What was done since the open, in one family or in all. What families did that are dropped counts
/// in the sum of all.
// More than a dozen fields: one for each counter that users read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkStats {
    /// Bytes of keys and values committed.
    pub user_bytes_written: u64,
    /// Operations committed.
    pub operations_written: u64,
    /// Bytes of the log records of commits, with their headers and padding, and of the values that
    /// commits put into value logs themselves, those of 1 MiB and more. Of a commit to several
    /// families, each counts what its operations took, and one of them the header and padding.
    pub log_bytes_written: u64,
    /// Memtables frozen, to be written out by a flush. Empty ones never are.
    pub memtables_frozen: u64,
    /// Bytes of tables and value logs written by flushes.
    pub flush_bytes_written: u64,
    /// Tables written by flushes; one flush writes as many as `target_table_bytes` asks for.
    pub flush_tables_written: u64,
    /// Memtables written out.
    pub flushes: u64,
    /// Flushes that failed; they are tried again.
    pub flush_failures: u64,
    /// Nanoseconds that flushes took.
    pub flush_nanos: u64,
    /// Bytes of tables and value logs written by compactions.
    pub compaction_bytes_written: u64,
    /// Bytes of tables read by compactions.
    pub compaction_bytes_read: u64,
    /// Tables written by compactions.
    pub compaction_tables_written: u64,
    /// Compactions.
    pub compactions: u64,
    /// Those of them that were of a part of the key space alone, for the garbage in it.
    pub compaction_slices: u64,
    /// Those of them that failed or were given up.
    pub compaction_failures: u64,
    /// Steps that compactions have installed. A step stays installed when the compaction fails
    /// later.
    pub compaction_steps: u64,
    /// Nanoseconds that compactions took.
    pub compaction_nanos: u64,
}

impl WorkStats {
    pub(super) const fn of(counted: &Counted) -> Self {
        Self {
            user_bytes_written: counted.hot(Hot::UserBytes),
            operations_written: counted.hot(Hot::Operations),
            log_bytes_written: counted.hot(Hot::LogBytes),
            memtables_frozen: counted.work(Work::MemtablesFrozen),
            flush_bytes_written: counted.work(Work::FlushBytes),
            flush_tables_written: counted.work(Work::FlushTables),
            flushes: counted.work(Work::Flushes),
            flush_failures: counted.work(Work::FlushFailures),
            flush_nanos: counted.work(Work::FlushNanos),
            compaction_bytes_written: counted.work(Work::CompactionBytesWritten),
            compaction_bytes_read: counted.work(Work::CompactionBytesRead),
            compaction_tables_written: counted.work(Work::CompactionTables),
            compactions: counted.work(Work::Compactions),
            compaction_slices: counted.work(Work::CompactionSlices),
            compaction_steps: counted.work(Work::CompactionSteps),
            compaction_failures: counted.work(Work::CompactionFailures),
            compaction_nanos: counted.work(Work::CompactionNanos),
        }
    }

    /// Bytes written to log, tables and value logs for each byte that users wrote; 0 when they
    /// wrote none.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        let written =
            self.log_bytes_written + self.flush_bytes_written + self.compaction_bytes_written;
        ratio(written, self.user_bytes_written)
    }
}
