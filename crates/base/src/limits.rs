//! Hard limits of the engine, each with its unit. Exceeding one is an error before anything is
//! written, never a truncation.

/// Longest key, in bytes: 64 KiB - 1. Keys live in memory many times over (memtable, block
/// indexes, iterators), so a larger one is almost always a mistake.
pub const MAX_KEY_BYTES: usize = u16::MAX as usize;

/// Longest value, in bytes: 4 GiB - 1.
pub const MAX_VALUE_BYTES: usize = u32::MAX as usize;

/// Values of at least this size are written once, straight into a value-log file at commit; the
/// log record and the memtable carry a pointer to them. 1 MiB.
pub const DIRECT_VALUE_BYTES: usize = 1 << 20;

/// Largest encoded write batch, in bytes, not counting values that go straight to a value log.
pub const MAX_BATCH_BYTES: usize = 1 << 30;

/// Smallest segment of the log, in bytes: 64 KiB.
pub const MIN_LOG_SEGMENT_BYTES: u64 = 64 << 10;

/// The smallest memory budget of a database, in bytes.
pub const MIN_MEMORY_BUDGET_BYTES: u64 = 4 << 20;

/// Longest name of a column family, in bytes.
pub const MAX_FAMILY_NAME_BYTES: usize = 127;

/// Most column families in one database.
pub const MAX_FAMILIES: usize = 1 << 20;
