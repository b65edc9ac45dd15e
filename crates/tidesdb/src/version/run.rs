//! A sorted run, and what is known of it without looking at each of its tables.
//!
//! The sums over a run's tables, the sketch of its keys among them, are made once when the run is
//! built. A version that takes a run over from the one before takes its sums over as well, so that
//! planning the next compaction and estimating the space of a family costs in proportion to the
//! runs, and not to the tables: there may be thousands, and both happen with every flush.
//!
//! Immutable, but for what is remembered of damage; any thread may read it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::measured_deletions::RangeDeletedSum;
use super::run_index::RunIndex;
use super::{KeyCounts, TableFile};

/// A sorted run: tables whose key ranges do not overlap.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Level, 1 being the newest on disk.
    pub level: u32,
    /// Age; a higher number is newer, whatever the levels.
    pub id: u64,
    /// The tables in key order. Shared: each flush makes a version with the same ones.
    pub tables: Arc<[Arc<TableFile>]>,
    /// Sums over the tables.
    pub totals: Arc<RunTotals>,
    index: RunIndex,
}

/// Sums over the tables of a run.
#[derive(Debug, Default)]
pub(crate) struct RunTotals {
    /// Bytes of the tables.
    pub bytes: u64,
    /// Versions and keys.
    pub counts: KeyCounts,
    /// Bytes of values that the tables point at, by number of the value log.
    pub value_references: BTreeMap<u64, u64>,
    /// Bytes of all values that they point at.
    pub value_bytes: u64,
    range_deleted: RangeDeletedSum,
    known_damage: KnownDamage,
}

impl RunTotals {
    fn of(tables: &[Arc<TableFile>]) -> Self {
        let records = || tables.iter().map(|table| &table.record);
        let mut totals = Self { counts: KeyCounts::of(records()), ..Self::default() };
        for record in records() {
            totals.bytes += record.bytes;
            for &(file, bytes) in &record.value_references {
                *totals.value_references.entry(file).or_default() += bytes;
                totals.value_bytes += bytes;
            }
        }
        tables.iter().for_each(|table| table.count_range_deleted_in(&totals.range_deleted));
        totals
    }

    /// Versions that range tombstones hide when no snapshot is in the way, as far as that was
    /// measured.
    pub(super) fn range_deleted(&self) -> u64 {
        self.range_deleted.get()
    }
}

impl Run {
    /// A run of these tables, in whatever order.
    pub(super) fn of(level: u32, id: u64, mut tables: Vec<Arc<TableFile>>) -> Self {
        tables.sort_by(|a, b| a.record.smallest_key.cmp(&b.record.smallest_key));
        let totals = Arc::new(RunTotals::of(&tables));
        tables.iter().for_each(|table| table.set_run_bytes(totals.bytes));
        let index = RunIndex::of(&tables);
        Self { level, id, tables: tables.into(), totals, index }
    }

    /// Level and number, which no other run of the family shares.
    pub(crate) const fn place(&self) -> (u32, u64) {
        (self.level, self.id)
    }

    /// The only table that may hold `key`.
    #[inline]
    pub(crate) fn table_for(&self, key: &[u8]) -> Option<&Arc<TableFile>> {
        self.index.table_for(key)
    }

    /// Whether a table may hold a key from `start` on and before `end`.
    pub(crate) fn overlaps(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        self.tables.iter().any(|table| table.overlaps(start, end))
    }

    /// The tables that may hold a key from `smallest` to `largest`.
    pub(crate) fn tables_over(&self, smallest: &[u8], largest: &[u8]) -> &[Arc<TableFile>] {
        let before = |table: &Arc<TableFile>| table.record.largest_key.as_slice() < smallest;
        let tables = self.tables.get(self.tables.partition_point(before)..).unwrap_or_default();
        let begins = |table: &Arc<TableFile>| table.record.smallest_key.as_slice() <= largest;
        tables.get(..tables.partition_point(begins)).unwrap_or_default()
    }

    /// Bytes of all tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.totals.bytes
    }

    /// Bytes of all tables and of the values that they point at.
    pub(crate) fn bytes_with_values(&self) -> u64 {
        self.totals.bytes + self.totals.value_bytes
    }

    /// Holds a table that could not be read: it takes no part in compactions.
    pub(crate) fn is_damaged(&self) -> bool {
        // Writers ask, and there may be thousands of tables.
        let changes = self.tables.first().map_or(0, |table| table.set_aside_changes());
        let is_damaged = || self.tables.iter().any(|table| table.is_damaged());
        self.totals.known_damage.at(changes, is_damaged)
    }
}

/// Whether a run holds a table that could not be read, as it was found last. Those who ask look at
/// the tables once for each file of the database that is set aside, or is no more.
#[derive(Debug, Default)]
struct KnownDamage {
    /// The number of these changes when that was found, and in the lowest bit what was found.
    /// Before the first change there is no damage.
    found: AtomicU64,
}

impl KnownDamage {
    /// What is known after so many changes, or what `look` finds.
    fn at(&self, changes: u64, look: impl FnOnce() -> bool) -> bool {
        // ORDERING: relaxed here and below; the word holds all that is known. The caller has seen
        // the changes before it looks.
        let found = self.found.load(Ordering::Relaxed);
        if found >> 1 == changes {
            return found & 1 == 1;
        }
        let is_damaged = look();
        self.found.store(changes << 1 | u64::from(is_damaged), Ordering::Relaxed);
        is_damaged
    }
}
