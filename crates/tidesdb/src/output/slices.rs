//! Slices: where flushes and compactions end their tables, so that garbage is collected part by
//! part.
//!
//! A family whose keys are overwritten all the time would have everything merged again and again,
//! and while such a compaction runs, as much garbage comes as it removes. Its key space is
//! therefore cut into a few slices. Flushes and compactions end their tables at the bounds, so that
//! the tables of a slice, in all runs, can be merged without any other: the slice with the most
//! garbage is, and the tables that it had in newer runs are gone at once. That costs as much as one
//! large compaction for the same garbage, is done in small even steps, and what has waited longest
//! goes first.
//!
//! This is how Spooky (Dayan and others, PVLDB 15(11), 2022) cuts its merges into the largest
//! level.
//!
//! Bounds lie between tables of the oldest run. They stay until the slices have become too unequal,
//! are forgotten when the database is closed, and mean nothing for what is right: a table that
//! reaches over a bound only makes that bound useless until the table is merged.

use std::sync::Arc;

use tidesdb_lockfree::sync::lock;

use super::key_partitions::KeySpan;
use crate::family::{FamilyState, SliceBounds};
use crate::version::{KeyCounts, LivenessCount, LivenessRules, TableFile, Version};

/// Slices of a family that is large enough. More would make the tables of a flush small.
pub(crate) const SLICES: u64 = 8;

/// Tables of a small family are not smaller than this.
pub(crate) const LEAST_TABLE_BYTES: u64 = 4 << 20;

/// Slices are cut anew when one has this many times its share of the oldest run.
const MOST_UNEQUAL: u64 = 3;

/// Chooses the keys at which the family's tables end from now on.
pub(crate) fn renew(family: &FamilyState, version: &Version) -> SliceBounds {
    let target_table_bytes = family.options.load().target_table_bytes;
    let mut bounds = lock(&family.compactions.slice_bounds);
    *bounds = renewed(&bounds, version, target_table_bytes);
    bounds.clone()
}

/// The bounds from now on. `present` are those in force, `target_table_bytes` is the family's
/// option.
fn renewed(present: &SliceBounds, version: &Version, target_table_bytes: u64) -> SliceBounds {
    let Some(oldest) = version.runs.last().filter(|run| run.level > 1) else {
        return SliceBounds::default();
    };
    let least_bytes = target_table_bytes.min(LEAST_TABLE_BYTES);
    let wanted = (oldest.bytes() / least_bytes.max(1)).clamp(1, SLICES);
    let slices = KeySpan::between(present.to_vec());
    let most = (oldest.bytes() / slices.len() as u64 * MOST_UNEQUAL).max(1);
    let is_fair = |slice: &KeySpan| {
        let tables = tables_within(&oldest.tables, slice).iter();
        tables.map(|table| table.record.bytes).sum::<u64>() <= most
    };
    if slices.len() as u64 * 2 > wanted && slices.iter().all(is_fair) {
        return Arc::clone(present);
    }
    bounds_between(&oldest.tables, wanted).into()
}

/// Bounds between the tables of a run, so that its tables are not cut.
pub(crate) fn bounds_between(tables: &[Arc<TableFile>], parts: u64) -> Vec<Vec<u8>> {
    let total: u64 = tables.iter().map(|table| table.record.bytes).sum();
    let (mut before, mut bounds) = (0, Vec::new());
    for table in tables {
        let wanted = (bounds.len() as u64 + 1) * (total / parts);
        if before > 0 && before >= wanted && (bounds.len() as u64) < parts - 1 {
            bounds.push(table.record.smallest_key.clone());
        }
        before += table.record.bytes;
    }
    bounds
}

/// The tables of a flush hold at least so much of a memtable, in bytes: each is a file that is
/// synced.
const LEAST_FLUSHED_BYTES: u64 = 1 << 20;
/// Where tables are small by the options, they hold at least this part of their usual size.
const LEAST_FLUSHED_PART: u64 = 32;

