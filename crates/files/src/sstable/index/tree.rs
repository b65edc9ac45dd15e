//! A tree index: the separators of a table as the inner nodes of a B+tree.
//!
//! The data blocks are the leaves. One inner level holds their separators in *index nodes*, which
//! are ordinary blocks: sorted, prefix-compressed, checksummed, and read through the same block
//! source as the leaves. Nodes that lookups need are held by the open table as long as there is
//! room ([`super::held_node`]), and once these are half of them all are
//! ([`super::flattened_tree`]); of the others, hot ones stay in the cache and cold ones take no
//! memory. The root is a flat index of the nodes and always resident. It takes some ninety bytes
//! for each node.
//!
//! An entry of a node has the leaf's separator as its key, and as its value where the leaf lies:
//!
//! ```text
//! node entry   separator -> offset behind the node's first leaf varint | length varint
//! root section nodes_at u64 | flat index of the nodes, length-prefixed
//!              | for each node: leaves varint, bytes of its leaves varint
//! ```
//!
//! Leaves lie back to back from offset 0, the nodes behind the last leaf. Built bottom up in one
//! pass when a table is finished, so every node but the last is full. Immutable once built.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::decode_error::DecodeError;
use crate::sink::Sink;
use tidesdb_base::SequenceNumber;
use tidesdb_base::codec::{Decoder, Malformed, put_u64, put_varint};
use tidesdb_sys::large_vec::{LargeVec, NoMemory};

use super::super::BlockHandle;
use super::super::block::BlockRef;
use super::flat::{FlatIndex, IndexBuilder};
use super::held_node::HeldNode;

/// More nodes than there are.
const NEVER: usize = usize::MAX;

/// About what an entry of a flat index takes in memory.
const BYTES_OF_ENTRY: u64 = 28;

/// Where the leaves of a node begin.
#[derive(Debug, Default)]
struct Start {
    /// Number of the node's first leaf.
    leaf: usize,
    /// Its offset in the file.
    offset: u64,
    /// The node, once a lookup has needed it and there was room for it.
    held: OnceLock<HeldNode>,
}

/// Collects the index nodes while a table is finished.
#[derive(Debug, Default)]
pub(crate) struct RootBuilder {
    nodes: IndexBuilder,
    /// Leaves and bytes of leaves of each node.
    spans: Vec<(usize, u64)>,
}

impl RootBuilder {
    /// Adds a node: the separator of its last leaf, its stored length, and what it covers.
    ///
    /// # Errors
    /// [`NoMemory`]; what was added is of no use then.
    pub(crate) fn push(
        &mut self,
        separator: &[u8],
        len: u32,
        leaves: usize,
        leaf_bytes: u64,
    ) -> Result<(), NoMemory> {
        self.nodes.push(separator, len)?;
        self.spans.try_reserve(1).map_err(|_| NoMemory)?;
        self.spans.push((leaves, leaf_bytes));
        Ok(())
    }

    /// Number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Bytes that the encoded form takes at most.
    pub(crate) fn encoded_bound(&self) -> usize {
        32 + self.nodes.encoded_bound() + self.spans.len() * 20
    }

    /// The root of nodes that lie from `nodes_at` on, without a form in the file.
    pub(crate) fn into_tree(self, nodes_at: u64) -> Result<TreeIndex, DecodeError> {
        let mut starts = room_for_starts(self.spans.len())?;
        let (mut leaf, mut offset) = (0, 0);
        for (leaves, bytes) in self.spans {
            starts.push(Start { leaf, offset, held: OnceLock::new() });
            (leaf, offset) = (leaf + leaves, offset + bytes);
        }
        starts.push(Start { leaf, offset, held: OnceLock::new() });
        Ok(TreeIndex::new(nodes_at, self.nodes.into_index()?, starts))
    }

    /// Appends the root section of a table whose first node lies at `nodes_at`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub(crate) fn encode(&self, nodes_at: u64, out: &mut impl Sink) -> Result<(), NoMemory> {
        let mut nodes = LargeVec::with_capacity(self.nodes.encoded_bound())?;
        self.nodes.encode(&mut nodes)?;
        let mut some = Vec::new();
        put_u64(&mut some, nodes_at);
        put_varint(&mut some, nodes.len() as u64);
        out.put(&some)?;
        out.put(&nodes)?;
        for &(leaves, bytes) in &self.spans {
            some.clear();
            put_varint(&mut some, leaves as u64);
            put_varint(&mut some, bytes);
            out.put(&some)?;
        }
        Ok(())
    }
}

