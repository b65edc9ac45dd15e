//! Background work: what is queued when, and what happens when it fails.
//!
//! | file | what |
//! |---|---|
//! | this one | flushes, one of a family at a time |
//! | `compactions`, `compaction_triggers` | compactions that start by themselves, and why |
//! | `manual_compactions` | those that a caller asks for |
//! | `deletions` | flushes for what deletions in memory hide on disk |
//! | `interval_sync`, `repair` | syncs of the log, and its repair |
//! | `full_disk`, `retries` | a full disk is freed, and work that found no space tried again |
//! | `requests` | how lower layers ask for all this |
//!
//! A failure is kept with the family and given to callers that wait. The work is queued again by
//! the next writer that needs it, or when there is space again (`retries`), so that a disk that was
//! full is tried again without reopening anything.

mod compaction_triggers;
mod compactions;
mod deletions;
mod full_disk;
mod interval_sync;
mod manual_compactions;
mod repair;
mod requests;
mod retries;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidesdb_base::error::{Error, ErrorKind, Result};
use tidesdb_base::event::{Event, StallReason};
use tidesdb_sys::sched::Lane;

pub(crate) use self::manual_compactions::WaitLimit;
pub(crate) use self::requests::BACKGROUND;
use crate::core::Core;
use crate::family::{Failure, FamilyState};
use crate::flow::StallTimer;
use crate::telemetry::counters::Work;

/// A family is quiet when nothing was committed for this long.
const QUIET_PERIOD: Duration = Duration::from_secs(2);

/// Families that are flushed for the sake of the log before others in the lane have their turn.
const FAMILIES_PER_TRIM: usize = 16;

impl Core {
    /// Queues a flush of the family unless one is queued or running.
    fn queue_flush(&self, family: &Arc<FamilyState>) {
        let may_flush = !self.env.options.read_only && !self.work.control.is_paused();
        if !may_flush || family.view.load().frozen.is_empty() {
            return;
        }
        if !family.flushes.begin() {
            return;
        }
        let family = Arc::clone(family);
        self.submit(Lane::Flush, move |core| core.run_flushes(&family, usize::MAX));
    }

