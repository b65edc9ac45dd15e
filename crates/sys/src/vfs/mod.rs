//! Files: the one door between the engine and storage.
//!
//! [`Vfs`] names files and directories, [`File`] reads and writes one of them at explicit
//! offsets, [`LogSegment`] is the write-only, preallocated target of the write-ahead log. The
//! implementation is [`RealVfs`]. Tests have two more in `crates/sim`: a disk in memory that can
//! lose, tear and reorder whatever was not synced, and a wrapper that makes chosen calls fail.
//!
//! What callers may assume of storage, and no more:
//! * bytes and lengths are durable only after a successful sync of that file;
//! * created, renamed and removed names are durable only after [`Vfs::sync_dir`] of the parent,
//!   independently of the file's data;
//! * after a failed sync the unsynced bytes may be gone although a second sync succeeds: a
//!   failed sync is final for that file's unsynced content;
//! * a write may be short, and may be torn at any byte by a power cut.
//!
//! All methods may be called from any thread at once. Errors keep the kernel's kind and number
//! (`StorageFull`, `NotFound`, ...); callers add the path when they report them.

mod medium;
mod read_only;
mod real;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use medium::{means_damage, means_shortage};
pub use read_only::{ReadAt, ReadOnlyFile, ReadOnlyVfs};
pub use real::RealVfs;
pub(crate) use real::let_go_of_locks_in_child;

/// How [`Vfs::open`] opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// An existing file, for reading only.
    Read,
    /// An existing file, for reading and writing; its content is kept.
    ReadWrite,
    /// A file that must not exist yet, for reading and writing.
    CreateNew,
}

/// How [`Vfs::log_segment`] obtains its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentMode {
    /// A file that must not exist yet; reads as zeros.
    Create,
    /// An existing file of at least the wanted size, whose old content stays until overwritten.
    Reuse,
}

/// Whom a lock excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// All others. The lock file is created when it is missing.
    Exclusive,
    /// Holders of an exclusive lock only. The lock file must exist; reading it is enough.
    Shared,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name inside the directory; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Whether the name is a directory.
    pub is_dir: bool,
    /// Length in bytes of a file, 0 for a directory.
    pub len: u64,
    /// Why the length is unknown: what the file system keeps of the file is damaged. The length is
    /// 0 then, and whether it is a directory may be wrong.
    pub damage: Option<String>,
}

/// What tells a file from every copy of it, and from what it was before its last change: the number
/// that the file system gave it, and when it was changed last, in seconds and nanoseconds. No
/// program can choose them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileStamp(pub [u64; 3]);

/// A file system. See the module's documentation for what is durable when.
pub trait Vfs: Send + Sync + Debug {
    /// This file system, with the directory `dir` held open: paths below `dir` go on meaning names
    /// in the directory that it is now, wherever the process or the directory moves, and whatever
    /// takes its place. All other paths mean what they meant.
    ///
    /// # Errors
    /// `NotFound` when it does not exist, `NotADirectory`, or the kernel's error.
    fn hold_dir(self: Arc<Self>, dir: &Path) -> io::Result<Arc<dyn Vfs>>;

    /// Opens or creates a file.
    ///
    /// # Errors
    /// `NotFound` or `AlreadyExists` as `how` demands, or the kernel's error.
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>>;

    /// Creates one directory; its parent must exist.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken, or the kernel's error.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Gives `from` the name `to`, atomically replacing a file of that name.
    ///
    /// # Errors
    /// `NotFound` when `from` does not exist, or the kernel's error.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Has two directories change places in one step: at no moment is there nothing at either name.
    /// Both paths mean what they mean to the process, whatever directory is held.
    ///
    /// # Errors
    /// `NotFound` when one of them does not exist; `Unsupported`, and others of the kernel's
    /// errors, where names can't be exchanged.
    fn exchange(&self, _one: &Path, _other: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives the file `from` the name `to` besides, in another directory of the same file system.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken, `NotFound`, or the kernel's error where files can't
    /// have several names.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// The path of what `path` means now, without links. The default has none.
    ///
    /// # Errors
    /// `NotFound` when nothing is there, or the kernel's error.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_path_buf())
    }

    /// Whether both paths mean the same directory.
    ///
    /// # Errors
    /// `NotFound` when one does not exist, or the kernel's error.
    fn is_same_dir(&self, one: &Path, other: &Path) -> io::Result<bool>;

