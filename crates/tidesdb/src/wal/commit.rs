//! The path of one commit: a place in the log, its record, and the end of both.

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::filter::key_hash;
use tidesdb_files::wal::record::{self, RECORD_HEADER_BYTES, RecordPlace};

use super::Wal;
use super::active::ActiveSegment;
use super::state::Fault;

/// Signature of a commit that may touch any key.
pub(crate) const ANY_KEY: u64 = u64::MAX;

/// Signature of a commit that touches a key: one bit, chosen by the key's hash. A commit that
/// touches several has the bits of all. Commits without a common bit touch no common key.
#[inline]
pub(crate) fn signature_of(family: u32, key: &[u8]) -> u64 {
    1 << ((key_hash(key) ^ u64::from(family).wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 58)
}

/// A range of the log that was given to one commit. However the commit ends, the range is completed
/// or made a hole: otherwise those behind it would wait for it without end.
struct Reservation<'a> {
    log: &'a Wal,
    active: &'a ActiveSegment,
    start: u64,
    end: u64,
    settled: bool,
}

impl Reservation<'_> {
    /// The record is there, and what it holds is in the memtables.
    #[inline]
    fn complete(mut self) {
        self.settled = true;
        self.log.sequencer.complete(self.start, self.end);
    }

    /// Leaves a hole: the commit has no effect, nor has any behind it. `may_be_whole` says that the
    /// record was written, and only the rest did not work.
    #[cold]
    fn break_off(&mut self, cause: Error, may_be_whole: bool) {
        self.settled = true;
        let (io, offset) = (&self.active.io, self.active.offset_of(self.start));
        // CRASH: what is refused must not come back. Recovery stops at a record without a header.
        // A write that failed leaves no whole record, so that trying is enough.
        let unmade = io.write(offset, &[0; RECORD_HEADER_BYTES]);
        let mut fault = Fault::Hole;
        if may_be_whole && unmade.and_then(|()| io.sync(offset)).is_err() {
            fault = Fault::Sync;
        }
        self.log.condition.fail(fault, cause);
        self.log.sequencer.break_at(self.start);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.break_off(Error::Internal("a commit broke off half way".to_owned()), true);
        }
    }
}

impl Wal {
    /// Logs one commit and applies it. `payload` is that of its record; `apply` puts the operations
    /// into the memtables under the sequence number it is given. Returns the sequence number once
    /// the commit is visible.
    ///
    /// `signature` says what the commit touches, see [`signature_of`]. `check` is called with the
    /// reserved range, inside the gate, before anything is written; it may wait until everything in
    /// front of the range is published, since no earlier commit ever waits for a later one. When it
    /// refuses, the space is left as a void record.
    ///
    /// # Errors
    /// What `check` answers; the failure that stopped the log, which may be what `apply` answers;
    /// [`Error::Io`] when the next segment can't be created. The commit has no effect then: what
    /// `apply` has done is never visible, and gone before the log takes commits again.
    pub(crate) fn commit(
        &self,
        payload: &[u8],
        signature: u64,
        check: impl FnOnce(u64, SequenceNumber) -> Result<()>,
        apply: impl FnOnce(SequenceNumber) -> Result<()>,
    ) -> Result<SequenceNumber> {
        let length = record::record_bytes(payload.len()) as u64;
        // A commit that is inside stays until it knows how it ended: a repair, which goes on at a
        // position behind all that was reserved, would make a lost commit pass for published.
        let (start, _inside, active) = loop {
            let inside = self.gate.enter();
            self.condition.check()?;
            let active = self.active.load();
            let start = self.sequencer.reserve(length);
            if start + length <= active.limit {
                self.sequencer.announce(start, start + length, signature);
                break (start, inside, active);
            }
            // A reservation past the end is given up; every later one is past the end as well.
            let full = active.header.number;
            drop(active);
            drop(inside);
            self.next_segment(full, length)?;
        };
        let end = start + length;
        let place = RecordPlace {
            segment: active.header.number,
            position: start,
            synced: self.group.synced(),
        };
        let mut reservation =
            Reservation { log: self, active: &active, start, end, settled: false };
        let checked = check(start, end);
        let offset = active.offset_of(start);
        let written = if checked.is_ok() {
            active.io.write_two(offset, &record::commit_header(payload, place), payload)
        } else {
            active.io.write(offset, &record::void_header(payload.len(), place))
        };
        match written {
            Ok(()) => {
                let applied = if checked.is_ok() { apply(end) } else { Ok(()) };
                match applied {
                    Ok(()) => reservation.complete(),
                    Err(cause) => reservation.break_off(cause, true),
                }
            }
            Err(e) => reservation.break_off(Error::io("write", &active.path, e), false),
        }
        checked?;
        if self.sequencer.wait_published(end) { Ok(end) } else { Err(self.lost()) }
    }

    /// Why a commit behind a hole, or that left one, is refused.
    #[cold]
    pub(super) fn lost(&self) -> Error {
        let without_cause = || Error::Internal("a commit was lost without a cause".to_owned());
        self.condition.check().err().unwrap_or_else(without_cause)
    }
}
