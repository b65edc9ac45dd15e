//! Background work: what is queued when, and what happens when it fails.
//!
//! At most one flush and one merge per family are queued or running. A failure is kept with the
//! family and given to whoever waits; the work is queued again by the next writer that needs it,
//! so that a disk that was full is tried again without reopening anything.

mod wakeups;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, ErrorKind, Result};
use tidesdb_base::event::{Event, StallReason};
use tidesdb_files::manifest::Change;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sched::Lane;

use crate::compaction::plan::{self, MergePlan, Pace};
use crate::compaction::state::{rules, summarize};
use crate::compaction::{expiry, slices};
use crate::core::Core;
use crate::family::FamilyState;
use crate::flow::Patience;
use crate::key_parts::KeyRange;
use crate::version::{TableFile, Version};

/// A family is quiet when nothing was committed for this long.
const QUIET_PERIOD: Duration = Duration::from_secs(2);

/// Families that are flushed for the sake of the log before others in the lane have their turn.
const FAMILIES_PER_TRIM: usize = 16;

/// How long a waiting caller sleeps before it looks again even if nobody wakes it.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Counts a job from the moment it is queued until it has run or was dropped unrun.
struct JobGuard(Arc<Core>);

impl JobGuard {
    fn new(core: &Arc<Core>) -> Self {
        // ORDERING: pairs with the load in `wait_idle`, which must not miss a queued job.
        core.jobs.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(core))
    }
}

impl Drop for JobGuard {
    fn drop(&mut self) {
        // ORDERING: as in `new`.
        self.0.jobs.fetch_sub(1, Ordering::SeqCst);
        self.0.progress.ring();
    }
}

impl Core {
    pub(crate) fn submit(&self, lane: Lane, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let Some(core) = self.this.upgrade() else { return };
        let guard = JobGuard::new(&core);
        let job = move || {
            // A job that panics leaves its family's flags as they were; the database refuses
            // writes from then on and everyone who waits is told why.
            if catch_unwind(AssertUnwindSafe(|| work(&guard.0))).is_err() {
                let cause = Error::Internal("a background job panicked".to_owned());
                guard.0.health.fail(cause);
            }
        };
        self.scheduler.submit(lane, Box::new(job));
    }

    /// Queues a flush of the family unless one is queued or running.
    pub(crate) fn schedule_flush(&self, family: &Arc<FamilyState>) {
        if self.control.is_paused() || family.view.load().frozen.is_empty() {
            return;
        }
        // ORDERING: the swap decides which caller queues the job; the job clears the flag before
        // it looks for work a last time, so a memtable frozen meanwhile is not forgotten.
        if family.flushing.swap(true, Ordering::SeqCst) {
            return;
        }
        let family = Arc::clone(family);
        self.submit(Lane::Flush, move |core| core.run_flushes(&family));
    }

