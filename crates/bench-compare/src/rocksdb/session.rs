//! One thread's RocksDB handles: write options, read options, a reused batch and iterator.
//!
//! Created inside the worker thread by [`super::RocksDb`]. A read-only session creates its
//! iterator once and re-seeks it; otherwise the iterator is refreshed before each scan, so that it
//! sees the latest commit. All handles are destroyed before the database is closed because the
//! session borrows the function table of the database.

use super::api::{Api, Handle};
use super::{Owned, RocksDb, checked};
use crate::engine::{
    Commit, Direction, EngineError, Isolation, MultiVisitor, Op, Result, RowVisitor, ScanRequest,
    Session, SessionMode, ValueVisitor,
};
use libc::c_int;
use std::ptr;
use std::slice;

/// `rocksdb_disable` of the header: a thread counts nothing. `db_bench` measures like this; the
/// library's own default counts block reads, comparisons and the like in every call, and no caller
/// here asks for them.
const NO_COUNTERS: c_int = 1;

/// A transaction handle, which RocksDB lets us use again, and how it reads.
struct Transaction<'a> {
    handle: Handle,
    options: Owned<'a>,
    read_options: Owned<'a>,
    snapshot: Handle,
    tracks_reads: bool,
    conflict: bool,
}

pub(super) struct RocksSession<'a> {
    engine: &'a RocksDb,
    api: &'a Api,
    database: Handle,
    write_options: Owned<'a>,
    read_options: Owned<'a>,
    batch: Owned<'a>,
    /// Handles by number, as far as they were there when the session began or was asked.
    families: Vec<Handle>,
    family: Handle,
    number: usize,
    /// One per family that was scanned; null where none was.
    iterators: Vec<Handle>,
    transaction: Option<Transaction<'a>>,
    mode: SessionMode,
}

impl<'a> RocksSession<'a> {
    pub(super) fn new(engine: &'a RocksDb, mode: SessionMode) -> Result<Self> {
        let api = &engine.api;
        // SAFETY: the level is a variable of this thread, which the session belongs to.
        unsafe { (api.set_perf_level)(NO_COUNTERS) };
        let write_options = Owned::new(api, api.writeoptions_create, api.writeoptions_destroy);
        let sync = u8::from(engine.synced);
        // SAFETY: the options object is live; the setter stores a flag.
        unsafe { (api.writeoptions_set_sync)(write_options.handle, sync) };
        let family = engine.families.get(0)?;
        Ok(Self {
            engine,
            api,
            database: engine.database,
            write_options,
            read_options: Owned::new(api, api.readoptions_create, api.readoptions_destroy),
            batch: Owned::new(api, api.writebatch_create, api.writebatch_destroy),
            families: vec![family],
            family,
            number: 0,
            iterators: vec![ptr::null_mut()],
            transaction: None,
            mode,
        })
    }

    /// The iterator, showing the latest state unless the session is read-only.
    fn iterator(&mut self) -> Result<Handle> {
        let iterator = self.iterators[self.number];
        if self.mode == SessionMode::ReadWrite && !iterator.is_null() {
            match self.api.iter_refresh {
                Some(refresh) => checked(self.api, "rocksdb_iter_refresh", |error| {
                    // SAFETY: the iterator is live.
                    unsafe { refresh(iterator, error) };
                })?,
                None => {
                    self.iterators[self.number] = ptr::null_mut();
                    // SAFETY: the iterator is live and not used afterwards.
                    unsafe { (self.api.iter_destroy)(iterator) };
                }
            }
        }
        if self.iterators[self.number].is_null() {
            let options = self.read_options.handle;
            // SAFETY: database and family are open and the read options outlive the iterator.
            self.iterators[self.number] =
                unsafe { (self.api.create_iterator)(self.database, options, self.family) };
        }
        Ok(self.iterators[self.number])
    }

