//! How an engine is opened: the settings that all engines have in common.

use std::path::PathBuf;
use std::time::Duration;

/// Block codec, the same for every engine that has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Blocks are stored as they are.
    None,
    /// LZ4 on every level.
    Lz4,
    /// Zstandard at the engine's default level.
    Zstd,
    /// Snappy.
    Snappy,
}

/// When a commit reaches stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// Handed to the operating system only.
    None,
    /// Synced in the background once per period.
    Interval(Duration),
    /// Synced before the commit returns.
    Full,
}

/// Everything an adapter needs to open or create a database under parity settings.
// More than a dozen fields: one for each option that engines have in common.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Directory of the database; exists, and is empty when a database has to be created.
    pub directory: PathBuf,
    /// Block cache in bytes.
    pub cache_bytes: u64,
    /// One memtable in bytes.
    pub memtable_bytes: u64,
    /// Memtables in memory, the active one included, before writers have to wait.
    pub memtable_count: u32,
    /// Uncompressed data block in bytes.
    pub block_bytes: u64,
    /// Block codec.
    pub compression: Compression,
    /// Durability of a commit.
    pub sync: SyncMode,
    /// Filter bits per key, 0 for none.
    pub bloom_bits: u32,
    /// Background threads for flush and compaction together.
    pub background_threads: u32,
    /// Upper bound of the raw data that will be stored, in bytes (sizes memory maps).
    pub expected_bytes: u64,
    /// Shared library to load, for engines that are loaded at run time.
    pub library: Option<PathBuf>,
    /// Families besides the default one, numbered from 1; created when they are missing.
    pub families: u32,
    /// Sessions that will be active at the same time.
    pub threads: u32,
    /// Typical size of a value in bytes.
    pub value_bytes: u64,
    /// Values of this size and more are stored apart from the keys, where the engine can do that;
    /// `None`: as [`EngineOptions::separation`] says.
    pub value_separation: Option<u64>,
    /// Tables as B+trees, where [`super::Capabilities::tree_tables`] says so.
    pub tree_tables: bool,
    /// Transactions will be used ([`super::Session::begin`]).
    pub transactions: bool,
    /// Settings in the engine's own words, passed on as they are.
    pub extra: Vec<(String, String)>,
}

impl EngineOptions {
    /// From which size on values are stored apart from the keys, for all engines alike: as asked,
    /// otherwise from 4 KiB on where values are that large. `None`: none are.
    pub fn separation(&self) -> Option<u64> {
        const LARGE: u64 = 4096;
        self.value_separation.or((self.value_bytes >= LARGE).then_some(LARGE))
    }

    /// The same as the threshold of an engine that always has one: one that no value reaches where
    /// none is to be stored apart.
    pub fn separation_threshold(&self) -> u64 {
        self.separation().unwrap_or(1 << 30)
    }

    /// The parity settings for a database in `directory`: 64 MiB of cache, four memtables of 64
    /// MiB, blocks of 4 KiB, LZ4, ten filter bits per key, two background threads, no syncs.
    pub fn parity(directory: PathBuf) -> Self {
        Self {
            directory,
            cache_bytes: 64 << 20,
            memtable_bytes: 64 << 20,
            memtable_count: 4,
            block_bytes: 4096,
            compression: Compression::Lz4,
            sync: SyncMode::None,
            bloom_bits: 10,
            background_threads: 2,
            expected_bytes: 1 << 20,
            library: None,
            families: 0,
            threads: 1,
            value_bytes: 100,
            value_separation: None,
            tree_tables: false,
            transactions: false,
            extra: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ours kept values of 512 bytes and more apart, RocksDB none.
    #[test]
    fn values_are_stored_apart_from_four_kibibytes_on() {
        let parity = EngineOptions::parity(PathBuf::new());
        let of = |value_bytes, value_separation| {
            EngineOptions { value_bytes, value_separation, ..parity.clone() }.separation()
        };
        assert_eq!((of(100, None), of(4095, None)), (None, None));
        assert_eq!((of(4096, None), of(65_536, None)), (Some(4096), Some(4096)));
        assert_eq!((of(100, Some(64)), of(8192, Some(64))), (Some(64), Some(64)));
    }
}
