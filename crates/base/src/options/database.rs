//! Settings of a database.

use super::{SyncMode, refuse, setters::setters};
use crate::error::Result;
use crate::event::{EventListener, LogLevel};
use crate::key_order::KeyOrders;
use crate::limits::{MIN_LOG_SEGMENT_BYTES, MIN_MEMORY_BUDGET_BYTES};
use std::path::PathBuf;

/// Settings of a database, given at each open.
///
/// Made from the default, one setting at a time; later versions may have more of them.
///
/// ```
/// # mod tidesdb { pub use tidesdb_base::options::{DbOptions, SyncMode}; }
/// use tidesdb::{DbOptions, SyncMode};
/// let options = DbOptions::default().sync_mode(SyncMode::Full).block_cache_bytes(256 << 20);
/// assert_eq!(options.sync_mode, SyncMode::Full);
/// ```
// More than a dozen fields: one for each option.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DbOptions {
    /// Create the database when the directory is empty or absent. Default `true`.
    pub create_if_missing: bool,
    /// Open without writing anything; writes return an error of kind `ReadOnly`. Any number of
    /// readers may have a database open, but none while a writer has it. Default `false`.
    pub read_only: bool,
    /// Bytes of decoded blocks kept in memory, at most two fifths of `max_memory_usage` whatever
    /// is set here, and down to a tenth of it while others need the memory. Filters and indexes
    /// count in the memory budget. 0 disables the block cache. Default 64 MiB.
    pub block_cache_bytes: usize,
    /// Files of tables and value logs kept open at a time, together; those not used lately are
    /// closed beyond it. 0 means no bound of its own. Never more than half of the descriptors that
    /// the process may have when this is set (`ulimit -n`). Indexes and filters of tables stay in
    /// memory, within three tenths of `max_memory_usage`, whether their files are open or not.
    /// Default 0.
    pub max_open_files: usize,
    /// Threads that write memtables out. On Linux they give way to other threads of the process:
    /// their nice value is 5 above its own. At most 256. 0 means the number of processors, at most
    /// 4. Default 0.
    pub flush_threads: usize,
    /// Threads that compact, and help with a flush that writers outrun. Their nice value is 7
    /// above the process's own on Linux. As many again, whose nice value is the process's own, take
    /// over while a family has so many runs that its writers are slowed. When all are busy, a
    /// compaction interrupts one that is twice as large. At most 256. 0 means 2. Default 2.
    pub compaction_threads: usize,
    /// Sync mode of the log. A family may ask for more, never for less. Default `None`.
    pub sync_mode: SyncMode,
    /// Size of one log segment in bytes, from 64 KiB to 1 GiB; at most a thirty-second part of the
    /// memory budget is used. Default 8 MiB.
    pub log_segment_bytes: u64,
    /// Log kept for families that are rarely written, in bytes; beyond it the family with the
    /// oldest unflushed data is flushed. 0 means four times the largest write buffer, at least
    /// 256 MiB, at most an eighth of the volume. Default 0.
    #[doc(alias = "max_total_wal_size")]
    pub max_retained_log_bytes: u64,
    /// Write the log through `pwrite` instead of a shared mapping. Default `false`.
    pub log_without_mapping: bool,
    /// Bytes of memory that the database may take in all: memtables, block cache, indexes, filters,
    /// range tombstones, log buffers, scans, transactions, what flushes and compactions need, and 4
    /// KiB for each column family. As it is approached, large memtables are written out early and
    /// the block cache shrinks, then writers are slowed down, then they wait for flushes; reads
    /// never wait. A budget smaller than a write buffer is kept by freezing memtables earlier. 0
    /// means three quarters of the smaller of the machine's memory and the control group's limit;
    /// otherwise at least 4 MiB. A budget that an open database is given must hold eight of its log
    /// segments as well. Default 0.
    #[doc(alias = "write_buffer_manager")]
    pub max_memory_usage: u64,
    /// Bytes of memory that the memtables which take commits may hold in all families together.
    /// When a commit has them hold more, the largest are written out until half is left. As much
    /// as one commit brings may be beyond it until the next one. Each family has the bound of its
    /// own write buffer besides. 0 means no such bound. Default 0.
    #[doc(alias = "db_write_buffer_size")]
    pub shared_write_buffer_bytes: u64,
    /// Milliseconds without any progress of flushes after which a writer that waits for them, or
    /// the caller of an explicit flush, gets an error of kind `Stalled` instead of waiting on;
    /// likewise a caller that asks for a compaction and waits for another to end. 0 means no limit.
    /// Default 60,000.
    pub stall_timeout_ms: u64,
    /// One in this many gets, commits, seeks and scan steps is timed for the histograms of
    /// latencies; 1 for all, 0 for none. Flushes, compactions, syncs and openings are always timed.
    /// Timing one operation takes two readings of the clock, some 50 ns; with one in 64 the cost is
    /// about that of a counter. Default 0.
    pub latency_sampling: u32,
    /// Microseconds from which a get, a commit, a seek or a step of a scan is reported to the event
    /// listener, with its profile; 0 for never. All operations are timed then, whatever
    /// `latency_sampling` is. Default 0.
    pub slow_operation_us: u64,
    /// Orders of keys of the application's own, for families that were or will be created with a
    /// [`KeyOrder::Custom`](crate::key_order::KeyOrder::Custom). Default none.
    pub key_orders: KeyOrders,
    /// Called with rare events worth a line in a log. Default none.
    pub event_listener: Option<EventListener>,
    /// The listener is not called with events below this level. Default `Warn`.
    pub event_listener_level: LogLevel,
    /// Write events as lines to a file. A line that can't be written, on a full disk for one, is
    /// dropped and counted in the next that can; no operation fails for it. An opening for reading
    /// writes none. Default `false`.
    pub event_log: bool,
    /// That file, which no other database may use. Default `LOG` in the directory of the database.
    pub event_log_path: Option<PathBuf>,
    /// Events below this level are not written to it. Default `Info`.
    pub event_log_level: LogLevel,
    /// Bytes at which the file gets `.old` behind its name, in place of the one that had it, and
    /// another is begun; 0 for never. Default 24 MiB.
    pub event_log_bytes: u64,
}

