//! Value logs that were appended to, and that take no more: what the manifest is to know of them.

use tidesdb_files::manifest::{Change, ValueLogRecord};
use tidesdb_lockfree::sync::lock;

use super::Storage;
use crate::family::FamilyState;
use crate::version::{Extent, ValueLogAppender};

impl Storage {
    /// Ends the value log that the family's largest values go to, so that compactions may collect
    /// it once the commits that point into it are in tables. One that is being appended to stays
    /// open. Returns what the manifest is to record, which may as well be lost.
    pub(crate) fn close_direct_file(&self, family: &FamilyState) -> Option<Change> {
        let mut writer = family.writes.direct_values.try_lock().ok()?;
        self.close_locked(family, &mut writer)
    }

    /// Ends the value logs that flushes and compactions of the family append to, so that
    /// compactions may collect them. Those that one is appending to now stay as they are. Returns
    /// what the manifest is to record, which may as well be lost.
    pub(crate) fn close_growing_files(&self, family: &FamilyState) -> Vec<Change> {
        let ended = family.growing_value_logs.settle_all().into_iter();
        ended.map(|file| Change::AddValueLog { family: family.id, file }).collect()
    }

    /// Records closed files in the manifest.
    pub(crate) fn list_closed_files(
        &self,
        family: &FamilyState,
        closed: impl IntoIterator<Item = Change>,
    ) {
        let mut closed = closed.into_iter().peekable();
        if closed.peek().is_none() {
            return;
        }
        let mut catalog = lock(&self.catalog);
        let closed = catalog.still_listed(closed);
        if !family.is_dropped() && !closed.is_empty() {
            // Without it the next opening takes the lengths of the files.
            let _ = catalog.commit(closed);
        }
    }

    /// As [`Storage::close_direct_file`], for a caller who has locked the place of the family's
    /// writer.
    pub(crate) fn close_locked(
        &self,
        family: &FamilyState,
        writer: &mut Option<Box<ValueLogAppender>>,
    ) -> Option<Change> {
        writer.take().map(|open| self.closed_value_log(family, &open))
    }

    /// The file is complete. No commit that points into it is under way: it would hold the lock
    /// that the caller holds.
    pub(crate) fn closed_value_log(
        &self,
        family: &FamilyState,
        complete: &ValueLogAppender,
    ) -> Change {
        let bytes = complete.summary.file_len;
        let through = self.log.published();
        complete.known.change_life(|life| life.close(through, Extent::whole(bytes)));
        let file = ValueLogRecord { number: complete.options.number, bytes };
        Change::AddValueLog { family: family.id, file }
    }
}
