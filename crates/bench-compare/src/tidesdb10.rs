//! TidesDB 10 behind the engine trait, through its published crate.
//!
//! The crate brings the C sources of the engine and builds them, so this module exists only with
//! the feature of the same name; `docs/benchmarks.md` says what the build needs. Settings follow
//! the parity table. Memtable, log, cache and threads belong to the database, blocks, codec and
//! filter to each family.
//!
//! Threads: the database is shared; transactions and iterators belong to one session, which borrows
//! it. So they are all gone before it closes. `settle` flushes, then waits until no flush or merge
//! is queued or running.
#![expect(
    unsafe_code,
    reason = "the crate drops a family of a shared database in an unsafe call only"
)]

mod session;

use crate::EngineInfo;
use crate::engine::{
    Capabilities, Compression, Engine, EngineError, EngineOptions, EngineStats, LOOK_EVERY, Result,
    Session, SessionMode, SyncMode, wait_until_quiet,
};
use ::tidesdb10::{
    ColumnFamily, ColumnFamilyConfig, CompressionAlgorithm, Config, ErrorCode, LogLevel, TidesDB,
};
use session::TidesSession;
use std::path::Path;
use std::time::{Duration, Instant};

/// Name on the command line.
pub const NAME: &str = "tidesdb10";

/// Longest time that a call which asks to be repeated is repeated.
const PATIENCE: Duration = Duration::from_secs(120);
/// Files that may be open; the library lowers it to what the process may have.
const OPEN_FILES: usize = 1 << 16;

/// Version of the library that was linked.
pub fn version() -> String {
    ::tidesdb10::TIDESDB_LINKED_VERSION.to_owned()
}

fn failed(call: &'static str) -> impl Fn(::tidesdb10::Error) -> EngineError {
    move |error| EngineError::from_call(call, error)
}

/// Repeats a call while it reports that something else is at work.
fn retried(call: &'static str, mut attempt: impl FnMut() -> ::tidesdb10::Result<()>) -> Result<()> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if may_pass(&error) && start.elapsed() < PATIENCE => {
                std::thread::sleep(LOOK_EVERY);
            }
            outcome => return outcome.map_err(failed(call)),
        }
    }
}

/// Whether an error says that the same call may work later.
fn may_pass(error: &::tidesdb10::Error) -> bool {
    matches!(error.code(), Some(ErrorCode::Locked | ErrorCode::MemoryLimit))
}

fn family_name(number: u32) -> String {
    if number == 0 { "default".to_owned() } else { format!("f{number}") }
}

/// An opened database.
pub struct TidesDb10 {
    database: TidesDB,
    family_config: ColumnFamilyConfig,
    numbers: u32,
    synced: bool,
}

impl TidesDb10 {
    /// Opens or creates the database.
    pub fn open(options: &EngineOptions) -> Result<Self> {
        let database = TidesDB::open(configure(options)).map_err(failed("TidesDB::open"))?;
        let family_config = configure_family(options)?;
        let synced = options.sync == SyncMode::Full;
        let engine = Self { database, family_config, numbers: options.families, synced };
        for number in 0..=options.families {
            engine.create_family(number)?;
        }
        Ok(engine)
    }

    fn family(&self, number: u32) -> Result<ColumnFamily<'_>> {
        self.database.get_column_family(&family_name(number)).map_err(failed("get_column_family"))
    }

    /// All families but those that the benchmark has dropped.
    fn all_families(&self) -> Result<Vec<ColumnFamily<'_>>> {
        let all = (0..=self.numbers).map(|number| {
            match self.database.get_column_family(&family_name(number)) {
                Err(error) if error.code() == Some(ErrorCode::NotFound) => Ok(None),
                found => found.map(Some).map_err(failed("get_column_family")),
            }
        });
        all.filter_map(Result::transpose).collect()
    }

    fn is_busy(&self) -> Result<bool> {
        let stats = self.database.get_db_stats().map_err(failed("get_db_stats"))?;
        if stats.is_flushing
            || stats.immutable_memtable_count > 0
            || stats.compaction_pending_count > 0
        {
            return Ok(true);
        }
        Ok(self.all_families()?.iter().any(ColumnFamily::is_compacting))
    }
}

