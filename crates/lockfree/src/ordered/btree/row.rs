//! Rows of inserts: a batch whose keys ascend finds its way down the tree once per leaf.
//!
//! A [`Row`] remembers the leaf that its last key went to. When two keys in a row went to the same
//! one, the next is tried there: between the fences of that leaf it needs no descent, and otherwise
//! it takes the usual way. So keys in no order pay for nothing.
//!
//! Threads: a row belongs to one; the tree may change meanwhile, by other rows as well.
//!
//! Invariant: the remembered leaf is one of the row's tree.

use std::cmp;

use super::node::NodeRef;
use super::{BPlusTree, DEFAULT_FANOUT, Pending, Visit};
use crate::arena::ArenaFull;
use crate::ordered::NewVersion;

/// Inserts of one thread that follow one another.
pub struct Row<'a, const FANOUT: usize = DEFAULT_FANOUT> {
    tree: &'a BPlusTree<FANOUT>,
    /// Where the last key went.
    leaf: Option<NodeRef>,
    /// The one before went there too.
    is_dense: bool,
}

impl<const FANOUT: usize> BPlusTree<FANOUT> {
    /// Begins a row of inserts.
    #[inline]
    #[must_use]
    pub const fn row(&self) -> Row<'_, FANOUT> {
        Row { tree: self, leaf: None, is_dense: false }
    }
}

impl<'a, const FANOUT: usize> Row<'a, FANOUT> {
    /// Inserts a version, like [`OrderedIndex::insert`](crate::ordered::OrderedIndex::insert).
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn insert(&mut self, key: &[u8], version: NewVersion<'_>) -> Result<(), ArenaFull> {
        let mut pending = Pending { key, version, built: None };
        if self.is_dense
            && let Some(leaf) = self.leaf_for(key)
            && self.tree.insert_in_leaf(leaf, None, &mut pending)?
        {
            return Ok(());
        }
        let mut leaf = None;
        while !self.tree.try_insert(&mut pending, &mut leaf)? {}
        self.is_dense = leaf == self.leaf;
        self.leaf = leaf;
        Ok(())
    }

    /// The leaf that the last key went to, if `key` belongs there and there is room.
    ///
    /// The fences are read under the version that the insert takes the latch by (I-268).
    #[inline]
    fn leaf_for(&self, key: &[u8]) -> Option<Visit<'a, FANOUT>> {
        let arena = &self.tree.arena;
        let leaf = Visit::<FANOUT>::begin(arena, self.leaf?);
        if leaf.node.is_full() {
            return None;
        }
        let reaches = |high: &[u8]| high.cmp(key) != cmp::Ordering::Greater;
        if leaf.node.high().is_some_and(|high| reaches(high.key(arena))) {
            return None;
        }
        let begins_behind = |low: &[u8]| low.cmp(key) == cmp::Ordering::Greater;
        if leaf.node.low().is_some_and(|low| begins_behind(low.key(arena))) {
            return None;
        }
        Some(leaf)
    }
}
