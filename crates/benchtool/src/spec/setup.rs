//! How an engine is set up: the neutral options that every adapter translates into its own.
//!
//! Sizes are bytes. What an engine cannot honour is said in its catalogue entry. The child process
//! passes these settings on; the orchestrator applies those that concern the process itself
//! (memory limit, processors, preloaded allocator).

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Durability of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sync {
    /// Handed to the operating system.
    None,
    /// Synced once per period in the background.
    Interval,
    /// Synced before each commit returns.
    Full,
}

/// Block codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Codec {
    /// No compression.
    None,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
    /// Snappy.
    Snappy,
}

/// How the engine is set up.
// More than a dozen fields: one for each flag that describes a database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Block cache.
    pub(crate) cache: u64,
    /// One memtable.
    pub(crate) memtable: u64,
    /// Memtables in memory before writers wait.
    pub(crate) memtable_count: u32,
    /// Data block.
    pub(crate) block: u64,
    /// Block codec.
    pub(crate) compression: Codec,
    /// Durability of commits.
    pub(crate) sync: Sync,
    /// Period of interval syncs, in microseconds.
    pub(crate) sync_interval_us: u64,
    /// Filter bits per key.
    pub(crate) bloom_bits: u32,
    /// Background threads.
    pub(crate) background_threads: u32,
    /// Library to load RocksDB from.
    pub(crate) rocksdb_library: Option<PathBuf>,
    /// Library with TidesDB's C interface.
    #[serde(default)]
    pub(crate) tidesdb_library: Option<PathBuf>,
    /// Values of this size and more are stored apart from the keys.
    #[serde(default)]
    pub(crate) value_separation: Option<u64>,
    /// Tables as B+trees.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) tree_tables: bool,
    /// Settings in an engine's own words: engine, name, value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) engine_options: Vec<(String, String, String)>,
    /// Limit of the process's memory, page cache included.
    #[serde(default)]
    pub(crate) memory_limit: Option<u64>,
    /// Processors that the process may use, as `taskset -c` takes them.
    #[serde(default)]
    pub(crate) processors: Option<String>,
    /// Allocator to preload.
    #[serde(default)]
    pub(crate) preload: Option<PathBuf>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Default for Setup {
    /// The parity settings that tests start from.
    fn default() -> Self {
        Self {
            cache: 64 << 20,
            memtable: 64 << 20,
            memtable_count: 4,
            block: 4096,
            compression: Codec::Lz4,
            sync: Sync::None,
            sync_interval_us: 128_000,
            bloom_bits: 10,
            background_threads: 2,
            rocksdb_library: None,
            tidesdb_library: None,
            value_separation: None,
            tree_tables: false,
            engine_options: Vec::new(),
            memory_limit: None,
            processors: None,
            preload: None,
        }
    }
}
