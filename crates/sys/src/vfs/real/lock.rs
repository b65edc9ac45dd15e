//! The lock that keeps a second opener out of a directory.
//!
//! Two parts. An advisory lock of the operating system on the lock file excludes other
//! processes and vanishes with its holder, however that dies. A registry of the files locked by
//! this process excludes a second opener here even where the operating system's lock belongs to
//! the process as a whole (network file systems emulate it that way). The registry is keyed by
//! device and inode, so that a second path to the same file is recognised.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

use crate::sync::lock;
use crate::vfs::LockGuard;

/// Device and inode: what makes two paths the same file.
type FileIdentity = (u64, u64);

static HELD: Mutex<BTreeSet<FileIdentity>> = Mutex::new(BTreeSet::new());

/// The lock, held while this lives.
#[derive(Debug)]
pub(super) struct RealLock {
    file: fs::File,
    _registered: Registered,
}

impl Drop for RealLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that this one is just starting holds copies
        // of all descriptors until it executes its program, and with them the lock. If unlocking
        // fails, closing still releases it then.
        let _ = self.file.unlock();
    }
}

impl LockGuard for RealLock {}

/// An entry of the registry, removed on drop.
#[derive(Debug)]
struct Registered(FileIdentity);

impl Registered {
    fn new(identity: FileIdentity) -> io::Result<Self> {
        if lock(&HELD).insert(identity) { Ok(Self(identity)) } else { Err(held()) }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock(&HELD).remove(&self.0);
    }
}

impl RealLock {
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let metadata = file.metadata()?;
        let registered = Registered::new((metadata.dev(), metadata.ino()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file, _registered: registered }),
            Err(fs::TryLockError::WouldBlock) => Err(held()),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

fn held() -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, "the lock is held by another opener")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_alone_refuses_a_second_holder() {
        // No file has this identity: the operating system's lock plays no part.
        let identity = (u64::MAX, u64::MAX);
        let held = Registered::new(identity).unwrap();
        assert_eq!(Registered::new(identity).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(held);
        Registered::new(identity).unwrap();
    }
}
