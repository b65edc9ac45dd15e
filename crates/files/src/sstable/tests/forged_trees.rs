//! Tree indexes whose checksums hold and whose parts contradict each other, as only a forged file
//! or an error in the writer has them.

use super::damage::right_or_corrupt;
use super::*;
use crate::sstable::block::{Place, seal_stored};
use crate::sstable::footer::{FOOTER_BYTES, Footer};
use crate::sstable::index::{Index, RootBuilder, TreeIndex, flattened_tree};

fn model() -> Model {
    let entry = |n: u64| {
        let key = (format!("key{n:05}").into_bytes(), Reverse(n));
        (key, (ValueKind::Value, 0, vec![b'v'; 30]))
    };
    (0..400).map(entry).collect()
}

/// The table with a root in which `change` has changed the separators and the numbers of leaves.
fn forged(change: impl Fn(usize, &mut Vec<u8>, &mut usize)) -> Arc<MemoryFile> {
    let plain = TableOptions { compression: Compression::None, index: FORMS[1], ..options(256) };
    let (file, _) = write(&model(), plain);
    let bytes = file.bytes();
    let footer_at = bytes.len() - FOOTER_BYTES;
    let footer = Footer::decode(&bytes[footer_at..], IDENTITY, footer_at as u64).unwrap();
    let table = open(&file).unwrap();
    let Index::Tree(index) = &table.index else { panic!("a flat index") };
    let mut root = RootBuilder::default();
    for node in 0..index.nodes() {
        let (mut separator, mut leaves) = (index.separator(node), index.leaves_of(node));
        change(node, &mut separator, &mut leaves);
        let leaf_bytes = index.first_offset(node + 1) - index.first_offset(node);
        root.push(&separator, index.node_handle(node).unwrap().len, leaves, leaf_bytes).unwrap();
    }
    let (mut raw, mut sealed) = (Vec::new(), Vec::new());
    root.encode(index.leaf_bytes(), &mut raw).unwrap();
    let section = footer.index;
    let place = Place { identity: IDENTITY, offset: section.offset };
    seal_stored(&raw, Compression::None, place, &mut Vec::new(), &mut sealed).unwrap();
    assert_eq!(sealed.len() as u64, section.len);
    let at = section.offset as usize;
    file.change(|bytes| bytes[at..at + sealed.len()].copy_from_slice(&sealed));
    file
}

fn nodes(file: &Arc<MemoryFile>) -> usize {
    open(file).unwrap().index.nodes()
}

/// Fewer leaves in the root than in the node: the others would be passed over without a word.
#[test]
fn a_node_with_other_leaves_than_the_root_says_is_corruption() {
    let whole = forged(|_, _, _| ());
    let (model, len) = (model(), whole.bytes().len());
    assert!(!right_or_corrupt(&whole, &model, len, "as it was"));
    open(&whole).unwrap().verify().unwrap();
    for forged_node in 0..nodes(&whole) {
        for more in [false, true] {
            let file = forged(|node, _, leaves| {
                if node == forged_node {
                    *leaves = if more { *leaves + 1 } else { (*leaves - 1).max(1) };
                }
            });
            if file.bytes() != whole.bytes() {
                let context = format!("node {forged_node}, more: {more}");
                assert!(right_or_corrupt(&file, &model, len, &context), "{context}");
                let table = open(&file).unwrap();
                assert_eq!(table.verify().unwrap_err().kind(), ErrorKind::Corruption);
                let Index::Tree(index) = &table.index else { panic!("a flat index") };
                let error = flattened_tree::read(&table, index).unwrap_err().to_string();
                let expected = format!("expected index node {forged_node} of ");
                assert!(error.contains(&expected) && error.contains("found others"), "{error}");
            }
        }
    }
}

/// Keys between the two separators would be looked for in the wrong node.
#[test]
fn a_separator_of_the_root_that_is_not_the_nodes_is_found_by_a_check() {
    let whole = forged(|_, _, _| ());
    for forged_node in 0..nodes(&whole) {
        let file = forged(|node, separator, _| {
            if node == forged_node {
                *separator.last_mut().unwrap() -= 1;
            }
        });
        let error = open(&file).unwrap().verify().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{forged_node}");
    }
}

#[test]
fn a_root_with_more_leaves_than_bytes_is_malformed() {
    for leaves in [101, usize::MAX / 2, usize::MAX] {
        let mut root = RootBuilder::default();
        root.push(b"key", 50, leaves, 100).unwrap();
        let mut bytes = Vec::new();
        root.encode(100, &mut bytes).unwrap();
        assert!(TreeIndex::decode(&bytes).is_err(), "{leaves} leaves in 100 bytes");
    }
}
