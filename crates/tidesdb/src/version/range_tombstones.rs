//! What becomes of the range tombstones of a version as its tables change.
//!
//! A tombstone in a version hides older entries of its tables. Compactions leave such entries out,
//! and state in each table's record up to which tombstone they have done so; a tombstone goes when
//! no table needs it any more. A table that one tombstone covers wholly goes as it is.
//!
//! Pure functions of a version. What looks at every tombstone is called without a lock, see
//! `compaction/install.rs`. Invariant: every tombstone of a version is older than whatever is in
//! memory, so each reader who takes the version up from now on sees all of them.

use std::collections::HashSet;
use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::key_ranges::ends_behind;
use tidesdb_base::range_tombstone::{RangeTombstone, RangeTombstoneSets, part_swallowed};
use tidesdb_files::manifest::TableRecord;

use super::{Run, TableFile, Version};

impl Version {
    /// The tombstones that are not needed any more, and all others. `snapshots` are those that are
    /// live, oldest first; what they do not see they need not see later either. Looks at every
    /// tombstone: not for callers who hold a lock.
    pub(crate) fn finished_tombstones(
        &self,
        snapshots: &[SequenceNumber],
    ) -> (Vec<Arc<RangeTombstone>>, RangeTombstoneSets) {
        let all = self.range_tombstones.iter().cloned();
        let (needed, mut finished): (Vec<_>, Vec<_>) =
            all.partition(|tombstone| self.needs_tombstone(tombstone));
        let (kept, swallowed) = part_swallowed(needed, snapshots);
        finished.extend(swallowed);
        let mut sets = RangeTombstoneSets::default();
        sets.add(kept);
        (finished, sets)
    }

    /// Of what an `older` version, of these tables, has found to be finished: what this one does
    /// not need either, and what it needs. Looks at the tables that are new since: for a caller who
    /// holds a lock.
    pub(crate) fn part_finished(
        &self,
        older: &Self,
        known: &HashSet<u64>,
        finished: &[Arc<RangeTombstone>],
    ) -> [Vec<Arc<RangeTombstone>>; 2] {
        let added = self.tables_since(older, known);
        let is_needed = |tombstone: &Arc<RangeTombstone>| {
            added.iter().any(|tables| needed_by(tables, tombstone))
        };
        let (needed, finished) = finished.iter().cloned().partition(is_needed);
        [finished, needed]
    }

    /// What an `older` version has kept of its tombstones, and all that are newer. None of those
    /// that it kept has gone meanwhile.
    pub(crate) fn kept_since(
        &self,
        older: &Self,
        mut kept: RangeTombstoneSets,
    ) -> RangeTombstoneSets {
        // Whatever was in memory then is newer than all that the older version had.
        let through = older.range_tombstones.highest_sequence();
        let sets = self.range_tombstones.as_slice().iter();
        let sets = sets.filter(|set| set.highest_sequence() > through);
        let all = sets.flat_map(|set| set.as_slice());
        kept.add(all.filter(|one| one.sequence > through).cloned().collect());
        kept
    }

    /// The numbers of all tables.
    pub(crate) fn table_numbers(&self) -> HashSet<u64> {
        self.tables().map(|table| table.record.number).collect()
    }

    /// Of each run the tables that are not among those of an older version, in key order.
    fn tables_since(&self, older: &Self, known: &HashSet<u64>) -> Vec<Vec<Arc<TableFile>>> {
        let is_known = |run: &&Run| older.runs.iter().any(|o| Arc::ptr_eq(&o.tables, &run.tables));
        let is_new = |table: &&Arc<TableFile>| !known.contains(&table.record.number);
        let changed = self.runs.iter().filter(|run| !is_known(run));
        changed.map(|run| run.tables.iter().filter(is_new).cloned().collect()).collect()
    }

    /// True when some table may hold an entry that the tombstone hides.
    pub(crate) fn needs_tombstone(&self, tombstone: &RangeTombstone) -> bool {
        self.runs.iter().any(|run| needed_by(&run.tables, tombstone))
    }