impl Default for DbOptions {
    fn default() -> Self {
        Self {
            create_if_missing: true,
            read_only: false,
            block_cache_bytes: 64 << 20,
            max_open_files: 0,
            flush_threads: 0,
            compaction_threads: 2,
            sync_mode: SyncMode::None,
            log_segment_bytes: 8 << 20,
            max_retained_log_bytes: 0,
            log_without_mapping: false,
            max_memory_usage: 0,
            shared_write_buffer_bytes: 0,
            stall_timeout_ms: 60_000,
            latency_sampling: 0,
            slow_operation_us: 0,
            key_orders: KeyOrders::default(),
            event_listener: None,
            event_listener_level: LogLevel::Warn,
            event_log: false,
            event_log_path: None,
            event_log_level: LogLevel::Info,
            event_log_bytes: 24 << 20,
        }
    }
}

impl DbOptions {
    /// [`DbOptions::compaction_threads`], with the default put in for 0.
    #[doc(hidden)]
    #[must_use]
    pub const fn resolved_compaction_threads(&self) -> usize {
        match self.compaction_threads {
            0 => 2,
            threads => threads,
        }
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// [`crate::Error::InvalidOptions`] listing all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        if self.log_segment_bytes < MIN_LOG_SEGMENT_BYTES || self.log_segment_bytes > 1 << 30 {
            problems.push(format!(
                "log_segment_bytes is {}, must be between 65536 and 1073741824",
                self.log_segment_bytes
            ));
        }
        if self.flush_threads > 256 {
            problems.push(format!("flush_threads is {}, must be at most 256", self.flush_threads));
        }
        if self.compaction_threads > 256 {
            problems.push(format!(
                "compaction_threads is {}, must be at most 256",
                self.compaction_threads
            ));
        }
        if self.sync_mode == (SyncMode::Interval { interval_us: 0 }) {
            problems.push("sync interval is 0 us, must be at least 1".to_owned());
        }
        problems.extend(memory_problem(self.max_memory_usage, MIN_MEMORY_BUDGET_BYTES));
        refuse(problems)
    }

    /// Checks a memory budget for a database that is open with these options, whose log keeps the
    /// size of its segments.
    ///
    /// # Errors
    /// [`crate::Error::InvalidOptions`] when it is too small to work with.
    #[doc(hidden)]
    pub fn validate_memory_budget(&self, bytes: u64) -> Result<()> {
        let least = MIN_MEMORY_BUDGET_BYTES.max(self.log_segment_bytes.saturating_mul(8));
        refuse(memory_problem(bytes, least).into_iter().collect())
    }
}

fn memory_problem(budget: u64, least: u64) -> Option<String> {
    (budget != 0 && budget < least)
        .then(|| format!("max_memory_usage is {budget}, must be 0 or at least {least}"))
}

/// Settings of an open database that can be changed while it is in use; what is `None` stays.
/// They hold until the database is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeOptions {
    /// See [`DbOptions::block_cache_bytes`]. The number of the cache's shards stays what the open
    /// made it, so a cache that was opened small and is made large has fewer than it would.
    pub block_cache_bytes: Option<usize>,
    /// See [`DbOptions::max_open_files`].
    pub max_open_files: Option<usize>,
    /// See [`DbOptions::max_memory_usage`].
    pub max_memory_usage: Option<u64>,
}

setters! {
    DbOptions {
        create_if_missing: bool,
        read_only: bool,
        block_cache_bytes: usize,
        max_open_files: usize,
        flush_threads: usize,
        compaction_threads: usize,
        sync_mode: SyncMode,
        log_segment_bytes: u64,
        max_retained_log_bytes: u64,
        log_without_mapping: bool,
        max_memory_usage: u64,
        shared_write_buffer_bytes: u64,
        stall_timeout_ms: u64,
        latency_sampling: u32,
        slow_operation_us: u64,
        key_orders: KeyOrders,
        event_listener_level: LogLevel,
        event_log: bool,
        event_log_level: LogLevel,
        event_log_bytes: u64,
    }
    optional {
        event_listener: EventListener,
        event_log_path: PathBuf,
    }
}

setters! {
    RuntimeOptions {}
    optional {
        block_cache_bytes: usize,
        max_open_files: usize,
        max_memory_usage: u64,
    }
}
