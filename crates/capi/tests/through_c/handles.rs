//! The C interface as a C program sees it, with handles that free themselves.

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use tidesdb_testkit::Verdict;

use crate::types::{CommitHookFn, Config, FamilyConfig};

pub const SUCCESS: c_int = 0;
pub const NOT_FOUND: c_int = -3;
pub const CONFLICT: c_int = -7;

type Db = c_void;
type Cf = c_void;
type Txn = c_void;
type Iter = c_void;

unsafe extern "C" {
    fn tidesdb_default_config() -> Config;
    fn tidesdb_default_column_family_config() -> FamilyConfig;
    fn tidesdb_open(config: *const Config, db: *mut *mut Db) -> c_int;
    fn tidesdb_close(db: *mut Db) -> c_int;
    fn tidesdb_free(pointer: *mut c_void);
    fn tidesdb_create_column_family(
        db: *mut Db,
        name: *const c_char,
        config: *const FamilyConfig,
    ) -> c_int;
    fn tidesdb_drop_column_family(db: *mut Db, name: *const c_char) -> c_int;
    fn tidesdb_rename_column_family(db: *mut Db, old: *const c_char, new: *const c_char) -> c_int;
    fn tidesdb_clone_column_family(db: *mut Db, from: *const c_char, to: *const c_char) -> c_int;
    fn tidesdb_backup(db: *mut Db, directory: *mut c_char) -> c_int;
    fn tidesdb_checkpoint(db: *mut Db, directory: *const c_char) -> c_int;
    fn tidesdb_cf_update_runtime_config(
        cf: *mut Cf,
        config: *const FamilyConfig,
        persist: c_int,
    ) -> c_int;
    fn tidesdb_get_column_family(db: *mut Db, name: *const c_char) -> *mut Cf;
    fn tidesdb_cf_set_commit_hook(
        cf: *mut Cf,
        hook: Option<CommitHookFn>,
        context: *mut c_void,
    ) -> c_int;
    fn tidesdb_flush_memtable(cf: *mut Cf) -> c_int;
    fn tidesdb_compact(cf: *mut Cf) -> c_int;
    fn tidesdb_sync_wal(cf: *mut Cf) -> c_int;
    fn tidesdb_txn_begin_with_isolation(db: *mut Db, level: c_int, txn: *mut *mut Txn) -> c_int;
    fn tidesdb_txn_put(
        txn: *mut Txn,
        cf: *mut Cf,
        key: *const u8,
        key_size: usize,
        value: *const u8,
        value_size: usize,
        ttl: libc::time_t,
    ) -> c_int;
    fn tidesdb_txn_get(
        txn: *mut Txn,
        cf: *mut Cf,
        key: *const u8,
        key_size: usize,
        value: *mut *mut u8,
        value_size: *mut usize,
    ) -> c_int;
    fn tidesdb_txn_get_notrack(
        txn: *mut Txn,
        cf: *mut Cf,
        key: *const u8,
        key_size: usize,
        value: *mut *mut u8,
        value_size: *mut usize,
    ) -> c_int;
    fn tidesdb_txn_contains(txn: *mut Txn, cf: *mut Cf, key: *const u8, key_size: usize) -> c_int;
    fn tidesdb_txn_delete(txn: *mut Txn, cf: *mut Cf, key: *const u8, key_size: usize) -> c_int;
    fn tidesdb_txn_single_delete(
        txn: *mut Txn,
        cf: *mut Cf,
        key: *const u8,
        key_size: usize,
    ) -> c_int;
    fn tidesdb_txn_commit(txn: *mut Txn) -> c_int;
    fn tidesdb_txn_rollback(txn: *mut Txn) -> c_int;
    fn tidesdb_txn_reset(txn: *mut Txn, level: c_int) -> c_int;
    fn tidesdb_txn_free(txn: *mut Txn);
    fn tidesdb_txn_savepoint(txn: *mut Txn, name: *const c_char) -> c_int;
    fn tidesdb_txn_rollback_to_savepoint(txn: *mut Txn, name: *const c_char) -> c_int;
    fn tidesdb_iter_new(txn: *mut Txn, cf: *mut Cf, iter: *mut *mut Iter) -> c_int;
    fn tidesdb_iter_seek(iter: *mut Iter, key: *const u8, key_size: usize) -> c_int;
    fn tidesdb_iter_seek_for_prev(iter: *mut Iter, key: *const u8, key_size: usize) -> c_int;
    fn tidesdb_iter_seek_to_first(iter: *mut Iter) -> c_int;
    fn tidesdb_iter_seek_to_last(iter: *mut Iter) -> c_int;
    fn tidesdb_iter_next(iter: *mut Iter) -> c_int;
    fn tidesdb_iter_prev(iter: *mut Iter) -> c_int;
    fn tidesdb_iter_key_value(
        iter: *mut Iter,
        key: *mut *mut u8,
        key_size: *mut usize,
        value: *mut *mut u8,
        value_size: *mut usize,
    ) -> c_int;
    fn tidesdb_iter_free(iter: *mut Iter);
}

