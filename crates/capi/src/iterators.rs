//! Iterators.

use std::ffi::c_int;
use std::ptr::{self, NonNull};

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
    /// The present key and value, if the last movement found both in memory.
    row: Option<Row>,
}

/// A key and a value that lie where a scan has found them. A call for them after the movement would
/// have to go through what the scan is made of once more; the movement has them at hand.
///
/// Invariant: it is there from a movement to the next one, during which the scan leaves the bytes
/// where they are.
#[derive(Clone, Copy)]
struct Row {
    key: (NonNull<u8>, usize),
    value: (NonNull<u8>, usize),
}

/// A slice as C has it.
#[inline]
fn start_and_size(bytes: &[u8]) -> (NonNull<u8>, usize) {
    (NonNull::from(bytes).cast(), bytes.len())
}

impl Row {
    #[inline]
    fn of((key, value): (&[u8], &[u8])) -> Self {
        Self { key: start_and_size(key), value: start_and_size(value) }
    }
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
        let pointer = allocator::boxed(IteratorHandle { scan, home, log, row: None });
        if pointer.is_null() {
            return refuse(codes::MEMORY);
        }
        // SAFETY: as above.
        unsafe { answer(iter, pointer) }
    })
}

impl IteratorHandle {
    /// Moves, and returns whether there is an entry.
    #[inline]
    fn go(&mut self, movement: impl FnOnce(&mut Scan) -> tidesdb::Result<()>) -> Outcome {
        self.row = None;
        movement(&mut self.scan)?;
        if let Some((key, value)) = self.scan.key_value_at_hand() {
            self.row = Some(Row::of((key, value)));
            return Ok(());
        }
        if self.scan.valid() { Ok(()) } else { refuse(codes::NOT_FOUND) }
    }
}

/// As [`handle`], of an iterator that stands on an entry.
///
/// # Safety
/// As [`handle`].
unsafe fn standing<'a>(iter: *mut IteratorHandle) -> Outcome<&'a mut IteratorHandle> {
    // SAFETY: by contract.
    let handle = unsafe { handle(iter) }?;
    if handle.scan.valid() { Ok(handle) } else { refuse(codes::INVALID) }
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
    handle.go(|scan| seek(scan, key))
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
    handle.go(seek)
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
    let moved = unsafe { object_mut(iter) }?;
    if moved.row.is_none() {
        // SAFETY: by contract.
        unsafe { standing(iter) }?;
    }
    // With a row the scan is valid, and refuses to go in another process.
    moved.go(step)
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
#[inline]
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
        let handle = unsafe { standing(iter) }?;
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
        let handle = unsafe { standing(iter) }?;
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
    // What most calls find is handed out here, where no registers have to be saved for what could
    // fail: a full scan makes a call for each row.
    // SAFETY: the caller's handle and places, by the interface.
    let places = unsafe { (key.as_mut(), key_size.as_mut(), value.as_mut(), value_size.as_mut()) };
    // SAFETY: as above.
    let handle = unsafe { iter.as_ref() };
    if let (Some(key), Some(key_size), Some(value), Some(value_size)) = places
        && let Some(handle) = handle
        && let Some(row) = &handle.row
        && handle.home.is_here()
    {
        (*key, *key_size) = (row.key.0.as_ptr(), row.key.1);
        (*value, *value_size) = (row.value.0.as_ptr(), row.value.1);
        return codes::SUCCESS;
    }
    // SAFETY: the caller's handle and places, by the interface.
    unsafe { read_key_value(iter, key, key_size, value, value_size) }
}

/// As [`tidesdb_iter_key_value`], where the movement had not both at hand or an argument is wrong.
///
/// # Safety
/// The handle is null or in use by this thread, and the places are null or may be written to.
// As C's, so that the call of it is a jump.
#[inline(never)]
unsafe extern "C" fn read_key_value(
    iter: *mut IteratorHandle,
    key: *mut *mut u8,
    key_size: *mut usize,
    value: *mut *mut u8,
    value_size: *mut usize,
) -> c_int {
    // SAFETY: by contract.
    let log = unsafe { log_of(iter) };
    call_of("tidesdb_iter_key_value", log, || {
        // SAFETY: by contract.
        let handle = unsafe { standing(iter) }?;
        if key.is_null() || key_size.is_null() || value.is_null() || value_size.is_null() {
            return refuse(codes::INVALID);
        }
        // Before the outputs are written: they stay as they were when reading fails.
        let (found_key, found_value) = handle.scan.key_value()?;
        // SAFETY: by contract.
        unsafe { lend(found_key, key, key_size) }?;
        // SAFETY: by contract.
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
