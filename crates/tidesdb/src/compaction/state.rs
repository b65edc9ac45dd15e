//! What the planner needs to know of a family's runs, gathered from its files and options.

use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::options::FamilyOptions;

use super::plan::{LEAST_OWN_GARBAGE, PlanRules, RunSummary};
use crate::version::{LivenessCount, LivenessRules, Run, TableFile, Version, collected_from};

/// Runs of one class are merged when there are this many times `l1_file_count_trigger` of them.
/// Twice as many runs save a quarter of the rewriting; the filters keep gets from noticing.
const FAN_IN_PER_TRIGGER: usize = 2;

/// The runs of a version, newest first.
pub(crate) fn summarize(
    version: &Version,
    options: &FamilyOptions,
    liveness: LivenessRules<'_>,
) -> Vec<RunSummary> {
    let dead_values = version.dead_value_bytes();
    let by_tombstones = options.tombstone_density_trigger > 0.0;
    let mut through = LivenessCount::new(liveness);
    let summary = |(run, below): (&Run, usize)| {
        let mut alone = LivenessCount::new(liveness);
        let released = released_versions(run, liveness.snapshots);
        for count in [&mut alone, &mut through] {
            count.add_run(run);
            count.add_released(released);
        }
        let bottom = below == 0;
        let goes = |table: &&Arc<TableFile>| {
            liveness.snapshots.first().is_none_or(|&oldest| oldest >= table.record.highest_sequence)
        };
        RunSummary {
            level: run.level,
            id: run.id,
            bytes: run.totals.bytes.max(1),
            value_bytes: run.totals.value_bytes,
            alone: alone.liveness(bottom),
            through: through.liveness(bottom),
            tombstone_bytes: if by_tombstones && run.totals.counts.tombstones > 0 {
                let dense = |table: &&Arc<TableFile>| has_too_many_tombstones(table, options);
                let tables = run.tables.iter().filter(goes).filter(dense);
                tables.map(|table| table.record.bytes).sum()
            } else {
                0
            },
            dead_value_bytes: dead_values.get(&run.place()).copied().unwrap_or(0),
            damaged: run.is_damaged(),
        }
    };
    version.runs.iter().zip((0..version.runs.len()).rev()).map(summary).collect()
}

/// Versions of the run that newer ones of it hide and no snapshot needs: when it was written, one
/// did. 0 when they are few.
///
/// The estimate of its keys only says where to look. What is in the tables decides: an estimate
/// that is too low must not have a quiet family rewritten without end.
fn released_versions(run: &Run, snapshots: &[SequenceNumber]) -> u64 {
    let counts = &run.totals.counts;
    let older = |sequence| snapshots.partition_point(|&older| older < sequence);
    let many = counts.entries as f64 > counts.distinct as f64 * LEAST_OWN_GARBAGE;
    if !many || older(counts.oldest) != older(counts.newest) {
        return 0;
    }
    // At the beginning of time nothing has expired. What can't be read is for compactions to
    // report.
    let hides = |table: &Arc<TableFile>| !table.is_free_of_garbage(0).unwrap_or(true);
    let hidden = run.tables.iter().any(hides);
    if hidden { counts.entries.saturating_sub(counts.distinct) } else { 0 }
}

fn has_too_many_tombstones(table: &TableFile, options: &FamilyOptions) -> bool {
    let (entries, tombstones) = (table.record.entries, table.record.tombstones);
    entries >= options.tombstone_density_min_entries
        && tombstones as f64 >= entries as f64 * options.tombstone_density_trigger
}

/// The rules for the next compaction of a family that is kept for readers, or is not.
pub(crate) fn rules(options: &FamilyOptions, favours_readers: bool) -> PlanRules {
    PlanRules {
        fan_in: options.l1_file_count_trigger * FAN_IN_PER_TRIGGER,
        trigger: options.l1_file_count_trigger as u64,
        favours_readers,
        size_ratio: options.level_size_ratio,
        max_space_amplification: options.max_space_amplification,
        collected_from: collected_from(options.max_space_amplification),
        // One flush is about half as large as the memory it comes from.
        least_garbage_bytes: options.write_buffer_size as u64 / 2,
        awaits_snapshots: false,
    }
}
