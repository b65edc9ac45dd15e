//! The value log that the largest values of a family go to, at the commit: what is known of it
//! while it grows. `write/direct_values.rs` writes it.

use std::path::PathBuf;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::vlog::{VlogOptions, VlogSummary, VlogWriter};
use tidesdb_sys::vfs::{File, OpenMode, Vfs};

use super::{ValueLogFile, ValueLogLife};

/// The value log that a family's largest values go to. Its file is open while a commit writes:
/// there may be very many families.
#[derive(Debug)]
pub(crate) struct DirectValueWriter {
    pub path: PathBuf,
    pub options: VlogOptions,
    pub open: Option<OpenDirectFile>,
    pub known: Arc<ValueLogFile>,
    /// What the file holds for commits that are over.
    pub summary: VlogSummary,
    /// What the file holds without any value.
    pub started_with: VlogSummary,
}

/// The file of a [`DirectValueWriter`] while a commit writes to it.
#[derive(Debug)]
pub(crate) struct OpenDirectFile {
    pub file: Arc<dyn File>,
    pub writer: VlogWriter,
    pub sync_failed: bool,
}

impl DirectValueWriter {
    /// The open file, at whose end values are appended.
    pub(crate) fn open(&mut self, vfs: &dyn Vfs) -> Result<&mut OpenDirectFile> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let file = vfs.open(&self.path, OpenMode::ReadWrite);
                let file = file.map_err(|e| Error::missing_or_io("open", &self.path, e))?;
                let writer =
                    VlogWriter::resume(Arc::clone(&file), &self.path, self.options, self.summary);
                OpenDirectFile { file, writer, sync_failed: false }
            }
        };
        Ok(self.open.insert(open))
    }

    /// The commit is over, and what it has appended counts.
    pub(crate) fn keep(&mut self) {
        if let Some(open) = self.open.take() {
            self.summary = open.writer.summary();
            let bytes = self.summary.file_len;
            self.known.change_life(|life| *life = ValueLogLife::Appending { bytes });
        }
    }

    /// Cuts off what the commit has appended. False when the end of the file is not known any more.
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
