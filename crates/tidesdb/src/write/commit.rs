//! Commits of one operation and of a batch: the steps of a put, as `ARCHITECTURE.md` numbers them.
//!
//! A transaction that has something to check takes the same steps for its batch, and looks for
//! conflicts between 3 and 4 (`transaction/commit`).

use std::cell::Cell;
use std::sync::Arc;

use tidesdb_base::entry::ValueKind;
use tidesdb_base::error::Result;
use tidesdb_base::limits::DIRECT_VALUE_BYTES;
use tidesdb_base::thread_buffer::{keep_buffer, take_buffer};
use tidesdb_files::wal::record::record_bytes;
use tidesdb_files::wal::{BatchWriter, Operation};

use super::admission::Admission;
use super::apply::apply_operation;
use super::batch::check_sizes;
use super::follow_up::call_hook;
use super::place::Visible;
use super::{WriteBatch, WriteOptions};
use crate::core::Core;
use crate::family::FamilyState;
use crate::telemetry::timing::Named;
use crate::wal::signature_of;

/// Buffers larger than this are not kept for the thread's next commit.
const LARGEST_KEPT_BYTES: usize = 4 << 20;

thread_local! {
    static PAYLOAD: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Core {
    /// Commits one operation.
    ///
    /// # Errors
    /// See [`crate::Family::put`].
    pub(crate) fn write_one(
        &self,
        family: &Arc<FamilyState>,
        kind: ValueKind,
        expires_at: u64,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if value.len() >= DIRECT_VALUE_BYTES || !family.keys.order.stores_keys_as_given() {
            let mut batch = WriteBatch::new();
            batch.add(family, kind, expires_at, key, value)?;
            return self.write(&batch, WriteOptions::default());
        }
        let operation = Operation { family: family.id, kind, expires_at, key, value };
        let commit =
            || self.with_room(kind.is_tombstone(), || self.write_operation(family, &operation));
        if self.telemetry.latencies.is_due() {
            let bytes = (key.len() + value.len()) as u64;
            return self.telemetry.timed_commit(Some(&**family), (bytes, 1), commit);
        }
        commit()
    }

    #[inline]
    fn write_operation(&self, family: &Arc<FamilyState>, operation: &Operation<'_>) -> Result<()> {
        let (key, value) = (operation.key, operation.value);
        let user_bytes = (key.len() + value.len()) as u64;
        // 1. Check sizes and state, and slow down.
        check_sizes(key, value)?;
        self.check_writable(family)?;
        self.storage.check_no_doubt(family)?;
        let mut admission = Admission::new(operation.kind.is_tombstone(), false);
        self.admit(family, (user_bytes, 1), &mut admission)?;
        admission.pass();
        self.ensure_log_begun()?;
        let mut log_bytes = 0;
        let visible = with_payload(|payload| {
            // 2. Encode.
            BatchWriter::new(payload).push(*operation);
            log_bytes = record_bytes(payload.len()) as u64;
            // 3. Enter the gate and reserve.
            let families = std::slice::from_ref(family);
            let place = self.take_place(payload, families, signature_of(family.id, key))?;
            // 4, 5, 6. Copy, insert, publish.
            self.commit_in(place, payload, |sequence| apply_operation(family, operation, sequence))
        })?;
        family.counters.hot.add_commit(user_bytes, 1, log_bytes);
        // 7. Sync.
        let syncs = family.options.syncs_commits() || self.env.syncs_commits();
        let durable = self.make_durable(visible.sequence, syncs);
        // 8. Freeze, also when it is not durable: it is visible, and stays so.
        if visible.fills {
            self.freeze_if_full(family);
        }
        self.keep_to_shared_buffer();
        if operation.kind.is_tombstone() {
            self.watch_deletions(family);
        }
        if family.writes.commit_hook.is_set() {
            let operations = std::iter::once(*operation);
            call_hook(&self.telemetry, family, visible.sequence, operations);
        }
        durable
    }

    /// Commits a batch.
    ///
    /// # Errors
    /// See [`crate::Db::write`].
    pub(crate) fn write(&self, batch: &WriteBatch, options: WriteOptions) -> Result<()> {
        if batch.is_empty() {
            return self.write_nothing(options);
        }
        let attempt = || {
            let visible = self.commit_batch(batch, options)?;
            // 7, 8. Sync, freeze.
            self.finish_commit(batch, visible, options)
        };
        let commit = || {
            if !options.no_wait {
                return self.with_room(!batch.has_puts, attempt);
            }
            // Space that is freed would be waited for. Others may.
            attempt()?;
            if !batch.has_puts {
                self.flow.disk.note_deletion();
            }
            Ok(())
        };
        if self.telemetry.latencies.is_due() {
            let size = (batch.user_bytes, batch.count as u64);
            let family = batch.families.first().map(|family| &**family as &dyn Named);
            return self.telemetry.timed_commit(family, size, commit);
        }
        commit()
    }

    /// Makes a batch that is not empty visible.
    ///
    /// # Errors
    /// See [`crate::Db::write`].
    pub(crate) fn commit_batch(
        &self,
        batch: &WriteBatch,
        options: WriteOptions,
    ) -> Result<Visible> {
        // 1, 2. Admit, encode.
        let prepared = self.prepare(batch, options)?;
        // 3. Enter the gate and reserve.
        let place = prepared.take_place()?;
        // 4, 5, 6. Copy, insert, publish.
        prepared.commit_in(place)
    }
}

/// Runs `work` with this thread's buffer for the payload of a record, which is empty.
fn with_payload<R>(work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut payload = take_buffer(&PAYLOAD);
    payload.clear();
    let result = work(&mut payload);
    keep_buffer(&PAYLOAD, payload, LARGEST_KEPT_BYTES);
    result
}
