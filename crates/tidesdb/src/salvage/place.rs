//! The place at which a copy is to lie.
//!
//! A copy is written beside its place, in a workshop of its own, and gets its name when it is
//! whole: what one that was interrupted leaves is never taken for a result. A directory that was
//! there is the one that is written to, so that it keeps its owner and its permissions. What could
//! keep the copy from its place in the end, such as a mount point, is found out before the work.
//!
//! The workshop is the directory `PLACE.unfinished`. It holds the copy, in [`COPY`], and a file,
//! [`MARKER`], which says that the directory is a workshop and whose lock says that it is in use.
//! Only a directory with that file is ever cleared: any other of that name is the user's. The
//! marker lies outside of the copy, so that the rename which ends the work is all that ends it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming;
use tidesdb_sys::vfs::{DirEntry, LockGuard, LockMode, RealVfs, Vfs};

use crate::opening::killed_repair::{parent_of, sibling};

/// The file that makes a directory a workshop, and the lock of who works there.
const MARKER: &str = "UNFINISHED";

/// The directory of the copy in the workshop.
const COPY: &str = "copy";

/// The name that a copy gets when it is whole, and the workshop that it is written in.
#[derive(Debug)]
pub(crate) struct Place {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    workshop: Workshop,
    working: PathBuf,
    /// An empty directory was there, and is the copy's now.
    was_there: bool,
}

/// The directories in which the copy for `path` is written: the workshop and the copy's own.
pub(crate) fn working_for(path: &Path) -> [PathBuf; 2] {
    let workshop = sibling(path, ".unfinished");
    let copy = workshop.join(COPY);
    [workshop, copy]
}

/// The same place, of an existing directory by the name that it has itself and not by that of a
/// link.
///
/// # Errors
/// [`Error::InvalidArgument`] when nothing is there and the path has no last name, or is a link;
/// [`Error::Io`].
pub(crate) fn resolved(path: &Path) -> Result<PathBuf> {
    match RealVfs::new().canonical(path) {
        Ok(whole) => Ok(whole),
        // Nothing can get its name.
        Err(e) if e.kind() == io::ErrorKind::NotFound && RealVfs::link_target(path).is_ok() => {
            let text = format!("{} is a link that leads to nothing", path.display());
            Err(Error::InvalidArgument(text))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound && path.file_name().is_some() => {
            Ok(path.to_path_buf())
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let text = format!("{} names no directory to be made", path.display());
            Err(Error::InvalidArgument(text))
        }
        Err(e) => Err(Error::io("find", path, e)),
    }
}

impl Place {
    /// Takes the place at `path`: nothing may be there, or an empty directory. What an interrupted
    /// work for the same place left is removed.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], also of a directory with the workshop's name that is none;
    /// [`Error::Locked`] when another copy for the same place is being written;
    /// [`Error::InvalidArgument`] when it is a mount point; [`Error::Io`].
    pub(crate) fn prepare(vfs: Arc<dyn Vfs>, path: &Path) -> Result<Self> {
        let path = resolved(path)?;
        let was_there = check_vacant(vfs.as_ref(), &path)?;
        let [workshop, working] = working_for(&path);
        let workshop = Workshop::take(Arc::clone(&vfs), workshop)?;
        let made = if was_there {
            vfs.rename(&path, &working).map_err(|e| explain_rename(&path, e))
        } else {
            vfs.create_dir(&working).map_err(|e| Error::io("create directory", &working, e))
        };
        if let Err(e) = made {
            workshop.remove();
            return Err(e);
        }
        Ok(Self { vfs, path, workshop, working, was_there })
    }

    /// Where the copy is written.
    pub(crate) fn working(&self) -> &Path {
        &self.working
    }

    /// Gives the copy, which is on disk, its name.
    ///
    /// # Errors
    /// [`Error::Io`]; nothing is left then.
    pub(crate) fn take(self) -> Result<()> {
        if let Err(e) = self.vfs.rename(&self.working, &self.path) {
            let error = Error::io("rename", &self.working, e);
            self.abandon();
            return Err(error);
        }
        let parent = parent_of(&self.path);
        // CRASH: behind the rename an empty workshop may stay, which the next one clears.
        self.workshop.remove();
        self.vfs.sync_dir(parent).map_err(|e| Error::io("sync", parent, e))
    }

    /// Removes what was written. A directory that was there is there again.
    pub(crate) fn abandon(self) {
        // Whatever they answer: a workshop is no database, and is cleared by the next try.
        if self.was_there {
            let emptied = remove_files(self.vfs.as_ref(), &self.working);
            let back = emptied.and_then(|()| {
                let renamed = self.vfs.rename(&self.working, &self.path);
                renamed.map_err(|e| Error::io("rename", &self.working, e))
            });
            if back.is_err() {
                return;
            }
        } else if remove_copy(self.vfs.as_ref(), &self.working).is_err() {
            return;
        }
        self.workshop.remove();
    }
}

/// A directory with a marker, which is locked.
#[derive(Debug)]
struct Workshop {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    lock: Box<dyn LockGuard>,
}

impl Workshop {
    /// Makes the workshop, or clears the one that an interrupted work left.
    fn take(vfs: Arc<dyn Vfs>, dir: PathBuf) -> Result<Self> {
        match vfs.create_dir(&dir) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => check_is_workshop(&*vfs, &dir)?,
            Err(e) => return Err(Error::io("create directory", &dir, e)),
        }
        let lock = lock_alone(vfs.as_ref(), &dir, MARKER)?;
        // Another process may have been quicker: what is there now, with the lock held, counts.
        check_is_workshop(vfs.as_ref(), &dir)?;
        let copy = dir.join(COPY);
        if !matches!(check_vacant(vfs.as_ref(), &copy), Ok(false)) {
            // A reader may have it open.
            drop(lock_alone(vfs.as_ref(), &copy, &naming::FileKind::Lock.name())?);
            remove_copy(vfs.as_ref(), &copy)?;
        }
        Ok(Self { vfs, dir, lock })
    }

    /// Removes it, empty but for the marker.
    fn remove(self) {
        // With the lock held: another that waits for it notices that the file is gone. What stays
        // is cleared by the next work.
        let _ = self.vfs.remove(&self.dir.join(MARKER));
        drop(self.lock);
        let _ = self.vfs.remove_dir(&self.dir);
    }
}

