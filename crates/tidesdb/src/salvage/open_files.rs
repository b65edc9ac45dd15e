//! The files of the source that are open, which are few at a time.
//!
//! A database may have more tables than a process may have descriptors. A [`PooledFile`] opens its
//! file when it is read, and another one is closed for it. Any thread may read.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tidesdb_sys::vfs::{File, OpenMode, ReadAt, Vfs, means_damage};

/// Files that are open at a time.
const MOST_OPEN: usize = 16;

/// The files that are open, the one that was used last in front.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    vfs: Arc<dyn Vfs>,
    open: Mutex<VecDeque<(PathBuf, Arc<dyn File>)>>,
}

impl OpenFiles {
    pub(crate) const fn new(vfs: Arc<dyn Vfs>) -> Self {
        Self { vfs, open: Mutex::new(VecDeque::new()) }
    }

    fn get(&self, path: &PathBuf) -> io::Result<Arc<dyn File>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.iter().position(|(known, _)| known == path);
        let (path, file) = match known.and_then(|at| open.remove(at)) {
            Some(known) => known,
            None => {
                // First room, then the file: the limit of the process may be just this.
                open.truncate(MOST_OPEN - 1);
                let opened = match self.vfs.open(path, OpenMode::Read) {
                    // As with reads, the disk gets a second chance.
                    Err(e) if means_damage(&e) => self.vfs.open(path, OpenMode::Read),
                    other => other,
                };
                (path.clone(), opened?)
            }
        };
        open.push_front((path, Arc::clone(&file)));
        Ok(file)
    }
}

/// A file that is open only as long as it is among those that were used last.
#[derive(Debug)]
pub(crate) struct PooledFile {
    files: Arc<OpenFiles>,
    path: PathBuf,
    len: u64,
}

impl PooledFile {
    /// The file at `path`, which must be there.
    ///
    /// # Errors
    /// As [`Vfs::open`] and [`File::len`].
    pub(crate) fn open(files: &Arc<OpenFiles>, path: PathBuf) -> io::Result<Self> {
        let len = files.get(&path)?.len()?;
        Ok(Self { files: Arc::clone(files), path, len })
    }
}

impl ReadAt for PooledFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.files.get(&self.path)?.read_at(buffer, at)
    }

    fn file_len(&self) -> io::Result<u64> {
        Ok(self.len)
    }
}