/// Those of the bounds at which a flush of so many bytes of memtable ends its tables. Every second
/// one goes as often as must be, so that small flushes keep the same ones: a bound that a table
/// crosses is of no use until the table is merged.
pub(crate) fn for_flush(bounds: &SliceBounds, bytes: u64, target_table_bytes: u64) -> SliceBounds {
    let least = (target_table_bytes / LEAST_FLUSHED_PART).clamp(1, LEAST_FLUSHED_BYTES);
    // A memtable is frozen a little before it is full.
    let most = bytes.div_ceil(least);
    if (bounds.len() as u64) < most.max(1) {
        return Arc::clone(bounds);
    }
    let mut kept = bounds.to_vec();
    while kept.len() as u64 >= most.max(1) {
        kept = kept.into_iter().skip(1).step_by(2).collect();
    }
    kept.into()
}

/// Bytes that the newest `count` runs have in the range.
pub(crate) fn bytes_within(version: &Version, count: usize, range: &KeySpan) -> u64 {
    let runs = version.runs.iter().take(count);
    let tables = runs.flat_map(|run| tables_within(&run.tables, range));
    tables.map(|table| table.record.bytes).sum()
}

/// The worst slice between the family's bounds, see [`worst`].
pub(crate) fn worst_of(
    family: &FamilyState,
    version: &Version,
    liveness: LivenessRules<'_>,
) -> Option<(f64, KeySpan)> {
    let bounds = lock(&family.compactions.slice_bounds).clone();
    worst(version, &bounds, liveness)
}

/// The slice of which the largest part is garbage, with that part, among those that hold any and no
/// damaged table. All keys when tables reach over all bounds.
fn worst(
    version: &Version,
    bounds: &SliceBounds,
    liveness: LivenessRules<'_>,
) -> Option<(f64, KeySpan)> {
    let is_crossed = |bound: &Vec<u8>| {
        version.runs.iter().any(|run| {
            let last = tables_before(&run.tables, bound).last();
            last.is_some_and(|table| table.record.largest_key >= *bound)
        })
    };
    let free = bounds.iter().filter(|bound| !is_crossed(bound)).cloned().collect();
    let shares = KeySpan::between(free).into_iter().filter_map(|range| {
        let share = garbage_share(version, &range, liveness)?;
        Some((share, range))
    });
    shares.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Which part of the versions in the range is garbage; `None` when there is none, or when not all
/// of them can be read.
fn garbage_share(version: &Version, range: &KeySpan, rules: LivenessRules<'_>) -> Option<f64> {
    let mut count = LivenessCount::new(rules);
    for run in &version.runs {
        let tables = tables_within(&run.tables, range);
        let unreadable = tables.iter().any(|table| table.is_damaged());
        if unreadable {
            return None;
        }
        count.add(tables, &KeyCounts::of(tables.iter().map(|table| &table.record)));
    }
    let liveness = count.liveness(true);
    (liveness.garbage() > 0).then(|| liveness.garbage_share())
}

/// The tables of a run that begin before a bound.
fn tables_before<'a>(tables: &'a [Arc<TableFile>], bound: &[u8]) -> &'a [Arc<TableFile>] {
    let count = tables.partition_point(|table| table.record.smallest_key.as_slice() < bound);
    tables.get(..count).unwrap_or_default()
}

/// The tables of a run that begin in the range.
pub(crate) fn tables_within<'a>(
    tables: &'a [Arc<TableFile>],
    range: &KeySpan,
) -> &'a [Arc<TableFile>] {
    let before = |bound: &Vec<u8>| tables_before(tables, bound).len();
    let from = range.from.as_ref().map_or(0, before);
    let until = range.until.as_ref().map_or(tables.len(), before);
    tables.get(from..until).unwrap_or_default()
}

#[cfg(test)]
mod tests;
