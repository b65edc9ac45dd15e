//! Background work of all families that is queued or runs.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidesdb_base::error::Error;
use tidesdb_sys::sched::{Job, Lane};

use super::Core;
use crate::family::RunningCompactions;
use crate::version::{Catalog, restate_beside};

/// Counts the background work of a database, so that callers can wait for it.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// Jobs queued or running.
    count: AtomicU64,
    /// When timers go off that look for what has expired, in Unix seconds.
    pub expiry_timers: Mutex<BTreeSet<u64>>,
    /// A timer is set that looks whether there is space for work that found none.
    pub awaits_space: AtomicBool,
    /// A timer is set that has compactions read what the system could not read.
    pub awaits_reads: AtomicBool,
    /// A look is queued for what compactions can do since snapshots have gone.
    pub looks_for_released: AtomicBool,
    /// Compactions that started by themselves and run.
    pub running_compactions: RunningCompactions,
}

// ORDERING: SeqCst: a caller that waits for all work to end must not miss a job queued before.
impl Jobs {
    /// A job is queued.
    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// A job has run, or was dropped unrun.
    pub(crate) fn remove(&self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether work found no space on the disk, and is tried again when there is some.
    pub(crate) fn await_space(&self) -> bool {
        // A look that comes late costs one more try.
        self.awaits_space.load(Ordering::SeqCst)
    }

    /// No job is queued or runs.
    pub(crate) fn are_done(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }
}

/// Counts a job from the moment it is queued until it has run or was dropped unrun.
struct JobGuard(Arc<Core>);

impl JobGuard {
    fn new(core: &Arc<Core>) -> Self {
        core.work.jobs.add();
        Self(Arc::clone(core))
    }
}

impl Drop for JobGuard {
    fn drop(&mut self) {
        self.0.work.jobs.remove();
        self.0.work.progress.notify();
        // After the count: see `sweep_in_background`. Once the database is closed the directory may
        // be another's.
        if !self.0.health.is_closed() {
            self.0.storage.files.obsolete.try_sweep();
        }
    }
}

impl Core {
    /// Queues work in a lane of the scheduler.
    pub(crate) fn submit(&self, lane: Lane, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        self.env.scheduler.submit(lane, self.job(work));
    }

    /// As [`Core::submit`], for work that writers wait for. Returns whether a thread for that is
    /// free.
    pub(crate) fn submit_urgent(
        &self,
        lane: Lane,
        work: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> bool {
        self.env.scheduler.submit_urgent(lane, self.job(work))
    }

    /// Work as a job of the scheduler, which counts from now on.
    pub(crate) fn job(&self, work: impl FnOnce(&Arc<Self>) + Send + 'static) -> Job {
        let Some(core) = self.this.upgrade() else { return Box::new(|| ()) };
        let guard = JobGuard::new(&core);
        Box::new(move || {
            let _noted = guard.0.work.callers.note_thread();
            // A job that panics leaves its family's flags as they were; the database refuses writes
            // from then on and all that wait get the reason.
            if catch_unwind(AssertUnwindSafe(|| work(&guard.0))).is_err() {
                let cause = Error::Internal("a background job panicked".to_owned());
                guard.0.health.fail(cause);
            }
        })
    }

    /// Queues the preparation of the next log segment, and that the files of old ones are closed.
    pub(crate) fn prepare_log_later(&self) {
        self.submit(Lane::Housekeeping, |core| core.storage.log.prepare_next());
        self.close_log_segments_later();
    }

    /// Queues that one of the old segments is closed while there are many. One at a time: the lane
    /// has a sync to do at its time in between.
    fn close_log_segments_later(&self) {
        if self.storage.log.has_many_open() {
            self.submit(Lane::Sync, |core| match core.storage.log.close_oldest() {
                Ok(()) => core.close_log_segments_later(),
                Err(_) => core.repair_log_later(),
            });
        }
    }

    /// Queues that the manifest is restated, if it has become long: in the lane of jobs that no
    /// writer waits for.
    pub(crate) fn restate_manifest_later(&self, catalog: &mut Catalog) {
        if catalog.should_be_restated() {
            self.submit(Lane::Compaction, |core| {
                // A failure leaves all as it was, and an edit has it tried again.
                let _ = restate_beside(&core.storage.catalog);
            });
        }
    }
}
