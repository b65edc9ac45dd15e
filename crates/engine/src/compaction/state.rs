//! What the planner needs to know of a family, gathered from its files and options.

use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::options::FamilyOptions;
use tidesdb_files::sstable::KeySketch;

use super::plan::{LEAST_RELEASED, PlanRules, RunSummary};
use crate::version::{Run, TableFile, Version, collected_from};

/// Runs of one class are merged when there are this many times `l1_file_count_trigger` of them. Twice
/// as many runs save a quarter of the rewriting; the filters keep gets from noticing.
const FAN_IN_PER_TRIGGER: usize = 2;

/// The runs of a version, newest first. `oldest` is the oldest live snapshot.
pub(crate) fn summarize(
    version: &Version,
    options: &FamilyOptions,
    oldest: Option<SequenceNumber>,
) -> Vec<RunSummary> {
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
            keys: totals.distinct_keys,
            tombstones: totals.tombstones,
            released: if may_see_older(run, oldest) { 0 } else { hidden_versions(run) },
            distinct_through: keys.estimate(),
            too_many_tombstones: totals.tombstones > 0
                && run.tables.iter().any(|table| has_too_many_tombstones(table, options)),
            damaged: run.is_damaged(),
        }
    };
    version.runs.iter().map(&mut summary).collect()
}

/// Whether a snapshot may need an older version of a key than the newest one of the run.
fn may_see_older(run: &Run, oldest: Option<SequenceNumber>) -> bool {
    oldest.is_some_and(|snapshot| snapshot < run.totals.newest)
}

/// Versions of the run that newer ones of it hide: when it was written, a snapshot needed them. 0 when
/// they are few.
///
/// The estimate of its keys only says where to look. What is in the tables decides: an estimate
/// that is too low must not have a quiet family rewritten for ever.
fn hidden_versions(run: &Run) -> u64 {
    let totals = &run.totals;
    let many = totals.entries as f64 > totals.distinct_keys as f64 * LEAST_RELEASED;
    // At the beginning of time nothing has expired. What can't be read is for merges to tell of.
    let hides = |table: &Arc<TableFile>| !table.is_free_of_garbage(0).unwrap_or(true);
    let hidden = many && run.tables.iter().any(hides);
    if hidden { totals.entries.saturating_sub(totals.distinct_keys) } else { 0 }
}

/// The newest version of the runs that hold more than a few versions for snapshots alone; 0 when
/// there are none. Snapshots older than it may be what keeps those versions.
pub(crate) fn newest_beside_hidden(version: &Version) -> SequenceNumber {
    let hiding = version.runs.iter().filter(|run| hidden_versions(run) > 0);
    hiding.map(|run| run.totals.newest).max().unwrap_or(0)
}

fn has_too_many_tombstones(table: &TableFile, options: &FamilyOptions) -> bool {
    let (entries, tombstones) = (table.record.entries, table.record.tombstones);
    options.tombstone_density_trigger > 0.0
        && entries >= options.tombstone_density_min_entries
        && tombstones as f64 >= entries as f64 * options.tombstone_density_trigger
}

/// The rules for the next merge of a version of a family that somebody reads, or nobody.
pub(crate) fn rules(options: &FamilyOptions, version: &Version, is_read: bool) -> PlanRules {
    PlanRules {
        fan_in: options.l1_file_count_trigger * FAN_IN_PER_TRIGGER,
        is_read,
        size_ratio: options.level_size_ratio,
        max_space_amplification: options.max_space_amplification,
        collected_from: collected_from(options.max_space_amplification),
        // One flush is about half as large as the memory it comes from.
        least_garbage_bytes: options.write_buffer_size as u64 / 2,
        collect_values: version.has_mostly_dead_value_logs(),
    }
}
