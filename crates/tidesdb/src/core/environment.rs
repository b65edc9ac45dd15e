//! What a database was opened with.

use std::path::{Component, Path, PathBuf};
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
        // What is looked up from the directory that is held open, wherever that is by now.
        let is_below = path.strip_prefix(&self.path).is_ok_and(stays_below);
        if is_below || lies_in(self.vfs.as_ref(), path, &self.path) {
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

/// Whether a relative path never leads above the place that it begins at, links left aside.
fn stays_below(path: &Path) -> bool {
    let mut depth = 0_u32;
    path.components().all(|component| {
        let next = match component {
            Component::ParentDir => depth.checked_sub(1),
            Component::Normal(_) => depth.checked_add(1),
            _ => Some(depth),
        };
        depth = next.unwrap_or(0);
        next.is_some()
    })
}

/// Whether a path means the directory `dir` or something in it, whether that exists or not.
pub(crate) fn lies_in(vfs: &dyn Vfs, path: &Path, dir: &Path) -> bool {
    let named = |above: &Path| match above.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => above.to_path_buf(),
    };
    // Without links and `..`: what stands in front of a `..` is not above the place.
    let existing = path.ancestors().find_map(|above| vfs.canonical(&named(above)).ok());
    let existing = existing.unwrap_or_else(|| path.to_path_buf());
    existing.ancestors().any(|above| vfs.is_same_dir(&named(above), dir).unwrap_or(false))
}
