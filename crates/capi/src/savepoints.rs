//! Savepoints of transactions.

use std::ffi::{c_char, c_int};

use crate::boundary::{any_text, c_string, call_of, log_of, refuse};
use crate::codes;
use crate::transactions::{TransactionHandle, active};

/// See `tidesdb_txn_savepoint` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_savepoint(
    txn: *mut TransactionHandle,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(txn) };
    call_of("tidesdb_txn_savepoint", log, || {
        // SAFETY: the caller's handle and string, by the interface.
        let (handle, name) = unsafe { (active(txn)?, any_text(c_string(name)?)) };
        Ok(handle.transaction.savepoint(&name)?)
    })
}

/// See `tidesdb_txn_rollback_to_savepoint` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_rollback_to_savepoint(
    txn: *mut TransactionHandle,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(txn) };
    call_of("tidesdb_txn_rollback_to_savepoint", log, || {
        // SAFETY: the caller's handle and string, by the interface.
        let (handle, name) = unsafe { (active(txn)?, any_text(c_string(name)?)) };
        if !handle.transaction.has_savepoints() {
            return refuse(codes::INVALID);
        }
        handle.transaction.rollback_to_savepoint(&name)?;
        handle.forget_puts();
        Ok(())
    })
}

/// See `tidesdb_txn_release_savepoint` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_release_savepoint(
    txn: *mut TransactionHandle,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(txn) };
    call_of("tidesdb_txn_release_savepoint", log, || {
        // SAFETY: the caller's handle and string, by the interface.
        let (handle, name) = unsafe { (active(txn)?, any_text(c_string(name)?)) };
        if !handle.transaction.has_savepoints() {
            return refuse(codes::INVALID);
        }
        Ok(handle.transaction.release_savepoint(&name)?)
    })
}
