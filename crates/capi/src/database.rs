//! Databases: opening, closing, copies, and what concerns all families.

use std::ffi::{c_char, c_int, c_long};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidesdb::{Db, Error, EventListener, LogLevel, WriteOptions};
use tidesdb_sys::descriptors::open_for_reading;
use tidesdb_sys::forks::ProcessMark;

use crate::allocator;
use crate::boundary::{
    Failure, OfDatabase, Outcome, answer, call, call_of, log_of, object, path, refuse,
};
use crate::codes;
use crate::comparators::Comparators;
use crate::config::{db_options, durability};
use crate::engine_log::{EngineLog, Level, LogNumber};
use crate::family_handles::FamilyHandles;
use crate::family_work::unless_stopped;
use crate::repair;
use crate::types::Config;

/// What a `tidesdb_t` is.
pub struct Database {
    pub db: Db,
    /// The process that opened it. In a forked child the locks may be locked for good.
    pub home: ProcessMark,
    pub log: Arc<EngineLog>,
    /// Key orders that the program has registered.
    pub comparators: Comparators,
    pub families: FamilyHandles,
    pub directory: PathBuf,
    /// The limit of memory in force, in bytes.
    pub memory_limit: u64,
    /// The shared memtable was asked for: flushing one family flushes all.
    pub shared_memtable: bool,
    /// How durable commits are. With a shared memtable the sync modes of families do not count.
    pub durability: WriteOptions,
    pub finish_compactions_on_close: bool,
    /// A close has begun: calls that come now are refused.
    closing: AtomicBool,
    pub machine_memory: MachineMemory,
}

/// Memory of the machine when the database was opened, in bytes.
#[derive(Clone, Copy)]
pub struct MachineMemory {
    pub total: u64,
    /// What was free, or could be freed at once.
    pub available: u64,
}

impl OfDatabase for Database {
    fn log_number(&self) -> LogNumber {
        self.log.number()
    }
}

fn machine_memory() -> MachineMemory {
    // SAFETY: a call without pointers.
    let pages = |what| u64::try_from(unsafe { libc::sysconf(what) }).unwrap_or(0);
    let page = pages(libc::_SC_PAGESIZE);
    let physical = pages(libc::_SC_PHYS_PAGES).saturating_mul(page);
    // Of a container no more than its control group allows.
    let total = tidesdb_sys::memory::available_bytes().unwrap_or(physical);
    let info = open_for_reading("/proc/meminfo").and_then(io::read_to_string).unwrap_or_default();
    let available = info.lines().find_map(|line| {
        let kibibytes = line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?;
        kibibytes.trim().parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
    });
    let free = pages(libc::_SC_AVPHYS_PAGES).saturating_mul(page);
    MachineMemory { total, available: available.unwrap_or(free) }
}

/// See `tidesdb_raise_open_file_limit` in `db.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_raise_open_file_limit(desired: c_long) -> c_long {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return -1;
    }
    let wanted = libc::rlim_t::try_from(desired).unwrap_or(0).min(limit.rlim_max);
    if wanted > limit.rlim_cur {
        let raised = libc::rlimit { rlim_cur: wanted, rlim_max: limit.rlim_max };
        // SAFETY: the structure is ours.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            limit.rlim_cur = wanted;
        }
    }
    c_long::try_from(limit.rlim_cur).unwrap_or(c_long::MAX)
}

/// See `tidesdb_open` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_open(config: *const Config, db: *mut *mut Database) -> c_int {
    call("tidesdb_open", || {
        // SAFETY: the caller's place, by the interface.
        unsafe { answer(db, ptr::null_mut()) }?;
        // SAFETY: the caller's structure and its strings, by the interface.
        let config = unsafe { object(config) }?;
        if config.db_path.is_null() {
            return refuse(codes::MEMORY);
        }
        // SAFETY: as above.
        let path = unsafe { path(config.db_path) }?;
        allocator::tidesdb_ensure_initialized();
        let opened = open(path, config)?;
        let log = Arc::clone(&opened.log);
        let handle = allocator::boxed(opened);
        if handle.is_null() {
            log.write(Level::Error, format_args!("closed: no memory for the handle"));
            return refuse(codes::MEMORY);
        }
        // SAFETY: as above.
        unsafe { answer(db, handle) }
    })
}

