//! What the planner needs to know of a family, gathered from its files and options.

use tidesdb_base::options::FamilyOptions;
use tidesdb_files::sstable::KeySketch;

use super::plan::{PlanRules, RunSummary};
use crate::version::{Run, TableFile, Version};

/// Runs of one class are merged when there are this many times `l1_file_count_trigger` of them. Twice
/// as many runs save a quarter of the rewriting; the filters keep gets from noticing.
const FAN_IN_PER_TRIGGER: usize = 2;

/// The runs of a version, newest first.
pub(crate) fn summarize(version: &Version, options: &FamilyOptions) -> Vec<RunSummary> {
    let mut keys = KeySketch::default();
    let mut summary = |run: &Run| {
        let totals = &run.totals;
        keys.merge(&totals.keys);
        RunSummary {
            level: run.level,
            id: run.id,
            bytes: totals.bytes.max(1),
            value_bytes: totals.value_references.values().sum(),
            entries: totals.entries,
            tombstones: totals.tombstones,
            distinct_through: keys.estimate(),
            too_many_tombstones: totals.tombstones > 0
                && run.tables.iter().any(|table| has_too_many_tombstones(table, options)),
            damaged: run.is_damaged(),
        }
    };
    version.runs.iter().map(&mut summary).collect()
}

fn has_too_many_tombstones(table: &TableFile, options: &FamilyOptions) -> bool {
    let (entries, tombstones) = (table.record.entries, table.record.tombstones);
    options.tombstone_density_trigger > 0.0
        && entries >= options.tombstone_density_min_entries
        && tombstones as f64 >= entries as f64 * options.tombstone_density_trigger
}

/// The rules for the next merge of a version.
pub(crate) fn rules(options: &FamilyOptions, version: &Version) -> PlanRules {
    PlanRules {
        fan_in: options.l1_file_count_trigger * FAN_IN_PER_TRIGGER,
        size_ratio: options.level_size_ratio,
        max_space_amplification: options.max_space_amplification,
        // One flush is about half as large as the memory it comes from.
        least_garbage_bytes: options.write_buffer_size as u64 / 2,
        collect_values: !version.mostly_dead_value_logs().is_empty(),
    }
}
