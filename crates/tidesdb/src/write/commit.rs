//! Committing: one log record, then the memtables, then visibility, then durability if asked for.

use std::cell::Cell;
use std::sync::Arc;

use tidesdb_base::codec::Malformed;
use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::event::{Event, OperationProfile};
use tidesdb_base::latency::TimedOperation;
use tidesdb_base::limits::DIRECT_VALUE_BYTES;
use tidesdb_base::options::SyncMode;
use tidesdb_base::thread_buffer::{keep_buffer, take_buffer};
use tidesdb_files::wal::record::record_bytes;
use tidesdb_files::wal::{BatchReader, BatchWriter, Operation, SurvivingOperations};
use tidesdb_sys::steps::step;

use super::admission::Admission;
use super::batch::check_sizes;
use super::check::{CommitCheck, Unchecked};
use super::{WriteBatch, WriteOptions};
use crate::core::Core;
use crate::family::FamilyState;
use crate::memtable::Memtable;
use crate::telemetry::latency_recorder::note_sync;
use crate::telemetry::spans::span;
use crate::telemetry::timing::{Named, TimedCall};
use crate::wal::{Reservation, signature_of};

/// A commit that others see, and that may not be on disk yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visible {
    pub sequence: SequenceNumber,
    /// It has filled a memtable.
    pub fills: bool,
}

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
            return self.timed_commit(Some(family), (bytes, 1), commit);
        }
        commit()
    }

    /// Times a commit, of which [`crate::telemetry::latency_recorder::LatencyRecorder::is_due`]
    /// said that it is to be timed.
    #[inline(never)]
    pub(crate) fn timed_commit<R>(
        &self,
        family: Option<&FamilyState>,
        (bytes, operations): (u64, u64),
        commit: impl FnOnce() -> R,
    ) -> R {
        let started = self.telemetry.start_timing();
        let result = commit();
        let family = family.map(|family| family as &dyn Named);
        let call = TimedCall { operation: TimedOperation::Commit, family, bytes, operations };
        self.telemetry.end_timing(started, call, OperationProfile::default);
        result
    }

    #[inline]
    fn write_operation(&self, family: &Arc<FamilyState>, operation: &Operation<'_>) -> Result<()> {
        let (key, value) = (operation.key, operation.value);
        check_sizes(key, value)?;
        self.check_writable(family)?;
        self.check_no_doubt(family)?;
        let deletes = operation.kind.is_tombstone();
        let mut admission = Admission::new(deletes, false);
        self.admit(family, ((key.len() + value.len()) as u64, 1), &mut admission)?;
        admission.pass();
        self.ensure_log_begun()?;
        let mut log_bytes = 0;
        let visible = with_payload(|payload| {
            BatchWriter::new(payload).push(*operation);
            log_bytes = record_bytes(payload.len());
            let signature = signature_of(family.id, key);
            let families = std::slice::from_ref(family);
            self.log_and_apply(payload, (families, signature), &mut Unchecked, |sequence| {
                let view = family.view.load();
                note(family, operation);
                view.active.insert(operation, sequence)?;
                Ok(is_full(family, &view.active))
            })
        })?;
        family.counters.hot.add_commit((key.len() + value.len()) as u64, 1, log_bytes as u64);
        let syncs = family.options.syncs_commits() || self.syncs_commits();
        let durable = self.make_durable(visible.sequence, syncs);
        // Also when it is not durable: it is visible, and stays so.
        if visible.fills {
            self.freeze_if_full(family);
        }
        if family.writes.commit_hook.is_set() {
            self.call_hook(family, visible.sequence, std::iter::once(*operation));
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
            let visible = self.commit_batch(batch, &mut Unchecked, options)?;
            self.finish_commit(batch, visible, options)
        };
        // Space that is freed would be waited for.
        let commit =
            || if options.no_wait { attempt() } else { self.with_room(!batch.has_puts, attempt) };
        if self.telemetry.latencies.is_due() {
            let size = (batch.user_bytes, batch.count as u64);
            return self.timed_commit(batch.families.first().map(Arc::as_ref), size, commit);
        }
        commit()
    }

    /// Commits an empty batch: a barrier, if durability is asked for.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::NotDurable`].
    #[cold]
    fn write_nothing(&self, options: WriteOptions) -> Result<()> {
        self.health.check_open()?;
        // Of a database that was opened for reading all that it shows is on disk.
        if self.env.options.read_only || !options.sync.unwrap_or_else(|| self.syncs_commits()) {
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

    /// Makes a batch that is not empty visible, if `check` agrees.
    ///
    /// # Errors
    /// What `check` returns, or see [`crate::Db::write`].
    pub(crate) fn commit_batch(
        &self,
        batch: &WriteBatch,
        check: &mut impl CommitCheck,
        options: WriteOptions,
    ) -> Result<Visible> {
        let families = batch.families.len() as u64;
        // Large values go to a value log and take no room in a memtable.
        let (bytes, operations) = (batch.record.len() as u64, batch.count as u64);
        if !batch.direct.is_empty() {
            // They take space without a segment of the log.
            self.review_disk(batch.direct.iter().map(|direct| direct.value.len() as u64).sum());
        }
        let mut admission = Admission::new(!batch.has_puts, options.no_wait);
        for family in batch.families.iter() {
            self.check_writable(family)?;
            self.check_no_doubt(family)?;
            self.admit(family, (bytes / families, operations / families), &mut admission)?;
        }
        admission.pass();
        self.ensure_log_begun()?;
        step("batch accepted");
        let visible = if batch.direct.is_empty() {
            self.commit_operations(batch, &batch.record, check)?
        } else {
            self.write_with_direct_values(batch, check)?
        };
        Ok(visible)
    }

    /// What follows once a batch is visible: durability, hooks, freezing what is full.
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
        if visible.fills || batch.families.iter().any(hooked) {
            self.follow_up(batch, visible);
        }
        durable
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
        let usual = || self.syncs_commits() || batch.families.iter().any(syncs);
        self.make_durable(visible.sequence, options.sync.unwrap_or_else(usual))
    }

    /// Freezes what a batch has filled, and calls the hooks.
    #[cold]
    fn follow_up(&self, batch: &WriteBatch, Visible { sequence, fills }: Visible) {
        step("before the hooks");
        for family in batch.families.iter() {
            if fills {
                self.freeze_if_full(family);
            }
            if family.writes.commit_hook.is_set() {
                let of_family = |operation: &Operation<'_>| operation.family == family.id;
                self.call_hook(family, sequence, batch.operations().filter(of_family));
            }
        }
    }

    fn call_hook<'a>(
        &self,
        family: &FamilyState,
        sequence: u64,
        operations: impl Iterator<Item = Operation<'a>>,
    ) {
        if family.call_hook(sequence, operations) {
            let function = format!("the commit hook of '{}'", family.name());
            self.telemetry.events.report(&Event::FunctionPanicked { function });
        }
    }

    /// Logs and applies a batch whose operations, encoded, are `payload`; once more each time that
    /// the check wants to look again.
    #[inline]
    pub(super) fn commit_operations(
        &self,
        batch: &WriteBatch,
        payload: &[u8],
        check: &mut impl CommitCheck,
    ) -> Result<Visible> {
        let apply = |sequence| apply(batch, payload, sequence);
        let parties = (&*batch.families, batch.signature);
        let visible = loop {
            match self.log_and_apply(payload, parties, check, apply) {
                Ok(visible) => break visible,
                Err(refused) if !check.looks_again()? => return Err(refused),
                Err(_) => {}
            }
        };
        match &*batch.families {
            [family] => {
                let (bytes, operations) = (batch.user_bytes, batch.count as u64);
                let log_bytes = record_bytes(payload.len()) as u64;
                family.counters.hot.add_commit(bytes, operations, log_bytes);
            }
            _ => count_by_family(batch, payload),
        }
        Ok(visible)
    }

    /// Steps 3 to 6 of a put, as `ARCHITECTURE.md` numbers them, and what follows from how they
    /// ended.
    #[inline]
    fn log_and_apply(
        &self,
        payload: &[u8],
        parties: (&[Arc<FamilyState>], u64),
        check: &mut impl CommitCheck,
        apply: impl FnOnce(SequenceNumber) -> Result<bool>,
    ) -> Result<Visible> {
        let committed = self.commit_in_place(payload, parties, check, apply);
        match &committed {
            Ok(visible) if self.storage.log.wants_preparation(visible.sequence) => {
                self.review_disk(0);
                self.prepare_log_later();
                // Families that are far from full keep the log as well.
                self.limit_retained_log();
            }
            Ok(_) => {}
            Err(_) => self.repair_log_later(),
        }
        committed
    }

    #[inline]
    fn commit_in_place(
        &self,
        payload: &[u8],
        (families, signature): (&[Arc<FamilyState>], u64),
        check: &mut impl CommitCheck,
        apply: impl FnOnce(SequenceNumber) -> Result<bool>,
    ) -> Result<Visible> {
        // 3. Enter the gate and reserve: the end of the place is the sequence number.
        let mut place = self.reserve(payload.len(), signature, check)?;
        let (start, end) = place.range();
        step("place taken");
        // A last look, while nothing is written. It may wait for all commits in front.
        if let Err(refused) = self.refuse_doubt(families).and_then(|()| check.check(start, end)) {
            place.write_void(payload.len());
            return Err(refused);
        }
        step("checked");
        // 4. Copy the record into the segment.
        place.write(payload)?;
        step("logged");
        // 5. Insert into the memtables.
        let fills = match apply(end) {
            Ok(fills) => fills,
            Err(cause) => return Err(place.fail(cause)),
        };
        step("applied");
        // 6. Publish in log order.
        let sequence = place.complete()?;
        step("published");
        Ok(Visible { sequence, fills })
    }

    /// Takes a place in the log. Files of the log are created and synced without what the check
    /// holds, which others wait for.
    #[inline]
    fn reserve(
        &self,
        payload_bytes: usize,
        signature: u64,
        check: &mut impl CommitCheck,
    ) -> Result<Reservation<'_>> {
        loop {
            check.before_reserving();
            let full = match self.storage.log.try_reserve(payload_bytes, signature) {
                Ok(Ok(place)) => return Ok(place),
                Ok(Err(full)) => Ok(full),
                Err(failed) => Err(failed),
            };
            check.without_place();
            self.storage.log.follow(full?, payload_bytes)?;
        }
    }

    fn make_durable(&self, sequence: SequenceNumber, sync: bool) -> Result<()> {
        if !sync {
            return Ok(());
        }
        let _span = span!(DEBUG, "sync_wait", sequence = sequence);
        let started = self.env.clock.monotonic_nanos();
        step("visible");
        let synced = self.storage.log.sync_commit(sequence);
        note_sync(self.env.clock.monotonic_nanos().saturating_sub(started));
        synced.or_else(|cause| self.sync_by_repair(sequence, cause))
    }

    fn syncs_commits(&self) -> bool {
        self.env.options.sync_mode == SyncMode::Full
    }
}

