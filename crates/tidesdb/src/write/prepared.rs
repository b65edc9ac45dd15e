//! A batch that is admitted and encoded, and the steps of a put that follow.

use tidesdb_base::error::{Error, Result};
use tidesdb_files::wal::record::record_bytes;
use tidesdb_sys::sync_points::sync_point;

use super::admission::Admission;
use super::apply::apply_batch;
use super::batch_counts::count_by_family;
use super::direct_values::DirectValues;
use super::place::Visible;
use super::{WriteBatch, WriteOptions};
use crate::core::Core;
use crate::wal::{FullSegment, Reservation};

/// A batch that is admitted and encoded. When it is dropped without a commit, its large values are
/// taken back out of their value logs.
#[must_use]
pub(crate) struct Prepared<'a> {
    core: &'a Core,
    batch: &'a WriteBatch,
    /// Its large values, if it has some.
    direct: Option<Box<DirectValues<'a>>>,
}

impl Core {
    /// Steps 1 and 2 of a put, for a batch that is not empty: checks the state, slows the writer
    /// down, and writes large values to a value log.
    ///
    /// # Errors
    /// See [`crate::Db::write`].
    #[inline(always)]
    pub(crate) fn prepare<'a>(
        &'a self,
        batch: &'a WriteBatch,
        options: WriteOptions,
    ) -> Result<Prepared<'a>> {
        self.admit_batch(batch, options)?;
        let direct = match batch.direct.is_empty() {
            true => None,
            false => Some(self.write_direct_values(batch)?),
        };
        Ok(Prepared { core: self, batch, direct })
    }

    /// Step 1 for a batch.
    fn admit_batch(&self, batch: &WriteBatch, options: WriteOptions) -> Result<()> {
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
            self.storage.check_no_doubt(family)?;
            self.admit(family, (bytes / families, operations / families), &mut admission)?;
        }
        admission.pass();
        self.ensure_log_begun()?;
        sync_point("batch accepted");
        Ok(())
    }

    /// Steps 4 to 6 for a batch whose operations, encoded, are `payload`.
    #[inline(always)]
    fn commit_batch_in(
        &self,
        place: Reservation<'_>,
        batch: &WriteBatch,
        payload: &[u8],
    ) -> Result<Visible> {
        let apply = |sequence| apply_batch(batch, payload, sequence);
        let visible = self.commit_in(place, payload, apply)?;
        match &*batch.families {
            [family] => {
                let (bytes, operations) = (batch.user_bytes, batch.count as u64);
                let direct: usize = batch.direct.iter().map(|direct| direct.value.len()).sum();
                let log_bytes = (record_bytes(payload.len()) + direct) as u64;
                family.counters.hot.add_commit(bytes, operations, log_bytes);
            }
            _ => count_by_family(batch, payload),
        }
        Ok(visible)
    }
}

impl<'a> Prepared<'a> {
    /// The operations, encoded, with pointers to the large values.
    #[inline(always)]
    fn payload(&self) -> &[u8] {
        self.direct.as_ref().map_or(&self.batch.record, |direct| direct.operations())
    }

    /// Step 3: enters the gate and reserves a place in the log.
    ///
    /// # Errors
    /// The failure that stopped the log; [`Error::Io`].
    #[inline(always)]
    pub(crate) fn take_place(&self) -> Result<Reservation<'a>> {
        let Self { core, batch, .. } = *self;
        core.take_place(self.payload(), &batch.families, batch.signature)
    }

    /// As [`Prepared::take_place`], where the segment of the log has room: otherwise the caller
    /// calls [`Prepared::follow_segment`], and then this again.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub(crate) fn try_take_place(
        &self,
    ) -> Result<std::result::Result<Reservation<'a>, FullSegment>> {
        let Self { core, batch, .. } = *self;
        core.try_take_place(self.payload(), &batch.families, batch.signature)
    }

    /// Has another segment of the log follow a full one. It may create and sync files.
    ///
    /// # Errors
    /// As [`Prepared::take_place`].
    pub(crate) fn follow_segment(&self, full: FullSegment) -> Result<()> {
        self.core.follow_segment(full, self.payload())
    }

    /// Calls the commit off in its place. It may take another one. Returns why.
    #[cold]
    pub(crate) fn call_off(&self, place: Reservation<'_>, refused: Error) -> Error {
        self.core.call_off(place, self.payload(), refused)
    }

    /// Steps 4 to 6: logs, applies and publishes the batch in its place.
    ///
    /// # Errors
    /// What stopped the log.
    #[inline(always)]
    pub(crate) fn commit_in(self, place: Reservation<'_>) -> Result<Visible> {
        let Self { core, batch, direct } = self;
        let Some(mut direct) = direct else {
            return core.commit_batch_in(place, batch, &batch.record);
        };
        direct.may_be_logged();
        let committed = core.commit_batch_in(place, batch, direct.operations());
        if committed.is_ok() {
            direct.keep();
        }
        committed
    }
}
