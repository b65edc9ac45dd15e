//! The index of a table: which data block may hold a key.
//!
//! One entry per data block: a separator, not below the block's last key and below the next
//! block's first key, unless versions of one key straddle the two, when it equals both. So the
//! first block whose separator is not below a key is the first that can hold it, and only when
//! its separator *equals* the key can the key's versions go on in the next one.
//!
//! The entries lie in one resident piece ([`flat`]), or in the nodes of a B+tree ([`tree`]) of
//! which the root is resident, and so are nodes that lookups have needed ([`held_node`]), or all of
//! them ([`flattened_tree`]), within bounds. [`Leaves`] finds data blocks in either.

mod flat;
pub(super) mod flattened_tree;
mod heads;
mod held_node;
mod leaves;
pub(super) mod tree;

pub(crate) use self::flat::{FlatIndex, IndexBuilder};
pub(crate) use self::held_node::HeldNode;
pub use self::held_node::NodeMemory;
pub(crate) use self::leaves::Leaves;
pub(crate) use self::tree::{RootBuilder, TreeIndex};

use super::common_prefix_len;

/// The resident part of the index of an open table.
#[derive(Debug)]
pub(crate) enum Index {
    Flat(FlatIndex),
    Tree(TreeIndex),
}

impl Index {
    /// Number of data blocks.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Flat(index) => index.len(),
            Self::Tree(index) => index.leaves(),
        }
    }

    /// Bytes of all data blocks together.
    pub(crate) fn data_bytes(&self) -> u64 {
        match self {
            Self::Flat(index) => index.indexed_bytes(),
            Self::Tree(index) => index.leaf_bytes(),
        }
    }

    /// Where the last block that the index knows ends, index nodes included; `None` when that is
    /// beyond any file.
    pub(crate) fn blocks_end(&self) -> Option<u64> {
        match self {
            Self::Flat(index) => Some(index.indexed_bytes()),
            Self::Tree(index) => index.nodes_end(),
        }
    }

    /// Index nodes that are not resident.
    pub(crate) fn nodes(&self) -> usize {
        match self {
            Self::Flat(_) => 0,
            Self::Tree(index) => index.nodes(),
        }
    }

    /// What the root of a tree says is the separator of data block `at`, where it says it: of the
    /// last block of a node.
    pub(crate) fn separator_in_root(&self, at: usize) -> Option<Vec<u8>> {
        let Self::Tree(index) = self else { return None };
        let (node, within) = index.locate(at)?;
        (within + 1 == index.leaves_of(node)).then(|| index.separator(node))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Flat(index) => index.memory_bytes(),
            Self::Tree(index) => index.memory_bytes(),
        }
    }

    /// About how many bytes of data blocks lie before `key`.
    pub(crate) fn bytes_before(&self, key: &[u8]) -> u64 {
        match self {
            Self::Flat(index) => {
                let at = index.first_at_or_after(key);
                index.handle(at).map_or(index.indexed_bytes(), |handle| handle.offset)
            }
            Self::Tree(index) => index.first_offset(index.node_for(key)),
        }
    }

    /// Into how many pieces [`Index::bytes_before`] divides the table.
    pub(crate) fn pieces(&self) -> usize {
        match self {
            Self::Flat(index) => index.len(),
            Self::Tree(index) => index.nodes(),
        }
    }

    /// Keys that cut the table into at most `parts` parts of about as many blocks each, in order.
    pub(crate) fn keys_between(&self, parts: usize) -> Vec<Vec<u8>> {
        let (pieces, separator): (usize, &dyn Fn(usize) -> Vec<u8>) = match self {
            Self::Flat(index) => (index.len(), &|at| index.separator(at)),
            Self::Tree(index) => (index.nodes(), &|at| index.separator(at)),
        };
        let places = (1..parts).map(|part| pieces * part / parts).filter(|&at| at > 0);
        let mut keys: Vec<_> = places.map(|at| separator(at - 1)).collect();
        keys.dedup();
        keys
    }
}

/// Replaces `out` by the shortest key that is at or after `last` and before `next`, where
/// `last` <= `next`; when they are equal there is no such key and `out` is `last`.
pub(crate) fn shortest_separator(last: &[u8], next: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let shared = common_prefix_len(last, next);
    // The shortest keys at or after `last` are its prefixes with the last byte raised by one.
    // Cutting right behind the first difference is shortest; where the raised byte would reach
    // `next`, a longer prefix is tried, past bytes that cannot be raised.
    for cut in shared + 1..last.len() {
        let Some((&byte, before)) = last.get(..cut).and_then(<[u8]>::split_last) else { break };
        if byte == 0xFF {
            continue;
        }
        let below_next = cut > shared + 1
            || next.get(shared).is_some_and(|&limit| {
                byte + 1 < limit || (byte + 1 == limit && next.len() > shared + 1)
            });
        if below_next {
            out.extend_from_slice(before);
            out.push(byte + 1);
            return;
        }
    }
    out.extend_from_slice(last);
}

#[cfg(test)]
mod tests;