fn open(directory: &Path, config: &Config) -> Outcome<Database> {
    let log = EngineLog::new(Level::of(config.log_level), config.log_to_file != 0);
    let opened = open_with(directory, config, &log);
    // Only this log can say why: that of another database is no place for it.
    opened.map_err(|failure| {
        let code = match failure.code() {
            // The interface has IO for a file that can't be opened here, whatever the cause.
            codes::BUSY => codes::IO,
            code => code,
        };
        let why = match failure {
            Failure::Engine(error) => error.to_string(),
            Failure::Code(code) => format!("refused with code {code}"),
        };
        log.write(Level::Error, format_args!("tidesdb_open of {}: {why}", directory.display()));
        Failure::Code(code)
    })
}

fn open_with(directory: &Path, config: &Config, log: &Arc<EngineLog>) -> Outcome<Database> {
    if !config.object_store.is_null() {
        let text = format_args!("object store mode is not supported by this version");
        log.write(Level::Error, text);
        return refuse(codes::INVALID);
    }
    let machine_memory = machine_memory();
    let mut options = db_options(config, machine_memory.total)?;
    let asked = config.max_memory_usage as u64;
    if asked > 0 && options.max_memory_usage > asked {
        let limit = options.max_memory_usage;
        log.write(
            Level::Warn,
            format_args!("max_memory_usage is raised from {asked} to {limit}, 5 % of the memory"),
        );
    }
    let events = Arc::clone(log);
    options.event_listener = Some(EventListener::new(move |event| {
        let level = match event.level() {
            LogLevel::Error => Level::Error,
            LogLevel::Warn => Level::Warn,
            LogLevel::Info => Level::Info,
            _ => Level::Debug,
        };
        events.write(level, format_args!("{event}"));
    }));
    options.event_listener_level = match Level::of(config.log_level) {
        Level::Debug => LogLevel::Debug,
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
        Level::Error | Level::Fatal | Level::None => LogLevel::Error,
    };
    repair::finish_interrupted(directory, log)?;
    make_directory(directory)?;
    let db = repair::open(directory, options, log)?;
    if config.log_to_file != 0 {
        log.begin_file(directory, config.log_truncation_at as u64)
            .map_err(|error| Failure::from(Error::io("open", directory.join("LOG"), error)))?;
    }
    log.join_open();
    log.write(Level::Info, format_args!("opened {}", directory.display()));
    Ok(Database {
        memory_limit: db.stats().memory.budget_bytes,
        db,
        home: ProcessMark::of_this(),
        log: Arc::clone(log),
        comparators: Comparators::default(),
        families: FamilyHandles::default(),
        directory: directory.to_path_buf(),
        shared_memtable: config.unified_memtable != 0,
        durability: durability(config),
        finish_compactions_on_close: config.finish_compactions_on_close != 0,
        closing: AtomicBool::new(false),
        machine_memory,
    })
}

/// Makes one directory level, unless there is a directory.
fn make_directory(directory: &Path) -> Outcome {
    match std::fs::DirBuilder::new().mode(0o755).create(directory) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        Err(e) => Err(Error::io("create directory", directory, e).into()),
        Ok(()) => Ok(()),
    }
}

/// See `tidesdb_close` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_close(db: *mut Database) -> c_int {
    if db.is_null() {
        return codes::INVALID;
    }
    // SAFETY: the caller's handle, by the interface.
    let database = unsafe { &*db };
    // It outlives the handle, for the line of a panic.
    let (log, number) = (Arc::clone(&database.log), database.log_number());
    let is_here = database.home.is_here();
    // ORDERING: relaxed; a call that has not seen it is refused by the engine, or comes first.
    if database.closing.swap(true, Ordering::Relaxed) && is_here {
        return codes::INVALID_DB;
    }
    let closed = call_of("tidesdb_close", Some(number), || {
        if is_here {
            database.close();
        }
        Ok(())
    });
    // Last: a call that another thread, or a commit hook, makes meanwhile is refused, and reads the
    // handle for that.
    let freed = call_of("tidesdb_close", Some(number), || {
        // SAFETY: by the interface the handle came from `tidesdb_open` and is not used again.
        let database = unsafe { allocator::unbox(db) };
        if !is_here {
            std::mem::forget(database);
        }
        Ok(())
    });
    // Not by its end: a transaction that was not freed may keep it. And here, so that the line of a
    // panic has found it.
    if is_here {
        log.leave_open();
    }
    if closed == codes::SUCCESS { freed } else { closed }
}

impl Database {
    /// Ends what runs and closes the database. The interface returns success whatever fails, as the
    /// handle is gone: failures go to the log.
    fn close(&self) {
        if self.finish_compactions_on_close {
            // What it could not finish is left as it is.
            let _ = self.db.finish_compactions();
        }
        self.log.write(Level::Info, format_args!("closing {}", self.directory.display()));
        if let Err(error) = self.db.clone().close() {
            self.log.write(Level::Error, format_args!("{}", close_failure(&error)));
        }
    }
}

