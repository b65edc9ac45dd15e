//! Making the result of a compaction known: one manifest edit, then the view, then the old files
//! go.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, TryLockError};

use tidesdb_base::error::Result;
use tidesdb_files::manifest::{Change, TableRecord};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sync_points::sync_point;

use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::output::written::{Written, remove_written};
use crate::telemetry::counters::Work;
use crate::version::{Catalog, TableChange, TableFile, ValueLogFile, Version};

/// What a compaction, or a step of one, has done.
#[derive(Debug, Default)]
pub(super) struct CompactionResult {
    /// Tables whose versions are all in `written` or not needed.
    pub replaced: Vec<Arc<TableFile>>,
    /// Tables that become part of the output run as they are.
    pub moved: Vec<Arc<TableFile>>,
    /// Level and number of the output run.
    pub place: (u32, u64),
    pub written: Vec<Written>,
    /// More of the same compaction follows. Range tombstones are removed only after the last step,
    /// since each of them has to be looked at.
    pub more_follows: bool,
}

impl CompactionResult {
    fn changes(&mut self, family: u32, dead_value_logs: &[u64]) -> Vec<Change> {
        let mut changes = Vec::new();
        for table in self.replaced.iter().chain(&self.moved) {
            changes.push(Change::RemoveTable { family, number: table.record.number });
        }
        for table in &self.moved {
            let (level, run) = self.place;
            let table = TableRecord { level, run, ..(*table.record).clone() };
            changes.push(Change::AddTable { family, table: Arc::new(table) });
        }
        changes.extend(self.written.iter_mut().flat_map(|written| written.changes(family)));
        let dead = dead_value_logs.iter();
        changes.extend(dead.map(|&number| Change::RemoveValueLog { family, number }));
        changes
    }

    /// Whether all that it replaces or moves is there. Claims on the runs see to that.
    fn inputs_are_in(&self, version: &Version) -> bool {
        let there: BTreeSet<u64> = version.tables().map(|table| table.record.number).collect();
        self.replaced.iter().chain(&self.moved).all(|table| there.contains(&table.record.number))
    }

    fn table_change(&self, core: &Core) -> TableChange {
        let number = |table: &Arc<TableFile>| table.record.number;
        let records = self.written.iter().flat_map(|written| &written.tables);
        TableChange {
            removed: self.replaced.iter().map(number).collect(),
            moved: self.moved.iter().map(number).collect(),
            moved_to: self.place,
            added: records
                .map(|record| TableFile::new(&core.storage.files, Arc::clone(record)))
                .collect(),
        }
    }

    fn value_logs(&self) -> Vec<(u64, Arc<ValueLogFile>)> {
        self.written.iter().flat_map(Written::value_log_files).collect()
    }
}

/// What a compaction makes of a version of its family.
struct Prepared {
    of: Arc<Version>,
    next: Version,
    /// Value logs of `next` that nothing points into.
    dead: Vec<u64>,
}

impl Prepared {
    fn new(of: Arc<Version>, change: TableChange, value_logs: &[(u64, Arc<ValueLogFile>)]) -> Self {
        let mut next = of.with_tables(change);
        next.value_logs.extend(value_logs.iter().cloned());
        let dead = next.dead_value_logs();
        Self { of, next, dead }
    }
}

/// Range tombstones that one edit lets go of: the catalog is locked as long as it is written.
const TOMBSTONES_AT_ONCE: usize = if cfg!(test) { 16 } else { 16 << 10 };

/// Looks at range tombstones by one compaction, for those that ended meanwhile as well. What is due
/// after that waits for the next one.
const MOST_LOOKS: usize = 4;

impl Core {
    /// Makes the result of a compaction known and lets go of what it replaces, range tombstones
    /// too.
    ///
    /// # Errors
    /// `Io` when the manifest can't be written, `FamilyDropped`; nothing has
    /// changed then, and the outputs are removed. Only range tombstones may stay when all else is
    /// done.
    pub(super) fn install_compaction(
        &self,
        family: &Arc<FamilyState>,
        merged: CompactionResult,
    ) -> Result<()> {
        let more_follows = merged.more_follows;
        self.install_tables(family, merged)?;
        if more_follows { Ok(()) } else { self.drop_due_tombstones(family) }
    }

    /// Lets go of range tombstones that no table needs any more, here or by the thread that does so
    /// for the family already.
    fn drop_due_tombstones(&self, family: &Arc<FamilyState>) -> Result<()> {
        let compactions = &family.compactions;
        // ORDERING: SeqCst; a thread that finds another one at it has set the mark before, and that
        // one looks at the mark after it has given up the lock.
        compactions.tombstones_due.store(true, Ordering::SeqCst);
        for _ in 0..MOST_LOOKS {
            if !compactions.tombstones_due.load(Ordering::SeqCst) {
                break;
            }
            let _one_at_a_time = match compactions.dropping_tombstones.try_lock() {
                Ok(guard) => guard,
                // What a look that panicked has left is looked at anew.
                Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
                // No compaction waits for the look of another.
                Err(TryLockError::WouldBlock) => break,
            };
            if compactions.tombstones_due.swap(false, Ordering::SeqCst) {
                self.drop_finished_tombstones(family)?;
            }
        }
        Ok(())
    }

