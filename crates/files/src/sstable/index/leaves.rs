//! Finds the data blocks of a table by number and by key, whichever form its index has.
//!
//! In a tree index this needs the index node concerned: one that the open table holds, or one that
//! is read through the block source and kept for the next question, so that a walk over the
//! leaves of one node reads it once. Looking for a key makes the table hold the node as long as
//! there is room for it; walking does not. Belongs to one lookup or one iterator.

use super::super::block::{BlockHolder, BlockRef};
use super::super::{BlockHandle, BlockSource, Table};
use super::tree::{TreeIndex, position_for};
use super::{FlatIndex, HeldNode, Index};
use std::ops::Range;
use tidesdb_base::{Error, Result};

/// Finds data blocks, and keeps the index node that the last question needed.
#[derive(Debug)]
pub(crate) struct Leaves<B> {
    at_hand: Option<AtHand<B>>,
    /// Whether nodes that the table holds are used.
    uses_held: bool,
}

/// The index node of the last question.
#[derive(Debug)]
struct AtHand<B> {
    node: usize,
    /// Numbers of its leaves.
    leaves: Range<usize>,
    /// The node when it was read; none when the table holds it.
    read: Option<B>,
}

/// A node that questions are put to.
enum Node<'n> {
    Held(&'n HeldNode),
    Read(BlockRef<'n>),
}

/// Why a node is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Lookup,
    Walk,
}