/// Applies the operations of a logged payload to the memtables of the batch's families. True when
/// one of those is full then.
fn apply(batch: &WriteBatch, payload: &[u8], sequence: SequenceNumber) -> Result<bool> {
    if let [family] = &*batch.families
        && !batch.deletes_ranges
    {
        let view = family.view.load();
        let mut inserts = view.active.inserts();
        for operation in BatchReader::new(payload) {
            let operation = operation.map_err(undecodable)?;
            note(family, &operation);
            inserts.insert(&operation, sequence)?;
        }
        return Ok(is_full(family, &view.active));
    }
    let views: Vec<_> = batch.families.iter().map(|family| (family, family.view.load())).collect();
    let mut targets: Vec<_> =
        views.iter().map(|(family, view)| (family, view.active.inserts())).collect();
    let mut at = 0;
    let insert = |operation: std::result::Result<Operation<'_>, Malformed>| {
        let operation = operation.map_err(undecodable)?;
        if targets.get(at).is_none_or(|target| target.0.id != operation.family) {
            let of_family = batch.families.position(operation.family);
            at = of_family.ok_or_else(|| unknown_family(operation.family))?;
        }
        let Some((family, inserts)) = targets.get_mut(at) else { return Ok(()) };
        note(family, &operation);
        inserts.insert(&operation, sequence)
    };
    if batch.deletes_ranges {
        SurvivingOperations::new(payload).try_for_each(insert)?;
    } else {
        BatchReader::new(payload).try_for_each(insert)?;
    }
    Ok(views.iter().any(|(family, view)| is_full(family, &view.active)))
}

