//! Appends values to one value log.
//!
//! Small records are gathered and written in large pieces; a large value goes to the file from
//! where it lies. A pointer is good for reading once [`VlogWriter::flush`] was called, and durable
//! once the caller has synced the file after that. After an error the file's tail is unknown: the
//! caller stops using the writer, or cuts the file and resumes; what was flushed before stays
//! readable. One thread at a time.

use super::record::{MAX_COMPRESSED_VALUE, RecordHeader, file_header};
use super::{VLOG_HEADER_BYTES, ValuePointer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidesdb_base::compress::Compression;
use tidesdb_base::limits::MAX_VALUE_BYTES;
use tidesdb_base::{Error, Result};
use tidesdb_sys::large_vec::LargeVec;
use tidesdb_sys::vfs::File;

/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 256 << 10;

/// How a value log is written.
#[derive(Clone, Copy, Debug)]
pub struct VlogOptions {
    /// Number of the file; pointers name it and checksums are bound to it.
    pub number: u64,
    /// Codec of values up to 1 MiB.
    pub compression: Compression,
}

/// What a value log holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlogSummary {
    /// Length of the file in bytes.
    pub file_len: u64,
    /// Number of records.
    pub records: u64,
    /// Bytes of all values before compression.
    pub raw_bytes: u64,
}

/// Appends values to one value log.
#[derive(Debug)]
pub struct VlogWriter {
    file: Arc<dyn File>,
    path: PathBuf,
    options: VlogOptions,
    compressed: Vec<u8>,
    /// Bytes not written to the file yet; they go to `written`.
    buffer: LargeVec<u8>,
    written: u64,
    summary: VlogSummary,
}

impl VlogWriter {
    /// A writer for the empty file `file`, called `path` in errors. Writes the file header, so
    /// that a [`super::VlogReader`] may be opened at once.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn new(file: Arc<dyn File>, path: &Path, options: VlogOptions) -> Result<Self> {
        let mut buffer = LargeVec::new();
        buffer.extend_from_slice(&file_header(options.number))?;
        let mut writer = Self {
            file,
            path: path.to_path_buf(),
            options,
            compressed: Vec::new(),
            buffer,
            written: 0,
            summary: VlogSummary::default(),
        };
        writer.flush()?;
        Ok(writer)
    }

    /// A writer that goes on from what [`VlogWriter::summary`] returned after a flush of an earlier
    /// one. What lies behind in the file is overwritten; the caller has cut it off if it may be
    /// longer than that.
    #[must_use]
    pub fn resume(
        file: Arc<dyn File>,
        path: &Path,
        options: VlogOptions,
        summary: VlogSummary,
    ) -> Self {
        debug_assert!(summary.file_len >= VLOG_HEADER_BYTES, "a file without a header goes on");
        let path = path.to_path_buf();
        let (compressed, buffer, written) = (Vec::new(), LargeVec::new(), summary.file_len);
        Self { file, path, options, compressed, buffer, written, summary }
    }

    /// Appends a value.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above 4 GiB - 1, [`Error::OutOfMemory`] or [`Error::Io`].
    pub fn append(&mut self, value: &[u8]) -> Result<ValuePointer> {
        let Ok(raw_len) = u32::try_from(value.len()) else {
            let (size, limit) = (value.len() as u64, MAX_VALUE_BYTES as u64);
            return Err(Error::TooLarge { what: "value", size, limit });
        };
        let compressed = value.len() <= MAX_COMPRESSED_VALUE
            && self.options.compression.compress(value, &mut self.compressed);
        let (codec, stored) = if compressed {
            (self.options.compression, self.compressed.as_slice())
        } else {
            (Compression::None, value)
        };
        // Compressed bytes are fewer than the value's, whose length fits.
        let stored_len = u32::try_from(stored.len()).unwrap_or(raw_len);
        let header = RecordHeader { codec, raw_len, stored_len };
        let (file, offset) = (self.options.number, self.written + self.buffer.len() as u64);
        let pointer = ValuePointer { file, offset, stored_len: header.stored_len, raw_len };
        self.buffer.extend_from_slice(&header.encode(file, offset, stored))?;
        if stored.len() >= WRITE_BYTES {
            let file = Arc::clone(&self.file);
            self.flush()?;
            let stored = if compressed { self.compressed.as_slice() } else { value };
            file.write_all_at(stored, self.written).map_err(|error| self.failed(error))?;
            self.written += stored.len() as u64;
        } else {
            self.buffer.extend_from_slice(stored)?;
            if self.buffer.len() >= WRITE_BYTES {
                self.flush()?;
            }
        }
        self.summary.records += 1;
        self.summary.raw_bytes += u64::from(raw_len);
        Ok(pointer)
    }

    /// Writes out what was gathered, so that it can be read. Does not sync.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.write_all_at(&self.buffer, self.written).map_err(|error| self.failed(error))?;
        let len = self.buffer.len() as u64;
        if len >= WRITE_BYTES as u64 {
            self.file.start_write_back(self.written, len);
        }
        self.written += len;
        self.buffer.clear();
        Ok(())
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::io("write", &self.path, error)
    }

    /// Bytes appended so far, with those not yet written: the file's length after a flush.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Number of the file.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.options.number
    }

    /// What the file holds so far.
    #[must_use]
    pub fn summary(&self) -> VlogSummary {
        VlogSummary { file_len: self.file_len(), ..self.summary }
    }

    /// Writes out what was gathered. Does not sync.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<VlogSummary> {
        self.flush()?;
        Ok(self.summary())
    }
}