    /// Lets go of the range tombstones that no table needs any more. There may be very many of
    /// them, so they are looked through once, without a lock, and go by one edit after the other.
    /// Flushes and compactions that end meanwhile do not make that look worthless: only their
    /// tables are looked at again, with the lock. The view has all of them until the last edit: to
    /// leave some out means to copy the others. The caller sees to it that no other thread takes
    /// tombstones away meanwhile, so the version that is found later has all that were kept.
    fn drop_finished_tombstones(&self, family: &Arc<FamilyState>) -> Result<()> {
        let looked_at = family.current_version();
        let snapshots = self.isolation.snapshots.list();
        let (finished, mut kept) = looked_at.finished_tombstones(&snapshots);
        if finished.is_empty() {
            return Ok(());
        }
        sync_point("tombstones looked through");
        let known = looked_at.table_numbers();
        let mut result = Ok(());
        let mut chunks = finished.chunks(TOMBSTONES_AT_ONCE);
        for chunk in chunks.by_ref() {
            let mut catalog = lock(&self.storage.catalog);
            if family.is_dropped() {
                return Ok(());
            }
            // Of a look that has panicked the manifest may have let go of some.
            let listed =
                catalog.state.families.get(&family.id).map(|state| &state.range_tombstones);
            let is_listed = |one: &&Arc<_>| listed.is_some_and(|listed| listed.contains(*one));
            let chunk: Vec<_> = chunk.iter().filter(is_listed).cloned().collect();
            let [gone, needed] = family.current_version().part_finished(&looked_at, &known, &chunk);
            kept.add(needed);
            let changes = gone
                .iter()
                .cloned()
                .map(|tombstone| Change::RemoveRangeTombstone { family: family.id, tombstone });
            result = catalog.commit(changes.collect());
            if result.is_err() {
                kept.add(gone);
                break;
            }
            family.reads.forgotten_deletions.note(&gone, snapshots.first().copied());
            sync_point("tombstones let go");
            drop(catalog);
            sync_point("between edits of tombstones");
        }
        // As many as the manifest has, also where an edit failed.
        chunks.for_each(|chunk| kept.add(chunk.to_vec()));
        let _catalog = lock(&self.storage.catalog);
        if family.is_dropped() {
            return Ok(());
        }
        let version = family.current_version();
        let range_tombstones = version.kept_since(&looked_at, kept);
        let next = Arc::new(Version { range_tombstones, ..(*version).clone() });
        family.change_view(|view| View { version: next, ..view.clone() });
        result
    }

    /// Locks the catalog, with the version that follows the one in force. Otherwise removes what
    /// was written.
    fn prepare_tables(
        &self,
        family: &FamilyState,
        merged: &CompactionResult,
    ) -> Result<(MutexGuard<'_, Catalog>, Prepared)> {
        let (change, value_logs) = (merged.table_change(self), merged.value_logs());
        let is_dropped = || family.is_dropped();
        let prepare = || {
            let version = family.current_version();
            // A drop marks the family before it takes its files out of the view.
            if is_dropped() {
                return None;
            }
            debug_assert!(merged.inputs_are_in(&version), "inputs of a compaction have gone");
            Some(Prepared::new(version, change.clone(), &value_logs))
        };
        let is_in_force =
            |prepared: &Prepared| Arc::ptr_eq(&prepared.of, &family.current_version());
        let is_current = |prepared: &Option<Prepared>| {
            is_dropped() || prepared.as_ref().is_some_and(is_in_force)
        };
        let again = |prepared: &mut Option<Prepared>| *prepared = prepare();
        let (catalog, prepared) = self.storage.lock_prepared(prepare(), is_current, again);
        if let Some(prepared) = prepared.filter(|_| !is_dropped()) {
            return Ok((catalog, prepared));
        }
        drop(catalog);
        remove_written(self.env.vfs.as_ref(), &merged.written);
        Err(family.dropped_error())
    }

    fn install_tables(
        &self,
        family: &Arc<FamilyState>,
        mut merged: CompactionResult,
    ) -> Result<()> {
        let (mut catalog, prepared) = self.prepare_tables(family, &merged)?;
        let Prepared { of: old, mut next, dead } = prepared;
        let changes = merged.changes(family.id, &dead);
        let outputs = || merged.written.iter().flat_map(|written| written.paths.clone()).collect();
        let committed = catalog.commit_files(changes, outputs);
        if committed.is_err() && catalog.is_on_disk() {
            merged.written.iter_mut().for_each(Written::note_not_named);
        }
        committed?;
        merged.written.iter_mut().for_each(Written::keep_value_logs);
        // Only now, with the edit on disk, may the files go: with their last reader.
        for number in &dead {
            if let Some(file) = next.value_logs.remove(number) {
                file.let_go();
            }
        }
        let replaced: BTreeSet<u64> = merged.replaced.iter().map(|t| t.record.number).collect();
        for table in old.tables().filter(|table| replaced.contains(&table.record.number)) {
            table.let_go();
        }
        sync_point("compaction in the manifest");
        let next = Arc::new(next);
        family.change_view(|view| View { version: next, ..view.clone() });
        drop(old);
        self.restate_manifest_later(&mut catalog);
        drop(catalog);
        for written in &merged.written {
            family.counters.add(Work::CompactionBytesWritten, written.bytes);
            family.counters.add(Work::CompactionTables, written.tables.len() as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
