//! Hands bytes to the readers inside of tables, as if their checksums had matched.

use tidesdb_base::SequenceNumber;
use tidesdb_base::compress::Compression;

use super::TableSummary;
use super::block::{Block, BlockHolder, Place, open_stored, seal_stored};
use super::footer::{Footer, Section};
use super::index::{FlatIndex, TreeIndex};

/// Identity of the tables that [`sealed`] makes.
const IDENTITY: u64 = 1;

/// Reads bytes as the raw form of a block, and as a sealed one.
pub(crate) fn read_hostile_block(bytes: &[u8]) {
    let _ = open_stored(bytes, Place { identity: IDENTITY, offset: 0 }, &mut Vec::new());
    let Ok(block) = Block::from_raw(bytes.to_vec()) else { return };
    let block = block.view();
    let _ = block.is_exact();
    for position in 0..=block.len().min(1000) {
        let (key, entry) = (block.key(position), block.entry(position));
        let Some((key, entry)) = key.zip(entry) else { continue };
        let _ = (block.value(&entry), block.tail(&entry), block.has_key(&entry, &key));
        let _ = block.lower_bound(&key, entry.meta.seq);
    }
    let _ = block.lower_bound(bytes, SequenceNumber::MAX);
    let _ = block.lower_bound(b"", 0);
}

/// Reads bytes as each of the raw sections of a table, and as a footer.
pub(crate) fn read_hostile_sections(bytes: &[u8]) {
    let _ = TableSummary::decode(bytes);
    let _ = Footer::decode(bytes, IDENTITY, 0);
    if let Ok(index) = FlatIndex::decode(bytes) {
        for at in 0..=index.len().min(1000) {
            let _ = (index.handle(at), index.separator_is(at, &index.separator(at)));
        }
        let _ = (index.first_at_or_after(b"key"), index.first_at_or_after(bytes));
    }
    if let Ok(index) = TreeIndex::decode(bytes) {
        for node in 0..=index.nodes().min(1000) {
            let _ = (index.node_handle(node), index.first_leaf(node), index.first_offset(node));
        }
        let _ = (index.nodes_end(), index.node_for(bytes), index.locate(index.leaves()));
    }
}

/// A table of one data block with these raw sections, in the order of the file, all of them sealed.
pub(crate) fn sealed(tree: bool, [data, filter, index, properties]: [&[u8]; 4]) -> Vec<u8> {
    let (mut out, mut scratch) = (Vec::new(), Vec::new());
    let mut seal = |raw: &[u8]| {
        let offset = out.len() as u64;
        let place = Place { identity: IDENTITY, offset };
        // Cut short for want of memory it is hostile all the same.
        let _ = seal_stored(raw, Compression::None, place, &mut scratch, &mut out);
        Section { offset, len: out.len() as u64 - offset }
    };
    seal(data);
    let (filter, index, properties) = (seal(filter), seal(index), seal(properties));
    let footer = Footer {
        has_tree_index: tree,
        filter,
        index,
        properties,
        entries: 1,
        tombstones: 0,
        identity: IDENTITY,
    };
    footer.encode(out.len() as u64, &mut out);
    out
}
