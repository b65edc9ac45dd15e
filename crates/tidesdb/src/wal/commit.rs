//! A commit's place in the log: reserved, written, completed or left as a hole.

use std::sync::Arc;

use arc_swap::Guard;
use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::filter::key_hash;
use tidesdb_files::wal::record::{self, RECORD_HEADER_BYTES, RecordPlace};
use tidesdb_lockfree::gate::GateGuard;

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

/// The number of a segment that has no room for a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FullSegment(u64);

/// A place in the log that was given to one commit, which is inside the gate as long as it has it.
/// However the commit ends, the place is completed or made a hole: otherwise those behind it would
/// wait for it without end.
#[must_use = "a place that is dropped is a hole"]
pub(crate) struct Reservation<'a> {
    log: &'a Wal,
    active: Guard<Arc<ActiveSegment>>,
    start: u64,
    end: SequenceNumber,
    settled: bool,
    /// A commit stays inside until it knows how it ended: a repair, which goes on at a position
    /// behind all that was reserved, would make a lost commit pass for published.
    _inside: GateGuard<'a>,
}

impl Reservation<'_> {
    /// Where the place begins, and the sequence number of the commit. Whatever ends at or before
    /// the start precedes it, everything else follows it.
    #[inline]
    pub(crate) fn range(&self) -> (u64, SequenceNumber) {
        (self.start, self.end)
    }

    /// Whether a record with so many bytes of payload fills the place.
    fn fits(&self, payload_bytes: usize) -> bool {
        record::record_bytes(payload_bytes) as u64 == self.end - self.start
    }

    /// Writes the record of the commit.
    ///
    /// # Errors
    /// The failure that stopped the log. The place is a hole then.
    // Always inlined, as the other steps of a commit: a place is seven words, which calls in
    // between would have copied.
    #[inline(always)]
    pub(crate) fn write(&mut self, payload: &[u8]) -> Result<()> {
        debug_assert!(self.fits(payload.len()), "a record of another length than its place");
        let header = record::commit_header(payload, self.record_place());
        let written = self.active.io.write_two(self.active.offset_of(self.start), &header, payload);
        written.map_err(|e| self.fail_to_write(e))
    }

    #[cold]
    fn fail_to_write(&mut self, error: std::io::Error) -> Error {
        let cause = Error::io("write", &self.active.path, error);
        self.break_off(cause, false);
        self.log.lost()
    }

    /// Leaves the place of a commit that is called off as a void record, which stands for as many
    /// bytes of payload as were asked for.
    #[cold]
    pub(crate) fn write_void(mut self, payload_bytes: usize) {
        debug_assert!(self.fits(payload_bytes), "a record of another length than its place");
        let header = record::void_header(payload_bytes, self.record_place());
        match self.active.io.write(self.active.offset_of(self.start), &header) {
            Ok(()) => self.publish(),
            Err(e) => drop(self.fail_to_write(e)),
        }
    }

    /// The record is there, and what it holds is in the memtables. Returns the sequence number once
    /// the commit is visible.
    ///
    /// # Errors
    /// Why the log stopped, if an earlier commit has left a hole: this one is lost as well.
    #[inline(always)]
    pub(crate) fn complete(mut self) -> Result<SequenceNumber> {
        self.publish();
        let is_visible = self.log.sequencer.wait_published(self.end);
        if is_visible { Ok(self.end) } else { Err(self.log.lost()) }
    }

    /// The record was written, and the rest did not work: leaves a hole. Returns the failure that
    /// stopped the log, which may be an earlier one.
    #[cold]
    pub(crate) fn fail(mut self, cause: Error) -> Error {
        self.break_off(cause, true);
        self.log.lost()
    }

    #[inline]
    fn publish(&mut self) {
        self.settled = true;
        self.log.sequencer.complete(self.start, self.end);
    }

    #[inline]
    fn record_place(&self) -> RecordPlace {
        RecordPlace {
            segment: self.active.header.number,
            position: self.start,
            synced: self.log.group.synced(),
        }
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
    /// Enters the gate and takes a place in the log for a commit with so many bytes of payload. The
    /// end of the place is the sequence number of the commit. `signature` says what the commit
    /// touches, see [`signature_of`]. There is none in a segment that is full: the caller calls
    /// [`Wal::follow`] then, and this again.
    ///
    /// A caller may wait with its place until everything in front of it is published, since no
    /// earlier commit ever waits for a later one.
    ///
    /// # Errors
    /// The failure that stopped the log.
    #[inline(always)]
    pub(crate) fn try_reserve(
        &self,
        payload_bytes: usize,
        signature: u64,
    ) -> Result<std::result::Result<Reservation<'_>, FullSegment>> {
        let length = record::record_bytes(payload_bytes) as u64;
        let inside = self.gate.enter();
        self.condition.check()?;
        let active = self.active.load();
        let start = self.sequencer.reserve(length);
        let end = start + length;
        if end > active.limit {
            // A reservation past the end is given up; every later one is past the end as well.
            return Ok(Err(FullSegment(active.header.number)));
        }
        debug_assert!(start.is_multiple_of(8) && start >= active.header.base);
        self.sequencer.announce(start, end, signature);
        let (log, settled) = (self, false);
        Ok(Ok(Reservation { log, active, start, end, settled, _inside: inside }))
    }

    /// Has another segment follow the full one, with room for so many bytes of payload. Creates a
    /// file, if none was prepared, and may sync one.
    ///
    /// # Errors
    /// The failure that stopped the log; [`Error::Io`] when the next segment can't be created.
    pub(crate) fn follow(&self, full: FullSegment, payload_bytes: usize) -> Result<()> {
        self.next_segment(full.0, record::record_bytes(payload_bytes) as u64)
    }

    /// A place in the log, whatever it takes.
    ///
    /// # Errors
    /// As [`Wal::try_reserve`] and [`Wal::follow`].
    #[cfg(test)]
    pub(crate) fn reserve(&self, payload_bytes: usize, signature: u64) -> Result<Reservation<'_>> {
        loop {
            match self.try_reserve(payload_bytes, signature)? {
                Ok(place) => return Ok(place),
                Err(full) => self.follow(full, payload_bytes)?,
            }
        }
    }

    /// Why a commit behind a hole, or that left one, is refused.
    #[cold]
    pub(super) fn lost(&self) -> Error {
        let without_cause = || Error::Internal("a commit was lost without a cause".to_owned());
        self.condition.check().err().unwrap_or_else(without_cause)
    }
}
