//! Removing whole tables that a range deletion covers, without reading them.
//!
//! A table goes when one flushed tombstone covers all of its keys, is newer than all of its entries,
//! and every live snapshot that sees an entry sees the tombstone (`version/range_tombstones.rs`).
//! That is one manifest edit. It is looked for whenever merges are, and again when a snapshot goes
//! that was in the way: the registry of snapshots watches one such snapshot for each table. What
//! a deletion covers in part waits for a merge.
//!
//! Threads: whoever removes holds the family's merge lock, so that no merge reads the tables.

use std::sync::Arc;

use tidesdb_base::error::Result;

use super::install::Merged;
use crate::core::Core;
use crate::family::FamilyState;

impl Core {
    /// Removes the family's covered tables. The family's merge lock is held.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Io`] when the manifest can't be written; nothing has changed then.
    pub(crate) fn drop_covered_tables(&self, family: &Arc<FamilyState>) -> Result<()> {
        let covered = family.view.load().version.covered_tables(&self.snapshots.list());
        if covered.is_empty() {
            return Ok(());
        }
        self.install_merged(family, &Merged { replaced: covered, ..Merged::default() })
    }

    /// True when tables can be removed now. When snapshots are all that keeps some, merges are
    /// scheduled again as these snapshots go.
    pub(crate) fn has_covered_tables(&self, family: &FamilyState) -> bool {
        let version = family.current_version();
        if version.range_tombstones.is_empty() {
            return false;
        }
        let snapshots = self.snapshots.list();
        if !version.covered_tables(&snapshots).is_empty() {
            return true;
        }
        let held_by = version.snapshots_in_the_way(&snapshots);
        !held_by.is_empty() && !self.snapshots.watch(&held_by)
    }

    /// A snapshot went that kept a table from being removed.
    #[cold]
    pub(crate) fn watched_snapshot_gone(&self) {
        if !self.health.is_closed() {
            for family in self.families.all() {
                self.schedule_compaction(&family);
            }
        }
    }
}
