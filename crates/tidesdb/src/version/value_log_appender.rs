//! A value log that is appended to again and again: what is known of it between two times.
//! `write/direct_values.rs` appends the largest values to one at their commit, flushes and
//! compactions to those of [`super::GrowingValueLogs`].

use std::path::PathBuf;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::vlog::{VlogOptions, VlogSummary, VlogWriter};
use tidesdb_sys::vfs::{File, OpenMode, Vfs};

use super::{ValueLogFile, ValueLogLife};

/// A value log to whose end values are appended. Its file is open while that is done: there may be
/// very many families.
#[derive(Debug)]
pub(crate) struct ValueLogAppender {
    pub path: PathBuf,
    pub options: VlogOptions,
    pub open: Option<OpenForAppending>,
    pub known: Arc<ValueLogFile>,
    /// What the file holds for those who are done with it.
    pub summary: VlogSummary,
    /// What the file holds without any value.
    pub started_with: VlogSummary,
}

/// The file of a [`ValueLogAppender`] while it is written to.
#[derive(Debug)]
pub(crate) struct OpenForAppending {
    pub file: Arc<dyn File>,
    pub writer: VlogWriter,
    pub sync_failed: bool,
}

impl ValueLogAppender {
    /// The open file, at whose end values are appended.
    pub(crate) fn open(&mut self, vfs: &dyn Vfs) -> Result<&mut OpenForAppending> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let file = vfs.open(&self.path, OpenMode::ReadWrite);
                let file = file.map_err(|e| Error::missing_or_io("open", &self.path, e))?;
                let writer =
                    VlogWriter::resume(Arc::clone(&file), &self.path, self.options, self.summary);
                OpenForAppending { file, writer, sync_failed: false }
            }
        };
        Ok(self.open.insert(open))
    }

    /// What was appended counts from now on.
    pub(crate) fn keep(&mut self) {
        if let Some(open) = self.open.take() {
            self.summary = open.writer.summary();
            let bytes = self.summary.file_len;
            self.known.change_life(|life| *life = ValueLogLife::Appending { bytes });
        }
    }

    /// Cuts off what was appended. False when the end of the file is not known any more.
    pub(crate) fn cut(&mut self, to: VlogSummary) -> bool {
        self.summary = to;
        let bytes = to.file_len;
        self.known.change_life(|life| *life = ValueLogLife::Appending { bytes });
        // What was not opened has nothing to be cut off.
        self.open.take().is_none_or(|open| {
            let cut = open.file.set_len(bytes);
            cut.is_ok() && !open.sync_failed
        })
    }
}
