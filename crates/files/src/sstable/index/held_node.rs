//! An index node as an open table holds it: the separators of its leaves and where these lie.
//!
//! A node that lookups need is turned into this form once, and then a lookup finds its leaf
//! without a block of the cache and without decoding anything. It waits for few lines of memory:
//! the heads of all separators lie in neighbouring ones and are looked at all at once, and what all
//! separators begin with lies beside the node itself.
//!
//! Immutable, shared by all threads. Lives as long as the open table. Heads that are not sorted, as
//! only a forged node's are, lead astray, and no more.

use std::fmt::Debug;

use tidesdb_base::codec::key_head;

use super::super::BlockHandle;
use super::super::block::BlockRef;
use super::tree::TreeIndex;

/// Up to so many heads are counted in one straight run, which vectorises.
const LINEAR_HEADS: usize = 64;

/// A common prefix of up to so many bytes lies beside the node's arrays, not in one of them.
const SHORT_PREFIX_BYTES: usize = 24;

/// The memory of open tables, and what may be held of their index nodes, all of them together.
pub trait NodeMemory: Debug + Send + Sync {
    /// Whether another node may be held.
    fn has_room(&self) -> bool;

    /// Whether so many bytes more may be.
    fn has_room_for(&self, bytes: u64) -> bool;

    /// Notes that a node is held, which takes so many bytes.
    fn take(&self, bytes: u64);

    /// Notes that nodes of so many bytes are held no more.
    fn give_back(&self, bytes: u64);

    /// Notes that a table is open, which takes so many bytes beside such nodes.
    fn take_table(&self, bytes: u64);

    /// Notes that such a table is in memory no more.
    fn give_back_table(&self, bytes: u64);
}

/// An index node in the form in which lookups need no decoding.
#[derive(Debug)]
pub(crate) struct HeldNode {
    /// Of each leaf the head of its separator: the first bytes behind what all separators of the
    /// node begin with. Then of each leaf where it ends, counted from where the first one begins,
    /// and where its separator ends among the keys.
    numbers: Box<[u32]>,
    /// What separators begin with, if that is long, and then the rest of each.
    keys: Box<[u8]>,
    prefix_len: u32,
    short_prefix: [u8; SHORT_PREFIX_BYTES],
}

/// Where a leaf and its separator end.
type Ends = [u32; 2];

impl HeldNode {
    /// The node of this number, whose block this is; `None` when it is malformed or its leaves take
    /// more bytes than a held node can name.
    pub(super) fn of(index: &TreeIndex, node: usize, block: BlockRef<'_>) -> Option<Self> {
        let (first, mut end) = (index.first_offset(node), 0_u32);
        let mut separators = Vec::with_capacity(block.len());
        for position in 0..block.len() {
            let handle = index.leaf_handle(node, block, position)?;
            // Leaves lie back to back, so where they end is enough.
            if handle.offset != first + u64::from(end) {
                return None;
            }
            end = end.checked_add(handle.len)?;
            separators.push((block.key(position)?, end));
        }
        Self::new(block.prefix(), &separators)
    }

    /// A node of these separators, all of which begin with `prefix`, and ends of leaves.
    fn new(prefix: &[u8], separators: &[(Vec<u8>, u32)]) -> Option<Self> {
        let mut short_prefix = [0; SHORT_PREFIX_BYTES];
        let mut keys = Vec::new();
        match short_prefix.get_mut(..prefix.len()) {
            Some(short) => short.copy_from_slice(prefix),
            None => keys.extend_from_slice(prefix),
        }
        let count = separators.len();
        let (mut numbers, mut ends) =
            (Vec::with_capacity(3 * count), Vec::with_capacity(2 * count));
        for (separator, end) in separators {
            let suffix = separator.strip_prefix(prefix)?;
            keys.extend_from_slice(suffix);
            numbers.push(head_of(suffix));
            ends.extend([*end, u32::try_from(keys.len()).ok()?]);
        }
        numbers.append(&mut ends);
        let prefix_len = u32::try_from(prefix.len()).ok()?;
        Some(Self { numbers: numbers.into(), keys: keys.into(), prefix_len, short_prefix })
    }

