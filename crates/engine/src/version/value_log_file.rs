//! One value-log file of a family: who may still point into it, and reading from it.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tidesdb_base::error::Result;
use tidesdb_files::naming;
use tidesdb_files::vlog::{RecordsAhead, ValuePointer, VlogReader};

use super::FileContext;
use crate::thread_buffer::{keep_buffer, take_buffer};

thread_local! {
    /// Holds the stored bytes of a value while it is decompressed.
    static STORED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A value-log file. When it is obsolete, the last one to let go of it notes it for deletion.
#[derive(Debug)]
pub(crate) struct ValueLogFile {
    pub number: u64,
    pub bytes: AtomicU64,
    path: PathBuf,
    context: Arc<FileContext>,
    reader: OnceLock<VlogReader>,
    /// Commits up to this sequence number may point into the file although no table does yet.
    pinned_through: AtomicU64,
    obsolete: AtomicBool,
    /// A merge could not read a value.
    damaged: AtomicBool,
}

impl ValueLogFile {
    /// The file `number`, of so many bytes.
    pub(crate) fn new(context: &Arc<FileContext>, number: u64, bytes: u64) -> Self {
        Self {
            number,
            bytes: AtomicU64::new(bytes),
            path: context.dir.join(naming::FileKind::ValueLog(number).name()),
            context: Arc::clone(context),
            reader: OnceLock::new(),
            pinned_through: AtomicU64::new(0),
            obsolete: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
        }
    }

    /// Notes the file's present length.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        // ORDERING: a statistic.
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Length of the file as far as it is known.
    pub(crate) fn known_bytes(&self) -> u64 {
        // ORDERING: relaxed; an older length only makes a check weaker.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Keeps the file although no table points into it; until [`ValueLogFile::unpin`].
    pub(crate) fn pin(&self) {
        // ORDERING: relaxed; the version that makes the file known is published with a lock.
        self.pinned_through.store(u64::MAX, Ordering::Relaxed);
    }

    /// The file is complete: once everything through `sequence` is in tables, only they matter.
    pub(crate) fn pin_through(&self, sequence: u64) {
        // ORDERING: relaxed; read with the catalog's lock held, like this store.
        self.pinned_through.store(sequence, Ordering::Relaxed);
    }

    /// Drops the pin when everything up to `flushed` is in tables.
    pub(crate) fn unpin(&self, flushed: u64) {
        // ORDERING: relaxed, as in `pin_through`.
        if self.pinned_through.load(Ordering::Relaxed) <= flushed {
            self.pinned_through.store(0, Ordering::Relaxed);
        }
    }

    /// True while commits may point into the file although no table does.
    pub(crate) fn is_pinned(&self) -> bool {
        // ORDERING: relaxed, as in `pin_through`.
        self.pinned_through.load(Ordering::Relaxed) != 0
    }

    /// The file may be deleted once nobody reads it.
    pub(crate) fn mark_obsolete(&self) {
        // ORDERING: relaxed; the drop that looks at it comes after every other use of the `Arc`.
        self.obsolete.store(true, Ordering::Relaxed);
    }

    /// Keeps merges from writing the file's values elsewhere.
    pub(crate) fn set_aside(&self) {
        // ORDERING: relaxed; a hint to the planner.
        self.damaged.store(true, Ordering::Relaxed);
    }

    /// True once a merge could not read a value of the file.
    pub(crate) fn is_damaged(&self) -> bool {
        // ORDERING: as in `set_aside`.
        self.damaged.load(Ordering::Relaxed)
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the value that `pointer` points at into `out`, which is replaced.
    ///
    /// # Errors
    /// `Corruption` when the file is missing or the value damaged; `Closed` when it was not opened
    /// before the database was closed; `Io`.
    pub(crate) fn read(&self, pointer: &ValuePointer, out: &mut Vec<u8>) -> Result<()> {
        self.with_stored(|reader, stored| reader.read_into(pointer, stored, out))
    }

    /// As [`ValueLogFile::read`], for one of many values that are read in the order of the file.
    ///
    /// # Errors
    /// As [`ValueLogFile::read`].
    pub(crate) fn read_along(
        &self,
        pointer: &ValuePointer,
        ahead: &mut RecordsAhead,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.with_stored(|reader, stored| reader.read_along(pointer, ahead, stored, out))
    }

    /// Runs `read` with the open file and this thread's buffer.
    fn with_stored<R>(
        &self,
        read: impl FnOnce(&VlogReader, &mut Vec<u8>) -> Result<R>,
    ) -> Result<R> {
        let reader = self.reader()?;
        let mut stored = take_buffer(&STORED);
        let result = read(reader, &mut stored);
        keep_buffer(&STORED, stored, usize::MAX);
        result
    }

    /// The open file.
    pub(crate) fn reader(&self) -> Result<&VlogReader> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let file = self.context.lock.open(&self.path)?;
        let reader = VlogReader::open(file, &self.path, self.number)?;
        Ok(self.reader.get_or_init(|| reader))
    }
}

impl Drop for ValueLogFile {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            self.context.garbage.add(std::mem::take(&mut self.path));
        }
    }
}