impl<B: BlockHolder> Leaves<B> {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self { at_hand: None, uses_held: true }
    }

    /// As [`Leaves::new`], reading all index nodes from the file: for checks of what is stored.
    pub(crate) const fn reading() -> Self {
        Self { at_hand: None, uses_held: false }
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
            Index::Tree(index) => self.first_in_tree((table, index), source, key),
        }
    }

    /// As [`Leaves::first_for`]. Apart, as all that trees need: it would weigh on flat indexes.
    #[inline(never)]
    fn first_in_tree<S: BlockSource<Block = B>>(
        &mut self,
        (table, index): (&Table, &TreeIndex),
        source: &S,
        key: &[u8],
    ) -> Result<usize> {
        if let Some(whole) = self.whole(index) {
            return Ok(whole.first_at_or_after(key));
        }
        let node = index.node_for(key);
        if node >= index.nodes() {
            return Ok(index.leaves());
        }
        let position = match self.node((table, index), source, node, Purpose::Lookup)? {
            Node::Held(held) => Some(held.first_at_or_after(key)).filter(|&at| at < held.len()),
            Node::Read(block) => position_for(block, key),
        };
        let position = position.ok_or_else(|| malformed(table, index, node))?;
        Ok(index.first_leaf(node) + position)
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
            Index::Tree(index) => self.handle_in_tree((table, index), source, at),
        }
    }

    #[inline(never)]
    fn handle_in_tree<S: BlockSource<Block = B>>(
        &mut self,
        (table, index): (&Table, &TreeIndex),
        source: &S,
        at: usize,
    ) -> Result<Option<BlockHandle>> {
        if let Some(whole) = self.whole(index) {
            return Ok(whole.handle(at));
        }
        let Some((node, within)) = self.place(index, at) else { return Ok(None) };
        let found = self.node((table, index), source, node, Purpose::Walk)?;
        match handle_in(index, node, &found, within) {
            Some(handle) => Ok(Some(handle)),
            None => Err(malformed(table, index, node)),
        }
    }

    /// As [`Leaves::handle`], and `None` also for a block of another index node than the last one:
    /// what is known without reading.
    #[inline]
    pub(crate) fn handle_at_hand(&self, table: &Table, at: usize) -> Option<BlockHandle> {
        match &table.index {
            Index::Flat(index) => index.handle(at),
            Index::Tree(index) => self.handle_at_hand_in_tree(index, at),
        }
    }

    #[inline(never)]
    fn handle_at_hand_in_tree(&self, index: &TreeIndex, at: usize) -> Option<BlockHandle> {
        if let Some(whole) = self.whole(index) {
            return whole.handle(at);
        }
        let at_hand = self.at_hand.as_ref().filter(|it| it.leaves.contains(&at))?;
        let node = at_hand.at(index)?;
        handle_in(index, at_hand.node, &node, at - at_hand.leaves.start)
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
                if let Some(whole) = self.whole(index) {
                    return Ok(whole.separator_is(at, key));
                }
                let Some((node, within)) = self.place(index, at) else { return Ok(false) };
                match self.node((table, index), source, node, Purpose::Walk)? {
                    Node::Held(held) => Ok(held.separator_is(within, key)),
                    Node::Read(block) => {
                        let entry = block.entry(within);
                        let entry = entry.ok_or_else(|| malformed(table, index, node))?;
                        Ok(block.has_key(&entry, key))
                    }
                }
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
                if let Some(whole) = self.whole(index) {
                    return Ok(separator_within(whole, at));
                }
                let Some((node, within)) = self.place(index, at) else { return Ok(Vec::new()) };
                match self.node((table, index), source, node, Purpose::Walk)? {
                    Node::Held(held) => Ok(held.separator(within)),
                    Node::Read(block) => {
                        block.key(within).ok_or_else(|| malformed(table, index, node))
                    }
                }
            }
        }
    }

    /// All nodes in one, if the table holds them so.
    #[inline]
    fn whole<'t>(&self, index: &'t TreeIndex) -> Option<&'t FlatIndex> {
        if self.uses_held { index.whole() } else { None }
    }

    /// The node of a leaf, and the leaf's place in it. The node of the last question is the likely
    /// one.
    #[inline]
    fn place(&self, index: &TreeIndex, at: usize) -> Option<(usize, usize)> {
        match &self.at_hand {
            Some(it) if it.leaves.contains(&at) => Some((it.node, at - it.leaves.start)),
            _ => index.locate(at),
        }
    }

    #[inline]
    fn node<'n, S: BlockSource<Block = B>>(
        &'n mut self,
        (table, index): (&'n Table, &'n TreeIndex),
        source: &S,
        node: usize,
        purpose: Purpose,
    ) -> Result<Node<'n>> {
        if self.at_hand.as_ref().is_none_or(|at_hand| at_hand.node != node) {
            // Given back first: a source may have memory for one block at a time.
            self.at_hand = None;
            let start = index.first_leaf(node);
            let held = if self.uses_held { index.held(node) } else { None };
            let (len, read) = match held {
                Some(held) => (held.len(), None),
                None => self.read((table, index), source, node, purpose)?,
            };
            self.at_hand = Some(AtHand { node, leaves: start..start + len, read });
        }
        let at_hand = self.at_hand.as_ref().and_then(|at_hand| at_hand.at(index));
        at_hand.ok_or_else(|| malformed(table, index, node))
    }

    /// Reads a node that the table does not hold. Returns its number of leaves, and the block
    /// unless the table holds the node now.
    fn read<S: BlockSource<Block = B>>(
        &self,
        (table, index): (&Table, &TreeIndex),
        source: &S,
        node: usize,
        purpose: Purpose,
    ) -> Result<(usize, Option<B>)> {
        let handle = index.node_handle(node).ok_or_else(|| malformed(table, index, node))?;
        let block = source.block(table, handle)?;
        // Otherwise the numbers of leaves would not be theirs, and some would be passed over.
        let view = block.view();
        if view.len() != index.leaves_of(node) {
            return Err(malformed(table, index, node));
        }
        let wanted = self.uses_held && purpose == Purpose::Lookup;
        let is_held = wanted && table.hold_node(index, node, view);
        Ok((view.len(), (!is_held).then_some(block)))
    }
}

impl<B: BlockHolder> AtHand<B> {
    #[inline]
    fn at<'n>(&'n self, index: &'n TreeIndex) -> Option<Node<'n>> {
        match &self.read {
            Some(block) => Some(Node::Read(block.view())),
            None => index.held(self.node).map(Node::Held),
        }
    }
}

#[inline]
fn handle_in(
    index: &TreeIndex,
    number: usize,
    node: &Node<'_>,
    within: usize,
) -> Option<BlockHandle> {
    match node {
        Node::Held(held) => held.handle(within, index.first_offset(number)),
        Node::Read(block) => index.leaf_handle(number, *block, within),
    }
}

fn separator_within(index: &FlatIndex, at: usize) -> Vec<u8> {
    if at < index.len() { index.separator(at) } else { Vec::new() }
}

#[cold]
fn malformed(table: &Table, index: &TreeIndex, node: usize) -> Error {
    let handle = index.node_handle(node);
    let handle = handle.unwrap_or(BlockHandle { offset: index.leaf_bytes(), len: 0 });
    Error::corruption(
        table.path(),
        handle.offset,
        format!("expected a node of the index, found {} bytes that are none", handle.len),
    )
}
