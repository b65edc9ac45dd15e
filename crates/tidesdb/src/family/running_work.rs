//! Whether background work is done for a family.

use super::FamilyState;

impl FamilyState {
    /// A flush or a compaction of the family is queued or running, by itself or because a caller
    /// asked for it.
    pub(crate) fn has_running_work(&self) -> bool {
        self.flushes.are_under_way() || self.is_compacting()
    }

    /// A memtable waits to be written out, or is being written.
    pub(crate) fn is_flushing(&self) -> bool {
        self.flushes.are_under_way() || !self.view.load().frozen.is_empty()
    }

    /// A compaction is queued or running, by itself or because a caller asked for it.
    pub(crate) fn is_compacting(&self) -> bool {
        self.compactions.have_jobs() || self.compactions.lock().count() > 0
    }
}
