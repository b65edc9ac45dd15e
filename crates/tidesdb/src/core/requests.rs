//! What lower layers ask of the background.
//!
//! A commit that fills a memtable asks for a flush, a compaction that has ended for the next one.
//! Those who ask lie below those who do: so they ask here, and the background gives the database
//! its [`BackgroundRequests`] when it is opened. Nothing below the background names or calls it.

use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};

use super::Core;
use crate::family::FamilyState;

/// A commit that may be tried again.
pub(crate) type TryCommit<'a> = &'a mut dyn FnMut() -> Result<()>;

/// The background, as lower layers see it: which function does what the method of [`Core`] with the
/// same name asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackgroundRequests {
    pub schedule_flush: fn(&Core, &Arc<FamilyState>),
    pub schedule_compaction: fn(&Core, &Arc<FamilyState>),
    pub look_at_deletions_later: fn(&Core, &Arc<FamilyState>),
    pub trim_log_later: fn(&Core),
    pub repair_log_later: fn(&Core),
    pub sync_by_repair: fn(&Core, SequenceNumber, Error) -> Result<()>,
    pub make_room: fn(&Core, deletes: bool, Error, TryCommit<'_>) -> Result<()>,
    pub reclaim_disk: fn(&Core),
}

impl Core {
    /// Queues a flush of the family unless one is queued or running.
    pub(crate) fn schedule_flush(&self, family: &Arc<FamilyState>) {
        (self.work.background.schedule_flush)(self, family);
    }

    /// Queues a compaction of the family if there is one to begin now and none is queued that is no
    /// larger.
    pub(crate) fn schedule_compaction(&self, family: &Arc<FamilyState>) {
        (self.work.background.schedule_compaction)(self, family);
    }

    /// The family's memtable may have deletions: it is looked at after a while.
    #[inline]
    pub(crate) fn watch_deletions(&self, family: &Arc<FamilyState>) {
        if family.writes.deletions.note() {
            self.look_at_deletions_later(family);
        }
    }

    /// Sets the timer for a look at the deletions in the family's memtable.
    #[cold]
    fn look_at_deletions_later(&self, family: &Arc<FamilyState>) {
        (self.work.background.look_at_deletions_later)(self, family);
    }

    /// Queues flushes of the families that keep the log from being shortened.
    pub(crate) fn trim_log_later(&self) {
        (self.work.background.trim_log_later)(self);
    }

    /// Queues the repair of a log that failed, unless one is queued or running.
    pub(crate) fn repair_log_later(&self) {
        (self.work.background.repair_log_later)(self);
    }

    /// Makes durable, by a repair, what is visible up to `sequence` and could not be synced, and
    /// waits for that. `cause` says why the sync failed.
    ///
    /// # Errors
    /// [`Error::NotDurable`] when the log could not be repaired either, or the database is being
    /// closed.
    #[cold]
    pub(crate) fn sync_by_repair(&self, sequence: SequenceNumber, cause: Error) -> Result<()> {
        (self.work.background.sync_by_repair)(self, sequence, cause)
    }

    /// Frees space for a commit that found none, for which `cause` is the error, and tries it
    /// again.
    ///
    /// # Errors
    /// What `commit` returns.
    #[cold]
    pub(crate) fn make_room(
        &self,
        deletes: bool,
        cause: Error,
        commit: TryCommit<'_>,
    ) -> Result<()> {
        (self.work.background.make_room)(self, deletes, cause, commit)
    }

    /// Collects what is deleted. A failure leaves it for the next time.
    #[cold]
    pub(crate) fn reclaim_disk(&self) {
        (self.work.background.reclaim_disk)(self);
    }
}
