//! The place at which a copy is to lie.
//!
//! A copy is written beside its place, under a name of its own, and gets its name when it is whole:
//! what one that was interrupted leaves is never taken for a result. A directory that was there is
//! the one that is written to, so that it keeps its owner and its permissions. What could keep the
//! copy from its place in the end, such as a mount point, is found out before the work.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming;
use tidesdb_sys::vfs::{RealVfs, Vfs};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Place {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    working: PathBuf,
    /// An empty directory was there, and has the other name now.
    was_there: bool,
}

/// `path` with something behind its last name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// The directory in which `path` lies.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The same place, of an existing directory by the name that it has itself and not by that of a
/// link.
///
/// # Errors
/// [`Error::InvalidArgument`] when the path has no last name and nothing is there; [`Error::Io`].
pub(crate) fn resolved(path: &Path) -> Result<PathBuf> {
    match RealVfs::canonical(path) {
        Ok(whole) => Ok(whole),
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
    /// [`Error::NotEmpty`]; [`Error::InvalidArgument`] when it is a mount point; [`Error::Io`].
    pub(crate) fn prepare(vfs: Arc<dyn Vfs>, path: &Path) -> Result<Self> {
        let path = resolved(path)?;
        let was_there = check_vacant(vfs.as_ref(), &path)?;
        let working = beside(&path, ".unfinished");
        remove_unfinished(vfs.as_ref(), &working)?;
        if was_there {
            vfs.rename(&path, &working).map_err(|e| explain_rename(&path, e))?;
        } else {
            vfs.create_dir(&working).map_err(|e| Error::io("create directory", &working, e))?;
        }
        Ok(Self { vfs, path, working, was_there })
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
        self.vfs.sync_dir(parent).map_err(|e| Error::io("sync", parent, e))
    }

    /// Removes what was written. A directory that was there is there again.
    pub(crate) fn abandon(self) {
        // Whatever they answer: a directory of that name is no database's, and goes with the next
        // try.
        if self.was_there {
            let emptied = remove_files(self.vfs.as_ref(), &self.working);
            let _ = emptied.and_then(|()| {
                let renamed = self.vfs.rename(&self.working, &self.path);
                renamed.map_err(|e| Error::io("rename", &self.working, e))
            });
        } else {
            let _ = remove_unfinished(self.vfs.as_ref(), &self.working);
        }
    }
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

fn is_in_the_way(error: &io::Error) -> bool {
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

/// Removes the directory of an unfinished copy, in which only files of a database may lie.
fn remove_unfinished(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    match remove_files(vfs, dir) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.and_then(|()| vfs.remove_dir(dir).map_err(|e| Error::io("remove", dir, e))),
    }
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
