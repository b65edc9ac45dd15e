//! RocksDB behind the engine trait, through its C API.
//!
//! Two profiles: `parity` gives RocksDB the resources and shapes that the other engines get;
//! `tuned` adds what RocksDB's own guides advise for the machine. Reads use pinned slices, each
//! session keeps its write batch and its iterator. The library is found and loaded at run time
//! (`api`), so that building the benchmark never builds RocksDB.
//!
//! Threads: the database handle is shared by all sessions (RocksDB allows that), the batch and
//! the iterator belong to one session. Invariants: every handle stored in a struct here was
//! created by the library in the same struct and is destroyed exactly once, sessions before the
//! database because they borrow it.
#![expect(unsafe_code, reason = "calls into a C library that is loaded at run time")]

mod api;
mod configure;
mod families;
mod session;
mod statistics;

use crate::engine::{
    Capabilities, Engine, EngineError, EngineOptions, EngineStats, Result, Session, SessionMode,
    SyncMode, wait_until_quiet,
};
use api::{Api, ErrorSlot, Handle};
use families::Families;
use libc::c_char;
use session::RocksSession;
use statistics::{parse_stats, sorted_runs};
use std::ffi::{CStr, CString};
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

/// How RocksDB is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Same resources and shapes as all engines.
    Parity,
    /// Parity plus the settings RocksDB's guides advise.
    Tuned,
}

/// Looks for a RocksDB library; returns its path.
pub fn find_library(named: Option<&Path>) -> Result<PathBuf> {
    api::find_library(named)
}

/// Loads a library for a moment: whether it is a RocksDB that can be used.
pub fn check_library(library: &Path) -> Result<()> {
    Api::load(library).map(drop)
}

/// What a library's file name and folder say about its build, to be put behind other notes.
///
/// Only the library that `scripts/fetch-rocksdb` gets is known to be made for an old processor;
/// how others were compiled, only their builder knows.
pub fn origin(library: &Path) -> String {
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("librocksdbjni-linux64") {
        return "; prebuilt library of the Java package, for baseline x86-64: CRC32C of its log not in \
                hardware"
            .to_owned();
    }
    let of_the_system = ["/usr/lib", "/lib"].iter().any(|folder| library.starts_with(folder));
    let whose = if of_the_system { "the system's library" } else { "the library" };
    format!("; {whose} {}, compiled as its builder chose", library.display())
}

/// A handle together with the function that destroys it.
struct Owned<'a> {
    handle: Handle,
    destroy: unsafe extern "C" fn(Handle),
    _api: &'a Api,
}

impl<'a> Owned<'a> {
    fn new(
        api: &'a Api,
        create: unsafe extern "C" fn() -> Handle,
        destroy: unsafe extern "C" fn(Handle),
    ) -> Self {
        // SAFETY: constructors of option objects and batches take nothing and never fail.
        let handle = unsafe { create() };
        Self { handle, destroy, _api: api }
    }
}

impl Owned<'_> {
    /// The handle alone, which the caller destroys.
    fn into_handle(self) -> Handle {
        ManuallyDrop::new(self).handle
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: `destroy` is the counterpart of the constructor that made `handle`, which is
        // not used afterwards.
        unsafe { (self.destroy)(self.handle) };
    }
}

/// Runs a call that reports failure through an allocated error text.
fn checked<T>(api: &Api, name: &str, call: impl FnOnce(ErrorSlot) -> T) -> Result<T> {
    let mut error: *mut c_char = ptr::null_mut();
    let value = call(&mut error);
    if error.is_null() {
        return Ok(value);
    }
    // SAFETY: RocksDB stores a NUL-terminated text allocated with malloc.
    let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    // SAFETY: the text came from the library's malloc and is not used again.
    unsafe { (api.free)(error.cast()) };
    Err(EngineError::from_call(name, text))
}

/// An opened RocksDB database.
pub struct RocksDb {
    api: Api,
    database: Handle,
    /// The transaction database around `database`, if transactions were asked for.
    optimistic: Option<Handle>,
    families: Families,
    /// The options of all families. Those that are created later get the block cache of the others
    /// through it, and making it is no part of their creation.
    settings: Handle,
    profile: Profile,
    /// Whether each commit is synced.
    synced: bool,
}

// SAFETY: `rocksdb_t` may be used from any thread; the function table is immutable.
unsafe impl Send for RocksDb {}
// SAFETY: all calls made through a shared reference are documented as thread-safe by RocksDB
// (write, get, create_iterator, flush, property_value, transactions' begin).
unsafe impl Sync for RocksDb {}

