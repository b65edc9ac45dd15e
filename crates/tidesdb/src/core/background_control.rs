//! What users have asked of background work.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidesdb_base::error::{Error, Result};

/// What users have asked of background work.
#[derive(Debug, Default)]
pub(crate) struct BackgroundControl {
    /// Callers that want no flush and no compaction to start.
    paused: AtomicU64,
    /// Threads of callers that free the disk.
    reclaims: AtomicU64,
    /// No compaction runs any more until the database is reopened.
    stopped: AtomicBool,
    /// No compaction starts by itself any more until the database is reopened.
    ending: AtomicBool,
    pub sync_timer: Mutex<SyncTimer>,
    /// A job that lets the log be shortened is queued or running.
    pub log_is_trimmed: AtomicBool,
}

/// The timer of interval syncs.
#[derive(Debug, Default)]
pub(crate) struct SyncTimer {
    /// Raised for each timer: one with another number ends when it is due.
    pub number: u64,
    /// `None` when nothing asks for interval syncs.
    pub interval: Option<Duration>,
    /// When the next sync is due, in monotonic nanoseconds.
    pub due_nanos: u64,
}

// ORDERING: SeqCst throughout: set before the flags of running work are read, and read by that
// work after it has set its flag, so that one of the two sees the other.
impl BackgroundControl {
    /// No flush and no compaction starts any more until as many calls of
    /// [`BackgroundControl::resume`].
    pub(crate) fn pause(&self) {
        self.paused.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes one call of [`BackgroundControl::pause`] back; true when it was the last.
    pub(crate) fn resume(&self) -> bool {
        let less_one = |paused: u64| paused.checked_sub(1);
        let before = self.paused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less_one);
        before == Ok(1)
    }

    /// Takes all calls of [`BackgroundControl::pause`] back.
    pub(crate) fn end_pauses(&self) {
        self.paused.store(0, Ordering::SeqCst);
    }

    /// True while no flush and no compaction may start.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst) > 0
    }

    /// A thread frees the disk, unless it sees a pause now.
    pub(crate) fn reclaim_begins(&self) {
        self.reclaims.fetch_add(1, Ordering::SeqCst);
    }

    /// It has ended.
    pub(crate) fn reclaim_ends(&self) {
        self.reclaims.fetch_sub(1, Ordering::SeqCst);
    }

    /// A thread frees the disk.
    pub(crate) fn has_reclaims(&self) -> bool {
        self.reclaims.load(Ordering::SeqCst) > 0
    }

    /// No compaction runs any more.
    pub(crate) fn stop_compactions(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// True once compactions were stopped.
    pub(crate) fn compactions_are_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Refuses to compact once compactions were stopped: a caller must not take what was not
    /// compacted for compacted.
    ///
    /// # Errors
    /// [`Error::CompactionsStopped`].
    pub(crate) fn check_compactions_run(&self) -> Result<()> {
        if self.compactions_are_stopped() { Err(Error::CompactionsStopped) } else { Ok(()) }
    }

    /// No compaction starts by itself any more; those that run go on.
    pub(crate) fn end_compactions(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// True once no compaction may start by itself.
    pub(crate) fn compactions_end(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }
}
