//! The tables that one range tombstone each covers wholly, known from version to version.
//!
//! They are looked for with each flush. There may be very many tables, and few that a flush has to
//! do with: so what was found for a version is kept. Of the next one only the tables of runs that
//! are new are looked at, and those that a new tombstone covers.
//!
//! Behind a lock of the caller. It keeps no table and no run alive.

use std::sync::{Arc, Weak};

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::range_tombstone::RangeTombstone;

use super::range_tombstones::overlapping;
use super::run::RunTotals;
use super::{Run, TableFile, Version};

/// What was found for the version that was looked at last.
#[derive(Debug, Default)]
pub(crate) struct CoveredTables {
    /// Of the runs whose tables were looked at: a run that has other tables has other sums.
    runs: Vec<Weak<RunTotals>>,
    /// Tombstones up to here were looked at. Those that flushes add are newer.
    through: SequenceNumber,
    /// Tables that a tombstone covered, each with its run, whatever snapshots there are.
    found: Vec<(Weak<RunTotals>, Weak<TableFile>)>,
    #[cfg(test)]
    pub(super) looked_at: usize,
}

impl CoveredTables {
    /// The tables of the version that a tombstone covers, each once. No reader sees an entry of
    /// those for which no snapshot is so old that it sees entries and not the tombstone.
    pub(crate) fn of(&mut self, version: &Version) -> Vec<Arc<TableFile>> {
        if version.range_tombstones.is_empty() {
            *self = Self::default();
            return Vec::new();
        }
        let (known, new): (Vec<&Run>, Vec<&Run>) =
            version.runs.iter().partition(|run| self.runs.iter().any(|known| is_of(known, run)));
        self.found.retain(|(run, _)| known.iter().any(|known| is_of(run, known)));
        for run in new {
            self.look_at(version, run, &run.tables);
        }
        let through = self.through;
        let sets = version.range_tombstones.as_slice().iter();
        let changed = sets.filter(|set| set.highest_sequence() > through);
        let tombstones = changed.flat_map(|set| set.as_slice());
        let new: Vec<_> = tombstones.filter(|one| one.sequence > through).collect();
        for run in known {
            self.look_again(version, run, &new);
        }
        self.through = through.max(version.range_tombstones.highest_sequence());
        self.runs = version.runs.iter().map(|run| Arc::downgrade(&run.totals)).collect();
        // Several tombstones may cover a table.
        self.found.sort_by_key(|(_, table)| table.as_ptr());
        self.found.dedup_by_key(|(_, table)| table.as_ptr());
        self.found.retain(|(_, table)| table.strong_count() > 0);
        // The tombstone may have gone meanwhile, or the version be older than it: a table stays
        // known that a look at a newer one has found.
        let known = self.found.iter().filter_map(|(_, table)| table.upgrade());
        let mut tables: Vec<_> =
            known.filter(|table| version.is_covered(&table.record, SequenceNumber::MAX)).collect();
        tables.sort_by_key(|table| table.record.number);
        tables
    }

    #[cfg(test)]
    pub(super) const fn kept(&self) -> usize {
        self.found.len()
    }

    /// Looks at the tables of a known run that overlap new tombstones: at all of them once, where
    /// these are so many that it would be more than that.
    fn look_again(&mut self, version: &Version, run: &Run, new: &[&Arc<RangeTombstone>]) {
        let mut left = run.tables.len();
        for tombstone in new {
            let tables = overlapping(&run.tables, tombstone);
            let Some(rest) = left.checked_sub(tables.len().max(1)) else {
                self.look_at(version, run, &run.tables);
                return;
            };
            left = rest;
            self.look_at(version, run, tables);
        }
    }

    fn look_at(&mut self, version: &Version, run: &Run, tables: &[Arc<TableFile>]) {
        #[cfg(test)]
        {
            self.looked_at += tables.len();
        }
        for table in tables {
            if version.is_covered(&table.record, SequenceNumber::MAX) {
                self.found.push((Arc::downgrade(&run.totals), Arc::downgrade(table)));
            }
        }
    }
}

/// Whether these are the sums of a run, which keep their place in memory while they are known.
fn is_of(totals: &Weak<RunTotals>, run: &Run) -> bool {
    totals.as_ptr() == Arc::as_ptr(&run.totals)
}
