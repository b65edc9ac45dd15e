//! The B+tree: the index that memtables use.
//!
//! Nodes (`node`) hold sorted arrays of key heads, so that a search reads a few neighbouring cache
//! lines instead of chasing a pointer per key. Each has a version latch (`latch`): readers take
//! nothing and start over when a node changed under them; writers latch the one leaf they change,
//! and up to three nodes when they split one. Full inner nodes are split on the way down, so a
//! split never has to climb. A new version of a key that exists latches nothing at all.
//!
//! Threads: any number of readers and writers. Latches are taken from parent to child and never
//! waited for: a writer that does not get one starts over. Memory is allocated before latching.
//!
//! Invariants: a leaf's keys lie between its fences and its right neighbour begins where it ends;
//! keys never move to the left; a child is linked in its parent before either latch is released.

use std::cmp;

use super::record::{self, NewRecord, RecordRef};
use super::{NewVersion, OrderedIndex, ValueVersion, Versions};
use crate::arena::{Arena, ArenaFull};
use crate::sync::{AtomicU32, CachePadded, Ordering};

mod bulk;
mod cursor;
mod latch;
mod node;
mod row;
mod split;

pub use bulk::{LoadedPart, Unlinked};
pub use cursor::BPlusTreeCursor;
pub use row::Row;

use latch::Seen;
use node::{Handle, NewEntry, NodeRef};

/// Entries per node: a leaf is 13 cache lines, of which a search touches five or six.
const DEFAULT_FANOUT: usize = 64;

/// Keys of upper nodes to choose from for each part that a tree is cut into.
const SEPARATORS_PER_PART: usize = 8;

/// A concurrent B+tree over an arena. `FANOUT` (at least 3) is there
/// for tests, which want splits after a handful of keys.
pub struct BPlusTree<const FANOUT: usize = DEFAULT_FANOUT> {
    arena: Arena,
    /// The root node; 0 while the tree is empty.
    root: AtomicU32,
    /// Where ascending keys go: the last leaf. Only a hint, checked before use.
    tail: CachePadded<AtomicU32>,
    /// Nodes that were allocated for a split that another thread made first.
    spare_leaf: AtomicU32,
    spare_inner: AtomicU32,
}

/// A node and the version it was read under.
struct Visit<'a, const FANOUT: usize> {
    node: Handle<'a, FANOUT>,
    seen: Seen,
}

impl<const FANOUT: usize> Clone for Visit<'_, FANOUT> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const FANOUT: usize> Copy for Visit<'_, FANOUT> {}

impl<'a, const FANOUT: usize> Visit<'a, FANOUT> {
    #[inline]
    fn begin(arena: &'a Arena, at: NodeRef) -> Self {
        let node = Handle::new(arena, at);
        Self { node, seen: node.latch().begin() }
    }

    #[inline]
    fn unchanged(&self) -> bool {
        self.node.latch().unchanged(self.seen)
    }
}

/// A parent and the index of the child that was taken.
#[derive(Clone, Copy)]
struct Parent<'a, const FANOUT: usize> {
    visit: Visit<'a, FANOUT>,
    index: usize,
}

/// Where a descent ends.
#[derive(Clone, Copy)]
enum Target<'k> {
    First,
    Key(&'k [u8]),
    Last,
}

/// What is inserted; the record is built when it is known to be needed, and once. A record that is
/// built counts as a key of the tree.
struct Pending<'k> {
    key: &'k [u8],
    version: NewVersion<'k>,
    built: Option<NewRecord>,
}

impl Pending<'_> {
    fn record(&mut self, arena: &Arena) -> Result<RecordRef, ArenaFull> {
        if let Some(new) = self.built {
            return Ok(new.record);
        }
        let new = record::create_record(arena, self.key, &self.version)?;
        arena.add_keys(1);
        self.built = Some(new);
        Ok(new.record)
    }

    fn link_to(&self, arena: &Arena, existing: RecordRef) -> Result<(), ArenaFull> {
        let version = match self.built {
            Some(new) => {
                // Another thread was first.
                arena.remove_key();
                new.version
            }
            None => record::create_version(arena, &self.version)?,
        };
        existing.link(arena, version);
        Ok(())
    }
}

