//! A family's memtable: the ordered index plus what the log and the flush need to know of it.

mod deleted_keys;
mod range_tombstones;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb_base::entry::{MAX_SEQUENCE, SequenceNumber, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::range_tombstone::{RangeTombstone, RangeTombstoneSets, RangeTombstones};
use tidesdb_files::wal::Operation;
use tidesdb_lockfree::arena::{Arena, ArenaFull, BlockPool, Part};
use tidesdb_lockfree::ordered::btree::{Row, Unlinked};
use tidesdb_lockfree::ordered::{
    MemtableIndex, NewVersion, OrderedIndex, OwnedCursor, OwnedVersion, ValueVersion, Versions,
};

use self::range_tombstones::GrowingTombstones;

/// Most memory one memtable may take; the arena's 32-bit offsets reach this far.
const MOST_BYTES: u64 = 32 << 30;

/// A version that keeps the memory of its memtable.
pub(crate) type MemtableVersion = OwnedVersion<MemtableIndex>;

/// Versions of keys that are in the log and not in a table yet.
pub(crate) struct Memtable {
    index: Arc<MemtableIndex>,
    range_tombstones: GrowingTombstones,
    /// Lowest sequence number inserted; `u64::MAX` while empty.
    first_sequence: AtomicU64,
    /// Everything the memtable will ever hold is at most this; `u64::MAX` until it is frozen.
    sealed_through: AtomicU64,
    /// How long it took to fill; see [`Memtable::fill_nanos`].
    fill_nanos: AtomicU64,
}

/// See [`Memtable::inserts`].
pub(crate) struct Inserts<'a> {
    memtable: &'a Memtable,
    row: Row<'a>,
}

impl Inserts<'_> {
    /// As [`Memtable::insert`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        operation: &Operation<'_>,
        sequence: SequenceNumber,
    ) -> Result<()> {
        let row = &mut self.row;
        self.memtable.insert_by(operation, sequence, |key, version| row.insert(key, version))
    }
}

impl std::fmt::Debug for Memtable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memtable").field("used_bytes", &self.used_bytes()).finish_non_exhaustive()
    }
}

impl Memtable {
    /// An empty memtable with memory from `pool`.
    pub(crate) fn new(pool: &Arc<BlockPool>) -> Self {
        let arena = Arena::new(Arc::clone(pool), MOST_BYTES);
        Self {
            index: Arc::new(MemtableIndex::with_arena(arena)),
            range_tombstones: GrowingTombstones::default(),
            first_sequence: AtomicU64::new(u64::MAX),
            sealed_through: AtomicU64::new(u64::MAX),
            fill_nanos: AtomicU64::new(u64::MAX),
        }
    }

    /// Inserts one operation of the commit `sequence`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the machine has no memory left for it.
    pub(crate) fn insert(&self, operation: &Operation<'_>, sequence: SequenceNumber) -> Result<()> {
        self.insert_by(operation, sequence, |key, version| self.index.insert(key, version))
    }

