//! Tables, with both kinds of index, after `docs/formats/sstable-block.md`.

use std::collections::BTreeSet;

use tidesdb_base::checksum::{placed, plain};

use super::filter::may_have;
use super::{Cursor, Version, decompress};

/// The separator of a block, and the block's length.
type Indexed = (Vec<u8>, usize);

/// The entries of a table, after everything that its page says of it was checked.
pub(super) fn entries(file: &[u8], number: u64) -> Vec<(Vec<u8>, Version)> {
    let at = file.len() - 96;
    let mut footer = Cursor(&file[at..]);
    assert_eq!((footer.take(8), footer.number(1)), (&b"TDBTABLE"[..], 1));
    let kind = footer.number(1);
    footer.take(6);
    let sections: [(usize, usize); 3] =
        [(); 3].map(|()| (footer.number(8) as usize, footer.number(8) as usize));
    let [filter, index, properties] = sections;
    let (count, tombstones) = (footer.number(8), footer.number(8));
    assert_eq!(footer.number(8), number);
    assert_eq!(footer.number(8), placed(number, at as u64, &file[at..][..88]));
    let ends = sections.map(|(offset, len)| offset + len);
    assert_eq!(ends, [index.0, properties.0, at]);
    let section = |(offset, len)| unsealed(file, number, offset, len);
    let (blocks, end) = match kind {
        0 => {
            let index = section(index);
            let mut index = Cursor(&index);
            (flat(&mut index), filter.0)
        }
        _ => tree(file, number, &section(index), filter.0),
    };
    let (mut found, mut offset) = (Vec::new(), 0);
    for (separator, len) in blocks {
        found.extend(block(&unsealed(file, number, offset, len)));
        assert!(found.last().is_some_and(|(key, _)| *key <= separator));
        offset += len;
    }
    assert_eq!((offset, found.len() as u64), (end, count));
    let deletions = found.iter().filter(|(_, version)| matches!(version.kind, 0 | 3)).count();
    assert_eq!(deletions as u64, tombstones);
    if filter.1 > 0 {
        let filter = section(filter);
        assert!(found.iter().all(|(key, _)| may_have(&filter, key)));
        let absent = (0..1000).filter(|n| may_have(&filter, format!("absent {n}").as_bytes()));
        assert!(absent.count() < 50);
    }
    check_properties(&section(properties), &found);
    found
}

fn unsealed(file: &[u8], number: u64, offset: usize, len: usize) -> Vec<u8> {
    let sealed = &file[offset..][..len];
    let (bytes, mut checksum) = (&sealed[..len - 8], Cursor(&sealed[len - 8..]));
    assert_eq!(checksum.number(8), placed(number, offset as u64, bytes));
    let (stored, mut codec) = (&bytes[..len - 13], Cursor(&bytes[len - 13..]));
    decompress(codec.number(1) as u8, stored, codec.number(4) as usize)
}

fn flat(index: &mut Cursor<'_>) -> Vec<Indexed> {
    let count = index.number(4);
    let prefix = index.string();
    (0..count).map(|_| ([prefix, index.string()].concat(), index.size())).collect()
}

/// The data blocks of a tree, and where they end.
fn tree(file: &[u8], number: u64, root: &[u8], end: usize) -> (Vec<Indexed>, usize) {
    let mut root = Cursor(root);
    let nodes_at = root.number(8) as usize;
    let nodes = flat(&mut Cursor(root.string()));
    let (mut blocks, mut offset) = (Vec::new(), nodes_at);
    for (separator, len) in nodes {
        let (count, bytes) = (root.size(), root.size());
        let entries = block(&unsealed(file, number, offset, len));
        assert_eq!((entries.len(), &entries[count - 1].0), (count, &separator));
        let mut so_far = 0;
        for (key, Version { value, .. }) in entries {
            let mut value = Cursor(&value);
            assert_eq!(value.size(), so_far);
            blocks.push((key, value.size()));
            so_far += blocks[blocks.len() - 1].1;
        }
        assert_eq!(so_far, bytes);
        offset += len;
    }
    assert!(root.is_empty() && offset == end);
    (blocks, nodes_at)
}

fn block(raw: &[u8]) -> Vec<(Vec<u8>, Version)> {
    let mut block = Cursor(raw);
    let (count, prefix_len) = (block.number(4), block.number(2) as usize);
    let width = if block.number(2) & 1 == 0 { 2 } else { 4 };
    let heads: Vec<_> = (0..count).map(|_| (block.number(4) as u32).to_be_bytes()).collect();
    let lengths: Vec<_> = (0..count).map(|_| block.number(width) as usize).collect();
    let prefix = block.take(prefix_len);
    let mut found = Vec::new();
    for (head, length) in heads.iter().zip(lengths) {
        let mut entry = Cursor(block.take(length));
        let tag = entry.number(1) as u8;
        let sequence = entry.number(usize::from(tag >> 4 & 7));
        let expires = (tag & 0x80 != 0).then(|| entry.varint());
        let (suffix_len, value_len) = (entry.size(), entry.size());
        let tail = entry.take(suffix_len.saturating_sub(4));
        let key = [prefix, &head[..suffix_len.min(4)], tail].concat();
        let value = entry.take(value_len).to_vec();
        assert!(entry.is_empty());
        found.push((key, Version { sequence, kind: tag & 0xf, expires, value }));
    }
    assert!(block.is_empty() && !found.is_empty());
    found
}

fn check_properties(properties: &[u8], entries: &[(Vec<u8>, Version)]) {
    let (mut rest, mut sketch) = (Cursor(properties), vec![0_u8; 256]);
    let keys: BTreeSet<_> = entries.iter().map(|(key, _)| &key[..]).collect();
    for key in &keys {
        let m = plain(key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let m = m ^ (m >> 32);
        let rank = 1 + ((m >> 8) | 1 << 55).trailing_zeros() as u8;
        let register = &mut sketch[(m & 255) as usize];
        *register = rank.max(*register);
    }
    let sequences = || entries.iter().map(|(_, version)| version.sequence);
    while !rest.is_empty() {
        let (tag, bytes) = (rest.varint(), rest.string());
        let number = || Some(Cursor(bytes).number(8));
        match tag {
            1 => assert_eq!(Some(&bytes), keys.first()),
            2 => assert_eq!(Some(&bytes), keys.last()),
            3 => assert_eq!(number(), sequences().min()),
            4 => assert_eq!(number(), sequences().max()),
            5 => assert_eq!(number(), Some(keys.len() as u64)),
            9 => assert_eq!(bytes, sketch),
            _ => {}
        }
    }
}
