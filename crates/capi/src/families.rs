//! Column families: handles, their life, options, and background work.
//!
//! A handle is made when a family is first asked for, and freed when the family is dropped or the
//! database closed.

use std::collections::HashMap;
use std::ffi::{c_char, c_double, c_int, c_void};
use std::ops::Bound;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidesdb::{Error, Family, FamilyOptions, KeyOrder, StallReason};
use tidesdb_sys::forks::ProcessMark;

use crate::allocator;
use crate::boundary::{Failure, Outcome, answer, bytes, call, call_for, key, object, refuse};
use crate::boundary::{bytes_of, set_bytes, text};
use crate::codes;
use crate::comparators;
use crate::config::{family_options, named, normalised, take_engine_options, take_runtime_fields};
use crate::database::{Database, FamilyPointer, database};
use crate::engine_log::Level;
use crate::hooks::commit_hook;
use crate::ini;
use crate::spellings::Spellings;
use crate::types::{CommitHookFn, FamilyConfig, MOST_FAMILY_NAME_BYTES};

/// Under this name the options of the interface are stored with the engine's.
const STORED_AS: &str = "c-interface";

/// How long a compaction of a range waits for the merges of the family that are under way.
const LONGEST_WAIT_FOR_MERGES: Duration = Duration::from_secs(1);

/// What a `tidesdb_column_family_t` is.
pub struct FamilyHandle {
    pub family: Family,
    /// As of its database.
    home: ProcessMark,
    /// The database's own handle, for what concerns all families.
    database: *const Database,
    config: Mutex<FamilyConfig>,
    /// In an order that the program has registered: which keys are the same.
    pub spellings: Option<Arc<Spellings>>,
}

// SAFETY: the pointer is to a database that is freed after all of its family handles; everything
// else may be shared.
unsafe impl Send for FamilyHandle {}
// SAFETY: as above.
unsafe impl Sync for FamilyHandle {}

impl FamilyHandle {
    /// The handle of a family, made if there is none yet.
    pub fn pointer(database: &Database, name: &str) -> Outcome<*mut Self> {
        let mut handles = database.lock_families();
        if let Some(FamilyPointer(handle)) = handles.get(name) {
            return Ok(*handle);
        }
        let family = database.db.family(name)?;
        let config = with_comparator(database, named(stored_config(&family), name));
        let spellings = spellings(database, &family)?;
        let home = database.home;
        let (database, config) = (ptr::from_ref(database), Mutex::new(config));
        let pointer = allocator::boxed(Self { family, home, database, config, spellings });
        if pointer.is_null() {
            return refuse(codes::MEMORY);
        }
        handles.insert(name.to_owned(), FamilyPointer(pointer));
        Ok(pointer)
    }

    pub fn config(&self) -> MutexGuard<'_, FamilyConfig> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn database(&self) -> &Database {
        // SAFETY: by the interface a family's handle is not used once its database is closed.
        unsafe { &*self.database }
    }
}

/// The family behind a handle, of a database that this process has opened.
///
/// # Safety
/// The handle is null or in use: its family is not dropped, its database not closed.
pub unsafe fn family<'a>(cf: *const FamilyHandle) -> Outcome<&'a FamilyHandle> {
    // SAFETY: by contract.
    let family = unsafe { object(cf) }?;
    if family.home.is_here() { Ok(family) } else { refuse(codes::INVALID_DB) }
}

/// The spellings in use in a family whose order the program has registered.
fn spellings(database: &Database, family: &Family) -> Outcome<Option<Arc<Spellings>>> {
    let order = family.options().key_order;
    let name = comparators::name_of(&order);
    let (KeyOrder::Custom(_), Some(comparator)) = (&order, database.comparators.find(&name)) else {
        return Ok(None);
    };
    let (spellings, hidden) = Spellings::of(&database.db, family, comparator)?;
    if hidden > 0 {
        let name = family.name();
        let text = format!(
            "family '{name}': {hidden} keys were stored without this interface and are equal to \
             others; iterators show them, and nothing else reaches them"
        );
        database.log.write(Level::Error, &text);
    }
    Ok(Some(spellings))
}

