//! What to merge next: a pure function of what is known of the runs, [`choose`].
//!
//! Five rules, in this order:
//!
//! 1. *Whole tables.* Those that nothing in any read needs go without being read (`drop_tables`).
//! 2. *Expiry.* Tables of which too much has expired are merged with all that share keys with them
//!    (`expiry` says which, from the time). Beside damage, a slice without any is merged next if
//!    enough of it is garbage.
//! 3. *Deletions and values.* Tables with more tombstones than the family allows are merged down to
//!    the oldest run, where their deletions end. While the family is written, only if these tables
//!    are a large enough part of all bytes; so a few deletions cost little. Value logs that are
//!    mostly garbage have the runs merged that point into them, with all newer ones, if that frees
//!    enough for what it rewrites; tables that do not point into them stay as they are.
//! 4. *Space.* When the keys of all runs together come near `max_space_amplification` times the
//!    keys that are alive (estimated by sketches, see `KeySketch`), a group of newest runs that
//!    holds most of the garbage is merged: the one of which garbage is the largest part. So unique
//!    keys are rewritten rarely, and overwritten ones soon. Where that is all runs, they are merged
//!    slice by slice (`slices`).
//! 5. *Tiers.* Runs fall into classes by size, each `fan_in` times the one below. When the newest
//!    runs hold `fan_in` of one class, they are merged, with everything newer, into one run of the
//!    next; if that fills the next class, the compaction takes it in at once. Each byte is
//!    rewritten about once per class, and `n` flushes leave some `(fan_in - 1) * log(n)` runs.
//!    While the family is not read, and while there are not very many runs, classes above the
//!    lowest wait for twice as many: fewer runs help readers only. Large families wait for fewer
//!    (`tiers`).
//!
//! A family that is not being written and has about as many runs as its trigger says (two less
//! suffice) is merged for its readers, down to the oldest run that is worth it: one more than
//! `level_size_ratio` times as large as all newer ones stays as it is. The more there is to merge,
//! the longer the family must have been at rest, so that pauses between commits cost little. What
//! snapshots held in it goes some time after they do.
//!
//! The levelled policy of Spooky (Dayan and others, PVLDB 15(11), 2022) was simulated beside this
//! one; `docs/design/0004` and `0005` have the measurements. What is taken from Spooky is how a
//! compaction runs: by steps of bounded key ranges, see `run_job`.

mod facts;
mod tiers;

pub(crate) use self::facts::{
    Activity, Choice, CompactedKeys, CompactionPlan, InProgress, PlanFacts, PlanRules, RunSummary,
};

use self::tiers::{by_tiers, by_tiers_beside_others, small_first};
use crate::output::slices::SLICES;

/// Versions per needed one of a run from which it is rewritten for the garbage alone, whatever is
/// allowed.
pub(super) const LEAST_OWN_GARBAGE: f64 = 1.25;

/// A family at rest may have so many runs less than its trigger and is merged for readers. With the
/// default trigger, two runs are.
const RUNS_BELOW_TRIGGER: u64 = 2;

/// When garbage is collected slice by slice and there are more runs than this many times the
/// fan-in, those of a tier are merged first.
const MOST_SLICED_RUNS_PER_FAN_IN: usize = 4;

/// So many small runs are joined before a long compaction that is for the number of runs.
const LEAST_JOINED_FOR_NUMBER: usize = 3;
/// The same before one for garbage: it goes by slices, so it takes less long.
const LEAST_JOINED_FOR_GARBAGE: usize = 5;

/// The share of bytes from which expired ones are collected however much garbage is allowed: a
/// family that is left alone would keep them.
const MOST_EXPIRED_SHARE: f64 = 0.5;

/// A compaction of all runs finds this many times its share of garbage when it is done by slices,
/// as the worst ones come first.
const SLICED_SHARE: f64 = 1.5;

/// What to do next, if anything is worth while now. Beside compactions of the family no table is
/// removed: they may read it.
pub(crate) fn choose(facts: &PlanFacts<'_>) -> Choice {
    if facts.has_dead_tables && !facts.in_progress.of_family {
        return Choice::DropTables;
    }
    choose_compaction(facts).map_or(Choice::Nothing, Choice::Compact)
}

