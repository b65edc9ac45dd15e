//! The directory of a damaged database, which is only read.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::manifest::current::CURRENT_TEMPORARY;
use tidesdb_files::naming::{self, FileKind};
use tidesdb_sys::vfs::{
    File, LockGuard, LockMode, ReadOnlyFile, ReadOnlyVfs, RealVfs, Vfs, means_damage,
};

use crate::core::lies_in;
use crate::opening::killed_repair::MARK;
use crate::salvage::lenient::LenientFile;
use crate::salvage::open_files::{OpenFiles, PooledFile};
use crate::salvage::place::{resolved, working_for};

/// Folder in which an opening puts files that the manifest does not know.
const SET_ASIDE: &str = "set-aside";

/// A damaged database that a salvage reads.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) dir: PathBuf,
    /// Held while the files are read. There may be no lock file.
    _lock: Option<Box<dyn LockGuard>>,
    open_files: Arc<OpenFiles>,
    /// Every file with a name of a database, with its length.
    pub(crate) files: Vec<(FileKind, u64)>,
    /// All other names.
    pub(crate) others: Vec<String>,
}

impl Source {
    /// Lists the directory `dir` and keeps writers away from it.
    ///
    /// # Errors
    /// [`Error::Locked`] when a database is open there for writing, [`Error::NotADatabase`] when no
    /// file has a name of a database, [`Error::Io`].
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let vfs = RealVfs::new();
        let lock = match vfs.lock(&dir.join(FileKind::Lock.name()), LockMode::Shared) {
            Ok(guard) => Some(guard),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(Error::Locked(dir.to_path_buf()));
            }
            Err(e) if is_without_lock(&e) => None,
            Err(e) => return Err(Error::io("lock", dir, e)),
        };
        Self::list(Arc::new(vfs), dir, lock)
    }

    /// As [`Source::open`], and keeps readers away as well, for as long as this lives.
    ///
    /// # Errors
    /// [`Error::Locked`] when a database is open there, otherwise as [`Source::open`].
    pub(crate) fn open_alone(dir: &Path) -> Result<Self> {
        let vfs = RealVfs::new();
        // Taking the lock makes its file.
        vfs.list(dir).map_err(|e| Error::io("list", dir, e))?;
        let lock = vfs.lock(&dir.join(FileKind::Lock.name()), LockMode::Exclusive);
        let lock = lock.map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => Error::Locked(dir.to_path_buf()),
            _ => Error::io("lock", dir, e),
        })?;
        Self::list(Arc::new(vfs), dir, Some(lock))
    }

    /// Lists a directory that is locked as far as it can be.
    ///
    /// # Errors
    /// [`Error::NotADatabase`], [`Error::Io`].
    pub(crate) fn list(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        lock: Option<Box<dyn LockGuard>>,
    ) -> Result<Self> {
        let vfs: Arc<dyn Vfs> = ReadOnlyVfs::new(vfs);
        let entries = vfs.list(dir).map_err(|e| Error::io("list", dir, e))?;
        let (mut files, mut others) = (Vec::new(), Vec::new());
        for entry in entries {
            match naming::parse(&entry.name) {
                Some(kind) if !entry.is_dir => files.push((kind, entry.len)),
                _ => others.push(entry.name),
            }
        }
        let of_database = |(kind, _): &(FileKind, u64)| {
            !matches!(kind, FileKind::Closed | FileKind::Lock | FileKind::EventLog)
        };
        if !files.iter().any(of_database) {
            let reason = "no file in it has a name of a database's file".to_owned();
            return Err(Error::NotADatabase { path: dir.to_path_buf(), reason });
        }
        let open_files = Arc::new(OpenFiles::new(Arc::clone(&vfs)));
        Ok(Self { vfs, dir: dir.to_path_buf(), _lock: lock, open_files, files, others })
    }

    /// Refuses a destination in the directory, and one whose work would be done there.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], [`Error::Io`].
    pub(crate) fn check_is_elsewhere(&self, destination: &Path) -> Result<()> {
        let place = resolved(destination)?;
        let is_here = |path: &Path| lies_in(self.vfs.as_ref(), path, &self.dir);
        if is_here(&place) || working_for(&place).iter().any(|path| is_here(path)) {
            let (new, source) = (destination.display(), self.dir.display());
            let text = format!("the new database {new} would lie in {source}");
            return Err(Error::InvalidArgument(text));
        }
        Ok(())
    }

    /// What is wrong with a directory without `CURRENT`.
    pub(crate) fn missing_current(&self) -> Error {
        Error::corruption(self.path(FileKind::Current), 0, "the file is missing")
    }

    /// The file's path.
    pub(crate) fn path(&self, kind: FileKind) -> PathBuf {
        self.dir.join(kind.name())
    }

    /// A file, of which pages that the disk can't read are zeros.
    ///
    /// # Errors
    /// [`Error::Corruption`] when it is missing, or damaged so that it can't be opened.
    /// [`Error::Io`] for all that says nothing of the file: it ends the work.
    pub(crate) fn file(&self, kind: FileKind) -> Result<Arc<dyn File>> {
        let path = self.path(kind);
        match PooledFile::open(&self.open_files, path.clone()) {
            Ok(file) => Ok(Arc::new(ReadOnlyFile(LenientFile(Arc::new(ReadOnlyFile(file)))))),
            Err(e) if means_damage(&e) => {
                Err(Error::corruption(path, 0, format!("the file can't be opened: {e}")))
            }
            Err(e) => Err(Error::missing_or_io("open", &path, e)),
        }
    }

    /// Whether there is a file of that name.
    pub(crate) fn has(&self, kind: FileKind) -> bool {
        self.files.iter().any(|(known, _)| *known == kind)
    }

    /// The numbers of all tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = u64> {
        self.files.iter().filter_map(|(kind, _)| match kind {
            FileKind::Table(number) => Some(*number),
            _ => None,
        })
    }

    /// The numbers of all manifests, newest first.
    pub(crate) fn manifests(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self
            .files
            .iter()
            .filter_map(|(kind, _)| match kind {
                FileKind::Manifest(number) => Some(*number),
                _ => None,
            })
            .collect();
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        numbers
    }

    /// Names that the engine gives to nothing.
    pub(crate) fn foreign(&self) -> Vec<String> {
        let foreign = |name: &&String| *name != SET_ASIDE && !is_of_engine(name);
        self.others.iter().filter(foreign).cloned().collect()
    }

    /// Names that are no part of the database, each with what is known of it.
    pub(crate) fn unused(&self) -> Vec<(PathBuf, String)> {
        let mut unused = Vec::new();
        for name in &self.others {
            if name == SET_ASIDE {
                let dir = self.dir.join(name);
                match self.vfs.list(&dir) {
                    Ok(entries) => unused.extend(entries.into_iter().map(|entry| {
                        let reason = "an opening has set it aside: no manifest ever named it";
                        (dir.join(entry.name), reason.to_owned())
                    })),
                    // Nothing of it would be used.
                    Err(e) => unused.push((dir, format!("it can't be listed: {e}"))),
                }
            } else if !is_of_engine(name) {
                unused.push((
                    self.dir.join(name),
                    "no file of a database has such a name".to_owned(),
                ));
            }
        }
        unused
    }
}

/// What a crash of the engine leaves in a directory for a while.
fn is_of_engine(name: &str) -> bool {
    name == CURRENT_TEMPORARY || name == MARK
}

/// Whether a lock can't be had because there is none, or because who may read may not lock.
fn is_without_lock(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::Unsupported
    ) || means_damage(error)
}
