//! Compactions that a caller asks for. They wait for those under way and keep others from starting
//! until they have their turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::event::StallReason;

use crate::compaction::plan::{self, CompactionPlan};
use crate::compaction::state::summarize;
use crate::core::Core;
use crate::family::{FamilyState, RunClaim};
use crate::flow::StallTimer;
use crate::output::key_partitions::KeySpan;
use crate::version::{LivenessRules, Run, TableFile, Version};

/// How long a caller waits for the compactions under way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitLimit {
    /// While they get on.
    WhileTheyGetOn,
    /// No longer than this, however they get on, in milliseconds.
    AtMost(u64),
}

/// What a caller wants merged.
pub(super) struct Merge {
    plan: CompactionPlan,
    /// The keys of which it is merged.
    span: KeySpan,
    /// The runs of the plan but for the oldest, newest first.
    newer: Vec<(u32, u64)>,
}

impl Merge {
    /// What the newest `count` runs hold of the keys in `span`, as far as they can be read.
    pub(super) fn of_newest(
        family: &FamilyState,
        version: &Version,
        count: usize,
        span: KeySpan,
    ) -> Option<Self> {
        let runs = summarize(version, &family.options.load(), LivenessRules::default());
        let plan = plan::compact_newest(&runs, count)?;
        // One into a flushed run has no steps, and merges all keys.
        let span = if plan.into_oldest { span } else { KeySpan::default() };
        let newer = version.runs.iter().take(plan.count.saturating_sub(1)).map(Run::place);
        Some(Self { plan, span, newer: newer.collect() })
    }
}

/// What a caller wants merged of a version.
struct Chosen {
    version: Arc<Version>,
    merge: Option<(Merge, RunClaim)>,
}

impl Core {
    /// Does a compaction that a caller asked for, when those under way have ended. `choose` returns
    /// what to merge of a version, or `None` if nothing; `check` looks at what there is in the end.
    /// Runs that are flushed meanwhile are compacted concurrently.
    ///
    /// # Errors
    /// [`Error::Stalled`] when the compactions under way get nowhere, or take longer than `wait`,
    /// [`Error::Closed`], [`Error::Paused`], [`Error::CompactionsStopped`]; why the compaction
    /// failed.
    pub(super) fn compact_chosen(
        &self,
        family: &Arc<FamilyState>,
        wait: WaitLimit,
        choose: impl Fn(&Arc<Version>) -> Option<Merge>,
        check: impl FnOnce(&Version) -> Result<()>,
    ) -> Result<()> {
        let _at_work = self.work.callers.enter()?;
        family.compactions.caller_waits();
        family.current_version().forget_failed_reads();
        let claimed = self.claim_chosen(family, wait, choose);
        family.compactions.caller_has_waited();
        let result = claimed.and_then(|Chosen { version, merge }| {
            // A caller that pauses sets the mark first and looks at the claims second.
            if self.work.control.is_paused() {
                return Err(Error::Paused);
            }
            if let Some((Merge { plan, span, newer }, _claim)) = merge {
                // Not held meanwhile: what the compaction has used up has to leave the disk.
                self.compact_runs(family, version, plan, &span, u64::MAX)?;
                if span != KeySpan::default() {
                    self.leave_out(family, &newer, &span)?;
                }
            }
            check(&family.current_version())
        });
        self.read_failed_files_later(family);
        self.storage.files.obsolete.sweep();
        // Others have made way.
        self.schedule_compaction(family);
        result
    }

