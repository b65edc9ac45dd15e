//! Transactions.

use std::borrow::Cow;
use std::ffi::c_int;

use tidesdb::{Error, ErrorKind, Family, IsolationLevel, Transaction, WriteOptions};
use tidesdb_sys::forks::ProcessMark;

use crate::allocator;
use crate::boundary::{Failure, OfDatabase, Outcome, answer, bytes, call_of, key, log_of};
use crate::boundary::{object_mut, refuse};
use crate::codes;
use crate::database::{Database, database};
use crate::engine_log::LogNumber;
use crate::families::{FamilyHandle, family};
use crate::held_spellings::{HeldSpellings, Use};

/// The largest key or value, and the largest sum of both, in bytes.
const MOST_BYTES: usize = u32::MAX as usize;
/// The least that a limit of memory allows one key and value to take together, in bytes.
const LEAST_ENTRY_LIMIT: u64 = 1 << 20;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    /// As `Active`, after a commit whose operations are visible and could not be made durable.
    NotDurable,
    Committed,
    RolledBack,
    /// Given up after such a commit, whose operations stay.
    GivenUp,
}

/// What a `tidesdb_txn_t` is.
pub struct TransactionHandle {
    pub transaction: Transaction,
    /// The process that began it.
    home: ProcessMark,
    /// That of its database.
    log: LogNumber,
    state: State,
    /// Bytes that one key and value may take together.
    most_entry_bytes: u64,
    /// How durable its commits are.
    durability: WriteOptions,
    /// Of families whose order the program has registered: spellings that it may have written.
    held: HeldSpellings,
}

impl TransactionHandle {
    pub fn is_active(&self) -> bool {
        matches!(self.state, State::Active | State::NotDurable)
    }

    /// Whether a key and a value, or a key that is deleted, of so many bytes may be written.
    #[inline]
    fn check_size(&self, bytes: usize) -> Outcome {
        if bytes > MOST_BYTES {
            return refuse(codes::INVALID);
        }
        if bytes as u64 > self.most_entry_bytes {
            return refuse(codes::MEMORY_LIMIT);
        }
        Ok(())
    }

    /// Neither reads nor writes any more.
    #[inline]
    fn end(&mut self, state: State) {
        self.state = state;
        self.held.give_back(state == State::Committed);
    }

    /// Of what it has written, some is taken back.
    pub fn forget_puts(&mut self) {
        self.held.forget_puts();
    }

    /// The bytes under which a key is stored that is written, or whose absence is remembered.
    #[inline]
    fn settled<'k>(&mut self, family: &FamilyHandle, key: &'k [u8], used: Use) -> Cow<'k, [u8]> {
        match &family.spellings {
            None => Cow::Borrowed(key),
            Some(spellings) => self.held.settle(spellings, key, used),
        }
    }

    /// The bytes under which a key is stored that is read.
    #[inline]
    pub fn sought<'k>(&mut self, family: &FamilyHandle, key: &'k [u8]) -> Cow<'k, [u8]> {
        match &family.spellings {
            None => Cow::Borrowed(key),
            // Two that both find nothing must not both put it.
            Some(_) if self.transaction.isolation_level() >= IsolationLevel::Snapshot => {
                self.settled(family, key, Use::Read)
            }
            Some(spellings) => spellings.present(key),
        }
    }
}

impl OfDatabase for TransactionHandle {
    fn log_number(&self) -> LogNumber {
        self.log
    }
}

impl Drop for TransactionHandle {
    fn drop(&mut self) {
        self.end(State::RolledBack);
    }
}

fn level(number: c_int) -> Outcome<IsolationLevel> {
    match number {
        0 => Ok(IsolationLevel::ReadUncommitted),
        1 => Ok(IsolationLevel::ReadCommitted),
        2 => Ok(IsolationLevel::RepeatableRead),
        3 => Ok(IsolationLevel::Snapshot),
        4 => Ok(IsolationLevel::Serializable),
        _ => refuse(codes::INVALID),
    }
}

