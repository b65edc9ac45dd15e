//! The directory of a database that is being opened: made if need be, held open, and locked.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::DbOptions;
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::{LockGuard, ReadOnlyVfs, Vfs};

use super::inventory::{Inventory, take_inventory};
use super::killed_repair::{self, parent_of};
use crate::version::{DirectoryLock, remove_interrupted_creation};

/// A directory that belongs to the database being opened.
pub(crate) struct OwnedDirectory {
    /// The file system with the directory held open. That of an opening for reading changes
    /// nothing.
    pub vfs: Arc<dyn Vfs>,
    pub lock: Arc<DirectoryLock>,
    /// The database in it, if there is one.
    pub found: Option<Inventory>,
}

/// Holds and locks the directory `path`, which is created if the options allow it, and looks what
/// is in it. After an error nothing is there that was not there before.
///
/// # Errors
/// See [`crate::Db::open`].
pub(super) fn take(vfs: &Arc<dyn Vfs>, path: &Path, options: &DbOptions) -> Result<OwnedDirectory> {
    let vfs: Arc<dyn Vfs> =
        if options.read_only { ReadOnlyVfs::new(Arc::clone(vfs)) } else { Arc::clone(vfs) };
    let creates = options.create_if_missing && !options.read_only;
    let made = make_directory(vfs.as_ref(), path, creates)?;
    // From here on the path is only a name for what is held open.
    let vfs = vfs.hold_dir(path).map_err(|e| Error::io("open", path, e))?;
    let lock = Arc::new(DirectoryLock::take(Arc::clone(&vfs), path, options.read_only)?);
    let found = take_inventory(&vfs, path).and_then(|found| {
        if found.is_none() && !creates { Err(no_database(path)) } else { Ok(found) }
    });
    match found {
        Ok(found) => {
            if found.is_none() {
                sync_parent(vfs.as_ref(), path)?;
                remove_interrupted_creation(vfs.as_ref(), path)?;
            }
            if !options.read_only && found.as_ref().is_some_and(|found| found.may_be_repaired) {
                killed_repair::forget(vfs.as_ref(), path);
            }
            Ok(OwnedDirectory { vfs, lock, found })
        }
        Err(e) => {
            let explained = lock.explain(e);
            // With the lock held: who has opened the file and waits for the lock notices that
            // it is gone.
            if made.lock {
                let _ = vfs.remove(&path.join(FileKind::Lock.name()));
            }
            if made.directory {
                let _ = vfs.remove_dir(path);
            }
            Err(explained)
        }
    }
}

/// Looks at a database, for reading, in a directory that the caller has locked and goes on holding.
///
/// # Errors
/// [`Error::Corruption`], [`Error::NotADatabase`], [`Error::Io`].
pub(crate) fn locked_before(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    guard: Arc<dyn LockGuard>,
) -> Result<OwnedDirectory> {
    let vfs: Arc<dyn Vfs> = ReadOnlyVfs::new(Arc::clone(vfs));
    let vfs = vfs.hold_dir(path).map_err(|e| Error::io("open", path, e))?;
    let lock = Arc::new(DirectoryLock::held(Arc::clone(&vfs), path, guard));
    let found = take_inventory(&vfs, path)?;
    if found.is_none() {
        return Err(no_database(path));
    }
    Ok(OwnedDirectory { vfs, lock, found })
}

fn no_database(path: &Path) -> Error {
    let reason = "it is empty or absent, and creating one was not asked for".to_owned();
    Error::NotADatabase { path: path.to_path_buf(), reason }
}

/// What an open makes before it knows whether there is a database.
struct Made {
    directory: bool,
    lock: bool,
}

/// Makes sure that the directory is there.
fn make_directory(vfs: &dyn Vfs, path: &Path, creates: bool) -> Result<Made> {
    match vfs.list(path) {
        Ok(entries) => {
            let empty = entries.iter().all(|entry| entry.name == FileKind::Lock.name());
            if empty && !creates {
                return Err(no_database(path));
            }
            if empty {
                killed_repair::refuse(vfs, path)?;
            }
            let locked_before = entries.iter().any(|entry| entry.name == FileKind::Lock.name());
            Ok(Made { directory: false, lock: !locked_before })
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            if !creates {
                return Err(no_database(path));
            }
            // Between two renames of a repair nothing is there, either.
            killed_repair::refuse(vfs, path)?;
            vfs.create_dir(path).map_err(|e| Error::io("create directory", path, e))?;
            Ok(Made { directory: true, lock: true })
        }
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => Err(Error::NotADatabase {
            path: path.to_path_buf(),
            reason: "it is not a directory".to_owned(),
        }),
        Err(e) => Err(Error::io("list", path, e)),
    }
}

/// Makes the name of a new database's directory durable, whichever opening made it: an earlier open
/// may have made it and failed before this.
pub(crate) fn sync_parent(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    if path.parent().is_none() {
        return Ok(());
    }
    let parent = parent_of(path);
    match vfs.sync_dir(parent) {
        // Who may not look into the parent can't have made the directory.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other.map_err(|e| Error::io("sync", parent, e)),
    }
}