fn configure(options: &EngineOptions) -> Config {
    let threads = i32::try_from(options.background_threads).unwrap_or(i32::MAX);
    let queued = options.memtable_count.saturating_sub(1).max(1);
    let (mode, interval) = match options.sync {
        SyncMode::None => (::tidesdb10::SyncMode::None, 0),
        SyncMode::Full => (::tidesdb10::SyncMode::Full, 0),
        SyncMode::Interval(period) => {
            let micros = u64::try_from(period.as_micros()).unwrap_or(u64::MAX).max(1);
            (::tidesdb10::SyncMode::Interval, micros)
        }
    };
    let config = Config::new(&options.directory)
        .log_level(LogLevel::None)
        .num_flush_threads(1)
        .num_compaction_threads((threads - 1).max(1))
        .block_cache_size(to_size(options.cache_bytes))
        .max_open_sstables(OPEN_FILES)
        .memtable_write_buffer_size(to_size(options.memtable_bytes))
        .memtable_l0_queue_stall_threshold(i32::try_from(queued).unwrap_or(i32::MAX))
        .memtable_sync_mode(mode)
        .memtable_sync_interval_us(interval);
    match options.value_separation {
        Some(threshold) => config.value_separation_threshold(to_size(threshold)),
        None => config,
    }
}

fn configure_family(options: &EngineOptions) -> Result<ColumnFamilyConfig> {
    let codec = match options.compression {
        Compression::None => CompressionAlgorithm::None,
        Compression::Snappy => CompressionAlgorithm::Snappy,
        Compression::Lz4 => CompressionAlgorithm::Lz4,
        Compression::Zstd => CompressionAlgorithm::Zstd,
    };
    if !codec.is_available() {
        return Err(EngineError::new(format!("{codec:?} was not built into the library")));
    }
    let bits = f64::from(options.bloom_bits);
    Ok(ColumnFamilyConfig::new()
        .btree_klog_block_size(to_size(options.block_bytes))
        .compression_algorithm(codec)
        .enable_bloom_filter(options.bloom_bits > 0)
        // The rate that an ideal Bloom filter has at this many bits per key.
        .bloom_fpr((-bits * std::f64::consts::LN_2.powi(2)).exp().clamp(1e-6, 0.999)))
}

fn to_size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

impl Engine for TidesDb10 {
    fn session<'a>(&'a self, mode: SessionMode) -> Result<Box<dyn Session + 'a>> {
        Ok(Box::new(TidesSession::new(self, mode)?))
    }

    fn flush(&self) -> Result<()> {
        retried("flush_memtable", || self.database.flush_memtable())
    }

    fn settle(&self) -> Result<()> {
        self.flush()?;
        wait_until_quiet(|| self.is_busy())
    }

    fn compact(&self) -> Result<()> {
        self.all_families()?.iter().try_for_each(|family| retried("compact", || family.compact()))
    }

    fn checkpoint(&self, directory: &Path) -> Result<()> {
        self.database.backup(directory).map_err(failed("backup"))
    }

    fn create_family(&self, number: u32) -> Result<()> {
        let name = family_name(number);
        match self.database.create_column_family(&name, self.family_config.clone()) {
            Err(error) if error.code() == Some(ErrorCode::Exists) => Ok(()),
            outcome => outcome.map_err(failed("create_column_family")),
        }
    }

    fn drop_family(&self, number: u32) -> Result<()> {
        // SAFETY: a caller drops a family only when no session works on it, and a session gives up
        // its transactions and iterator when it goes back to the default family.
        let dropped = unsafe { self.database.drop_column_family_unchecked(&family_name(number)) };
        dropped.map_err(failed("drop_column_family"))
    }

    fn sync_now(&self) -> Result<()> {
        self.database.sync_wal().map_err(failed("sync_wal"))
    }

    fn stats(&self) -> Result<EngineStats> {
        let stats = self.database.get_db_stats().map_err(failed("get_db_stats"))?;
        Ok(EngineStats {
            log_bytes: Some(stats.wal_bytes_written),
            // Separated values are appended by commits, flushes and reclamation alike.
            flush_bytes: Some(stats.flush_bytes_written + stats.vlog_bytes_written),
            compaction_bytes: Some(stats.compaction_bytes_written),
            resolution_bytes: 1,
            ..EngineStats::default()
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            native_interval_sync: true,
            range_delete: true,
            transactions: true,
            families: true,
            checkpoint: true,
            compact: true,
            tree_tables: true,
            survives_kill: self.synced,
            ..Capabilities::PLAIN
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self.database);
        Ok(())
    }
}

/// Entry of the catalogue.
pub(crate) fn info() -> EngineInfo {
    EngineInfo {
        name: NAME,
        version: version(),
        available: Ok(()),
        unequal: "every commit is a transaction; gets and rows are copied by the library; without \
                  syncs the death of the process may lose commits; tables are always B+trees; large \
                  values apart from its own default size on"
            .to_owned(),
    }
}