/// Anything but success is a finding.
pub fn worked(what: &str, code: c_int) -> Verdict {
    if code == SUCCESS { Ok(()) } else { Err(format!("{what} answered {code}")) }
}

/// True for success, false for "not found"; anything else is a finding.
fn found(what: &str, code: c_int) -> Verdict<bool> {
    if code == NOT_FOUND { Ok(false) } else { worked(what, code).map(|()| true) }
}

/// The defaults of a family.
pub fn default_family() -> FamilyConfig {
    // SAFETY: takes nothing.
    unsafe { tidesdb_default_column_family_config() }
}

/// An open database, closed when it goes.
pub struct Database(*mut Db);

// SAFETY: by the interface a database may be used from any thread.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

/// A family of an open database. It must not be used once that is closed or the family dropped.
#[derive(Clone, Copy)]
pub struct Family(*mut Cf);

// SAFETY: by the interface a family may be used from any thread.
unsafe impl Send for Family {}
// SAFETY: as above.
unsafe impl Sync for Family {}

fn path_text(path: &Path) -> Verdict<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|e| e.to_string())
}

impl Database {
    /// With a memtable for each family, or one that they share.
    pub fn open(path: &Path, shared_memtable: bool) -> Verdict<Self> {
        let path = path_text(path)?;
        let mut db = ptr::null_mut();
        // SAFETY: the path lives during the call, the places are ours.
        let code = unsafe {
            let mut config = tidesdb_default_config();
            config.db_path = path.as_ptr().cast_mut();
            config.log_level = 99;
            config.unified_memtable = c_int::from(shared_memtable);
            tidesdb_open(&raw const config, &raw mut db)
        };
        worked("open", code).map(|()| Self(db))
    }

    pub fn create(&self, name: &str, config: &FamilyConfig) -> Verdict<Family> {
        let name = CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: handle and string are live.
        let code = unsafe { tidesdb_create_column_family(self.0, name.as_ptr(), config) };
        worked("create", code)?;
        // SAFETY: as above.
        let family = unsafe { tidesdb_get_column_family(self.0, name.as_ptr()) };
        if family.is_null() {
            Err("a new family is not found".to_owned())
        } else {
            Ok(Family(family))
        }
    }

    pub fn family(&self, name: &str) -> Verdict<Option<Family>> {
        let name = CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: handle and string are live.
        let family = unsafe { tidesdb_get_column_family(self.0, name.as_ptr()) };
        Ok((!family.is_null()).then_some(Family(family)))
    }

    pub fn drop_family(&self, name: &str) -> Verdict {
        let name = CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: handle and string are live; the caller lets go of the family's handles.
        worked("drop", unsafe { tidesdb_drop_column_family(self.0, name.as_ptr()) })
    }

    pub fn rename(&self, old: &str, new: &str) -> Verdict {
        let [old, new] = [old, new].map(CString::new).map(Result::unwrap_or_default);
        // SAFETY: handle and strings are live.
        let code = unsafe { tidesdb_rename_column_family(self.0, old.as_ptr(), new.as_ptr()) };
        worked("rename", code)
    }

    pub fn copy_family(&self, from: &str, to: &str) -> Verdict {
        let [from, to] = [from, to].map(CString::new).map(Result::unwrap_or_default);
        // SAFETY: handle and strings are live.
        let code = unsafe { tidesdb_clone_column_family(self.0, from.as_ptr(), to.as_ptr()) };
        worked("clone", code)
    }