/// Notes an operation that is about to be inserted where it is remembered that nothing lives.
#[inline]
fn note(family: &FamilyState, operation: &Operation<'_>) {
    if !operation.kind.is_tombstone() {
        family.reads.dead_ranges.note_put(operation.key);
    }
}

/// Counts a commit to several families: to each what is its own, to the first what the record takes
/// beside operations.
fn count_by_family(batch: &WriteBatch, payload: &[u8]) {
    let families = &batch.families;
    let mut counts = vec![[0_u64; 3]; families.len()];
    let mut reader = BatchReader::new(payload);
    let mut left = reader.remaining_bytes();
    while let Some(Ok(operation)) = reader.next() {
        let bytes = (left - reader.remaining_bytes()) as u64;
        left = reader.remaining_bytes();
        let Some(count) = families.position(operation.family).and_then(|at| counts.get_mut(at))
        else {
            continue;
        };
        // A value that went to a value log is counted below.
        let is_pointer = operation.kind == ValueKind::ValuePointer;
        let value = if is_pointer { 0 } else { operation.value.len() };
        count[0] += (operation.key.len() + value) as u64;
        count[1] += 1;
        count[2] += bytes;
    }
    for direct in &batch.direct {
        if let Some(count) = families.position(direct.family.id).and_then(|at| counts.get_mut(at)) {
            count[0] += direct.value.len() as u64;
        }
    }
    if let Some(first) = counts.first_mut() {
        first[2] += (record_bytes(payload.len()) - payload.len()) as u64;
    }
    for (family, [bytes, operations, log_bytes]) in families.iter().zip(counts) {
        family.counters.hot.add_commit(bytes, operations, log_bytes);
    }
}

#[inline]
fn is_full(family: &FamilyState, memtable: &Memtable) -> bool {
    memtable.used_bytes() >= family.options.freeze_bytes()
}

#[cold]
fn unknown_family(id: u32) -> Error {
    Error::Internal(format!("a write batch names family {id}, which it does not know"))
}

#[cold]
fn undecodable(_: Malformed) -> Error {
    Error::Internal("a write batch does not decode".to_owned())
}

/// Runs `work` with this thread's buffer for the payload of a record, which is empty.
fn with_payload<R>(work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut payload = take_buffer(&PAYLOAD);
    payload.clear();
    let result = work(&mut payload);
    keep_buffer(&PAYLOAD, payload, LARGEST_KEPT_BYTES);
    result
}
