//! What background work is done for a family, and why it failed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tidesdb_base::error::Error;
use tidesdb_lockfree::sync::lock;

use super::{ExpiryOutlooks, RunningClaims};
use crate::version::CoveredTables;

/// Why work of one kind last failed. It is returned once, and forgotten when the work succeeds.
#[derive(Debug, Default)]
pub(crate) struct Failure(Mutex<Option<Box<Error>>>);

impl Failure {
    pub(crate) fn keep(&self, error: Error) {
        *lock(&self.0) = Some(Box::new(error));
    }

    pub(crate) fn take(&self) -> Option<Error> {
        lock(&self.0).take().map(|error| *error)
    }

    pub(crate) fn is_kept(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// Forgets the failure if `is_over` says so.
    pub(crate) fn forget_if(&self, is_over: impl FnOnce(&mut Error) -> bool) {
        lock(&self.0).take_if(|error| is_over(error));
    }
}

/// Flushes of a family.
#[derive(Debug, Default)]
pub(crate) struct FamilyFlushes {
    /// One is queued or running; at most one at a time.
    under_way: AtomicBool,
    /// Held from the choice of a memtable to be written out until its tables are in the view. The
    /// repair of the log flushes concurrently with the jobs of the families, and a memtable flushed
    /// twice could end up above a newer one.
    pub writing_out: Mutex<()>,
    pub failure: Failure,
}

impl FamilyFlushes {
    /// True for the caller that is to flush the family, and that reports when that has ended.
    pub(crate) fn begin(&self) -> bool {
        // ORDERING: decides which caller queues the job; the job clears the flag before it looks
        // for work a last time, so a memtable frozen meanwhile is not forgotten.
        !self.under_way.swap(true, Ordering::SeqCst)
    }

    /// See [`FamilyFlushes::begin`].
    pub(crate) fn end(&self) {
        // ORDERING: see `begin`.
        self.under_way.store(false, Ordering::SeqCst);
    }

    /// One is queued or running.
    pub(crate) fn are_under_way(&self) -> bool {
        // ORDERING: pairs with the swap in `begin`.
        self.under_way.load(Ordering::SeqCst)
    }
}

/// Keys, ascending, at which the key space of a family is cut.
pub(crate) type SliceBounds = Arc<[Vec<u8>]>;

/// Compactions of a family.
// More than a dozen fields: what jobs, looks and callers know of each other.
#[derive(Debug, Default)]
pub(crate) struct FamilyCompactions {
    under_way: Mutex<RunningClaims>,
    /// Those that are queued or running by themselves.
    jobs: AtomicUsize,
    /// Callers that wait until no compaction is under way.
    callers: AtomicUsize,
    /// A look for what flushes have left to merge is queued.
    look_queued: AtomicBool,
    /// A look at whether the family is still being written is due.
    quiet_check: AtomicBool,
    /// A snapshot may be watched that keeps something of the family.
    awaits_snapshots: AtomicBool,
    /// Where flushes and compactions end their tables, see `output/slices.rs`.
    pub slice_bounds: Mutex<SliceBounds>,
    /// Tables that may go unread.
    pub covered: Mutex<CoveredTables>,
    /// When tables may go or are to be merged because of what has expired.
    pub expiry: ExpiryOutlooks,
    /// When the family is to be looked at again because of what will have expired, in Unix seconds.
    pub expiry_look: AtomicU64,
    /// Range tombstones may have come to their end since they were looked through last.
    pub tombstones_due: AtomicBool,
    /// Held while range tombstones are let go of that no table needs.
    pub dropping_tombstones: Mutex<()>,
    /// Writers and flushes do without compactions, so it does not affect them.
    pub failure: Failure,
}

impl FamilyCompactions {
    /// Which runs are being merged, and what is queued. Locked while runs are claimed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, RunningClaims> {
        lock(&self.under_way)
    }

    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.under_way.try_lock().is_err()
    }

    // ORDERING of jobs, of the look and of the check: as for flushes.

    pub(crate) fn job_begins(&self) {
        self.jobs.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn job_ends(&self) {
        self.jobs.fetch_sub(1, Ordering::SeqCst);
    }

    /// A compaction is queued or running by itself.
    pub(crate) fn have_jobs(&self) -> bool {
        self.jobs.load(Ordering::SeqCst) > 0
    }

    /// True for the caller that is to queue a look for the next compaction.
    pub(crate) fn begin_look(&self) -> bool {
        !self.look_queued.swap(true, Ordering::SeqCst)
    }

    /// The look begins, and sees what was there when it was asked for: what comes from now on needs
    /// another one.
    pub(crate) fn look_begins(&self) {
        self.look_queued.swap(false, Ordering::SeqCst);
    }

    /// True for the caller that is to look later whether the family is still being written.
    pub(crate) fn begin_quiet_check(&self) -> bool {
        !self.quiet_check.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn end_quiet_check(&self) {
        self.quiet_check.store(false, Ordering::SeqCst);
    }

    // ORDERING of the wait for snapshots: SeqCst; the mark goes before the watch, so the look that
    // the end of the snapshot starts finds it. A look takes the mark away before it begins: it
    // watches again what it finds held still.

    /// A snapshot will be watched that keeps something of the family: its end has the family looked
    /// at.
    pub(crate) fn await_snapshots(&self) {
        self.awaits_snapshots.store(true, Ordering::SeqCst);
    }

    /// Whether a snapshot may have been watched since this was last asked.
    pub(crate) fn take_awaits_snapshots(&self) -> bool {
        self.awaits_snapshots.swap(false, Ordering::SeqCst)
    }

    /// A caller waits until no compaction is under way.
    pub(crate) fn caller_waits(&self) {
        // ORDERING: relaxed; a late look costs one more compaction.
        self.callers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn caller_has_waited(&self) {
        // ORDERING: as in `caller_waits`.
        self.callers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Compactions that start by themselves make way for callers that wait.
    pub(crate) fn make_way(&self) -> bool {
        // ORDERING: as in `caller_waits`.
        self.callers.load(Ordering::Relaxed) > 0
    }
}
