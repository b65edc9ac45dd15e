//! Column families: handles, their life, and options.
//!
//! A handle is made when a family is first asked for, and freed when the database is closed, or
//! when many other families were dropped after its own.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tidesdb::{Family, FamilyOptions, KeyOrder};
use tidesdb_sys::forks::ProcessMark;

use crate::allocator;
use crate::boundary::{OfDatabase, Outcome, bytes_of, call_for_of, call_of, log_of};
use crate::boundary::{object, refuse, set_bytes, text};
use crate::codes;
use crate::comparators;
use crate::config::{asked_options, family_options, named, normalised};
use crate::config::{take_engine_options, take_runtime_fields};
use crate::database::{Database, database};
use crate::engine_log::{Level, LogNumber};
use crate::family_handles::FamilyChange;
use crate::hooks::commit_hook;
use crate::ini;
use crate::spellings::Spellings;
use crate::types::{CommitHookFn, FamilyConfig, MOST_FAMILY_NAME_BYTES};

/// Under this name the options of the interface are stored with the engine's.
const STORED_AS: &str = "c-interface";

/// What a `tidesdb_column_family_t` is. Clones are of the same family and config.
#[derive(Clone)]
pub struct FamilyHandle {
    pub family: Family,
    /// As of its database.
    pub home: ProcessMark,
    /// That of its database, which a forked child may have freed.
    log: LogNumber,
    /// The database's own handle, for what concerns all families.
    database: *const Database,
    /// Made when a call first asks for it, since a lookup needs none.
    config: Arc<OnceLock<Box<Mutex<FamilyConfig>>>>,
    /// In an order that the program has registered: which keys are the same.
    pub spellings: Option<Arc<Spellings>>,
}

// SAFETY: the pointer is to a database that stays in its place until it is closed, and by the
// interface no call uses the handle from then on; everything else may be shared.
unsafe impl Send for FamilyHandle {}
// SAFETY: as above.
unsafe impl Sync for FamilyHandle {}

impl OfDatabase for FamilyHandle {
    fn log_number(&self) -> LogNumber {
        self.log
    }
}

impl FamilyHandle {
    /// The handle of a family, made if there is none yet.
    pub fn pointer(database: &Database, name: &str) -> Outcome<*mut Self> {
        if let Some(handle) = database.families.get(name) {
            return Ok(handle);
        }
        loop {
            // A name that no family has is not waited for, whatever changes meanwhile.
            let family = database.db.family(name)?;
            // Without the lock of all changes: it may read the whole family, and call the program.
            // No key is put before there is a handle.
            let spellings = spellings(database, &family)?;
            let mut handles = database.families.change();
            if let Some(handle) = handles.get(name) {
                return Ok(handle);
            }
            // Otherwise it was dropped or renamed meanwhile, and another one may have its name.
            if !family.is_dropped() && *family.name() == *name {
                return Self::make(database, &mut handles, (family, spellings), OnceLock::new());
            }
        }
    }

    /// The first handle of a family.
    #[expect(clippy::arc_with_non_send_sync, reason = "a handle says why its parts may be shared")]
    fn make(
        database: &Database,
        handles: &mut FamilyChange<'_>,
        (family, spellings): (Family, Option<Arc<Spellings>>),
        config: OnceLock<Box<Mutex<FamilyConfig>>>,
    ) -> Outcome<*mut Self> {
        let (name, home) = (family.name().to_string(), database.home);
        let log = database.log_number();
        let config = Arc::new(config);
        let database = ptr::from_ref(database);
        let pointer = allocator::boxed(Self { family, home, log, database, config, spellings });
        if pointer.is_null() {
            return refuse(codes::MEMORY);
        }
        handles.insert(&name, pointer);
        Ok(pointer)
    }

    pub fn config(&self) -> MutexGuard<'_, FamilyConfig> {
        let config = self.config.get_or_init(|| {
            let stored = named(stored_config(&self.family), &self.family.name());
            Box::new(Mutex::new(with_comparator(self.database(), stored)))
        });
        config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn database(&self) -> &Database {
        // SAFETY: by the interface a family's handle is not used once its database is closed.
        unsafe { &*self.database }
    }
}

/// The family behind a handle, of a database that this process has opened.
///
/// # Safety
/// The handle is null, or its database is not closed and its family was not dropped so long ago
/// that the handle was freed.
pub unsafe fn family<'a>(cf: *const FamilyHandle) -> Outcome<&'a FamilyHandle> {
    // SAFETY: by contract.
    let family = unsafe { object(cf) }?;
    if family.home.is_here() { Ok(family) } else { refuse(codes::INVALID_DB) }
}

