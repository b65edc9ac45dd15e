//! Finds the data blocks of several keys of one table before any of them is read.

use super::index::{Index, Leaves};
use super::{BlockHandle, BlockSource, Table};
use tidesdb_base::Result;

/// Finds for one key after the other where it lies. Keeps the index node read last, so keys that
/// come in about their order cost least. Belongs to one thread.
#[derive(Debug)]
pub struct BlockFinder<'t, S: BlockSource> {
    table: &'t Table,
    blocks: &'t S,
    leaves: Leaves<S::Block>,
    announced: Option<usize>,
}

impl<'t, S: BlockSource> BlockFinder<'t, S> {
    /// A finder of blocks of `table`, whose index nodes come from `blocks`.
    #[must_use]
    pub const fn new(table: &'t Table, blocks: &'t S) -> Self {
        Self { table, blocks, leaves: Leaves::new(), announced: None }
    }

    /// Asks the system to begin reading the index node that [`BlockFinder::first_for`] will ask for
    /// `key`, if it needs one that is not at hand.
    #[inline]
    pub fn announce(&mut self, key: &[u8]) {
        let Index::Tree(index) = &self.table.index else { return };
        if index.whole().is_some() {
            return;
        }
        let node = index.node_for(key);
        if self.announced == Some(node) {
            return;
        }
        self.announced = Some(node);
        if index.held(node).is_none()
            && let Some(handle) = index.node_handle(node)
            && !self.blocks.has(self.table, handle)
        {
            self.table.start_reading_block(handle);
        }
    }

    /// The first data block that may hold `key`; `None` when all keys of the table lie before it.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Corruption`] or [`tidesdb_base::Error::Io`] when an index node can't
    /// be read.
    #[inline]
    pub fn first_for(&mut self, key: &[u8]) -> Result<Option<BlockHandle>> {
        let at = self.leaves.first_for(self.table, self.blocks, key)?;
        self.leaves.handle(self.table, self.blocks, at)
    }
}
