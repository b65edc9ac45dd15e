//! The engine trait: what the benchmark asks of a key-value engine, and nothing more.
//!
//! [`Engine`] is one opened database directory; [`Session`] is one thread's way of using it.
//! The benchmark opens an engine once per child process, creates a session inside each worker
//! thread, and calls it in a closed loop. Adapters therefore keep everything that a careful user
//! of that engine would keep per thread in the session: write batches, cursors, read
//! transactions.
//!
//! Contract of every adapter:
//! 1. A write batch is atomic and visible to every later read once the call has returned.
//! 2. With [`SyncMode::Full`] it is on stable storage as well.
//! 3. Reads return the latest committed state. Only a [`SessionMode::ReadOnly`] session may keep
//!    a snapshot or a cursor across calls, since nothing writes while such a session exists.
//! 4. Values and keys are lent to the caller without a copy where the engine can do that.
//! 5. "Absent" is `Ok(false)`, never an error, and an error is never "absent".

mod options;

pub use options::{Compression, EngineOptions, SyncMode};

use std::error::Error as StdError;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// What went wrong inside an engine or its adapter, as text for the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineError {
    message: String,
}

impl EngineError {
    /// Wraps a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// Wraps any error together with the call that returned it.
    pub fn from_call(call: &str, error: impl fmt::Display) -> Self {
        Self { message: format!("{call}: {error}") }
    }

    /// The engine, or its adapter, has no such operation.
    pub fn unsupported(what: &str) -> Self {
        Self { message: format!("{what} is not available in this engine") }
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl StdError for EngineError {}

/// Result of every engine call.
pub type Result<T> = std::result::Result<T, EngineError>;

/// What a transaction is protected from; the five levels of TidesDB's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Reads see whatever is there.
    ReadUncommitted,
    /// Each read sees the newest committed state; no conflicts.
    ReadCommitted,
    /// Keys that were read must not have changed at commit.
    RepeatableRead,
    /// Reads see the state at the beginning; the first committer of a key wins.
    Snapshot,
    /// As if transactions ran one after another.
    Serializable,
}

/// How a commit ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// The writes are visible.
    Done,
    /// Another transaction was first; nothing was written.
    Conflict,
}

/// One entry of a write batch.
#[derive(Debug, Clone, Copy)]
pub enum Op<'a> {
    /// Stores a value under a key.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Removes a key; removing an absent key is not an error.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Stores a value that vanishes at a time, where [`Capabilities::expiry`] says so.
    PutExpiring {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// Unix time in seconds; a time in the past makes the key absent at once.
        at: u64,
    },
    /// Removes all keys from `start` to before `end`, where [`Capabilities::range_delete`] says so.
    DeleteRange {
        /// First key to remove.
        start: &'a [u8],
        /// First key to leave.
        end: &'a [u8],
    },
}

/// What a session will be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionMode {
    /// Nothing writes while the session lives: snapshots and cursors may be kept.
    ReadOnly,
    /// Writers may be active: each read has to see the latest commit.
    ReadWrite,
}

/// Order of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Reverse,
}

/// Where a scan starts and which way it goes; the visitor ends it.
#[derive(Debug, Clone, Copy)]
pub struct ScanRequest<'a> {
    /// First key to visit if present, else the next one in the direction; `None` is the end of
    /// the key space where the direction begins.
    pub start: Option<&'a [u8]>,
    /// Order.
    pub direction: Direction,
}

/// Called for each row; returns whether to go on.
pub type RowVisitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

/// Called with the value that was found.
pub type ValueVisitor<'a> = &'a mut dyn FnMut(&[u8]);

/// Called with the position of a key and the value that was found.
pub type MultiVisitor<'a> = &'a mut dyn FnMut(usize, &[u8]);

/// Counters that the engine itself keeps, since it was opened; `None` where it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Bytes written to the log.
    pub log_bytes: Option<u64>,
    /// Bytes written by flushes of memtables.
    pub flush_bytes: Option<u64>,
    /// Bytes written by compactions.
    pub compaction_bytes: Option<u64>,
    /// Times the log was made durable.
    pub log_syncs: Option<u64>,
    /// The byte counters above are multiples of this; sums not far above it say nothing.
    pub resolution_bytes: u64,
    /// Sorted runs on disk of the default family, now: where a lookup without filters searches.
    pub sorted_runs: Option<u64>,
    /// Lookups in the block cache that found the block, and those that did not.
    pub cache: Option<(u64, u64)>,
}

