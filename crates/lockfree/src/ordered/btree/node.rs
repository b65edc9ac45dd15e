//! Nodes of the B+tree: layout, search within a node, and changes under its latch.
//!
//! A node holds up to `FANOUT` entries in two parallel arrays: heads (eight bytes of the key, as
//! big-endian numbers) and record links (32 bits); an inner node has a third one with children.
//! A search touches heads only and looks at a record when heads are equal. Heads start behind the
//! bytes that all keys of the node share, so that long common prefixes do not make them equal.
//!
//! Whether the prefix needs a look: a node between two fences ("closed") only ever meets keys
//! between them, and the prefix is no longer than what the fences share. A node at the edge of the
//! tree ("open") takes its prefix from its content and compares it first.
//!
//! Threads: reads happen at any time, so every field that changes is an atomic and every result is
//! provisional until the latch confirms it; a mix of states may give a wrong answer, never a bad
//! access. Changes happen under the latch or before the node is reachable.
//!
//! Invariants: entries are sorted; links hold zero or something valid at all times; `low` never
//! changes, `high` only comes down; records and nodes never go away.

#![expect(unsafe_code, reason = "lays nodes out in raw arena memory")]

use std::cmp;
use std::hint::select_unpredictable;
use std::ops::Deref;
use std::ptr;

use super::latch::Latch;
use crate::arena::{Arena, ArenaFull, Offset};
use crate::ordered::record::RecordRef;
use crate::ordered::{PUBLISH, head_of};
use crate::prefetch::prefetch_address;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Names a node of one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeRef(Offset);

impl NodeRef {
    #[inline]
    pub(super) fn from_raw(raw: u32) -> Option<Self> {
        Offset::from_raw(raw).map(Self)
    }

    #[inline]
    pub(super) fn raw(self) -> u32 {
        self.0.raw()
    }
}

/// Everything but the arrays; a cache line of its own.
#[repr(C, align(64))]
struct Header {
    latch: Latch,
    /// Distance from the leaves; never changes.
    level: u32,
    count: AtomicU32,
    prefix_bytes: AtomicU32,
    /// Record of the smallest key that may be here; 0: no bound.
    low: AtomicU32,
    /// Record of the smallest key that may no longer be here; 0: no bound.
    high: AtomicU32,
    /// Right neighbour (leaves).
    next: AtomicU32,
    /// Left neighbour, or a node to the left of it that was it once (leaves).
    prev: AtomicU32,
    /// Child for keys below the first entry (inner nodes).
    first_child: AtomicU32,
}

/// What leaves and inner nodes have in common, and all that leaves have.
#[repr(C)]
pub(super) struct Node<const FANOUT: usize> {
    header: Header,
    heads: [AtomicU64; FANOUT],
    records: [AtomicU32; FANOUT],
}

#[repr(C)]
struct InnerNode<const FANOUT: usize> {
    node: Node<FANOUT>,
    /// Child for keys from the entry of the same index on.
    children: [AtomicU32; FANOUT],
}

/// A node together with its tree's arena.
pub(super) struct Handle<'a, const FANOUT: usize> {
    pub(super) arena: &'a Arena,
    pub(super) at: NodeRef,
    node: &'a Node<FANOUT>,
}

impl<const FANOUT: usize> Clone for Handle<'_, FANOUT> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<const FANOUT: usize> Copy for Handle<'_, FANOUT> {}

impl<const FANOUT: usize> Deref for Handle<'_, FANOUT> {
    type Target = Node<FANOUT>;

    #[inline]
    fn deref(&self) -> &Node<FANOUT> {
        self.node
    }
}

/// An entry to insert: a record and, in inner nodes, the child that starts with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewEntry {
    pub(super) record: RecordRef,
    pub(super) child: Option<NodeRef>,
}

impl<'a, const FANOUT: usize> Handle<'a, FANOUT> {
    /// The node that a link of this arena's tree names.
    #[inline]
    pub(super) fn new(arena: &'a Arena, at: NodeRef) -> Self {
        let address = arena.resolve(at.0).cast::<Node<FANOUT>>();
        // SAFETY: node links hold nodes of this arena and this fanout, filled before they were
        // linked, aligned to a cache line, and never freed before the arena.
        let node = unsafe { &*address };
        Self { arena, at, node }
    }

