//! Committing: one log record, then the memtables, then visibility, then durability if asked for.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::limits::DIRECT_VALUE_BYTES;
use tidesdb_base::options::SyncMode;
use tidesdb_files::wal::record::record_bytes;
use tidesdb_files::wal::{BatchReader, BatchWriter, Operation, RECORD_HEADER_BYTES};

use super::WriteBatch;
use super::batch::check_sizes;
use crate::core::Core;
use crate::family::FamilyState;

/// How one commit is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// `Some(true)`: on disk before the call returns, whatever the sync mode. `Some(false)`: not
    /// waited for, whatever the sync mode. `None`: as the database and the families say.
    pub sync: Option<bool>,
}

/// Buffers larger than this are not kept for the thread's next commit.
const LARGEST_KEPT_BYTES: usize = 4 << 20;

thread_local! {
    static RECORD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
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
        if value.len() >= DIRECT_VALUE_BYTES {
            let mut batch = WriteBatch::new();
            batch.add(family, kind, expires_at, key, value)?;
            return self.write(&batch, WriteOptions::default());
        }
        check_sizes(key, value)?;
        self.check_writable(family)?;
        self.admit(family)?;
        let operation = Operation { family: family.id, kind, expires_at, key, value };
        let mut used_bytes = 0;
        let sequence = with_record(|record| {
            BatchWriter::new(record).push(operation);
            self.log_and_apply(record, |sequence| {
                let view = family.view.load();
                view.active.insert(&operation, sequence)?;
                used_bytes = view.active.used_bytes();
                Ok(())
            })
        })?;
        family.counters.user.add((key.len() + value.len()) as u64, 1);
        // ORDERING: relaxed; a setting.
        let family_syncs = family.syncs_commits.load(Ordering::Relaxed);
        self.make_durable(sequence, family_syncs || self.syncs_commits())?;
        self.rotate_at(family, used_bytes);
        Ok(())
    }

    /// Commits a batch.
    ///
    /// # Errors
    /// See [`crate::Db::write`].
    pub(crate) fn write(&self, batch: &WriteBatch, options: WriteOptions) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        for family in &batch.families {
            self.check_writable(family)?;
            self.admit(family)?;
        }
        let sequence = if batch.direct.is_empty() {
            self.commit_operations(batch, &batch.record)?
        } else {
            self.write_with_direct_values(batch)?
        };
        let families = batch.families.len() as u64;
        for family in &batch.families {
            let (bytes, operations) = (batch.user_bytes, batch.count as u64);
            family.counters.user.add(bytes / families, operations / families);
        }
        // ORDERING: relaxed; a setting.
        let families_sync =
            batch.families.iter().any(|family| family.syncs_commits.load(Ordering::Relaxed));
        self.make_durable(sequence, options.sync.unwrap_or(families_sync || self.syncs_commits()))?;
        for family in &batch.families {
            self.rotate_if_full(family);
        }
        Ok(())
    }

    /// Logs and applies a batch, whose encoded operations lie in `operations` behind room for a
    /// record's header.
    pub(super) fn commit_operations(
        &self,
        batch: &WriteBatch,
        operations: &[u8],
    ) -> Result<SequenceNumber> {
        let payload = operations.get(RECORD_HEADER_BYTES..).unwrap_or_default();
        with_record(|record| {
            record.extend_from_slice(payload);
            self.log_and_apply(record, |sequence| apply(batch, payload, sequence))
        })
    }

    fn log_and_apply(
        &self,
        record: &mut Vec<u8>,
        apply: impl FnOnce(SequenceNumber) -> Result<()>,
    ) -> Result<SequenceNumber> {
        let payload_bytes = record.len() - RECORD_HEADER_BYTES;
        record.resize(record_bytes(payload_bytes), 0);
        let mut applied = Ok(());
        let committed = self.log.commit(record, payload_bytes, |sequence| {
            applied = apply(sequence);
        });
        if self.log.wants_preparation() {
            self.prepare_log_later();
        }
        if let Err(cause) = applied {
            // The log holds a commit that memory does not: nothing may build on that.
            self.health.fail(cause.clone());
            return Err(cause);
        }
        committed.inspect_err(|_| self.repair_log_later())
    }

    fn make_durable(&self, sequence: SequenceNumber, sync: bool) -> Result<()> {
        if sync {
            self.log.sync_commit(sequence).inspect_err(|_| self.repair_log_later())?;
        }
        Ok(())
    }

    fn syncs_commits(&self) -> bool {
        self.options.sync_mode == SyncMode::Full
    }
}

/// Applies the operations of a logged payload to the memtables of the batch's families.
fn apply(batch: &WriteBatch, payload: &[u8], sequence: SequenceNumber) -> Result<()> {
    let views: Vec<_> =
        batch.families.iter().map(|family| (family.id, family.view.load())).collect();
    let mut at = 0;
    for operation in BatchReader::new(payload) {
        let operation =
            operation.map_err(|_| Error::Internal("a write batch does not decode".to_owned()))?;
        if views.get(at).is_none_or(|view| view.0 != operation.family) {
            at = views.iter().position(|view| view.0 == operation.family).unwrap_or(0);
        }
        if let Some((_, view)) = views.get(at) {
            view.active.insert(&operation, sequence)?;
        }
    }
    Ok(())
}

/// Runs `work` with this thread's record buffer, which holds room for a record's header.
fn with_record<R>(work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    RECORD.with_borrow_mut(|record| {
        record.clear();
        record.resize(RECORD_HEADER_BYTES, 0);
        let result = work(record);
        if record.capacity() > LARGEST_KEPT_BYTES {
            *record = Vec::new();
        }
        result
    })
}
