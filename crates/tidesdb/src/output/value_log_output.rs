//! The value logs that the large values of an output go to.

use std::sync::Arc;

use tidesdb_base::error::Result;
use tidesdb_base::options::FamilyOptions;
use tidesdb_files::naming::FileKind;
use tidesdb_files::vlog::{ValuePointer, VlogOptions, VlogWriter};

use super::parts::{OutputParts, create};
use super::written::{Syncs, Written};
use crate::family::FamilyState;
use crate::version::{
    GrowingValueLog, GrowingValueLogs, OpenForAppending, ValueLogAppender, ValueLogFile,
    ValueLogLife, full_value_log_bytes,
};

/// Appends values to a value log that earlier outputs have begun, or else to a new one.
#[derive(Debug)]
pub(super) struct ValueLogOutput<'a> {
    parts: OutputParts<'a>,
    options: &'a FamilyOptions,
    growing: Arc<GrowingValueLogs>,
    /// Bytes at which a value log is full.
    full_bytes: u64,
    /// Bytes at which a value log ends at once.
    most_bytes: u64,
    log: Option<GrowingValueLog>,
}

impl<'a> ValueLogOutput<'a> {
    pub(super) fn new(
        parts: OutputParts<'a>,
        family: &FamilyState,
        options: &'a FamilyOptions,
    ) -> Self {
        let version = family.current_version();
        let value_bytes = version.runs.iter().map(|run| run.totals.value_bytes).sum();
        let most_bytes = parts.env.largest_table_bytes().saturating_mul(2);
        let full_bytes = full_value_log_bytes(value_bytes, options.write_buffer_size as u64);
        let growing = Arc::clone(&family.growing_value_logs);
        let full_bytes = full_bytes.min(most_bytes);
        Self { parts, options, growing, full_bytes, most_bytes, log: None }
    }

    /// Appends a value.
    ///
    /// # Errors
    /// [`Error::Io`], and those of [`VlogWriter::append`].
    pub(super) fn append(
        &mut self,
        value: &[u8],
        syncs: Syncs,
        written: &mut Written,
    ) -> Result<ValuePointer> {
        let mut log = match self.log.take() {
            Some(log) => log,
            None => self.log(syncs, written)?,
        };
        let (pointer, bytes) = log.append(value)?;
        self.log = Some(log);
        if bytes >= self.most_bytes {
            self.finish(syncs, written)?;
        }
        Ok(pointer)
    }

    /// A log that others have begun and that is not full, or a new one.
    fn log(&self, syncs: Syncs, written: &mut Written) -> Result<GrowingValueLog> {
        while let Some(mut log) = self.growing.take(&self.parts.env.vfs) {
            // Since it was appended to, values may have become fewer.
            if log.bytes_before() >= self.full_bytes {
                self.complete(log, syncs, written)?;
            } else if log.open(self.options.compression) {
                return Ok(log);
            }
        }
        let number = self.parts.storage.numbers.next();
        let (path, file) = create(self.parts, written, FileKind::ValueLog(number))?;
        let options = VlogOptions { number, compression: self.options.compression };
        let writer = VlogWriter::new(Arc::clone(&file), &path, options)?;
        let summary = writer.summary();
        let life = ValueLogLife::Appending { bytes: summary.file_len };
        let known = ValueLogFile::new(&self.parts.storage.files, number, life);
        let open = Some(OpenForAppending { file, writer, sync_failed: false });
        let appender =
            ValueLogAppender { path, options, open, known, summary, started_with: summary };
        Ok(GrowingValueLog::new(&self.growing, &self.parts.env.vfs, appender))
    }

    /// Ends the present value log, so that the next value goes to another.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn finish(&mut self, syncs: Syncs, written: &mut Written) -> Result<()> {
        match self.log.take() {
            Some(log) => self.complete(log, syncs, written),
            None => Ok(()),
        }
    }

    fn complete(
        &self,
        mut log: GrowingValueLog,
        syncs: Syncs,
        written: &mut Written,
    ) -> Result<()> {
        let unsynced = log.complete(self.full_bytes)?;
        let path = log.path().to_path_buf();
        written.bytes += log.appended_bytes();
        written.value_logs.push(log);
        unsynced.map_or(Ok(()), |file| written.completed(syncs, path, file))
    }
}
