//! What an output has written: files to be named by a manifest edit, or to be removed.

use std::path::PathBuf;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::manifest::{Change, TableRecord};
use tidesdb_sys::vfs::{File, Vfs};

use crate::core::Storage;
use crate::version::{GrowingValueLog, ValueLogFile};

/// When files are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syncs {
    /// Each when it is complete, and the directory with the last.
    Each,
    /// Together with those of other outputs, by [`Written::sync`]: the file system has to do for
    /// them once what it does for each sync.
    Together,
}

/// Files of an output that wait open for their sync: a flush may make hundreds of small tables.
const MOST_UNSYNCED: usize = 16;

/// What was written, and synced but for what is listed as unsynced, and is not yet named by the
/// manifest.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub tables: Vec<Arc<TableRecord>>,
    /// Those that its tables point into, and others that are full.
    pub value_logs: Vec<GrowingValueLog>,
    pub bytes: u64,
    /// The files that are new.
    pub paths: Vec<PathBuf>,
    unsynced: Vec<(PathBuf, Arc<dyn File>)>,
}

impl Written {
    /// Both together.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.tables.extend(other.tables);
        self.value_logs.extend(other.value_logs);
        self.bytes += other.bytes;
        self.paths.extend(other.paths);
        self.unsynced.extend(other.unsynced);
        self
    }

    /// Syncs all files, and the directory.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn sync(&mut self, storage: &Storage) -> Result<()> {
        for (path, file) in std::mem::take(&mut self.unsynced) {
            self.sync_one(path, file.as_ref())?;
        }
        match self.paths.as_slice() {
            [] => Ok(()),
            _ => storage.log.sync_directory(),
        }
    }

    fn sync_one(&mut self, path: PathBuf, file: &dyn File) -> Result<()> {
        file.sync_data().map_err(|e| {
            let of_path = self.value_logs.iter_mut().filter(|log| log.path() == path);
            of_path.for_each(GrowingValueLog::note_sync_failed);
            Error::io("sync", &path, e)
        })
    }

    /// Syncs a file that is complete, or has it synced later.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn completed(
        &mut self,
        syncs: Syncs,
        path: PathBuf,
        file: Arc<dyn File>,
    ) -> Result<()> {
        match syncs {
            Syncs::Each => self.sync_one(path, file.as_ref()),
            Syncs::Together => {
                // Whole, while others are written still.
                file.start_write_back(0, 0);
                self.unsynced.push((path, file));
                // The one that has been written back for longest.
                if self.unsynced.len() > MOST_UNSYNCED {
                    let (path, file) = self.unsynced.remove(0);
                    self.sync_one(path, file.as_ref())?;
                }
                Ok(())
            }
        }
    }

    /// What the edit says that names it, and that is written next: from now on it may be named.
    pub(crate) fn changes(&mut self, family: u32) -> Vec<Change> {
        self.value_logs.iter_mut().for_each(GrowingValueLog::note_named);
        let value_logs = self.value_logs.iter().filter_map(GrowingValueLog::record);
        let value_logs = value_logs.map(|file| Change::AddValueLog { family, file });
        let tables = self.tables.iter().cloned();
        value_logs.chain(tables.map(|table| Change::AddTable { family, table })).collect()
    }

    /// The value logs that it points into, by number.
    pub(crate) fn value_log_files(&self) -> impl Iterator<Item = (u64, Arc<ValueLogFile>)> {
        self.value_logs.iter().map(|log| (log.known().number, Arc::clone(log.known())))
    }

    /// That edit has failed, and no opening finds it.
    pub(crate) fn note_not_named(&mut self) {
        self.value_logs.iter_mut().for_each(GrowingValueLog::note_not_named);
    }

    /// That edit is in force.
    pub(crate) fn keep_value_logs(&mut self) {
        std::mem::take(&mut self.value_logs).into_iter().for_each(GrowingValueLog::keep);
    }
}

/// Removes files that no manifest ever named.
pub(crate) fn remove_all(vfs: &dyn Vfs, paths: &[PathBuf]) {
    for path in paths {
        // One that stays is unknown to the manifest and removed at the next open.
        let _ = vfs.remove(path);
    }
}

/// As [`remove_all`] for what outputs have completed.
pub(crate) fn remove_written(vfs: &dyn Vfs, written: &[Written]) {
    for written in written {
        remove_all(vfs, &written.paths);
    }
}