/// What is reported of a close that failed. Nothing says that the log was synced.
fn close_failure(error: &Error) -> String {
    format!(
        "closing failed: {error}; what was not flushed is read from the log at the next opening, \
         and commits that were not synced may be lost in a power cut until then"
    )
}

/// The database behind a handle, which this process has opened and is not closing.
///
/// # Safety
/// The handle is null or open.
pub unsafe fn database<'a>(db: *const Database) -> Outcome<&'a Database> {
    // SAFETY: by contract.
    let database = unsafe { object(db) }?;
    // ORDERING: relaxed, as where it is set.
    let is_open = database.home.is_here() && !database.closing.load(Ordering::Relaxed);
    if is_open { Ok(database) } else { refuse(codes::INVALID_DB) }
}

/// See `tidesdb_backup` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_backup(db: *mut Database, dir: *mut c_char) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_backup", log, || {
        // SAFETY: the caller's handle and string, by the interface.
        let (database, target) = unsafe { (database(db)?, path(dir)?) };
        check_target(database, target)?;
        Ok(database.db.backup(target)?)
    })
}

/// See `tidesdb_checkpoint` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_checkpoint(
    db: *mut Database,
    checkpoint_dir: *const c_char,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_checkpoint", log, || {
        // SAFETY: the caller's handle and string, by the interface.
        let (database, target) = unsafe { (database(db)?, path(checkpoint_dir)?) };
        check_target(database, target)?;
        Ok(database.db.checkpoint(target)?)
    })
}

/// Where a copy can't go, whatever is there. The engine makes the directory and looks into it.
fn check_target(database: &Database, target: &Path) -> Outcome {
    if target == database.directory || (target.exists() && !target.is_dir()) {
        return refuse(codes::INVALID);
    }
    Ok(())
}

/// See `tidesdb_purge` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_purge(db: *mut Database) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_purge", log, || {
        // SAFETY: the caller's handle, by the interface.
        unless_stopped(unsafe { database(db) }?.db.compact_and_wait())
    })
}

/// See `tidesdb_wait_idle` in `tidesdb.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_wait_idle(db: *mut Database) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    // SAFETY: the caller's handle, by the interface.
    call_of("tidesdb_wait_idle", log, || Ok(unsafe { database(db) }?.db.wait_idle()?))
}

/// See `tidesdb_cancel_background_work` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_cancel_background_work(db: *mut Database) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_cancel_background_work", log, || {
        // SAFETY: the caller's handle, by the interface.
        Ok(unsafe { database(db) }?.db.stop_compactions()?)
    })
}

/// See `tidesdb_promote_to_primary` in `db.h`. There are no replicas without an object store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_promote_to_primary(_db: *mut Database) -> c_int {
    codes::INVALID
}

/// See `tidesdb_list_column_families` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_list_column_families(
    db: *mut Database,
    names: *mut *mut *mut c_char,
    count: *mut c_int,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_list_column_families", log, || {
        // SAFETY: the caller's handle, by the interface.
        let database = unsafe { database(db) }?;
        if names.is_null() || count.is_null() {
            return refuse(codes::INVALID);
        }
        let found = database.db.family_names();
        let list = list_of(&found)?;
        // SAFETY: the caller's places, checked above.
        unsafe { answer(names, list) }?;
        // SAFETY: as above.
        unsafe { answer(count, c_int::try_from(found.len()).unwrap_or(c_int::MAX)) }
    })
}

/// An array of strings in the caller's memory; null for none.
fn list_of(names: &[String]) -> Outcome<*mut *mut c_char> {
    if names.is_empty() {
        return Ok(ptr::null_mut());
    }
    let list: *mut *mut c_char = allocator::zeroed(names.len());
    if list.is_null() {
        return refuse(codes::MEMORY);
    }
    for (at, name) in names.iter().enumerate() {
        let copy = allocator::copy_text(name);
        // SAFETY: the array has a place for each name.
        unsafe { list.add(at).write(copy) };
        if copy.is_null() {
            for done in 0..at {
                // SAFETY: written by an earlier round, and not given out.
                unsafe { allocator::tidesdb_free(list.add(done).read().cast()) };
            }
            // SAFETY: made above, and not given out.
            unsafe { allocator::tidesdb_free(list.cast()) };
            return refuse(codes::MEMORY);
        }
    }
    Ok(list)
}
