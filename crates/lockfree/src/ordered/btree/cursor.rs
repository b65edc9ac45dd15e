//! The B+tree's cursor.
//!
//! A cursor copies the record links of a leaf in one confirmed read and walks the copy, so it is
//! never disturbed by writers and touches the tree once per leaf. Going forward follows `next`.
//! Going backward follows `prev`, which may name a leaf that has been split since; the true left
//! neighbour is then to its right. Records of the entries ahead are fetched into the cache early:
//! they lie in the arena in the order of insertion, so each is a cache miss of its own.
//!
//! Threads: the cursor itself belongs to one; the tree may change meanwhile.
//!
//! Invariant: the copy is the leaf as it was at one moment at or after the positioning call.

use super::node::NodeRef;
use super::{BPlusTree, Target, Visit};
use crate::ordered::record::RecordRef;
use crate::ordered::{Cursor, OrderedIndex, Versions};

/// How many entries ahead records are fetched: about what one core keeps under way.
const PREFETCH_DISTANCE: usize = 6;

/// A cursor over a [`BPlusTree`].
pub struct BPlusTreeCursor<'a, const FANOUT: usize> {
    tree: &'a BPlusTree<FANOUT>,
    /// The leaf that `records` was copied from; none before the first positioning.
    leaf: Option<NodeRef>,
    next: Option<NodeRef>,
    prev: Option<NodeRef>,
    /// Where the cursor is; not valid when `at` is not below `count`.
    at: usize,
    count: usize,
    records: [Option<RecordRef>; FANOUT],
}

impl<'a, const FANOUT: usize> BPlusTreeCursor<'a, FANOUT> {
    pub(super) fn new(tree: &'a BPlusTree<FANOUT>) -> Self {
        let records = [None; FANOUT];
        Self { tree, leaf: None, next: None, prev: None, at: 0, count: 0, records }
    }

    /// Copies a leaf. False: it changed meanwhile, and the copy means nothing.
    fn copy(&mut self, visit: &Visit<'_, FANOUT>) -> bool {
        let node = visit.node;
        self.count = node.count();
        for (index, record) in self.records.iter_mut().enumerate().take(self.count) {
            *record = node.record(index);
        }
        self.next = node.next();
        self.prev = node.prev();
        self.leaf = Some(node.at);
        visit.unchanged()
    }

    /// Copies the leaf as it is now, however often that takes.
    fn load(&mut self, at: NodeRef) {
        loop {
            let visit = Visit::begin(&self.tree.arena, at);
            if self.copy(&visit) {
                return;
            }
        }
    }

    /// Copies the leaf for `target` and returns where the key is or would be, and whether it is
    /// there. False and an invalid cursor if the tree is empty.
    fn position(&mut self, target: Target<'_>) -> (usize, bool) {
        loop {
            let Some(visit) = self.tree.descend(target) else {
                self.invalidate();
                return (0, false);
            };
            let (at, found) = match target {
                Target::First => (0, None),
                Target::Key(key) => visit.node.search(key),
                Target::Last => (visit.node.count(), None),
            };
            if self.copy(&visit) {
                return (at, found.is_some());
            }
        }
    }

    fn invalidate(&mut self) {
        self.leaf = None;
        self.count = 0;
        self.at = 0;
    }

    /// Settles at entry `at`, or at the first one of the leaves to the right.
    fn settle_forward(&mut self, at: usize) {
        self.at = at;
        while self.at >= self.count {
            let Some(next) = self.next.filter(|_| self.leaf.is_some()) else {
                return self.invalidate();
            };
            self.load(next);
            self.at = 0;
        }
        for index in self.at..(self.at + PREFETCH_DISTANCE).min(self.count) {
            self.prefetch(index);
        }
        if let Some(next) = self.next {
            super::Handle::<FANOUT>::prefetch(&self.tree.arena, next);
        }
    }

    /// Settles at the entry before `end`, or at the last one of the leaves to the left.
    fn settle_backward(&mut self, end: usize) {
        let mut end = end;
        while end == 0 {
            let (Some(leaf), Some(prev)) = (self.leaf, self.prev) else {
                return self.invalidate();
            };
            self.load(prev);
            // A leaf that was split since it was noted is not the neighbour any more; the one
            // that is lies between the two. Nothing is removed, so the walk ends at `leaf`.
            while let Some(next) = self.next.filter(|next| *next != leaf) {
                self.load(next);
            }
            end = self.count;
        }
        self.at = end - 1;
        for index in end.saturating_sub(PREFETCH_DISTANCE)..end {
            self.prefetch(index);
        }
    }

    #[inline]
    fn prefetch(&self, index: usize) {
        if let Some(Some(record)) = self.records.get(index) {
            record.prefetch(&self.tree.arena);
        }
    }

    #[inline]
    fn record(&self) -> Option<RecordRef> {
        if self.at >= self.count {
            return None;
        }
        *self.records.get(self.at)?
    }
}

impl<'a, const FANOUT: usize> Cursor<'a> for BPlusTreeCursor<'a, FANOUT> {
    fn seek(&mut self, key: &[u8]) {
        let (at, _) = self.position(Target::Key(key));
        self.settle_forward(at);
    }

    fn seek_for_prev(&mut self, key: &[u8]) {
        let (at, found) = self.position(Target::Key(key));
        self.settle_backward(at + usize::from(found));
    }

    fn seek_to_first(&mut self) {
        let (at, _) = self.position(Target::First);
        self.settle_forward(at);
    }

    fn seek_to_last(&mut self) {
        let (end, _) = self.position(Target::Last);
        self.settle_backward(end);
    }

    #[inline]
    fn next(&mut self) {
        if self.at + 1 < self.count {
            self.at += 1;
            self.prefetch(self.at + PREFETCH_DISTANCE);
        } else if self.valid() {
            self.settle_forward(self.at + 1);
        }
    }

    #[inline]
    fn prev(&mut self) {
        if !self.valid() {
            return;
        }
        if self.at > 0 {
            self.at -= 1;
            if let Some(ahead) = self.at.checked_sub(PREFETCH_DISTANCE) {
                self.prefetch(ahead);
            }
        } else {
            self.settle_backward(0);
        }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.at < self.count
    }

    #[inline]
    fn key(&self) -> &'a [u8] {
        let tree: &'a BPlusTree<FANOUT> = self.tree;
        self.record().map_or(&[], |record| record.key(tree.arena()))
    }

    #[inline]
    fn versions(&self) -> Versions<'a> {
        let tree: &'a BPlusTree<FANOUT> = self.tree;
        self.record().map_or_else(Versions::none, |record| record.versions(tree.arena()))
    }
}
