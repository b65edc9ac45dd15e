//! What a database was opened with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::{DbOptions, SyncMode};
use tidesdb_sys::clock::Clock;
use tidesdb_sys::sched::Scheduler;
use tidesdb_sys::vfs::Vfs;

use crate::family::DatabaseId;
use crate::flow::disk::{self, DiskSpace};

/// Where a database lies, its options, and its doors to the outside world. Nothing of it changes
/// while the database is open.
#[derive(Debug)]
pub(crate) struct Environment {
    /// Distinguishes this open database from others of the process.
    pub identity: DatabaseId,
    pub path: PathBuf,
    pub options: DbOptions,
    pub vfs: Arc<dyn Vfs>,
    pub scheduler: Arc<dyn Scheduler>,
    pub clock: Arc<dyn Clock>,
}

impl Environment {
    /// What the file system says; `None` when it does not, or keeps no reserve.
    pub(crate) fn disk_space(&self) -> Option<DiskSpace> {
        let volume_bytes = self.vfs.volume_bytes(&self.path).ok()?;
        if disk::reserve_bytes(volume_bytes) == 0 {
            return None;
        }
        let free_bytes = self.vfs.free_bytes(&self.path).ok()?;
        Some(DiskSpace { volume_bytes, free_bytes })
    }

    /// Refuses the directory of the database, and what lies in it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`].
    pub(crate) fn check_is_elsewhere(&self, path: &Path) -> Result<()> {
        let same = |above: &Path| {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            self.vfs.is_same_dir(above, &self.path).unwrap_or(false)
        };
        if path.starts_with(&self.path) || path.ancestors().any(same) {
            let detail = format!("{} lies in the database's own directory", path.display());
            return Err(Error::InvalidArgument(detail));
        }
        Ok(())
    }

    /// Whether each commit of any family waits for a sync.
    #[inline]
    pub(crate) fn syncs_commits(&self) -> bool {
        self.options.sync_mode == SyncMode::Full
    }

    /// The largest table that compactions and flushes write.
    pub(crate) fn largest_table_bytes(&self) -> u64 {
        self.vfs.volume_bytes(&self.path).map_or(u64::MAX, disk::largest_table_bytes)
    }

    /// Bytes that puts leave free.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.vfs.volume_bytes(&self.path).map_or(0, disk::reserve_bytes)
    }
}
