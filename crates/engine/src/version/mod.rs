//! The picture of a family's files: immutable, shared by everyone who reads from it.
//!
//! A [`Version`] lists sorted runs from newest to oldest and the value-log files that they point
//! into. A flush or a merge builds another version and swaps it in; readers of the old one keep
//! its files alive until they let go.

mod catalog;
mod garbage;
mod table_file;
mod value_log_file;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use self::catalog::{Catalog, FamilyRecord, PersistedState};
pub(crate) use self::garbage::Garbage;
pub(crate) use self::table_file::{FileContext, TableFile};
pub(crate) use self::value_log_file::ValueLogFile;

/// A sorted run: tables whose key ranges do not overlap.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Level, 1 being the newest on disk.
    pub level: u32,
    /// Age within the level; a higher number is newer.
    pub id: u64,
    /// The tables in key order.
    pub tables: Vec<Arc<TableFile>>,
}

impl Run {
    /// The only table that may hold `key`.
    pub(crate) fn table_for(&self, key: &[u8]) -> Option<&Arc<TableFile>> {
        let at = self.tables.partition_point(|t| t.record.largest_key.as_slice() < key);
        let table = self.tables.get(at)?;
        (table.record.smallest_key.as_slice() <= key).then_some(table)
    }

    /// Bytes of all tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.tables.iter().map(|t| t.record.bytes).sum()
    }
}

/// All files of a family at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Version {
    /// Newest first.
    pub runs: Vec<Run>,
    /// By file number.
    pub value_logs: BTreeMap<u64, Arc<ValueLogFile>>,
}

impl Version {
    /// All tables, newest run first.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.runs.iter().flat_map(|run| run.tables.iter())
    }

    /// This version without the tables of `removed`, with those of `added`. Runs are formed from
    /// the level and run number in each table's record.
    pub(crate) fn with_tables(&self, removed: &[u64], added: Vec<Arc<TableFile>>) -> Self {
        let kept = self.tables().filter(|t| !removed.contains(&t.record.number)).cloned();
        Self::of_tables(kept.chain(added), self.value_logs.clone())
    }

    /// A version of these tables.
    pub(crate) fn of_tables(
        tables: impl IntoIterator<Item = Arc<TableFile>>,
        value_logs: BTreeMap<u64, Arc<ValueLogFile>>,
    ) -> Self {
        // Newest first: lower levels before higher ones, within a level the higher run number.
        let mut runs: BTreeMap<(u32, std::cmp::Reverse<u64>), Vec<Arc<TableFile>>> =
            BTreeMap::new();
        for table in tables {
            let key = (table.record.level, std::cmp::Reverse(table.record.run));
            runs.entry(key).or_default().push(table);
        }
        let runs = runs
            .into_iter()
            .map(|((level, id), mut tables)| {
                tables.sort_by(|a, b| a.record.smallest_key.cmp(&b.record.smallest_key));
                Run { level, id: id.0, tables }
            })
            .collect();
        Self { runs, value_logs }
    }

    /// Numbers of the value-log files that no table points into and no commit may point into.
    pub(crate) fn dead_value_logs(&self) -> Vec<u64> {
        let referenced: std::collections::BTreeSet<u64> = self
            .tables()
            .flat_map(|t| t.record.value_references.iter().map(|&(file, _)| file))
            .collect();
        self.value_logs
            .values()
            .filter(|file| {
                let pinned =
                    file.is_pinned() && !cfg!(planted_bug = "value_collected_while_pinned");
                !referenced.contains(&file.number) && !pinned
            })
            .map(|file| file.number)
            .collect()
    }
}
