//! The check of written keys: the first committer wins.

use std::sync::atomic::Ordering;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_sys::sync_points::sync_point;

use super::changes::changes_of_key;
use super::views::Views;
use super::window::Window;
use crate::core::Core;
use crate::family::FamilyState;
use crate::wal::{ANY_KEY, Wal};
use crate::write::WriteBatch;

/// First committer wins: no other commit may have changed a written key.
pub(in crate::transaction) struct WriteConflicts<'t> {
    core: &'t Core,
    batch: &'t WriteBatch,
    /// Changes up to here were looked for.
    through: SequenceNumber,
}

impl<'t> WriteConflicts<'t> {
    /// Changes up to `through` need not be looked for.
    pub(in crate::transaction) const fn new(
        core: &'t Core,
        batch: &'t WriteBatch,
        through: SequenceNumber,
    ) -> Self {
        Self { core, batch, through }
    }

    /// Changes up to here were looked for.
    pub(super) const fn through(&self) -> SequenceNumber {
        self.through
    }

    /// What the written keys are known by, see [`crate::wal::signature_of`].
    pub(super) const fn signature(&self) -> u64 {
        self.batch.signature
    }

    /// The last look, of a commit whose place in the log begins at `start`: what ends at or before
    /// that precedes the commit, everything else follows it.
    #[inline]
    pub(in crate::transaction) fn look_in_place(&mut self, start: u64) -> Result<()> {
        if start > self.through {
            wait_for_conflicting(&self.core.storage.log, start, self.batch.signature);
            self.look(start)?;
        }
        Ok(())
    }

    /// Looks at what was published since the last look, up to `through`.
    #[inline]
    pub(in crate::transaction) fn look(&mut self, through: SequenceNumber) -> Result<()> {
        let window = Window { since: self.through, through };
        if window.is_empty() {
            return Ok(());
        }
        self.through = through;
        self.look_at_keys(window)
    }

    #[inline(never)]
    fn look_at_keys(&self, window: Window) -> Result<()> {
        let mut views = Views::new(&self.batch.families);
        for operation in self.batch.operations() {
            let Some(family) = views.enter(operation.family) else { continue };
            let mut newest = None;
            changes_of_key(
                &self.core.storage.files.blocks,
                family,
                operation.key,
                window,
                |change| {
                    newest = Some(change);
                    false
                },
            )?;
            if newest.is_some() {
                return Err(conflict(
                    self.core,
                    family.state,
                    operation.key,
                    "another commit has changed a key that it writes",
                ));
            }
        }
        Ok(())
    }
}

/// Waits for the commits in front of `start` that may touch what `signature` stands for.
pub(super) fn wait_for_conflicting(log: &Wal, start: u64, signature: u64) {
    match signature {
        0 => {}
        ANY_KEY => log.wait_published(start),
        some => log.wait_for_conflicting(start, some),
    }
    sync_point("waited for others");
}

/// A family's name and the key that is stored as `key`, for an error.
pub(super) fn named(family: &FamilyState, key: &[u8]) -> (String, Vec<u8>) {
    (family.name().to_string(), family.keys.order.key(key))
}

/// A conflict at a stored key.
pub(super) fn conflict(
    core: &Core,
    family: &FamilyState,
    key: &[u8],
    reason: &'static str,
) -> Error {
    // ORDERING: a statistic.
    core.telemetry.counters.transaction_conflicts.fetch_add(1, Ordering::Relaxed);
    let (family, key) = named(family, key);
    Error::Conflict { family, key, reason }
}
