//! A file system whose chosen calls fail: the error sweep's instrument.
//!
//! [`FaultVfs`] wraps any other file system and passes calls through, counting those of the
//! operations it was set to count. A test first runs a scenario to learn how many calls it makes,
//! then once per call `k` with that call failing once or from there on. Short writes and flipped
//! bits are ordered by the count of writes or reads alone. A failed call never reaches the wrapped
//! file system, with two exceptions: a failed sync makes it forget unsynced bytes, as a kernel
//! does, and a failed write takes some of the bytes in front, that of a log segment whole pages.
//!
//! Threads: any; the plan and the counters share one lock, held only while deciding.

mod ops;
#[cfg(test)]
mod tests;
mod wrapped;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use self::wrapped::{FaultFile, FaultSegment};
use tidesdb_sys::sync::lock;
use tidesdb_sys::vfs::{
    DirEntry, File, LockGuard, LockMode, LogSegment, OpenMode, SegmentMode, Vfs,
};

pub use self::ops::{Op, OpSet};

/// Whether a fault passes or stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// One call fails, later ones succeed.
    Once,
    /// The call and those after it fail, so many in all; then all succeed. Calls that several
    /// threads make at once fail together.
    Times(u64),
    /// The call and all counted calls after it fail, until [`FaultVfs::clear_faults`].
    Forever,
}

/// What a failing call reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// An error of this kind.
    Kind(io::ErrorKind),
    /// The operating system's error of this number, such as `EIO`.
    Raw(i32),
}

impl FaultError {
    /// The disk is full.
    pub const NO_SPACE: Self = Self::Raw(libc::ENOSPC);
    /// The device failed.
    pub const IO: Self = Self::Raw(libc::EIO);

    fn to_error(self) -> io::Error {
        match self {
            Self::Kind(kind) => kind.into(),
            Self::Raw(number) => io::Error::from_raw_os_error(number),
        }
    }
}

/// One counted call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Number of counted calls before it.
    pub index: u64,
    /// What was called.
    pub op: Op,
    /// On which file or directory.
    pub path: Arc<Path>,
}

// More than a dozen fields: one for each kind of fault, and the counters.
#[derive(Debug)]
struct Plan {
    counted: OpSet,
    calls: u64,
    reads: u64,
    writes: u64,
    fired: u64,
    failure: Option<(u64, FaultKind, FaultError)>,
    short_writes: Vec<(u64, usize)>,
    read_flips: Vec<(u64, u64)>,
    longest_write: Option<usize>,
    records: Option<Vec<CallRecord>>,
    damaged_name: Option<String>,
    unreadable: Option<(String, Range<u64>)>,
    refuses_exchanges: bool,
}

impl Plan {
    fn new() -> Self {
        Self {
            counted: OpSet::ALL,
            calls: 0,
            reads: 0,
            writes: 0,
            fired: 0,
            failure: None,
            short_writes: Vec::new(),
            read_flips: Vec::new(),
            longest_write: None,
            records: None,
            damaged_name: None,
            unreadable: None,
            refuses_exchanges: false,
        }
    }

    fn admit(&mut self, op: Op, path: &Arc<Path>) -> io::Result<()> {
        if !self.counted.contains(op) {
            return Ok(());
        }
        let index = self.calls;
        self.calls += 1;
        if let Some(records) = &mut self.records {
            records.push(CallRecord { index, op, path: Arc::clone(path) });
        }
        let Some((at, kind, error)) = self.failure else { return Ok(()) };
        let hit = match kind {
            FaultKind::Once => index == at,
            FaultKind::Times(count) => index >= at && index - at < count,
            FaultKind::Forever => index >= at,
        };
        if hit {
            self.fired += 1;
            return Err(error.to_error());
        }
        Ok(())
    }

    /// How many of `len` bytes the next write may take.
    fn write_limit(&mut self, len: usize) -> usize {
        let index = self.writes;
        self.writes += 1;
        let short = self.short_writes.iter().find(|(at, _)| *at == index).map(|(_, bytes)| *bytes);
        let limit = short.or(self.longest_write).map_or(len, |limit| limit.min(len));
        if limit < len {
            self.fired += 1;
        }
        limit
    }