    /// Copies everything to a directory that is not there: every byte, or with links.
    pub fn copy(&self, to: &Path, every_byte: bool) -> Verdict {
        let to = path_text(to)?;
        // SAFETY: handle and string are live, and the string is not written to.
        let code = unsafe {
            match every_byte {
                true => tidesdb_backup(self.0, to.as_ptr().cast_mut()),
                false => tidesdb_checkpoint(self.0, to.as_ptr()),
            }
        };
        worked("copy", code)
    }

    /// A transaction at a level by its number in the interface.
    pub fn begin(&self, level: c_int) -> Verdict<Transaction> {
        let mut txn = ptr::null_mut();
        // SAFETY: the handle is live, the place is ours.
        let code = unsafe { tidesdb_txn_begin_with_isolation(self.0, level, &raw mut txn) };
        worked("begin", code).map(|()| Transaction(txn))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: the only handle; transactions that are left are allowed to be.
        unsafe { tidesdb_close(self.0) };
    }
}

impl Family {
    pub fn set_hook(self, hook: CommitHookFn) -> Verdict {
        // SAFETY: the handle is live.
        let code = unsafe { tidesdb_cf_set_commit_hook(self.0, Some(hook), ptr::null_mut()) };
        worked("setting a hook", code)
    }

    pub fn set_config(self, config: &FamilyConfig) -> Verdict {
        // SAFETY: handle and structure are live.
        let code = unsafe { tidesdb_cf_update_runtime_config(self.0, config, 1) };
        worked("update_runtime_config", code)
    }

    pub fn flush(self) -> Verdict {
        // SAFETY: the handle is live.
        worked("flush", unsafe { tidesdb_flush_memtable(self.0) })
    }

    pub fn compact(self) -> Verdict {
        // SAFETY: the handle is live.
        worked("compact", unsafe { tidesdb_compact(self.0) })
    }

    pub fn sync(self) -> Verdict {
        // SAFETY: the handle is live.
        worked("sync", unsafe { tidesdb_sync_wal(self.0) })
    }
}

/// A transaction, freed when it goes.
pub struct Transaction(*mut Txn);

// SAFETY: by the interface a transaction may move to another thread.
unsafe impl Send for Transaction {}

impl Transaction {
    /// `ttl` as in the interface: the time of expiry, 0 for never.
    pub fn put(&mut self, family: Family, key: &[u8], value: &[u8], ttl: u64) -> Verdict {
        let ttl = libc::time_t::try_from(ttl).map_err(|e| e.to_string())?;
        // SAFETY: handles and bytes are live.
        let code = unsafe {
            tidesdb_txn_put(
                self.0,
                family.0,
                key.as_ptr(),
                key.len(),
                value.as_ptr(),
                value.len(),
                ttl,
            )
        };
        worked("put", code)
    }

    pub fn delete(&mut self, family: Family, key: &[u8], single: bool) -> Verdict {
        let delete = if single { tidesdb_txn_single_delete } else { tidesdb_txn_delete };
        // SAFETY: handles and bytes are live.
        worked("delete", unsafe { delete(self.0, family.0, key.as_ptr(), key.len()) })
    }

    pub fn get(&self, family: Family, key: &[u8], tracked: bool) -> Verdict<Option<Vec<u8>>> {
        let get = if tracked { tidesdb_txn_get } else { tidesdb_txn_get_notrack };
        let (mut value, mut size) = (ptr::null_mut(), 0);
        let (value_at, size_at) = (&raw mut value, &raw mut size);
        // SAFETY: handles, bytes and places are live.
        let code = unsafe { get(self.0, family.0, key.as_ptr(), key.len(), value_at, size_at) };
        if !found("get", code)? {
            return Ok(None);
        }
        // SAFETY: the value is ours, of that size, until it is freed once.
        let bytes = unsafe {
            let bytes = std::slice::from_raw_parts(value, size).to_vec();
            tidesdb_free(value.cast());
            bytes
        };
        Ok(Some(bytes))
    }

    /// The length of a value that must be there. The value is freed as it came.
    pub fn length(&self, family: Family, key: &[u8]) -> Verdict<usize> {
        let (mut value, mut size) = (ptr::null_mut(), 0);
        let (value_at, size_at) = (&raw mut value, &raw mut size);
        // SAFETY: handles, bytes and places are live.
        let code = unsafe {
            tidesdb_txn_get(self.0, family.0, key.as_ptr(), key.len(), value_at, size_at)
        };
        worked("get", code)?;
        // SAFETY: the value is ours.
        unsafe { tidesdb_free(value.cast()) };
        Ok(size)
    }