/// A transaction that this process has begun, and that only this thread uses.
///
/// # Safety
/// The handle is null or not freed, and no other thread uses it.
unsafe fn handle<'a>(txn: *mut TransactionHandle) -> Outcome<&'a mut TransactionHandle> {
    // SAFETY: by contract.
    let handle = unsafe { object_mut(txn) }?;
    if handle.home.is_here() { Ok(handle) } else { refuse(codes::INVALID_DB) }
}

/// As [`handle`], and the transaction is neither committed nor rolled back.
///
/// # Safety
/// As [`handle`].
pub unsafe fn active<'a>(txn: *mut TransactionHandle) -> Outcome<&'a mut TransactionHandle> {
    // SAFETY: by contract.
    let handle = unsafe { handle(txn) }?;
    if handle.is_active() { Ok(handle) } else { refuse(codes::INVALID) }
}

/// See `tidesdb_txn_begin` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_begin(
    db: *mut Database,
    txn: *mut *mut TransactionHandle,
) -> c_int {
    // SAFETY: as for the function that is called.
    unsafe { tidesdb_txn_begin_with_isolation(db, IsolationLevel::ReadCommitted as c_int, txn) }
}

/// See `tidesdb_txn_begin_with_isolation` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_begin_with_isolation(
    db: *mut Database,
    isolation: c_int,
    txn: *mut *mut TransactionHandle,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_txn_begin", log, || {
        // SAFETY: the caller's handle, by the interface.
        let database = unsafe { database(db) }?;
        if txn.is_null() {
            return refuse(codes::INVALID);
        }
        let level = level(isolation)?;
        let mut transaction = database.db.begin(level)?;
        // The interface has SERIALIZABLE check what REPEATABLE_READ does, and more.
        transaction.refuse_overwritten_reads(true);
        let pointer = allocator::boxed(TransactionHandle {
            transaction,
            home: database.home,
            log: database.log_number(),
            state: State::Active,
            most_entry_bytes: (database.memory_limit / 4 * 3).max(LEAST_ENTRY_LIMIT),
            durability: database.durability,
            held: HeldSpellings::default(),
        });
        if pointer.is_null() {
            return refuse(codes::MEMORY);
        }
        // SAFETY: the caller's place, checked above.
        unsafe { answer(txn, pointer) }
    })
}

/// See `tidesdb_txn_put` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_put(
    txn: *mut TransactionHandle,
    cf: *mut FamilyHandle,
    key_bytes: *const u8,
    key_size: usize,
    value: *const u8,
    value_size: usize,
    ttl: libc::time_t,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(txn) };
    call_of("tidesdb_txn_put", log, || {
        // SAFETY: the caller's handles and bytes, by the interface.
        let (handle, family) = unsafe { (active(txn)?, family(cf)?) };
        // SAFETY: as above.
        let (key, value) = unsafe { (key(key_bytes, key_size)?, bytes(value, value_size)?) };
        handle.check_size(key.len().saturating_add(value.len()))?;
        let expires_at = u64::try_from(ttl).unwrap_or(0);
        let key = &*handle.settled(family, key, Use::Put);
        let put = handle.transaction.put_expiring_at(&family.family, key, value, expires_at);
        // A commit does not store it.
        Ok(put.inspect_err(|_| handle.held.forget_puts())?)
    })
}

/// See `tidesdb_txn_delete` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_delete(
    txn: *mut TransactionHandle,
    cf: *mut FamilyHandle,
    key_bytes: *const u8,
    key_size: usize,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(txn) };
    // SAFETY: the caller's handles and bytes, by the interface.
    call_of("tidesdb_txn_delete", log, || unsafe {
        delete((txn, cf), key_bytes, key_size, |transaction, family, key| {
            transaction.delete(family, key)
        })
    })
}

