//! Bulk loading: a tree from many records at once.
//!
//! Recovery has all records of a memtable before the first look-up. To insert them one by one, in
//! whatever order, is one walk down the tree each, through memory in no order, and that is most of
//! its time. So [`BPlusTree::prepare`] only writes records one behind the other and notes their
//! keys' heads, threads then sort parts of the notes and make leaves of them
//! ([`BPlusTree::load_part`]), and [`BPlusTree::join`] puts inner nodes above all leaves. Keys are
//! looked at where heads are equal only.
//!
//! Threads: any may prepare and load parts at once. Nothing of it can be reached before `join`
//! stores the root, which must be the first that the tree gets.
//!
//! Invariants: all keys of a load share the bytes in front of their heads; parts are in ascending
//! order, and no key is in two of them.

use super::node::{Handle, NewEntry, NodeRef};
use super::{BPlusTree, Pending};
use crate::arena::{ArenaFull, Part};
use crate::ordered::record::{self, NewRecord, RecordRef};
use crate::ordered::{NewVersion, head_of};
use crate::sync::Ordering;

/// Of how many places of a node a load leaves one free, so that what comes later does not split
/// every node.
const FREE_PART: usize = 5;

/// Entries with equal heads that are sorted by whole keys, rather than by later heads.
const FEW_EQUAL: usize = 32;

/// How often what follows equal heads is looked at before whole keys are.
const MOST_ROUNDS: usize = 32;

/// A version in the arena that no look-up finds yet.
#[derive(Clone, Copy, Debug)]
pub struct Unlinked {
    /// Eight bytes of the key behind those that all keys of the load share.
    head: u64,
    /// Place in the order in which versions were made.
    order: u64,
    new: NewRecord,
}

impl Unlinked {
    /// What entries of a load are parted by: equal keys have equal heads, and heads sort like keys.
    #[inline]
    #[must_use]
    pub const fn head(&self) -> u64 {
        self.head
    }
}

/// A node of a load, the record of its smallest key, and that one's head.
#[derive(Clone, Copy, Debug)]
struct Child {
    head: u64,
    first: RecordRef,
    node: NodeRef,
}

/// The leaves of one part of a load.
#[derive(Debug, Default)]
pub struct LoadedPart {
    leaves: Vec<Child>,
    keys: u64,
}

impl<const FANOUT: usize> BPlusTree<FANOUT> {
    const LOADED: usize = FANOUT - FANOUT / FREE_PART;

    /// Writes a version that [`BPlusTree::load_part`] or [`BPlusTree::insert_unlinked`] takes.
    /// `skip` is how many bytes all keys of the load share; of equal keys the higher `order` is the
    /// later.
    ///
    /// # Errors
    /// As [`OrderedIndex::insert`](crate::ordered::OrderedIndex::insert).
    #[inline]
    pub fn prepare(
        &self,
        part: &mut Part,
        key: &[u8],
        version: NewVersion<'_>,
        (skip, order): (usize, u64),
    ) -> Result<Unlinked, ArenaFull> {
        let take = |bytes| self.arena.allocate_in(part, bytes);
        let new = record::create_record_in(&self.arena, key, &version, take)?;
        Ok(Unlinked { head: head_of(key, skip), order, new })
    }

    /// The same version, with the head behind `skip` bytes.
    #[inline]
    pub fn with_head(&self, unlinked: &Unlinked, skip: usize) -> Unlinked {
        Unlinked { head: head_of(self.key(unlinked), skip), ..*unlinked }
    }

    /// Whether nothing was inserted yet.
    pub fn is_empty(&self) -> bool {
        self.root().is_none()
    }

    /// Inserts what was prepared, in the way of all other versions.
    ///
    /// # Errors
    /// [`ArenaFull`].
    pub fn insert_unlinked(&self, unlinked: &Unlinked) -> Result<(), ArenaFull> {
        let key = unlinked.new.record.key(&self.arena);
        let version = NewVersion { seq: 0, kind: 0, expires_at: 0, value: &[] };
        self.arena.add_keys(1);
        let mut pending = Pending { key, version, built: Some(unlinked.new) };
        while !self.try_insert(&mut pending, &mut None)? {}
        Ok(())
    }

    /// Sorts entries of a load by key, and equal keys by age; `skip` is what all keys share.
    pub fn sort_unlinked(&self, entries: &mut [Unlinked], skip: usize) {
        entries.sort_unstable_by_key(|entry| (entry.head, entry.order));
        for run in entries.chunk_by_mut(|a, b| a.head == b.head).filter(|run| run.len() > 1) {
            let head = run.first().map_or(0, |entry| entry.head);
            self.sort_equal(run, skip, MOST_ROUNDS);
            run.iter_mut().for_each(|entry| entry.head = head);
        }
    }

    /// Sorts entries with equal heads by their keys, which share `skip` bytes. They are in the
    /// order of their age.
    fn sort_equal(&self, run: &mut [Unlinked], skip: usize, rounds: usize) {
        let Some(first) = run.first().map(|entry| self.key(entry)) else { return };
        let mut shared = first.len();
        let mut all_equal = true;
        for entry in run.iter() {
            let key = self.key(entry);
            let same = first.iter().zip(key).skip(skip).take_while(|(a, b)| a == b).count();
            shared = shared.min(skip + same);
            all_equal &= key == first;
        }
        if all_equal {
            return;
        }
        if run.len() <= FEW_EQUAL || rounds == 0 {
            // Stable: equal keys stay in the order of their age.
            run.sort_by(|a, b| self.key(a).cmp(self.key(b)));
            return;
        }
        for entry in run.iter_mut() {
            entry.head = head_of(self.key(entry), shared);
        }
        run.sort_unstable_by_key(|entry| (entry.head, entry.order));
        for equal in run.chunk_by_mut(|a, b| a.head == b.head).filter(|equal| equal.len() > 1) {
            self.sort_equal(equal, shared, rounds - 1);
        }
    }