    /// Removes the name of a file. Handles already open keep working.
    ///
    /// # Errors
    /// `NotFound` when it does not exist, or the kernel's error.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `DirectoryNotEmpty`, `NotFound`, or the kernel's error.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Lists the names in a directory, sorted by name. One whose record is damaged
    /// ([`means_damage`]) is among them.
    ///
    /// # Errors
    /// `NotFound` when it does not exist, or the kernel's error.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// Makes all names created, renamed or removed in `dir` so far durable.
    ///
    /// # Errors
    /// The kernel's error; the names may or may not be durable then.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Creates or reopens a log segment of `size` bytes with all of its space reserved on disk.
    ///
    /// A created segment's name and length are durable only after a sync of the segment and of
    /// its directory.
    ///
    /// # Errors
    /// `StorageFull` when the space cannot be reserved (nothing is left behind), `InvalidInput`
    /// when `size` is 0 or the file to reuse is shorter, or as [`Vfs::open`].
    fn log_segment(
        &self,
        path: &Path,
        size: u64,
        how: SegmentMode,
    ) -> io::Result<Arc<dyn LogSegment>>;

    /// Takes the lock named by the file `path`: any number may hold it shared, or one exclusively.
    ///
    /// The lock excludes other processes and other holders in this process, and is released by
    /// dropping the guard or by the end of the process. The file stays. When the call returns,
    /// `path` names the file that was locked: one that was removed meanwhile would exclude none of
    /// those who come later.
    ///
    /// # Errors
    /// `WouldBlock` when another lock excludes this one, `NotFound` when a file to be locked
    /// [`LockMode::Shared`] is missing, or the kernel's error.
    fn lock(&self, path: &Path, how: LockMode) -> io::Result<Box<dyn LockGuard>>;

    /// Bytes that can still be written on the file system holding `dir`.
    ///
    /// # Errors
    /// `Unsupported` when that says nothing of its space; the kernel's error.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;

    /// Size in bytes of the file system holding `dir`.
    ///
    /// # Errors
    /// As [`Vfs::free_bytes`].
    fn volume_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// One open file. Offsets and lengths are bytes.
pub trait File: Send + Sync + Debug {
    /// Reads up to `buffer.len()` bytes from offset `at`; returns how many, 0 at the end.
    ///
    /// # Errors
    /// The kernel's error.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes up to `bytes.len()` bytes at offset `at`; returns how many, possibly fewer.
    ///
    /// # Errors
    /// The kernel's error; `StorageFull` when not even one byte fits.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// The file's length.
    ///
    /// # Errors
    /// The kernel's error.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// As [`File::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// What tells the file from its copies.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` where files have no such thing.
    fn stamp(&self) -> io::Result<FileStamp> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// How many names the file has. While it has another one, removing one frees no space.
    ///
    /// # Errors
    /// The kernel's error.
    fn links(&self) -> io::Result<u64> {
        Ok(1)
    }

    /// Cuts or extends the file to `len` bytes; new bytes read as zeros.
    ///
    /// # Errors
    /// The kernel's error.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes all bytes written so far, and the length needed to read them, durable.
    ///
    /// # Errors
    /// The kernel's error; see the module's documentation for what a failed sync means.
    fn sync_data(&self) -> io::Result<()>;

    /// As [`File::sync_data`], with all other attributes of the file.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    fn sync_all(&self) -> io::Result<()>;

    /// Reserves disk space for the first `len` bytes without changing the file's length.
    ///
    /// A hint: where the platform cannot do it the call succeeds and reserves nothing, so that
    /// only a full disk makes it fail.
    ///
    /// # Errors
    /// `StorageFull` when the disk has no room, or the kernel's error.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Asks the kernel to begin writing these bytes to the disk, so that a later sync has less to
    /// wait for. Makes nothing durable, and leaves what fails to that sync; where there is no such
    /// call, nothing happens.
    fn start_write_back(&self, _at: u64, _len: u64) {}

    /// Says that the file is read here and there: reads then fetch no more than they ask for. What
    /// is read in order has to be announced ([`File::start_reading`]). A hint.
    fn expect_random_reads(&self) {}

    /// Asks the kernel to begin reading these bytes, for a read that comes soon. A hint: errors are
    /// left to that read.
    fn start_reading(&self, _at: u64, _len: u64) {}

