//! How much of a table range tombstones hide, found by reading a little of it.
//!
//! A tombstone says which keys are gone and not how many there were: the sketches of tables count
//! them as alive. So a few entries from places all over the table are judged as a compaction would.
//! That costs a few dozen blocks for each table and is done again when another tombstone meets the
//! table, or other snapshots are in the way; the planner has some tables measured at each look. A
//! family at rest has all of them measured ([`Measuring`]).

use std::sync::{Arc, Weak};

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Result;
use tidesdb_base::range_tombstone::RangeTombstoneSets;
use tidesdb_files::sstable::{Readahead, TableIterator, Uncached};
use tidesdb_lockfree::sync::lock;

use super::measured_deletions::{InTheWay, RangeDeleted};
use super::{TableFile, Version, is_deleted_in_part};

/// Places of a table that are looked at.
const PLACES: usize = 32;
/// Entries that are read at each place.
const ENTRIES_PER_PLACE: u64 = 16;

impl TableFile {
    /// Versions that range tombstones hide from all readers, as far as it was measured.
    pub(super) fn range_deleted(&self, snapshots: &[SequenceNumber]) -> u64 {
        #[cfg(test)]
        LOOKS.set(LOOKS.get() + 1);
        let known = lock(&self.measured).known();
        let is_free = self.in_the_way(snapshots, known.through).1 == 0;
        if is_free { known.without_snapshots } else { known.now }
    }

    fn in_the_way(&self, snapshots: &[SequenceNumber], through: SequenceNumber) -> InTheWay {
        let first = snapshots.partition_point(|&older| older < self.record.lowest_sequence);
        let end = snapshots.partition_point(|&older| older < through);
        let between = snapshots.get(first..end).unwrap_or_default();
        (between.first().copied().unwrap_or(0), between.len())
    }

    /// What is known already, if it is right still.
    fn is_measured(&self, tombstones: &RangeTombstoneSets, snapshots: &[SequenceNumber]) -> bool {
        #[cfg(test)]
        LOOKS.set(LOOKS.get() + 1);
        let known = lock(&self.measured).known();
        let (smallest, largest) = (&self.record.smallest_key, &self.record.largest_key);
        match known.through {
            0 => !is_deleted_in_part(&self.record, tombstones),
            through => {
                let in_the_way = self.in_the_way(snapshots, through);
                (in_the_way.1 == 0 || in_the_way == known.in_the_way)
                    && !tombstones.meets(smallest, largest, through)
            }
        }
    }

    fn is_unmeasured(&self, tombstones: &RangeTombstoneSets, snapshots: &[SequenceNumber]) -> bool {
        !self.is_damaged() && !self.is_measured(tombstones, snapshots)
    }

    fn measure(self: &Arc<Self>, tombstones: &RangeTombstoneSets, snapshots: &[SequenceNumber]) {
        let through = tombstones.highest_sequence();
        // What can't be read is for compactions to report.
        let seen = self.sample(tombstones, snapshots).unwrap_or_default();
        let of_all = |part: u64| self.record.entries * part / seen.entries.max(1);
        let known = RangeDeleted {
            now: of_all(seen.deleted),
            without_snapshots: of_all(seen.deleted_without_snapshots),
            through,
            in_the_way: self.in_the_way(snapshots, through),
        };
        lock(&self.measured).set(known);
    }

    fn sample(
        self: &Arc<Self>,
        tombstones: &RangeTombstoneSets,
        snapshots: &[SequenceNumber],
    ) -> Result<Sample> {
        let mut sample = Sample::default();
        let open = self.table()?;
        let Some(table) = open.as_ref().map(Arc::clone) else { return Ok(sample) };
        let blocks = table.block_count();
        let places = blocks.min(PLACES);
        let mut iterator = TableIterator::new(Arc::clone(&table), Uncached, Readahead::None);
        for place in 0..places {
            iterator.seek_to_block(place * blocks / places)?;
            for _ in 0..ENTRIES_PER_PLACE {
                if !iterator.valid() {
                    break;
                }
                let (key, sequence) = (iterator.key(), iterator.seq());
                let older = snapshots.partition_point(|&older| older < sequence);
                let first = snapshots.get(older).copied().unwrap_or(SequenceNumber::MAX);
                sample.entries += 1;
                sample.deleted += u64::from(tombstones.hides(key, sequence, first));
                sample.deleted_without_snapshots +=
                    u64::from(tombstones.hides(key, sequence, SequenceNumber::MAX));
                iterator.next()?;
            }
        }
        Ok(sample)
    }
}

/// What was found at the places of a table.
#[derive(Debug, Default)]
struct Sample {
    entries: u64,
    deleted: u64,
    deleted_without_snapshots: u64,
}

impl Version {
    /// Measures tables that range tombstones meet, at most so many; true when some are left.
    pub(crate) fn measure_range_deleted(
        &self,
        snapshots: &[SequenceNumber],
        most_tables: usize,
    ) -> bool {
        if self.range_tombstones.is_empty() {
            return false;
        }
        let tombstones = &self.range_tombstones;
        let mut unknown = self.tables().filter(|table| table.is_unmeasured(tombstones, snapshots));
        for table in unknown.by_ref().take(most_tables) {
            table.measure(tombstones, snapshots);
        }
        unknown.next().is_some()
    }
}

/// Measures the tables of a version, some at a time, from where the last call ended. Looking for
/// the next one from the beginning each time would cost the square of the tables.
#[derive(Debug, Default)]
pub(crate) struct Measuring {
    version: Weak<Version>,
    /// So many tables of it were looked at.
    done: usize,
}

impl Measuring {
    /// Measures tables that range tombstones meet, at most so many; true when some are left. Begins
    /// anew when it is asked for another version.
    pub(crate) fn go_on(
        &mut self,
        version: &Arc<Version>,
        snapshots: &[SequenceNumber],
        most_tables: usize,
    ) -> bool {
        // A version that is known keeps its place in memory, so no other has its address.
        if self.version.as_ptr() != Arc::as_ptr(version) {
            *self = Self { version: Arc::downgrade(version), done: 0 };
        }
        let tombstones = &version.range_tombstones;
        let mut measured = 0;
        for table in version.tables().skip(self.done) {
            if table.is_unmeasured(tombstones, snapshots) {
                if measured == most_tables {
                    return true;
                }
                table.measure(tombstones, snapshots);
                measured += 1;
            }
            self.done += 1;
        }
        false
    }
}

#[cfg(test)]
thread_local! {
    /// Looks at whether a table is measured, and at what is known of it.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