    fn key(&self, entry: &Unlinked) -> &[u8] {
        entry.new.record.key(&self.arena)
    }

    /// Makes leaves of the entries of one part of a load, and chains of the versions of a key.
    ///
    /// # Errors
    /// [`ArenaFull`].
    pub fn load_part(
        &self,
        entries: &mut [Unlinked],
        skip: usize,
    ) -> Result<LoadedPart, ArenaFull> {
        self.sort_unlinked(entries, skip);
        let mut leaves: Vec<Child> = Vec::with_capacity(entries.len() / Self::LOADED + 1);
        let mut leaf: Option<Handle<'_, FANOUT>> = None;
        let mut newest: Option<&Unlinked> = None;
        let mut keys = 0;
        for entry in entries.iter() {
            let record = entry.new.record;
            if let Some(before) = newest
                && before.head == entry.head
                && self.key(before) == self.key(entry)
            {
                before.new.record.link(&self.arena, entry.new.version);
                continue;
            }
            newest = Some(entry);
            keys += 1;
            let current = match leaf {
                Some(current) if current.count() < Self::LOADED => current,
                full => {
                    let new = Handle::create(&self.arena, 0)?;
                    new.set_prefix(skip);
                    leaves.push(Child { head: entry.head, first: record, node: new.at });
                    if let Some(full) = full {
                        self.link_leaves(full, new, record);
                        // The first one's fence is not known yet.
                        if full.low().is_some() {
                            full.refit_prefix(false);
                        }
                    }
                    leaf = Some(new);
                    new
                }
            };
            current.append(entry.head, NewEntry { record, child: None });
        }
        Ok(LoadedPart { leaves, keys })
    }

    /// Makes `right`, whose smallest key is that of `first`, the neighbour of `left`.
    fn link_leaves(&self, left: Handle<'_, FANOUT>, right: Handle<'_, FANOUT>, first: RecordRef) {
        left.set_fences(left.low(), Some(first));
        right.set_fences(Some(first), None);
        left.set_next(Some(right.at));
        right.set_prev(left.at);
    }

    /// Makes the tree of the leaves of all parts, which are in order.
    ///
    /// # Errors
    /// [`ArenaFull`], also when the tree was not empty: then it is what it was.
    pub fn join(&self, parts: Vec<LoadedPart>, skip: usize) -> Result<(), ArenaFull> {
        let mut left: Option<Handle<'_, FANOUT>> = None;
        for part in &parts {
            let (Some(first), Some(last)) = (part.leaves.first(), part.leaves.last()) else {
                continue;
            };
            if let Some(left) = left {
                // A part's first leaf may be its last as well, whose right fence is still open.
                let right = Handle::new(&self.arena, first.node);
                let high = right.high();
                self.link_leaves(left, right, first.first);
                right.set_fences(Some(first.first), high);
            }
            left = Some(Handle::new(&self.arena, last.node));
        }
        let Some(tail) = left else { return Ok(()) };
        let edges = |part: &LoadedPart| [part.leaves.first().copied(), part.leaves.last().copied()];
        for leaf in parts.iter().flat_map(edges).flatten() {
            Handle::<FANOUT>::new(&self.arena, leaf.node).refit_prefix(false);
        }
        let keys = parts.iter().map(|part| part.keys).sum();
        let mut level: Vec<Child> = parts.into_iter().flat_map(|part| part.leaves).collect();
        let mut height = 0;
        while level.len() > 1 {
            height += 1;
            level = self.level_above(&level, height, skip)?;
        }
        let Some(root) = level.first() else { return Ok(()) };
        // ORDERING: Release publishes all nodes and records to who finds the root.
        let stored =
            self.root.compare_exchange(0, root.node.raw(), Ordering::Release, Ordering::Relaxed);
        stored.map_err(|_| ArenaFull)?;
        self.arena.add_keys(keys);
        // ORDERING: Release publishes the leaf to `tail_leaf`.
        self.tail.store(tail.at.raw(), Ordering::Release);
        Ok(())
    }

    /// The inner nodes above the nodes of one level.
    fn level_above(
        &self,
        below: &[Child],
        height: u32,
        skip: usize,
    ) -> Result<Vec<Child>, ArenaFull> {
        // Evenly, so that none has a single child.
        let count = below.len().div_ceil(Self::LOADED);
        let mut above: Vec<Child> = Vec::with_capacity(count);
        for place in 0..count {
            let (from, to) = (place * below.len() / count, (place + 1) * below.len() / count);
            let Some([first, others @ ..]) = below.get(from..to) else { continue };
            let node = Handle::<FANOUT>::create(&self.arena, height)?;
            node.set_prefix(skip);
            node.set_first_child(first.node);
            for child in others {
                let entry = NewEntry { record: child.first, child: Some(child.node) };
                node.append(child.head, entry);
            }
            let low = (from > 0).then_some(first.first);
            node.set_fences(low, below.get(to).map(|next| next.first));
            node.refit_prefix(false);
            above.push(Child { node: node.at, ..*first });
        }
        Ok(above)
    }
}
