//! All nodes of a tree index as one flat index.
//!
//! A lookup in a flat index waits for one line of memory, one through the root and a node that is
//! held for three or four, on as many pages: a fifth of what a get takes that reads its leaf from
//! the page cache. So a table of which lookups have needed half of the nodes reads the others as
//! well, in large pieces, and makes a flat index of all: about what a table without index nodes
//! holds from its opening on.

use tidesdb_base::codec::Malformed;
use tidesdb_base::{Error, Result};
use tidesdb_sys::large_vec::LargeVec;

use super::super::Table;
use super::super::block::{BlockHolder, BlockRef};
use super::flat::{FlatIndex, IndexBuilder};
use super::tree::TreeIndex;
use crate::decode_error::DecodeError;

/// Bytes of nodes that are read together.
const PIECE_BYTES: u64 = 256 << 10;

/// Reads all nodes.
///
/// # Errors
/// [`Error::Corruption`] or [`Error::Io`] when a node can't be read or is malformed, and
/// [`Error::OutOfMemory`].
pub(crate) fn read(table: &Table, index: &TreeIndex) -> Result<FlatIndex> {
    let wrong = |detail: String| Error::corruption(table.path(), index.leaf_bytes(), detail);
    let nodes = index.nodes();
    let unlike_root = |node: usize| {
        let (count, from, to) =
            (index.leaves_of(node), index.first_offset(node), index.first_offset(node + 1));
        wrong(format!(
            "expected index node {node} of {nodes} to name {count} data blocks from {from} to {to}, \
             as the root does, found others"
        ))
    };
    let nodes_end = index.nodes_end().ok_or_else(|| {
        wrong(format!("expected {nodes} index nodes within a file, found lengths beyond any"))
    })?;
    let (mut leaves, mut buffer, mut raw) = (IndexBuilder::default(), LargeVec::new(), Vec::new());
    let mut piece = 0..0;
    for node in 0..nodes {
        let handle = index.node_handle(node).ok_or_else(|| unlike_root(node))?;
        let len = u64::from(handle.len);
        if handle.offset + len > piece.end {
            let count = PIECE_BYTES.min(nodes_end.saturating_sub(handle.offset)).max(len);
            let bytes = usize::try_from(count).map_err(|_| unlike_root(node))?;
            table.read_ahead(handle.offset, bytes, &mut buffer)?;
            piece = handle.offset..handle.offset + count;
        }
        let at = usize::try_from(handle.offset - piece.start).map_err(|_| unlike_root(node))?;
        let stored = buffer.get(at..at + handle.len as usize).unwrap_or_default();
        let block = table.decode_block(handle, stored, raw)?;
        add(index, node, block.view(), &mut leaves)
            .map_err(|error| error.or(|| unlike_root(node)))?;
        raw = block.into_raw();
    }
    let bytes = leaves.encoded_bound();
    let whole = leaves.into_index().map_err(|error| {
        error.or(|| wrong(format!("expected separators below 4 GiB, found about {bytes} bytes")))
    })?;
    let (expected, found) = (index.leaves(), whole.len());
    if found == expected {
        return Ok(whole);
    }
    Err(wrong(format!("expected index nodes that name {expected} data blocks, found {found}")))
}

/// Adds the entries of a node; `Malformed` when it contradicts itself or the root.
fn add(
    index: &TreeIndex,
    node: usize,
    block: BlockRef<'_>,
    leaves: &mut IndexBuilder,
) -> Result<(), DecodeError> {
    let mut end = index.first_offset(node);
    for position in 0..block.len() {
        let handle = index.leaf_handle(node, block, position).ok_or(Malformed)?;
        // Leaves lie back to back, which is all that a flat index knows of them.
        if handle.offset != end {
            return Err(DecodeError::Malformed);
        }
        end += u64::from(handle.len);
        leaves.push(&block.key(position).ok_or(Malformed)?, handle.len)?;
    }
    let is_whole = block.len() == index.leaves_of(node) && end == index.first_offset(node + 1);
    if is_whole { Ok(()) } else { Err(DecodeError::Malformed) }
}