    #[inline]
    pub(super) fn latch(self) -> &'a Latch {
        &self.node.header.latch
    }

    /// A new, empty, unreachable node.
    pub(super) fn create(arena: &'a Arena, level: u32) -> Result<Self, ArenaFull> {
        let inner = level > 0;
        let bytes = if inner { size_of::<InnerNode<FANOUT>>() } else { size_of::<Node<FANOUT>>() };
        let offset = arena.allocate_lines(bytes)?;
        let address = arena.resolve(offset);
        let node = Node::<FANOUT>::new(level);
        // SAFETY: freshly allocated for this layout and aligned to a cache line.
        unsafe { address.cast::<Node<FANOUT>>().write(node) };
        if inner {
            let children = address.wrapping_add(size_of::<Node<FANOUT>>());
            let empty: [AtomicU32; FANOUT] = std::array::from_fn(|_| AtomicU32::new(0));
            // SAFETY: the children follow the node in the same allocation.
            unsafe { children.cast::<[AtomicU32; FANOUT]>().write(empty) };
        }
        Ok(Self::new(arena, NodeRef(offset)))
    }

    /// Brings the lines that a search needs into the cache, all at once.
    #[inline]
    pub(super) fn prefetch(arena: &Arena, at: NodeRef) {
        let address = arena.resolve(at.0).cast_const();
        for line in 0..size_of::<Node<FANOUT>>() / 64 {
            prefetch_address(address.wrapping_add(line * 64));
        }
    }

    fn children(&self) -> &'a [AtomicU32] {
        if self.level() == 0 {
            return &[];
        }
        let inner = self.arena.resolve(self.at.0).cast::<InnerNode<FANOUT>>();
        // SAFETY: a node above the leaves was allocated with children behind it.
        let children = unsafe { ptr::addr_of!((*inner).children) };
        // SAFETY: as above; filled in `create`.
        unsafe { &*children }
    }

    /// Child of an inner node: 0 is the one below the first entry. None only in a mixed state.
    #[inline]
    pub(super) fn child(&self, index: usize) -> Option<NodeRef> {
        let link = match index.checked_sub(1) {
            None => Some(&self.header.first_child),
            Some(entry) => self.children().get(entry),
        };
        // ORDERING: Acquire pairs with PUBLISH.
        NodeRef::from_raw(link?.load(Ordering::Acquire))
    }

    /// Index of the child that `key` belongs to: the number of entries that are at most `key`.
    #[inline]
    pub(super) fn child_index(&self, key: &[u8]) -> usize {
        match self.search(key) {
            (at, Some(_)) => at + 1,
            (at, None) => at,
        }
    }

    /// Index of the first entry that is at least `key`, and its record if it is `key` itself.
    #[inline]
    pub(super) fn search(&self, key: &[u8]) -> (usize, Option<RecordRef>) {
        let count = self.count();
        let skip = self.prefix_bytes();
        if skip > 0 && self.is_open() {
            match self.compare_prefix(key, skip) {
                cmp::Ordering::Less => return (0, None),
                cmp::Ordering::Equal => {}
                cmp::Ordering::Greater => return (count, None),
            }
        }
        let head = head_of(key, skip);
        let low = self.first_head_from(head, 0, count);
        if self.head(low, count) != Some(head) {
            return (low, None);
        }
        let mut end = low + 1;
        if self.head(end, count) == Some(head) {
            end = match head.checked_add(1) {
                Some(above) => self.first_head_from(above, end, count),
                None => count,
            };
        }
        self.search_records(key, low, end)
    }

    /// Like [`Handle::search`], when equal heads have narrowed it down to `low..end`.
    #[inline]
    fn search_records(&self, key: &[u8], low: usize, end: usize) -> (usize, Option<RecordRef>) {
        let (mut low, mut end) = (low, end);
        while low < end {
            let middle = low + (end - low) / 2;
            let Some(record) = self.record(middle) else { return (low, None) };
            record.prefetch(self.arena);
            match record.key(self.arena).cmp(key) {
                cmp::Ordering::Less => low = middle + 1,
                cmp::Ordering::Equal => return (middle, Some(record)),
                cmp::Ordering::Greater => end = middle,
            }
        }
        (low, None)
    }

    /// How `key` compares to the prefix that all entries of an open node share.
    fn compare_prefix(&self, key: &[u8], prefix_bytes: usize) -> cmp::Ordering {
        let Some(record) = self.record(0) else { return cmp::Ordering::Equal };
        let sample = record.key(self.arena);
        let prefix = &sample[..prefix_bytes.min(sample.len())];
        key[..prefix.len().min(key.len())].cmp(prefix)
    }

    /// Inserts at `at`, where the node's search has put the key. Latched, and not full.
    #[inline]
    pub(super) fn insert_at(&self, at: usize, entry: NewEntry) {
        let count = self.count();
        let key = entry.record.key(self.arena);
        if self.is_open() {
            self.fit_prefix(key, count);
        }
        let children = self.children();
        for index in (at..count).rev() {
            self.copy_entry(index, self, index + 1);
            if let Some([from, to]) = children.get(index..index + 2) {
                to.store(from.load(Ordering::Relaxed), PUBLISH);
            }
        }
        self.records[at].store(entry.record.raw(), PUBLISH);
        self.heads[at].store(head_of(key, self.prefix_bytes()), Ordering::Relaxed);
        if let (Some(link), Some(child)) = (children.get(at), entry.child) {
            link.store(child.raw(), PUBLISH);
        }
        self.header.count.store(count as u32 + 1, Ordering::Relaxed);
    }

    /// Adds an entry behind all others of a node that is not reachable yet and has room. `head` is
    /// that of its key behind the node's prefix.
    #[inline]
    pub(super) fn append(&self, head: u64, entry: NewEntry) {
        let at = self.count();
        self.records[at].store(entry.record.raw(), PUBLISH);
        self.heads[at].store(head, Ordering::Relaxed);
        if let (Some(link), Some(child)) = (self.children().get(at), entry.child) {
            link.store(child.raw(), PUBLISH);
        }
        self.header.count.store(at as u32 + 1, Ordering::Relaxed);
    }

    /// Sets how many bytes the keys share of a node that is empty and not reachable yet.
    pub(super) fn set_prefix(&self, prefix_bytes: usize) {
        self.header.prefix_bytes.store(prefix_bytes as u32, Ordering::Relaxed);
    }

    /// Shortens the prefix of an open node so that `key` has it too.
    fn fit_prefix(&self, key: &[u8], count: usize) {
        let skip = self.prefix_bytes();
        let shared = match self.record(0) {
            Some(first) if count > 0 => common_bytes(key, first.key(self.arena)),
            _ => key.len(),
        };
        if count == 0 {
            self.header.prefix_bytes.store(shared as u32, Ordering::Relaxed);
        } else if shared < skip {
            self.rewrite_heads(shared);
        }
    }

    fn rewrite_heads(&self, prefix_bytes: usize) {
        self.header.prefix_bytes.store(prefix_bytes as u32, Ordering::Relaxed);
        for index in 0..self.count() {
            if let Some(record) = self.record(index) {
                let head = head_of(record.key(self.arena), prefix_bytes);
                self.heads[index].store(head, Ordering::Relaxed);
            }
        }
    }

    /// Sets the prefix anew after the node's fences or content have changed in a split.
    /// `was_open`: the old prefix came from content, which promises nothing about fences.
    pub(super) fn refit_prefix(&self, was_open: bool) {
        let count = self.count();
        let skip = self.prefix_bytes();
        let must_check = was_open && !self.is_open();
        let small = count <= 1;
        if !must_check && !small && !self.heads_collide(count) {
            return;
        }
        let key = |record: Option<RecordRef>| record.map(|record| record.key(self.arena));
        let ends = if self.is_open() {
            if count == 0 {
                return;
            }
            (key(self.record(0)), key(self.record(count.saturating_sub(1))))
        } else {
            (key(self.low()), key(self.high()))
        };
        let (Some(first), Some(last)) = ends else { return };
        let limit = common_bytes(first, last);
        let worth_it = limit > skip && (small || self.heads_collide(count));
        if limit < skip || worth_it {
            self.rewrite_heads(limit);
        }
    }

    /// Moves the entries from `from` on to the empty, unreachable `right`.
    pub(super) fn move_tail(&self, from: usize, right: Self) {
        let count = self.count();
        right.header.prefix_bytes.store(self.prefix_bytes() as u32, Ordering::Relaxed);
        for index in from..count {
            self.copy_entry(index, &right, index - from);
            if let (Some(source), Some(target)) =
                (self.children().get(index), right.children().get(index - from))
            {
                target.store(source.load(Ordering::Relaxed), PUBLISH);
            }
        }
        right.header.count.store(count.saturating_sub(from) as u32, Ordering::Relaxed);
        self.header.count.store(from as u32, Ordering::Relaxed);
    }

    /// Takes the last entry away and returns it: in a split of inner nodes it moves up.
    pub(super) fn pop(&self) -> Option<NewEntry> {
        let last = self.count().checked_sub(1)?;
        let entry = NewEntry { record: self.record(last)?, child: self.child(last + 1) };
        self.header.count.store(last as u32, Ordering::Relaxed);
        Some(entry)
    }
}

