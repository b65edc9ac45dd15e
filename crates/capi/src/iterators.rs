//! Iterators.

use std::ffi::c_int;
use std::ptr;

use tidesdb::{Scan, ScanOptions};
use tidesdb_sys::forks::ProcessMark;

use crate::allocator;
use crate::boundary::{OfDatabase, Outcome, answer, call_for_of, call_of, key, log_of};
use crate::boundary::{object_mut, refuse};
use crate::codes;
use crate::engine_log::LogNumber;
use crate::families::{FamilyHandle, family};
use crate::transactions::{TransactionHandle, active};

/// What a `tidesdb_iter_t` is.
pub struct IteratorHandle {
    scan: Scan,
    /// As of its family.
    home: ProcessMark,
    /// That of its database.
    log: LogNumber,
}

impl OfDatabase for IteratorHandle {
    fn log_number(&self) -> LogNumber {
        self.log
    }
}

/// An iterator that this process has made, and that only this thread uses.
///
/// # Safety
/// The handle is null or not freed, and no other thread uses it.
unsafe fn handle<'a>(iter: *mut IteratorHandle) -> Outcome<&'a mut IteratorHandle> {
    // SAFETY: by contract.
    let handle = unsafe { object_mut(iter) }?;
    if handle.home.is_here() { Ok(handle) } else { refuse(codes::INVALID_DB) }
}

/// See `tidesdb_iter_new` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_iter_new(
    txn: *mut TransactionHandle,
    cf: *mut FamilyHandle,
    iter: *mut *mut IteratorHandle,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(txn) };
    call_of("tidesdb_iter_new", log, || {
        // SAFETY: the caller's place, by the interface.
        unsafe { answer(iter, ptr::null_mut()) }?;
        // SAFETY: the caller's handles, by the interface.
        let (handle, family) = unsafe { (active(txn)?, family(cf)?) };
        // Before the scan is made, which may take a while: the family may be dropped meanwhile.
        let (home, log) = (family.home, handle.log_number());
        let scan = handle.transaction.scan(&family.family, ScanOptions::new())?;
        let pointer = allocator::boxed(IteratorHandle { scan, home, log });
        if pointer.is_null() {
            return refuse(codes::MEMORY);
        }
        // SAFETY: as above.
        unsafe { answer(iter, pointer) }
    })
}

impl IteratorHandle {
    /// The outcome of a movement: whether there is an entry.
    fn arrived(&self) -> Outcome {
        if self.scan.valid() { Ok(()) } else { refuse(codes::NOT_FOUND) }
    }

    fn check_valid(&self) -> Outcome {
        if self.scan.valid() { Ok(()) } else { refuse(codes::INVALID) }
    }
}

/// Goes to where a seek leads, and returns whether there is an entry.
///
/// # Safety
/// The handle is null or in use by this thread, and the key's pointer is null or valid for its
/// size.
#[inline]
unsafe fn seek(
    iter: *mut IteratorHandle,
    (key_bytes, key_size): (*const u8, usize),
    seek: impl FnOnce(&mut Scan, &[u8]) -> tidesdb::Result<()>,
) -> Outcome {
    // SAFETY: by contract.
    let (handle, key) = unsafe { (handle(iter)?, key(key_bytes, key_size)?) };
    seek(&mut handle.scan, key)?;
    handle.arrived()
}

/// See `tidesdb_iter_seek` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_iter_seek(
    iter: *mut IteratorHandle,
    key: *const u8,
    key_size: usize,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(iter) };
    // SAFETY: the caller's handle and bytes, by the interface.
    call_of("tidesdb_iter_seek", log, || unsafe {
        seek(iter, (key, key_size), |scan, key| scan.seek(key))
    })
}

/// See `tidesdb_iter_seek_for_prev` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_iter_seek_for_prev(
    iter: *mut IteratorHandle,
    key: *const u8,
    key_size: usize,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(iter) };
    // SAFETY: the caller's handle and bytes, by the interface.
    call_of("tidesdb_iter_seek_for_prev", log, || unsafe {
        seek(iter, (key, key_size), |scan, key| scan.seek_for_prev(key))
    })
}

/// Goes to an end, and returns whether there is an entry.
///
/// # Safety
/// The handle is null or in use by this thread.
#[inline]
unsafe fn seek_to_end(
    iter: *mut IteratorHandle,
    seek: impl FnOnce(&mut Scan) -> tidesdb::Result<()>,
) -> Outcome {
    // SAFETY: by contract.
    let handle = unsafe { handle(iter) }?;
    seek(&mut handle.scan)?;
    handle.arrived()
}

