//! Values that a caller reads where they lie, and keeps as long as it wants (`PinnedValue`).

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tidesdb_base::entry::{SequenceNumber, ValueKind, is_expired};
use tidesdb_base::error::Result;
use tidesdb_files::sstable::Found;
use tidesdb_lockfree::snapshot_registry::ReadPoint;
use tidesdb_lockfree::stripe::ThisThread;

use super::get::{FoundInTable, Get};
use super::shared_block::SharedBlock;
use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::memory::{Holder, MemoryBudget, MemoryReservation};
use crate::memtable::{MemtableVersion, kind_of};
use crate::telemetry::counters::tick;

/// A value that was got without copying it: it derefs to its bytes.
///
/// It keeps what the value lies in: a block of a table, or all memory of a memtable, which is up to
/// half of `write_buffer_size` even for a small value. That memory is not given back before this is
/// dropped, though it counts in `max_memory_usage`; so these are for reading and letting go, or for
/// few at a time. Copy values that are kept. Values in value logs are read into memory of their
/// own.
///
/// The value is that of the moment of the get, whatever is written meanwhile. No file, snapshot or
/// handle is kept open: it may outlive them all, and go to other threads.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// use tidesdb::{Db, DbOptions, FamilyOptions};
/// let db = Db::open(directory.path(), DbOptions::default())?;
/// let family = db.open_family("default", FamilyOptions::default())?;
/// family.put(b"key", b"value")?;
/// let value = family.get_pinned(b"key")?.unwrap();
/// family.put(b"key", b"other")?;
/// assert_eq!((&*value, value.len()), (&b"value"[..], 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PinnedValue {
    held: Held,
    /// Bytes of the key's spelling in front of the value.
    spelling: usize,
    _reservation: Option<MemoryReservation>,
}

/// Where the value lies.
enum Held {
    Memtable(MemtableVersion),
    Block(FoundInTable),
    /// In one that other values may keep as well.
    SharedBlock(Found<SharedBlock>),
    Own(Vec<u8>),
}

impl Deref for PinnedValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.held.stored_value().get(self.spelling..).unwrap_or_default()
    }
}

impl Held {
    #[inline]
    fn stored_value(&self) -> &[u8] {
        match self {
            Self::Memtable(version) => version.version().value,
            Self::Block(found) => found.value(),
            Self::SharedBlock(found) => found.value(),
            Self::Own(value) => value,
        }
    }
}

impl AsRef<[u8]> for PinnedValue {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PinnedValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl Core {
    /// The value that `key` has at a registered read point, or now.
    ///
    /// # Errors
    /// See [`crate::Family::get`].
    pub(crate) fn get_pinned(
        &self,
        family: &FamilyState,
        read_point: Option<ReadPoint>,
        key: &[u8],
    ) -> Result<Option<PinnedValue>> {
        let key = &*family.keys.stored_key(key)?;
        self.health.check_readable(family)?;
        let view = family.view.load();
        let get = Get::new(self, family, key, read_point);
        let Some(held) = get.hold(&view)? else {
            return family.check_view().map(|()| None);
        };
        let bytes = match &held {
            // The memory of memtables is counted until the last who holds it lets it go, and
            // shared blocks count by themselves.
            Held::Memtable(_) | Held::SharedBlock(_) => None,
            Held::Block(found) => Some(found.holder().memory_bytes()),
            Held::Own(value) => Some(value.capacity()),
        };
        let reservation =
            bytes.map(|bytes| self.memory.budget.reserve(Holder::Scans, bytes as u64));
        Ok(Some(PinnedValue::new(family, held, reservation)))
    }
}

impl PinnedValue {
    fn new(family: &FamilyState, held: Held, reservation: Option<MemoryReservation>) -> Self {
        let stored = held.stored_value();
        let spelling = stored.len() - family.keys.order.value(stored).len();
        Self { held, spelling, _reservation: reservation }
    }

    /// A stored value in a memtable.
    pub(super) fn in_memory(family: &FamilyState, version: MemtableVersion) -> Self {
        Self::new(family, Held::Memtable(version), None)
    }

    /// A stored value in a block that others keep as well.
    pub(super) fn in_shared_block(family: &FamilyState, found: Found<SharedBlock>) -> Self {
        Self::new(family, Held::SharedBlock(found), None)
    }

    /// A stored value in memory of its own.
    pub(crate) fn own(budget: &Arc<MemoryBudget>, family: &FamilyState, value: Vec<u8>) -> Self {
        let reservation = budget.reserve(Holder::Scans, value.capacity() as u64);
        Self::new(family, Held::Own(value), Some(reservation))
    }
}

impl Get<'_> {
    fn hold(&self, view: &View) -> Result<Option<Held>> {
        let snapshot = self.snapshot();
        for memtable in std::iter::once(&view.active).chain(&view.frozen) {
            tick(&self.tally.memtables_searched);
            let snapshot = memtable.visible_through(snapshot);
            let version = memtable.get_owned(self.key, snapshot);
            let sequence = version.as_ref().map_or(0, |version| version.version().seq);
            if memtable.hides(self.key, sequence, snapshot) {
                return Ok(None);
            }
            if let Some(held) = version {
                let version = held.version();
                let (kind, expires_at) = (kind_of(version), version.expires_at);
                return match self.what_to_hold(view, (kind, expires_at, version.value))? {
                    Answer::Nothing => Ok(None),
                    Answer::WhereItLies => Ok(Some(Held::Memtable(held))),
                    Answer::Fetched(value) => Ok(Some(Held::Own(value))),
                };
            }
        }
        if view.version.runs.is_empty() {
            return Ok(None);
        }
        self.family.reads.activity.note();
        let thread = ThisThread::get();
        let found = self.find_in_tables(&view.version, snapshot, thread);
        self.family.counters.hot.add_table_gets(thread, 1, &self.tally);
        let Some(found) = found? else { return Ok(None) };
        let meta = found.meta();
        if view.version.range_tombstones.hides(self.key, meta.seq, snapshot) {
            return Ok(None);
        }
        Ok(match self.what_to_hold(view, (meta.kind, meta.expires_at, found.value()))? {
            Answer::Nothing => None,
            Answer::WhereItLies => Some(Held::Block(found)),
            Answer::Fetched(value) => Some(Held::Own(value)),
        })
    }