/// The options of the interface that were stored with a family. Where the engine has others by now,
/// which another program gave it, those count: an update would set the old ones again.
fn stored_config(family: &Family) -> FamilyConfig {
    let options = family.options();
    let stored = options.properties.get(STORED_AS);
    let stored = stored.and_then(|text| ini::from_ini(text.as_bytes(), STORED_AS.as_bytes()).ok());
    let mut config = stored.unwrap_or_else(crate::config::family_defaults);
    let in_force = family_options(&config, options.clone());
    if stored.is_none() || in_force.ok().is_none_or(|in_force| in_force != options) {
        take_engine_options(&mut config, &options);
        set_bytes(&mut config.comparator_name, &comparators::name_of(&options.key_order));
    }
    config
}

/// The config with the function of its key order, which is known where there is a handle.
fn with_comparator(database: &Database, mut config: FamilyConfig) -> FamilyConfig {
    if let Some(known) = database.comparators.find(&bytes_of(&config.comparator_name)) {
        config.comparator_fn_cached = Some(known.function);
        config.comparator_ctx_cached = known.context;
    }
    config
}

/// The engine's options with those of the interface stored beside them.
fn options_for(config: &FamilyConfig, present: FamilyOptions) -> Outcome<FamilyOptions> {
    let mut options = family_options(config, present)?;
    let stored = format!("[{STORED_AS}]\n{}", ini::lines(config));
    options.properties.insert(STORED_AS.to_owned(), stored);
    Ok(options)
}

/// A name of a family: 1 to 127 bytes.
fn check_name(name: &str) -> Outcome {
    if name.is_empty() || name.len() >= MOST_FAMILY_NAME_BYTES {
        return refuse(codes::INVALID);
    }
    Ok(())
}

/// See `tidesdb_create_column_family` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_create_column_family(
    db: *mut Database,
    name: *const c_char,
    config: *const FamilyConfig,
) -> c_int {
    call("tidesdb_create_column_family", || {
        // SAFETY: the caller's handle, string and structure, by the interface.
        let (database, name, config) = unsafe { (database(db)?, text(name)?, object(config)?) };
        check_name(name)?;
        let config = named(normalised(*config, database.memory_limit)?, name);
        let key_order = comparators::key_order(&bytes_of(&config.comparator_name));
        if database.shared_memtable && key_order != KeyOrder::Bytewise {
            database.log.write(Level::Error, "with a shared memtable keys are in memcmp order");
            return refuse(codes::INVALID);
        }
        let options = FamilyOptions::default().key_order(key_order);
        database.db.create_family(name, options_for(&config, options)?)?;
        if let Some(hook) = config.commit_hook_fn {
            let handle = FamilyHandle::pointer(database, name);
            // A family without its hook would be half of what was asked for.
            let handle = handle.or_else(|failure| {
                database.db.drop_family(name)?;
                Err(failure)
            })?;
            // SAFETY: made just now.
            let handle = unsafe { &*handle };
            handle.family.set_commit_hook(Some(commit_hook(hook, config.commit_hook_ctx)));
            *handle.config() = with_comparator(database, config);
        }
        Ok(())
    })
}

/// See `tidesdb_get_column_family` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_get_column_family(
    db: *mut Database,
    name: *const c_char,
) -> *mut FamilyHandle {
    call_for("tidesdb_get_column_family", ptr::null_mut(), || {
        // SAFETY: the caller's handle, by the interface.
        let Ok(database) = (unsafe { database(db) }) else { return ptr::null_mut() };
        // SAFETY: the caller's string, by the interface.
        let Ok(name) = (unsafe { text(name) }) else { return ptr::null_mut() };
        FamilyHandle::pointer(database, name).unwrap_or_else(|failure| {
            failure.log("tidesdb_get_column_family");
            ptr::null_mut()
        })
    })
}

/// See `tidesdb_drop_column_family` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_drop_column_family(
    db: *mut Database,
    name: *const c_char,
) -> c_int {
    call("tidesdb_drop_column_family", || {
        // SAFETY: the caller's handle and string, by the interface.
        let (database, name) = unsafe { (database(db)?, text(name)?) };
        drop_family(database, database.lock_families(), name)
    })
}

/// See `tidesdb_delete_column_family` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_delete_column_family(
    db: *mut Database,
    cf: *mut FamilyHandle,
) -> c_int {
    call("tidesdb_delete_column_family", || {
        // SAFETY: the caller's handles, by the interface.
        let (database, handle) = unsafe { (database(db)?, family(cf)?) };
        let handles = database.lock_families();
        let is_it = |of_name: &(&String, &FamilyPointer)| std::ptr::eq(of_name.1.0, handle);
        let name = handles.iter().find(is_it).map(|(name, _)| name.clone());
        let Some(name) = name else { return refuse(codes::NOT_FOUND) };
        drop_family(database, handles, &name)
    })
}

