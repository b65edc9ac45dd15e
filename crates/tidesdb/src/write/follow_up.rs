//! What follows a visible commit: a full memtable is frozen, and commit hooks are called.

use std::sync::Arc;

use tidesdb_base::error::Result;
use tidesdb_base::event::Event;
use tidesdb_files::wal::Operation;
use tidesdb_sys::sync_points::sync_point;

use super::place::Visible;
use super::{WriteBatch, WriteOptions};
use crate::core::Core;
use crate::family::FamilyState;
use crate::telemetry::Telemetry;

/// Calls the hook of a family with what a commit has done to it, and reports one that panics.
pub(super) fn call_hook<'a>(
    telemetry: &Telemetry,
    family: &FamilyState,
    sequence: u64,
    operations: impl Iterator<Item = Operation<'a>>,
) {
    if family.call_hook(sequence, operations) {
        let function = format!("the commit hook of '{}'", family.name());
        telemetry.events.report(&Event::FunctionPanicked { function });
    }
}

impl Core {
    /// What follows once a batch is visible: it is made durable, full memtables are frozen, and
    /// hooks are called.
    ///
    /// # Errors
    /// [`Error::NotDurable`]: all the rest is done then.
    #[inline]
    pub(crate) fn finish_commit(
        &self,
        batch: &WriteBatch,
        visible: Visible,
        options: WriteOptions,
    ) -> Result<()> {
        let durable = self.make_batch_durable(batch, visible, options);
        let hooked = |family: &Arc<FamilyState>| family.writes.commit_hook.is_set();
        if batch.has_deletions {
            batch.families.iter().for_each(|family| self.watch_deletions(family));
        }
        if visible.fills || batch.families.iter().any(hooked) {
            self.follow_up(batch, visible);
        }
        self.keep_to_shared_buffer();
        durable
    }

    /// Freezes what a batch has filled, and calls the hooks.
    #[cold]
    fn follow_up(&self, batch: &WriteBatch, Visible { sequence, fills }: Visible) {
        sync_point("before the hooks");
        for family in batch.families.iter() {
            if fills {
                self.freeze_if_full(family);
            }
            if family.writes.commit_hook.is_set() {
                let of_family = |operation: &Operation<'_>| operation.family == family.id;
                call_hook(&self.telemetry, family, sequence, batch.operations().filter(of_family));
            }
        }
    }
}