impl RocksDb {
    /// Loads the library and opens (or creates) the database.
    pub fn open(options: &EngineOptions, profile: Profile) -> Result<Self> {
        let path = api::find_library(options.library.as_deref())?;
        let api = Api::load(&path)?;
        let directory = c_path(&options.directory)?;
        let (opened, settings) = {
            let settings = configure::options(&api, options, profile)?;
            let opened = families::open(&api, &settings, &directory, options.transactions)?;
            (opened, settings.into_handle())
        };
        let optimistic = options.transactions.then_some(opened.database);
        let database = match optimistic {
            // SAFETY: the transaction database is open.
            Some(optimistic) => unsafe { (api.optimistic_base)(optimistic) },
            None => opened.database,
        };
        let families = opened.families;
        let synced = options.sync == SyncMode::Full;
        let engine = Self { api, database, optimistic, families, settings, profile, synced };
        for number in 1..=options.families {
            engine.create_family(number)?;
        }
        Ok(engine)
    }

    /// The version that the library wrote into the options file of the database in `directory`.
    pub fn version_in(directory: &Path) -> Option<String> {
        let files = std::fs::read_dir(directory).ok()?.flatten();
        let newest = files
            .filter(|file| file.file_name().to_string_lossy().starts_with("OPTIONS-"))
            .max_by_key(std::fs::DirEntry::file_name)?;
        let options = std::fs::read_to_string(newest.path()).ok()?;
        let version = options.lines().find_map(|line| line.trim().strip_prefix("rocksdb_version="));
        version.map(str::to_owned)
    }

    /// Whether a flush or a compaction runs or is due, for libraries that cannot wait for them.
    fn is_busy(&self) -> Result<bool> {
        const WORK: [&CStr; 4] = [
            c"rocksdb.mem-table-flush-pending",
            c"rocksdb.num-running-flushes",
            c"rocksdb.compaction-pending",
            c"rocksdb.num-running-compactions",
        ];
        for name in WORK {
            let mut value = 0;
            // SAFETY: the name is a C string, the database is open and `value` can be written.
            if unsafe { (self.api.property_int)(self.database, name.as_ptr(), &mut value) } != 0 {
                return Err(EngineError::new(format!("no property {}", name.to_string_lossy())));
            }
            if value > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn property(&self, name: &CStr) -> Option<String> {
        // SAFETY: the name is a valid C string and the database is open.
        let text = unsafe { (self.api.property_value)(self.database, name.as_ptr()) };
        if text.is_null() {
            return None;
        }
        // SAFETY: a property value is a NUL-terminated text allocated with malloc.
        let value = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: the text came from the library's malloc and is not used again.
        unsafe { (self.api.free)(text.cast()) };
        Some(value)
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // Sessions borrow `self`, so none is left.
        self.families.destroy(&self.api);
        match self.optimistic {
            None => {
                // SAFETY: the handle is not used afterwards.
                unsafe { (self.api.close)(self.database) };
            }
            Some(optimistic) => {
                // SAFETY: gives back the wrapper that `optimistic_base` made.
                unsafe { (self.api.optimistic_close_base)(self.database) };
                // SAFETY: the handle is not used afterwards.
                unsafe { (self.api.optimistic_close)(optimistic) };
            }
        }
        // SAFETY: the database, which has copied what it needs, is closed; nothing else uses it.
        unsafe { (self.api.options_destroy)(self.settings) };
    }
}

fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|error| EngineError::from_call("directory name", error))
}