    /// Bytes of memory held besides the structure itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.numbers) + self.keys.len()
    }

    /// Number of leaves.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.numbers.len() / 3
    }

    #[inline]
    fn prefix(&self) -> &[u8] {
        let len = self.prefix_len as usize;
        self.short_prefix.get(..len).or_else(|| self.keys.get(..len)).unwrap_or_default()
    }

    #[inline]
    fn heads(&self) -> &[u32] {
        self.numbers.get(..self.len()).unwrap_or_default()
    }

    #[inline]
    fn ends(&self) -> &[Ends] {
        self.numbers.get(self.len()..).unwrap_or_default().as_chunks().0
    }

    #[inline]
    fn suffix(&self, at: usize) -> &[u8] {
        let end = self.ends().get(at).map_or(0, |ends| ends[1] as usize);
        let start = match at.checked_sub(1) {
            Some(before) => self.ends().get(before).map_or(0, |ends| ends[1] as usize),
            None if self.prefix_len as usize > SHORT_PREFIX_BYTES => self.prefix_len as usize,
            None => 0,
        };
        self.keys.get(start..end).unwrap_or_default()
    }

    /// The separator of leaf `at` in full.
    pub(crate) fn separator(&self, at: usize) -> Vec<u8> {
        [self.prefix(), self.suffix(at)].concat()
    }

    /// Whether the separator of leaf `at` is `key`.
    #[inline]
    pub(crate) fn separator_is(&self, at: usize, key: &[u8]) -> bool {
        at < self.len() && key.strip_prefix(self.prefix()) == Some(self.suffix(at))
    }

    /// Where leaf `at` lies when the node's first leaf begins at `first`; `None` past the last.
    #[inline]
    pub(crate) fn handle(&self, at: usize, first: u64) -> Option<BlockHandle> {
        let end = self.ends().get(at)?[0];
        let before = at.checked_sub(1).and_then(|before| self.ends().get(before));
        let start = before.map_or(0, |ends| ends[0]);
        Some(BlockHandle { offset: first + u64::from(start), len: end - start })
    }

    /// The first leaf whose separator is at or after `key`; the number of leaves if there is none.
    #[inline]
    pub(crate) fn first_at_or_after(&self, key: &[u8]) -> usize {
        let Some(suffix) = key.strip_prefix(self.prefix()) else {
            return if key < self.prefix() { 0 } else { self.len() };
        };
        let (heads, wanted) = (self.heads(), head_of(suffix));
        let mut low = count_below(heads, wanted);
        let ties = heads.get(low..).unwrap_or_default();
        if ties.first() != Some(&wanted) {
            return low;
        }
        let mut high = low + ties.partition_point(|&head| head == wanted);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.suffix(middle) < suffix { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// First four bytes of the rest of a key as a number that sorts as they do.
#[inline]
fn head_of(suffix: &[u8]) -> u32 {
    (key_head(suffix) >> 32) as u32
}

/// How many of the sorted heads are below `wanted`.
#[inline]
fn count_below(heads: &[u32], wanted: u32) -> usize {
    let mut window = heads;
    let mut base = 0;
    while window.len() > LINEAR_HEADS {
        let half = window.len() / 2;
        let (left, right) = window.split_at(half);
        if right.first().is_some_and(|&head| head < wanted) {
            base += half;
            window = right;
        } else {
            window = left;
        }
    }
    let below: u32 = window.iter().map(|&head| u32::from(head < wanted)).sum();
    base + below as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(separators: &[Vec<u8>], prefix_len: usize) -> HeldNode {
        let ends = (1..).map(|at| 10 * at);
        let leaves: Vec<_> = separators.iter().cloned().zip(ends).collect();
        HeldNode::new(&separators[0][..prefix_len], &leaves).unwrap()
    }

    #[test]
    fn the_first_leaf_at_or_after_any_key_is_found_in_nodes_of_any_size() {
        for (len, prefix) in (1..40).chain([64, 65, 127, 128, 1000]).zip([3, 7, 24, 25].repeat(20))
        {
            // Three separators each have the same head and differ behind it.
            let common = "prefix-of-all-separators-".get(..prefix).unwrap();
            let separators: Vec<Vec<u8>> =
                (0..len).map(|n| format!("{common}{:04}{}", n / 3, n % 3).into_bytes()).collect();
            let node = node(&separators, prefix);
            assert_eq!(node.len(), len);
            let mut keys = vec![b"".to_vec(), b"pr".to_vec(), b"prg".to_vec(), b"q".to_vec()];
            for separator in &separators {
                let mut behind = separator.clone();
                behind.push(0);
                keys.extend([separator.clone(), behind, separator[..prefix + 4].to_vec()]);
            }
            for key in keys {
                let expected = separators.partition_point(|separator| *separator < key);
                assert_eq!(node.first_at_or_after(&key), expected, "{key:?} of {len}");
                let is_there = separators.get(expected) == Some(&key);
                assert_eq!(node.separator_is(expected, &key), is_there);
            }
            for (at, separator) in separators.iter().enumerate() {
                let handle = BlockHandle { offset: 100 + 10 * at as u64, len: 10 };
                assert_eq!(
                    (node.separator(at), node.handle(at, 100)),
                    (separator.clone(), Some(handle))
                );
            }
            assert_eq!(node.handle(len, 100), None);
        }
    }

    #[test]
    fn unsorted_heads_do_no_harm() {
        let separators: Vec<Vec<u8>> = (0..100_u64)
            .map(|n| (n.wrapping_mul(0x9E37_79B9) % 7).to_be_bytes().to_vec())
            .collect();
        let node = node(&separators, 0);
        for wanted in 0..9_u64 {
            assert!(node.first_at_or_after(&wanted.to_be_bytes()) <= separators.len());
        }
    }
}
