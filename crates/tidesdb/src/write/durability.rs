//! Step 7 of a put: it returns once a sync has covered it, if that is asked for.

use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Result;
use tidesdb_sys::sync_points::sync_point;

use super::place::Visible;
use super::{WriteBatch, WriteOptions};
use crate::core::Core;
use crate::family::FamilyState;
use crate::telemetry::latency_recorder::note_sync;
use crate::telemetry::spans::span;

impl Core {
    /// Commits an empty batch: a barrier, if durability is asked for.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::NotDurable`].
    #[cold]
    pub(super) fn write_nothing(&self, options: WriteOptions) -> Result<()> {
        self.health.check_open()?;
        // Of a database that was opened for reading all that it shows is on disk.
        if self.env.options.read_only || !options.sync.unwrap_or_else(|| self.env.syncs_commits()) {
            return Ok(());
        }
        self.sync_log()
    }

    /// Returns when everything committed so far survives a power cut.
    ///
    /// # Errors
    /// [`Error::NotDurable`].
    pub(crate) fn sync_log(&self) -> Result<()> {
        let published = self.storage.log.published();
        self.storage
            .log
            .sync_through(published)
            .or_else(|cause| self.sync_by_repair(published, cause))
    }

    /// As durable as `options` and the families of the batch say.
    ///
    /// # Errors
    /// [`Error::NotDurable`]. The call may be repeated: once the log is repaired it succeeds.
    #[inline]
    pub(crate) fn make_batch_durable(
        &self,
        batch: &WriteBatch,
        visible: Visible,
        options: WriteOptions,
    ) -> Result<()> {
        let syncs = |family: &Arc<FamilyState>| family.options.syncs_commits();
        let usual = || self.env.syncs_commits() || batch.families.iter().any(syncs);
        self.make_durable(visible.sequence, options.sync.unwrap_or_else(usual))
    }

    #[inline]
    pub(super) fn make_durable(&self, sequence: SequenceNumber, sync: bool) -> Result<()> {
        if sync { self.wait_durable(sequence) } else { Ok(()) }
    }

    #[inline(never)]
    fn wait_durable(&self, sequence: SequenceNumber) -> Result<()> {
        let _span = span!(DEBUG, "sync_wait", sequence = sequence);
        let started = self.env.clock.monotonic_nanos();
        sync_point("visible");
        let synced = self.storage.log.sync_commit(sequence);
        note_sync(self.env.clock.monotonic_nanos().saturating_sub(started));
        synced.or_else(|cause| self.sync_by_repair(sequence, cause))
    }
}
