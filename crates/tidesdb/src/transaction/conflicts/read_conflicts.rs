//! What others have changed of what a serializable transaction has read.

use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Result;
use tidesdb_lockfree::snapshot_registry::ReadPoint;

use super::changes::changes_of_reads;
use super::logged_changes::{Bounds, MOST_KEYS, logged_changes};
use super::window::Window;
use super::write_conflicts::named;
use crate::cache::BlockCache;
use crate::isolation::OutConflicts;
use crate::transaction::read_set::RangeIndex;
use crate::transaction::read_set::ReadSet;
use crate::wal::Wal;

/// Changes of what was read, as far as they were looked for.
pub(super) struct ReadConflicts {
    /// Changes up to here were looked for.
    pub through: SequenceNumber,
    /// The commits that made them.
    pub commits: OutConflicts,
    /// The first key that was found overwritten, with its family's name.
    pub first: Option<(String, Vec<u8>)>,
    /// The ranges among the reads, sorted when that is worth it.
    ranges: Option<RangeIndex>,
    /// So much was read that a look at all of it takes long.
    pub is_wide: bool,
    /// Keys and ranges that the last look at versions has taken.
    pub looked_at: u64,
}

impl ReadConflicts {
    /// No change after `through` was looked for.
    pub(super) fn after(through: SequenceNumber) -> Self {
        let commits = OutConflicts::default();
        Self { through, commits, first: None, ranges: None, is_wide: false, looked_at: 0 }
    }

    /// The first key that was found overwritten, or else one of those that were read.
    pub(super) fn some_place(&self, reads: &ReadSet) -> Option<(String, Vec<u8>)> {
        self.first.clone().or_else(|| {
            let ranges = reads.ranges().map(|range| (range.family, range.start.as_slice()));
            let (id, key) = reads.points().chain(ranges).next()?;
            let family = reads.families().find(id)?;
            Some(named(family, key))
        })
    }

    /// Notes the changes in the window from what was logged in it. False when that is more than the
    /// bounds say, or does not have them.
    pub(super) fn note_logged(
        &mut self,
        log: &Wal,
        (reads, snapshot): (&ReadSet, ReadPoint),
        within: (Window, Bounds),
    ) -> bool {
        let ranges = self.ranges.get_or_insert_with(|| RangeIndex::of(reads));
        let (overwritten, first) = (&mut self.commits, &mut self.first);
        logged_changes(log, (reads, &*ranges), within, snapshot, |change| {
            if first.is_none() {
                let family = reads.families().find(change.family);
                *first = family.map(|family| named(family, change.key));
            }
            overwritten.add(change.sequence, false);
        })
    }

    /// Notes the changes in the window from the versions of what was read. False when that is more
    /// than the bounds say.
    ///
    /// # Errors
    /// `Corruption` or `Io` when a table can't be read.
    pub(super) fn note_versions(
        &mut self,
        blocks: &Arc<BlockCache>,
        of: (&ReadSet, ReadPoint),
        (window, Bounds { keys, .. }): (Window, Bounds),
    ) -> Result<bool> {
        let mut budget = keys;
        let (overwritten, first) = (&mut self.commits, &mut self.first);
        let noted = changes_of_reads(blocks, of, window, &mut budget, |read| {
            first.get_or_insert_with(|| named(read.family, read.key));
            overwritten.add(read.change.sequence, read.change.hides);
            Ok(())
        });
        self.note_looked_at(of.0, keys - budget);
        noted
    }

    /// Notes how many keys and ranges a look at versions has taken.
    pub(super) fn note_looked_at(&mut self, reads: &ReadSet, looked_at: u64) {
        self.looked_at = looked_at;
        if looked_at > MOST_KEYS {
            self.is_wide = true;
            // Now, and not while others wait.
            self.ranges_of(reads);
        }
    }

    /// The ranges among the reads, sorted.
    pub(super) fn ranges_of(&mut self, reads: &ReadSet) -> &RangeIndex {
        self.ranges.get_or_insert_with(|| RangeIndex::of(reads))
    }
}
