//! What a repeatable reader is refused for: that another commit has changed what it has read.

use std::sync::atomic::Ordering;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};

use super::changes::changes_of_reads;
use super::logged_changes::{Bounds, logged_changes};
use super::validation::Validation;
use super::window::Window;
use crate::family::FamilyState;
use crate::transaction::read_set::ReadSet;

const CHANGED: &str = "another commit has changed a key that it has read";

impl Validation<'_> {
    /// Repeatable read: no other commit may have changed a key that was read and found.
    pub(super) fn look_at_reads(&mut self, reads: &ReadSet, through: SequenceNumber) -> Result<()> {
        let window = Window { since: self.read_conflicts.through, through };
        if window.is_empty() {
            return Ok(());
        }
        self.read_conflicts.looked_at = 0;
        let bounds = if self.in_place { Bounds::WAITED_FOR } else { Bounds::ALONE };
        // What a long look has seen need not be looked at once more.
        let logged_first =
            self.read_conflicts.through > self.snapshot.sequence && self.read_conflicts.is_wide;
        let looked = (logged_first && self.look_at_logged(reads, window, bounds)?)
            || self.look_at_versions(reads, window, bounds)?
            || (!logged_first && self.look_at_logged(reads, window, bounds)?);
        #[cfg(test)]
        if self.in_place {
            crate::transaction::tests::steps::note_waited_for(self.read_conflicts.looked_at);
        }
        if looked {
            self.read_conflicts.through = through;
            return Ok(());
        }
        let reason = self.give_place_back()?;
        // ORDERING: a statistic.
        self.core.telemetry.counters.transaction_conflicts.fetch_add(1, Ordering::Relaxed);
        let (family, key) = self.read_conflicts.some_place(reads).unwrap_or_default();
        Err(Error::Conflict { family, key, reason })
    }

    /// Looks at the versions of what was read. False when that is more than the bounds say.
    fn look_at_versions(
        &mut self,
        reads: &ReadSet,
        window: Window,
        bounds: Bounds,
    ) -> Result<bool> {
        let mut budget = bounds.keys;
        let (blocks, of) = (&self.core.storage.files.blocks, (reads, self.snapshot));
        let looked = changes_of_reads(blocks, of, window, &mut budget, |read| {
            if read.in_range {
                self.check_was_absent(read.family, read.key)
            } else {
                Err(self.conflict(read.family, read.key, CHANGED))
            }
        });
        self.read_conflicts.note_looked_at(reads, bounds.keys - budget);
        looked
    }

    /// Looks at what was logged in the window. False when that is more than the bounds say, or the
    /// log does not have it all.
    fn look_at_logged(&mut self, reads: &ReadSet, window: Window, bounds: Bounds) -> Result<bool> {
        let log = &self.core.storage.log;
        if self.in_place {
            // Commits in front that have to do with none of its keys may not be complete yet.
            log.wait_published(window.through);
        }
        let ranges = self.read_conflicts.ranges_of(reads);
        let of = (reads, ranges);
        let mut changes = Vec::new();
        let whole = logged_changes(log, of, (window, bounds), self.snapshot, |change| {
            changes.push((change.family, change.key.to_vec(), change.of_range));
        });
        if !whole {
            return Ok(false);
        }
        changes.sort_unstable();
        changes.dedup();
        let mut budget = bounds.keys;
        for (family, key, of_range) in changes {
            let Some(state) = reads.families().find(family) else { continue };
            if of_range || reads.has_point(family, &key) {
                return Err(self.conflict(state, &key, CHANGED));
            }
            // Each is a get, which may go to the disk.
            let Some(left) = budget.checked_sub(1) else { return Ok(false) };
            budget = left;
            self.check_was_absent(state, &key)?;
        }
        self.read_conflicts.looked_at = self.read_conflicts.looked_at.max(bounds.keys - budget);
        Ok(true)
    }

    /// Refuses the change of a key in a range that was read, if the reader found it there.
    fn check_was_absent(&self, family: &FamilyState, key: &[u8]) -> Result<()> {
        match self.core.get_stored(family, Some(self.snapshot), key, |_| ()) {
            Ok(Some(())) => Err(self.conflict(family, key, CHANGED)),
            // Nothing is read in a family that is gone, as in a view of it.
            Ok(None) | Err(Error::FamilyDropped(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