    /// Whether a read of the file from `at` on covers what can't be read.
    fn is_unreadable(&mut self, path: &Path, at: u64, len: usize) -> bool {
        let covers = |(name, bytes): &(String, Range<u64>)| {
            path.file_name() == Some(name.as_ref())
                && at < bytes.end
                && at + len as u64 > bytes.start
        };
        let is_unreadable = self.unreadable.as_ref().is_some_and(covers);
        self.fired += u64::from(is_unreadable);
        is_unreadable
    }

    /// The bit that the next read is to get wrong.
    fn next_read_flip(&mut self) -> Option<u64> {
        let index = self.reads;
        self.reads += 1;
        self.read_flips.iter().find(|(at, _)| *at == index).map(|(_, bit)| *bit)
    }
}

/// Called before each call with its operation and path.
pub type CallHook = Arc<dyn Fn(Op, &Path) + Send + Sync>;

/// The plan, shared with every open file.
struct Shared {
    plan: Mutex<Plan>,
    hook: Mutex<Option<CallHook>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Shared {
    fn admit(&self, op: Op, path: &Arc<Path>) -> io::Result<()> {
        // Called with nothing locked: a hook may make calls of its own.
        let hook = lock(&self.hook).clone();
        if let Some(hook) = hook {
            hook(op, path);
        }
        lock(&self.plan).admit(op, path)
    }
}

/// Wraps a file system and makes chosen calls fail.
#[derive(Debug)]
pub struct FaultVfs {
    inner: Arc<dyn Vfs>,
    shared: Arc<Shared>,
}

impl FaultVfs {
    /// Passes everything through until told otherwise; counts all operations.
    #[must_use]
    pub fn new(inner: Arc<dyn Vfs>) -> Arc<Self> {
        let (plan, hook) = (Mutex::new(Plan::new()), Mutex::new(None));
        Arc::new(Self { inner, shared: Arc::new(Shared { plan, hook }) })
    }

    /// Has `hook` called before each call, whatever is counted; one that makes calls on this file
    /// system is called for them too. What another thread could do just before a
    /// call, the hook can.
    pub fn before_calls(&self, hook: Option<CallHook>) {
        *lock(&self.shared.hook) = hook;
    }

    /// Counts, records and fails only the operations in `ops` from now on.
    pub fn count_only(&self, ops: OpSet) {
        lock(&self.shared.plan).counted = ops;
    }

    /// Makes the counted call with index `call` (from 0, since creation or [`FaultVfs::reset`])
    /// fail. Replaces an earlier order.
    pub fn fail_call(&self, call: u64, kind: FaultKind, error: FaultError) {
        lock(&self.shared.plan).failure = Some((call, kind, error));
    }

    /// Makes the write with index `write` among all file writes take only `bytes` bytes.
    pub fn short_write(&self, write: u64, bytes: usize) {
        lock(&self.shared.plan).short_writes.push((write, bytes));
    }

    /// Makes every file write take at most `bytes` bytes.
    pub fn limit_writes(&self, bytes: Option<usize>) {
        lock(&self.shared.plan).longest_write = bytes;
    }

    /// Inverts one bit of what the read with index `read` among all file reads returns; `bit` is
    /// taken modulo the bits returned.
    pub fn flip_read(&self, read: u64, bit: u64) {
        lock(&self.shared.plan).read_flips.push((read, bit));
    }

    /// Makes each read of the file `name` that covers one of these bytes fail, as bad sectors of a
    /// disk do.
    pub fn fail_reads_of(&self, name: &str, bytes: Range<u64>) {
        lock(&self.shared.plan).unreadable = Some((name.to_owned(), bytes));
    }

    /// Removes every directory's record of the file `name`, which can't be opened any more.
    pub fn damage_record(&self, name: &str) {
        lock(&self.shared.plan).damaged_name = Some(name.to_owned());
    }

    /// Has names exchanged no more, as on a file system that can't do that. The calls count all the
    /// same, as renames.
    pub fn refuse_exchanges(&self) {
        lock(&self.shared.plan).refuses_exchanges = true;
    }

    fn is_damaged(&self, path: &Path) -> bool {
        let plan = lock(&self.shared.plan);
        plan.damaged_name.as_ref().is_some_and(|name| path.file_name() == Some(name.as_ref()))
    }

