//! Compactions that start by themselves: when they are looked for, and how many run at once.
//! `compaction/schedule.rs` chooses what is compacted next.
//!
//! A job claims the runs that it plans to merge, and the next may be queued while it runs: a
//! compaction of all that lies on the disk takes long, and the runs that are flushed meanwhile must
//! not pile up. Beside other compactions of a family only free runs newer than all of theirs are
//! merged, for the number of runs alone. When all threads are busy a compaction interrupts one of
//! twice its size, on the same thread, so that small ones wait for nothing large. How much may be
//! left undone is bounded by the activity of writers, who are slowed by the number of runs.

use std::sync::Arc;
use std::time::Duration;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, ErrorKind, Result};
use tidesdb_sys::sched::Lane;

use super::QUIET_PERIOD;
use crate::compaction::plan::Activity;
use crate::compaction::schedule::{ClaimedCompaction, MEASURED_PER_LOOK};
use crate::core::Core;
use crate::family::FamilyState;
use crate::version::Measuring;

/// A family at rest, when its check was set up.
struct Pause {
    published: SequenceNumber,
    /// Operations that were committed to it by then.
    written: u64,
    /// How long it has been at rest when it is checked.
    rest: Duration,
    /// Once it is known that there is nothing to do by what is measured already: how far the rest
    /// of its tables was measured. There is no plan until they all are.
    measuring: Option<Measuring>,
}

/// Bytes of values that a compaction moves out of mostly dead value logs, or as many as it merges
/// if these are more.
const VALUES_PER_COMPACTION: u64 = 64 << 20;

/// How long at most until a family at rest is looked at again when there is more to merge than it
/// has rested for.
const LONGEST_BETWEEN_CHECKS: Duration = Duration::from_secs(16);

impl Core {
    /// Queues a compaction of the family if there is one to begin now and none is queued that is no
    /// larger.
    pub(super) fn queue_compaction(&self, family: &Arc<FamilyState>) {
        if self.env.options.read_only {
            return;
        }
        self.await_expiry(family);
        if let Some(bytes) = self.next_compaction(family, Activity::Busy, MEASURED_PER_LOOK).bytes {
            self.submit_compaction(family, Activity::Busy, bytes);
        } else {
            self.watch_holders(family);
            self.schedule_quiet_check(family);
        }
    }

    /// As [`Core::queue_compaction`], by a job of the lane of compactions. A look reads the disk
    /// where range tombstones are new, and may find thousands of tables: writers wait for flushes.
    pub(super) fn queue_look(&self, family: &Arc<FamilyState>) {
        // What ends a pause has all families looked at.
        if !self.may_compact() || !family.compactions.begin_look() {
            return;
        }
        // Callers who wait for compactions wait for the look that may queue one.
        family.compactions.job_begins();
        let family = Arc::clone(family);
        let job = self.job(move |core| {
            family.compactions.look_begins();
            if core.may_compact() && !core.health.is_closed() && !family.is_dropped() {
                core.queue_compaction(&family);
            }
            family.compactions.job_ends();
        });
        self.env.scheduler.submit_sized(Lane::Compaction, 0, job);
    }

    fn submit_compaction(&self, family: &Arc<FamilyState>, activity: Activity, bytes: u64) {
        if !self.may_compact() || !family.compactions.lock().queue(bytes) {
            return;
        }
        family.compactions.job_begins();
        let family = Arc::clone(family);
        let job = self.job(move |core| core.run_compactions(&family, activity, bytes));
        self.env.scheduler.submit_sized(Lane::Compaction, bytes, job);
    }

    /// Whether compactions may start by themselves.
    fn may_compact(&self) -> bool {
        !self.env.options.read_only
            && !self.work.control.is_paused()
            && !self.work.control.compactions_are_stopped()
            && !self.work.control.compactions_end()
    }

    pub(super) fn run_compactions(
        &self,
        family: &Arc<FamilyState>,
        activity: Activity,
        bytes: u64,
    ) {
        family.compactions.lock().begin_queued(bytes);
        let damaged = family.current_version().damaged_files();
        match self.compact_once(family, activity, bytes) {
            // A caller that is waiting for the family's compactions goes on with them.
            Ok(()) if family.compactions.make_way() => {}
            Ok(()) => {
                // That something is damaged stays so, whatever was merged since: a caller must get
                // the error.
                family.compactions.failure.forget_if(|e| e.kind() != ErrorKind::Corruption);
                self.schedule_compaction(family);
            }
            Err(Error::Closed | Error::FamilyDropped(_) | Error::CompactionsStopped) => {}
            Err(e) => {
                self.note_failure(family, &family.compactions.failure, e);
                self.read_failed_files_later(family);
                // The look that queued the job has taken the mark, and watched nothing anew.
                family.compactions.await_snapshots();
                if family.current_version().damaged_files() > damaged {
                    // The next plan does without what was set aside.
                    self.schedule_compaction(family);
                }
            }
        }
        // Only now, so that no caller that asks meanwhile takes the family for idle.
        family.compactions.job_ends();
        self.storage.files.obsolete.try_sweep();
    }

