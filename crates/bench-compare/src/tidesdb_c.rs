//! Any library with TidesDB's C interface (9.3) behind the engine trait, loaded at run time.
//!
//! The library is the user's choice (`--lib`): the original, ours, or another implementation. The
//! settings that the interface knows follow the parity table; the data block size is not among
//! them. `settle` flushes and then waits until neither flushes nor merges are queued or running. A
//! library that puts merges off until no commits come is asked to do those as well.
//!
//! Threads: database and family handles are shared, transactions and iterators belong to one
//! session. Invariants: sessions borrow the database, so that all their handles are freed before it
//! is closed.
#![expect(unsafe_code, reason = "calls into a C library that is loaded at run time")]

mod api;
mod session;

use crate::EngineInfo;
use crate::engine::{
    Capabilities, Compression, Engine, EngineError, EngineOptions, EngineStats, Result, Session,
    SessionMode, SyncMode, wait_until_quiet,
};
use api::{Api, CacheStats, Config, DbStats, FamilyConfig, Handle, check_layout};
use libc::c_int;
use session::TidesSession;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::time::{Duration, Instant};

/// Name on the command line.
pub const NAME: &str = "tidesdb-c";

const SUCCESS: c_int = 0;
const NOT_FOUND: c_int = -3;
const EXISTS: c_int = -6;
const CONFLICT: c_int = -7;
const MEMORY_LIMIT: c_int = -9;
const UNKNOWN: c_int = -11;
const BUSY: c_int = -14;
/// Longest time that a call which asks to be repeated is repeated.
const PATIENCE: Duration = Duration::from_secs(60);

/// Entry of the catalogue.
pub fn info(library: Option<&Path>) -> EngineInfo {
    let available = match library {
        None => Err("pass --lib PATH to a library with TidesDB's C interface".to_owned()),
        Some(path) if !path.exists() => Err(format!("no library at {}", path.display())),
        Some(path) => load(path).map(|_| ()).map_err(|error| error.to_string()),
    };
    EngineInfo {
        name: NAME,
        version: library.map(|path| path.display().to_string()).unwrap_or_default(),
        available,
        unequal:
            "every commit is a transaction at READ COMMITTED; gets are copied by the library; its \
                  own block size"
                .to_owned(),
    }
}

fn name_of(code: c_int) -> &'static str {
    match code {
        -1 => "out of memory",
        -2 => "invalid arguments",
        -3 => "not found",
        -4 => "I/O error",
        -5 => "corruption",
        -6 => "exists",
        -7 => "conflict",
        -8 => "too large",
        -9 => "memory limit",
        -10 => "invalid database",
        -12 => "locked",
        -13 => "read only",
        -14 => "busy",
        _ => "unknown error",
    }
}

#[inline]
fn checked(call: &str, code: c_int) -> Result<()> {
    if code == SUCCESS { Ok(()) } else { Err(failed(call, code)) }
}

#[cold]
fn failed(call: &str, code: c_int) -> EngineError {
    EngineError::from_call(call, format!("{} ({code})", name_of(code)))
}

/// Repeats a call while it reports that it was busy.
#[inline]
fn retried(call: &str, mut attempt: impl FnMut() -> c_int) -> Result<()> {
    match attempt() {
        SUCCESS => Ok(()),
        code => repeated(call, code, attempt),
    }
}

#[cold]
fn repeated(call: &str, mut code: c_int, mut attempt: impl FnMut() -> c_int) -> Result<()> {
    let start = Instant::now();
    while matches!(code, BUSY | MEMORY_LIMIT | UNKNOWN) && start.elapsed() <= PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
        code = attempt();
    }
    checked(call, code)
}

fn family_name(number: u32) -> Result<CString> {
    let name = if number == 0 { "default".to_owned() } else { format!("f{number}") };
    CString::new(name).map_err(|error| EngineError::from_call("family name", error))
}

fn load(library: &Path) -> Result<Api> {
    check_layout()?;
    Api::load(library)
}

/// An opened database.
pub struct TidesDbC {
    api: Api,
    database: Handle,
    family_config: FamilyConfig,
    /// Families beside the first.
    families: u32,
}

// SAFETY: database and family handles may be used from any number of threads; the configuration is
// plain data whose pointers are null.
unsafe impl Send for TidesDbC {}
// SAFETY: see above.
unsafe impl Sync for TidesDbC {}

