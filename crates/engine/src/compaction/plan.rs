//! What to merge next: a pure function of what is known of the runs.
//!
//! Three rules, in this order:
//!
//! 1. *Deletions and values.* A table with more tombstones than the family allows is merged down to
//!    the oldest run, where its deletions end. A value log that is mostly garbage has everything
//!    merged; tables that do not point into it stay as they are.
//! 2. *Space.* When the entries are more than `max_space_amplification` times the keys that are
//!    alive (estimated by sketches, see `KeySketch`), the smallest group of newest runs that holds
//!    most of the garbage is merged. So unique keys are rewritten rarely, and overwritten ones soon.
//! 3. *Tiers.* Runs fall into classes by size, each `fan_in` times the one below. When the newest
//!    runs hold `fan_in` of one class, they are merged, with everything newer, into one run of the
//!    next; if that fills the next class, the merge takes it in at once. Each byte is rewritten
//!    about once per class, and `n` flushes leave at most `(fan_in - 1) * log(n)` runs.
//!
//! A family that is not being written is merged into a single run, which reads best. What snapshots
//! held in it goes some time after they do.
//!
//! The levelled policy of Spooky (Dayan and others, PVLDB 15(11), 2022) was simulated beside this one:
//! with unique random keys and a size ratio of 10 it rewrites each byte 5.4 times over 50 flushes and
//! 8.8 times over 200, this one 2.0 and 2.8 times. What is taken from Spooky is how a merge runs:
//! piece by piece along the tables of the oldest run, see `job`.

/// What the planner knows of one sorted run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunSummary {
    pub level: u32,
    pub id: u64,
    pub bytes: u64,
    /// Bytes in value logs that it points at.
    pub value_bytes: u64,
    /// Versions, tombstones included.
    pub entries: u64,
    pub tombstones: u64,
    /// Versions beyond the first of their key in this run that no snapshot needs any more.
    pub released: u64,
    /// About how many distinct keys this run and all newer ones hold together.
    pub distinct_through: u64,
    /// Holds a table with more tombstones than the family allows.
    pub too_many_tombstones: bool,
    /// Holds a table that could not be read: it takes no part in merges.
    pub damaged: bool,
}

/// The newest runs, to be merged into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MergePlan {
    /// Number of inputs, counted from the newest run.
    pub count: usize,
    /// Level of the output.
    pub level: u32,
    /// Run number of the output.
    pub run: u64,
    /// The output is the oldest input, with its tables replaced piece by piece.
    pub into_oldest: bool,
}

/// Versions per key of a run from which it is rewritten for the versions alone, whatever is allowed.
pub(super) const LEAST_RELEASED: f64 = 1.25;

/// Whether the family is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Commits keep coming: merge only what keeps the number of runs down.
    Busy,
    /// Nothing was committed lately: merge for the readers.
    Quiet,
}

/// The family's settings, as far as they matter here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanRules {
    /// Runs of one class that are merged.
    pub fan_in: usize,
    /// A quiet family's oldest run is spared when it is more than this many times all others.
    pub size_ratio: usize,
    /// Entries per live key beyond which garbage is collected.
    pub max_space_amplification: f64,
    /// Below this many bytes in all, garbage is not worth a merge of its own.
    pub least_garbage_bytes: u64,
    /// A value log is mostly garbage: what is left of it should be written elsewhere.
    pub collect_values: bool,
}

/// The next merge, if one is worth while. `runs` are given newest first.
pub(crate) fn next_merge(runs: &[RunSummary], rules: &PlanRules, pace: Pace) -> Option<MergePlan> {
    let usable = runs.iter().take_while(|run| !run.damaged).count();
    let (candidates, all) = (runs.get(..usable)?, runs);
    let collect_values = rules.collect_values && usable == runs.len();
    let by_number = || match pace {
        Pace::Busy => by_tiers(candidates, rules.fan_in.max(2)),
        Pace::Quiet => by_released(candidates, rules).max(by_rest(candidates, rules.size_ratio)),
    };
    let count = by_tombstones(candidates)
        .or(collect_values.then_some(usable))
        .or_else(|| by_space(candidates, rules))
        .or_else(by_number)?;
    merge_of(all, count)
}

fn by_tombstones(runs: &[RunSummary]) -> Option<usize> {
    // In the oldest run only those are left that a snapshot needs.
    let (_, newer) = runs.split_last()?;
    newer.iter().any(|run| run.too_many_tombstones).then_some(runs.len())
}

