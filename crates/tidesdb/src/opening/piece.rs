//! A piece of the log on its way into the memtables.
//!
//! A piece holds whole records whose checksums hold and that follow each other in the log. So what
//! is decoded is a prefix of the log whenever all threads are done with a piece. Pieces are small,
//! so that what one thread has read is in the cache when others decode it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::error::Error;
use tidesdb_files::vlog::ValuePointer;
use tidesdb_files::wal::Operation;
use tidesdb_lockfree::arena::BlockPool;
use tidesdb_sys::large_vec::{LargeVec, NoMemory};

use crate::memtable::Memtable;
use crate::version::Version;

/// Shares of a piece for each thread, so that one that takes long is made up for.
const SHARES_PER_THREAD: usize = 4;

/// Bytes of a piece from which on it is worth sharing between threads.
const SHARED_BYTES: usize = 512 << 10;

/// A family that takes what is replayed.
#[derive(Debug)]
pub(crate) struct ReplayedFamily {
    pub memtable: Arc<Memtable>,
    /// The files, value logs among them that commits may point into.
    pub version: Arc<Version>,
    /// Commits up to here are in its tables.
    pub flushed_through: SequenceNumber,
}

impl ReplayedFamily {
    /// Keeps the value log that an operation points into until the commit is in a table.
    #[inline]
    pub(super) fn keep_value_log(&self, operation: &Operation<'_>, sequence: SequenceNumber) {
        // A pointer that does not decode is an error of the read that meets it.
        if operation.kind == ValueKind::ValuePointer
            && let Ok(pointer) = ValuePointer::decode(operation.value)
            && let Some(file) = self.version.value_logs.get(&pointer.file)
        {
            file.change_life(|life| life.note_replayed(sequence));
        }
    }
}

/// All families that there are, by number.
#[derive(Debug)]
pub(crate) struct ReplayedFamilies {
    pub families: BTreeMap<u32, ReplayedFamily>,
    /// The first number that no family was ever given.
    pub next_family: u32,
    /// Where their memory comes from, and how much of it may be taken.
    pub memory: Arc<BlockPool>,
    pub most_bytes: u64,
}

/// Why a piece can't be applied: at the commit with this sequence number.
#[derive(Debug)]
pub(super) enum Failure {
    Undecodable,
    /// An operation of a family whose number was never given.
    UnknownFamily(u32),
    Other(Error),
}

/// Whole records of the log, in order.
#[derive(Debug, Default)]
pub(super) struct Piece {
    payloads: LargeVec<u8>,
    records: LargeVec<Record>,
}

/// A record of a piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub sequence: SequenceNumber,
    /// Where its payload lies in the piece.
    from: usize,
    to: usize,
}

impl Piece {
    /// An empty piece with the memory of one that was decoded: to take it from the system anew
    /// costs as much as to read.
    pub(super) fn emptied(mut self) -> Self {
        self.payloads.clear();
        self.records.clear();
        self
    }

    /// Makes room for a piece of `full` bytes, or of all that is left to read.
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
    /// [`NoMemory`]; the record is not in the piece then.
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
