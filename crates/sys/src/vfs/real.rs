//! The operating system's files, for any Unix; Linux is first class.
//!
//! A thin layer: one system call per method, no buffering, no state except the registry of locks
//! held by this process and the directory that is held open ([`Vfs::hold_dir`]). Log segments are
//! mapped where the file system is known to overwrite in place (see [`mapping_rule`]) and written
//! with `pwrite` everywhere else, or when the caller asks for it with [`RealVfs::without_mapping`].
//! Every descriptor is close-on-exec.
#![expect(clippy::disallowed_methods, reason = "the door to the file system")]

mod access;
mod claims;
mod lock;
mod mapped_segment;
mod mapping_rule;
mod place;
mod pwrite_segment;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::lock::RealLock;
use self::mapped_segment::MappedSegment;
use self::mapping_rule::{Blocks, may_map};
use self::place::{HeldDir, Place};
use self::pwrite_segment::PwriteSegment;
use super::{
    DirEntry, File, FileStamp, LockGuard, LockMode, LogSegment, OpenMode, SegmentMode, Vfs,
};
use crate::os_calls::{self, ReservedLength};

/// The operating system's file system.
#[derive(Clone, Debug)]
pub struct RealVfs {
    map_log: bool,
    held: Option<Arc<HeldDir>>,
}

impl RealVfs {
    /// Log segments are mapped into memory where that is safe.
    #[must_use]
    pub const fn new() -> Self {
        Self { map_log: true, held: None }
    }

    /// Log segments are always written with system calls.
    #[must_use]
    pub const fn without_mapping() -> Self {
        Self { map_log: false, held: None }
    }

    /// What the link at `path` says, whether anything is there or not.
    ///
    /// # Errors
    /// `InvalidInput` when it is no link, or the kernel's error.
    pub fn link_target(path: &Path) -> io::Result<PathBuf> {
        fs::read_link(path)
    }

    fn place(&self, path: &Path) -> Place {
        Place::of(self.held.as_ref(), path)
    }

    /// What the file system that holds `dir` says of its space.
    fn space(&self, dir: &Path) -> io::Result<rustix::fs::StatVfs> {
        place::with_dir(self.held.as_ref(), dir, |dir| {
            let space = rustix::fs::fstatvfs(dir)?;
            // Some of those that programs serve say nothing, which looks like a full disk.
            if space.f_blocks == 0 {
                return Err(io::ErrorKind::Unsupported.into());
            }
            Ok(space)
        })
    }
}

/// Closes a forked child's copies of its parent's lock files.
pub(crate) use self::lock::let_go_in_child as let_go_of_locks_in_child;

impl Default for RealVfs {
    fn default() -> Self {
        Self::new()
    }
}