/// No starts yet, with room for those of so many nodes and the end.
fn room_for_starts(nodes: usize) -> Result<Vec<Start>, NoMemory> {
    let mut starts = Vec::new();
    starts.try_reserve_exact(nodes + 1).map_err(|_| NoMemory)?;
    Ok(starts)
}

/// Appends where a leaf lies, as the value of a node's entry.
pub(crate) fn encode_leaf(offset_in_node: u64, len: u32, out: &mut Vec<u8>) {
    put_varint(out, offset_in_node);
    put_varint(out, u64::from(len));
}

/// The root of an open table.
#[derive(Debug)]
pub(crate) struct TreeIndex {
    nodes_at: u64,
    root: FlatIndex,
    /// Where each node's leaves begin, and behind the last one where they end.
    starts: Vec<Start>,
    /// Nodes that are held.
    held: AtomicUsize,
    /// All entries of all nodes, once lookups have needed many of them and there was room.
    whole: OnceLock<FlatIndex>,
    /// It is made when so many nodes are held; [`NEVER`] once a thread has begun. Where there was
    /// no memory for it, it is tried a few times more.
    whole_from: AtomicUsize,
}

impl TreeIndex {
    fn new(nodes_at: u64, root: FlatIndex, starts: Vec<Start>) -> Self {
        let (held, whole) = (AtomicUsize::new(0), OnceLock::new());
        let whole_from = AtomicUsize::new(root.len().div_ceil(2));
        Self { nodes_at, root, starts, held, whole, whole_from }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut decoder = Decoder::new(bytes);
        let nodes_at = decoder.u64()?;
        let root = FlatIndex::decode(decoder.bytes()?)?;
        let mut starts = room_for_starts(root.len())?;
        let (mut leaf, mut offset) = (0_usize, 0_u64);
        for _ in 0..root.len() {
            starts.push(Start { leaf, offset, held: OnceLock::new() });
            let (leaves, bytes) = (decoder.varint()?, decoder.varint()?);
            // A leaf takes more than a byte: so a table's blocks are never more than its bytes.
            if leaves == 0 || leaves > bytes {
                return Err(DecodeError::Malformed);
            }
            let leaves = usize::try_from(leaves).map_err(|_| Malformed)?;
            leaf = leaf.checked_add(leaves).ok_or(Malformed)?;
            offset = offset.checked_add(bytes).ok_or(Malformed)?;
        }
        starts.push(Start { leaf, offset, held: OnceLock::new() });
        if !decoder.is_empty() || offset != nodes_at {
            return Err(DecodeError::Malformed);
        }
        Ok(Self::new(nodes_at, root, starts))
    }

    /// Number of leaves.
    pub(crate) fn leaves(&self) -> usize {
        self.starts.last().map_or(0, |end| end.leaf)
    }