/// The next compaction. Beside others of the family, and before a large one has its turn, runs are
/// merged for their number alone.
fn choose_compaction(facts: &PlanFacts<'_>) -> Option<CompactionPlan> {
    // All runs count for the size of the family, those that others merge as well.
    let rules = &facts.rules.at_size(bytes_of(facts.runs, facts.runs.len()));
    let small = || beside_others(facts.runs, rules, facts.in_progress);
    if facts.in_progress.of_family {
        return small();
    }
    let plan = by_expiry(facts)
        .or_else(|| beside_damage(facts, rules))
        .or_else(|| for_garbage(facts.runs, rules, facts.activity))
        .or_else(|| for_number(facts.runs, rules, facts.activity))?;
    let waits = bytes_of_plan(facts, plan) > facts.in_progress.most_bytes;
    waits.then(small).flatten().or(Some(plan))
}

/// The newest runs that can be read.
fn readable(runs: &[RunSummary]) -> &[RunSummary] {
    let usable = runs.iter().take_while(|run| !run.damaged).count();
    runs.get(..usable).unwrap_or_default()
}

/// What all runs hold of the keys of which too much has expired.
fn by_expiry(facts: &PlanFacts<'_>) -> Option<CompactionPlan> {
    facts.expired_bytes?;
    let plan = compaction_of(facts.runs, facts.runs.len())?;
    Some(CompactionPlan { keys: CompactedKeys::Expired, ..plan })
}

/// The compaction for what is in the runs in vain.
fn for_garbage(
    runs: &[RunSummary],
    rules: &PlanRules,
    activity: Activity,
) -> Option<CompactionPlan> {
    let candidates = readable(runs);
    let dead = by_tombstones(candidates, rules, activity);
    if let Some(count) = dead.or_else(|| by_values(candidates, rules.size_ratio)) {
        return compaction_of(runs, count);
    }
    let count = by_space(candidates, rules)?;
    let plan = compaction_of(runs, count)?;
    let by_slices = count == runs.len() && may_be_sliced(runs);
    if by_slices && count > rules.fan_in * MOST_SLICED_RUNS_PER_FAN_IN {
        let fewer = by_tiers(candidates, rules, u64::MAX);
        if let Some(fewer) = fewer.filter(|&fewer| fewer < count) {
            return compact_for_number(runs, fewer);
        }
    }
    let bytes = bytes_of(runs, count) / if by_slices { SLICES } else { 1 };
    let first = small_first(runs, count, bytes, LEAST_JOINED_FOR_GARBAGE);
    if first < count {
        return compaction_of(runs, first);
    }
    let keys = if by_slices { CompactedKeys::WorstSlice } else { CompactedKeys::All };
    Some(CompactionPlan { keys, ..plan })
}

/// The compaction that makes runs fewer: for writers while there are some, for readers when there
/// are none.
fn for_number(
    runs: &[RunSummary],
    rules: &PlanRules,
    activity: Activity,
) -> Option<CompactionPlan> {
    let candidates = readable(runs);
    let count = match activity {
        Activity::Busy => {
            return compact_for_number(runs, by_tiers(candidates, rules, u64::MAX)?);
        }
        Activity::Quiet { .. } if rules.awaits_snapshots => by_own_garbage(candidates, rules),
        Activity::Quiet { most_bytes } => {
            // A raised trigger keeps runs apart on purpose.
            let are_enough = candidates.len() as u64 + RUNS_BELOW_TRIGGER >= rules.trigger;
            let for_readers = || by_rest(candidates, rules.size_ratio, most_bytes);
            by_own_garbage(candidates, rules).max(are_enough.then(for_readers).flatten())
        }
    };
    compaction_of(runs, count?)
}

/// The compaction of some of the newest runs that are in no other, for their number alone.
fn beside_others(
    runs: &[RunSummary],
    rules: &PlanRules,
    in_progress: InProgress,
) -> Option<CompactionPlan> {
    let candidates = readable(runs);
    let free = candidates.get(..in_progress.free.min(candidates.len()))?;
    let count = by_tiers_beside_others(free, runs, rules, in_progress.most_bytes)?;
    compact_for_number(runs, count)
}

