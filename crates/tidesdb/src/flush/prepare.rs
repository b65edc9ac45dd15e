//! What flushes make of the versions of their families.
//!
//! Made before the catalog is locked: there may be very many tables and range tombstones, and a
//! freeze, with all commits stopped, waits for the thread that changes the view. Where the version
//! has changed by the time of the lock it is made anew, the last time with the lock held.

use std::sync::{Arc, MutexGuard};

use tidesdb_base::range_tombstone::RangeTombstone;
use tidesdb_files::manifest::TableRecord;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sync_points::sync_point;

use super::Flushed;
use crate::core::Core;
use crate::version::{Catalog, TableChange, Version, table_needs, table_overlaps};

/// How often versions are made without the lock. Beside flushes and compactions that change them
/// all the time it would come to no end.
const MOST_UNLOCKED_TRIES: usize = 3;

/// What a flush makes of the version of its family.
pub(super) struct Prepared {
    of: Arc<Version>,
    /// Range deletions of the memtable that hide something in a table.
    pub needed: Vec<Arc<RangeTombstone>>,
    /// The others.
    pub forgotten: Vec<Arc<RangeTombstone>>,
    /// `None` when several memtables of the family are flushed at once: each adds to what the one
    /// before has made.
    next: Option<Arc<Version>>,
}

impl Prepared {
    /// The version that follows `version`, which is in force.
    pub(super) fn next(self, flushed: &Flushed, version: &Arc<Version>) -> Arc<Version> {
        let is_of = self.next.is_none() || Arc::ptr_eq(&self.of, version);
        debug_assert!(is_of, "another version is in force");
        self.next.unwrap_or_else(|| Arc::new(flushed.version_after(version, &self.needed)))
    }
}

impl Flushed {
    /// `flushes` are all that are installed together with this one.
    fn prepare(&self, flushes: &[Self]) -> Prepared {
        let of = self.family.current_version();
        let same_family = || flushes.iter().filter(|f| Arc::ptr_eq(&f.family, &self.family));
        let (needed, forgotten) = match self.range_tombstones.is_empty() {
            true => (Vec::new(), Vec::new()),
            false => {
                let new: Vec<&Arc<TableRecord>> =
                    same_family().flat_map(|flushed| &flushed.written.tables).collect();
                let needed = |tombstone: &Arc<RangeTombstone>| {
                    let needs = |table: &&Arc<TableRecord>| {
                        table_overlaps(table, tombstone) && table_needs(table, tombstone)
                    };
                    of.needs_tombstone(tombstone) || new.iter().any(needs)
                };
                self.range_tombstones.iter().cloned().partition(needed)
            }
        };
        let is_alone = same_family().count() == 1;
        let next = is_alone.then(|| Arc::new(self.version_after(&of, &needed)));
        Prepared { of, needed, forgotten, next }
    }

    fn version_after(&self, version: &Version, needed: &[Arc<RangeTombstone>]) -> Version {
        let added = self.tables.clone();
        let mut next = version.with_tables(TableChange { added, ..TableChange::default() });
        next.value_logs.extend(self.value_logs.iter().cloned());
        next.add_tombstones(needed);
        next
    }
}

impl Core {
    /// Makes of the versions of all families what these flushes make of them, and locks the
    /// catalog: nothing else changes a version.
    pub(super) fn prepare_flushes(
        &self,
        flushes: &[Flushed],
    ) -> (MutexGuard<'_, Catalog>, Vec<Prepared>) {
        let mut prepared: Vec<_> = flushes.iter().map(|f| f.prepare(flushes)).collect();
        let mut tries = 0;
        loop {
            tries += 1;
            sync_point("flush prepared");
            let catalog = lock(&self.storage.catalog);
            let is_changed = |(flushed, prepared): (&Flushed, &Prepared)| {
                !Arc::ptr_eq(&prepared.of, &flushed.family.current_version())
            };
            if !flushes.iter().zip(&prepared).any(is_changed) {
                return (catalog, prepared);
            }
            let held = (tries >= MOST_UNLOCKED_TRIES).then_some(catalog);
            for (flushed, prepared) in flushes.iter().zip(&mut prepared) {
                if is_changed((flushed, prepared)) {
                    *prepared = flushed.prepare(flushes);
                }
            }
            if let Some(catalog) = held {
                return (catalog, prepared);
            }
        }
    }
}