    /// Forgets what a failed write-back loses: unsynced bytes stay readable but no later sync
    /// makes them durable. Only simulated files do anything here; fault injection calls it when
    /// it makes a sync fail.
    fn discard_unsynced(&self) {}

    /// Reads exactly `buffer.len()` bytes from offset `at`.
    ///
    /// # Errors
    /// `UnexpectedEof` naming the offset when the file ends before, or as [`File::read_at`].
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_at(&mut buffer[done..], offset_after(at, done)?) {
                Ok(0) => return Err(short_read(at, buffer.len(), done)),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all of `bytes` at offset `at`, however many calls that takes.
    ///
    /// # Errors
    /// As [`File::write_at`]; some of the bytes may have been written then. `WriteZero` when the
    /// file accepts nothing without saying why.
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.write_at(&bytes[done..], offset_after(at, done)?) {
                Ok(0) => {
                    let text = format!("wrote {done} of {} bytes at offset {at}", bytes.len());
                    return Err(io::Error::new(io::ErrorKind::WriteZero, text));
                }
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// One preallocated segment of the write-ahead log. It is write-only: recovery reads the file
/// through [`Vfs::open`].
///
/// Concurrent [`LogSegment::write`] calls must cover disjoint ranges; the log's reservation
/// protocol (one atomic add hands out each byte once) guarantees that. A mapped segment checks it
/// in builds with debug assertions.
pub trait LogSegment: Send + Sync + Debug {
    /// Size in bytes, fixed for life.
    fn capacity(&self) -> u64;

    /// Copies `bytes` to offset `at`. The bytes survive the death of the process from here on,
    /// a power cut only after [`LogSegment::sync`].
    ///
    /// # Errors
    /// `InvalidInput` when the range leaves the segment; a mapped segment cannot fail otherwise,
    /// one that writes with system calls passes on the kernel's error.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Copies `first` to offset `at` and `second` behind it, as [`LogSegment::write`] does with
    /// bytes that lie together.
    ///
    /// # Errors
    /// As [`LogSegment::write`].
    fn write_two(&self, at: u64, first: &[u8], second: &[u8]) -> io::Result<()> {
        // One write, for those to whom writes cost more than bytes; two where there is no memory.
        let mut both = Vec::new();
        if both.try_reserve_exact(first.len() + second.len()).is_err() {
            self.write(at, first)?;
            return self.write(at + first.len() as u64, second);
        }
        both.extend_from_slice(first);
        both.extend_from_slice(second);
        self.write(at, &both)
    }

    /// Makes the bytes `0..upto` durable, with the file's length; `u64::MAX` stands for all.
    ///
    /// # Errors
    /// The kernel's error; a failed sync is final for the segment.
    fn sync(&self, upto: u64) -> io::Result<()>;

    /// Prepares the bytes `from..to` for writing, so that the first write there does not pay for
    /// a page fault. A hint, called by background threads; failures are ignored.
    fn warm(&self, from: u64, to: u64);

    /// Gives back the memory of a segment that takes no more records. It can still be synced, and
    /// written to at the price of a page fault.
    fn cool(&self) {}

    /// Overwrites the whole segment with zeros and syncs it, so that later syncs meet blocks
    /// already written. Must not run concurrently with writes.
    ///
    /// # Errors
    /// The kernel's error.
    fn zero_fill(&self) -> io::Result<()>;

    /// As [`File::discard_unsynced`].
    fn discard_unsynced(&self) {}
}

/// Holds a lock taken with [`Vfs::lock`]; dropping it releases the lock.
pub trait LockGuard: Send + Sync + Debug {
    /// Whether the lock's path still names the file that is locked. If not, the lock excludes none
    /// of those who came since.
    fn is_still_named(&self) -> bool;
}

fn offset_after(at: u64, done: usize) -> io::Result<u64> {
    at.checked_add(done as u64).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn short_read(at: u64, wanted: usize, got: usize) -> io::Error {
    let text = format!("expected {wanted} bytes at offset {at}, found {got}");
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}

/// Checks that `count` bytes at `at` lie inside a segment of `capacity` bytes.
///
/// # Errors
/// `InvalidInput` when they do not: what [`LogSegment::write`] returns.
pub fn check_segment_range(at: u64, count: usize, capacity: u64) -> io::Result<()> {
    let inside = at.checked_add(count as u64).is_some_and(|end| end <= capacity);
    if inside {
        return Ok(());
    }
    let text = format!("{count} bytes at {at} leave a log segment of {capacity} bytes");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}