impl TidesDbC {
    /// Loads the library and opens (or creates) the database.
    pub fn open(options: &EngineOptions) -> Result<Self> {
        let library = options.library.as_deref();
        let library =
            library.ok_or_else(|| EngineError::new("no library was named (--lib PATH)"))?;
        let api = load(library)?;
        let path = CString::new(options.directory.as_os_str().as_bytes())
            .map_err(|error| EngineError::from_call("directory name", error))?;
        let config = configure(&api, &path, options);
        let mut database = ptr::null_mut();
        // SAFETY: the configuration and its path live through the call, which copies them.
        let code = unsafe { (api.open)(&config, &mut database) };
        checked("tidesdb_open", code)?;
        let family_config = configure_family(&api, options);
        let engine = Self { api, database, family_config, families: options.families };
        for number in 0..=options.families {
            engine.create_family(number)?;
        }
        Ok(engine)
    }

    fn family(&self, number: u32) -> Result<Handle> {
        let missing = || EngineError::new(format!("there is no family {number}"));
        self.family_if_there(number)?.ok_or_else(missing)
    }

    fn family_if_there(&self, number: u32) -> Result<Option<Handle>> {
        let name = family_name(number)?;
        // SAFETY: the database is open and the name valid for the call.
        let family = unsafe { (self.api.get_family)(self.database, name.as_ptr()) };
        Ok((!family.is_null()).then_some(family))
    }

    /// All families but those that the benchmark has dropped.
    fn all_families(&self) -> Result<Vec<Handle>> {
        let all = (0..=self.families).map(|number| self.family_if_there(number).transpose());
        all.flatten().collect()
    }

    fn db_stats(&self) -> Result<DbStats> {
        let mut stats = DbStats::default();
        // SAFETY: the database is open and the structure can be written.
        let code = unsafe { (self.api.get_db_stats)(self.database, &mut stats) };
        checked("tidesdb_get_db_stats", code)?;
        Ok(stats)
    }

    fn is_busy(&self) -> Result<bool> {
        let stats = self.db_stats()?;
        let is_queued = stats.flush_pending_count > 0
            || stats.flush_queue_size > 0
            || stats.compaction_queue_size > 0;
        let is_at_work = |family: Handle| {
            // SAFETY: the family is live.
            let flushing = unsafe { (self.api.is_flushing)(family) };
            // SAFETY: the family is live.
            let compacting = unsafe { (self.api.is_compacting)(family) };
            flushing != 0 || compacting != 0
        };
        Ok(is_queued || self.all_families()?.into_iter().any(is_at_work))
    }
}

fn configure(api: &Api, path: &CString, options: &EngineOptions) -> Config {
    const LOG_NONE: c_int = 99;
    // SAFETY: the function has no precondition.
    let mut config = unsafe { (api.default_config)() };
    let threads = c_int::try_from(options.background_threads).unwrap_or(c_int::MAX);
    config.db_path = path.as_ptr().cast_mut();
    config.num_flush_threads = 1;
    config.num_compaction_threads = (threads - 1).max(1);
    config.log_level = LOG_NONE;
    config.block_cache_size = to_size(options.cache_bytes);
    config.max_open_sstables = 0;
    config
}

fn configure_family(api: &Api, options: &EngineOptions) -> FamilyConfig {
    // SAFETY: the function has no precondition.
    let mut config = unsafe { (api.default_family_config)() };
    config.write_buffer_size = to_size(options.memtable_bytes);
    config.compression_algorithm = match options.compression {
        Compression::None => 0,
        Compression::Snappy => 1,
        Compression::Lz4 => 2,
        Compression::Zstd => 3,
    };
    config.use_btree = c_int::from(options.tree_tables);
    config.enable_bloom_filter = c_int::from(options.bloom_bits > 0);
    let bits = f64::from(options.bloom_bits);
    config.bloom_fpr = (-bits * std::f64::consts::LN_2.powi(2)).exp().clamp(1e-6, 0.999);
    config.klog_value_threshold = to_size(options.separation_threshold());
    let mut queued = options.memtable_count.saturating_sub(1).max(1);
    if api.wait_idle.is_some() {
        // The library of this engine: as many as its adapter in Rust lets wait.
        queued = queued.min(2);
    }
    config.l0_queue_stall_threshold = c_int::try_from(queued).unwrap_or(c_int::MAX);
    (config.sync_mode, config.sync_interval_us) = match options.sync {
        SyncMode::None => (0, 0),
        SyncMode::Full => (1, 0),
        SyncMode::Interval(period) => {
            (2, u64::try_from(period.as_micros()).unwrap_or(u64::MAX).max(1))
        }
    };
    config
}