    /// Waits until no compaction of the family is under way, keeping others from starting, and
    /// claims the runs that are chosen.
    fn claim_chosen(
        &self,
        family: &Arc<FamilyState>,
        wait: WaitLimit,
        choose: impl Fn(&Arc<Version>) -> Option<Merge>,
    ) -> Result<Chosen> {
        // ORDERING: relaxed; only whether it changes matters.
        let progress = || match wait {
            WaitLimit::WhileTheyGetOn => self.flow.merged.load(Ordering::Relaxed),
            // Nothing but their end counts.
            WaitLimit::AtMost(_) => 0,
        };
        let limit_ms = match wait {
            WaitLimit::WhileTheyGetOn => self.env.options.stall_timeout_ms,
            WaitLimit::AtMost(milliseconds) => milliseconds.max(1),
        };
        let now = || self.env.clock.monotonic_nanos();
        let mut stall_timer = StallTimer::new(limit_ms, progress(), now());
        loop {
            let seen = self.work.progress.now();
            if self.work.control.is_paused() {
                return Err(Error::Paused);
            }
            self.drop_dead_tables(family)?;
            let version = family.current_version();
            // Before the lock, because it may open tables.
            let chosen = choose(&version);
            let mut claims = family.compactions.lock();
            if claims.count() == 0 {
                if !Arc::ptr_eq(&version, &family.current_version()) {
                    continue;
                }
                let merge = chosen.map(|merge| {
                    let runs = version.runs.iter().take(merge.plan.count).map(Run::place);
                    let whole = merge.span == KeySpan::default();
                    let claim = claims.claim(family, runs.collect(), whole);
                    (merge, claim)
                });
                return Ok(Chosen { version, merge });
            }
            drop(claims);
            self.health.check_open()?;
            stall_timer.check(progress(), now(), StallReason::CompactionDebt)?;
            self.wait_for_progress(seen);
        }
    }

    /// Flushes the family and merges all of its tables into one run.
    ///
    /// # Errors
    /// Why that failed; [`Error::CompactionsStopped`] once compactions were stopped.
    pub(crate) fn compact_family(&self, family: &Arc<FamilyState>) -> Result<()> {
        self.storage.list_closed_files(family, self.storage.close_direct_file(family));
        self.flush_family(family)?;
        self.storage.list_closed_files(family, self.storage.close_growing_files(family));
        family.settle_value_logs();
        self.work.control.check_compactions_run()?;
        let choose = |version: &Arc<Version>| {
            let settled = version.runs.len() == 1
                && version.range_tombstones.is_empty()
                && !version.has_mostly_dead_value_logs()
                && version.runs.iter().all(|run| run.level > 1)
                && version.tables().all(|table| self.is_settled(table));
            let all = || Merge::of_newest(family, version, version.runs.len(), KeySpan::default());
            if settled { None } else { all() }
        };
        let merge = || {
            let check = |version: &Version| left_out(version.tables());
            self.compact_chosen(family, WaitLimit::WhileTheyGetOn, choose, check)
        };
        merge()?;
        // Those that compactions before it have appended to.
        self.storage.list_closed_files(family, self.storage.close_growing_files(family));
        if family.current_version().has_mostly_dead_value_logs() {
            // What the compaction dropped had kept them alive.
            merge()?;
        }
        Ok(())
    }

    /// Whether a compaction of nothing else would leave the table as it is. One that can't be read
    /// is for the compaction to report.
    fn is_settled(&self, table: &Arc<TableFile>) -> bool {
        table.record.tombstones == 0
            && table.is_free_of_garbage(self.expired_for_all()).unwrap_or(false)
    }

    /// Flushes the family and merges what its newest runs hold of the keys from `start` on and
    /// before `end`, down to the last run that holds any. Where that one was flushed, all keys of
    /// these runs are merged.
    ///
    /// # Errors
    /// As [`Core::compact_family`].
    pub(crate) fn compact_family_range(
        &self,
        family: &Arc<FamilyState>,
        (start, end): (Option<&[u8]>, Option<&[u8]>),
        wait: WaitLimit,
    ) -> Result<()> {
        self.flush_family(family)?;
        self.work.control.check_compactions_run()?;
        if let (Some(start), Some(end)) = (start, end)
            && start >= end
        {
            return Ok(());
        }
        let choose = |version: &Arc<Version>| {
            let last = version.runs.iter().rposition(|run| run.overlaps(start, end))?;
            let settled = last == 0
                && version.runs.iter().take(1).all(|run| run.level > 1)
                && version.tables_between(start, end).all(|table| self.is_settled(table));
            if settled {
                return None;
            }
            let span = KeySpan { from: start.map(<[u8]>::to_vec), until: end.map(<[u8]>::to_vec) };
            Merge::of_newest(family, version, last + 1, span)
        };
        let check = |version: &Version| left_out(version.tables_between(start, end));
        self.compact_chosen(family, wait, choose, check)
    }
}

/// A caller that asks for a compaction of tables gets an error each time that some were left out,
/// not only by the compaction that met the damage.
fn left_out<'a>(mut tables: impl Iterator<Item = &'a Arc<TableFile>>) -> Result<()> {
    tables.find_map(|table| table.set_aside.why()).map_or(Ok(()), Err)
}
