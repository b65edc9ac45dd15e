//! Steps 3 to 6 of a put, as `ARCHITECTURE.md` numbers them: a place in the log is taken, and what
//! is committed there is logged, applied and published.

use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_sys::sync_points::sync_point;

use crate::core::Core;
use crate::family::FamilyState;
use crate::wal::{FullSegment, Reservation};

/// A commit that others see, and that may not be on disk yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visible {
    pub sequence: SequenceNumber,
    /// It has filled a memtable.
    pub fills: bool,
}

impl Core {
    /// Step 3: enters the gate and reserves a place for a record with this payload. The end of the
    /// place is the sequence number of the commit. `signature` says what it touches, see
    /// [`crate::wal::signature_of`].
    ///
    /// # Errors
    /// The failure that stopped the log; [`Error::Io`] when the next segment can't be created, or
    /// while a failed change of one of the families is in doubt.
    // Always inlined, as what follows: a place is seven words, which would be copied.
    #[inline(always)]
    pub(super) fn take_place(
        &self,
        payload: &[u8],
        families: &[Arc<FamilyState>],
        signature: u64,
    ) -> Result<Reservation<'_>> {
        loop {
            match self.try_take_place(payload, families, signature)? {
                Ok(place) => return Ok(place),
                Err(full) => self.follow_segment(full, payload)?,
            }
        }
    }

    /// As [`Core::take_place`], where the segment of the log has room: otherwise the caller calls
    /// [`Core::follow_segment`], and then this again.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub(super) fn try_take_place(
        &self,
        payload: &[u8],
        families: &[Arc<FamilyState>],
        signature: u64,
    ) -> Result<std::result::Result<Reservation<'_>, FullSegment>> {
        match self.storage.log.try_reserve(payload.len(), signature) {
            Ok(Ok(place)) => {
                sync_point("place taken");
                if let Err(refused) = self.storage.refuse_doubt(families) {
                    return Err(self.call_off(place, payload, refused));
                }
                Ok(Ok(place))
            }
            Ok(Err(full)) => Ok(Err(full)),
            Err(stopped) => {
                self.repair_log_later();
                Err(stopped)
            }
        }
    }

    /// Has another segment of the log follow a full one. It may create and sync files.
    ///
    /// # Errors
    /// As [`Core::take_place`].
    #[cold]
    pub(super) fn follow_segment(&self, full: FullSegment, payload: &[u8]) -> Result<()> {
        self.storage.log.follow(full, payload.len()).inspect_err(|_| self.repair_log_later())
    }

    /// Calls a commit off that has its place: leaves a void record. Returns why.
    #[cold]
    pub(super) fn call_off(&self, place: Reservation<'_>, payload: &[u8], refused: Error) -> Error {
        place.write_void(payload.len());
        self.repair_log_later();
        refused
    }

    /// Steps 4 to 6: `apply` inserts the operations of the payload into the memtables, with the
    /// sequence number that it is given, and says whether one is full then.
    ///
    /// # Errors
    /// What stopped the log, which may be what `apply` returned; the place is a hole then.
    #[inline(always)]
    pub(super) fn commit_in(
        &self,
        place: Reservation<'_>,
        payload: &[u8],
        apply: impl FnOnce(SequenceNumber) -> Result<bool>,
    ) -> Result<Visible> {
        let committed = log_and_apply(place, payload, apply);
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
}

#[inline(always)]
fn log_and_apply(
    mut place: Reservation<'_>,
    payload: &[u8],
    apply: impl FnOnce(SequenceNumber) -> Result<bool>,
) -> Result<Visible> {
    let (_, sequence) = place.range();
    sync_point("checked");
    // 4. Copy the record into the segment.
    place.write(payload)?;
    sync_point("logged");
    // 5. Insert into the memtables.
    let fills = match apply(sequence) {
        Ok(fills) => fills,
        Err(cause) => return Err(place.fail(cause)),
    };
    sync_point("applied");
    // 6. Publish in log order.
    let sequence = place.complete()?;
    sync_point("published");
    Ok(Visible { sequence, fills })
}