/// See `tidesdb_iter_seek_to_first` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_iter_seek_to_first(iter: *mut IteratorHandle) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(iter) };
    // SAFETY: the caller's handle, by the interface.
    call_of("tidesdb_iter_seek_to_first", log, || unsafe { seek_to_end(iter, Scan::seek_to_first) })
}

/// See `tidesdb_iter_seek_to_last` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_iter_seek_to_last(iter: *mut IteratorHandle) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(iter) };
    // SAFETY: the caller's handle, by the interface.
    call_of("tidesdb_iter_seek_to_last", log, || unsafe { seek_to_end(iter, Scan::seek_to_last) })
}

/// Steps from an entry to the one beside it, and returns whether there is one.
///
/// # Safety
/// The handle is null or in use by this thread.
#[inline]
unsafe fn step(
    iter: *mut IteratorHandle,
    step: impl FnOnce(&mut Scan) -> tidesdb::Result<()>,
) -> Outcome {
    // SAFETY: by contract.
    let handle = unsafe { handle(iter) }?;
    handle.check_valid()?;
    step(&mut handle.scan)?;
    handle.arrived()
}

/// See `tidesdb_iter_next` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_iter_next(iter: *mut IteratorHandle) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(iter) };
    // SAFETY: the caller's handle, by the interface.
    call_of("tidesdb_iter_next", log, || unsafe { step(iter, Scan::next) })
}

/// See `tidesdb_iter_prev` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_iter_prev(iter: *mut IteratorHandle) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(iter) };
    // SAFETY: the caller's handle, by the interface.
    call_of("tidesdb_iter_prev", log, || unsafe { step(iter, Scan::prev) })
}

/// See `tidesdb_iter_valid` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_iter_valid(iter: *mut IteratorHandle) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(iter) };
    call_for_of("tidesdb_iter_valid", log, 0, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { handle(iter) };
        c_int::from(handle.is_ok_and(|handle| handle.scan.valid()))
    })
}

/// Hands out bytes that belong to the iterator.
///
/// # Safety
/// Both places are null or may be written to.
unsafe fn lend(bytes: &[u8], place: *mut *mut u8, size: *mut usize) -> Outcome {
    if place.is_null() || size.is_null() {
        return refuse(codes::INVALID);
    }
    // SAFETY: by contract, and checked above.
    unsafe { answer(place, bytes.as_ptr().cast_mut()) }?;
    // SAFETY: as above.
    unsafe { answer(size, bytes.len()) }
}

/// See `tidesdb_iter_key` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_iter_key(
    iter: *mut IteratorHandle,
    key: *mut *mut u8,
    key_size: *mut usize,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(iter) };
    call_of("tidesdb_iter_key", log, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { handle(iter) }?;
        handle.check_valid()?;
        // SAFETY: the caller's places, by the interface.
        unsafe { lend(handle.scan.key(), key, key_size) }
    })
}

/// See `tidesdb_iter_value` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_iter_value(
    iter: *mut IteratorHandle,
    value: *mut *mut u8,
    value_size: *mut usize,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(iter) };
    call_of("tidesdb_iter_value", log, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { handle(iter) }?;
        handle.check_valid()?;
        // SAFETY: the caller's places, by the interface.
        unsafe { lend(handle.scan.value()?, value, value_size) }
    })
}

/// See `tidesdb_iter_key_value` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_iter_key_value(
    iter: *mut IteratorHandle,
    key: *mut *mut u8,
    key_size: *mut usize,
    value: *mut *mut u8,
    value_size: *mut usize,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(iter) };
    call_of("tidesdb_iter_key_value", log, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { handle(iter) }?;
        handle.check_valid()?;
        if key.is_null() || key_size.is_null() || value.is_null() || value_size.is_null() {
            return refuse(codes::INVALID);
        }
        // Before the outputs are written: they stay as they were when reading fails.
        let (found_key, found_value) = handle.scan.key_value()?;
        // SAFETY: the caller's places, by the interface.
        unsafe { lend(found_key, key, key_size) }?;
        // SAFETY: as above.
        unsafe { lend(found_value, value, value_size) }
    })
}

/// See `tidesdb_iter_free` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_iter_free(iter: *mut IteratorHandle) {
    if !iter.is_null() {
        // SAFETY: the caller's handle, by the interface.
        let log = unsafe { log_of(iter) };
        call_of("tidesdb_iter_free", log, || {
            // SAFETY: by the interface the handle came from `tidesdb_iter_new` and is not used
            // again.
            drop(unsafe { allocator::unbox(iter) });
            Ok(())
        });
    }
}