/// The handles stay locked, so that one made meanwhile is not of the family that goes.
fn drop_family(
    database: &Database,
    mut handles: MutexGuard<'_, HashMap<String, FamilyPointer>>,
    name: &str,
) -> Outcome {
    database.db.drop_family(name)?;
    if let Some(FamilyPointer(handle)) = handles.remove(name) {
        // SAFETY: made by `allocator::boxed`, taken out of the map just now, and by the interface
        // not used any more.
        drop(unsafe { allocator::unbox(handle) });
    }
    Ok(())
}

/// See `tidesdb_rename_column_family` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_rename_column_family(
    db: *mut Database,
    old_name: *const c_char,
    new_name: *const c_char,
) -> c_int {
    call("tidesdb_rename_column_family", || {
        // SAFETY: the caller's handle and strings, by the interface.
        let (database, old, new) = unsafe { (database(db)?, text(old_name)?, text(new_name)?) };
        if old == new {
            return Ok(());
        }
        check_name(new)?;
        // Locked over both, so that a handle is found under the name that its family has.
        let mut handles = database.lock_families();
        database.db.rename_family(old, new)?;
        if let Some(pointer) = handles.remove(old) {
            // SAFETY: made by `FamilyHandle::pointer` and not freed while it is in the map.
            let handle = unsafe { &*pointer.0 };
            let mut config = handle.config();
            *config = named(*config, new);
            drop(config);
            handles.insert(new.to_owned(), pointer);
        }
        Ok(())
    })
}

/// See `tidesdb_clone_column_family` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_clone_column_family(
    db: *mut Database,
    src_name: *const c_char,
    dst_name: *const c_char,
) -> c_int {
    call("tidesdb_clone_column_family", || {
        // SAFETY: the caller's handle and strings, by the interface.
        let (database, from, to) = unsafe { (database(db)?, text(src_name)?, text(dst_name)?) };
        check_name(to)?;
        if from == to {
            return refuse(codes::INVALID);
        }
        // The target before the source, as the interface says.
        if database.db.family_names().iter().any(|name| name == to) {
            return refuse(codes::EXISTS);
        }
        database.db.clone_family(from, to)?;
        Ok(())
    })
}

/// See `tidesdb_cf_update_runtime_config` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_cf_update_runtime_config(
    cf: *mut FamilyHandle,
    new_config: *const FamilyConfig,
    _persist_to_disk: c_int,
) -> c_int {
    call("tidesdb_cf_update_runtime_config", || {
        // SAFETY: the caller's handle and structure, by the interface.
        let (handle, new) = unsafe { (family(cf)?, object(new_config)?) };
        let mut config = handle.config();
        let mut changed = *config;
        take_runtime_fields(&mut changed, new);
        let changed = normalised(changed, u64::MAX)?;
        // The engine stores options whenever they change.
        handle.family.set_options(options_for(&changed, handle.family.options())?)?;
        let hook = changed.commit_hook_fn.map(|hook| commit_hook(hook, changed.commit_hook_ctx));
        handle.family.set_commit_hook(hook);
        *config = changed;
        Ok(())
    })
}

/// See `tidesdb_cf_set_commit_hook` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_cf_set_commit_hook(
    cf: *mut FamilyHandle,
    hook: Option<CommitHookFn>,
    ctx: *mut c_void,
) -> c_int {
    call("tidesdb_cf_set_commit_hook", || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { family(cf) }?;
        let mut config = handle.config();
        config.commit_hook_fn = hook;
        config.commit_hook_ctx = ctx;
        handle.family.set_commit_hook(hook.map(|hook| commit_hook(hook, ctx)));
        Ok(())
    })
}

/// See `tidesdb_flush_memtable` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_flush_memtable(cf: *mut FamilyHandle) -> c_int {
    call("tidesdb_flush_memtable", || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { family(cf) }?;
        let database = handle.database();
        if !database.shared_memtable {
            return Ok(handle.family.start_flush()?);
        }
        for name in database.db.family_names() {
            match database.db.family(&name).and_then(|family| family.start_flush()) {
                // Dropped meanwhile; without its order of keys nothing can be put into it.
                Err(
                    Error::FamilyNotFound(_)
                    | Error::FamilyDropped(_)
                    | Error::KeyOrderNotRegistered { .. },
                ) => {}
                other => other?,
            }
        }
        Ok(())
    })
}

