//! A file system that nothing can be changed through: what stands behind the promise of an opening
//! for reading.
//!
//! [`ReadOnlyVfs`] passes looks on to the file system that it wraps, opens files for reading only,
//! and refuses every change as a file system that is mounted for reading does. [`ReadOnlyFile`]
//! does the same for a single file, of anything that can be read.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DirEntry, File, LockGuard, LockMode, LogSegment, OpenMode, SegmentMode, Vfs};

/// Refuses all changes of the file system that it wraps.
#[derive(Debug)]
pub struct ReadOnlyVfs(Arc<dyn Vfs>);

impl ReadOnlyVfs {
    /// A view of `inner` that changes nothing.
    #[must_use]
    pub fn new(inner: Arc<dyn Vfs>) -> Arc<Self> {
        Arc::new(Self(inner))
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::Error::from_raw_os_error(libc::EROFS))
}

impl Vfs for ReadOnlyVfs {
    fn hold_dir(self: Arc<Self>, dir: &Path) -> io::Result<Arc<dyn Vfs>> {
        Ok(Self::new(Arc::clone(&self.0).hold_dir(dir)?))
    }

    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>> {
        if how == OpenMode::Read { self.0.open(path, how) } else { refused() }
    }

    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.canonical(path)
    }

    fn is_same_dir(&self, one: &Path, other: &Path) -> io::Result<bool> {
        self.0.is_same_dir(one, other)
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn remove_dir(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.list(dir)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        refused()
    }

    fn log_segment(
        &self,
        _path: &Path,
        _size: u64,
        _how: SegmentMode,
    ) -> io::Result<Arc<dyn LogSegment>> {
        refused()
    }

    fn lock(&self, path: &Path, how: LockMode) -> io::Result<Box<dyn LockGuard>> {
        if how == LockMode::Shared { self.0.lock(path, how) } else { refused() }
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.0.free_bytes(dir)
    }

    fn volume_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.0.volume_bytes(dir)
    }
}

/// Bytes that can be read at any place: what [`ReadOnlyFile`] makes a [`File`] of.
pub trait ReadAt: Send + Sync + Debug {
    /// As [`File::read_at`].
    ///
    /// # Errors
    /// As [`File::read_at`].
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// As [`File::len`].
    ///
    /// # Errors
    /// As [`File::len`].
    fn file_len(&self) -> io::Result<u64>;
}

/// A file of which only reading succeeds.
#[derive(Debug)]
pub struct ReadOnlyFile<R>(pub R);

impl<R: ReadAt> File for ReadOnlyFile<R> {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.read_at(buffer, at)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.file_len()
    }

    fn write_at(&self, _bytes: &[u8], _at: u64) -> io::Result<usize> {
        refused()
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        refused()
    }

    fn sync_data(&self) -> io::Result<()> {
        refused()
    }

    fn sync_all(&self) -> io::Result<()> {
        refused()
    }

    fn allocate(&self, _len: u64) -> io::Result<()> {
        refused()
    }
}