    fn run_flushes(&self, family: &Arc<FamilyState>) {
        let result = loop {
            if family.is_dropped() || self.control.is_paused() {
                break Ok(());
            }
            match self.flush_oldest(family) {
                Ok(true) => {
                    self.progress.ring();
                    // Writers who nearly outran the flush would fill the rest while nothing is
                    // written out.
                    // ORDERING: relaxed; a setting.
                    let full = family.freeze_bytes.load(Ordering::Relaxed);
                    self.freeze(family, full / 4 * 3);
                }
                Ok(false) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        // ORDERING: see `schedule_flush`.
        family.flushing.store(false, Ordering::SeqCst);
        match result {
            Ok(()) => {
                *lock(&family.flush_error) = None;
                self.schedule_flush(family);
                self.schedule_compaction(family);
            }
            Err(e) => {
                self.note_failure(family, &family.flush_error, e);
                // A flush that needs a log that failed works again only after its repair, and
                // writers who wait for the flush never get as far as the log.
                self.repair_log_later();
            }
        }
        self.files.garbage.sweep();
    }

    /// Queues a merge of the family if the planner wants one and none is queued or running.
    pub(crate) fn schedule_compaction(&self, family: &Arc<FamilyState>) {
        self.await_expiry(family);
        let planned = self.planned(family, &family.current_version(), Pace::Busy);
        if planned.is_none() && !self.has_droppable_tables(family) {
            self.watch_holders(family);
            self.schedule_quiet_check(family);
            return;
        }
        self.schedule_merges(family, Pace::Busy);
    }

    fn schedule_merges(&self, family: &Arc<FamilyState>, pace: Pace) {
        if !self.may_merge() {
            return;
        }
        // ORDERING: as for `flushing`.
        if family.compacting.swap(true, Ordering::SeqCst) {
            return;
        }
        let family = Arc::clone(family);
        self.submit(Lane::Compaction, move |core| core.run_merges(&family, pace));
    }

    /// Whether merges may start by themselves.
    fn may_merge(&self) -> bool {
        !self.control.is_paused() && !self.control.merges_are_cancelled()
    }

    /// Keeps a failure of background work for whoever waits for that.
    fn note_failure(&self, family: &FamilyState, slot: &Mutex<Option<Error>>, error: Error) {
        let event = Event::BackgroundFailed { family: family.name.clone(), error: error.clone() };
        *lock(slot) = Some(error);
        if self.flow.failure_told.is_due(self.clock.monotonic_nanos()) {
            self.tell(&event);
        }
    }

    /// The next merge of the runs of `version`, and of which keys if the plan does not tell. It is
    /// right for no other version, because it counts runs from the newest one.
    fn planned(
        &self,
        family: &FamilyState,
        version: &Version,
        pace: Pace,
    ) -> Option<(MergePlan, Option<KeyRange>)> {
        let options = family.options.load();
        let rules = rules(&options, version);
        let runs = summarize(version, &options, self.snapshots.oldest());
        let damaged = runs.iter().any(|run| run.damaged);
        let slice = damaged.then(|| slices::worst_of(family, version)).flatten();
        let beside = slice.and_then(|(share, _)| plan::beside_damage(&runs, &rules, share));
        let due = expiry::due_range(version, &self.expiry_rules(family));
        if let (None, Some(range)) = (beside, due) {
            return Some((plan::merge_down(&runs)?, Some(range)));
        }
        Some((beside.or_else(|| plan::next_merge(&runs, &rules, pace))?, None))
    }

    fn run_merges(&self, family: &Arc<FamilyState>, pace: Pace) {
        let damaged = family.current_version().damaged_tables();
        let result = self.merge_while_planned(family, pace);
        // ORDERING: as for `flushing`.
        family.compacting.store(false, Ordering::SeqCst);
        match result {
            // Whoever is waiting for the family's merges goes on with them.
            // ORDERING: relaxed; a late look costs one more merge.
            Ok(()) if family.merges_waiting.load(Ordering::Relaxed) > 0 => {}
            Ok(()) => {
                // That something is damaged stays so, whatever was merged since: somebody must be told.
                let mut failure = lock(&family.merge_error);
                failure.take_if(|e| e.kind() != ErrorKind::Corrupt);
                drop(failure);
                self.schedule_compaction(family);
            }
            Err(Error::Closed | Error::FamilyDropped(_) | Error::Cancelled) => {}
            Err(e) => {
                self.note_failure(family, &family.merge_error, e);
                if family.current_version().damaged_tables() > damaged {
                    // The next plan does without what was set aside.
                    self.schedule_compaction(family);
                }
            }
        }
        self.files.garbage.sweep();
    }

    fn merge_while_planned(&self, family: &Arc<FamilyState>, pace: Pace) -> Result<()> {
        loop {
            // ORDERING: relaxed, as in `run_merges`.
            if family.merges_waiting.load(Ordering::Relaxed) > 0 {
                return Ok(());
            }
            let _merging = lock(&family.merging);
            if family.is_dropped() || self.health.is_closed() || !self.may_merge() {
                return Ok(());
            }
            self.drop_whole_tables(family)?;
            let version = family.current_version();
            if lock(&family.slice_bounds).is_empty() {
                // A merge that comes before the first flush would cut its tables anywhere.
                slices::renew(family, &version);
            }
            let planned = self.planned(family, &version, pace);
            let Some((plan, range)) = planned else { return Ok(()) };
            if cfg!(planted_bug = "planned_from_another_version") {
                self.progress.wait(self.progress.now(), Duration::from_millis(1));
                let version = family.current_version();
                self.merge_runs(family, &version, plan, &KeyRange::default())?;
            } else {
                let slice = range.unwrap_or_else(|| slices::of_plan(family, &version, plan));
                self.merge_runs(family, &version, plan, &slice)?;
            }
            self.files.garbage.sweep();
            self.progress.ring();
        }
    }

    /// Looks again after a while whether the family is still being written; if not, merges it for
    /// its readers.
    fn schedule_quiet_check(&self, family: &Arc<FamilyState>) {
        let planned = self.planned(family, &family.current_version(), Pace::Quiet);
        if planned.is_none() || self.health.is_closed() {
            return;
        }
        // ORDERING: as for `flushing`.
        if family.quiet_check.swap(true, Ordering::SeqCst) {
            return;
        }
        let (core, family) = (self.this.clone(), Arc::clone(family));
        let seen = self.log.published();
        let check = move || {
            family.quiet_check.store(false, Ordering::SeqCst);
            let Some(core) = core.upgrade() else { return };
            if core.log.published() == seen {
                core.release_spare();
                core.schedule_merges(&family, Pace::Quiet);
            } else {
                core.schedule_quiet_check(&family);
            }
        };
        self.scheduler.submit_after(Lane::Housekeeping, QUIET_PERIOD, Box::new(check));
    }

    /// Gives back what only the next burst of writes would need: free log segments and the memory of
    /// former memtables.
    fn release_spare(&self) {
        self.log.remove_free_segments();
        self.memory.release_idle();
        self.spare_buffers.release();
    }

    /// Queues flushes of the families that keep the log from being shortened.
    pub(crate) fn trim_log_later(&self) {
        self.submit(Lane::Housekeeping, |core| core.trim_log());
    }

    fn trim_log(&self) {
        let pinning = self.families_pinning_log(FAMILIES_PER_TRIM);
        let mut stop = self.control.is_paused() || self.health.is_closed();
        let mut flushed = 0;
        for family in &pinning {
            if stop {
                break;
            }
            self.freeze(family, 0);
            // ORDERING: as in `schedule_flush`.
            if !family.flushing.swap(true, Ordering::SeqCst) {
                self.run_flushes(family);
                stop = lock(&family.flush_error).is_some();
                flushed += 1;
            }
        }
        if flushed > 0 && pinning.len() == FAMILIES_PER_TRIM && !stop {
            // Behind what else waits in the lane: the next log segment may be among it.
            self.trim_log_later();
        } else {
            // ORDERING: pairs with the swap in `limit_retained_log`.
            self.control.log_is_trimmed.store(false, Ordering::SeqCst);
        }
    }

    /// Queues the preparation of the next log segment.
    pub(crate) fn prepare_log_later(&self) {
        self.submit(Lane::Housekeeping, |core| core.log.prepare_next());
    }

    /// Queues the repair of a log that failed: everything in memory goes to tables, and the log
    /// starts afresh.
    pub(crate) fn repair_log_later(&self) {
        if self.log.failure().is_some() && self.log.begin_restart() {
            self.submit(Lane::Flush, |core| core.repair_log());
        }
    }

    fn repair_log(&self) {
        // A failure leaves the log as it was; the next writer has it tried again.
        let healed = self.restart_log().ok();
        self.log.end_restart(healed);
        if let Some(position) = healed {
            self.log.retire_before(position);
        }
    }

    fn restart_log(&self) -> Result<SequenceNumber> {
        // Commits that were let in before the failure end here; no others are let in.
        drop(self.log.close_gate());
        for family in &self.families.all() {
            self.rotate(family, 0);
        }
        self.flush_everything_at_once()?;
        let (segment, position) = self.log.restart()?;
        // The manifest must not name a segment that a power cut can take with its name.
        self.log.sync_names()?;
        // CRASH: the failed segment may end anywhere, so recovery can't go on from it to the new
        // one. No commit may be acknowledged before the manifest says where the log begins.
        lock(&self.catalog).commit(vec![
            Change::LogStart { segment },
            Change::LastSequence { sequence: position },
        ])?;
        Ok(position)
    }

    /// Writes the family's memory to tables and waits for it.
    ///
    /// # Errors
    /// Why that failed; [`Error::Stalled`] when no flush gets anywhere.
    pub(crate) fn flush_family(&self, family: &Arc<FamilyState>) -> Result<()> {
        self.check_writable(family)?;
        let target = self.log.published();
        self.rotate(family, 0);
        *lock(&family.flush_error) = None;
        let mut patience = self.patience_with_flushes();
        loop {
            if family.view.load().first_unflushed() > target {
                return Ok(());
            }
            if family.is_dropped() {
                return Err(Error::FamilyDropped(family.name.clone()));
            }
            let seen = self.progress.now();
            if let Some(cause) = lock(&family.flush_error).take() {
                return Err(cause);
            }
            self.check_open()?;
            self.health.check()?;
            if self.control.is_paused() {
                return Err(Error::Paused);
            }
            let (progress, now) = (self.flow.flushes.progress(), self.clock.monotonic_nanos());
            patience.check(progress, now, StallReason::FlushQueue)?;
            self.schedule_flush(family);
            self.wait_for_progress(seen);
        }
    }

    /// Waits for the merge of the family that is under way, and keeps others from starting.
    ///
    /// # Errors
    /// [`Error::Stalled`] when it gets nowhere, [`Error::Closed`].
    fn lock_merging<'f>(&self, family: &'f FamilyState) -> Result<MutexGuard<'f, ()>> {
        // ORDERING: relaxed; only whether it changes matters.
        let progress = || self.flow.merged.load(Ordering::Relaxed);
        let now = || self.clock.monotonic_nanos();
        let mut patience = Patience::new(self.options.stall_timeout_ms, progress(), now());
        loop {
            let seen = self.progress.now();
            match family.merging.try_lock() {
                Ok(guard) => return Ok(guard),
                // The data is (), so a panic has left nothing half done.
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
            self.check_open()?;
            patience.check(progress(), now(), StallReason::MergeDebt)?;
            self.wait_for_progress(seen);
        }
    }

    /// Does a merge that a caller asked for, when those under way have ended.
    ///
    /// # Errors
    /// As [`Core::lock_merging`]; [`Error::Paused`]; or what `merge` answers.
    fn merge_alone(
        &self,
        family: &Arc<FamilyState>,
        merge: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let _at_work = self.callers.enter()?;
        // ORDERING: relaxed, as in `run_merges`.
        family.merges_waiting.fetch_add(1, Ordering::Relaxed);
        let merging = self.lock_merging(family);
        family.merges_waiting.fetch_sub(1, Ordering::Relaxed);
        // Whoever pauses sets the mark first and looks at the lock second.
        let result = merging.and_then(|_merging| match self.control.is_paused() {
            true => Err(Error::Paused),
            false => merge(),
        });
        self.files.garbage.sweep();
        // Others have made way.
        self.schedule_compaction(family);
        result
    }

    /// Flushes the family and merges all of its tables into one run.
    ///
    /// # Errors
    /// Why that failed.
    pub(crate) fn compact_family(&self, family: &Arc<FamilyState>) -> Result<()> {
        self.close_direct_file(family);
        self.flush_family(family)?;
        self.unpin_flushed_values(family);
        if self.control.merges_are_cancelled() {
            return Ok(());
        }
        self.merge_alone(family, || self.merge_all(family))
    }

    fn merge_all(&self, family: &Arc<FamilyState>) -> Result<()> {
        self.drop_whole_tables(family)?;
        let version = family.current_version();
        let settled = version.runs.len() == 1
            && version.range_tombstones.is_empty()
            && version.mostly_dead_value_logs().is_empty()
            && version.runs.iter().all(|run| run.level > 1)
            && version.tables().all(|table| self.is_settled(table));
        let runs = summarize(&version, &family.options.load(), None);
        if !settled && let Some(plan) = plan::full_merge(&runs) {
            unless_cancelled(self.merge_runs(family, &version, plan, &KeyRange::default()))?;
        }
        left_out(version.tables())
    }

    /// Whether a merge of nothing else would leave the table as it is. One that can't be read is for
    /// the merge to tell of.
    fn is_settled(&self, table: &Arc<TableFile>) -> bool {
        table.record.tombstones == 0
            && table.is_free_of_garbage(self.clock.unix_seconds()).unwrap_or(false)
    }

    /// Flushes the family and merges its newest runs, down to the last that holds a key from
    /// `start` on and before `end`.
    ///
    /// # Errors
    /// Why that failed.
    pub(crate) fn compact_family_range(
        &self,
        family: &Arc<FamilyState>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.flush_family(family)?;
        if self.control.merges_are_cancelled() {
            return Ok(());
        }
        self.merge_alone(family, || self.merge_between(family, start, end))
    }

    fn merge_between(
        &self,
        family: &Arc<FamilyState>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let version = family.current_version();
        let touched = version.runs.iter().rposition(|run| run.overlaps(start, end));
        let Some(last) = touched else { return Ok(()) };
        let settled = last == 0
            && version.runs.iter().take(1).all(|run| run.level > 1)
            && version.tables_between(start, end).all(|table| self.is_settled(table));
        let runs = summarize(&version, &family.options.load(), None);
        if !settled && let Some(plan) = plan::merge_newest(&runs, last + 1) {
            unless_cancelled(self.merge_runs(family, &version, plan, &KeyRange::default()))?;
        }
        left_out(version.tables_between(start, end))
    }

    /// Waits until nothing is queued or running, taking the families to be quiet.
    ///
    /// # Errors
    /// Why background work failed; [`Error::Stalled`] when it gets nowhere.
    pub(crate) fn wait_idle(&self) -> Result<()> {
        let mut patience = self.patience_with_all_work();
        loop {
            let seen = self.progress.now();
            // Before the errors: a job keeps its failure before it ends.
            // ORDERING: pairs with `JobGuard`.
            let idle = self.jobs.load(Ordering::SeqCst) == 0;
            for family in self.families.all() {
                family.take_background_error().map_or(Ok(()), Err)?;
            }
            self.check_open()?;
            self.health.check()?;
            if idle && !self.schedule_quiet_merges() {
                self.release_spare();
                self.files.garbage.sweep();
                return Ok(());
            }
            self.wait_for_work(&mut patience, seen)?;
        }
    }

    /// A wait for background work of any kind that begins now.
    pub(crate) fn patience_with_all_work(&self) -> Patience {
        let now = self.clock.monotonic_nanos();
        Patience::new(self.options.stall_timeout_ms, self.all_progress(), now)
    }

    /// Changes whenever a flush, a merge or another job gets on.
    fn all_progress(&self) -> u64 {
        // ORDERING: relaxed; only whether it changes matters.
        let merged = self.flow.merged.load(Ordering::Relaxed);
        self.flow.flushes.progress().wrapping_add(merged).wrapping_add(self.progress.now())
    }

    /// Waits until background work has got on since `seen`, or does some of it.
    ///
    /// # Errors
    /// [`Error::Stalled`] when none gets on, as `patience` has it.
    pub(crate) fn wait_for_work(&self, patience: &mut Patience, seen: u64) -> Result<()> {
        let flushing = self.families.all().iter().any(|family| family.is_flushing());
        let reason = if flushing { StallReason::FlushQueue } else { StallReason::MergeDebt };
        patience.check(self.all_progress(), self.clock.monotonic_nanos(), reason)?;
        self.wait_for_progress(seen);
        Ok(())
    }

    fn schedule_quiet_merges(&self) -> bool {
        let mut any = false;
        if self.control.is_paused() {
            return false;
        }
        for family in self.families.all() {
            if !family.view.load().frozen.is_empty() {
                self.schedule_flush(&family);
                any = true;
            } else if self.may_merge()
                && (self.planned(&family, &family.current_version(), Pace::Quiet).is_some()
                    || self.has_droppable_tables(&family))
            {
                self.schedule_merges(&family, Pace::Quiet);
                any = true;
            }
        }
        any
    }

    /// Waits until background work has got on since `seen`, or does some of it.
    pub(crate) fn wait_for_progress(&self, seen: u64) {
        if !self.scheduler.help() {
            self.progress.wait(seen, LONGEST_SLEEP);
        }
    }
}

/// Whoever asks for a merge of tables is told each time that some were left out, not only by the
/// merge that met the damage.
fn left_out<'a>(mut tables: impl Iterator<Item = &'a Arc<TableFile>>) -> Result<()> {
    tables.find_map(|table| table.damage().cloned()).map_or(Ok(()), Err)
}

/// A merge that was cancelled has changed nothing, which is what the caller was told of.
fn unless_cancelled(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::Cancelled) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
