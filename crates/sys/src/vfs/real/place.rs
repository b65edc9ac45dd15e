//! Names in a directory that is held open.
//!
//! A path below the held directory is looked up from the descriptor of that directory, so that it
//! means the same file wherever the process or the directory moves. All other paths are looked up
//! as usual.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::retry_on_intr;

use crate::descriptors::{beside_standard, open_above_standard};
use crate::vfs::{DirEntry, means_damage};

/// A directory that is held open, and the path that it was opened by.
#[derive(Debug)]
pub(super) struct HeldDir {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl HeldDir {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_path_buf(), descriptor: open_dir(CWD, path)? })
    }
}

/// A name: a path, and the directory that it is looked up from.
#[derive(Clone, Debug)]
pub(super) struct Place {
    held: Option<Arc<HeldDir>>,
    path: PathBuf,
}

impl Place {
    /// The place of `path` as seen from `held`.
    pub(super) fn of(held: Option<&Arc<HeldDir>>, path: &Path) -> Self {
        let below = held.and_then(|held| {
            let below = path.strip_prefix(&held.path).ok()?;
            Some((held, below))
        });
        match below {
            // A directory is not one of the names in it; only what it holds can be reached here.
            Some((held, below)) if !below.as_os_str().is_empty() => {
                Self { held: Some(Arc::clone(held)), path: below.to_path_buf() }
            }
            _ => Self { held: None, path: path.to_path_buf() },
        }
    }

    fn base(&self) -> BorrowedFd<'_> {
        self.held.as_ref().map_or(CWD, |held| held.descriptor.as_fd())
    }

    fn open(&self, flags: OFlags) -> io::Result<fs::File> {
        let mode = Mode::from_raw_mode(0o666);
        let flags = flags | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(self.base(), &self.path, flags, mode);
        Ok(open_above_standard(|| Ok(retry_on_intr(open)?))?.into())
    }

    pub(super) fn open_for_reading(&self) -> io::Result<fs::File> {
        self.open(OFlags::RDONLY)
    }

    pub(super) fn open_for_writing(&self) -> io::Result<fs::File> {
        self.open(OFlags::RDWR)
    }

    pub(super) fn open_or_create(&self) -> io::Result<fs::File> {
        self.open(OFlags::RDWR | OFlags::CREATE)
    }

    pub(super) fn create(&self) -> io::Result<fs::File> {
        self.open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    pub(super) fn create_dir(&self) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(self.base(), &self.path, Mode::from_raw_mode(0o777))?)
    }

    pub(super) fn rename_to(&self, to: &Self) -> io::Result<()> {
        Ok(rustix::fs::renameat(self.base(), &self.path, to.base(), &to.path)?)
    }

    pub(super) fn link_to(&self, to: &Self) -> io::Result<()> {
        // A symbolic link by itself may mean nothing in another directory.
        let flags = AtFlags::SYMLINK_FOLLOW;
        Ok(rustix::fs::linkat(self.base(), &self.path, to.base(), &to.path, flags)?)
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.base(), &self.path, AtFlags::empty())?)
    }

    pub(super) fn remove_dir(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.base(), &self.path, AtFlags::REMOVEDIR)?)
    }

    /// Device and inode of the file that the name means now.
    pub(super) fn identity(&self) -> io::Result<(u64, u64)> {
        let found = rustix::fs::statat(self.base(), &self.path, AtFlags::empty())?;
        // The fields are narrower on other systems.
        Ok((found.st_dev as u64, found.st_ino as u64))
    }
}

/// Does something with the directory `path` as seen from `held`.
pub(super) fn with_dir<R>(
    held: Option<&Arc<HeldDir>>,
    path: &Path,
    work: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>,
) -> io::Result<R> {
    match held {
        Some(held) if held.path == path => work(held.descriptor.as_fd()),
        _ => {
            let place = Place::of(held, path);
            work(open_dir(place.base(), &place.path)?.as_fd())
        }
    }
}

/// Device and inode of an open directory.
pub(super) fn identity_of(dir: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let found = rustix::fs::fstat(dir)?;
    // The fields are narrower on other systems.
    Ok((found.st_dev as u64, found.st_ino as u64))
}

/// The names in an open directory, sorted.
pub(super) fn list(dir: BorrowedFd<'_>) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in beside_standard(|| Dir::read_from(dir))? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let found = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            // Removed by another process between the listing and the question.
            Err(rustix::io::Errno::NOENT) => continue,
            other => other.map_err(io::Error::from),
        };
        let name = OsStr::from_bytes(name.to_bytes()).to_string_lossy().into_owned();
        entries.push(match found {
            Ok(found) => {
                let is_dir = FileType::from_raw_mode(found.st_mode).is_dir();
                let len = if is_dir { 0 } else { found.st_size.try_into().unwrap_or(0) };
                DirEntry { name, is_dir, len, damage: None }
            }
            Err(e) if means_damage(&e) => {
                let is_dir = entry.file_type().is_dir();
                DirEntry { name, is_dir, len: 0, damage: Some(e.to_string()) }
            }
            Err(e) => return Err(e),
        });
    }
    entries.sort_unstable();
    Ok(entries)
}

fn open_dir(base: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(base, path, flags, Mode::empty());
    open_above_standard(|| Ok(retry_on_intr(open)?))
}
