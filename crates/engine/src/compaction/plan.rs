//! What to merge next: a pure function of the sizes of the runs.
//!
//! Runs fall into classes by size, each `fan_in` times the one below. When the newest runs hold
//! `fan_in` of one class, they are merged, with everything newer, into one run of the next class;
//! so each byte is rewritten about once per class, and `n` flushes leave at most
//! `(fan_in - 1) * log(n)` runs. A family that is not being written is merged into a single run,
//! which reads best.

/// What the planner knows of one sorted run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunSummary {
    pub level: u32,
    pub id: u64,
    pub bytes: u64,
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
}

/// Whether the family is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Commits keep coming: merge only what keeps the number of runs down.
    Busy,
    /// Nothing was committed lately: merge for the readers.
    Quiet,
}

/// The next merge, if one is worth while. `runs` are given newest first. A quiet family's oldest
/// run is spared when it is more than `size_ratio` times all others together: rewriting it would
/// cost more than one run less is worth.
pub(crate) fn next_merge(
    runs: &[RunSummary],
    fan_in: usize,
    size_ratio: usize,
    pace: Pace,
) -> Option<MergePlan> {
    if pace == Pace::Quiet {
        let (oldest, newer) = runs.split_last()?;
        let newer_bytes: u64 = newer.iter().map(|run| run.bytes).sum();
        let all = newer_bytes.saturating_mul(size_ratio as u64) >= oldest.bytes;
        let count = if all { runs.len() } else { newer.len() };
        return if count > 1 { merge_of(runs, count) } else { None };
    }
    let fan_in = fan_in.max(2);
    let unit = runs.iter().map(|run| run.bytes).min()?.max(1);
    let class = |run: &RunSummary| (run.bytes / unit).max(1).ilog(fan_in as u64);
    let highest = runs.iter().map(class).max()?;
    (0..=highest).find_map(|wanted| {
        let newest = runs.iter().take_while(|run| class(run) <= wanted);
        let of_class = newest.clone().filter(|run| class(run) == wanted).count();
        if of_class >= fan_in { merge_of(runs, newest.count()) } else { None }
    })
}

/// A merge of everything, whatever the sizes.
pub(crate) fn full_merge(runs: &[RunSummary]) -> Option<MergePlan> {
    merge_of(runs, runs.len())
}

/// The newest `count` runs become one. Its level is the oldest input's, and its number the newest
/// input's: the runs of that level that stay are older, hence lower in number. It never lies below
/// an older run that stays: flushes differ in size, so one of the first level may stay.
fn merge_of(runs: &[RunSummary], count: usize) -> Option<MergePlan> {
    let inputs = runs.get(..count)?;
    let deepest = inputs.iter().map(|run| run.level).max()?.max(2);
    let level = runs.get(count).map_or(deepest, |older| deepest.min(older.level));
    let run = inputs.iter().map(|run| run.id).max()?;
    Some(MergePlan { count, level, run })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(sizes: &[u64]) -> Vec<RunSummary> {
        let newest_id = sizes.len() as u64;
        let summary = |(at, &bytes): (usize, &u64)| RunSummary {
            level: if bytes > 1 { 2 } else { 1 },
            id: newest_id - at as u64,
            bytes,
        };
        sizes.iter().enumerate().map(summary).collect()
    }

    fn count(sizes: &[u64], pace: Pace) -> Option<usize> {
        next_merge(&runs(sizes), 4, 10, pace).map(|plan| plan.count)
    }

    #[test]
    fn a_class_is_merged_when_it_is_full() {
        assert_eq!(count(&[], Pace::Busy), None);
        assert_eq!(count(&[1, 1, 1], Pace::Busy), None);
        assert_eq!(count(&[1, 1, 1, 1], Pace::Busy), Some(4));
        assert_eq!(count(&[1, 1, 1, 4, 4, 4], Pace::Busy), None);
        assert_eq!(count(&[1, 1, 1, 1, 4, 4, 4], Pace::Busy), Some(4));
        assert_eq!(count(&[1, 4, 4, 4, 4], Pace::Busy), Some(5));
        assert_eq!(count(&[4, 4, 4, 4, 16], Pace::Busy), Some(4), "the unit is the smallest run");
    }

    #[test]
    fn a_quiet_family_becomes_one_run_and_then_rests() {
        assert_eq!(count(&[2, 16], Pace::Quiet), Some(2));
        assert_eq!(count(&[1, 16], Pace::Quiet), None, "not worth rewriting the old run");
        assert_eq!(count(&[1, 1, 100], Pace::Quiet), Some(2));
        assert_eq!(count(&[16], Pace::Quiet), None);
    }

    #[test]
    fn the_output_takes_the_place_of_its_inputs() {
        let plan = next_merge(&runs(&[1, 1, 1, 1, 16]), 4, 10, Pace::Busy);
        assert_eq!(plan, Some(MergePlan { count: 4, level: 2, run: 5 }));
    }

    #[test]
    fn the_output_stays_above_an_older_run_of_the_first_level() {
        let of_level_1 = |id, bytes| RunSummary { level: 1, id, bytes };
        let state = [of_level_1(4, 1), of_level_1(3, 1), of_level_1(2, 10)];
        let plan = next_merge(&state, 2, 10, Pace::Busy);
        assert_eq!(plan, Some(MergePlan { count: 2, level: 1, run: 4 }));
        assert_eq!(full_merge(&state), Some(MergePlan { count: 3, level: 2, run: 4 }));
    }

    #[test]
    fn an_endless_stream_of_flushes_keeps_few_runs_and_rewrites_little() {
        let mut state: Vec<RunSummary> = Vec::new();
        let (mut rewritten, flushes) = (0, 1000);
        for id in 1..=flushes {
            state.insert(0, RunSummary { level: 1, id, bytes: 100 });
            while let Some(plan) = next_merge(&state, 4, 10, Pace::Busy) {
                let bytes = state.drain(..plan.count).map(|run| run.bytes).sum();
                rewritten += bytes;
                state.insert(0, RunSummary { level: plan.level, id: plan.run, bytes });
            }
            assert!(state.len() <= 16, "{} runs after {id} flushes", state.len());
        }
        assert!(rewritten <= 6 * flushes * 100, "rewrote {rewritten}");
    }
}