/// Fails unless `dir` is a workshop, or empty: the directory of one that was begun.
fn check_is_workshop(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    let entries = match vfs.list(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(Error::NotEmpty(dir.to_path_buf()));
        }
        Err(e) => return Err(Error::io("list", dir, e)),
    };
    let is_ours = |entry: &DirEntry| match entry.name.as_str() {
        MARKER => !entry.is_dir,
        COPY => entry.is_dir,
        _ => false,
    };
    let marked = entries.is_empty() || entries.iter().any(|entry| entry.name == MARKER);
    if marked && entries.iter().all(is_ours) {
        return Ok(());
    }
    Err(Error::NotEmpty(dir.to_path_buf()))
}

pub(super) fn lock_alone(vfs: &dyn Vfs, dir: &Path, name: &str) -> Result<Box<dyn LockGuard>> {
    vfs.lock(&dir.join(name), LockMode::Exclusive).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => Error::Locked(dir.to_path_buf()),
        _ => Error::io("lock", dir, e),
    })
}

/// What it means that a directory can't get another name.
fn explain_rename(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::ResourceBusy | io::ErrorKind::CrossesDevices => {
            let path = path.display();
            Error::InvalidArgument(format!(
                "{path} can't get another name ({error}): it is a mount point, or belongs to a \
                 lower layer; name a directory in it or elsewhere"
            ))
        }
        _ => Error::io("rename", path, error),
    }
}

/// Fails when a directory can't get another name in its parent. `occupied` is another directory
/// there, and not empty: a rename onto it is refused, but for other reasons first.
///
/// # Errors
/// [`Error::InvalidArgument`] for mount points; [`Error::Io`].
pub(crate) fn check_can_be_renamed(vfs: &dyn Vfs, dir: &Path, occupied: &Path) -> Result<()> {
    match vfs.rename(dir, occupied) {
        Err(e) if is_in_the_way(&e) => Ok(()),
        Err(e) => Err(explain_rename(dir, e)),
        Ok(()) => Err(Error::Internal(format!("{} was empty", occupied.display()))),
    }
}

pub(super) fn is_in_the_way(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
}

/// Whether there is an empty directory at `path`; otherwise there is nothing.
///
/// # Errors
/// [`Error::NotEmpty`] when anything else is there, [`Error::Io`].
fn check_vacant(vfs: &dyn Vfs, path: &Path) -> Result<bool> {
    match vfs.list(path) {
        Ok(entries) if entries.is_empty() => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Ok(_) => Err(Error::NotEmpty(path.to_path_buf())),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            Err(Error::NotEmpty(path.to_path_buf()))
        }
        Err(e) => Err(Error::io("list", path, e)),
    }
}

/// Removes a directory in which only files of a database may lie: an unfinished copy.
///
/// # Errors
/// [`Error::NotEmpty`] when anything else is there, [`Error::Io`].
pub(super) fn remove_copy(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    remove_files(vfs, dir)?;
    vfs.remove_dir(dir).map_err(|e| Error::io("remove", dir, e))
}

fn remove_files(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    let entries = vfs.list(dir).map_err(|e| Error::io("list", dir, e))?;
    let ours = |name: &str| {
        naming::parse(name).is_some() || name == tidesdb_files::manifest::current::CURRENT_TEMPORARY
    };
    if entries.iter().any(|entry| entry.is_dir || !ours(&entry.name)) {
        return Err(Error::NotEmpty(dir.to_path_buf()));
    }
    // The name that makes it a database goes first.
    let current = naming::FileKind::Current.name();
    let (first, others): (Vec<_>, Vec<_>) = entries.iter().partition(|e| e.name == current);
    for entry in first.into_iter().chain(others) {
        let path = dir.join(&entry.name);
        vfs.remove(&path).map_err(|e| Error::io("remove", &path, e))?;
    }
    Ok(())
}
