//! What a family's next compaction is, and the claim of its runs.
//!
//! What is known of the version in force is gathered (`state`), the next compaction is chosen
//! beside those under way (`plan`, pure), and its runs are claimed. The background says when to
//! look, and does what is claimed.

use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Result;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sync_points::sync_point;

use super::expiry::{ExpiryRules, due_range};
use super::plan::{
    self, Activity, Choice, CompactedKeys, CompactionPlan, InProgress, PlanFacts, PlanRules,
    RunSummary,
};
use super::state::{rules, summarize};
use crate::core::Core;
use crate::family::{FamilyState, RunClaim, RunningClaims};
use crate::output::key_partitions::KeySpan;
use crate::output::slices;
use crate::version::{Run, Version};

/// A compaction may be this many times as large as when its job was queued.
const MOST_GROWTH: u64 = 2;

/// How often the next compaction is chosen without the lock of the claims.
const MOST_UNLOCKED_TRIES: usize = 4;

/// Tables that a look measures, see `version/range_deleted.rs`: writers may be waiting for it.
pub(crate) const MEASURED_PER_LOOK: usize = 16;

/// How much there is to do next.
pub(crate) struct NextSize {
    /// Bytes of what a compaction could do now beside those under way, 0 for the removal of whole
    /// tables; `None` when there is nothing.
    pub bytes: Option<u64>,
    /// The next look will know more.
    pub unmeasured: bool,
}

/// What to do next for a family, with the keys: see [`Choice`].
enum Next {
    DropTables,
    Compact(PlannedCompaction),
    Nothing,
}

/// A compaction to begin now.
pub(crate) struct PlannedCompaction {
    pub plan: CompactionPlan,
    /// Of which keys.
    pub slice: KeySpan,
    /// Bytes of the inputs.
    pub bytes: u64,
}

impl PlannedCompaction {
    fn of(version: &Version, plan: CompactionPlan, slice: KeySpan) -> Self {
        let bytes = slices::bytes_within(version, plan.count, &slice);
        Self { plan, slice, bytes }
    }
}

/// A compaction that was planned and whose runs are claimed.
pub(crate) struct ClaimedCompaction {
    pub version: Arc<Version>,
    pub planned: PlannedCompaction,
    pub claim: RunClaim,
}

/// A version and what the planner knows of it.
struct PlannerInput {
    version: Arc<Version>,
    runs: Vec<RunSummary>,
    rules: PlanRules,
    /// See [`PlanFacts`].
    has_dead_tables: bool,
    /// What garbage was estimated by: live snapshots, oldest first, and the time in Unix seconds.
    snapshots: Vec<SequenceNumber>,
    now: u64,
    /// It is not known of all tables how much range tombstones hide of them.
    unmeasured: bool,
}

impl PlannerInput {
    /// What is next for the family, whose version this is.
    fn choose(
        &self,
        family: &FamilyState,
        expiry: &ExpiryRules,
        activity: Activity,
        in_progress: InProgress,
    ) -> Next {
        let worst = || {
            let liveness = self.version.liveness_rules(&self.snapshots, self.now);
            slices::worst_of(family, &self.version, liveness)
        };
        let alone = !in_progress.of_family;
        let due =
            alone.then(|| due_range(&family.compactions.expiry, &self.version, expiry)).flatten();
        let damaged = alone && self.runs.iter().any(|run| run.damaged);
        let all = self.runs.len();
        let choice = plan::choose(&PlanFacts {
            runs: &self.runs,
            rules: self.rules,
            activity,
            in_progress,
            has_dead_tables: self.has_dead_tables,
            expired_bytes: due.as_ref().map(|due| slices::bytes_within(&self.version, all, due)),
            sound_slice_garbage: damaged.then(worst).flatten().map(|(share, _)| share),
        });
        let plan = match choice {
            Choice::DropTables => return Next::DropTables,
            Choice::Compact(plan) => plan,
            Choice::Nothing => return Next::Nothing,
        };
        let keys = match plan.keys {
            CompactedKeys::All => None,
            CompactedKeys::Expired => due,
            CompactedKeys::WorstSlice => worst().map(|(_, slice)| slice),
        };
        Next::Compact(PlannedCompaction::of(&self.version, plan, keys.unwrap_or_default()))
    }
}

impl Core {
    /// What a compaction could do now beside the compactions under way.
    pub(crate) fn next_compaction(
        &self,
        family: &Arc<FamilyState>,
        activity: Activity,
        most_measured: usize,
    ) -> NextSize {
        let input = self.planner_input(family, activity, most_measured);
        let in_progress = self.in_progress(&input.version, &family.compactions.lock());
        let bytes = match self.next_of(family, &input, activity, in_progress) {
            Next::DropTables => Some(0),
            Next::Compact(planned) => Some(planned.bytes),
            Next::Nothing => None,
        };
        NextSize { bytes, unmeasured: input.unmeasured }
    }

