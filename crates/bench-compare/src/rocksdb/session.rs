//! One thread's RocksDB handles: write options, read options, a reused batch and iterator.
//!
//! Created inside the worker thread by [`super::RocksDb`]. A read-only session creates its
//! iterator once and re-seeks it; otherwise the iterator is refreshed before each scan, so that it
//! sees the latest commit. All handles are destroyed before the database is closed because the
//! session borrows the function table of the database.

use super::api::{Api, Handle};
use super::{Owned, checked};
use crate::engine::{
    Direction, Op, Result, RowVisitor, ScanRequest, Session, SessionMode, ValueVisitor,
};
use std::ptr;
use std::slice;

pub(super) struct RocksSession<'a> {
    api: &'a Api,
    database: Handle,
    write_options: Owned<'a>,
    read_options: Owned<'a>,
    batch: Owned<'a>,
    iterator: Handle,
    mode: SessionMode,
}

impl<'a> RocksSession<'a> {
    pub(super) fn new(api: &'a Api, database: Handle, sync: bool, mode: SessionMode) -> Self {
        let write_options = Owned::new(api, api.writeoptions_create, api.writeoptions_destroy);
        // SAFETY: the options object is live; the setter stores a flag.
        unsafe { (api.writeoptions_set_sync)(write_options.handle, u8::from(sync)) };
        Self {
            api,
            database,
            write_options,
            read_options: Owned::new(api, api.readoptions_create, api.readoptions_destroy),
            batch: Owned::new(api, api.writebatch_create, api.writebatch_destroy),
            iterator: ptr::null_mut(),
            mode,
        }
    }

    fn write_one(&mut self, op: &Op<'_>) -> Result<()> {
        let api = self.api;
        let options = self.write_options.handle;
        match *op {
            Op::Put { key, value } => checked(api, "rocksdb_put", |error| {
                // SAFETY: the database is open; the slices are valid for the call, which copies.
                unsafe {
                    (api.put)(
                        self.database,
                        options,
                        key.as_ptr(),
                        key.len(),
                        value.as_ptr(),
                        value.len(),
                        error,
                    );
                };
            }),
            Op::Delete { key } => checked(api, "rocksdb_delete", |error| {
                // SAFETY: the database is open; the slice is valid for the call.
                unsafe { (api.delete)(self.database, options, key.as_ptr(), key.len(), error) };
            }),
        }
    }

    /// The iterator, showing the latest state unless the session is read-only.
    fn iterator(&mut self) -> Result<Handle> {
        if self.iterator.is_null() {
            // SAFETY: the database is open and the read options outlive the iterator.
            self.iterator =
                unsafe { (self.api.create_iterator)(self.database, self.read_options.handle) };
        } else if self.mode == SessionMode::ReadWrite {
            checked(self.api, "rocksdb_iter_refresh", |error| {
                // SAFETY: the iterator is live.
                unsafe { (self.api.iter_refresh)(self.iterator, error) };
            })?;
        }
        Ok(self.iterator)
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

impl Drop for RocksSession<'_> {
    fn drop(&mut self) {
        if !self.iterator.is_null() {
            // SAFETY: the iterator is live and not used afterwards.
            unsafe { (self.api.iter_destroy)(self.iterator) };
        }
    }
}

impl Session for RocksSession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        if let [op] = ops {
            return self.write_one(op);
        }
        let api = self.api;
        let batch = self.batch.handle;
        // SAFETY: the batch is live.
        unsafe { (api.writebatch_clear)(batch) };
        for op in ops {
            match *op {
                // SAFETY: the batch is live and copies the slices.
                Op::Put { key, value } => unsafe {
                    (api.writebatch_put)(
                        batch,
                        key.as_ptr(),
                        key.len(),
                        value.as_ptr(),
                        value.len(),
                    );
                },
                // SAFETY: the batch is live and copies the slice.
                Op::Delete { key } => unsafe {
                    (api.writebatch_delete)(batch, key.as_ptr(), key.len());
                },
            }
        }
        checked(api, "rocksdb_write", |error| {
            // SAFETY: database, options and batch are live.
            unsafe { (api.write)(self.database, self.write_options.handle, batch, error) };
        })
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let api = self.api;
        let options = self.read_options.handle;
        let pinned = checked(api, "rocksdb_get_pinned", |error| {
            // SAFETY: database and options are live, the key is valid for the call.
            unsafe { (api.get_pinned)(self.database, options, key.as_ptr(), key.len(), error) }
        })?;
        if pinned.is_null() {
            return Ok(false);
        }
        let mut length = 0;
        // SAFETY: `pinned` is a live slice and `length` can be written.
        let data = unsafe { (api.pinnableslice_value)(pinned, &mut length) };
        found(borrowed(data, length));
        // SAFETY: the slice is not used afterwards.
        unsafe { (api.pinnableslice_destroy)(pinned) };
        Ok(true)
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
