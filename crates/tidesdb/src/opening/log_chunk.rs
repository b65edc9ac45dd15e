//! A chunk of the log on its way into the memtables.
//!
//! A chunk holds whole records whose checksums hold and that follow each other in the log. So what
//! is decoded is a prefix of the log whenever all threads are done with a chunk. Chunks are small,
//! so that what one thread has read is in the cache when others decode it.

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Error;
use tidesdb_sys::large_vec::{LargeVec, NoMemory};

/// Shares of a chunk for each thread, so that one that takes long is made up for.
const SHARES_PER_THREAD: usize = 4;

/// Bytes of a chunk from which on it is worth sharing between threads.
const SHARED_BYTES: usize = 512 << 10;

/// Why a chunk can't be applied: at the commit with this sequence number.
#[derive(Debug)]
pub(super) enum Failure {
    Undecodable,
    /// An operation of a family whose number was never given.
    UnknownFamily(u32),
    Other(Error),
}

/// Whole records of the log, in order.
#[derive(Debug, Default)]
pub(super) struct LogChunk {
    payloads: LargeVec<u8>,
    records: LargeVec<Record>,
}

/// A record of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub sequence: SequenceNumber,
    /// Where its payload lies in the chunk.
    from: usize,
    to: usize,
}

impl LogChunk {
    /// An empty chunk with the memory of one that was decoded: to take it from the system anew
    /// costs as much as to read.
    pub(super) fn emptied(mut self) -> Self {
        self.payloads.clear();
        self.records.clear();
        self
    }

    /// Makes room for a chunk of `full` bytes, or of all that is left to read.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub(super) fn reserve(&mut self, full: usize, left: u64) -> Result<(), NoMemory> {
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        // The last record ends behind `full`.
        let wanted = (full + full / 8).saturating_sub(self.payloads.len());
        self.payloads.reserve(wanted.min(left))
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`NoMemory`]; the record is not in the chunk then.
    pub(super) fn push(
        &mut self,
        payload: &[u8],
        sequence: SequenceNumber,
    ) -> Result<(), NoMemory> {
        // No bytes of a log lead here: positions grow within a segment, and one that begins before
        // the end of those in front of it has no valid header.
        debug_assert!(sequence > self.last_sequence(), "records of the log are out of order");
        let from = self.payloads.len();
        self.payloads.extend_from_slice(payload)?;
        let to = self.payloads.len();
        self.records.push(Record { sequence, from, to })
    }

    pub(super) fn bytes(&self) -> usize {
        self.payloads.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The sequence number of its last record.
    pub(super) fn last_sequence(&self) -> SequenceNumber {
        self.records.last().map_or(0, |record| record.sequence)
    }

    pub(super) fn payload(&self, record: &Record) -> &[u8] {
        self.payloads.get(record.from..record.to).unwrap_or_default()
    }

    /// Into how many shares it is worth to be cut for so many threads.
    pub(super) fn shares(&self, threads: usize) -> usize {
        if self.bytes() < SHARED_BYTES { 1 } else { threads * SHARES_PER_THREAD }
    }

    /// The records of one of so many shares.
    pub(super) fn share(&self, share: usize, shares: usize) -> &[Record] {
        let count = self.records.len();
        let (from, to) = (share * count / shares, (share + 1) * count / shares);
        self.records.get(from..to).unwrap_or_default()
    }
}
