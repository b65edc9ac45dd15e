//! The lock that keeps others out of a directory: one writer, or any number of readers.
//!
//! Two parts. An advisory lock of the operating system on the lock file excludes other
//! processes and vanishes with its holder, however that dies. A registry of the files locked by
//! this process excludes openers here even where the operating system's lock belongs to
//! the process as a whole (network file systems emulate it that way). The registry is keyed by
//! device and inode, so that a second path to the same file is recognised.
//!
//! The registry owns the open files, so that a forked child can let go of all of them: it has
//! copies of the descriptors, and would keep the locks of a parent that is gone. The child closes
//! its copies and does not unlock, which would take the lock from the parent as well.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::place::Place;
use crate::forks;
use crate::sync::lock;
use crate::vfs::{LockGuard, LockMode};

/// Device and inode: what makes two paths the same file.
type FileIdentity = (u64, u64);

/// How often a lock is tried whose file is replaced all the time.
const MOST_TRIES: usize = 16;

/// A lock of this process.
struct Held {
    number: u64,
    identity: FileIdentity,
    how: LockMode,
    /// `None` in a forked child, which has none of its parent's locks.
    file: Option<fs::File>,
}

/// Locked inside [`forks::keep_out`] only: no thread holds it while the process forks.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

/// The lock, held while this lives.
#[derive(Debug)]
pub(super) struct RealLock {
    number: u64,
    identity: FileIdentity,
    place: Place,
}

impl RealLock {
    /// Takes the lock whose file is at `place`.
    pub(super) fn take(place: Place, how: LockMode) -> io::Result<Self> {
        forks::watch();
        for _ in 0..MOST_TRIES {
            let (number, identity) = forks::keep_out(|| lock_file(&place, how))?;
            // Dropping it unlocks.
            let taken = Self { number, identity, place: place.clone() };
            // Another process may have removed the file between its opening and the lock.
            if taken.is_still_named() {
                return Ok(taken);
            }
        }
        Err(held())
    }
}

/// Opens and locks the file, and enters it.
fn lock_file(place: &Place, how: LockMode) -> io::Result<(u64, FileIdentity)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let file = match how {
        LockMode::Exclusive => place.open_or_create()?,
        LockMode::Shared => place.open_for_reading()?,
    };
    let metadata = file.metadata()?;
    let identity = (metadata.dev(), metadata.ino());
    let mut all = lock(&HELD);
    if all.iter().any(|other| other.excludes(identity, how)) {
        return Err(held());
    }
    let locked = match how {
        LockMode::Exclusive => file.try_lock(),
        LockMode::Shared => file.try_lock_shared(),
    };
    locked.map_err(|error| match error {
        fs::TryLockError::WouldBlock => held(),
        fs::TryLockError::Error(error) => error,
    })?;
    // ORDERING: relaxed; only that numbers differ matters.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    all.push(Held { number, identity, how, file: Some(file) });
    Ok((number, identity))
}

impl Held {
    fn excludes(&self, identity: FileIdentity, how: LockMode) -> bool {
        let both_share = self.how == LockMode::Shared && how == LockMode::Shared;
        self.file.is_some() && self.identity == identity && !both_share
    }
}

impl Drop for RealLock {
    fn drop(&mut self) {
        forks::keep_out(|| {
            let mut all = lock(&HELD);
            let own = all.iter().position(|held| held.number == self.number);
            let file = own.and_then(|at| all.swap_remove(at).file);
            // Closing is not enough: a process that this one is just starting holds copies
            // of all descriptors until it executes its program, and with them the lock. If
            // unlocking fails, closing still releases it then.
            file.map(|file| file.unlock())
        });
    }
}

impl LockGuard for RealLock {
    fn is_still_named(&self) -> bool {
        self.place.identity().is_ok_and(|named| named == self.identity)
    }
}

/// Closes a forked child's copies of the lock files. Called inside [`forks::keep_out`].
pub(crate) fn let_go_in_child() {
    for held in lock(&HELD).iter_mut() {
        held.file = None;
    }
}

fn held() -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, "the lock is held by another opener")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_tells_who_excludes_whom() {
        let file = || Some(tempfile::tempfile().unwrap());
        let held = |how, file| Held { number: 0, identity: (1, 2), how, file };
        let (one, shared) = (LockMode::Exclusive, LockMode::Shared);
        assert!(held(one, file()).excludes((1, 2), shared));
        assert!(held(shared, file()).excludes((1, 2), one));
        assert!(!held(shared, file()).excludes((1, 2), shared));
        assert!(!held(one, file()).excludes((1, 3), one));
        assert!(!held(one, None).excludes((1, 2), one), "a parent's lock");
    }
}