    /// Forgets all faults; counters and records stay.
    pub fn clear_faults(&self) {
        let mut plan = lock(&self.shared.plan);
        plan.failure = None;
        plan.short_writes.clear();
        plan.read_flips.clear();
        plan.longest_write = None;
        plan.damaged_name = None;
        plan.unreadable = None;
    }

    /// Forgets all faults and starts all counts and records again.
    pub fn reset(&self) {
        let mut plan = lock(&self.shared.plan);
        let fresh = Plan {
            counted: plan.counted,
            records: plan.records.as_ref().map(|_| Vec::new()),
            ..Plan::new()
        };
        *plan = fresh;
    }

    /// Starts or stops recording counted calls.
    pub fn record(&self, on: bool) {
        lock(&self.shared.plan).records = on.then(Vec::new);
    }

    /// The counted calls recorded so far.
    #[must_use]
    pub fn records(&self) -> Vec<CallRecord> {
        lock(&self.shared.plan).records.clone().unwrap_or_default()
    }

    /// Number of counted calls so far, failed ones included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        lock(&self.shared.plan).calls
    }

    /// Number of calls that an ordered fault has changed so far.
    #[must_use]
    pub fn fired(&self) -> u64 {
        lock(&self.shared.plan).fired
    }

    fn admit(&self, op: Op, path: &Path) -> io::Result<Arc<Path>> {
        let path = Arc::from(path);
        self.shared.admit(op, &path)?;
        Ok(path)
    }
}

impl Vfs for FaultVfs {
    fn hold_dir(self: Arc<Self>, dir: &Path) -> io::Result<Arc<dyn Vfs>> {
        let inner = Arc::clone(&self.inner).hold_dir(dir)?;
        Ok(Arc::new(Self { inner, shared: Arc::clone(&self.shared) }))
    }

    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>> {
        let op = if how == OpenMode::CreateNew { Op::Create } else { Op::Open };
        let name = self.admit(op, path)?;
        if self.is_damaged(path) {
            return Err(FaultError::IO.to_error());
        }
        let inner = self.inner.open(path, how)?;
        Ok(Arc::new(FaultFile { inner, shared: Arc::clone(&self.shared), path: name }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.admit(Op::CreateDir, path)?;
        self.inner.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.admit(Op::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.admit(Op::Rename, one)?;
        if lock(&self.shared.plan).refuses_exchanges {
            return Err(FaultError::Raw(libc::EINVAL).to_error());
        }
        self.inner.exchange(one, other)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.admit(Op::Link, to)?;
        self.inner.link(from, to)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.canonical(path)
    }

    fn is_same_dir(&self, one: &Path, other: &Path) -> io::Result<bool> {
        self.inner.is_same_dir(one, other)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.admit(Op::Remove, path)?;
        self.inner.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.admit(Op::RemoveDir, path)?;
        self.inner.remove_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.admit(Op::List, dir)?;
        let mut entries = self.inner.list(dir)?;
        for entry in entries.iter_mut().filter(|entry| self.is_damaged(entry.name.as_ref())) {
            (entry.len, entry.damage) = (0, Some(FaultError::IO.to_error().to_string()));
        }
        Ok(entries)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.admit(Op::SyncDir, dir)?;
        self.inner.sync_dir(dir)
    }

    fn log_segment(
        &self,
        path: &Path,
        size: u64,
        how: SegmentMode,
    ) -> io::Result<Arc<dyn LogSegment>> {
        let op = match how {
            SegmentMode::Create => Op::SegmentCreate,
            SegmentMode::Reuse => Op::SegmentReuse,
        };
        let name = self.admit(op, path)?;
        let inner = self.inner.log_segment(path, size, how)?;
        Ok(Arc::new(FaultSegment { inner, shared: Arc::clone(&self.shared), path: name }))
    }

    fn lock(&self, path: &Path, how: LockMode) -> io::Result<Box<dyn LockGuard>> {
        self.admit(Op::Lock, path)?;
        self.inner.lock(path, how)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.admit(Op::FreeBytes, dir)?;
        self.inner.free_bytes(dir)
    }

    fn volume_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.inner.volume_bytes(dir)
    }
}