    /// Does the next compaction. Others have their turn before the one after it.
    fn compact_once(
        &self,
        family: &Arc<FamilyState>,
        activity: Activity,
        bytes: u64,
    ) -> Result<()> {
        if family.compactions.make_way()
            || family.is_dropped()
            || self.health.is_closed()
            || !self.may_compact()
        {
            return Ok(());
        }
        let Some(claimed) = self.claim_next(family, activity, bytes)? else { return Ok(()) };
        let ClaimedCompaction { version, planned, claim } = claimed;
        let running = self.work.jobs.running_compactions.begin(planned.bytes);
        let most_values = planned.bytes.max(VALUES_PER_COMPACTION);
        self.compact_runs(family, version, planned.plan, &planned.slice, most_values)?;
        drop((running, claim));
        self.storage.files.obsolete.try_sweep();
        self.work.progress.notify();
        Ok(())
    }

    /// Looks again after a while whether the family is still being written; if not, merges it for
    /// its readers.
    pub(super) fn schedule_quiet_check(&self, family: &Arc<FamilyState>) {
        self.check_after_rest(family, Duration::ZERO);
    }

    /// As [`Core::schedule_quiet_check`], for a family that has been at rest for so long.
    fn check_after_rest(&self, family: &Arc<FamilyState>, rest: Duration) {
        let next = self.next_compaction(family, Activity::RESTING, MEASURED_PER_LOOK);
        if (next.bytes.is_none() && !next.unmeasured) || self.health.is_closed() {
            return;
        }
        if !family.compactions.begin_quiet_check() {
            return;
        }
        let delay = rest.clamp(QUIET_PERIOD, LONGEST_BETWEEN_CHECKS);
        let pause = Pause {
            published: self.storage.log.published(),
            written: family.counters.hot.operations(),
            rest: rest + delay,
            measuring: None,
        };
        let (core, family) = (self.this.clone(), Arc::clone(family));
        let check = move || {
            let Some(core) = core.upgrade() else { return };
            core.check_rested(&family, pause);
        };
        self.env.scheduler.submit_after(Lane::Housekeeping, delay, Box::new(check));
    }

    /// Compacts the family for its readers if nothing was committed to it in the pause.
    fn check_rested(&self, family: &Arc<FamilyState>, mut pause: Pause) {
        if self.storage.log.published() == pause.published {
            self.release_spare();
        }
        if family.counters.hot.operations() != pause.written {
            family.compactions.end_quiet_check();
            // A reader may have come, which waits for less than the next flush.
            self.schedule_compaction(family);
            return;
        }
        if let Some(measuring) = &mut pause.measuring {
            let snapshots = self.isolation.snapshots.list();
            if measuring.go_on(&family.current_version(), &snapshots, MEASURED_PER_LOOK) {
                return self.go_on_measuring(family, pause);
            }
        }
        let activity = Activity::after_rest(pause.rest.as_secs());
        let next = self.next_compaction(family, activity, MEASURED_PER_LOOK);
        if next.bytes.is_none() && next.unmeasured {
            pause.measuring = Some(Measuring::default());
            return self.go_on_measuring(family, pause);
        }
        family.compactions.end_quiet_check();
        match next.bytes {
            Some(bytes) => self.submit_compaction(family, activity, bytes),
            None => {
                // What was measured since the last look may be held.
                self.watch_holders(family);
                self.check_after_rest(family, pause.rest);
            }
        }
    }

    /// Has the check go on, unless the database is being closed.
    fn go_on_measuring(&self, family: &Arc<FamilyState>, pause: Pause) {
        if self.health.is_closed() {
            return family.compactions.end_quiet_check();
        }
        // Behind what else waits in the lane: the next log segment may be among it.
        let family = Arc::clone(family);
        self.submit(Lane::Housekeeping, move |core| core.check_rested(&family, pause));
    }

    /// Queues what flushes and compactions there are to do, taking all families to be quiet.
    /// Returns whether there is any, or a compaction under way.
    pub(super) fn submit_quiet_compactions(&self) -> bool {
        let mut any = false;
        if self.env.options.read_only || self.work.control.is_paused() {
            return false;
        }
        for family in self.families.all() {
            if !family.view.load().frozen.is_empty() {
                self.schedule_flush(&family);
                any = true;
            } else if self.may_compact()
                && let Some(bytes) =
                    self.next_compaction(&family, Activity::RESTING, usize::MAX).bytes
            {
                self.submit_compaction(&family, Activity::RESTING, bytes);
                any = true;
            } else {
                any |= family.is_compacting();
            }
        }
        any
    }
}

#[cfg(test)]
mod tests;
