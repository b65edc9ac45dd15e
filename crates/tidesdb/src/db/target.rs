//! The directory that a copy of a database is written to.

use std::io;
use std::path::Path;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::manifest::current;
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::{LockGuard, LockHow, Vfs};

/// An empty directory, locked so that no other opening makes a database of it meanwhile.
#[derive(Debug)]
pub(super) struct Target<'a> {
    vfs: &'a dyn Vfs,
    path: &'a Path,
    made: bool,
    lock: Option<Box<dyn LockGuard>>,
    /// What may have been written.
    files: Vec<FileKind>,
}

impl<'a> Target<'a> {
    /// Makes the directory if need be.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::Locked`], [`Error::Io`]; nothing is left behind then.
    pub(super) fn take(vfs: &'a dyn Vfs, path: &'a Path) -> Result<Self> {
        let made = match vfs.create_dir(path) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                check_empty(vfs, path)?;
                false
            }
            Err(e) => return Err(Error::io("create directory", path, e)),
        };
        let mut target = Self { vfs, path, made, lock: None, files: Vec::new() };
        let taken = match vfs.lock(&path.join(FileKind::Lock.name()), LockHow::Exclusive) {
            Ok(guard) => {
                target.lock = Some(guard);
                // Another process may have been quicker.
                check_empty(vfs, path)
            }
            // Whatever is in it is the business of who has locked it.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(Error::Locked(path.to_path_buf()));
            }
            Err(e) => Err(Error::io("lock", path, e)),
        };
        if let Err(e) = taken {
            target.remove();
            return Err(e);
        }
        Ok(target)
    }

    pub(super) const fn path(&self) -> &'a Path {
        self.path
    }

    /// Has a file removed if the copy fails.
    pub(super) fn note(&mut self, file: FileKind) {
        self.files.push(file);
    }

    /// Lets others open the directory.
    pub(super) fn unlock(&mut self) {
        self.lock = None;
    }

    /// Removes what was made, as far as that works: without `CURRENT`, what stays is no database.
    pub(super) fn remove(mut self) {
        let remove = |name: String| self.vfs.remove(&self.path.join(name));
        if self.files.last() == Some(&FileKind::Current) {
            let _ = remove(FileKind::Current.name());
            // CRASH: the name goes before the files that it stands for.
            if self.vfs.sync_dir(self.path).is_err() {
                return;
            }
        }
        let _ = remove(current::CURRENT_TEMPORARY.to_owned());
        for file in &self.files {
            let _ = remove(file.name());
        }
        // With the lock held: who has opened the file and waits for the lock notices that it is
        // gone.
        let _ = remove(FileKind::Lock.name());
        self.lock = None;
        if self.made {
            let _ = self.vfs.remove_dir(self.path);
        }
    }
}

fn check_empty(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    let entries = match vfs.list(path) {
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(Error::NotEmpty(path.to_path_buf()));
        }
        other => other.map_err(|e| Error::io("list", path, e))?,
    };
    // What an interrupted copy, or an opening that found nothing, may leave is as good as nothing.
    if entries.iter().all(|entry| entry.name == FileKind::Lock.name()) {
        Ok(())
    } else {
        Err(Error::NotEmpty(path.to_path_buf()))
    }
}
