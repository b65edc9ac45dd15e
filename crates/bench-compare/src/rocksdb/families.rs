//! The column families of an opened RocksDB database: handles by number.
//!
//! Number 0 is RocksDB's default family, number `n` is named `fn`. Sessions copy the handles when
//! they start and ask again for numbers that they do not know. A handle is destroyed when its
//! family is dropped or the database is closed; the benchmark drops a family only while no session
//! uses it.

use super::api::{Api, Handle};
use super::{Owned, checked};
use crate::engine::{EngineError, Result};
use libc::c_int;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::RwLock;

/// Handles by number.
pub(super) struct Families {
    handles: RwLock<BTreeMap<u32, Handle>>,
}

// SAFETY: a family handle may be used from any thread; the map is behind a lock.
unsafe impl Send for Families {}
// SAFETY: see above.
unsafe impl Sync for Families {}

fn poisoned<T>(_error: T) -> EngineError {
    EngineError::new("a thread panicked while it held the families")
}

/// The name of the family with this number.
pub(super) fn name_of(number: u32) -> Result<CString> {
    let name = if number == 0 { "default".to_owned() } else { format!("f{number}") };
    CString::new(name).map_err(|error| EngineError::from_call("family name", error))
}

/// Numbers of the families that the database at `path` has; none if there is no database.
pub(super) fn existing(api: &Api, options: &Owned<'_>, path: &CStr) -> Vec<u32> {
    let mut count = 0;
    let listed = checked(api, "rocksdb_list_column_families", |error| {
        // SAFETY: options and path are valid, `count` can be written.
        unsafe { (api.list_families)(options.handle, path.as_ptr(), &mut count, error) }
    });
    let Ok(names) = listed else { return Vec::new() };
    let mut numbers = Vec::new();
    for index in 0..count {
        // SAFETY: the list has `count` entries.
        let entry = unsafe { names.add(index) };
        // SAFETY: see above.
        let text = unsafe { *entry };
        // SAFETY: each entry is a NUL-terminated text until the list is destroyed.
        let name = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        numbers.extend(name.strip_prefix('f').and_then(|digits| digits.parse::<u32>().ok()));
    }
    // SAFETY: the list came from the library and is not used again.
    unsafe { (api.list_families_destroy)(names, count) };
    numbers
}

/// A database handle and its families.
pub(super) struct Opened {
    pub(super) database: Handle,
    pub(super) families: Families,
}

/// Opens (or creates) a database with the families that it has already.
pub(super) fn open(
    api: &Api,
    options: &Owned<'_>,
    path: &CStr,
    transactions: bool,
) -> Result<Opened> {
    let mut numbers = vec![0];
    numbers.extend(existing(api, options, path));
    let names = numbers.iter().map(|number| name_of(*number)).collect::<Result<Vec<_>>>()?;
    let names: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    let settings = vec![options.handle; numbers.len()];
    let mut handles = vec![ptr::null_mut(); numbers.len()];
    let count = c_int::try_from(numbers.len()).unwrap_or(c_int::MAX);
    let open = if transactions { api.optimistic_open } else { api.open_families };
    let database = checked(api, "rocksdb_open_column_families", |error| {
        // SAFETY: the three arrays have `count` entries; RocksDB copies names and options and fills
        // `handles`.
        unsafe {
            open(
                options.handle,
                path.as_ptr(),
                count,
                names.as_ptr(),
                settings.as_ptr(),
                handles.as_mut_ptr(),
                error,
            )
        }
    })?;
    let handles = numbers.into_iter().zip(handles).collect();
    Ok(Opened { database, families: Families { handles: RwLock::new(handles) } })
}

impl Families {
    /// The handle of a family.
    pub(super) fn get(&self, number: u32) -> Result<Handle> {
        let handles = self.handles.read().map_err(poisoned)?;
        let handle = handles.get(&number).copied();
        handle.ok_or_else(|| EngineError::new(format!("there is no family {number}")))
    }

    /// All handles.
    pub(super) fn all(&self) -> Result<Vec<Handle>> {
        Ok(self.handles.read().map_err(poisoned)?.values().copied().collect())
    }

    /// Creates a family unless it exists.
    pub(super) fn create(
        &self,
        api: &Api,
        database: Handle,
        options: Handle,
        number: u32,
    ) -> Result<()> {
        if self.get(number).is_ok() {
            return Ok(());
        }
        let name = name_of(number)?;
        let handle = checked(api, "rocksdb_create_column_family", |error| {
            // SAFETY: the database is open, options and name are valid for the call.
            unsafe { (api.create_family)(database, options, name.as_ptr(), error) }
        })?;
        self.handles.write().map_err(poisoned)?.insert(number, handle);
        Ok(())
    }

    /// Drops a family that no session uses.
    pub(super) fn drop_family(&self, api: &Api, database: Handle, number: u32) -> Result<()> {
        let handle = self.get(number)?;
        checked(api, "rocksdb_drop_column_family", |error| {
            // SAFETY: database and handle are live.
            unsafe { (api.drop_family)(database, handle, error) };
        })?;
        self.handles.write().map_err(poisoned)?.remove(&number);
        // SAFETY: the handle is not used afterwards.
        unsafe { (api.family_handle_destroy)(handle) };
        Ok(())
    }

    /// Destroys all handles; the database is closed right after.
    pub(super) fn destroy(&mut self, api: &Api) {
        let handles = std::mem::take(self.handles.get_mut().unwrap_or_else(|e| e.into_inner()));
        for handle in handles.into_values() {
            // SAFETY: the handle is live, and no session is left that could use it.
            unsafe { (api.family_handle_destroy)(handle) };
        }
    }
}
