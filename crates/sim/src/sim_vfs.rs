//! A disk in memory that forgets what was not synced: the judge of every crash test.
//!
//! [`SimVfs`] behaves like a file system while the process lives, and [`SimVfs::crash_image`]
//! yields the disk that a process kill or a power cut would leave at this very moment, under the
//! strictest reading of what storage promises (see [`tidesdb_sys::vfs`]). A hook set with
//! [`SimVfs::on_mutation`] runs before and after every change, so that one pass over a workload
//! visits a crash at each of them. Same seed and same calls give the same disk, byte for byte:
//! compare [`SimVfs::trace_hash`] and [`SimVfs::state_hash`].
//!
//! Threads: any; one lock guards the state, and it is not held while a hook runs. A hook is not
//! called again for changes made by the thread that is inside it on the same disk.

mod content;
mod damage;
mod disk;
mod file;
mod handles;
mod image;
#[cfg(test)]
mod tests;
mod writes;

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use self::disk::{Disk, NodeId};
use self::handles::{OpenNode, SimFile, SimLock, SimSegment};
use crate::rng::mix64;
use tidesdb_sys::sync::lock;
use tidesdb_sys::vfs::{
    DirEntry, File, LockGuard, LockMode, LogSegment, OpenMode, SegmentMode, Vfs,
};

pub use self::damage::Corruption;
pub use self::image::CrashProfile;

/// The unit in which the medium takes or loses bytes.
pub const SECTOR_BYTES: u64 = 512;

/// The unit in which a copy into a log segment becomes visible.
pub const SEGMENT_PIECE_BYTES: u64 = 64;

/// The unit in which a file system takes the bytes of one write.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// How log segments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogForm {
    /// Through a mapping of space that is reserved: a write becomes visible in pieces of
    /// [`SEGMENT_PIECE_BYTES`] and never fails, and a sync may cover a part.
    Mapped,
    /// By calls, to blocks that take space when they are written: page by page, so that a write
    /// without space has taken a part, and a sync covers the whole file.
    Written,
}

/// What free space a disk without a capacity reports.
const BOUNDLESS_FREE_BYTES: u64 = 1 << 40;

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each variant is named after the call it stands for")]
pub enum MutationKind {
    Create,
    CreateDir,
    Rename,
    Link,
    Remove,
    RemoveDir,
    SyncDir,
    Write,
    SetLen,
    Allocate,
    Sync,
    SegmentCreate,
    SegmentPiece,
    SegmentSync,
    SegmentZero,
}

/// Whether a hook runs before a change or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The change has been announced but the disk does not show it yet.
    Before,
    /// The change has been made, or has failed.
    After,
}

/// One change of the disk, as a hook sees it.
#[derive(Clone, Copy, Debug)]
pub struct Mutation<'a> {
    /// Counts all changes of this disk from 0.
    pub index: u64,
    /// Before or after.
    pub phase: Phase,
    /// What is done.
    pub kind: MutationKind,
    /// To which file or directory; the old name for a rename, the new one for a link.
    pub path: &'a Path,
    /// Offset of the bytes concerned, 0 where there is none.
    pub at: u64,
    /// Number of bytes concerned, or the length or sync limit asked for.
    pub len: u64,
}

/// Called around every change. It may read the disk, take images and make changes of its own.
pub type MutationHook = Arc<dyn Fn(&SimVfs, &Mutation<'_>) + Send + Sync>;

/// A change about to be made: a [`Mutation`] before it is counted.
pub(crate) struct Site<'a> {
    kind: MutationKind,
    path: &'a Path,
    at: u64,
    len: u64,
}

impl<'a> Site<'a> {
    fn of_path(kind: MutationKind, path: &'a Path) -> Self {
        Self { kind, path, at: 0, len: 0 }
    }
}

struct Shared {
    disk: Mutex<Disk>,
    hook: Mutex<Option<MutationHook>>,
}

/// The simulated disk.
pub struct SimVfs {
    shared: Arc<Shared>,
}