    pub fn contains(&self, family: Family, key: &[u8]) -> Verdict<bool> {
        // SAFETY: handles and bytes are live.
        let code = unsafe { tidesdb_txn_contains(self.0, family.0, key.as_ptr(), key.len()) };
        found("contains", code)
    }

    /// What the commit answered.
    pub fn commit(&mut self) -> c_int {
        // SAFETY: the handle is live.
        unsafe { tidesdb_txn_commit(self.0) }
    }

    pub fn rollback(&mut self) -> Verdict {
        // SAFETY: the handle is live.
        worked("rollback", unsafe { tidesdb_txn_rollback(self.0) })
    }

    pub fn reset(&mut self, level: c_int) -> Verdict {
        // SAFETY: the handle is live.
        worked("reset", unsafe { tidesdb_txn_reset(self.0, level) })
    }

    pub fn savepoint(&mut self, name: &str) -> Verdict {
        let name = CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: handle and string are live.
        worked("savepoint", unsafe { tidesdb_txn_savepoint(self.0, name.as_ptr()) })
    }

    pub fn rollback_to(&mut self, name: &str) -> Verdict {
        let name = CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: handle and string are live.
        worked("rollback to", unsafe { tidesdb_txn_rollback_to_savepoint(self.0, name.as_ptr()) })
    }

    pub fn iterate(&self, family: Family) -> Verdict<Iterator<'_>> {
        let mut iter = ptr::null_mut();
        // SAFETY: handles are live, the place is ours.
        let code = unsafe { tidesdb_iter_new(self.0, family.0, &raw mut iter) };
        worked("iter_new", code).map(|()| Iterator { iter, _of: self })
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // SAFETY: the only handle.
        unsafe { tidesdb_txn_free(self.0) };
    }
}

/// An iterator, freed before its transaction.
pub struct Iterator<'a> {
    iter: *mut Iter,
    _of: &'a Transaction,
}

/// A movement of an iterator.
#[derive(Clone, Copy, Debug)]
pub enum Move<'a> {
    First,
    Last,
    Seek(&'a [u8]),
    SeekForPrev(&'a [u8]),
    Next,
    Prev,
}

impl Iterator<'_> {
    fn step(&mut self, to: Move<'_>) -> c_int {
        let iter = self.iter;
        // SAFETY: handle and bytes are live.
        unsafe {
            match to {
                Move::First => tidesdb_iter_seek_to_first(iter),
                Move::Last => tidesdb_iter_seek_to_last(iter),
                Move::Seek(key) => tidesdb_iter_seek(iter, key.as_ptr(), key.len()),
                Move::SeekForPrev(key) => tidesdb_iter_seek_for_prev(iter, key.as_ptr(), key.len()),
                Move::Next => tidesdb_iter_next(iter),
                Move::Prev => tidesdb_iter_prev(iter),
            }
        }
    }

    /// Moves to where an entry must be.
    pub fn stand(&mut self, to: Move<'_>) -> Verdict {
        worked("a movement", self.step(to))
    }

    /// Moves; key and value of the entry there.
    pub fn go(&mut self, to: Move<'_>) -> Verdict<Option<(Vec<u8>, Vec<u8>)>> {
        let iter = self.iter;
        let code = self.step(to);
        if !found("a movement", code)? {
            return Ok(None);
        }
        let (mut key, mut key_size) = (ptr::null_mut(), 0);
        let (mut value, mut value_size) = (ptr::null_mut(), 0);
        // SAFETY: the handle is live, the places are ours.
        let code = unsafe {
            tidesdb_iter_key_value(
                iter,
                &raw mut key,
                &raw mut key_size,
                &raw mut value,
                &raw mut value_size,
            )
        };
        worked("key_value", code)?;
        let bytes = |pointer: *mut u8, size| match size {
            0 => Vec::new(),
            // SAFETY: the iterator's, of that size, until it moves.
            _ => unsafe { std::slice::from_raw_parts(pointer, size) }.to_vec(),
        };
        Ok(Some((bytes(key, key_size), bytes(value, value_size))))
    }
}

impl Drop for Iterator<'_> {
    fn drop(&mut self) {
        // SAFETY: the only handle; the transaction is still there.
        unsafe { tidesdb_iter_free(self.iter) };
    }
}