impl<const FANOUT: usize> BPlusTree<FANOUT> {
    #[inline]
    fn root(&self) -> Option<NodeRef> {
        // ORDERING: Acquire pairs with the Release that installed the root: the node is filled.
        NodeRef::from_raw(self.root.load(Ordering::Acquire))
    }

    /// The root under a version at which it was the root. None: another thread just split it.
    #[inline]
    fn visit_root(&self, at: NodeRef) -> Option<Visit<'_, FANOUT>> {
        let visit = Visit::begin(&self.arena, at);
        // Only a split of the root itself, which changes its version, makes another node the root.
        (self.root() == Some(at)).then_some(visit)
    }

    /// The leaf for `target`, or none if the tree is empty. Starts over until it gets through.
    #[inline]
    fn descend(&self, target: Target<'_>) -> Option<Visit<'_, FANOUT>> {
        loop {
            if let Some(leaf) = self.try_descend(self.root()?, target) {
                return Some(leaf);
            }
        }
    }

    #[inline]
    fn try_descend(&self, root: NodeRef, target: Target<'_>) -> Option<Visit<'_, FANOUT>> {
        let mut visit = self.visit_root(root)?;
        while visit.node.level() > 0 {
            let index = match target {
                Target::First => 0,
                Target::Key(key) => visit.node.child_index(key),
                Target::Last => visit.node.count(),
            };
            visit = self.step_down(&visit, index)?;
        }
        Some(visit)
    }

    /// The child at `index`, under a version at which it was that child.
    #[inline]
    fn step_down(&self, parent: &Visit<'_, FANOUT>, index: usize) -> Option<Visit<'_, FANOUT>> {
        let Some(at) = parent.node.child(index) else {
            // A mix of two states. Asking whether it changed orders the next attempt after what
            // was seen of the newer one; without it nothing would keep that attempt from the same.
            parent.unchanged();
            return None;
        };
        Handle::<FANOUT>::prefetch(&self.arena, at);
        let child = Visit::begin(&self.arena, at);
        parent.unchanged().then_some(child)
    }

    fn find(&self, key: &[u8]) -> Option<RecordRef> {
        loop {
            let leaf = self.descend(Target::Key(key))?;
            // A record with this key is the key's only one, whatever has changed in the leaf.
            if let (_, Some(record)) = leaf.node.search(key) {
                return Some(record);
            }
            if leaf.unchanged() {
                return None;
            }
        }
    }

    /// One attempt to insert, which notes the leaf. False: something changed meanwhile, try again.
    fn try_insert(
        &self,
        pending: &mut Pending<'_>,
        noted: &mut Option<NodeRef>,
    ) -> Result<bool, ArenaFull> {
        let Some(root) = self.root() else {
            self.plant()?;
            return Ok(false);
        };
        if let Some(leaf) = self.tail_leaf(pending.key) {
            *noted = Some(leaf.node.at);
            return self.insert_in_leaf(leaf, None, pending);
        }
        let Some(mut visit) = self.visit_root(root) else { return Ok(false) };
        let mut parent: Option<Parent<'_, FANOUT>> = None;
        while visit.node.level() > 0 {
            let index = visit.node.child_index(pending.key);
            if visit.node.is_full() {
                // Split before it is needed, so that there is room when a child splits.
                self.split_inner(visit, parent, index)?;
                return Ok(false);
            }
            let Some(child) = self.step_down(&visit, index) else { return Ok(false) };
            parent = Some(Parent { visit, index });
            visit = child;
        }
        *noted = Some(visit.node.at);
        self.insert_in_leaf(visit, parent, pending)
    }

    /// How many keys there are: all whose inserts have returned, and some that are under way. An
    /// insert that found no memory may have left one too many.
    #[inline]
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.arena.keys()
    }

    /// Keys that cut the tree into about `parts` parts of about equal size, ascending; fewer when
    /// it is small. They are keys of upper nodes, so this costs no more than a few descents. While
    /// the tree grows they may be any of its keys.
    pub fn keys_between(&self, parts: usize) -> Vec<&[u8]> {
        let Some(root) = self.root().filter(|_| parts > 1) else { return Vec::new() };
        let root = Handle::new(&self.arena, root);
        let mut keys = Vec::new();
        // Nodes at the right edge may be nearly empty, so a few keys for each part.
        for lowest in (1..=root.level()).rev() {
            keys.clear();
            self.separators(root, lowest, &mut keys);
            if keys.len() / SEPARATORS_PER_PART >= parts {
                break;
            }
        }
        let parts = parts.min(keys.len() + 1);
        (1..parts).filter_map(|part| keys.get(part * keys.len() / parts).copied()).collect()
    }

    /// The keys of a node and of those below it, in order, down to the level `lowest`.
    fn separators<'a>(&'a self, node: Handle<'a, FANOUT>, lowest: u32, keys: &mut Vec<&'a [u8]>) {
        for index in 0..=node.count() {
            if node.level() > lowest
                && let Some(child) = node.child(index)
            {
                self.separators(Handle::new(&self.arena, child), lowest, keys);
            }
            if index < node.count()
                && let Some(record) = node.record(index)
            {
                keys.push(record.key(&self.arena));
            }
        }
    }

    fn insert_in_leaf(
        &self,
        leaf: Visit<'_, FANOUT>,
        parent: Option<Parent<'_, FANOUT>>,
        pending: &mut Pending<'_>,
    ) -> Result<bool, ArenaFull> {
        let (at, found) = leaf.node.search(pending.key);
        if let Some(existing) = found {
            pending.link_to(&self.arena, existing)?;
            return Ok(true);
        }
        let record = pending.record(&self.arena)?;
        if leaf.node.is_full() {
            return self.split_leaf(leaf, parent, split::LeafEntry { record, at });
        }
        let Some(locked) = leaf.node.latch().try_lock(leaf.seen) else { return Ok(false) };
        leaf.node.insert_at(at, NewEntry { record, child: None });
        locked.unlock();
        Ok(true)
    }

    /// The last leaf, if `key` belongs there and there is room: saves ascending keys the descent.
    #[inline]
    fn tail_leaf(&self, key: &[u8]) -> Option<Visit<'_, FANOUT>> {
        // ORDERING: Acquire pairs with the Release that set the hint.
        let at = NodeRef::from_raw(self.tail.load(Ordering::Acquire))?;
        let leaf = Visit::begin(&self.arena, at);
        if leaf.node.high().is_some() || leaf.node.is_full() {
            return None;
        }
        match leaf.node.low() {
            Some(low) if low.key(&self.arena).cmp(key) == cmp::Ordering::Greater => None,
            _ => Some(leaf),
        }
    }

    /// Gives the empty tree its first leaf.
    #[cold]
    fn plant(&self) -> Result<(), ArenaFull> {
        let leaf = self.take_spare(0)?;
        // ORDERING: Release publishes the leaf; a failure reads nothing.
        let raced =
            self.root.compare_exchange(0, leaf.at.raw(), Ordering::Release, Ordering::Relaxed);
        match raced {
            Ok(_) => self.tail.store(leaf.at.raw(), Ordering::Release),
            Err(_) => self.put_spare(leaf),
        }
        Ok(())
    }
}