/// What an engine is and can do; shown in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Data written can be read back. False only for the null engine.
    pub stores_data: bool,
    /// The engine runs [`SyncMode::Interval`] by itself; otherwise the benchmark calls
    /// [`Engine::sync_now`] once per period.
    pub native_interval_sync: bool,
    /// Reads go through a block cache of `cache_bytes`; false when the page cache serves them.
    pub block_cache: bool,
    /// Blocks are compressed.
    pub compression: bool,
    /// [`Op::PutExpiring`] works.
    pub expiry: bool,
    /// [`Op::DeleteRange`] works.
    pub range_delete: bool,
    /// [`Session::begin`] works at snapshot isolation.
    pub transactions: bool,
    /// Families besides the default one work.
    pub families: bool,
    /// [`Engine::checkpoint`] works.
    pub checkpoint: bool,
    /// [`Engine::compact`] works.
    pub compact: bool,
    /// Tables can be stored as B+trees.
    pub tree_tables: bool,
    /// Acknowledged commits outlive the death of the process under the sync mode that was asked
    /// for. False where the engine says that it keeps unsynced ones in its own memory.
    pub survives_kill: bool,
}

impl Capabilities {
    /// A store with a cache and compression, and nothing beyond the required calls.
    pub const PLAIN: Self = Self {
        stores_data: true,
        native_interval_sync: false,
        block_cache: true,
        compression: true,
        expiry: false,
        range_delete: false,
        transactions: false,
        families: false,
        checkpoint: false,
        compact: false,
        tree_tables: false,
        survives_kill: true,
    };
}

/// How often a wait for background work looks.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits until an engine has found nothing to do several times in a row: a flush that has just
/// ended may be about to queue a merge.
pub(crate) fn wait_until_quiet(mut is_busy: impl FnMut() -> Result<bool>) -> Result<()> {
    const QUIET_LOOKS: u32 = 5;
    let mut quiet = 0;
    while quiet < QUIET_LOOKS {
        quiet = if is_busy()? { 0 } else { quiet + 1 };
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// One opened database.
pub trait Engine: Send + Sync {
    /// A handle for the calling thread.
    fn session<'a>(&'a self, mode: SessionMode) -> Result<Box<dyn Session + 'a>>;

    /// Writes out what is in memory and waits until no background work is left.
    fn settle(&self) -> Result<()>;

    /// Writes out what is in memory; background work may go on.
    fn flush(&self) -> Result<()> {
        self.settle()
    }

    /// Merges everything into as few tables as possible.
    fn compact(&self) -> Result<()> {
        Err(EngineError::unsupported("a full compaction"))
    }

    /// Makes a copy of the committed state that can be opened on its own; `directory` does not
    /// exist.
    fn checkpoint(&self, directory: &Path) -> Result<()> {
        let _ = directory;
        Err(EngineError::unsupported("a checkpoint"))
    }

    /// Creates the family with this number, from 1 on.
    fn create_family(&self, number: u32) -> Result<()> {
        let _ = number;
        Err(EngineError::unsupported("a family"))
    }

    /// Removes the family with this number and all that is in it.
    fn drop_family(&self, number: u32) -> Result<()> {
        let _ = number;
        Err(EngineError::unsupported("a family"))
    }

    /// Makes everything committed so far durable.
    fn sync_now(&self) -> Result<()>;

    /// What this very library does otherwise than its adapter says in general; for the reports.
    fn differences(&self) -> Vec<String> {
        Vec::new()
    }

    /// Counters of the engine.
    fn stats(&self) -> Result<EngineStats>;

    /// What the adapter supports.
    fn capabilities(&self) -> Capabilities;

    /// Closes the database and reports any error of doing so.
    fn close(self: Box<Self>) -> Result<()>;
}

/// One thread's use of an engine. Not shared between threads.
pub trait Session {
    /// Applies all operations atomically.
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()>;

    /// Looks a key up; calls `found` with the value and returns true, or returns false.
    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool>;

    /// Visits rows in order until the visitor returns false or the data ends.
    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()>;

    /// Looks several keys up; calls `found` with the position and the value of each that is there.
    fn multi_get(&mut self, keys: &[&[u8]], found: MultiVisitor<'_>) -> Result<()> {
        for (position, key) in keys.iter().enumerate() {
            self.get(key, &mut |value| found(position, value))?;
        }
        Ok(())
    }

    /// Makes later calls work on a family; 0 is the default one.
    fn use_family(&mut self, number: u32) -> Result<()> {
        if number == 0 { Ok(()) } else { Err(EngineError::unsupported("a family")) }
    }

    /// Starts a transaction; there is at most one per session, and it ends with
    /// [`Session::commit`] or [`Session::rollback`].
    fn begin(&mut self, isolation: Isolation) -> Result<()> {
        let _ = isolation;
        Err(EngineError::unsupported("a transaction"))
    }

    /// Looks a key up inside the transaction.
    fn get_in_transaction(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let _ = (key, found);
        Err(EngineError::unsupported("a transaction"))
    }

    /// Puts inside the transaction; an error of the kind "conflict" may already come here and is
    /// then reported as [`Commit::Conflict`] by the commit.
    fn put_in_transaction(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let _ = (key, value);
        Err(EngineError::unsupported("a transaction"))
    }

    /// Commits the transaction.
    fn commit(&mut self) -> Result<Commit> {
        Err(EngineError::unsupported("a transaction"))
    }

    /// Gives the transaction up.
    fn rollback(&mut self) -> Result<()> {
        Err(EngineError::unsupported("a transaction"))
    }
}
