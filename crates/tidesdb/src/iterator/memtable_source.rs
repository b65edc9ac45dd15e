//! The keys of a memtable as a snapshot sees them.

use std::sync::Arc;

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::error::Result;
use tidesdb_lockfree::ordered::{MemtableIndex, OwnedCursor};

use super::run_source::Bounds;
use crate::memtable::{Memtable, kind_of};

/// Walks the keys that have a version at or below the snapshot.
pub(super) struct MemtableSource {
    cursor: OwnedCursor<MemtableIndex>,
    snapshot: SequenceNumber,
    bounds: Arc<Bounds>,
    /// It stands on a key that the snapshot sees.
    valid: bool,
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
    pub(super) fn new(memtable: &Memtable, snapshot: SequenceNumber, bounds: Arc<Bounds>) -> Self {
        Self {
            cursor: memtable.cursor(),
            snapshot,
            bounds,
            valid: false,
            kind: ValueKind::Tombstone,
            sequence: 0,
            expires_at: 0,
        }
    }

    /// See [`super::source::Source::show_through`].
    pub(super) const fn show_through(&mut self, snapshot: SequenceNumber) {
        self.snapshot = snapshot;
    }

    pub(super) const fn valid(&self) -> bool {
        self.valid
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

    /// Goes to a key that the snapshot sees, as far as the scan goes and no further: behind its
    /// end there may be millions that are newer.
    #[inline]
    fn settle(
        &mut self,
        is_outside: impl Fn(&Bounds, &[u8]) -> bool,
        step: impl Fn(&mut OwnedCursor<MemtableIndex>),
    ) -> Result<()> {
        loop {
            self.valid = self.cursor.valid() && self.take_visible();
            let ends =
                self.valid || !self.cursor.valid() || is_outside(&self.bounds, self.cursor.key());
            if ends {
                return Ok(());
            }
            step(&mut self.cursor);
        }
    }

    fn settle_forward(&mut self) -> Result<()> {
        self.settle(Bounds::end_at, OwnedCursor::next)
    }

    fn settle_backward(&mut self) -> Result<()> {
        self.settle(Bounds::begin_behind, OwnedCursor::prev)
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

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use super::*;
    use crate::db::{Components, Db};

    /// There may be millions of newer keys behind the bounds of a scan.
    #[test]
    fn newer_keys_are_walked_no_further_than_the_bounds() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        family.put(b"m", b"old").unwrap();
        let snapshot = db.snapshot();
        for key in [b"a", b"b", b"c", b"x", b"y", b"z"] {
            family.put(key, b"newer").unwrap();
        }
        let view = family.state().view.load_full();
        let bounds = Bounds { lower: b"m".to_vec(), upper: Some(b"n".to_vec()) };
        let mut source = MemtableSource::new(&view.active, snapshot.sequence(), Arc::new(bounds));
        source.seek(b"m").unwrap();
        assert!(source.valid() && source.key() == b"m");
        source.next().unwrap();
        assert!(!source.valid());
        assert_eq!(source.cursor.key(), b"x");
        source.seek_for_prev(b"m").unwrap();
        source.prev().unwrap();
        assert!(!source.valid());
        assert_eq!(source.cursor.key(), b"c");
    }
}
