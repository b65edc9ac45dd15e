//! The background as lower layers ask it; see `core/requests.rs`.

use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};

use crate::core::{BackgroundRequests, Core, TryCommit};
use crate::family::FamilyState;

/// Does what it is asked for with the methods of this module. It has no state of its own.
#[derive(Debug)]
pub(crate) struct Background;

impl BackgroundRequests for Background {
    fn schedule_flush(&self, core: &Core, family: &Arc<FamilyState>) {
        core.queue_flush(family);
    }

    fn schedule_compaction(&self, core: &Core, family: &Arc<FamilyState>) {
        core.queue_compaction(family);
    }

    fn trim_log_later(&self, core: &Core) {
        core.queue_log_trim();
    }

    fn repair_log_later(&self, core: &Core) {
        core.queue_log_repair();
    }

    fn heal(&self, core: &Core, sequence: SequenceNumber, cause: Error) -> Result<()> {
        core.heal_by_repair(sequence, cause)
    }

    fn make_room(
        &self,
        core: &Core,
        deletes: bool,
        cause: Error,
        commit: TryCommit<'_>,
    ) -> Result<()> {
        core.free_disk_and_retry(deletes, cause, commit)
    }

    fn reclaim_disk(&self, core: &Core) {
        core.reclaim_disk_now();
    }
}
