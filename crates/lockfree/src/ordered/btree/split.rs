//! Splits: how the B+tree grows.
//!
//! A split moves the upper part of a full node to a new right neighbour and enters that in the
//! parent, which has room because full inner nodes are split on the way down. When a key goes to
//! the very end of its leaf, the leaf stays full and the key opens the new one: ascending keys,
//! anywhere in the tree, fill their leaves completely.
//!
//! Threads: the caller latches parent, then node, by the versions it read them under; if either
//! has changed, nothing is done. The new node is reachable only when it is complete.
//!
//! Invariants: keys move to the right only; the left neighbour of a node either is its `prev` or is
//! reached from `prev` through `next` links.

use super::latch::Locked;
use super::node::{Handle, NewEntry, NodeRef};
use super::{BPlusTree, Parent, Visit};
use crate::arena::ArenaFull;
use crate::ordered::record::RecordRef;
use crate::sync::{AtomicU32, Ordering};

/// A record on its way into a full leaf, and its place there.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeafEntry {
    pub(super) record: RecordRef,
    pub(super) at: usize,
}

/// The latches and new nodes of one split.
struct Split<'a, const FANOUT: usize> {
    parent: Option<(Parent<'a, FANOUT>, Locked<'a>)>,
    node: Handle<'a, FANOUT>,
    locked: Locked<'a>,
    right: Handle<'a, FANOUT>,
    new_root: Option<Handle<'a, FANOUT>>,
}

impl<const FANOUT: usize> BPlusTree<FANOUT> {
    /// Splits a full leaf and inserts the entry. False: nothing done, something has changed.
    pub(super) fn split_leaf<'a>(
        &'a self,
        leaf: Visit<'a, FANOUT>,
        parent: Option<Parent<'a, FANOUT>>,
        entry: LeafEntry,
    ) -> Result<bool, ArenaFull> {
        let Some(split) = self.start_split(leaf, parent)? else { return Ok(false) };
        let (left, right) = (split.node, split.right);
        let count = left.count();
        let (was_open, old_next) = (left.is_open(), left.next());
        let from = match entry.at {
            0 => 1,
            at if at == count => count,
            _ => count / 2,
        };
        let separator = left.record(from).filter(|_| from < count).unwrap_or(entry.record);
        left.move_tail(from, right);
        right.set_fences(Some(separator), left.high());
        left.set_fences(left.low(), Some(separator));
        right.set_next(old_next);
        right.set_prev(left.at);
        left.refit_prefix(was_open);
        right.refit_prefix(was_open);
        let new = NewEntry { record: entry.record, child: None };
        if entry.at > from || from == count {
            right.insert_at(entry.at - from, new);
        } else {
            left.insert_at(entry.at, new);
        }
        left.set_next(Some(right.at));
        match old_next {
            // The right neighbour's own latch does not guard `prev`: only this leaf's holder
            // writes it. From here on the new leaf is reachable, and it is complete.
            Some(next) => Handle::<FANOUT>::new(&self.arena, next).set_prev(right.at),
            // ORDERING: Release publishes the new leaf to `tail_leaf`.
            None => self.tail.store(right.at.raw(), Ordering::Release),
        }
        self.finish_split(split, separator);
        Ok(true)
    }

    /// Splits a full inner node, whose child at `index` is about to be entered, if it still can.
    pub(super) fn split_inner<'a>(
        &'a self,
        inner: Visit<'a, FANOUT>,
        parent: Option<Parent<'a, FANOUT>>,
        index: usize,
    ) -> Result<(), ArenaFull> {
        let Some(split) = self.start_split(inner, parent)? else { return Ok(()) };
        let (left, right) = (split.node, split.right);
        let (count, was_open) = (left.count(), left.is_open());
        let up = if index == count { count - 2 } else { count / 2 };
        left.move_tail(up + 1, right);
        let Some(NewEntry { record: separator, child: Some(first_child) }) = left.pop() else {
            // Not reachable: a latched inner node has a child for each of its entries.
            debug_assert!(false, "inner node without children");
            return Ok(());
        };
        right.set_first_child(first_child);
        right.set_fences(Some(separator), left.high());
        left.set_fences(left.low(), Some(separator));
        left.refit_prefix(was_open);
        right.refit_prefix(was_open);
        self.finish_split(split, separator);
        Ok(())
    }

    /// Allocates, then latches. None: something has changed since the nodes were read.
    fn start_split<'a>(
        &'a self,
        visit: Visit<'a, FANOUT>,
        parent: Option<Parent<'a, FANOUT>>,
    ) -> Result<Option<Split<'a, FANOUT>>, ArenaFull> {
        let node = visit.node;
        let level = node.level();
        if parent.is_none() && self.root() != Some(node.at) {
            return Ok(None);
        }
        let right = self.take_spare(level)?;
        let new_root = match parent {
            Some(_) => None,
            None => Some(Handle::create(&self.arena, level + 1)?),
        };
        let parent_locked = match parent {
            Some(parent) => match parent.visit.node.latch().try_lock(parent.visit.seen) {
                Some(locked) => Some((parent, locked)),
                None => {
                    self.put_spare(right);
                    return Ok(None);
                }
            },
            None => None,
        };
        let Some(locked) = node.latch().try_lock(visit.seen) else {
            self.put_spare(right);
            if let Some(root) = new_root {
                self.put_spare(root);
            }
            return Ok(None);
        };
        Ok(Some(Split { parent: parent_locked, node, locked, right, new_root }))
    }

    /// Enters the new node in the parent, or in a new root, and lets go.
    fn finish_split(&self, split: Split<'_, FANOUT>, separator: RecordRef) {
        let entry = NewEntry { record: separator, child: Some(split.right.at) };
        if let Some((parent, parent_locked)) = split.parent {
            parent.visit.node.insert_at(parent.index, entry);
            split.locked.unlock();
            parent_locked.unlock();
        } else if let Some(root) = split.new_root {
            root.set_first_child(split.node.at);
            root.insert_at(0, entry);
            // ORDERING: Release publishes the new root. Stored under the old root's latch, so that
            // who reads the old root's new version finds that it is no longer the root.
            self.root.store(root.at.raw(), Ordering::Release);
            split.locked.unlock();
        }
    }

    fn spare_slot(&self, level: u32) -> &AtomicU32 {
        if level == 0 { &self.spare_leaf } else { &self.spare_inner }
    }

    /// An empty node: one left over from a lost race, or a new one.
    pub(super) fn take_spare(&self, level: u32) -> Result<Handle<'_, FANOUT>, ArenaFull> {
        // A spare inner node carries its level, so only the lowest ones are kept.
        if level <= 1 {
            let slot = self.spare_slot(level);
            // ORDERING: Acquire pairs with the Release in `put_spare`: the node is filled. The
            // plain load first spares the common case, an empty slot, the exchange.
            if slot.load(Ordering::Relaxed) != 0
                && let Some(at) = NodeRef::from_raw(slot.swap(0, Ordering::Acquire))
            {
                return Ok(Handle::new(&self.arena, at));
            }
        }
        Handle::create(&self.arena, level)
    }

    /// Keeps an unused node for the next split. A second one at the same time is wasted.
    pub(super) fn put_spare(&self, node: Handle<'_, FANOUT>) {
        if node.level() <= 1 {
            // ORDERING: Release pairs with the Acquire in `take_spare`.
            self.spare_slot(node.level()).store(node.at.raw(), Ordering::Release);
        }
    }
}
