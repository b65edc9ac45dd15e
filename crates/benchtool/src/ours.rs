//! Our own engine behind the engine trait: one column family of crate `tidesdb`.
//!
//! There are two kinds of sessions: `session` uses the engine as a program in Rust would, and
//! `transactions` does everything through transactions, which is all that the C interface has. Next
//! to the engine through C the second shows what the crossing costs, without what Rust offers
//! besides.
//!
//! Parity: one flush thread and the rest of the background threads for merges, as many waiting
//! memtables as RocksDB gets, a filter with the same bits per key.

mod session;
mod transactions;

use bench_compare::EngineInfo;
use bench_compare::engine::{
    self, Capabilities, Engine, EngineError, EngineOptions, EngineStats, Result, Session,
    SessionMode,
};
use tidesdb::{Compression, Db, DbOptions, Family, FamilyOptions, SyncMode};

use crate::ALLOCATED_BY;
use session::OurSession;
use transactions::TransactionSession;

/// Name on the command line.
pub(crate) const NAME: &str = "tidesdb";
/// The same with every commit and every read in a transaction.
pub(crate) const TRANSACTIONS: &str = "tidesdb-txn";

/// Entries of the catalogue.
pub(crate) fn infos() -> [EngineInfo; 2] {
    let linked = format!("statically linked with the benchmark and its allocator ({ALLOCATED_BY})");
    let with_transactions =
        format!("{linked}; every commit is a transaction at READ COMMITTED; gets copy the value");
    [(NAME, linked), (TRANSACTIONS, with_transactions)].map(|(name, unequal)| EngineInfo {
        name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        available: Ok(()),
        unequal,
    })
}

fn failed(call: &str) -> impl FnOnce(tidesdb::Error) -> EngineError + '_ {
    move |error| EngineError::from_call(call, error)
}

struct Ours {
    database: Db,
    family: Family,
    family_options: FamilyOptions,
    /// Whether everything goes through transactions.
    transactions: bool,
}

