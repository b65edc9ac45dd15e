//! The families that take what is replayed, and how much memory they may have for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_files::vlog::ValuePointer;
use tidesdb_files::wal::Operation;
use tidesdb_lockfree::arena::BlockPool;

use crate::memtable::Memtable;
use crate::version::Version;

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
