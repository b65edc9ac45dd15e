//! Reads of keys in a transaction.

use std::ffi::c_int;

use tidesdb::{Family, Transaction};

use crate::allocator;
use crate::boundary::{Outcome, answer, call_of, key, log_of, object, object_mut, refuse};
use crate::codes;
use crate::families::{FamilyHandle, family};
use crate::transactions::{TransactionHandle, active};

/// Both handles of a read, of a transaction that is active. Whether the process has begun and
/// opened them the engine asks before it reads: that is not asked twice.
///
/// # Safety
/// As [`handle`] and [`family`].
#[inline]
unsafe fn for_read<'a>(
    txn: *mut TransactionHandle,
    cf: *const FamilyHandle,
) -> Outcome<(&'a mut TransactionHandle, &'a FamilyHandle)> {
    // SAFETY: by contract.
    let (handle, of) = unsafe { (object_mut(txn)?, object(cf)?) };
    if handle.is_active() && of.spellings.is_none() {
        return Ok((handle, of));
    }
    // Spellings are not the engine's, and a finished transaction is refused as in all calls.
    // SAFETY: by contract.
    unsafe { Ok((active(txn)?, family(cf)?)) }
}

/// See `tidesdb_txn_get` in `db.h`. The value is allocated and copied once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_get(
    txn: *mut TransactionHandle,
    cf: *mut FamilyHandle,
    key_bytes: *const u8,
    key_size: usize,
    value: *mut *mut u8,
    value_size: *mut usize,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(txn) };
    call_of("tidesdb_txn_get", log, || {
        let read = |transaction: &Transaction, family: &Family, key: &[u8]| {
            transaction.get_with(family, key, copied)
        };
        // SAFETY: the caller's handles, bytes and places, by the interface.
        unsafe { get((txn, cf), (key_bytes, key_size), (value, value_size), read) }
    })
}

/// See `tidesdb_txn_get_notrack` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_get_notrack(
    txn: *mut TransactionHandle,
    cf: *mut FamilyHandle,
    key_bytes: *const u8,
    key_size: usize,
    value: *mut *mut u8,
    value_size: *mut usize,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(txn) };
    call_of("tidesdb_txn_get_notrack", log, || {
        let read = |transaction: &Transaction, family: &Family, key: &[u8]| {
            transaction.get_untracked_with(family, key, copied)
        };
        // SAFETY: the caller's handles, bytes and places, by the interface.
        unsafe { get((txn, cf), (key_bytes, key_size), (value, value_size), read) }
    })
}

/// Checks the arguments of a get, reads, and hands out what was found.
///
/// # Safety
/// The handles are null or in use by this thread, the key's pointer is null or valid for its size,
/// and the places are null or may be written to.
#[inline]
unsafe fn get(
    (txn, cf): (*mut TransactionHandle, *mut FamilyHandle),
    (key_bytes, key_size): (*const u8, usize),
    (value, value_size): (*mut *mut u8, *mut usize),
    read: impl FnOnce(&Transaction, &Family, &[u8]) -> tidesdb::Result<Option<(*mut u8, usize)>>,
) -> Outcome {
    // SAFETY: by contract.
    let (handle, family) = unsafe { for_read(txn, cf) }?;
    // SAFETY: by contract.
    let key = unsafe { key(key_bytes, key_size) }?;
    if value.is_null() || value_size.is_null() {
        return refuse(codes::INVALID);
    }
    let key = handle.sought(family, key);
    let found = read(&handle.transaction, &family.family, &key)?;
    // SAFETY: by contract, and checked above.
    unsafe { give(found, value, value_size) }
}

/// A value in memory of the caller's allocator.
fn copied(value: &[u8]) -> (*mut u8, usize) {
    (allocator::copy(value), value.len())
}

/// Hands out a value that was found.
///
/// # Safety
/// Both places may be written to.
unsafe fn give(
    found: Option<(*mut u8, usize)>,
    value: *mut *mut u8,
    value_size: *mut usize,
) -> Outcome {
    let Some((copy, size)) = found else { return refuse(codes::NOT_FOUND) };
    if copy.is_null() {
        return refuse(codes::MEMORY);
    }
    // SAFETY: by contract.
    unsafe { answer(value, copy) }?;
    // SAFETY: by contract.
    unsafe { answer(value_size, size) }
}

/// See `tidesdb_txn_contains` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_contains(
    txn: *mut TransactionHandle,
    cf: *mut FamilyHandle,
    key_bytes: *const u8,
    key_size: usize,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(txn) };
    call_of("tidesdb_txn_contains", log, || {
        // SAFETY: the caller's handles and bytes, by the interface.
        let (handle, family) = unsafe { for_read(txn, cf) }?;
        // SAFETY: as above.
        let key = unsafe { key(key_bytes, key_size) }?;
        let key = handle.sought(family, key);
        if handle.transaction.contains_untracked(&family.family, &key)? {
            Ok(())
        } else {
            refuse(codes::NOT_FOUND)
        }
    })
}