impl Vfs for RealVfs {
    fn hold_dir(self: Arc<Self>, dir: &Path) -> io::Result<Arc<dyn Vfs>> {
        let held = Some(Arc::new(HeldDir::open(dir)?));
        Ok(Arc::new(Self { map_log: self.map_log, held }))
    }

    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>> {
        let place = self.place(path);
        let file = match how {
            OpenMode::Read => place.open_for_reading(),
            OpenMode::ReadWrite => place.open_for_writing(),
            OpenMode::CreateNew => place.create(),
        };
        Ok(Arc::new(RealFile { file: file? }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.place(path).create_dir()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.place(from).rename_to(&self.place(to))
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        os_calls::exchange(one, other)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.place(from).link_to(&self.place(to))
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn is_same_dir(&self, one: &Path, other: &Path) -> io::Result<bool> {
        let identity = |path| place::with_dir(self.held.as_ref(), path, place::identity_of);
        Ok(identity(one)? == identity(other)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.place(path).remove()
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.place(path).remove_dir()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        place::with_dir(self.held.as_ref(), dir, place::list)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        place::with_dir(self.held.as_ref(), dir, |dir| Ok(rustix::fs::fsync(dir)?))
    }

    fn log_segment(
        &self,
        path: &Path,
        size: u64,
        how: SegmentMode,
    ) -> io::Result<Arc<dyn LogSegment>> {
        if size == 0 {
            let text = "a log segment needs at least one byte";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let place = self.place(path);
        let (file, blocks) = match how {
            SegmentMode::Create => create_segment_file(&place, size)?,
            SegmentMode::Reuse => reopen_segment_file(&place, size)?,
        };
        if self.map_log && may_map(&file, size, how, blocks) {
            // A kernel that cannot map the file (no address space, a locked-down sandbox) is no
            // reason to fail: the same bytes can be written with system calls.
            if let Ok(mapping) = mapped_segment::Mapping::new(&file, size) {
                return Ok(Arc::new(MappedSegment::new(file, mapping)));
            }
        }
        Ok(Arc::new(PwriteSegment::new(file, size)))
    }

    fn lock(&self, path: &Path, how: LockMode) -> io::Result<Box<dyn LockGuard>> {
        Ok(Box::new(RealLock::take(self.place(path), how)?))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let space = self.space(dir)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn volume_bytes(&self, dir: &Path) -> io::Result<u64> {
        let space = self.space(dir)?;
        Ok(space.f_blocks.saturating_mul(space.f_frsize))
    }
}

fn create_segment_file(place: &Place, size: u64) -> io::Result<(fs::File, Blocks)> {
    let file = place.create()?;
    match reserve_from(&file, size, 0) {
        Ok(blocks) => Ok((file, blocks)),
        Err(error) => {
            // Nothing may be left behind. If even the removal fails there is nothing better to
            // report than the first error.
            let _ = place.remove();
            Err(error)
        }
    }
}

fn reopen_segment_file(place: &Place, size: u64) -> io::Result<(fs::File, Blocks)> {
    let file = place.open_for_writing()?;
    let len = file.metadata()?.len();
    if len < size {
        let text = format!("log segment to reuse has {len} bytes, {size} are needed");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    // Fills holes, should the file have any (copied by a tool that makes files sparse).
    let blocks = reserve_from(&file, size, len)?;
    Ok((file, blocks))
}

/// Reserves `size` bytes of disk space, by writing zeros past `written` where the file system
/// has no call for it.
fn reserve_from(file: &fs::File, size: u64, written: u64) -> io::Result<Blocks> {
    match os_calls::reserve(file, size, ReservedLength::Extended) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            write_zeros(file, written.min(size), size)?;
            Ok(if written == 0 { Blocks::Written } else { Blocks::Unknown })
        }
        other => other.map(|()| Blocks::Reserved),
    }
}

/// Writes zeros over the bytes `from..to`.
fn write_zeros(file: &fs::File, from: u64, to: u64) -> io::Result<()> {
    const CHUNK: usize = 256 << 10;
    let zeros = vec![0_u8; CHUNK];
    let mut at = from;
    while at < to {
        let count = (to - at).min(CHUNK as u64);
        file.write_all_at(&zeros[..count as usize], at)?;
        at += count;
    }
    Ok(())
}

#[derive(Debug)]
struct RealFile {
    file: fs::File,
}

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buffer, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.file.write_at(bytes, at)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn stamp(&self) -> io::Result<FileStamp> {
        let found = self.file.metadata()?;
        let changed = [found.ctime(), found.ctime_nsec()].map(i64::cast_unsigned);
        Ok(FileStamp([found.ino(), changed[0], changed[1]]))
    }

    fn links(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.nlink())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn expect_random_reads(&self) {
        os_calls::expect_random_reads(&self.file);
    }

    fn start_reading(&self, at: u64, len: u64) {
        os_calls::start_reading(&self.file, at, len);
    }

    fn start_write_back(&self, at: u64, len: u64) {
        os_calls::start_write_back(&self.file, at, len);
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match os_calls::reserve(&self.file, len, ReservedLength::Unchanged) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            other => other,
        }
    }
}