    /// Adds tombstones, at a cost that hardly depends on how many there are: it is done with the
    /// catalog locked.
    pub(crate) fn add_tombstones(&mut self, added: &[Arc<RangeTombstone>]) {
        self.range_tombstones.add(added.to_vec());
    }

    /// Whether no reader sees an entry of a table that a tombstone covers: no snapshot is so old
    /// that it sees entries and not the tombstone. `snapshots` are those that are live, oldest
    /// first.
    pub(crate) fn is_covered_for(
        &self,
        record: &TableRecord,
        snapshots: &[SequenceNumber],
    ) -> bool {
        self.is_covered(record, first_to_see(record, snapshots))
    }

    /// True when a tombstone covers the table's keys, is newer than its entries, and is seen by a
    /// snapshot.
    pub(super) fn is_covered(&self, record: &TableRecord, snapshot: SequenceNumber) -> bool {
        let (smallest, largest) = (&record.smallest_key, &record.largest_key);
        self.range_tombstones.hides_all(smallest, largest, record.highest_sequence, snapshot)
    }
}

/// The oldest snapshot that sees any entry of a table: if it sees a tombstone, all that see entries
/// do. The highest number when there is none.
fn first_to_see(record: &TableRecord, snapshots: &[SequenceNumber]) -> SequenceNumber {
    let older = snapshots.partition_point(|&snapshot| snapshot < record.lowest_sequence);
    snapshots.get(older).copied().unwrap_or(SequenceNumber::MAX)
}

/// Snapshots that keep tables which a tombstone covers: for each the oldest that sees any entry,
/// ascending. `snapshots` are those that are live, oldest first.
pub(crate) fn snapshots_in_the_way(
    tables: &[Arc<TableFile>],
    snapshots: &[SequenceNumber],
) -> Vec<SequenceNumber> {
    let mut found: Vec<_> =
        tables.iter().map(|table| first_to_see(&table.record, snapshots)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// True when a table may hold an entry that the tombstone hides. Entries whose sequence number was
/// replaced by zero count as older; none lies under a tombstone that it is newer than.
pub(crate) fn table_needs(record: &TableRecord, tombstone: &RangeTombstone) -> bool {
    record.lowest_sequence < tombstone.sequence
        && record.range_deletes_applied_through < tombstone.sequence
}

/// True when a compaction that applies the tombstones may find something in the table to leave out.
pub(crate) fn is_deleted_in_part(record: &TableRecord, tombstones: &RangeTombstoneSets) -> bool {
    let through = record.lowest_sequence.max(record.range_deletes_applied_through);
    tombstones.meets(&record.smallest_key, &record.largest_key, through)
}

/// True when the ranges of keys of a table and a tombstone have a key in common.
pub(crate) fn table_overlaps(record: &TableRecord, tombstone: &RangeTombstone) -> bool {
    *record.largest_key >= *tombstone.start && ends_behind(&tombstone.end, &record.smallest_key)
}

/// True when one of a run's tables may hold an entry that the tombstone hides.
fn needed_by(tables: &[Arc<TableFile>], tombstone: &RangeTombstone) -> bool {
    overlapping(tables, tombstone).iter().any(|table| table_needs(&table.record, tombstone))
}

/// Of a run's tables those whose range of keys meets the tombstone's.
pub(super) fn overlapping<'a>(
    tables: &'a [Arc<TableFile>],
    tombstone: &RangeTombstone,
) -> &'a [Arc<TableFile>] {
    let before = |table: &Arc<TableFile>| *table.record.largest_key < *tombstone.start;
    let behind = tables.get(tables.partition_point(before)..).unwrap_or_default();
    let meets = |table: &Arc<TableFile>| ends_behind(&tombstone.end, &table.record.smallest_key);
    behind.get(..behind.partition_point(meets)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
