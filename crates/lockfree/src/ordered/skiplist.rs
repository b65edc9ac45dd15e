//! The skip list: the simple index, kept as a reference for tests and measurements.
//!
//! A node is a tower of forward links with its key's first eight bytes beside it, so that most
//! steps compare without following a link to the record. Insertion links the lowest level by one
//! compare-and-swap, which is the moment the key exists, then the levels above, which only speed
//! searches up. There are no backward links: going back searches for the predecessor.
//!
//! Threads: any number of readers and writers, all lock-free.
//!
//! Invariants: the list at each level is sorted and a sub-list of the one below; a node that is
//! reachable is filled; nodes are never removed.

#![expect(unsafe_code, reason = "lays nodes out in raw arena memory")]

use super::record::{self, NewRecord, RecordRef};
use super::{Cursor, NewVersion, OrderedIndex, PUBLISH, ValueVersion, Versions, head_of};
use crate::arena::{Arena, ArenaFull, Offset};
use crate::prefetch::prefetch_address;
use crate::sync::{AtomicU32, Ordering};

const MAX_HEIGHT: usize = 12;

#[repr(C)]
struct NodeHeader {
    head: u64,
    record: RecordRef,
    height: u32,
}

/// Names a node of one list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeRef(Offset);

impl NodeRef {
    #[inline]
    fn header(self, arena: &Arena) -> &NodeHeader {
        let address = arena.resolve(self.0).cast::<NodeHeader>();
        // SAFETY: links name nodes of this arena that were filled before they were linked.
        unsafe { &*address }
    }

    /// The link at `level`, which must be below the node's height.
    #[inline]
    fn link(self, arena: &Arena, level: usize) -> &AtomicU32 {
        let at = size_of::<NodeHeader>() + level * size_of::<AtomicU32>();
        let address = arena.resolve(self.0).wrapping_add(at).cast::<AtomicU32>();
        // SAFETY: a node met at a level has a link there, written before the node was linked.
        unsafe { &*address }
    }
}

/// A position at all levels: the last node before a key (none: the list's head), and what followed.
struct Path {
    before: [Option<NodeRef>; MAX_HEIGHT],
    after: [u32; MAX_HEIGHT],
}

/// A concurrent skip list over an arena.
pub struct SkipList {
    arena: Arena,
    head: [AtomicU32; MAX_HEIGHT],
}

impl SkipList {
    fn link(&self, node: Option<NodeRef>, level: usize) -> &AtomicU32 {
        match node {
            Some(node) => node.link(&self.arena, level),
            None => &self.head[level],
        }
    }

    /// ORDERING: Acquire pairs with the Release that linked the node: it is filled.
    #[inline]
    fn next_at(&self, node: Option<NodeRef>, level: usize) -> Option<NodeRef> {
        Offset::from_raw(self.link(node, level).load(Ordering::Acquire)).map(NodeRef)
    }

    #[inline]
    fn compare(&self, node: NodeRef, key: &[u8], head: u64) -> std::cmp::Ordering {
        let header = node.header(&self.arena);
        header.head.cmp(&head).then_with(|| header.record.key(&self.arena).cmp(key))
    }

    /// The last node before `key`, and the node that follows it.
    fn search(&self, key: &[u8]) -> (Option<NodeRef>, Option<NodeRef>) {
        let head = head_of(key, 0);
        let mut before = None;
        let mut after = None;
        for level in (0..MAX_HEIGHT).rev() {
            after = self.next_at(before, level);
            while let Some(node) = after {
                if level > 0 {
                    prefetch_address(self.arena.resolve(node.0));
                }
                if self.compare(node, key, head).is_ge() {
                    break;
                }
                before = after;
                after = self.next_at(before, level);
            }
        }
        (before, after)
    }

    /// Like `search` at every level; the record if the key is there.
    fn search_path(&self, key: &[u8]) -> (Path, Option<RecordRef>) {
        let head = head_of(key, 0);
        let mut path = Path { before: [None; MAX_HEIGHT], after: [0; MAX_HEIGHT] };
        let mut before = None;
        for level in (0..MAX_HEIGHT).rev() {
            let mut after = self.next_at(before, level);
            while let Some(node) = after {
                match self.compare(node, key, head) {
                    std::cmp::Ordering::Less => {}
                    std::cmp::Ordering::Equal => {
                        return (path, Some(node.header(&self.arena).record));
                    }
                    std::cmp::Ordering::Greater => break,
                }
                before = after;
                after = self.next_at(before, level);
            }
            path.before[level] = before;
            path.after[level] = after.map_or(0, |node| node.0.raw());
        }
        (path, None)
    }

    fn find(&self, key: &[u8]) -> Option<RecordRef> {
        let (_, after) = self.search(key);
        let record = after?.header(&self.arena).record;
        (record.key(&self.arena) == key).then_some(record)
    }

    fn last(&self) -> Option<NodeRef> {
        let mut last = None;
        for level in (0..MAX_HEIGHT).rev() {
            while let Some(node) = self.next_at(last, level) {
                last = Some(node);
            }
        }
        last
    }