/// Name of a numbered family; 0 is the one that every database has.
fn family_name(number: u32) -> String {
    if number == 0 { "default".to_owned() } else { format!("f{number}") }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Opens or creates a database, to be used with or without transactions.
pub(crate) fn open(options: &EngineOptions, transactions: bool) -> Result<Box<dyn Engine>> {
    let sync_mode = match options.sync {
        engine::SyncMode::None => SyncMode::None,
        engine::SyncMode::Full => SyncMode::Full,
        engine::SyncMode::Interval(period) => SyncMode::Interval {
            interval_us: period.as_micros().try_into().map_err(|_| too_long())?,
        },
    };
    let threads = options.background_threads as usize;
    let database_options = DbOptions::default()
        .block_cache_bytes(size(options.cache_bytes))
        .max_open_files(0)
        .flush_threads(1)
        .compaction_threads(threads.saturating_sub(1).max(1))
        .sync_mode(sync_mode);
    let bits = f64::from(options.bloom_bits);
    let family_options = FamilyOptions::default()
        .write_buffer_size(size(options.memtable_bytes))
        .compression(match options.compression {
            engine::Compression::None => Compression::None,
            engine::Compression::Lz4 => Compression::Lz4,
            engine::Compression::Zstd => Compression::Zstd,
            engine::Compression::Snappy => Compression::Snappy,
        })
        .block_size(size(options.block_bytes))
        .enable_bloom_filter(options.bloom_bits > 0)
        // The rate that an ideal Bloom filter has at this many bits per key.
        .bloom_fpr((-bits * std::f64::consts::LN_2.powi(2)).exp().clamp(1e-6, 0.999))
        // A memtable is frozen before it is full, so one waiting and one in the making take what
        // the others take for an active one and a flush.
        .l0_queue_stall_threshold(options.memtable_count.saturating_sub(1).clamp(1, 2) as usize)
        .target_table_bytes(options.memtable_bytes)
        .use_btree(options.tree_tables)
        .klog_value_threshold(size(options.separation_threshold()));
    let database = Db::open(&options.directory, database_options).map_err(failed("open"))?;
    for number in 1..=options.families {
        let opened = database.ensure_family(&family_name(number), family_options.clone());
        drop(opened.map_err(failed("ensure_family"))?);
    }
    // A database that is there gets the settings of the job, as with the other engines.
    let family = database.ensure_family(&family_name(0), family_options.clone());
    let family = family.map_err(failed("ensure_family"))?;
    Ok(Box::new(Ours { database, family, family_options, transactions }))
}

fn too_long() -> EngineError {
    EngineError::new("the sync interval is too long")
}

impl Engine for Ours {
    fn session<'a>(&'a self, mode: SessionMode) -> Result<Box<dyn Session + 'a>> {
        let session = OurSession::new(self, mode);
        if self.transactions {
            return Ok(Box::new(TransactionSession::new(session)));
        }
        Ok(Box::new(session))
    }

    fn flush(&self) -> Result<()> {
        self.database.flush().map_err(failed("flush"))
    }

    fn compact(&self) -> Result<()> {
        self.database.compact().map_err(failed("compact"))
    }

    fn create_family(&self, number: u32) -> Result<()> {
        let name = family_name(number);
        let made = self.database.create_family(&name, self.family_options.clone());
        made.map(drop).map_err(failed("create_family"))
    }

    fn drop_family(&self, number: u32) -> Result<()> {
        self.database.drop_family(&family_name(number)).map_err(failed("drop_family"))
    }

    fn settle(&self) -> Result<()> {
        self.database.flush().map_err(failed("flush"))?;
        self.database.wait_idle().map_err(failed("wait_idle"))
    }

    fn sync_now(&self) -> Result<()> {
        self.database.sync_log().map_err(failed("sync_log"))
    }

    fn stats(&self) -> Result<EngineStats> {
        let stats = self.database.stats();
        Ok(EngineStats {
            log_bytes: Some(stats.work.log_bytes_written),
            flush_bytes: Some(stats.work.flush_bytes_written),
            compaction_bytes: Some(stats.work.compaction_bytes_written),
            log_syncs: Some(stats.log_syncs),
            resolution_bytes: 1,
            sorted_runs: Some(self.family.stats().levels.iter().map(|level| level.runs).sum()),
            cache: Some((stats.cache.hits, stats.cache.misses)),
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            native_interval_sync: true,
            expiry: true,
            transactions: true,
            families: true,
            compact: true,
            range_delete: !self.transactions,
            tree_tables: true,
            ..Capabilities::PLAIN
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Ours { database, family, .. } = *self;
        drop(family);
        database.close().map_err(failed("close"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The setting was dropped on the way, and `suite btree` skipped its rows for this engine.
    #[test]
    fn tables_are_trees_where_a_test_asks_for_them() {
        for tree_tables in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let parity = EngineOptions::parity(directory.path().to_path_buf());
            let engine =
                open(&EngineOptions { tree_tables, families: 1, ..parity }, false).unwrap();
            assert!(engine.capabilities().tree_tables);
            engine.close().unwrap();
            let database = Db::open(directory.path(), DbOptions::default()).unwrap();
            for number in 0..2 {
                let family = database.family(&family_name(number)).unwrap();
                assert_eq!(family.options().use_btree, tree_tables);
            }
            database.close().unwrap();
        }
    }

    #[test]
    fn values_are_stored_apart_as_in_the_other_engines() {
        for (value_bytes, expected) in [(1024, 1 << 30), (4096, 4096)] {
            let directory = tempfile::tempdir().unwrap();
            let parity = EngineOptions::parity(directory.path().to_path_buf());
            open(&EngineOptions { value_bytes, ..parity }, false).unwrap().close().unwrap();
            let database = Db::open(directory.path(), DbOptions::default()).unwrap();
            let options = database.family(&family_name(0)).unwrap().options();
            assert_eq!(options.klog_value_threshold, expected);
            database.close().unwrap();
        }
    }

    /// A database that was made with other settings was measured with those.
    #[test]
    fn a_database_that_is_there_gets_the_settings_of_the_job() {
        let directory = tempfile::tempdir().unwrap();
        let parity = EngineOptions::parity(directory.path().to_path_buf());
        for block_bytes in [4096, 16_384] {
            let engine = open(&EngineOptions { block_bytes, ..parity.clone() }, false).unwrap();
            engine.close().unwrap();
        }
        let database = Db::open(directory.path(), DbOptions::default()).unwrap();
        assert_eq!(database.family(&family_name(0)).unwrap().options().block_size, 16_384);
        database.close().unwrap();
    }
}
