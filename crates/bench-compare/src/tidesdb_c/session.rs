//! One thread's use of a library with TidesDB's C interface.
//!
//! All writes and gets go through transactions at READ COMMITTED, which is the only way that the
//! interface has. The writing transaction is reset and used again after each commit. The reading
//! one is kept, as that level reads the newest state in each get. A read-only session keeps its
//! iterator; otherwise a new one is made for each scan, since an iterator keeps the view of its
//! creation. A family is asked for by its name when it is first used, and its handle is kept, as
//! the interface means it and as the other adapters do.
#![expect(unsafe_code, reason = "calls into a C library that is loaded at run time")]

use super::api::Handle;
use super::{CONFLICT, NOT_FOUND, SUCCESS, TidesDbC, UNKNOWN, checked, retried};
use crate::engine::{
    Commit, Direction, EngineError, Isolation, Op, Result, RowVisitor, ScanRequest, Session,
    SessionMode, ValueVisitor,
};
use libc::{c_int, time_t};
use std::ptr;
use std::slice;

const READ_COMMITTED: c_int = 1;

pub(super) struct TidesSession<'a> {
    engine: &'a TidesDbC,
    family: Handle,
    /// Families that were used before, by number; null for the others.
    families: Vec<Handle>,
    writer: Handle,
    reader: Handle,
    /// The transaction of the user, and whether it has been finished.
    transaction: Handle,
    iterator: Handle,
    mode: SessionMode,
}

impl<'a> TidesSession<'a> {
    pub(super) fn new(engine: &'a TidesDbC, mode: SessionMode) -> Result<Self> {
        Ok(Self {
            engine,
            family: engine.family(0)?,
            families: Vec::new(),
            writer: ptr::null_mut(),
            reader: ptr::null_mut(),
            transaction: ptr::null_mut(),
            iterator: ptr::null_mut(),
            mode,
        })
    }

    fn begin_at(&self, level: c_int) -> Result<Handle> {
        let mut transaction = ptr::null_mut();
        // SAFETY: the database is open and the slot can be written.
        let code =
            unsafe { (self.engine.api.begin)(self.engine.database, level, &mut transaction) };
        checked("tidesdb_txn_begin_with_isolation", code)?;
        Ok(transaction)
    }

    /// A transaction used before, empty again; or a new one.
    fn again(&self, used: Handle, level: c_int) -> Result<Handle> {
        if used.is_null() {
            return self.begin_at(level);
        }
        // SAFETY: the transaction is live and finished.
        let code = unsafe { (self.engine.api.reset)(used, level) };
        if code == SUCCESS {
            return Ok(used);
        }
        // SAFETY: the transaction is not used afterwards.
        unsafe { (self.engine.api.txn_free)(used) };
        self.begin_at(level)
    }

    fn add(&self, transaction: Handle, op: &Op<'_>) -> Result<()> {
        let (api, family) = (&self.engine.api, self.family);
        let put = |key: &[u8], value: &[u8], at: time_t| {
            retried("tidesdb_txn_put", || {
                let (bytes, size) = (value.as_ptr(), value.len());
                // SAFETY: transaction and family are live; the library copies both slices.
                unsafe { (api.put)(transaction, family, key.as_ptr(), key.len(), bytes, size, at) }
            })
        };
        match *op {
            Op::Put { key, value } => put(key, value, 0),
            Op::PutExpiring { key, value, at } => {
                put(key, value, time_t::try_from(at).unwrap_or(time_t::MAX))
            }
            Op::Delete { key } => retried("tidesdb_txn_delete", || {
                // SAFETY: see above.
                unsafe { (api.delete)(transaction, family, key.as_ptr(), key.len()) }
            }),
            Op::DeleteRange { .. } => Err(EngineError::unsupported("deleting a range")),
        }
    }

    fn lookup(&self, transaction: Handle, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let api = &self.engine.api;
        let (mut value, mut size) = (ptr::null_mut(), 0);
        let mut get = || {
            // SAFETY: transaction and family are live; both outputs can be written.
            unsafe {
                (api.get)(transaction, self.family, key.as_ptr(), key.len(), &mut value, &mut size)
            }
        };
        let mut code = get();
        if !matches!(code, SUCCESS | NOT_FOUND) {
            retried("tidesdb_txn_get", || {
                code = get();
                if code == NOT_FOUND { SUCCESS } else { code }
            })?;
        }
        if code == NOT_FOUND {
            return Ok(false);
        }
        found(borrowed(value, size));
        // SAFETY: the buffer belongs to the caller and is not used afterwards.
        unsafe { (api.free)(value.cast()) };
        Ok(true)
    }

    fn reading(&mut self) -> Result<Handle> {
        if self.reader.is_null() {
            self.reader = self.begin_at(READ_COMMITTED)?;
        }
        Ok(self.reader)
    }

    fn drop_iterator(&mut self) {
        if !self.iterator.is_null() {
            // SAFETY: the iterator is not used afterwards; its transaction is still live.
            unsafe { (self.engine.api.iter_free)(self.iterator) };
            self.iterator = ptr::null_mut();
        }
    }