/// As [`family`], for a call that may go on for as long as it takes to drop so many other families
/// that the handle is freed (I-276). Calls of a transaction do without: they are short, and would
/// all write to the same counter.
///
/// # Safety
/// As [`family`], when the call begins.
pub unsafe fn held_family(cf: *const FamilyHandle) -> Outcome<FamilyHandle> {
    // SAFETY: by contract; the clone is made at once.
    unsafe { family(cf) }.cloned()
}

/// As [`held_family`], of a family that was not dropped: for calls that the engine does not refuse
/// then.
///
/// # Safety
/// As [`held_family`].
pub unsafe fn present_family(cf: *const FamilyHandle) -> Outcome<FamilyHandle> {
    // SAFETY: by contract.
    let handle = unsafe { held_family(cf) }?;
    if handle.family.is_dropped() { refuse(codes::NOT_FOUND) } else { Ok(handle) }
}

/// The spellings in use in a family whose order the program has registered.
fn spellings(database: &Database, family: &Family) -> Outcome<Option<Arc<Spellings>>> {
    if database.comparators.is_empty() {
        return Ok(None);
    }
    let order = family.options().key_order;
    let name = comparators::name_of(&order);
    let (KeyOrder::Custom(_), Some(comparator)) = (&order, database.comparators.find(&name)) else {
        return Ok(None);
    };
    let (spellings, hidden) = Spellings::of(&database.db, family, comparator)?;
    if hidden > 0 {
        let name = family.name();
        let text = format_args!(
            "family '{name}': {hidden} keys were stored without this interface and are equal to \
             others; iterators show them, and nothing else reaches them"
        );
        database.log.write(Level::Error, text);
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

/// The engine's options with those of the interface stored beside them. What the engine does not
/// take as it was asked for is told of in the log.
fn options_for(
    database: &Database,
    config: &FamilyConfig,
    present: FamilyOptions,
) -> Outcome<FamilyOptions> {
    let asked = asked_options(config, present)?;
    let mut options = asked.clone().within_limits();
    if asked != options {
        log_limits(database, config, &asked, &options);
    }
    let stored = format!("[{STORED_AS}]\n{}", ini::lines(config));
    options.properties.insert(STORED_AS.to_owned(), stored);
    Ok(options)
}

fn log_limits(
    database: &Database,
    config: &FamilyConfig,
    asked: &FamilyOptions,
    taken: &FamilyOptions,
) {
    for (asked, taken) in asked.to_text().lines().zip(taken.to_text().lines()) {
        if asked != taken {
            let name = String::from_utf8_lossy(&bytes_of(&config.name)).into_owned();
            let text = format_args!("family '{name}': {asked} is beyond the limits, so {taken}");
            database.log.write(Level::Warn, text);
        }
    }
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
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_create_column_family", log, || {
        // SAFETY: the caller's handle, string and structure, by the interface.
        let (database, name, config) = unsafe { (database(db)?, text(name)?, object(config)?) };
        check_name(name)?;
        let config = named(normalised(*config, database.memory_limit)?, name);
        let key_order = comparators::key_order(&bytes_of(&config.comparator_name));
        if database.shared_memtable && key_order != KeyOrder::Bytewise {
            let text = format_args!("with a shared memtable keys are in memcmp order");
            database.log.write(Level::Error, text);
            return refuse(codes::INVALID);
        }
        let options = FamilyOptions::default().key_order(key_order);
        let options = options_for(database, &config, options)?;
        let Some(hook) = config.commit_hook_fn else {
            database.db.create_family(name, options)?;
            // It is asked for next, and costs little beside the syncs. Where there is no memory for
            // it, the family is there all the same, and a lookup tries again.
            drop(FamilyHandle::pointer(database, name));
            return Ok(());
        };
        // Locked until it has its hook: it is not used, renamed or dropped before (I-277).
        let mut handles = database.families.change();
        let family = database.db.create_family(name, options)?;
        let log = database.log_number();
        family.set_commit_hook(Some(commit_hook(hook, config.commit_hook_ctx, log)));
        let config = Box::new(Mutex::new(with_comparator(database, config))).into();
        let made = spellings(database, &family).and_then(|spellings| {
            FamilyHandle::make(database, &mut handles, (family, spellings), config)
        });
        // A family without its hook would be half of what was asked for.
        made.map(drop).or_else(|failure| {
            database.db.drop_family(name)?;
            Err(failure)
        })
    })
}