impl Engine for RocksDb {
    fn session<'a>(&'a self, mode: SessionMode) -> Result<Box<dyn Session + 'a>> {
        Ok(Box::new(RocksSession::new(self, mode)?))
    }

    fn flush(&self) -> Result<()> {
        let api = &self.api;
        let flush = Owned::new(api, api.flushoptions_create, api.flushoptions_destroy);
        for family in self.families.all()? {
            checked(api, "rocksdb_flush", |error| {
                // SAFETY: database and family are open; flush options wait by default.
                unsafe { (api.flush)(self.database, flush.handle, family, error) }
            })?;
        }
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        for family in self.families.all()? {
            let (start, end) = (ptr::null(), ptr::null());
            // SAFETY: database and family are open; null keys mean the whole range.
            unsafe { (self.api.compact_range)(self.database, family, start, 0, end, 0) };
        }
        self.settle()
    }

    fn checkpoint(&self, directory: &Path) -> Result<()> {
        let api = &self.api;
        let directory = c_path(directory)?;
        let object = checked(api, "rocksdb_checkpoint_object_create", |error| {
            // SAFETY: the database is open.
            unsafe { (api.checkpoint_object_create)(self.database, error) }
        })?;
        let made = checked(api, "rocksdb_checkpoint_create", |error| {
            // SAFETY: the object is live and the name valid; 0 flushes the log first.
            unsafe { (api.checkpoint_create)(object, directory.as_ptr(), 0, error) }
        });
        // SAFETY: the object is not used afterwards.
        unsafe { (api.checkpoint_object_destroy)(object) };
        made
    }

    fn create_family(&self, number: u32) -> Result<()> {
        self.families.create(&self.api, self.database, self.settings, number)
    }

    fn drop_family(&self, number: u32) -> Result<()> {
        self.families.drop_family(&self.api, self.database, number)
    }

    fn settle(&self) -> Result<()> {
        let api = &self.api;
        self.flush()?;
        let newer = (
            api.wait_for_compact,
            api.wait_for_compact_options_create,
            api.wait_for_compact_options_destroy,
        );
        let (Some(wait_for_compact), Some(create), Some(destroy)) = newer else {
            return wait_until_quiet(|| self.is_busy());
        };
        let wait = Owned::new(api, create, destroy);
        checked(api, "rocksdb_wait_for_compact", |error| {
            // SAFETY: the database is open and the options are live.
            unsafe { wait_for_compact(self.database, wait.handle, error) }
        })
    }

    fn sync_now(&self) -> Result<()> {
        checked(&self.api, "rocksdb_flush_wal", |error| {
            // SAFETY: the database is open.
            unsafe { (self.api.flush_wal)(self.database, 1, error) }
        })
    }

    fn differences(&self) -> Vec<String> {
        configure::differences(&self.api, self.profile)
    }

    fn stats(&self) -> Result<EngineStats> {
        let text = self.property(c"rocksdb.stats").unwrap_or_default();
        let files = self.property(c"rocksdb.levelstats").unwrap_or_default();
        // Hits and misses of the cache are counted only with statistics on, which cost time.
        Ok(EngineStats { sorted_runs: sorted_runs(&files), ..parse_stats(&text) })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            range_delete: true,
            transactions: true,
            families: true,
            checkpoint: true,
            compact: true,
            ..Capabilities::PLAIN
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database of the library that was found; `None` if none was.
    fn opened(options: &EngineOptions) -> Option<RocksDb> {
        match RocksDb::open(options, Profile::Parity) {
            Ok(engine) => Some(engine),
            Err(reason) if find_library(None).is_err() => {
                eprintln!("nothing was tested: {reason}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// What the options file of a database says.
    fn stated(directory: &Path, name: &str) -> Vec<String> {
        let files = std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
        let is_options = |path: &PathBuf| path.to_string_lossy().contains("OPTIONS-");
        let text = std::fs::read_to_string(files.filter(is_options).max().unwrap()).unwrap();
        let lines = text.lines().filter_map(|line| line.trim().split_once('='));
        lines.filter(|(found, _)| *found == name).map(|(_, value)| value.to_owned()).collect()
    }

    /// Parity left logs to be made anew, values of 4 KiB with their keys, and families that a test
    /// creates without a bound of their memory.
    #[test]
    fn parity_is_what_the_library_was_told() {
        for (value_bytes, blobs) in [(100, "false"), (4096, "true")] {
            let directory = tempfile::tempdir().unwrap();
            let parity = EngineOptions::parity(directory.path().to_path_buf());
            let Some(engine) = opened(&EngineOptions { value_bytes, ..parity }) else { return };
            engine.create_family(1).unwrap();
            let stated = |name| stated(directory.path(), name);
            assert_eq!(stated("recycle_log_file_num"), ["4"]);
            assert_eq!(stated("db_write_buffer_size"), [(256 * 1024 * 1024).to_string()]);
            assert_eq!(stated("enable_blob_files"), [blobs; 2]);
            assert_eq!(stated("min_blob_size")[0] == "4096", value_bytes >= 4096);
        }
    }

    /// Each family that was created had a cache of the full size.
    #[test]
    fn families_share_the_block_cache() {
        let directory = tempfile::tempdir().unwrap();
        let parity = EngineOptions::parity(directory.path().to_path_buf());
        let Some(engine) = opened(&parity) else { return };
        engine.create_family(1).unwrap();
        let used =
            || engine.property(c"rocksdb.block-cache-usage").unwrap().parse::<u64>().unwrap();
        {
            let mut session = engine.session(SessionMode::ReadWrite).unwrap();
            session.use_family(1).unwrap();
            let value = [7; 1000];
            session.write_batch(&[crate::engine::Op::Put { key: b"k", value: &value }]).unwrap();
        }
        engine.settle().unwrap();
        let before = used();
        let mut session = engine.session(SessionMode::ReadWrite).unwrap();
        session.use_family(1).unwrap();
        assert!(session.get(b"k", &mut |_| ()).unwrap());
        assert!(used() > before, "of the default family");
    }

    #[test]
    fn only_the_fetched_library_is_called_prebuilt_for_an_old_processor() {
        let of = |path: &str| origin(Path::new(path));
        assert!(of("target/peers/librocksdbjni-linux64.so").contains("baseline x86-64"));
        let debian = of("/usr/lib/x86_64-linux-gnu/librocksdb.so.7.8");
        assert!(debian.contains("the system's library /usr/lib"), "{debian}");
        assert!(!debian.contains("baseline") && !of("own/librocksdb.so").contains("baseline"));
    }
}