    /// The inserts of a commit, of which each begins where the one before ended.
    #[inline]
    pub(crate) fn inserts(&self) -> Inserts<'_> {
        Inserts { memtable: self, row: self.index.row() }
    }

    #[inline]
    fn insert_by(
        &self,
        operation: &Operation<'_>,
        sequence: SequenceNumber,
        insert: impl FnOnce(&[u8], NewVersion<'_>) -> std::result::Result<(), ArenaFull>,
    ) -> Result<()> {
        // No bytes of files lead here: a reader ends before such a position, and an opening refuses
        // a manifest with one.
        debug_assert!((1..=MAX_SEQUENCE).contains(&sequence), "no sequence number: {sequence}");
        debug_assert_eq!(self.sealed_through(), u64::MAX, "a frozen memtable takes no more");
        // ORDERING: relaxed; a caller that needs the exact value reads it with the gate closed or
        // after an acquiring load of the published position, which orders these before it.
        if self.first_sequence.load(Ordering::Relaxed) > sequence {
            self.first_sequence.fetch_min(sequence, Ordering::Relaxed);
        }
        if operation.kind == ValueKind::RangeTombstone {
            let (start, end) = (operation.key.into(), operation.value.into());
            self.range_tombstones.add(RangeTombstone { start, end, sequence });
            return Ok(());
        }
        let version = new_version(operation, sequence);
        insert(operation.key, version).map_err(|_| Error::OutOfMemory("the memtable"))
    }

    /// Writes one operation of the commit `sequence`, which is no deletion of a range, to where a
    /// load makes the memtable of it; see [`MemtableIndex::prepare`] for `order`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the machine has no memory left for it.
    #[inline]
    pub(crate) fn prepare(
        &self,
        part: &mut Part,
        operation: &Operation<'_>,
        sequence: SequenceNumber,
        order: (usize, u64),
    ) -> Result<Unlinked> {
        debug_assert!(operation.kind != ValueKind::RangeTombstone, "no version of a key");
        let version = new_version(operation, sequence);
        let prepared = self.index.prepare(part, operation.key, version, order);
        prepared.map_err(|_| Error::OutOfMemory("the memtable"))
    }

    /// Notes the lowest sequence number of what is loaded.
    pub(crate) fn note_first(&self, sequence: SequenceNumber) {
        // ORDERING: see `insert`.
        self.first_sequence.fetch_min(sequence, Ordering::Relaxed);
    }

    /// The index, for a load.
    pub(crate) fn index(&self) -> &MemtableIndex {
        &self.index
    }

    /// The newest version of `key` that is at most `snapshot`.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], snapshot: SequenceNumber) -> Option<ValueVersion<'_>> {
        self.index.get(key, snapshot)
    }

    /// As [`Memtable::get`]; the version keeps the memory of the memtable.
    pub(crate) fn get_owned(
        &self,
        key: &[u8],
        snapshot: SequenceNumber,
    ) -> Option<MemtableVersion> {
        OwnedVersion::get(&self.index, key, snapshot)
    }

    /// The last sequence number that a reader at `snapshot` may see in here. After a failure of the
    /// log a memtable may hold commits above its boundary that were refused; a reader that loaded
    /// its view before the repair, and the published position after it, must not see them.
    #[inline]
    pub(crate) fn visible_through(&self, snapshot: SequenceNumber) -> SequenceNumber {
        snapshot.min(self.sealed_through())
    }

    /// All versions of `key`, newest first.
    pub(crate) fn versions(&self, key: &[u8]) -> Versions<'_> {
        self.index.versions(key)
    }

    /// True when a range deletion in here, visible at `snapshot`, hides a version of `key` of this
    /// sequence number; zero stands for any version of an older memtable or a table.
    #[inline]
    pub(crate) fn hides(
        &self,
        key: &[u8],
        sequence: SequenceNumber,
        snapshot: SequenceNumber,
    ) -> bool {
        self.range_tombstones.hides(key, sequence, snapshot)
    }

    /// The range deletions so far, without those of refused commits.
    pub(crate) fn range_tombstones(&self) -> RangeTombstoneSets {
        let (sets, last) = (self.range_tombstones.sets(), self.sealed_through());
        if sets.highest_sequence() <= last {
            return sets;
        }
        let kept = sets.iter().filter(|tombstone| tombstone.sequence <= last);
        let kept = RangeTombstones::new(kept.cloned().collect());
        std::iter::once(Arc::new(kept)).collect()
    }

    /// A cursor over the keys that keeps the index alive.
    pub(crate) fn cursor(&self) -> OwnedCursor<MemtableIndex> {
        OwnedCursor::new(Arc::clone(&self.index))
    }

    /// True when nothing was inserted.
    pub(crate) fn is_empty(&self) -> bool {
        self.first_sequence() == u64::MAX
    }

    /// Lowest sequence number inserted; `u64::MAX` while empty.
    pub(crate) fn first_sequence(&self) -> SequenceNumber {
        // ORDERING: see `insert`.
        self.first_sequence.load(Ordering::Relaxed)
    }

    /// Notes that the memtable takes no more, holds nothing above `boundary` but what was refused,
    /// and took `fill_nanos` to fill.
    pub(crate) fn seal(&self, boundary: SequenceNumber, fill_nanos: u64) {
        debug_assert_eq!(self.sealed_through(), u64::MAX, "a memtable is frozen once");
        // ORDERING: relaxed; read through the view that the freezing thread publishes next.
        self.sealed_through.store(boundary, Ordering::Relaxed);
        self.fill_nanos.store(fill_nanos, Ordering::Relaxed);
    }

    /// Time from the freezing of the one before to that of this one; `u64::MAX` until then.
    pub(crate) fn fill_nanos(&self) -> u64 {
        // ORDERING: see `seal`.
        self.fill_nanos.load(Ordering::Relaxed)
    }

    /// Keys that cut the memtable into about `parts` parts of about equal size, ascending. Fewer
    /// when it is small.
    pub(crate) fn keys_between(&self, parts: u64) -> Vec<Vec<u8>> {
        let parts = usize::try_from(parts).unwrap_or(usize::MAX);
        self.index.keys_between(parts).into_iter().map(<[u8]>::to_vec).collect()
    }

    /// The boundary given to [`Memtable::seal`].
    pub(crate) fn sealed_through(&self) -> SequenceNumber {
        // ORDERING: see `seal`.
        self.sealed_through.load(Ordering::Relaxed)
    }

    /// Keys, deleted ones included. At no cost.
    pub(crate) fn keys(&self) -> u64 {
        self.index.keys()
    }

    /// Bytes taken from the arena and by range deletions.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.index.arena().used_bytes() + self.range_tombstones.bytes()
    }

    /// Bytes of memory held.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.index.arena().allocated_bytes() + self.range_tombstones.bytes()
    }
}

#[inline]
fn new_version<'a>(operation: &Operation<'a>, sequence: SequenceNumber) -> NewVersion<'a> {
    NewVersion {
        seq: sequence,
        kind: operation.kind as u8,
        expires_at: operation.expires_at,
        value: operation.value,
    }
}

/// The kind of a version in a memtable. The index stores what [`Memtable::insert`] gave it.
pub(crate) fn kind_of(version: &ValueVersion<'_>) -> ValueKind {
    let kind = ValueKind::of_version(version.kind);
    debug_assert!(kind.is_some(), "a version of kind {}", version.kind);
    kind.unwrap_or(ValueKind::Tombstone)
}