    /// Places the iterator; false if there is no row in that direction.
    fn position(&mut self, request: ScanRequest<'_>) -> Result<bool> {
        let transaction = self.reading()?;
        if self.mode == SessionMode::ReadWrite {
            self.drop_iterator();
        }
        let api = &self.engine.api;
        if self.iterator.is_null() {
            let (family, mut made) = (self.family, ptr::null_mut());
            retried("tidesdb_iter_new", || {
                // SAFETY: transaction and family are live, the slot can be written.
                unsafe { (api.iter_new)(transaction, family, &mut made) }
            })?;
            self.iterator = made;
        }
        let iterator = self.iterator;
        let code = match (request.start, request.direction) {
            // SAFETY: for all four: the iterator is live and the key valid for the call.
            (Some(key), Direction::Forward) => unsafe {
                (api.iter_seek)(iterator, key.as_ptr(), key.len())
            },
            // SAFETY: see above.
            (Some(key), Direction::Reverse) => unsafe {
                (api.iter_seek_for_prev)(iterator, key.as_ptr(), key.len())
            },
            // SAFETY: see above.
            (None, Direction::Forward) => unsafe { (api.iter_seek_to_first)(iterator) },
            // SAFETY: see above.
            (None, Direction::Reverse) => unsafe { (api.iter_seek_to_last)(iterator) },
        };
        if code == NOT_FOUND {
            return Ok(false);
        }
        checked("tidesdb_iter_seek", code)?;
        Ok(true)
    }

    fn current(&self) -> Result<Handle> {
        if self.transaction.is_null() {
            Err(EngineError::new("no transaction was begun"))
        } else {
            Ok(self.transaction)
        }
    }
}

impl Drop for TidesSession<'_> {
    fn drop(&mut self) {
        self.drop_iterator();
        for transaction in [self.writer, self.reader, self.transaction] {
            if !transaction.is_null() {
                // SAFETY: the transaction is live and not used afterwards.
                unsafe { (self.engine.api.txn_free)(transaction) };
            }
        }
    }
}

impl Session for TidesSession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        let used = std::mem::replace(&mut self.writer, ptr::null_mut());
        self.writer = self.again(used, READ_COMMITTED)?;
        for op in ops {
            self.add(self.writer, op)?;
        }
        let api = &self.engine.api;
        retried("tidesdb_txn_commit", || {
            // SAFETY: the transaction is live; after an error it may be committed again.
            unsafe { (api.commit)(self.writer) }
        })
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let reader = self.reading()?;
        self.lookup(reader, key, found)
    }

    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()> {
        if !self.position(request)? {
            return Ok(());
        }
        let api = &self.engine.api;
        let advance = match request.direction {
            Direction::Forward => api.iter_next,
            Direction::Reverse => api.iter_prev,
        };
        // SAFETY: the iterator is live.
        if unsafe { (api.iter_valid)(self.iterator) } == 0 {
            return Ok(());
        }
        // From here on a step says whether there is a row.
        loop {
            let (mut key, mut key_size) = (ptr::null_mut(), 0);
            let (mut value, mut value_size) = (ptr::null_mut(), 0);
            // SAFETY: the iterator is valid and the four outputs can be written.
            let code = unsafe {
                (api.iter_key_value)(
                    self.iterator,
                    &mut key,
                    &mut key_size,
                    &mut value,
                    &mut value_size,
                )
            };
            checked("tidesdb_iter_key_value", code)?;
            if !visit(borrowed(key, key_size), borrowed(value, value_size)) {
                return Ok(());
            }
            // SAFETY: the iterator is valid.
            let code = unsafe { advance(self.iterator) };
            if code == NOT_FOUND {
                return Ok(());
            }
            checked("tidesdb_iter_next", code)?;
        }
    }

    fn use_family(&mut self, number: u32) -> Result<()> {
        let index = number as usize;
        if index >= self.families.len() {
            self.families.resize(index + 1, ptr::null_mut());
        }
        if self.families[index].is_null() {
            self.families[index] = self.engine.family(number)?;
        }
        let family = self.families[index];
        if family != self.family {
            self.drop_iterator();
            self.family = family;
        }
        Ok(())
    }

    fn begin(&mut self, isolation: Isolation) -> Result<()> {
        let level = match isolation {
            Isolation::ReadUncommitted => 0,
            Isolation::ReadCommitted => READ_COMMITTED,
            Isolation::RepeatableRead => 2,
            Isolation::Snapshot => 3,
            Isolation::Serializable => 4,
        };
        let used = std::mem::replace(&mut self.transaction, ptr::null_mut());
        self.transaction = self.again(used, level)?;
        Ok(())
    }

    fn get_in_transaction(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        self.lookup(self.current()?, key, found)
    }

    fn put_in_transaction(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(self.current()?, &Op::Put { key, value })
    }

    fn commit(&mut self) -> Result<Commit> {
        let transaction = self.current()?;
        let api = &self.engine.api;
        let mut conflict = false;
        retried("tidesdb_txn_commit", || {
            // SAFETY: the transaction is live.
            let code = unsafe { (api.commit)(transaction) };
            conflict = code == CONFLICT || code == UNKNOWN;
            if conflict { SUCCESS } else { code }
        })?;
        if !conflict {
            return Ok(Commit::Done);
        }
        self.rollback()?;
        Ok(Commit::Conflict)
    }

    fn rollback(&mut self) -> Result<()> {
        // SAFETY: the transaction is live.
        let code = unsafe { (self.engine.api.rollback)(self.current()?) };
        checked("tidesdb_txn_rollback", code)
    }
}

/// A slice lent by the library; the caller drops it before the owner of the bytes moves.
fn borrowed<'b>(data: *const u8, length: usize) -> &'b [u8] {
    if data.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: the library returned `length` readable bytes at `data`, which stay until the buffer
    // is freed or the iterator moves; callers here pass the slice on before that.
    unsafe { slice::from_raw_parts(data, length) }
}