thread_local! {
    /// The disks inside whose hook this thread is.
    static IN_HOOK: RefCell<Vec<*const Shared>> = const { RefCell::new(Vec::new()) };
}

/// Marks the thread as being inside a disk's hook.
struct InHook;

impl InHook {
    fn enter(shared: *const Shared) -> Option<Self> {
        IN_HOOK.with_borrow_mut(|disks| {
            if disks.contains(&shared) {
                return None;
            }
            disks.push(shared);
            Some(Self)
        })
    }
}

impl Drop for InHook {
    fn drop(&mut self) {
        IN_HOOK.with_borrow_mut(|disks| disks.pop());
    }
}

impl SimVfs {
    /// An empty disk with only the root directory `/`. The seed decides which unsynced sectors
    /// reach the medium early, and nothing else.
    #[must_use]
    pub fn new(seed: u64) -> Arc<Self> {
        Self::with_disk(Disk::new(seed))
    }

    fn with_disk(disk: Disk) -> Arc<Self> {
        let shared = Shared { disk: Mutex::new(disk), hook: Mutex::new(None) };
        Arc::new(Self { shared: Arc::new(shared) })
    }

    fn handle(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.shared.disk)
    }

    /// The disk after a crash now: independent of this one, nothing open or locked, no hook,
    /// everything on it durable. The same state, profile and seed give the same image.
    #[must_use]
    pub fn crash_image(&self, profile: CrashProfile, seed: u64) -> Arc<Self> {
        let crashed = image::crash(&self.disk(), profile, seed);
        Self::with_disk(crashed)
    }

    /// An independent copy, unsynced state included; nothing open or locked, no hook.
    #[must_use]
    pub fn fork(&self) -> Arc<Self> {
        let mut disk = self.disk().clone();
        disk.open.clear();
        disk.locked.clear();
        Self::with_disk(disk)
    }

    /// Sets or removes the hook called before and after every change.
    pub fn on_mutation(&self, hook: Option<MutationHook>) {
        let old = std::mem::replace(&mut *lock(&self.shared.hook), hook);
        // Outside the lock: what the old hook captured may use the disk when it is dropped.
        drop(old);
    }

    /// Number of changes announced so far.
    #[must_use]
    pub fn mutations(&self) -> u64 {
        self.disk().mutations
    }

    /// Chooses how log segments are written that are created or opened from now on. At first they
    /// are mapped.
    pub fn set_log_form(&self, form: LogForm) {
        self.disk().log_form = form;
    }

    /// Limits the bytes that all files together may take; `None` lifts the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.disk().capacity = bytes;
    }

    /// Lets `syncs` more syncs of files or log segments succeed and the one after them fail with
    /// an I/O error, losing that file's dirty sectors for good.
    pub fn fail_sync_after(&self, syncs: u64) {
        self.disk().syncs_before_failure = Some(syncs);
    }

    /// Hash of every change made so far, in order, with its bytes.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.disk().trace
    }

    fn lose_dirty(&self, node: NodeId) {
        if let Ok(file) = self.disk().file_mut(node) {
            file.lose_dirty();
        }
    }

    /// Announces a change, makes it, and reports it done.
    fn mutate<T>(
        &self,
        site: &Site<'_>,
        bytes: &[u8],
        act: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        let index = {
            let mut disk = self.disk();
            let path = hash_bytes(site.path.as_os_str().as_encoded_bytes());
            disk.trace_event(&[site.kind as u64, path, site.at, site.len, hash_bytes(bytes)]);
            disk.mutations += 1;
            disk.mutations - 1
        };
        let hook = lock(&self.shared.hook).clone();
        let Some(hook) = hook else { return act(&mut self.disk()) };
        let Site { kind, path, at, len } = *site;
        let mut mutation = Mutation { index, phase: Phase::Before, kind, path, at, len };
        self.run_hook(&hook, &mutation);
        let result = act(&mut self.disk());
        mutation.phase = Phase::After;
        self.run_hook(&hook, &mutation);
        result
    }

    fn run_hook(&self, hook: &MutationHook, mutation: &Mutation<'_>) {
        if let Some(_inside) = InHook::enter(Arc::as_ptr(&self.shared)) {
            hook(self, mutation);
        }
    }
}