/// The fewest newest runs that hold at least half of the garbage, when there is too much of it.
fn by_space(runs: &[RunSummary], rules: &PlanRules) -> Option<usize> {
    // What slows writers down counts values too: garbage must not slow them and find no merge.
    let bytes: u64 = runs.iter().map(|run| run.bytes + run.value_bytes).sum();
    let (entries, live) = entries_and_live(runs);
    let allowed = live as f64 * rules.max_space_amplification;
    if bytes < rules.least_garbage_bytes || entries as f64 <= allowed || runs.len() < 2 {
        return None;
    }
    let garbage = entries - live;
    (2..=runs.len()).find(|&count| {
        let (entries, live) = entries_and_live(runs.get(..count).unwrap_or_default());
        count == runs.len() || (entries - live) * 2 >= garbage
    })
}

/// Versions in these runs, the newest of the family, and about how many keys of them are alive.
/// A tombstone is taken to end a key that these runs hold.
fn entries_and_live(runs: &[RunSummary]) -> (u64, u64) {
    let entries: u64 = runs.iter().map(|run| run.entries).sum();
    let tombstones: u64 = runs.iter().map(|run| run.tombstones).sum();
    let distinct = runs.last().map_or(0, |run| run.distinct_through).min(entries);
    (entries, distinct.saturating_sub(tombstones))
}

fn by_tiers(runs: &[RunSummary], fan_in: usize) -> Option<usize> {
    let unit = runs.iter().map(|run| run.bytes).min()?.max(1);
    let class = |bytes: u64| (bytes / unit).max(1).ilog(fan_in as u64);
    let up_to = |wanted: u32| runs.iter().take_while(|run| class(run.bytes) <= wanted).count();
    let of_class = |count: usize, wanted: u32| {
        runs.iter().take(count).filter(|run| class(run.bytes) == wanted).count()
    };
    let highest = runs.iter().map(|run| class(run.bytes)).max()?;
    let full = |&wanted: &u32| of_class(up_to(wanted), wanted) >= fan_in;
    let mut count = up_to((0..=highest).find(full)?);
    loop {
        // The output would be of this class: with enough others there already, they come along.
        let output: u64 = runs.iter().take(count).map(|run| run.bytes).sum();
        let class_of_output = class(output);
        let wider = up_to(class_of_output);
        let others = runs.iter().take(wider).skip(count);
        let others = others.filter(|run| class(run.bytes) == class_of_output).count();
        if wider <= count || others + 1 < fan_in {
            return Some(count);
        }
        count = wider;
    }
}

/// A quiet family's oldest run is spared when rewriting it would cost more than one run less is
/// worth.
fn by_rest(runs: &[RunSummary], size_ratio: usize) -> Option<usize> {
    let (oldest, newer) = runs.split_last()?;
    let newer_bytes: u64 = newer.iter().map(|run| run.bytes).sum();
    let all = newer_bytes.saturating_mul(size_ratio as u64) >= oldest.bytes;
    let count = if all { runs.len() } else { newer.len() };
    (count > 1).then_some(count)
}

/// Down to the oldest run that takes more than it is allowed for versions of snapshots that are
/// gone. No newer versions come to such a family, so no other rule would find them.
fn by_released(runs: &[RunSummary], rules: &PlanRules) -> Option<usize> {
    let allowed = rules.max_space_amplification.max(LEAST_RELEASED);
    let wastes = |run: &RunSummary| {
        run.bytes + run.value_bytes >= rules.least_garbage_bytes
            && run.entries as f64 > (run.entries - run.released.min(run.entries)) as f64 * allowed
    };
    runs.iter().rposition(wastes).map(|last| last + 1)
}

/// A merge of everything that can be read, whatever the sizes.
pub(crate) fn full_merge(runs: &[RunSummary]) -> Option<MergePlan> {
    merge_newest(runs, runs.len())
}

/// A merge of the newest `count` runs, as far as they can be read.
pub(crate) fn merge_newest(runs: &[RunSummary], count: usize) -> Option<MergePlan> {
    merge_of(runs, runs.iter().take(count).take_while(|run| !run.damaged).count())
}

/// The newest `count` runs become one. If the oldest of them was merged before, it takes the others
/// in; otherwise the output's level is the second one, and its number the newest input's: the
/// merged runs that stay are older, hence lower in number. It never lies below an older run that
/// stays in the first level.
fn merge_of(runs: &[RunSummary], count: usize) -> Option<MergePlan> {
    let inputs = runs.get(..count)?;
    let oldest = inputs.last()?;
    if oldest.level > 1 {
        return Some(MergePlan { count, level: oldest.level, run: oldest.id, into_oldest: true });
    }
    let level = runs.get(count).map_or(2, |older| older.level.min(2));
    let run = inputs.iter().map(|run| run.id).max()?;
    Some(MergePlan { count, level, run, into_oldest: false })
}

#[cfg(test)]
mod tests;