/// See `tidesdb_compact` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_compact(cf: *mut FamilyHandle) -> c_int {
    call("tidesdb_compact", || {
        // SAFETY: the caller's handle, by the interface.
        unless_cancelled(unsafe { family(cf) }?.family.compact())
    })
}

/// A compaction that was cancelled counts as done: the interface does not run any then.
pub fn unless_cancelled(outcome: Result<(), Error>) -> Outcome {
    match outcome {
        Err(Error::Cancelled) => Ok(()),
        other => Ok(other?),
    }
}

/// See `tidesdb_compact_range` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_compact_range(
    cf: *mut FamilyHandle,
    start_key: *const u8,
    start_key_size: usize,
    end_key: *const u8,
    end_key_size: usize,
) -> c_int {
    call("tidesdb_compact_range", || {
        // SAFETY: the caller's handle and bytes, by the interface.
        let handle = unsafe { family(cf) }?;
        // SAFETY: as above.
        let bound = |pointer: *const u8, size| unsafe {
            if pointer.is_null() { Ok(None) } else { key(pointer, size).map(Some) }
        };
        let (start, end) = (bound(start_key, start_key_size)?, bound(end_key, end_key_size)?);
        if start.is_none() && end.is_none() {
            return refuse(codes::INVALID);
        }
        let from = start.map_or(Bound::Unbounded, Bound::Included);
        let to = end.map_or(Bound::Unbounded, Bound::Excluded);
        match handle.family.try_compact_range((from, to), LONGEST_WAIT_FOR_MERGES) {
            // Another merge of the family went on for longer.
            Err(Error::Stalled { reason: StallReason::CompactionDebt, .. }) => {
                refuse(codes::LOCKED)
            }
            other => unless_cancelled(other),
        }
    })
}

/// See `tidesdb_purge_cf` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_purge_cf(cf: *mut FamilyHandle) -> c_int {
    call("tidesdb_purge_cf", || {
        // SAFETY: the caller's handle, by the interface.
        unless_cancelled(unsafe { family(cf) }?.family.purge())
    })
}

/// See `tidesdb_is_flushing` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_is_flushing(cf: *mut FamilyHandle) -> c_int {
    call_for("tidesdb_is_flushing", 0, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { family(cf) };
        c_int::from(handle.is_ok_and(|handle| handle.family.is_flushing()))
    })
}

/// See `tidesdb_is_compacting` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_is_compacting(cf: *mut FamilyHandle) -> c_int {
    call_for("tidesdb_is_compacting", 0, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { family(cf) };
        c_int::from(handle.is_ok_and(|handle| handle.family.is_compacting()))
    })
}

/// See `tidesdb_sync_wal` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_sync_wal(cf: *mut FamilyHandle) -> c_int {
    call("tidesdb_sync_wal", || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { family(cf) }?;
        let synced = handle.database().db.sync_log();
        synced.map_err(|error| match codes::of(&error) {
            codes::INVALID_DB => Failure::from(error),
            _ => Failure::Code(codes::IO),
        })
    })
}

/// See `tidesdb_cf_estimate_cardinality` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_cf_estimate_cardinality(
    cf: *mut FamilyHandle,
    out_estimate: *mut u64,
) -> c_int {
    call("tidesdb_cf_estimate_cardinality", || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { family(cf) }?;
        // SAFETY: the caller's place, by the interface.
        unsafe { answer(out_estimate, handle.family.estimated_key_count()) }
    })
}

/// See `tidesdb_range_cost` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_range_cost(
    cf: *mut FamilyHandle,
    key_a: *const u8,
    key_a_size: usize,
    key_b: *const u8,
    key_b_size: usize,
    cost: *mut c_double,
) -> c_int {
    call("tidesdb_range_cost", || {
        // SAFETY: the caller's handle and bytes, by the interface.
        let handle = unsafe { family(cf) }?;
        // SAFETY: as above.
        let (one, other) = unsafe { (key(key_a, key_a_size)?, bytes(key_b, key_b_size)?) };
        if other.is_empty() {
            return refuse(codes::INVALID);
        }
        // SAFETY: the caller's place, by the interface.
        unsafe { answer(cost, handle.family.range_cost(one, other)) }
    })
}