    /// Removes tables that are not needed, plans the next compaction and claims its runs; `None`
    /// when there is none to begin now, or only one that is much larger than `bytes`.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Io`] when whole tables could be removed and the manifest can't be
    /// written.
    pub(crate) fn claim_next(
        &self,
        family: &Arc<FamilyState>,
        activity: Activity,
        bytes: u64,
    ) -> Result<Option<ClaimedCompaction>> {
        // What can't go yet is looked for again with the next job.
        let mut dropped = false;
        for tries in 0_usize.. {
            let mut input = self.planner_input(family, activity, MEASURED_PER_LOOK);
            input.has_dead_tables &= !dropped;
            if lock(&family.compactions.slice_bounds).is_empty() {
                // A compaction that comes before the first flush would cut its tables anywhere.
                slices::renew(family, &input.version);
            }
            // Beside flushes and compactions that change the version all the time it would come to
            // no end: then it holds them up.
            let held = (tries >= MOST_UNLOCKED_TRIES).then(|| family.compactions.lock());
            if held.is_some() && !Arc::ptr_eq(&input.version, &family.current_version()) {
                continue;
            }
            let in_progress = match &held {
                Some(claims) => self.in_progress(&input.version, claims),
                None => self.in_progress(&input.version, &family.compactions.lock()),
            };
            let planned = match self.next_of(family, &input, activity, in_progress) {
                Next::DropTables => {
                    drop(held);
                    self.drop_dead_tables(family)?;
                    dropped = true;
                    continue;
                }
                Next::Compact(planned) => Some(planned),
                Next::Nothing => None,
            };
            let fits =
                |planned: &PlannedCompaction| planned.bytes <= bytes.saturating_mul(MOST_GROWTH);
            let chosen_with_lock = held.is_some();
            let mut claims = held.unwrap_or_else(|| family.compactions.lock());
            // It was chosen for this version, beside these compactions.
            let is_changed = !Arc::ptr_eq(&input.version, &family.current_version())
                || !in_progress.is_of_family_as(self.in_progress(&input.version, &claims));
            if is_changed && !chosen_with_lock {
                continue;
            }
            let Some(planned) = planned.filter(fits) else { return Ok(None) };
            let version = input.version;
            let claimed = version.runs.iter().take(planned.plan.count).map(Run::place).collect();
            let claim = claims.claim(family, claimed, planned.slice == KeySpan::default());
            return Ok(Some(ClaimedCompaction { version, planned, claim }));
        }
        Ok(None)
    }

    /// The compactions under way, and which runs of a version they leave.
    fn in_progress(&self, version: &Version, claims: &RunningClaims) -> InProgress {
        let free = version.runs.iter().take_while(|run| !claims.holds(run.place())).count();
        let threads = self.env.options.resolved_compaction_threads();
        let most_bytes = self.work.jobs.running_compactions.most_now(threads);
        InProgress { of_family: claims.count() > 0, free, most_bytes }
    }

    /// What is next for the runs of a version beside the compactions under way. It is right for no
    /// other version, because it counts runs from the newest one. There may be very many tables to
    /// look at, so no lock is held: who claims has to see that nothing has changed.
    fn next_of(
        &self,
        family: &FamilyState,
        input: &PlannerInput,
        activity: Activity,
        in_progress: InProgress,
    ) -> Next {
        sync_point("compaction chosen");
        input.choose(family, &self.expiry_rules(family), activity, in_progress)
    }

    /// What the planner looks at. Made without a lock, because it may open tables, and measures so
    /// many at most.
    fn planner_input(
        &self,
        family: &FamilyState,
        activity: Activity,
        most_measured: usize,
    ) -> PlannerInput {
        family.settle_value_logs();
        let (version, options) = (family.current_version(), family.options.load());
        // By the time that compactions go by: what they keep must not be planned for them.
        let (snapshots, now) = (self.isolation.snapshots.list(), self.expired_for_all());
        let unmeasured = version.measure_range_deleted(&snapshots, most_measured);
        if !version.range_tombstones.is_empty() {
            family.writes.space.forget();
        }
        // Only then they may go. The end of a compaction has the family looked at again.
        let alone = family.compactions.lock().count() == 0;
        let mut rules = rules(&options, family.favours_readers(&version));
        rules.awaits_snapshots =
            activity != Activity::Busy && self.has_held_garbage(family, &version);
        PlannerInput {
            rules,
            has_dead_tables: alone && self.has_droppable_tables(family),
            runs: summarize(&version, &options, version.liveness_rules(&snapshots, now)),
            version,
            snapshots,
            now,
            unmeasured,
        }
    }

    /// Whether a snapshot sees only a part of the version, and there would be garbage to collect if
    /// there were none.
    pub(crate) fn has_held_garbage(&self, family: &FamilyState, version: &Version) -> bool {
        let Some(oldest) = self.isolation.snapshots.oldest() else { return false };
        if version.runs.iter().all(|run| run.totals.counts.newest <= oldest) {
            return false;
        }
        let options = family.options.load();
        let liveness = version.liveness_rules(&[], self.env.clock.unix_seconds());
        let rules = rules(&options, family.favours_readers(version));
        plan::has_garbage(&summarize(version, &options, liveness), &rules)
    }
}

#[cfg(test)]
mod tests;
