//! What flushes make of the versions of their families, before the catalog is locked.

use std::sync::{Arc, MutexGuard};

use tidesdb_base::range_tombstone::RangeTombstone;
use tidesdb_files::manifest::TableRecord;

use super::Flushed;
use crate::core::Core;
use crate::version::{Catalog, TableChange, Version, table_needs, table_overlaps};

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
    /// Locks the catalog, with what these flushes make of the versions in force.
    pub(super) fn prepare_flushes(
        &self,
        flushes: &[Flushed],
    ) -> (MutexGuard<'_, Catalog>, Vec<Prepared>) {
        let all: Vec<_> = flushes.iter().map(|flushed| flushed.prepare(flushes)).collect();
        let is_in_force = |(flushed, prepared): (&Flushed, &Prepared)| {
            Arc::ptr_eq(&prepared.of, &flushed.family.current_version())
        };
        let are_current = |all: &Vec<Prepared>| flushes.iter().zip(all).all(is_in_force);
        let again = |all: &mut Vec<Prepared>| {
            for (flushed, prepared) in flushes.iter().zip(all) {
                if !is_in_force((flushed, prepared)) {
                    *prepared = flushed.prepare(flushes);
                }
            }
        };
        self.storage.lock_prepared(all, are_current, again)
    }
}
