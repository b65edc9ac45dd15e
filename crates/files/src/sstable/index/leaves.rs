//! Finds the data blocks of a table by number and by key, whichever form its index has.
//!
//! In a tree index this reads the index node concerned through the block source, and keeps it for
//! the next question: a walk over the leaves of one node reads it once. Belongs to one lookup or
//! one iterator.

use super::super::block::Block;
use super::super::{BlockHandle, BlockSource, Table};
use super::tree::{TreeIndex, position_for};
use super::{FlatIndex, Index};
use std::ops::Deref;
use tidesdb_base::{Error, Result};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Leaves<B> {
    /// The index node read last, with its number.
    node: Option<(usize, B)>,
}

impl<B: Deref<Target = Block>> Leaves<B> {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self { node: None }
    }

    /// Number of the first data block that may hold `key`; the number of blocks if there is none.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Io`] when an index node can't be read.
    #[inline]
    pub(crate) fn first_for<S: BlockSource<Block = B>>(
        &mut self,
        table: &Table,
        source: &S,
        key: &[u8],
    ) -> Result<usize> {
        match &table.index {
            Index::Flat(index) => Ok(index.first_at_or_after(key)),
            Index::Tree(index) => {
                let node = index.node_for(key);
                if node >= index.nodes() {
                    return Ok(index.leaves());
                }
                let block = self.node(table, index, source, node)?;
                let position = position_for(block, key);
                let position = position.ok_or_else(|| malformed(table, index, node))?;
                Ok(index.first_leaf(node) + position)
            }
        }
    }

    /// Where data block `at` lies; `None` past the last.
    ///
    /// # Errors
    /// As [`Leaves::first_for`].
    #[inline]
    pub(crate) fn handle<S: BlockSource<Block = B>>(
        &mut self,
        table: &Table,
        source: &S,
        at: usize,
    ) -> Result<Option<BlockHandle>> {
        match &table.index {
            Index::Flat(index) => Ok(index.handle(at)),
            Index::Tree(index) => {
                let Some((node, within)) = self.place(index, at) else { return Ok(None) };
                let block = self.node(table, index, source, node)?;
                match index.leaf_handle(node, block, within) {
                    Some(handle) => Ok(Some(handle)),
                    None => Err(malformed(table, index, node)),
                }
            }
        }
    }

    /// As [`Leaves::handle`], and `None` also for a block of another index node than the one read
    /// last: what can be told without reading.
    pub(crate) fn handle_at_hand(&self, table: &Table, at: usize) -> Option<BlockHandle> {
        match &table.index {
            Index::Flat(index) => index.handle(at),
            Index::Tree(index) => {
                let (node, block) = self.node.as_ref()?;
                let within = at.checked_sub(index.first_leaf(*node))?;
                let inside = at < index.first_leaf(node + 1);
                if inside { index.leaf_handle(*node, block, within) } else { None }
            }
        }
    }

    /// Whether the separator of data block `at` is `key`, so that versions of `key` may go on in
    /// the next block.
    ///
    /// # Errors
    /// As [`Leaves::first_for`].
    #[inline]
    pub(crate) fn separator_is<S: BlockSource<Block = B>>(
        &mut self,
        table: &Table,
        source: &S,
        at: usize,
        key: &[u8],
    ) -> Result<bool> {
        match &table.index {
            Index::Flat(index) => Ok(index.separator_is(at, key)),
            Index::Tree(index) => {
                let Some((node, within)) = self.place(index, at) else { return Ok(false) };
                let block = self.node(table, index, source, node)?;
                let entry = block.entry(within).ok_or_else(|| malformed(table, index, node))?;
                Ok(block.has_key(&entry, key))
            }
        }
    }

    /// The separator of data block `at`; empty past the last.
    ///
    /// # Errors
    /// As [`Leaves::first_for`].
    pub(crate) fn separator<S: BlockSource<Block = B>>(
        &mut self,
        table: &Table,
        source: &S,
        at: usize,
    ) -> Result<Vec<u8>> {
        match &table.index {
            Index::Flat(index) => Ok(separator_within(index, at)),
            Index::Tree(index) => {
                let Some((node, within)) = self.place(index, at) else { return Ok(Vec::new()) };
                let block = self.node(table, index, source, node)?;
                block.key(within).ok_or_else(|| malformed(table, index, node))
            }
        }
    }

    /// The node of a leaf, and the leaf's place in it. The node read last is the likely one.
    #[inline]
    fn place(&self, index: &TreeIndex, at: usize) -> Option<(usize, usize)> {
        if let Some((node, _)) = self.node
            && let Some(within) = at.checked_sub(index.first_leaf(node))
            && at < index.first_leaf(node + 1)
        {
            return Some((node, within));
        }
        index.locate(at)
    }

    #[inline]
    fn node<S: BlockSource<Block = B>>(
        &mut self,
        table: &Table,
        index: &TreeIndex,
        source: &S,
        node: usize,
    ) -> Result<&Block> {
        if self.node.as_ref().is_none_or(|(held, _)| *held != node) {
            // Given back first: a source may have memory for one block at a time.
            self.node = None;
            let handle = index.node_handle(node);
            let handle = handle.ok_or_else(|| malformed(table, index, node))?;
            let block = source.block(table, handle)?;
            // Otherwise the numbers of leaves would not be theirs, and some would be passed over.
            if block.len() != index.leaves_of(node) {
                return Err(malformed(table, index, node));
            }
            self.node = Some((node, block));
        }
        match &self.node {
            Some((_, block)) => Ok(block),
            None => Err(malformed(table, index, node)),
        }
    }
}

fn separator_within(index: &FlatIndex, at: usize) -> Vec<u8> {
    if at < index.len() { index.separator(at) } else { Vec::new() }
}

#[cold]
fn malformed(table: &Table, index: &TreeIndex, node: usize) -> Error {
    let handle = index.node_handle(node);
    let handle = handle.unwrap_or(BlockHandle { offset: index.leaf_bytes(), len: 0 });
    Error::corruption(table.path(), handle.offset, "index node is malformed")
}