    /// Number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.root.len()
    }

    /// Bytes of all leaves together.
    pub(crate) fn leaf_bytes(&self) -> u64 {
        self.starts.last().map_or(0, |end| end.offset)
    }

    /// Where the last node ends.
    pub(crate) fn nodes_end(&self) -> Option<u64> {
        self.nodes_at.checked_add(self.root.indexed_bytes())
    }

    /// Bytes of memory of the root.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.root.memory_bytes() + self.starts.capacity() * size_of::<Start>()
    }

    /// Where node `at` lies; `None` past the last.
    #[inline]
    pub(crate) fn node_handle(&self, at: usize) -> Option<BlockHandle> {
        let handle = self.root.handle(at)?;
        Some(BlockHandle { offset: handle.offset + self.nodes_at, len: handle.len })
    }

    /// The node if the open table holds it.
    #[inline]
    pub(crate) fn held(&self, node: usize) -> Option<&HeldNode> {
        self.starts.get(node)?.held.get()
    }

    /// Holds a node, whose block this is. Returns the bytes that it takes: 0 when another thread
    /// was faster, and `None` when it can't be held.
    pub(crate) fn hold(&self, node: usize, block: BlockRef<'_>) -> Option<u64> {
        let held = HeldNode::of(self, node, block)?;
        let bytes = held.memory_bytes() as u64;
        let is_first = self.starts.get(node)?.held.set(held).is_ok();
        if is_first {
            // ORDERING: relaxed; when the whole is made is no matter of correctness.
            self.held.fetch_add(1, Ordering::Relaxed);
        }
        Some(if is_first { bytes } else { 0 })
    }

    /// Bytes of memory of what is held: nodes, and the whole.
    pub(crate) fn held_bytes(&self) -> u64 {
        let held = self.starts.iter().filter_map(|start| start.held.get());
        let nodes: u64 = held.map(|node| node.memory_bytes() as u64).sum();
        nodes + self.whole.get().map_or(0, |whole| whole.memory_bytes() as u64)
    }

    /// All entries of all nodes, if they are held so.
    #[inline]
    pub(crate) fn whole(&self) -> Option<&FlatIndex> {
        self.whole.get()
    }

    /// About how many bytes the whole would take, once it is worth having: when lookups have needed
    /// half of the nodes. `None` before that, and once it was tried.
    pub(crate) fn wanted_whole(&self) -> Option<u64> {
        // ORDERING: relaxed, as in `hold`.
        let (held, from) =
            (self.held.load(Ordering::Relaxed), self.whole_from.load(Ordering::Relaxed));
        (held >= from).then_some(self.leaves() as u64 * BYTES_OF_ENTRY)
    }

    /// True for the one thread that is to make the whole.
    pub(crate) fn begin_whole(&self) -> bool {
        // ORDERING: relaxed; the index itself goes through the `OnceLock`.
        self.whole_from.swap(NEVER, Ordering::Relaxed) != NEVER
    }

    /// Lets it be tried once more when an eighth of the nodes more is held: called by the thread
    /// that began and had no memory for it. Each try reads all nodes.
    pub(crate) fn begin_again(&self) {
        // ORDERING: relaxed, as in `begin_whole`: nothing was made that another thread reads.
        let from = self.held.load(Ordering::Relaxed) + self.nodes() / 8 + 1;
        self.whole_from.store(from, Ordering::Relaxed);
    }

    /// Holds the whole.
    pub(crate) fn set_whole(&self, whole: FlatIndex) {
        // One thread makes it.
        let _ = self.whole.set(whole);
    }

    /// The node whose leaves may hold `key` first; the number of nodes if there is none.
    #[inline]
    pub(crate) fn node_for(&self, key: &[u8]) -> usize {
        self.root.first_at_or_after(key)
    }

    /// Number of the first leaf of node `node`.
    #[inline]
    pub(crate) fn first_leaf(&self, node: usize) -> usize {
        self.starts.get(node).map_or(self.leaves(), |start| start.leaf)
    }

    /// Number of leaves of node `node`.
    #[inline]
    pub(crate) fn leaves_of(&self, node: usize) -> usize {
        self.first_leaf(node + 1) - self.first_leaf(node)
    }

    /// Offset of the first leaf of node `node`.
    #[inline]
    pub(crate) fn first_offset(&self, node: usize) -> u64 {
        self.starts.get(node).map_or(self.leaf_bytes(), |start| start.offset)
    }

    /// The node of a leaf, and the leaf's place in it; `None` past the last leaf.
    pub(crate) fn locate(&self, leaf: usize) -> Option<(usize, usize)> {
        let node = self.starts.partition_point(|start| start.leaf <= leaf).checked_sub(1)?;
        let within = leaf - self.starts.get(node)?.leaf;
        (node < self.nodes()).then_some((node, within))
    }

    /// The separator behind the last leaf of node `node`.
    pub(crate) fn separator(&self, node: usize) -> Vec<u8> {
        self.root.separator(node)
    }

    /// Where the leaf at `position` of node `node`, whose block this is, lies; `None` when the
    /// node is malformed there.
    #[inline]
    pub(crate) fn leaf_handle(
        &self,
        node: usize,
        block: BlockRef<'_>,
        position: usize,
    ) -> Option<BlockHandle> {
        let entry = block.entry(position)?;
        let mut place = Decoder::new(block.value(&entry));
        let (offset, len) = (place.varint().ok()?, u32::try_from(place.varint().ok()?).ok()?);
        let offset = self.first_offset(node).checked_add(offset)?;
        let end = offset.checked_add(u64::from(len))?;
        (place.is_empty() && end <= self.first_offset(node + 1))
            .then_some(BlockHandle { offset, len })
    }
}

/// Place of the first separator of a node that is at or after `key`; `None` when the node is
/// malformed or ends before it.
#[inline]
pub(crate) fn position_for(block: BlockRef<'_>, key: &[u8]) -> Option<usize> {
    block.lower_bound(key, SequenceNumber::MAX).filter(|&position| position < block.len())
}
