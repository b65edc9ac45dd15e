//! Removing whole tables that a range deletion covers, without reading them.
//!
//! A table goes when one flushed tombstone covers all of its keys, is newer than all of its entries,
//! and every live snapshot that sees an entry sees the tombstone (`version/range_tombstones.rs`).
//! That is one manifest edit. It is looked for whenever merges are, and again when a snapshot goes
//! that was in the way. What a deletion covers in part waits for a merge.
//!
//! Threads: whoever removes holds the family's merge lock, so that no merge reads the tables.

use std::sync::Arc;
use std::sync::atomic::Ordering;

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

    /// True when tables can be removed now. When snapshots are all that keeps them, the last such
    /// snapshot to go has merges scheduled again.
    pub(crate) fn has_covered_tables(&self, family: &FamilyState) -> bool {
        let version = family.current_version();
        if version.range_tombstones.is_empty() {
            return false;
        }
        let removable = || !version.covered_tables(&self.snapshots.list()).is_empty();
        if removable() {
            return true;
        }
        if version.covered_tables(&[]).is_empty() {
            return false;
        }
        // ORDERING: relaxed; whoever lets a snapshot go behind the next look takes the registry's
        // lock after it, and so sees this.
        self.range_deletes_held.store(true, Ordering::Relaxed);
        removable()
    }

    /// A snapshot went that was the oldest: what it kept from being removed may go now.
    #[inline]
    pub(crate) fn oldest_snapshot_gone(&self) {
        // ORDERING: relaxed, as in `has_covered_tables`; a load first, since it is rarely set.
        if self.range_deletes_held.load(Ordering::Relaxed)
            && self.range_deletes_held.swap(false, Ordering::Relaxed)
            && !self.health.is_closed()
        {
            for family in self.families.all() {
                self.schedule_compaction(&family);
            }
        }
    }
}