impl<const FANOUT: usize> OrderedIndex for BPlusTree<FANOUT> {
    type Cursor<'a> = BPlusTreeCursor<'a, FANOUT>;

    fn with_arena(arena: Arena) -> Self {
        const { assert!(FANOUT >= 3, "a split must leave entries on both sides") };
        Self {
            arena,
            root: AtomicU32::new(0),
            tail: CachePadded(AtomicU32::new(0)),
            spare_leaf: AtomicU32::new(0),
            spare_inner: AtomicU32::new(0),
        }
    }

    fn insert(&self, key: &[u8], version: NewVersion<'_>) -> Result<(), ArenaFull> {
        let mut pending = Pending { key, version, built: None };
        while !self.try_insert(&mut pending, &mut None)? {}
        Ok(())
    }

    #[inline]
    fn get(&self, key: &[u8], snapshot: u64) -> Option<ValueVersion<'_>> {
        self.find(key)?.versions(&self.arena).at(snapshot)
    }

    fn versions(&self, key: &[u8]) -> Versions<'_> {
        self.find(key).map_or_else(Versions::none, |record| record.versions(&self.arena))
    }

    fn cursor(&self) -> BPlusTreeCursor<'_, FANOUT> {
        BPlusTreeCursor::new(self)
    }

    fn arena(&self) -> &Arena {
        &self.arena
    }
}