    fn create_node(&self, key: &[u8], new: NewRecord) -> Result<NodeRef, ArenaFull> {
        let height = height_for(new.record.raw());
        let bytes = size_of::<NodeHeader>() + height * size_of::<AtomicU32>();
        let node = NodeRef(self.arena.allocate(bytes)?);
        let header =
            NodeHeader { head: head_of(key, 0), record: new.record, height: height as u32 };
        let base = self.arena.resolve(node.0);
        // SAFETY: freshly allocated for this header and aligned to a unit.
        unsafe { base.cast::<NodeHeader>().write(header) };
        for level in 0..height {
            let at = size_of::<NodeHeader>() + level * size_of::<AtomicU32>();
            let link = base.wrapping_add(at).cast::<AtomicU32>();
            // SAFETY: the allocation has `height` links behind the header.
            unsafe { link.write(AtomicU32::new(0)) };
        }
        Ok(node)
    }

    /// Links the node at one level. False when the place has changed since the path was taken.
    fn link_at(&self, node: NodeRef, path: &Path, level: usize) -> bool {
        let after = path.after[level];
        // ORDERING: Relaxed, published by the exchange.
        node.link(&self.arena, level).store(after, Ordering::Relaxed);
        let link = self.link(path.before[level], level);
        // ORDERING: PUBLISH (Release) publishes the node and its record; a failure reads nothing.
        link.compare_exchange(after, node.0.raw(), PUBLISH, Ordering::Relaxed).is_ok()
    }

    /// Links the levels above the lowest.
    fn link_upper(&self, node: NodeRef, key: &[u8], path: &mut Path) {
        let head = head_of(key, 0);
        for level in 1..node.header(&self.arena).height as usize {
            while !self.link_at(node, path, level) {
                let mut before = path.before[level];
                let mut after = self.next_at(before, level);
                while let Some(next) = after
                    && self.compare(next, key, head).is_lt()
                {
                    before = after;
                    after = self.next_at(before, level);
                }
                path.before[level] = before;
                path.after[level] = after.map_or(0, |next| next.0.raw());
            }
        }
    }
}

/// A height with the odds of a quarter per level, from a hash of the record's place: as good as
/// random, without shared state, and the same in every run.
fn height_for(raw: u32) -> usize {
    let mixed = (u64::from(raw) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let zeros = (mixed ^ (mixed >> 32)).trailing_zeros() as usize;
    (1 + zeros / 2).min(MAX_HEIGHT)
}

impl OrderedIndex for SkipList {
    type Cursor<'a> = SkipListCursor<'a>;

    fn with_arena(arena: Arena) -> Self {
        Self { arena, head: std::array::from_fn(|_| AtomicU32::new(0)) }
    }

    fn insert(&self, key: &[u8], version: NewVersion<'_>) -> Result<(), ArenaFull> {
        let mut prepared: Option<(NewRecord, NodeRef)> = None;
        loop {
            let (mut path, found) = self.search_path(key);
            if let Some(existing) = found {
                let version = match prepared {
                    Some((new, _)) => new.version,
                    None => record::create_version(&self.arena, &version)?,
                };
                existing.link(&self.arena, version);
                return Ok(());
            }
            let (_, node) = match prepared {
                Some(ready) => ready,
                None => {
                    let new = record::create_record(&self.arena, key, &version)?;
                    *prepared.insert((new, self.create_node(key, new)?))
                }
            };
            if self.link_at(node, &path, 0) {
                self.link_upper(node, key, &mut path);
                return Ok(());
            }
        }
    }

    fn get(&self, key: &[u8], snapshot: u64) -> Option<ValueVersion<'_>> {
        self.find(key)?.versions(&self.arena).at(snapshot)
    }

    fn versions(&self, key: &[u8]) -> Versions<'_> {
        self.find(key).map_or_else(Versions::none, |record| record.versions(&self.arena))
    }

    fn cursor(&self) -> SkipListCursor<'_> {
        SkipListCursor { list: self, at: None }
    }

    fn arena(&self) -> &Arena {
        &self.arena
    }
}

/// A cursor over a [`SkipList`].
pub struct SkipListCursor<'a> {
    list: &'a SkipList,
    at: Option<NodeRef>,
}

impl SkipListCursor<'_> {
    fn record(&self) -> Option<RecordRef> {
        Some(self.at?.header(&self.list.arena).record)
    }
}

impl<'a> Cursor<'a> for SkipListCursor<'a> {
    fn seek(&mut self, key: &[u8]) {
        self.at = self.list.search(key).1;
    }

    fn seek_for_prev(&mut self, key: &[u8]) {
        let (before, after) = self.list.search(key);
        let exact =
            after.filter(|node| node.header(&self.list.arena).record.key(&self.list.arena) == key);
        self.at = exact.or(before);
    }

    fn seek_to_first(&mut self) {
        self.at = self.list.next_at(None, 0);
    }

    fn seek_to_last(&mut self) {
        self.at = self.list.last();
    }

    fn next(&mut self) {
        if let Some(node) = self.at {
            self.at = self.list.next_at(Some(node), 0);
        }
    }

    fn prev(&mut self) {
        if let Some(record) = self.record() {
            self.at = self.list.search(record.key(&self.list.arena)).0;
        }
    }

    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn key(&self) -> &'a [u8] {
        self.record().map_or(&[], |record| record.key(&self.list.arena))
    }

    fn versions(&self) -> Versions<'a> {
        let arena = &self.list.arena;
        self.record().map_or_else(Versions::none, |record| record.versions(arena))
    }
}