    /// Flushes up to `most` frozen memtables of the family; another job does what is left.
    fn run_flushes(&self, family: &Arc<FamilyState>, most: usize) {
        let mut left = most;
        let result = loop {
            if left == 0 || family.is_dropped() || self.work.control.is_paused() {
                break Ok(());
            }
            match self.flush_oldest(family) {
                Ok(true) => {
                    left -= 1;
                    self.work.progress.notify();
                    // Writers at full speed keep this going for as long as they like.
                    self.queue_look(family);
                    // Writers who nearly outran the flush would fill the rest while nothing is
                    // written out.
                    self.freeze(family, family.options.freeze_bytes() / 4 * 3);
                }
                Ok(false) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        family.flushes.end();
        match result {
            Ok(()) => {
                family.flushes.failure.take();
                self.schedule_flush(family);
                self.queue_look(family);
            }
            Err(e) => self.flush_failed(family, e),
        }
        self.storage.files.obsolete.try_sweep();
    }

    fn flush_failed(&self, family: &FamilyState, error: Error) {
        family.counters.add(Work::FlushFailures, 1);
        self.note_failure(family, &family.flushes.failure, error);
        // ORDERING: SeqCst; see `WriterStall::take_failure`.
        self.flow.flush_failed.store(true, Ordering::SeqCst);
        // A flush that needs a log that failed works again only after its repair, and writers who
        // wait for the flush never get as far as the log.
        self.repair_log_later();
    }

    /// Keeps a failure of background work for callers that wait for it.
    fn note_failure(&self, family: &FamilyState, failure: &Failure, error: Error) {
        let event =
            Event::BackgroundFailed { family: family.name().to_string(), error: error.clone() };
        if error.kind() == ErrorKind::Full {
            self.retry_when_there_is_space();
        }
        failure.keep(error);
        if self.flow.failure_reports.is_due(self.env.clock.monotonic_nanos()) {
            self.telemetry.events.report(&event);
        }
    }

    /// Gives back what only the next burst of writes would need: free log segments, the memory of
    /// former memtables, and what the block cache leaves to them.
    fn release_spare(&self) {
        self.storage.log.remove_free_segments();
        self.memory.pool.release_idle();
        self.memory.buffer_pool.release();
        self.memory.budget.forget_memtables();
        self.review_memory();
    }

    /// From now on files that nothing refers to any more are deleted in the background, whichever
    /// thread was the last to read them. A job that is queued or runs sweeps when it has ended, so
    /// that one is queued for this alone only when there is none.
    pub(crate) fn sweep_in_background(&self) {
        let this = self.this.clone();
        self.storage.files.obsolete.on_first(move || {
            let Some(core) = this.upgrade() else { return };
            // In a forked child the files and threads are the parent's.
            let is_ours = core.health.is_opening_process() && !core.health.is_closed();
            if is_ours && core.work.jobs.are_done() {
                core.submit(Lane::Housekeeping, |_| ());
            }
        });
    }

    /// Queues flushes of the families that keep the log from being shortened.
    fn queue_log_trim(&self) {
        self.submit(Lane::Housekeeping, |core| core.trim_log());
    }

    fn trim_log(&self) {
        let pinning = self.families_pinning_log(FAMILIES_PER_TRIM);
        let mut stop = self.work.control.is_paused() || self.health.is_closed();
        let mut flushed = 0;
        for family in &pinning {
            if stop {
                break;
            }
            self.freeze(family, 0);
            if family.flushes.begin() {
                // No more than what pins the log: this lane has one thread, and others wait.
                let frozen = family.view.load().frozen.len();
                self.run_flushes(family, frozen);
                stop = family.flushes.failure.is_kept();
                flushed += 1;
            }
        }
        if flushed > 0 && pinning.len() == FAMILIES_PER_TRIM && !stop {
            // Behind what else waits in the lane: the next log segment may be among it.
            self.trim_log_later();
        } else {
            // ORDERING: pairs with the swap in `limit_retained_log`.
            self.work.control.log_is_trimmed.store(false, Ordering::SeqCst);
        }
    }

    /// Writes the family's memory to tables and waits for it.
    ///
    /// # Errors
    /// Why that failed; [`Error::Stalled`] when no flush gets anywhere.
    pub(crate) fn flush_family(&self, family: &Arc<FamilyState>) -> Result<()> {
        self.check_writable(family)?;
        let target = self.storage.log.published();
        self.freeze_and_flush(family, 0);
        family.flushes.failure.take();
        let mut stall_timer = self.stall_timer_with_flushes();
        loop {
            if family.view.load().first_unflushed() > target {
                return Ok(());
            }
            if family.is_dropped() {
                return Err(family.dropped_error());
            }
            let seen = self.work.progress.now();
            if let Some(cause) = family.flushes.failure.take() {
                return Err(cause);
            }
            self.health.check_open()?;
            self.health.check()?;
            if self.work.control.is_paused() {
                return Err(Error::Paused);
            }
            let (progress, now) = (self.flow.flushes.progress(), self.env.clock.monotonic_nanos());
            stall_timer.check(progress, now, StallReason::FlushQueue)?;
            self.schedule_flush(family);
            self.wait_for_progress(seen);
        }
    }

    /// Waits until nothing is queued or running, taking the families to be quiet.
    ///
    /// # Errors
    /// Why background work failed; [`Error::Stalled`] when it gets nowhere.
    pub(crate) fn wait_idle(&self) -> Result<()> {
        // Locks that are taken below may be held for good in a forked child.
        self.health.check_not_forked()?;
        let mut stall_timer = self.stall_timer_with_all_work();
        loop {
            let seen = self.work.progress.now();
            // Before the errors: a job keeps its failure before it ends.
            let idle = self.work.jobs.are_done();
            for family in self.families.all() {
                family.take_background_error().map_or(Ok(()), Err)?;
            }
            self.health.check_open()?;
            self.health.check()?;
            if idle && !self.submit_quiet_compactions() {
                self.release_spare();
                self.storage.files.obsolete.sweep();
                return Ok(());
            }
            self.wait_for_work(&mut stall_timer, seen)?;
        }
    }

    /// Waits until no job is queued or runs. From now on no compaction begins by itself: the end of
    /// one would queue the next, as long as there is a backlog. Failures of jobs are left to the
    /// callers that ask for them.
    ///
    /// # Errors
    /// [`Error::Stalled`] when the work gets nowhere, [`Error::Closed`], and why writes are
    /// refused.
    pub(crate) fn finish_compactions(&self) -> Result<()> {
        // As in `wait_idle`.
        self.health.check_not_forked()?;
        self.work.control.end_compactions();
        let mut stall_timer = self.stall_timer_with_all_work();
        loop {
            let seen = self.work.progress.now();
            if self.work.jobs.are_done() {
                return Ok(());
            }
            self.health.check_open()?;
            self.health.check()?;
            self.wait_for_work(&mut stall_timer, seen)?;
        }
    }

    /// A wait for background work of any kind that begins now.
    pub(crate) fn stall_timer_with_all_work(&self) -> StallTimer {
        let now = self.env.clock.monotonic_nanos();
        StallTimer::new(self.env.options.stall_timeout_ms, self.all_progress(), now)
    }

    /// Changes whenever a flush, a compaction or another job gets on.
    fn all_progress(&self) -> u64 {
        // ORDERING: relaxed; only whether it changes matters.
        let merged = self.flow.merged.load(Ordering::Relaxed);
        self.flow.flushes.progress().wrapping_add(merged).wrapping_add(self.work.progress.now())
    }

    /// Waits until background work has got on since `seen`, or does some of it.
    ///
    /// # Errors
    /// [`Error::Stalled`] when none makes progress for as long as `stall_timer` allows.
    pub(crate) fn wait_for_work(&self, stall_timer: &mut StallTimer, seen: u64) -> Result<()> {
        let flushing = self.families.all().iter().any(|family| family.is_flushing());
        let reason = if flushing { StallReason::FlushQueue } else { StallReason::CompactionDebt };
        stall_timer.check(self.all_progress(), self.env.clock.monotonic_nanos(), reason)?;
        self.wait_for_progress(seen);
        Ok(())
    }

    /// Waits until background work has got on since `seen`, or does some of it.
    pub(crate) fn wait_for_progress(&self, seen: u64) {
        if !self.env.scheduler.run_one_job() {
            self.work.progress.wait(seen);
        }
    }
}

#[cfg(test)]
mod tests;
