//! The directory that a copy of a database is written to.
//!
//! It says that it is an unfinished copy from the beginning on, also after a power cut
//! (`current::begin_unfinished`): no opening makes a database of it, and the next copy to the same
//! place clears it (I-302).

use std::io;
use std::path::Path;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::manifest::current::{self, CURRENT_TEMPORARY};
use tidesdb_files::naming::{self, FileKind};
use tidesdb_sys::vfs::{DirEntry, LockGuard, LockMode, Vfs};

/// A directory for a copy, locked so that no other opening makes a database of it meanwhile.
#[derive(Debug)]
pub(super) struct CopyDirectory<'a> {
    vfs: &'a dyn Vfs,
    path: &'a Path,
    made: bool,
    lock: Option<Arc<dyn LockGuard>>,
    /// What may have been written.
    files: Vec<FileKind>,
    /// It may be a database.
    is_named: bool,
}

impl<'a> CopyDirectory<'a> {
    /// Makes the directory if need be, or clears what an interrupted copy left in it.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::Locked`], [`Error::Io`]; nothing is left behind then.
    pub(super) fn take(vfs: &'a dyn Vfs, path: &'a Path) -> Result<Self> {
        let made = match vfs.create_dir(path) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                check_free(vfs, path)?;
                false
            }
            Err(e) => return Err(Error::io("create directory", path, e)),
        };
        let mut target = Self { vfs, path, made, lock: None, files: Vec::new(), is_named: false };
        let taken = match vfs.lock(&path.join(FileKind::Lock.name()), LockMode::Exclusive) {
            Ok(guard) => {
                target.lock = Some(Arc::from(guard));
                // Another process may have been quicker.
                match check_free(vfs, path) {
                    Ok(Found::Unfinished) => clear(vfs, path),
                    Ok(Found::Nothing) => Ok(()),
                    Err(e) => Err(e),
                }
                .and_then(|()| {
                    target.note(FileKind::Current);
                    current::begin_unfinished(vfs, path)
                })
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

    /// Notes a file to be removed if the copy fails.
    pub(super) fn note(&mut self, file: FileKind) {
        self.files.push(file);
    }

    /// Makes the directory a database, that of a manifest, when everything else is on disk.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn finish(&mut self, manifest: u64) -> Result<()> {
        self.is_named = true;
        current::set_current(self.vfs, self.path, manifest)
    }

    /// The lock of the directory.
    ///
    /// # Errors
    /// [`Error::Locked`] when it was lost.
    pub(super) fn guard(&self) -> Result<Arc<dyn LockGuard>> {
        let held = self.lock.as_ref().filter(|guard| guard.is_still_named());
        held.map(Arc::clone).ok_or_else(|| Error::Locked(self.path.to_path_buf()))
    }

    /// Removes what was made, as far as that works: what stays is an unfinished copy.
    pub(super) fn remove(mut self) {
        // Without the lock it may be what another opening has made.
        if self.guard().is_ok() && !self.remove_files() {
            return;
        }
        self.lock = None;
        if self.made {
            let _ = self.vfs.remove_dir(self.path);
        }
    }

    /// False when all has to stay.
    fn remove_files(&self) -> bool {
        let remove = |name: String| self.vfs.remove(&self.path.join(name));
        // CRASH: the name goes before the files that it stands for.
        if self.is_named && current::begin_unfinished(self.vfs, self.path).is_err() {
            let _ = remove(FileKind::Current.name());
            if self.vfs.sync_dir(self.path).is_err() {
                return false;
            }
        }
        let _ = remove(CURRENT_TEMPORARY.to_owned());
        // Backwards, so that `CURRENT` says to the end what the others are.
        for file in self.files.iter().rev() {
            let _ = remove(file.name());
        }
        // With the lock held: who has opened the file and waits for the lock notices that it is
        // gone.
        let _ = remove(FileKind::Lock.name());
        true
    }
}

/// What a copy may find where it is to go.
enum Found {
    Nothing,
    /// What an interrupted copy left.
    Unfinished,
}

/// What is there.
///
/// # Errors
/// [`Error::NotEmpty`] when anything but a copy's leftovers is there, [`Error::Io`].
fn check_free(vfs: &dyn Vfs, path: &Path) -> Result<Found> {
    let entries = match vfs.list(path) {
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(Error::NotEmpty(path.to_path_buf()));
        }
        other => other.map_err(|e| Error::io("list", path, e))?,
    };
    // What an opening that found nothing may leave is as good as nothing, and so is what a copy
    // leaves that was interrupted before it had begun.
    let nothing = [FileKind::Lock.name(), CURRENT_TEMPORARY.to_owned()];
    if entries.iter().all(|entry| nothing.contains(&entry.name) && !entry.is_dir) {
        return Ok(Found::Nothing);
    }
    let is_ours = |entry: &DirEntry| {
        let known = naming::parse(&entry.name).is_some() || entry.name == CURRENT_TEMPORARY;
        known && !entry.is_dir
    };
    if entries.iter().all(is_ours) && current::is_unfinished(vfs, path)? {
        Ok(Found::Unfinished)
    } else {
        Err(Error::NotEmpty(path.to_path_buf()))
    }
}

/// Removes the files of an unfinished copy but for the lock and `CURRENT`, which says what it is.
fn clear(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    let kept = [FileKind::Lock.name(), FileKind::Current.name()];
    let entries = vfs.list(path).map_err(|e| Error::io("list", path, e))?;
    for entry in entries.iter().filter(|entry| !kept.contains(&entry.name)) {
        let file = path.join(&entry.name);
        vfs.remove(&file).map_err(|e| Error::io("remove", file, e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};
    use tidesdb_sys::vfs::RealVfs;

    use super::*;
    use crate::Db;

    #[test]
    fn what_a_killed_copy_left_is_no_database_and_no_obstacle() {
        let place = tempfile::tempdir().unwrap();
        let (vfs, copy) = (RealVfs::new(), place.path().join("copy"));
        let db = Db::open(place.path().join("db"), DbOptions::default()).unwrap();
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        family.put(b"key", b"value").unwrap();
        for files in [&[][..], &["000001.klog", "MANIFEST-000002", CURRENT_TEMPORARY][..]] {
            // Dropped, as by the end of the process: the lock goes and the files stay.
            drop(CopyDirectory::take(&vfs, &copy).unwrap());
            for file in files {
                std::fs::write(copy.join(file), "a part").unwrap();
            }
            let error = Db::open(&copy, DbOptions::default()).unwrap_err();
            assert!(error.to_string().contains("not finished"), "{error}");
            db.backup(&copy).unwrap();
            let opened = Db::open(&copy, DbOptions::default()).unwrap();
            let value = opened.family("family").unwrap().get(b"key").unwrap();
            assert_eq!(value.as_deref(), Some(&b"value"[..]));
            opened.close().unwrap();
            // A database is in the way, and so is what is not a copy's.
            assert!(matches!(db.backup(&copy), Err(Error::NotEmpty(_))));
            std::fs::remove_dir_all(&copy).unwrap();
        }
        drop(CopyDirectory::take(&vfs, &copy).unwrap());
        std::fs::write(copy.join("notes"), "mine").unwrap();
        assert!(matches!(db.backup(&copy), Err(Error::NotEmpty(_))));
        std::fs::remove_file(copy.join("notes")).unwrap();
        let held = CopyDirectory::take(&vfs, &copy).unwrap();
        assert!(matches!(db.backup(&copy), Err(Error::Locked(_))));
        held.remove();
        assert_eq!(std::fs::read_dir(&copy).unwrap().count(), 0);
        db.close().unwrap();
    }
}
