//! A small file that is written and not synced, so that several can be synced side by side.

use std::path::PathBuf;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_sys::vfs::File;

/// A file whose content is on disk only once [`Unsynced::sync`] has returned. Any thread may sync
/// it.
#[derive(Debug)]
#[must_use = "a file that is not synced may be lost"]
pub struct Unsynced {
    path: PathBuf,
    file: Arc<dyn File>,
}

impl Unsynced {
    pub(super) const fn new(path: PathBuf, file: Arc<dyn File>) -> Self {
        Self { path, file }
    }

    /// Makes the content durable. The name is so only after a sync of the directory.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io("sync", &self.path, e))
    }
}