    /// Hands a pinned value on and releases it; a null pointer is an absent key.
    fn lend(&self, pinned: Handle, found: &mut dyn FnMut(&[u8])) -> bool {
        if pinned.is_null() {
            return false;
        }
        let mut length = 0;
        // SAFETY: `pinned` is a live slice and `length` can be written.
        let data = unsafe { (self.api.pinnableslice_value)(pinned, &mut length) };
        found(borrowed(data, length));
        // SAFETY: the slice is not used afterwards.
        unsafe { (self.api.pinnableslice_destroy)(pinned) };
        true
    }

    fn position(&self, iterator: Handle, request: ScanRequest<'_>) {
        let api = self.api;
        match (request.start, request.direction) {
            // SAFETY: the iterator is live and the key is valid for the call.
            (Some(key), Direction::Forward) => unsafe {
                (api.iter_seek)(iterator, key.as_ptr(), key.len());
            },
            // SAFETY: see above.
            (Some(key), Direction::Reverse) => unsafe {
                (api.iter_seek_for_prev)(iterator, key.as_ptr(), key.len());
            },
            // SAFETY: the iterator is live.
            (None, Direction::Forward) => unsafe { (api.iter_seek_to_first)(iterator) },
            // SAFETY: the iterator is live.
            (None, Direction::Reverse) => unsafe { (api.iter_seek_to_last)(iterator) },
        }
    }
}

/// Whether an error text means that another transaction was first, or that this cannot be known.
fn is_conflict(error: &EngineError) -> bool {
    let text = error.to_string();
    text.contains("Resource busy") || text.contains("Try again")
}

impl Drop for RocksSession<'_> {
    fn drop(&mut self) {
        for iterator in self.iterators.iter().filter(|iterator| !iterator.is_null()) {
            // SAFETY: the iterator is live and not used afterwards.
            unsafe { (self.api.iter_destroy)(*iterator) };
        }
        self.release_snapshot();
        if let Some(transaction) = &self.transaction {
            // SAFETY: the transaction is live and not used afterwards.
            unsafe { (self.api.transaction_destroy)(transaction.handle) };
        }
    }
}

impl<'a> RocksSession<'a> {
    fn release_snapshot(&mut self) {
        let Some(transaction) = &mut self.transaction else { return };
        if !transaction.snapshot.is_null() {
            let options = transaction.read_options.handle;
            // SAFETY: the read options are live; they forget the snapshot.
            unsafe { (self.api.readoptions_set_snapshot)(options, ptr::null_mut()) };
            // SAFETY: only the wrapper is ours; the snapshot itself belongs to the transaction.
            unsafe { (self.api.free)(transaction.snapshot) };
            transaction.snapshot = ptr::null_mut();
        }
    }

    fn current(&mut self) -> Result<&mut Transaction<'a>> {
        self.transaction.as_mut().ok_or_else(|| EngineError::new("no transaction was begun"))
    }
}