impl<const FANOUT: usize> Node<FANOUT> {
    fn new(level: u32) -> Self {
        let link = || AtomicU32::new(0);
        let header = Header {
            latch: Latch::new(),
            level,
            count: link(),
            prefix_bytes: link(),
            low: link(),
            high: link(),
            next: link(),
            prev: link(),
            first_child: link(),
        };
        Self {
            header,
            heads: std::array::from_fn(|_| AtomicU64::new(0)),
            records: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    #[inline]
    pub(super) fn level(&self) -> u32 {
        self.header.level
    }

    /// Number of entries, never above the capacity.
    #[inline]
    pub(super) fn count(&self) -> usize {
        (self.header.count.load(Ordering::Relaxed) as usize).min(FANOUT)
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.count() == FANOUT
    }

    #[inline]
    fn prefix_bytes(&self) -> usize {
        self.header.prefix_bytes.load(Ordering::Relaxed) as usize
    }

    /// Whether the node lacks a fence on one side.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.header.low.load(Ordering::Relaxed) == 0
            || self.header.high.load(Ordering::Relaxed) == 0
    }

    #[inline]
    pub(super) fn low(&self) -> Option<RecordRef> {
        // ORDERING: Acquire pairs with PUBLISH, here and in the three below.
        RecordRef::from_raw(self.header.low.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn high(&self) -> Option<RecordRef> {
        RecordRef::from_raw(self.header.high.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn next(&self) -> Option<NodeRef> {
        NodeRef::from_raw(self.header.next.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn prev(&self) -> Option<NodeRef> {
        NodeRef::from_raw(self.header.prev.load(Ordering::Acquire))
    }

    /// The record link of an entry; none beyond the array, or in a mixed state.
    #[inline]
    pub(super) fn record(&self, index: usize) -> Option<RecordRef> {
        // ORDERING: Acquire pairs with PUBLISH.
        RecordRef::from_raw(self.records.get(index)?.load(Ordering::Acquire))
    }

    pub(super) fn set_fences(&self, low: Option<RecordRef>, high: Option<RecordRef>) {
        self.header.low.store(low.map_or(0, RecordRef::raw), PUBLISH);
        self.header.high.store(high.map_or(0, RecordRef::raw), PUBLISH);
    }

    pub(super) fn set_next(&self, next: Option<NodeRef>) {
        self.header.next.store(next.map_or(0, NodeRef::raw), PUBLISH);
    }

    pub(super) fn set_prev(&self, prev: NodeRef) {
        self.header.prev.store(prev.raw(), PUBLISH);
    }

    pub(super) fn set_first_child(&self, child: NodeRef) {
        self.header.first_child.store(child.raw(), PUBLISH);
    }

    #[inline]
    fn head(&self, index: usize, count: usize) -> Option<u64> {
        if index >= count {
            return None;
        }
        Some(self.heads.get(index)?.load(Ordering::Relaxed))
    }

    /// First index in `from..end` whose head is at least `head`; `end` if none is. Branch-free:
    /// which half a random key falls into cannot be predicted.
    #[inline]
    fn first_head_from(&self, head: u64, from: usize, end: usize) -> usize {
        let mut base = from;
        let mut length = end.saturating_sub(from);
        while length > 0 {
            let half = length.div_ceil(2);
            // In range: `base + half` is at most `end`, which is at most FANOUT.
            let probe = self.heads[base + half - 1].load(Ordering::Relaxed);
            base = select_unpredictable(probe < head, base + half, base);
            length -= half;
        }
        base
    }

    /// Whether so many neighbours have equal heads that a longer prefix is worth its cost.
    fn heads_collide(&self, count: usize) -> bool {
        let equal = |index: &usize| {
            self.heads[*index].load(Ordering::Relaxed)
                == self.heads[index - 1].load(Ordering::Relaxed)
        };
        (1..count).filter(equal).count() > count / 8
    }

    #[inline]
    fn copy_entry(&self, from: usize, target: &Self, to: usize) {
        let head = self.heads[from].load(Ordering::Relaxed);
        target.heads[to].store(head, Ordering::Relaxed);
        // Relaxed load: the latch's holder has acquired what former holders stored.
        let record = self.records[from].load(Ordering::Relaxed);
        target.records[to].store(record, PUBLISH);
    }
}

/// How many leading bytes two keys share.
fn common_bytes(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(a, b)| a == b).count()
}
