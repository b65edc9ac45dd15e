//! Statistics of one family and its levels.

use std::collections::BTreeMap;

use super::{ReadStats, WorkStats, ratio};
use crate::family::{FamilyState, View};

/// Statistics of one level of a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelStats {
    /// The level: 1 for runs that flushes wrote, 2 for runs that compactions wrote. It says nothing
    /// of age.
    pub level: u32,
    /// Sorted runs.
    pub runs: u64,
    /// Tables.
    pub tables: u64,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// The table with the largest share of tombstones.
    pub densest_table: TombstoneDensity,
}

/// How many of a table's entries are tombstones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TombstoneDensity {
    /// Tombstones.
    pub tombstones: u64,
    /// Entries, tombstones included.
    pub entries: u64,
}

impl TombstoneDensity {
    /// The share of tombstones, from 0 to 1; 0 for a table without entries.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        ratio(self.tombstones, self.entries)
    }

    fn is_above(&self, other: &Self) -> bool {
        u128::from(self.tombstones) * u128::from(other.entries.max(1))
            > u128::from(other.tombstones) * u128::from(self.entries.max(1))
    }
}

/// Statistics of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FamilyStats {
    /// Bytes of memory held by memtables.
    pub memtable_bytes: u64,
    /// How much of it frozen memtables hold.
    pub frozen_memtable_bytes: u64,
    /// Frozen memtables: they take no commits any more and wait for their flush, or are being
    /// flushed.
    pub frozen_memtables: u64,
    /// The levels that hold anything.
    pub levels: Vec<LevelStats>,
    /// Range deletions that hide something, or may: those in memory, and those on disk that some
    /// table still needs.
    pub range_tombstones: u64,
    /// Value-log files.
    pub value_log_files: u64,
    /// Bytes of value-log files.
    pub value_log_bytes: u64,
    /// What was done since the open: commits, flushes and compactions.
    pub work: WorkStats,
    /// What reads have met since the open.
    pub reads: ReadStats,
    /// Places where a lookup without filters searches: memtables that hold anything, and sorted
    /// runs. A seek searches all of them.
    pub read_amplification: u64,
}

impl FamilyStats {
    pub(crate) fn of(family: &FamilyState) -> Self {
        let view = family.view.load();
        let mut levels: BTreeMap<u32, LevelStats> = BTreeMap::new();
        for run in &view.version.runs {
            let level = levels.entry(run.level).or_default();
            level.level = run.level;
            level.runs += 1;
            for table in run.tables.iter() {
                level.tables += 1;
                level.bytes += table.record.bytes;
                level.entries += table.record.entries;
                level.tombstones += table.record.tombstones;
                let density = TombstoneDensity {
                    tombstones: table.record.tombstones,
                    entries: table.record.entries,
                };
                if density.is_above(&level.densest_table) {
                    level.densest_table = density;
                }
            }
        }
        let counted = family.counters.counted();
        let frozen = view.frozen.iter();
        let frozen_memtable_bytes = frozen.map(|memtable| memtable.allocated_bytes()).sum();
        Self {
            memtable_bytes: view.active.allocated_bytes() + frozen_memtable_bytes,
            frozen_memtable_bytes,
            frozen_memtables: view.frozen.len() as u64,
            levels: levels.into_values().collect(),
            range_tombstones: range_tombstones(&view),
            value_log_files: view.version.value_logs.len() as u64,
            value_log_bytes: view.version.value_logs.values().map(|f| f.life().bytes()).sum(),
            work: WorkStats::of(&counted),
            reads: ReadStats::of(&counted),
            read_amplification: (view.version.runs.len()
                + view.frozen.len()
                + usize::from(!view.active.is_empty())) as u64,
        }
    }
}

fn range_tombstones(view: &View) -> u64 {
    let memtables = std::iter::once(&view.active).chain(&view.frozen);
    let in_memory: usize = memtables.map(|m| m.range_tombstones().iter().count()).sum();
    (in_memory + view.version.range_tombstones.len()) as u64
}