impl Session for RocksSession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        let api = self.api;
        let (batch, family) = (self.batch.handle, self.family);
        // SAFETY: the batch is live.
        unsafe { (api.writebatch_clear)(batch) };
        for op in ops {
            match *op {
                // SAFETY: the batch is live and copies the slices.
                Op::Put { key, value } => unsafe {
                    (api.writebatch_put)(
                        batch,
                        family,
                        key.as_ptr(),
                        key.len(),
                        value.as_ptr(),
                        value.len(),
                    );
                },
                // SAFETY: the batch is live and copies the slice.
                Op::Delete { key } => unsafe {
                    (api.writebatch_delete)(batch, family, key.as_ptr(), key.len());
                },
                // SAFETY: the batch is live and copies the slices.
                Op::DeleteRange { start, end } => unsafe {
                    (api.writebatch_delete_range)(
                        batch,
                        family,
                        start.as_ptr(),
                        start.len(),
                        end.as_ptr(),
                        end.len(),
                    );
                },
                Op::PutExpiring { .. } => return Err(EngineError::unsupported("expiry")),
            }
        }
        checked(api, "rocksdb_write", |error| {
            // SAFETY: database, options and batch are live.
            unsafe { (api.write)(self.database, self.write_options.handle, batch, error) };
        })
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let api = self.api;
        let (options, family) = (self.read_options.handle, self.family);
        let pinned = checked(api, "rocksdb_get_pinned", |error| {
            let (start, length) = (key.as_ptr(), key.len());
            // SAFETY: database, family and options are live, the key is valid for the call.
            unsafe { (api.get_pinned)(self.database, options, family, start, length, error) }
        })?;
        Ok(self.lend(pinned, found))
    }

    fn multi_get(&mut self, keys: &[&[u8]], found: MultiVisitor<'_>) -> Result<()> {
        let api = self.api;
        let starts: Vec<*const u8> = keys.iter().map(|key| key.as_ptr()).collect();
        let lengths: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let mut values = vec![ptr::null_mut(); keys.len()];
        let mut errors = vec![ptr::null_mut(); keys.len()];
        // SAFETY: database, family and options are live; all four arrays have one entry per key.
        unsafe {
            (api.batched_multi_get)(
                self.database,
                self.read_options.handle,
                self.family,
                keys.len(),
                starts.as_ptr(),
                lengths.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                false,
            );
        };
        let mut outcome = Ok(());
        for (position, (value, error)) in values.into_iter().zip(errors).enumerate() {
            self.lend(value, &mut |bytes| found(position, bytes));
            if !error.is_null() {
                // SAFETY: the text came from the library's malloc and is not used again.
                unsafe { (api.free)(error.cast()) };
                outcome = Err(EngineError::new("rocksdb_batched_multi_get_cf failed"));
            }
        }
        outcome
    }

    fn use_family(&mut self, number: u32) -> Result<()> {
        let index = number as usize;
        if index >= self.families.len() {
            self.families.resize(index + 1, ptr::null_mut());
            self.iterators.resize(index + 1, ptr::null_mut());
        }
        if self.families[index].is_null() {
            self.families[index] = self.engine.families.get(number)?;
        }
        self.family = self.families[index];
        self.number = index;
        Ok(())
    }

    fn begin(&mut self, isolation: Isolation) -> Result<()> {
        let api = self.api;
        let Some(database) = self.engine.optimistic else {
            return Err(EngineError::new("the database was opened without transactions"));
        };
        self.release_snapshot();
        let weak = matches!(isolation, Isolation::ReadUncommitted | Isolation::ReadCommitted);
        let mut transaction = self.transaction.take().unwrap_or_else(|| Transaction {
            handle: ptr::null_mut(),
            options: Owned::new(api, api.optimistic_options_create, api.optimistic_options_destroy),
            read_options: Owned::new(api, api.readoptions_create, api.readoptions_destroy),
            snapshot: ptr::null_mut(),
            tracks_reads: false,
            conflict: false,
        });
        let (options, write_options) = (transaction.options.handle, self.write_options.handle);
        // SAFETY: the options object is live.
        unsafe { (api.optimistic_options_set_set_snapshot)(options, u8::from(!weak)) };
        // SAFETY: all objects are live; an old transaction that has ended is used again.
        transaction.handle =
            unsafe { (api.optimistic_begin)(database, write_options, options, transaction.handle) };
        transaction.tracks_reads =
            matches!(isolation, Isolation::RepeatableRead | Isolation::Serializable);
        transaction.conflict = false;
        if !weak {
            // SAFETY: the transaction is live.
            transaction.snapshot = unsafe { (api.transaction_get_snapshot)(transaction.handle) };
            let options = transaction.read_options.handle;
            // SAFETY: both are live until `release_snapshot`.
            unsafe { (api.readoptions_set_snapshot)(options, transaction.snapshot) };
        }
        self.transaction = Some(transaction);
        Ok(())
    }

    fn get_in_transaction(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let (api, family) = (self.api, self.family);
        let transaction = self.current()?;
        let (handle, options) = (transaction.handle, transaction.read_options.handle);
        let (start, length) = (key.as_ptr(), key.len());
        let tracks = transaction.tracks_reads;
        let pinned = checked(api, "rocksdb_transaction_get", |error| {
            if tracks {
                // SAFETY: all objects are live, the key is valid for the call.
                unsafe {
                    (api.transaction_get_for_update)(
                        handle, options, family, start, length, 0, error,
                    )
                }
            } else {
                // SAFETY: see above.
                unsafe { (api.transaction_get)(handle, options, family, start, length, error) }
            }
        })?;
        Ok(self.lend(pinned, found))
    }

    fn put_in_transaction(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (api, family) = (self.api, self.family);
        let transaction = self.current()?;
        let (start, length) = (key.as_ptr(), key.len());
        let (bytes, size) = (value.as_ptr(), value.len());
        let put = checked(api, "rocksdb_transaction_put", |error| {
            // SAFETY: all objects are live, the slices are valid for the call, which copies.
            unsafe {
                (api.transaction_put)(
                    transaction.handle,
                    family,
                    start,
                    length,
                    bytes,
                    size,
                    error,
                );
            };
        });
        match put {
            Err(error) if is_conflict(&error) => {
                transaction.conflict = true;
                Ok(())
            }
            other => other,
        }
    }

    fn commit(&mut self) -> Result<Commit> {
        let api = self.api;
        let transaction = self.current()?;
        let handle = transaction.handle;
        let conflict = transaction.conflict;
        let outcome = if conflict {
            Ok(Commit::Conflict)
        } else {
            let committed = checked(api, "rocksdb_transaction_commit", |error| {
                // SAFETY: the transaction is live.
                unsafe { (api.transaction_commit)(handle, error) };
            });
            match committed {
                Ok(()) => return Ok(Commit::Done),
                Err(error) if is_conflict(&error) => Ok(Commit::Conflict),
                Err(error) => Err(error),
            }
        };
        self.rollback()?;
        outcome
    }

    fn rollback(&mut self) -> Result<()> {
        let api = self.api;
        let handle = self.current()?.handle;
        checked(api, "rocksdb_transaction_rollback", |error| {
            // SAFETY: the transaction is live.
            unsafe { (api.transaction_rollback)(handle, error) };
        })
    }

    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()> {
        let api = self.api;
        let iterator = self.iterator()?;
        self.position(iterator, request);
        let advance = match request.direction {
            Direction::Forward => api.iter_next,
            Direction::Reverse => api.iter_prev,
        };
        loop {
            // SAFETY: the iterator is live.
            if unsafe { (api.iter_valid)(iterator) } == 0 {
                break;
            }
            let mut key_length = 0;
            let mut value_length = 0;
            // SAFETY: the iterator is valid, so it has a key until it is moved.
            let key = unsafe { (api.iter_key)(iterator, &mut key_length) };
            // SAFETY: the iterator is valid, so it has a value until it is moved.
            let value = unsafe { (api.iter_value)(iterator, &mut value_length) };
            if !visit(borrowed(key, key_length), borrowed(value, value_length)) {
                break;
            }
            // SAFETY: the iterator is valid.
            unsafe { advance(iterator) };
        }
        checked(api, "rocksdb_iter_get_error", |error| {
            // SAFETY: the iterator is live.
            unsafe { (api.iter_get_error)(iterator, error) };
        })
    }
}

/// A slice lent by the library; the caller drops it before the owner of the bytes moves.
fn borrowed<'b>(data: *const u8, length: usize) -> &'b [u8] {
    if data.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: the library returned `length` readable bytes at `data`, which stay until the pinned
    // slice is destroyed or the iterator moves; callers here pass the slice on before that.
    unsafe { slice::from_raw_parts(data, length) }
}