/// See `tidesdb_get_column_family` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_get_column_family(
    db: *mut Database,
    name: *const c_char,
) -> *mut FamilyHandle {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_for_of("tidesdb_get_column_family", log, ptr::null_mut(), || {
        // SAFETY: the caller's handle, by the interface.
        let Ok(database) = (unsafe { database(db) }) else { return ptr::null_mut() };
        // SAFETY: the caller's string, by the interface.
        let Ok(name) = (unsafe { text(name) }) else { return ptr::null_mut() };
        FamilyHandle::pointer(database, name).unwrap_or_else(|failure| {
            failure.log("tidesdb_get_column_family", Some(database.log_number()));
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
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_drop_column_family", log, || {
        // SAFETY: the caller's handle and string, by the interface.
        let (database, name) = unsafe { (database(db)?, text(name)?) };
        drop_family(database, database.families.change(), name)
    })
}

/// See `tidesdb_delete_column_family` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_delete_column_family(
    db: *mut Database,
    cf: *mut FamilyHandle,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_delete_column_family", log, || {
        // SAFETY: the caller's handle, by the interface.
        let database = unsafe { database(db) }?;
        if cf.is_null() {
            return refuse(codes::INVALID);
        }
        let handles = database.families.change();
        // The handle of a family that was dropped may have been freed: it is not looked at.
        let Some(name) = handles.name_of(cf) else { return refuse(codes::NOT_FOUND) };
        drop_family(database, handles, &name)
    })
}

/// Until the family is gone its name has no handle, and the handles stay locked: a lookup of the
/// name waits as long as the engine knows it, and finds what is there then (I-390).
fn drop_family(database: &Database, mut handles: FamilyChange<'_>, name: &str) -> Outcome {
    let pointer = handles.remove(name);
    if let Err(error) = database.db.drop_family(name) {
        pointer.into_iter().for_each(|pointer| handles.insert(name, pointer));
        return Err(error.into());
    }
    if let Some(pointer) = pointer {
        // SAFETY: made by `FamilyHandle::make`; only this call can give it up, and has not yet.
        let handle = unsafe { &*pointer };
        handle.spellings.iter().for_each(|spellings| spellings.forget_all());
        handles.keep_dropped(pointer);
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
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_rename_column_family", log, || {
        // SAFETY: the caller's handle and strings, by the interface.
        let (database, old, new) = unsafe { (database(db)?, text(old_name)?, text(new_name)?) };
        if old == new {
            return Ok(());
        }
        check_name(new)?;
        // Locked over all, and under no name meanwhile, so that a handle is found under the name
        // that its family has (I-390).
        let mut handles = database.families.change();
        let pointer = handles.remove(old);
        if let Err(error) = database.db.rename_family(old, new) {
            pointer.into_iter().for_each(|pointer| handles.insert(old, pointer));
            return Err(error.into());
        }
        if let Some(pointer) = pointer {
            // SAFETY: made by `FamilyHandle::make`, and given up by no call while this one changes.
            let handle = unsafe { &*pointer };
            let mut config = handle.config();
            *config = named(*config, new);
            drop(config);
            handles.insert(new, pointer);
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
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_clone_column_family", log, || {
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
    persist_to_disk: c_int,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(cf) };
    call_of("tidesdb_cf_update_runtime_config", log, || {
        // SAFETY: the caller's handle and structure, by the interface.
        let (handle, new) = unsafe { (held_family(cf)?, object(new_config)?) };
        let mut config = handle.config();
        let mut changed = *config;
        take_runtime_fields(&mut changed, new);
        let changed = normalised(changed, u64::MAX)?;
        let options = options_for(handle.database(), &changed, handle.family.options())?;
        match persist_to_disk {
            0 => handle.family.set_options_until_close(options)?,
            _ => handle.family.set_options(options)?,
        }
        let (context, log) = (changed.commit_hook_ctx, handle.log_number());
        let hook = changed.commit_hook_fn.map(|hook| commit_hook(hook, context, log));
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
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(cf) };
    call_of("tidesdb_cf_set_commit_hook", log, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { present_family(cf) }?;
        let mut config = handle.config();
        config.commit_hook_fn = hook;
        config.commit_hook_ctx = ctx;
        let log = handle.log_number();
        handle.family.set_commit_hook(hook.map(|hook| commit_hook(hook, ctx, log)));
        Ok(())
    })
}