fn to_size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

impl Drop for TidesDbC {
    fn drop(&mut self) {
        if !self.database.is_null() {
            // SAFETY: sessions borrow `self`, so none is left; the handle is not used afterwards.
            unsafe { (self.api.close)(self.database) };
        }
    }
}

impl Engine for TidesDbC {
    fn session<'a>(&'a self, mode: SessionMode) -> Result<Box<dyn Session + 'a>> {
        Ok(Box::new(TidesSession::new(self, mode)?))
    }

    fn flush(&self) -> Result<()> {
        self.all_families()?.into_iter().try_for_each(|family| {
            retried("tidesdb_flush_memtable", || {
                // SAFETY: the family is live.
                unsafe { (self.api.flush_memtable)(family) }
            })
        })
    }

    fn settle(&self) -> Result<()> {
        self.flush()?;
        wait_until_quiet(|| self.is_busy())?;
        match self.api.wait_idle {
            // SAFETY: the database is open.
            Some(wait_idle) => checked("tidesdb_wait_idle", unsafe { wait_idle(self.database) }),
            None => Ok(()),
        }
    }

    fn compact(&self) -> Result<()> {
        self.all_families()?.into_iter().try_for_each(|family| {
            // SAFETY: the family is live.
            checked("tidesdb_compact", unsafe { (self.api.compact)(family) })
        })
    }

    fn checkpoint(&self, directory: &Path) -> Result<()> {
        let path = CString::new(directory.as_os_str().as_bytes())
            .map_err(|error| EngineError::from_call("directory name", error))?;
        // SAFETY: the database is open and the name valid for the call.
        let code = unsafe { (self.api.checkpoint)(self.database, path.as_ptr()) };
        checked("tidesdb_checkpoint", code)
    }

    fn create_family(&self, number: u32) -> Result<()> {
        let name = family_name(number)?;
        // SAFETY: the database is open, name and configuration live through the call.
        let code =
            unsafe { (self.api.create_family)(self.database, name.as_ptr(), &self.family_config) };
        if code == EXISTS { Ok(()) } else { checked("tidesdb_create_column_family", code) }
    }

    fn drop_family(&self, number: u32) -> Result<()> {
        let name = family_name(number)?;
        // SAFETY: the database is open and the name valid for the call.
        let code = unsafe { (self.api.drop_family)(self.database, name.as_ptr()) };
        checked("tidesdb_drop_column_family", code)
    }

    fn sync_now(&self) -> Result<()> {
        let family = self.family(0)?;
        // SAFETY: the family is live.
        checked("tidesdb_sync_wal", unsafe { (self.api.sync_wal)(family) })
    }

    fn stats(&self) -> Result<EngineStats> {
        let stats = self.db_stats()?;
        let mut cache = CacheStats::default();
        // SAFETY: the database is open and the structure, whose size was checked, can be written.
        let code = unsafe { (self.api.get_cache_stats)(self.database, &mut cache) };
        checked("tidesdb_get_cache_stats", code)?;
        Ok(EngineStats {
            log_bytes: Some(stats.wal_bytes_written + stats.uwal_bytes_written),
            flush_bytes: Some(stats.flush_bytes_written),
            compaction_bytes: Some(stats.compaction_bytes_written),
            log_syncs: None,
            resolution_bytes: 1,
            sorted_runs: None,
            cache: (cache.enabled != 0).then_some((cache.hits, cache.misses)),
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            native_interval_sync: true,
            expiry: true,
            transactions: true,
            families: true,
            checkpoint: true,
            compact: true,
            tree_tables: true,
            ..Capabilities::PLAIN
        }
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        let database = std::mem::replace(&mut self.database, ptr::null_mut());
        // SAFETY: sessions borrow `self`, so none is left; the handle is not used afterwards.
        checked("tidesdb_close", unsafe { (self.api.close)(database) })
    }
}
