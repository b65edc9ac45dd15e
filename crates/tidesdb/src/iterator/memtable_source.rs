//! The keys of a memtable as a snapshot sees them.

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::error::Result;
use tidesdb_lockfree::ordered::{MemtableIndex, OwnedCursor};

use crate::memtable::{Memtable, kind_of};

/// Walks the keys that have a version at or below the snapshot.
pub(super) struct MemtableSource {
    cursor: OwnedCursor<MemtableIndex>,
    snapshot: SequenceNumber,
    kind: ValueKind,
    sequence: SequenceNumber,
    expires_at: u64,
}

impl std::fmt::Debug for MemtableSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemtableSource").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}

impl MemtableSource {
    pub(super) fn new(memtable: &Memtable, snapshot: SequenceNumber) -> Self {
        let (kind, sequence, expires_at) = (ValueKind::Tombstone, 0, 0);
        Self { cursor: memtable.cursor(), snapshot, kind, sequence, expires_at }
    }

    /// See [`super::source::Source::show_through`].
    pub(super) const fn show_through(&mut self, snapshot: SequenceNumber) {
        self.snapshot = snapshot;
    }

    pub(super) fn valid(&self) -> bool {
        self.cursor.valid()
    }

    pub(super) fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    pub(super) const fn kind(&self) -> ValueKind {
        self.kind
    }

    pub(super) const fn sequence(&self) -> SequenceNumber {
        self.sequence
    }

    pub(super) const fn expires_at(&self) -> u64 {
        self.expires_at
    }

    pub(super) fn value(&self) -> &[u8] {
        self.cursor.version_at(self.snapshot).map_or(&[], |version| version.value)
    }

    /// Takes the visible version of the present key; false when the snapshot sees none.
    fn take_visible(&mut self) -> bool {
        let Some(version) = self.cursor.version_at(self.snapshot) else { return false };
        let (kind, sequence, expires_at) = (kind_of(&version), version.seq, version.expires_at);
        (self.kind, self.sequence, self.expires_at) = (kind, sequence, expires_at);
        true
    }

    fn settle_forward(&mut self) -> Result<()> {
        while self.cursor.valid() && !self.take_visible() {
            self.cursor.next();
        }
        Ok(())
    }

    fn settle_backward(&mut self) -> Result<()> {
        while self.cursor.valid() && !self.take_visible() {
            self.cursor.prev();
        }
        Ok(())
    }

    pub(super) fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek(key);
        self.settle_forward()
    }

    pub(super) fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_for_prev(key);
        self.settle_backward()
    }

    pub(super) fn seek_to_first(&mut self) -> Result<()> {
        self.cursor.seek_to_first();
        self.settle_forward()
    }

    pub(super) fn seek_to_last(&mut self) -> Result<()> {
        self.cursor.seek_to_last();
        self.settle_backward()
    }

    pub(super) fn next(&mut self) -> Result<()> {
        self.cursor.next();
        self.settle_forward()
    }

    pub(super) fn prev(&mut self) -> Result<()> {
        self.cursor.prev();
        self.settle_backward()
    }
}
