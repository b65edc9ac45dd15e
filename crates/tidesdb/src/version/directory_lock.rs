//! The right to use a directory: one database writes, or any number read.
//!
//! Files are opened late, at their first use. A reader that finds one missing asks here what that
//! means: it is damage only if no other process could have removed it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::FileKind;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::vfs::{File, LockGuard, LockMode, OpenMode, Vfs};

/// By what right files of the directory are used.
#[derive(Debug)]
enum Right {
    /// The lock file is locked.
    Locked(Arc<dyn LockGuard>),
    /// There is no lock file, and a reader makes none. A writer's first step would be to make it.
    NoLockFile,
    /// The database was closed.
    GivenUp,
}

/// A database's right to its directory, shared or exclusive, until it gives it up.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    right: Mutex<Right>,
}

impl DirectoryLock {
    /// Takes the right to write in the directory, or to read it as other readers may.
    ///
    /// # Errors
    /// [`Error::Locked`] when the right of another opening excludes it; [`Error::Io`].
    pub(crate) fn take(vfs: Arc<dyn Vfs>, dir: &Path, reads_only: bool) -> Result<Self> {
        let how = if reads_only { LockMode::Shared } else { LockMode::Exclusive };
        let right = match vfs.lock(&dir.join(FileKind::Lock.name()), how) {
            Ok(guard) => Right::Locked(Arc::from(guard)),
            Err(e) if reads_only && e.kind() == io::ErrorKind::NotFound => Right::NoLockFile,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(Error::Locked(dir.to_path_buf()));
            }
            Err(e) => return Err(Error::io("lock", dir.join(FileKind::Lock.name()), e)),
        };
        Ok(Self { vfs, dir: dir.to_path_buf(), right: Mutex::new(right) })
    }

    /// The right of the one who has locked the directory exclusively.
    pub(crate) fn held(vfs: Arc<dyn Vfs>, dir: &Path, guard: Arc<dyn LockGuard>) -> Self {
        Self { vfs, dir: dir.to_path_buf(), right: Mutex::new(Right::Locked(guard)) }
    }

    /// The directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Lets others have the directory.
    pub(crate) fn give_up(&self) {
        let right = std::mem::replace(&mut *lock(&self.right), Right::GivenUp);
        drop(right);
    }

    /// Whether the files are still those of this database.
    ///
    /// # Errors
    /// [`Error::Closed`] once the directory was given up; [`Error::Locked`] when another opening
    /// has, or may have, taken it without asking for the lock that is held here.
    pub(crate) fn check(&self) -> Result<()> {
        let path = self.dir.join(FileKind::Lock.name());
        let stands = match &*lock(&self.right) {
            Right::GivenUp => return Err(Error::Closed),
            Right::Locked(guard) => guard.is_still_named(),
            Right::NoLockFile => {
                let there = self.vfs.open(&path, OpenMode::Read);
                there.is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
            }
        };
        if stands { Ok(()) } else { Err(Error::Locked(self.dir.clone())) }
    }

    /// What an error means that may come from the work of another process in the directory.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let missing = matches!(
            &error,
            Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound
        );
        if missing || error.is_corruption() {
            return self.check().err().unwrap_or(error);
        }
        error
    }

    /// Opens a file of the directory that must be there, for reading.
    ///
    /// # Errors
    /// [`Error::Corruption`] when it is missing, unless [`DirectoryLock::check`] knows another
    /// reason; [`Error::Closed`] once the directory was given up: a file of that name may be
    /// another database's then. [`Error::Io`].
    pub(crate) fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        if matches!(&*lock(&self.right), Right::GivenUp) {
            return Err(Error::Closed);
        }
        let opened = self.vfs.open(path, OpenMode::Read);
        opened.map_err(|e| self.explain(Error::missing_or_io("open", path, e)))
    }
}