/// Hash of a byte string; stable across platforms.
fn hash_bytes(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix64(hash ^ u64::from_le_bytes(word)).wrapping_add(1)
    })
}

impl Vfs for SimVfs {
    fn hold_dir(self: Arc<Self>, dir: &Path) -> io::Result<Arc<dyn Vfs>> {
        // Paths are absolute here, and no simulated directory is ever renamed.
        self.disk().list(dir)?;
        Ok(self)
    }

    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>> {
        let node = match how {
            OpenMode::Read | OpenMode::ReadWrite => self.disk().find_file(path)?,
            OpenMode::CreateNew => {
                let site = Site::of_path(MutationKind::Create, path);
                self.mutate(&site, &[], |disk| disk.create_file(path))?
            }
        };
        let open = OpenNode::new(self, node, path);
        Ok(Arc::new(SimFile { open, writable: how != OpenMode::Read }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let site = Site::of_path(MutationKind::CreateDir, path);
        self.mutate(&site, &[], |disk| disk.create_dir(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let site = Site::of_path(MutationKind::Rename, from);
        let to_bytes = to.as_os_str().as_encoded_bytes();
        self.mutate(&site, to_bytes, |disk| disk.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let site = Site::of_path(MutationKind::Link, to);
        let from_bytes = from.as_os_str().as_encoded_bytes();
        self.mutate(&site, from_bytes, |disk| disk.link(from, to))
    }

    fn is_same_dir(&self, one: &Path, other: &Path) -> io::Result<bool> {
        let disk = self.disk();
        Ok(disk.find(one)? == disk.find(other)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let site = Site::of_path(MutationKind::Remove, path);
        self.mutate(&site, &[], |disk| disk.remove(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let site = Site::of_path(MutationKind::RemoveDir, path);
        self.mutate(&site, &[], |disk| disk.remove_dir(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.disk().list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let site = Site::of_path(MutationKind::SyncDir, dir);
        self.mutate(&site, &[], |disk| disk.sync_dir(dir))
    }

    fn log_segment(
        &self,
        path: &Path,
        size: u64,
        how: SegmentMode,
    ) -> io::Result<Arc<dyn LogSegment>> {
        if size == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let node = match how {
            SegmentMode::Create => {
                let kind = MutationKind::SegmentCreate;
                let site = Site { kind, path, at: 0, len: size };
                self.mutate(&site, &[], |disk| disk.create_segment(path, size))?
            }
            SegmentMode::Reuse => {
                let mut disk = self.disk();
                let node = disk.find_file(path)?;
                if disk.file(node)?.volatile.len() < size {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                disk.take_log_form(node)?;
                node
            }
        };
        let form = self.disk().log_form;
        let open = OpenNode::new(self, node, path);
        Ok(Arc::new(SimSegment { open, capacity: size, form }))
    }

    fn lock(&self, path: &Path, how: LockMode) -> io::Result<Box<dyn LockGuard>> {
        let existing = self.disk().find_file(path);
        let node = match existing {
            Err(error) if error.kind() == io::ErrorKind::NotFound && how == LockMode::Exclusive => {
                let site = Site::of_path(MutationKind::Create, path);
                self.mutate(&site, &[], |disk| disk.create_file(path))?
            }
            other => other?,
        };
        Ok(Box::new(SimLock::take(OpenNode::new(self, node, path), how)?))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let disk = self.disk();
        disk.find(dir)?;
        Ok(disk.room().min(BOUNDLESS_FREE_BYTES))
    }

    fn volume_bytes(&self, dir: &Path) -> io::Result<u64> {
        let disk = self.disk();
        disk.find(dir)?;
        Ok(disk.capacity.unwrap_or(BOUNDLESS_FREE_BYTES))
    }
}

impl fmt::Debug for SimVfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimVfs").field("mutations", &self.mutations()).finish_non_exhaustive()
    }
}
