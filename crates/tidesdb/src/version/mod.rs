//! The picture of a family's files: immutable, shared by everyone who reads from it.
//!
//! A [`Version`] lists sorted runs from newest to oldest and the value-log files that they point
//! into. A flush or a compaction builds another version and swaps it in; readers of the old one
//! keep its files alive until they let go.
//!
//! | file | what |
//! |---|---|
//! | this one | a version: its runs and value logs, and the next one made of it |
//! | `catalog`, `persisted_state` | the manifest in force, and what it says |
//! | `edit_check`, `torn_manifest` | edits that do not fit, and an end that can't be read |
//! | `run`, `run_index` | a sorted run, and which of its tables may hold a key |
//! | `set_aside` | why compactions leave a file alone |
//! | `table_file`, `table_descriptor` | a table that is open or not, and its descriptor |
//! | `value_log_file`, `value_log_life`, `value_pointers` | value logs, and who points into them |
//! | `value_log_appender`, `growing_value_logs` | value logs that are appended to again and again |
//! | `range_tombstones`, `covered_tables` | range deletions, and tables that they cover wholly |
//! | `range_deleted`, `measured_deletions` | how much of a table and of a run they hide |
//! | `liveness`, `key_counts`, `space` | how much of the tables is garbage |
//! | `value_log_garbage` | how much of the value logs is |
//! | `file_context`, `named_file`, `directory_lock` | what files share, who names them, whose they are |
//! | `obsolete_files`, `orphans` | files that nothing needs any more, and those that a crash left |
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod catalog;
mod covered_tables;
mod directory_lock;
mod edit_check;
mod file_context;
mod growing_value_logs;
mod key_counts;
mod liveness;
mod measured_deletions;
mod named_file;
mod obsolete_files;
mod orphans;
mod persisted_state;
mod range_deleted;
mod range_tombstones;
mod run;
mod run_index;
mod set_aside;
mod space;
mod table_descriptor;
mod table_file;
mod torn_manifest;
mod value_log_appender;
mod value_log_file;
mod value_log_garbage;
mod value_log_life;
mod value_pointers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Error;
use tidesdb_base::range_tombstone::{RangeTombstone, RangeTombstoneSets};
use tidesdb_sys::sync_points::sync_point;

pub(crate) use self::catalog::{Catalog, InDoubt, restate_beside};
pub(crate) use self::covered_tables::CoveredTables;
pub(crate) use self::directory_lock::DirectoryLock;
pub(crate) use self::file_context::FileContext;
pub(crate) use self::growing_value_logs::{
    GrowingValueLog, GrowingValueLogs, full_value_log_bytes,
};
pub(crate) use self::key_counts::KeyCounts;
pub(crate) use self::liveness::{LivenessCount, LivenessRules};
pub(crate) use self::named_file::NamedFile;
pub(crate) use self::obsolete_files::ObsoleteFiles;
pub(crate) use self::orphans::{Orphans, has_orphans, remove_interrupted_creation};
pub(crate) use self::persisted_state::{FamilyRecord, NO_LOG, PersistedState, begin_log_with};
pub(crate) use self::range_deleted::Measuring;
pub(crate) use self::range_tombstones::{
    is_deleted_in_part, snapshots_in_the_way, table_needs, table_overlaps,
};
pub(crate) use self::run::Run;
use self::set_aside::SetAside;
pub(crate) use self::set_aside::{SetAsideChanges, unreadable_file};
pub(crate) use self::space::{SpaceEstimate, are_bulk_deletions, collected_from};
pub(crate) use self::table_file::{FilterAnswer, TableFile};
pub(crate) use self::torn_manifest::TornManifest;
pub(crate) use self::value_log_appender::{OpenForAppending, ValueLogAppender};
pub(crate) use self::value_log_file::ValueLogFile;
use self::value_log_garbage::ValueUse;
pub(crate) use self::value_log_life::{Extent, ValueLogLife};
pub(crate) use self::value_pointers::{decode_pointer, read_pointer, resolve, unknown_file};

/// What a flush or a compaction does to the tables of a version.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableChange {
    /// File numbers of tables that go.
    pub removed: Vec<u64>,
    /// File numbers of tables that become part of another run as they are.
    pub moved: Vec<u64>,
    /// Level and number of that run.
    pub moved_to: (u32, u64),
    /// New tables, each in the run that its record names.
    pub added: Vec<Arc<TableFile>>,
}

