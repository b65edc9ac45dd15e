//! Background work of a family: what starts it, waits for it, or asks about it. Another thread may
//! drop the family meanwhile.

use std::ffi::{c_double, c_int};
use std::ops::Bound;
use std::time::Duration;

use tidesdb::{Error, StallReason};

use crate::boundary::{Failure, Outcome, answer, bytes, call_for_of, call_of, key, log_of, refuse};
use crate::codes;
use crate::families::{FamilyHandle, held_family, present_family};

/// How long a compaction of a range waits for the compactions of the family that are under way.
const LONGEST_WAIT_FOR_MERGES: Duration = Duration::from_secs(1);

/// See `tidesdb_flush_memtable` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_flush_memtable(cf: *mut FamilyHandle) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(cf) };
    call_of("tidesdb_flush_memtable", log, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { present_family(cf) }?;
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
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(cf) };
    call_of("tidesdb_compact", log, || {
        // SAFETY: the caller's handle, by the interface.
        unless_stopped(unsafe { held_family(cf) }?.family.compact())
    })
}

/// One that was stopped counts as done: the interface does not run any then.
pub fn unless_stopped(outcome: Result<(), Error>) -> Outcome {
    match outcome {
        Err(Error::CompactionsStopped) => Ok(()),
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
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(cf) };
    call_of("tidesdb_compact_range", log, || {
        // SAFETY: the caller's handle and bytes, by the interface.
        let handle = unsafe { held_family(cf) }?;
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
            // Another compaction of the family went on for longer.
            Err(Error::Stalled { reason: StallReason::CompactionDebt, .. }) => {
                refuse(codes::LOCKED)
            }
            other => unless_stopped(other),
        }
    })
}

/// See `tidesdb_purge_cf` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_purge_cf(cf: *mut FamilyHandle) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(cf) };
    call_of("tidesdb_purge_cf", log, || {
        // SAFETY: the caller's handle, by the interface.
        unless_stopped(unsafe { held_family(cf) }?.family.compact_and_wait())
    })
}

/// See `tidesdb_is_flushing` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_is_flushing(cf: *mut FamilyHandle) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(cf) };
    call_for_of("tidesdb_is_flushing", log, 0, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { held_family(cf) };
        c_int::from(handle.is_ok_and(|handle| handle.family.is_flushing()))
    })
}

/// See `tidesdb_is_compacting` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_is_compacting(cf: *mut FamilyHandle) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(cf) };
    call_for_of("tidesdb_is_compacting", log, 0, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { held_family(cf) };
        c_int::from(handle.is_ok_and(|handle| handle.family.is_compacting()))
    })
}

/// See `tidesdb_sync_wal` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_sync_wal(cf: *mut FamilyHandle) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(cf) };
    call_of("tidesdb_sync_wal", log, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { present_family(cf) }?;
        let synced = handle.database().db.sync_log();
        synced.map_err(|error| match codes::of(&error) {
            codes::INVALID_DB => Failure::from(error),
            _ => Failure::from(error).logged_as(codes::IO, "tidesdb_sync_wal", log),
        })
    })
}

/// See `tidesdb_cf_estimate_cardinality` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_cf_estimate_cardinality(
    cf: *mut FamilyHandle,
    out_estimate: *mut u64,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(cf) };
    call_of("tidesdb_cf_estimate_cardinality", log, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { present_family(cf) }?;
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
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(cf) };
    call_of("tidesdb_range_cost", log, || {
        // SAFETY: the caller's handle and bytes, by the interface.
        let handle = unsafe { present_family(cf) }?;
        // SAFETY: as above.
        let (one, other) = unsafe { (key(key_a, key_a_size)?, bytes(key_b, key_b_size)?) };
        if other.is_empty() {
            return refuse(codes::INVALID);
        }
        // SAFETY: the caller's place, by the interface.
        unsafe { answer(cost, handle.family.range_cost(one, other)) }
    })
}