/// Bytes of the inputs, about.
fn bytes_of_plan(facts: &PlanFacts<'_>, plan: CompactionPlan) -> u64 {
    let bytes = bytes_of(facts.runs, plan.count);
    match plan.keys {
        CompactedKeys::All => bytes,
        CompactedKeys::Expired => facts.expired_bytes.unwrap_or(bytes),
        CompactedKeys::WorstSlice => bytes / SLICES,
    }
}

/// The compaction of the newest `count` runs for the number of runs alone, or of the small ones
/// among them first.
fn compact_for_number(runs: &[RunSummary], count: usize) -> Option<CompactionPlan> {
    let first = small_first(runs, count, bytes_of(runs, count), LEAST_JOINED_FOR_NUMBER);
    compaction_of(runs, first)
}

/// Bytes of the newest `count` runs.
fn bytes_of(runs: &[RunSummary], count: usize) -> u64 {
    runs.iter().take(count).map(|run| run.bytes).sum()
}

/// The compaction of a slice that holds no damaged table, while others do, if enough of it is
/// garbage. What is damaged keeps its own slice from being merged, not the others.
fn beside_damage(facts: &PlanFacts<'_>, rules: &PlanRules) -> Option<CompactionPlan> {
    let (runs, share) = (facts.runs, facts.sound_slice_garbage?);
    let bytes: u64 = runs.iter().map(|run| run.bytes + run.value_bytes).sum();
    let too_much = share > 1.0 - 1.0 / rules.collected_from;
    if bytes < rules.least_garbage_bytes || !too_much || !may_be_sliced(runs) {
        return None;
    }
    compaction_of(runs, runs.len())
        .map(|plan| CompactionPlan { keys: CompactedKeys::WorstSlice, ..plan })
}

/// The share of bytes that have expired from which they are collected: that of other garbage, which
/// is collected from so many entries per live key.
pub(crate) fn expired_share(collected_from: f64) -> f64 {
    (1.0 - 1.0 / collected_from).min(MOST_EXPIRED_SHARE)
}

/// Whether all runs may be merged slice by slice: into the oldest, if that was merged before, and
/// if more bytes lie in tables than in value logs. Those of a value log are scattered over all
/// slices, so that a slice alone frees none.
fn may_be_sliced(runs: &[RunSummary]) -> bool {
    let bytes: u64 = runs.iter().map(|run| run.bytes).sum();
    let values: u64 = runs.iter().map(|run| run.value_bytes).sum();
    runs.last().is_some_and(|oldest| oldest.level > 1) && bytes >= values
}

/// All runs, if enough of the newer ones is tables with too many tombstones. A byte is rewritten
/// about `size_ratio` times for this at most, as often as for readers.
fn by_tombstones(runs: &[RunSummary], rules: &PlanRules, activity: Activity) -> Option<usize> {
    // In the oldest run only those are left that a snapshot needs.
    let (_, newer) = runs.split_last()?;
    let bytes = newer.iter().map(|run| run.tombstone_bytes).sum::<u64>();
    let all = bytes_of(runs, runs.len());
    let enough = bytes.saturating_mul(rules.size_ratio as u64) >= all;
    let at_rest = matches!(activity, Activity::Quiet { most_bytes } if all <= most_bytes);
    (bytes > 0 && (enough || at_rest)).then_some(runs.len())
}

/// The newest runs whose compaction frees most garbage in value logs for each byte of tables. At
/// most `size_ratio` bytes are written anew for each that is freed, so what stays in value logs
/// that are mostly garbage is a small part of the tables.
fn by_values(runs: &[RunSummary], size_ratio: usize) -> Option<usize> {
    let (mut bytes, mut dead) = (0_u64, 0_u64);
    let shares = runs.iter().zip(1..).filter_map(|(run, count)| {
        bytes += run.bytes;
        dead += run.dead_value_bytes;
        let worth = run.dead_value_bytes > 0 && dead.saturating_mul(size_ratio as u64) >= bytes;
        worth.then_some((count, dead as f64 / bytes.max(1) as f64))
    });
    shares.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(count, _)| count)
}