    /// The version of the key in the memtables of a view that is the first to be visible.
    pub(super) fn pin_in_memory(
        &self,
        view: &View,
        snapshot: SequenceNumber,
    ) -> Option<MemtableVersion> {
        let mut memtables = std::iter::once(&view.active).chain(&view.frozen);
        memtables
            .find_map(|memtable| memtable.get_owned(self.key, memtable.visible_through(snapshot)))
    }

    fn what_to_hold(
        &self,
        view: &View,
        (kind, expires_at, value): (ValueKind, u64, &[u8]),
    ) -> Result<Answer> {
        if kind.is_tombstone() || (expires_at != 0 && is_expired(expires_at, self.now())) {
            return Ok(Answer::Nothing);
        }
        if kind != ValueKind::ValuePointer {
            return Ok(Answer::WhereItLies);
        }
        let mut fetched = Vec::new();
        let is_there = self.fetch(&view.version, value, &mut fetched)?;
        Ok(if is_there { Answer::Fetched(fetched) } else { Answer::Nothing })
    }
}

enum Answer {
    Nothing,
    WhereItLies,
    Fetched(Vec<u8>),
}

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use crate::db::{Components, Db};

    fn is_shareable<T: Send + Sync>(_: &T) {}

    /// A small block was counted by its length, and kept the buffer of a large one read before.
    #[test]
    fn a_pinned_block_counts_with_its_whole_buffer() {
        let options = DbOptions::default().block_cache_bytes(0);
        let db = Db::open_with("/db", options, Components::simulated()).unwrap();
        let options = FamilyOptions::default().klog_value_threshold(1 << 30);
        let family = db.create_family("family", options).unwrap();
        for (key, value) in [("large", vec![7; 200_000]), ("small", vec![7])] {
            family.put(key, &value).unwrap();
            family.flush().unwrap();
        }
        let scans = || db.core().memory.budget.held().scans;
        let leave_buffer = || assert!(family.get(b"large").unwrap().is_some());
        leave_buffer();
        let pinned = family.get_pinned(b"small").unwrap();
        assert!(pinned.is_some() && scans() >= 200_000, "{} bytes of one", scans());
        drop(pinned);
        assert_eq!(scans(), 0);
        leave_buffer();
        let pinned = family.multi_get_pinned([b"small"]).unwrap();
        assert!(pinned[0].is_some() && scans() >= 200_000, "{} bytes of some", scans());
    }

    #[test]
    fn a_pinned_value_outlives_all_that_it_came_from() {
        let options = DbOptions::default().block_cache_bytes(8 << 10);
        let db = Db::open_with("/db", options, Components::simulated()).unwrap();
        let options = FamilyOptions::default().klog_value_threshold(1000);
        let family = db.create_family("family", options).unwrap();
        let value = |n: u8| vec![n; 400 * usize::from(n % 4)];
        for n in 0..100 {
            family.put(&[n], &value(n)).unwrap();
        }
        let scans = || db.core().memory.budget.held().scans;
        let pin = |n: u8| family.get_pinned([n]).unwrap().unwrap();
        let in_memory: Vec<_> = (0..100).map(pin).collect();
        family.flush().unwrap();
        assert_eq!(scans(), 0, "a memtable counts by itself");
        let memtables = db.core().memory.budget.held().memtables;
        let in_tables: Vec<_> = (0..100).map(pin).collect();
        let pinned = scans();
        assert!(pinned >= 100 * 600, "{pinned} bytes of blocks and fetched values");
        let snapshot = db.snapshot();
        for n in 0..100 {
            family.put(&[n], b"other").unwrap();
        }
        let as_of_then = family.get_pinned_at(&snapshot, [7]).unwrap().unwrap();
        assert_eq!((&*as_of_then, &*pin(7)), (&*value(7), &b"other"[..]));
        family.delete_range(&[0], &[50]).unwrap();
        assert!(family.get_pinned([7]).unwrap().is_none());
        family.compact().unwrap();
        assert!(family.get_pinned([7]).unwrap().is_none());
        assert!(family.get_pinned([200]).unwrap().is_none());
        drop((as_of_then, snapshot));
        is_shareable(&in_memory);
        drop(
            in_tables
                .into_iter()
                .zip(0..)
                .inspect(|(pinned, n)| assert_eq!(**pinned, *value(*n)))
                .collect::<Vec<_>>(),
        );
        assert_eq!(scans(), 0);
        assert!(memtables > 0, "nothing was put to the test");
        drop((family, db));
        for (pinned, n) in in_memory.iter().zip(0..) {
            assert_eq!(**pinned, *value(n), "{n}");
        }
    }
}
