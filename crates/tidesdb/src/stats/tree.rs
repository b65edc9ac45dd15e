//! Statistics of tables that are B+trees.

use std::collections::BTreeMap;

use tidesdb_base::error::Result;

use super::ratio;
use crate::family::FamilyState;

/// Levels of nodes of a table that is a tree: leaves, index nodes, root.
const HEIGHT: u64 = 3;

/// The B+trees of one level of a family, see [`TreeStats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeLevelStats {
    /// The level: 1 for runs that flushes wrote, 2 for runs that compactions wrote. It says nothing
    /// of age.
    pub level: u32,
    /// Tables that are B+trees.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Leaves: nodes that hold keys and values.
    pub leaves: u64,
    /// Nodes between root and leaves, which are read through the block cache.
    pub index_nodes: u64,
}

impl TreeLevelStats {
    /// All nodes, with the root of each tree.
    #[must_use]
    pub const fn nodes(&self) -> u64 {
        self.leaves + self.index_nodes + self.tables
    }
}

/// Statistics of the tables of a family that were written as B+trees (`FamilyOptions::use_btree`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeStats {
    /// The levels that have trees.
    pub levels: Vec<TreeLevelStats>,
    /// Tables with a flat index, of which there are some after a change of the option.
    pub flat_tables: u64,
}

impl TreeStats {
    /// # Errors
    /// [`tidesdb_base::error::Error::Corruption`] or `Io` when a table can't be opened.
    pub(crate) fn of(family: &FamilyState) -> Result<Self> {
        let mut levels: BTreeMap<u32, TreeLevelStats> = BTreeMap::new();
        let mut flat_tables = 0;
        let version = family.current_version();
        for run in &version.runs {
            for file in run.tables.iter() {
                let open = file.table()?;
                let Some(table) = open.as_ref() else { continue };
                let summary = table.summary();
                if summary.index_nodes == 0 {
                    flat_tables += 1;
                    continue;
                }
                let level = levels.entry(run.level).or_default();
                level.level = run.level;
                level.tables += 1;
                level.bytes += summary.file_len;
                level.leaves += summary.data_blocks;
                level.index_nodes += summary.index_nodes;
            }
        }
        Ok(Self { levels: levels.into_values().collect(), flat_tables })
    }

    /// Tables that are trees.
    #[must_use]
    pub fn tables(&self) -> u64 {
        self.levels.iter().map(|level| level.tables).sum()
    }

    /// Nodes of all trees: leaves, index nodes and roots.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.levels.iter().map(TreeLevelStats::nodes).sum()
    }

    /// Nodes from the root to a leaf of the highest tree, both included; 0 when there is no tree.
    #[must_use]
    pub fn height(&self) -> u64 {
        if self.levels.is_empty() { 0 } else { HEIGHT }
    }

    /// The same on average over the tables; flat ones have a root and leaves.
    #[must_use]
    pub fn average_height(&self) -> f64 {
        let trees = self.tables();
        if trees == 0 {
            return 0.0;
        }
        ratio(trees * HEIGHT + self.flat_tables * 2, trees + self.flat_tables)
    }
}
