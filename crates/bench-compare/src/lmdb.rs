//! LMDB behind the engine trait: a memory-mapped B+tree with one writer at a time.
//!
//! A write batch is one write transaction. A session keeps one read transaction and one cursor;
//! in a read-write session both are renewed before each read, so that it sees the latest commit.
//! "Not synced" is `MDB_NOSYNC` without a writable map; LMDB has no log, no block cache (the page
//! cache is it) and no compression, which the report states.
//!
//! Threads: `MDB_NOTLS` ties reader slots to transactions, so a session may be created in any
//! thread. Invariants: every transaction, cursor and environment stored here was created by LMDB
//! in the same struct and is closed exactly once, sessions before the environment they borrow.
#![expect(unsafe_code, reason = "calls into LMDB's C library")]

use crate::engine::{
    Capabilities, Direction, Engine, EngineError, EngineOptions, EngineStats, Op, Result,
    RowVisitor, ScanRequest, Session, SessionMode, SyncMode, ValueVisitor,
};
use lmdb_master_sys as ffi;
use std::ffi::{CStr, CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::slice;

/// Version of the LMDB source that is compiled in.
pub fn version() -> String {
    format!("{}.{}.{}", ffi::MDB_VERSION_MAJOR, ffi::MDB_VERSION_MINOR, ffi::MDB_VERSION_PATCH)
}

fn check(call: &str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: returns a static or thread-local NUL-terminated text for every code.
    let text = unsafe { ffi::mdb_strerror(code) };
    // SAFETY: see above; the text is copied at once.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    Err(EngineError::from_call(call, text))
}

fn value_of(bytes: &[u8]) -> ffi::MDB_val {
    ffi::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast_mut().cast() }
}

fn empty_value() -> ffi::MDB_val {
    ffi::MDB_val { mv_size: 0, mv_data: ptr::null_mut() }
}

/// The bytes of a value that LMDB lent; valid until the transaction ends.
fn bytes_of<'b>(value: &ffi::MDB_val) -> &'b [u8] {
    if value.mv_size == 0 || value.mv_data.is_null() {
        return &[];
    }
    // SAFETY: LMDB returned `mv_size` readable bytes inside its map; callers here hand the slice
    // to a visitor and drop it before the transaction is reset.
    unsafe { slice::from_raw_parts(value.mv_data.cast(), value.mv_size) }
}

/// The environment pointer, closed on drop.
struct Environment(*mut ffi::MDB_env);

impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: no transaction is left, because sessions borrow the owner of this value.
        unsafe { ffi::mdb_env_close(self.0) };
    }
}

/// An opened LMDB environment with its unnamed database.
pub struct Lmdb {
    environment: Environment,
    database: ffi::MDB_dbi,
}

// SAFETY: an LMDB environment may be used by many threads at once.
unsafe impl Send for Lmdb {}
// SAFETY: see above; transactions and cursors are not shared, they live in sessions.
unsafe impl Sync for Lmdb {}