/// See `tidesdb_txn_single_delete` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_single_delete(
    txn: *mut TransactionHandle,
    cf: *mut FamilyHandle,
    key_bytes: *const u8,
    key_size: usize,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(txn) };
    // SAFETY: the caller's handles and bytes, by the interface.
    call_of("tidesdb_txn_single_delete", log, || unsafe {
        delete((txn, cf), key_bytes, key_size, |transaction, family, key| {
            transaction.single_delete(family, key)
        })
    })
}

/// Checks the arguments of a deletion, and buffers it.
///
/// # Safety
/// The handles are null or in use by this thread, and the key's pointer is null or valid for its
/// size.
#[inline]
unsafe fn delete(
    (txn, cf): (*mut TransactionHandle, *mut FamilyHandle),
    key_bytes: *const u8,
    key_size: usize,
    delete: impl FnOnce(&mut Transaction, &Family, &[u8]) -> tidesdb::Result<()>,
) -> Outcome {
    // SAFETY: by contract.
    let (handle, family) = unsafe { (active(txn)?, family(cf)?) };
    // SAFETY: by contract.
    let key = unsafe { key(key_bytes, key_size) }?;
    handle.check_size(key.len())?;
    let key = handle.settled(family, key, Use::Deletion);
    Ok(delete(&mut handle.transaction, &family.family, &key)?)
}

impl TransactionHandle {
    #[cold]
    fn commit_failed(&mut self, error: Error) -> Failure {
        if matches!(error, Error::NotDurable(_)) {
            self.state = State::NotDurable;
        }
        let is_full = error.kind() == ErrorKind::Full && !matches!(error, Error::OutOfMemory(_));
        let failure = Failure::from(error);
        match is_full {
            // It had no effect, and succeeds once there is room again, as with other back-pressure.
            true => failure.logged_as(codes::BUSY, "tidesdb_txn_commit", Some(self.log)),
            false => failure,
        }
    }
}

/// See `tidesdb_txn_commit` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_commit(txn: *mut TransactionHandle) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(txn) };
    call_of("tidesdb_txn_commit", log, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { active(txn) }?;
        match handle.transaction.commit_with(handle.durability) {
            Ok(_) => {
                handle.end(State::Committed);
                Ok(())
            }
            Err(error) => Err(handle.commit_failed(error)),
        }
    })
}

/// See `tidesdb_txn_rollback` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_rollback(txn: *mut TransactionHandle) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(txn) };
    call_of("tidesdb_txn_rollback", log, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { handle(txn) }?;
        match handle.state {
            State::Active => {
                handle.transaction.rollback()?;
                handle.end(State::RolledBack);
                Ok(())
            }
            // What is visible can't be taken back: success would say that it was.
            State::NotDurable => {
                handle.transaction.rollback()?;
                handle.end(State::GivenUp);
                refuse(codes::IO)
            }
            State::Committed => refuse(codes::INVALID),
            State::RolledBack => Ok(()),
            State::GivenUp => refuse(codes::IO),
        }
    })
}

/// See `tidesdb_txn_reset` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_reset(txn: *mut TransactionHandle, isolation: c_int) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(txn) };
    call_of("tidesdb_txn_reset", log, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { handle(txn) }?;
        if handle.is_active() {
            return refuse(codes::INVALID);
        }
        handle.transaction.reset(level(isolation)?)?;
        handle.state = State::Active;
        Ok(())
    })
}

/// See `tidesdb_txn_free` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_txn_free(txn: *mut TransactionHandle) {
    if !txn.is_null() {
        // SAFETY: the caller's handle, by the interface.
        let log = unsafe { log_of(txn) };
        call_of("tidesdb_txn_free", log, || {
            // SAFETY: by the interface the handle came from a begin and is not used again.
            drop(unsafe { allocator::unbox(txn) });
            Ok(())
        });
    }
}