fn placed_by_record(
    tables: impl IntoIterator<Item = Arc<TableFile>>,
) -> impl Iterator<Item = ((u32, u64), Arc<TableFile>)> {
    tables.into_iter().map(|table| ((table.record.level, table.record.run), table))
}

/// All files of a family at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Version {
    /// Newest first.
    pub runs: Vec<Run>,
    /// By file number.
    pub value_logs: BTreeMap<u64, Arc<ValueLogFile>>,
    /// Range deletions that were flushed and that some table still needs.
    pub range_tombstones: RangeTombstoneSets,
    /// By how much garbage has grown the runs, if there were no snapshots.
    pub space: SpaceEstimate,
    /// Which values the runs point at.
    pub value_use: ValueUse,
}

impl Version {
    /// All tables, newest run first.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.runs.iter().flat_map(|run| run.tables.iter())
    }

    /// The tables that may hold a key from `start` on and before `end`, newest run first.
    pub(crate) fn tables_between(
        &self,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> impl Iterator<Item = &Arc<TableFile>> {
        self.tables().filter(move |table| table.overlaps(start, end))
    }

    /// What its garbage is estimated by. `now` in Unix seconds.
    pub(crate) fn liveness_rules<'a>(
        &self,
        snapshots: &'a [SequenceNumber],
        now: u64,
    ) -> LivenessRules<'a> {
        LivenessRules { snapshots, now, range_deletions: !self.range_tombstones.is_empty() }
    }

    /// By how much garbage has grown it, with these snapshots, oldest first.
    pub(crate) fn space_for(&self, snapshots: &[SequenceNumber]) -> SpaceEstimate {
        SpaceEstimate::of(&self.runs, self.liveness_rules(snapshots, 0))
    }

    /// How many tables compactions could not read.
    pub(crate) fn damaged_tables(&self) -> usize {
        self.tables().filter(|table| table.is_damaged()).count()
    }

    /// How many tables and value logs compactions could not read.
    pub(crate) fn damaged_files(&self) -> usize {
        self.files().filter(|(_, set_aside)| set_aside.is_set()).count()
    }

    /// Whether compactions leave a file alone that the system could not read.
    pub(crate) fn has_failed_reads(&self) -> bool {
        self.files().any(|(_, set_aside)| set_aside.is_failed_read())
    }

    /// Has compactions read again what the system could not read: that may have passed.
    pub(crate) fn forget_failed_reads(&self) {
        self.files().for_each(|(_, set_aside)| set_aside.forget_failed_read());
    }

    /// How often a file of its database was set aside, or was no more.
    pub(crate) fn set_aside_changes(&self) -> u64 {
        self.tables().next().map_or(0, |table| table.set_aside_changes())
    }

    /// Keeps compactions away from the file that an error says could not be read, if it is one of
    /// the version's.
    pub(crate) fn set_aside(&self, why: &Error) {
        let Some(path) = unreadable_file(why) else { return };
        let of_path = self.files().filter(|(known, _)| *known == path);
        of_path.for_each(|(_, set_aside)| set_aside.set(why));
    }

    /// Tables and value logs.
    fn files(&self) -> impl Iterator<Item = (&Path, &SetAside)> {
        let value_logs = self.value_logs.values().map(|file| (file.path(), &file.set_aside));
        self.tables().map(|table| (table.path(), &table.set_aside)).chain(value_logs)
    }

    /// The runs that compactions can make fewer: those above the first damaged one.
    pub(crate) fn mergeable_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().take_while(|run| !run.is_damaged())
    }

    /// Whether what was flushed lately is mostly deletions, by the newest runs.
    pub(crate) fn is_deleted_in_bulk(&self) -> bool {
        let counts = self.mergeable_runs().map(|run| &run.totals.counts);
        are_bulk_deletions(counts.map(|counts| (counts.entries, counts.tombstones)))
    }

    /// How many of them are as flushes wrote them.
    pub(crate) fn young_runs(&self) -> u64 {
        self.mergeable_runs().filter(|run| run.level == 1).count() as u64
    }

    /// Whether the tables of the run of that level and number share no key.
    pub(crate) fn is_disjoint(&self, place: (u32, u64)) -> bool {
        let mut run = self.runs.iter().filter(|run| run.place() == place);
        run.all(|run| run.tables.is_sorted_by(|a, b| a.record.largest_key < b.record.smallest_key))
    }

    /// This version with other tables. It adds up what is known of those that change: not for
    /// callers who hold a lock, unless the version changes all the time.
    pub(crate) fn with_tables(&self, change: TableChange) -> Self {
        sync_point("version made");
        let removed: BTreeSet<u64> = change.removed.iter().copied().collect();
        let moved: BTreeSet<u64> = change.moved.iter().copied().collect();
        let added = change.added.iter().map(|table| (table.record.level, table.record.run));
        let moved_to = (!moved.is_empty()).then_some(change.moved_to);
        let grown: BTreeSet<(u32, u64)> = added.chain(moved_to).collect();
        let loses = |run: &&Run| {
            let mut numbers = run.tables.iter().map(|table| table.record.number);
            !(removed.is_empty() && moved.is_empty())
                && numbers.any(|number| removed.contains(&number) || moved.contains(&number))
        };
        let (changed, untouched): (Vec<&Run>, Vec<&Run>) =
            self.runs.iter().partition(|run| grown.contains(&(run.level, run.id)) || loses(run));
        let kept = changed.into_iter().flat_map(|run| {
            run.tables.iter().map(|table| ((run.level, run.id), Arc::clone(table)))
        });
        let kept = kept.filter(|(_, table)| !removed.contains(&table.record.number));
        let placed = kept.map(|(place, table)| {
            let moves = moved.contains(&table.record.number);
            (if moves { change.moved_to } else { place }, table)
        });
        let placed = placed.chain(placed_by_record(change.added));
        let range_tombstones = self.range_tombstones.clone();
        let mut next = Self::of_placed(placed, self.value_logs.clone());
        next.runs.extend(untouched.into_iter().cloned());
        // As `of_placed` does, so that a version is the same after a reopening.
        next.runs.sort_by_key(|run| (std::cmp::Reverse(run.id), run.level));
        next.range_tombstones = range_tombstones;
        next.space = next.space_for(&[]);
        // No bytes of files lead here: an opening refuses a manifest with such runs, and what a
        // compaction writes ascends and stays within its part, whatever its tables hold.
        debug_assert!(grown.iter().all(|&place| next.is_disjoint(place)), "tables overlap");
        debug_assert!(next.is_newest_first(), "a run is out of its place");
        next
    }

    /// Whether its runs lie from new to old, each once.
    fn is_newest_first(&self) -> bool {
        let place = |run: &Run| (std::cmp::Reverse(run.id), run.level);
        self.runs.is_sorted_by(|newer, older| place(newer) < place(older))
    }

    /// A version of these tables, each in the run that its record names, without range tombstones.
    pub(crate) fn of_tables(
        tables: impl IntoIterator<Item = Arc<TableFile>>,
        value_logs: BTreeMap<u64, Arc<ValueLogFile>>,
    ) -> Self {
        Self::of_placed(placed_by_record(tables), value_logs)
    }

    /// The same files as another family has them: shared, and let go of by each family on its own.
    /// Of the value logs only those that tables point into. The manifest names them for that
    /// family.
    pub(crate) fn for_another_family(&self, tombstones: Vec<Arc<RangeTombstone>>) -> Self {
        let tables = self
            .runs
            .iter()
            .flat_map(|run| run.tables.iter().map(|table| table.for_another_family(run.place())));
        let is_referenced =
            |file: &&Arc<ValueLogFile>| self.value_use.of(&self.runs).contains_key(&file.number);
        let value_logs = self.value_logs.values().filter(is_referenced);
        let value_logs = value_logs.map(|file| (file.number, file.for_another_family()));
        let mut copy = Self::of_tables(tables, value_logs.collect());
        copy.range_tombstones.add(tombstones);
        copy
    }

    fn of_placed(
        tables: impl IntoIterator<Item = ((u32, u64), Arc<TableFile>)>,
        value_logs: BTreeMap<u64, Arc<ValueLogFile>>,
    ) -> Self {
        // Newest first: a higher number is newer, whatever the level.
        let mut runs: BTreeMap<(std::cmp::Reverse<u64>, u32), Vec<Arc<TableFile>>> =
            BTreeMap::new();
        for ((level, run), table) in tables {
            runs.entry((std::cmp::Reverse(run), level)).or_default().push(table);
        }
        let runs = runs.into_iter().map(|((id, level), tables)| Run::of(level, id.0, tables));
        let runs: Vec<Run> = runs.collect();
        let mut version = Self { runs, value_logs, ..Self::default() };
        version.space = version.space_for(&[]);
        version
    }
}

#[cfg(test)]
pub(crate) use self::range_deleted::LOOKS as MEASURED_LOOKS;
#[cfg(test)]
pub(crate) mod test_tables;
#[cfg(test)]
mod tests;