impl Lmdb {
    /// Opens or creates the environment.
    pub fn open(options: &EngineOptions) -> Result<Self> {
        let directory = CString::new(options.directory.as_os_str().as_bytes())
            .map_err(|error| EngineError::from_call("directory name", error))?;
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` can be written.
        check("mdb_env_create", unsafe { ffi::mdb_env_create(&mut raw) })?;
        let environment = Environment(raw);
        // Copy on write and half-filled pages need room: 4 times the data, address space only.
        let map_bytes = options.expected_bytes.saturating_mul(4).max(1 << 30);
        let map_bytes = usize::try_from(map_bytes).unwrap_or(usize::MAX);
        // SAFETY: the environment is not opened yet, as the call requires.
        check("mdb_env_set_mapsize", unsafe { ffi::mdb_env_set_mapsize(raw, map_bytes) })?;
        // SAFETY: see above.
        check("mdb_env_set_maxreaders", unsafe { ffi::mdb_env_set_maxreaders(raw, 1024) })?;
        let sync_flag = if options.sync == SyncMode::Full { 0 } else { ffi::MDB_NOSYNC };
        let flags = ffi::MDB_NOTLS | ffi::MDB_NORDAHEAD | sync_flag;
        // SAFETY: the environment is created and the path is a valid C string.
        let code = unsafe { ffi::mdb_env_open(raw, directory.as_ptr(), flags, 0o644) };
        check("mdb_env_open", code)?;
        let database = open_database(raw)?;
        Ok(Self { environment, database })
    }
}

fn open_database(environment: *mut ffi::MDB_env) -> Result<ffi::MDB_dbi> {
    let mut transaction = ptr::null_mut();
    // SAFETY: the environment is open and `transaction` can be written.
    let code = unsafe { ffi::mdb_txn_begin(environment, ptr::null_mut(), 0, &mut transaction) };
    check("mdb_txn_begin", code)?;
    let mut database = 0;
    // SAFETY: the transaction is live; a null name is the unnamed database.
    let code = unsafe { ffi::mdb_dbi_open(transaction, ptr::null(), 0, &mut database) };
    if code != 0 {
        // SAFETY: the transaction is live and not used afterwards.
        unsafe { ffi::mdb_txn_abort(transaction) };
    }
    check("mdb_dbi_open", code)?;
    // SAFETY: the transaction is live and not used afterwards.
    check("mdb_txn_commit", unsafe { ffi::mdb_txn_commit(transaction) })?;
    Ok(database)
}

impl Engine for Lmdb {
    fn session<'a>(&'a self, mode: SessionMode) -> Result<Box<dyn Session + 'a>> {
        Ok(Box::new(LmdbSession {
            engine: self,
            reader: ptr::null_mut(),
            cursor: ptr::null_mut(),
            mode,
        }))
    }

    fn settle(&self) -> Result<()> {
        self.sync_now()
    }

    fn sync_now(&self) -> Result<()> {
        // SAFETY: the environment is open.
        check("mdb_env_sync", unsafe { ffi::mdb_env_sync(self.environment.0, 1) })
    }

    fn stats(&self) -> Result<EngineStats> {
        Ok(EngineStats::default())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { block_cache: false, compression: false, ..Capabilities::PLAIN }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct LmdbSession<'a> {
    engine: &'a Lmdb,
    reader: *mut ffi::MDB_txn,
    cursor: *mut ffi::MDB_cursor,
    mode: SessionMode,
}

impl LmdbSession<'_> {
    /// The read transaction, showing the latest commit unless the session is read-only.
    fn reader(&mut self) -> Result<*mut ffi::MDB_txn> {
        if self.reader.is_null() {
            let environment = self.engine.environment.0;
            let mut reader = ptr::null_mut();
            // SAFETY: the environment is open and `reader` can be written.
            let code = unsafe {
                ffi::mdb_txn_begin(environment, ptr::null_mut(), ffi::MDB_RDONLY, &mut reader)
            };
            check("mdb_txn_begin", code)?;
            self.reader = reader;
        } else if self.mode == SessionMode::ReadWrite {
            // SAFETY: the transaction was reset after its last use.
            check("mdb_txn_renew", unsafe { ffi::mdb_txn_renew(self.reader) })?;
        }
        Ok(self.reader)
    }

    fn release_reader(&self) {
        if self.mode == SessionMode::ReadWrite {
            // SAFETY: the transaction is live; the next use renews it.
            unsafe { ffi::mdb_txn_reset(self.reader) };
        }
    }

    fn cursor(&mut self, reader: *mut ffi::MDB_txn) -> Result<*mut ffi::MDB_cursor> {
        if self.cursor.is_null() {
            let mut cursor = ptr::null_mut();
            // SAFETY: the transaction is live and `cursor` can be written.
            let code = unsafe { ffi::mdb_cursor_open(reader, self.engine.database, &mut cursor) };
            check("mdb_cursor_open", code)?;
            self.cursor = cursor;
        } else if self.mode == SessionMode::ReadWrite {
            // SAFETY: both are live and the cursor belongs to a read-only transaction.
            check("mdb_cursor_renew", unsafe { ffi::mdb_cursor_renew(reader, self.cursor) })?;
        }
        Ok(self.cursor)
    }

    fn apply(&self, transaction: *mut ffi::MDB_txn, op: &Op<'_>) -> Result<()> {
        let database = self.engine.database;
        match *op {
            Op::Put { key, value } => {
                let (mut key, mut value) = (value_of(key), value_of(value));
                // SAFETY: the transaction is live; LMDB copies both values.
                let code = unsafe { ffi::mdb_put(transaction, database, &mut key, &mut value, 0) };
                check("mdb_put", code)
            }
            Op::Delete { key } => {
                let mut key = value_of(key);
                // SAFETY: the transaction is live; a null value deletes the key.
                let code =
                    unsafe { ffi::mdb_del(transaction, database, &mut key, ptr::null_mut()) };
                if code == ffi::MDB_NOTFOUND { Ok(()) } else { check("mdb_del", code) }
            }
            Op::PutExpiring { .. } | Op::DeleteRange { .. } => {
                Err(EngineError::unsupported("this operation"))
            }
        }
    }
}

impl Drop for LmdbSession<'_> {
    fn drop(&mut self) {
        if !self.cursor.is_null() {
            // SAFETY: the cursor of a read-only transaction is closed by its owner.
            unsafe { ffi::mdb_cursor_close(self.cursor) };
        }
        if !self.reader.is_null() {
            // SAFETY: the transaction is live or reset and not used afterwards.
            unsafe { ffi::mdb_txn_abort(self.reader) };
        }
    }
}

impl Session for LmdbSession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        let environment = self.engine.environment.0;
        let mut transaction = ptr::null_mut();
        // SAFETY: the environment is open and `transaction` can be written.
        let code = unsafe { ffi::mdb_txn_begin(environment, ptr::null_mut(), 0, &mut transaction) };
        check("mdb_txn_begin", code)?;
        for op in ops {
            if let Err(error) = self.apply(transaction, op) {
                // SAFETY: the transaction is live and not used afterwards.
                unsafe { ffi::mdb_txn_abort(transaction) };
                return Err(error);
            }
        }
        // SAFETY: the transaction is live and not used afterwards.
        check("mdb_txn_commit", unsafe { ffi::mdb_txn_commit(transaction) })
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let reader = self.reader()?;
        let (mut key, mut value) = (value_of(key), empty_value());
        // SAFETY: the transaction is live and both values can be written.
        let code = unsafe { ffi::mdb_get(reader, self.engine.database, &mut key, &mut value) };
        let present = code == 0;
        if present {
            found(bytes_of(&value));
        }
        self.release_reader();
        if !present && code != ffi::MDB_NOTFOUND {
            check("mdb_get", code)?;
        }
        Ok(present)
    }

    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()> {
        let reader = self.reader()?;
        let cursor = self.cursor(reader)?;
        let (mut key, mut value) = (empty_value(), empty_value());
        let (mut operation, advance) = match (request.start, request.direction) {
            (Some(start), Direction::Forward) => {
                key = value_of(start);
                (ffi::MDB_SET_RANGE, ffi::MDB_NEXT)
            }
            (Some(start), Direction::Reverse) => {
                key = value_of(start);
                (ffi::MDB_SET_RANGE, ffi::MDB_PREV)
            }
            (None, Direction::Forward) => (ffi::MDB_FIRST, ffi::MDB_NEXT),
            (None, Direction::Reverse) => (ffi::MDB_LAST, ffi::MDB_PREV),
        };
        let mut reverse_start = request.start.filter(|_| request.direction == Direction::Reverse);
        let outcome = loop {
            // SAFETY: the cursor is live and both values can be written.
            let code = unsafe { ffi::mdb_cursor_get(cursor, &mut key, &mut value, operation) };
            if let Some(start) = reverse_start.take() {
                // LMDB seeks to the next key; a reverse scan begins at or before the start.
                if code == ffi::MDB_NOTFOUND {
                    operation = ffi::MDB_LAST;
                    continue;
                }
                if code == 0 && bytes_of(&key) != start {
                    operation = ffi::MDB_PREV;
                    continue;
                }
            }
            if code == ffi::MDB_NOTFOUND {
                break Ok(());
            }
            if code != 0 {
                break check("mdb_cursor_get", code);
            }
            if !visit(bytes_of(&key), bytes_of(&value)) {
                break Ok(());
            }
            operation = advance;
        };
        self.release_reader();
        outcome
    }
}