/// The newest runs of which the largest part is garbage, and that hold at least half of all
/// garbage, when there is too much of it.
fn by_space(runs: &[RunSummary], rules: &PlanRules) -> Option<usize> {
    let all = runs.last()?.through;
    // What slows writers down counts values too: garbage must not slow them and find no compaction.
    let bytes: u64 = runs.iter().map(|run| run.bytes + run.value_bytes).sum();
    if bytes < rules.least_garbage_bytes || !all.exceeds(rules.collected_from) {
        return None;
    }
    let in_slices = may_be_sliced(runs);
    let mut bytes = 0;
    let shares = runs.iter().zip(1..).filter_map(|(run, count)| {
        bytes += run.bytes + run.value_bytes;
        let garbage = run.through.garbage();
        let most = count == runs.len() || garbage * 2 >= all.garbage();
        let share = garbage as f64 / bytes.max(1) as f64;
        let sliced = if in_slices && count == runs.len() { SLICED_SHARE } else { 1.0 };
        most.then_some((count, share * sliced))
    });
    shares.min_by(|a, b| b.1.total_cmp(&a.1)).map(|(count, _)| count)
}

/// Down to the oldest run of a quiet family that is not too large for the newer ones: rewriting one
/// that is would cost more than a run less is worth. So a byte is rewritten some times for each
/// factor of the ratio between a flush and the whole, however often the family is quiet between two
/// flushes. What is merged are at most so many bytes.
fn by_rest(runs: &[RunSummary], size_ratio: usize, most_bytes: u64) -> Option<usize> {
    let mut newer_bytes: u64 = 0;
    let worth = runs.iter().map(|run| {
        let is_worth = newer_bytes.saturating_mul(size_ratio as u64) >= run.bytes;
        newer_bytes = newer_bytes.saturating_add(run.bytes);
        is_worth && newer_bytes <= most_bytes
    });
    let worth: Vec<bool> = worth.collect();
    worth.into_iter().rposition(|is_worth| is_worth).map(|last| last + 1)
}

/// Down to the oldest run of which more than is allowed is garbage by itself: versions of snapshots
/// that are gone, and what range tombstones hide. No newer versions come to a quiet family, and in
/// one that is large enough no other rule would find them.
fn by_own_garbage(runs: &[RunSummary], rules: &PlanRules) -> Option<usize> {
    let allowed = rules.max_space_amplification.max(LEAST_OWN_GARBAGE);
    let wastes = |run: &RunSummary| {
        run.bytes + run.value_bytes >= rules.least_garbage_bytes && run.alone.exceeds(allowed)
    };
    runs.iter().rposition(wastes).map(|last| last + 1)
}

/// Whether there is garbage that is worth a compaction.
pub(crate) fn has_garbage(runs: &[RunSummary], rules: &PlanRules) -> bool {
    let candidates = readable(runs);
    by_tombstones(candidates, rules, Activity::RESTING).is_some()
        || by_space(candidates, rules).is_some()
        || by_own_garbage(candidates, rules).is_some()
}

/// A compaction of the newest `count` runs, as far as they can be read.
pub(crate) fn compact_newest(runs: &[RunSummary], count: usize) -> Option<CompactionPlan> {
    compaction_of(runs, count.min(readable(runs).len()))
}

/// The newest `count` runs become one. If the oldest of them was merged before, it takes the others
/// in; otherwise the output's level is the second one, and its number the newest input's: runs are
/// ordered by number, and those that stay are all older or all newer.
fn compaction_of(runs: &[RunSummary], count: usize) -> Option<CompactionPlan> {
    let inputs = runs.get(..count)?;
    let oldest = inputs.last()?;
    if oldest.level > 1 {
        return Some(CompactionPlan {
            count,
            level: oldest.level,
            run: oldest.id,
            into_oldest: true,
            keys: CompactedKeys::All,
        });
    }
    let run = inputs.iter().map(|run| run.id).max()?;
    Some(CompactionPlan { count, level: 2, run, into_oldest: false, keys: CompactedKeys::All })
}

#[cfg(test)]
mod tests;
