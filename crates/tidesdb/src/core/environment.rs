//! What a database was opened with.

use std::path::PathBuf;
use std::sync::Arc;

use tidesdb_base::options::DbOptions;
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

    /// The largest table that compactions and flushes write.
    pub(crate) fn largest_table_bytes(&self) -> u64 {
        self.vfs.volume_bytes(&self.path).map_or(u64::MAX, disk::largest_table_bytes)
    }

    /// Bytes that puts leave free.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.vfs.volume_bytes(&self.path).map_or(0, disk::reserve_bytes)
    }
}
