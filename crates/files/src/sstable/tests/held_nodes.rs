//! Index nodes that open tables hold: what they return, when they are held, and what they take.

use super::damage::right_or_corrupt_in;
use super::*;
use crate::sstable::block::{BlockHolder, Place, seal_stored};
use crate::sstable::index::Index;
use std::sync::atomic::{AtomicU64, Ordering};
use tidesdb_sys::large_vec::refusals;

/// A node of three separators takes no more, however long these are.
const ONE_NODE_BYTES: u64 = 4 << 16;

/// Room for so many bytes of nodes.
#[derive(Debug)]
struct Room {
    most: u64,
    held: AtomicU64,
    /// How often the system has no memory for all nodes in one piece.
    refused: AtomicU64,
}

impl Room {
    fn of(most: u64) -> Arc<Self> {
        Self::refusing(most, 0)
    }

    fn refusing(most: u64, refused: u64) -> Arc<Self> {
        Arc::new(Self { most, held: AtomicU64::new(0), refused: AtomicU64::new(refused) })
    }

    fn held(&self) -> u64 {
        // ORDERING: one thread; here and below.
        self.held.load(Ordering::Relaxed)
    }
}

impl NodeMemory for Room {
    fn has_room(&self) -> bool {
        self.held() < self.most
    }

    fn has_room_for(&self, bytes: u64) -> bool {
        let left = self.refused.load(Ordering::Relaxed);
        if left > 0 {
            self.refused.store(left - 1, Ordering::Relaxed);
            refusals::order(0, 1);
        }
        self.held().saturating_add(bytes) <= self.most
    }

    fn take(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn take_table(&self, bytes: u64) {
        self.take(bytes);
    }

    fn give_back_table(&self, bytes: u64) {
        self.give_back(bytes);
    }
}

fn nodes_held(table: &Table) -> (usize, usize) {
    let Index::Tree(index) = &table.index else { panic!("a flat index") };
    let held = (0..index.nodes()).filter(|&node| index.held(node).is_some()).count();
    (held, index.nodes())
}

#[test]
fn tables_answer_the_same_whatever_nodes_they_hold() {
    let mut rng = seeded();
    for (shape, block_size, model) in shapes(&mut rng) {
        for form in [FORMS[1], FORMS[2]] {
            let (file, _) = write(&model, TableOptions { index: form, ..options(block_size) });
            for most in [0, 700, u64::MAX] {
                let context = format!("{shape}, {form:?}, room for {most}");
                let room = Room::of(most);
                let table = open(&file).unwrap().holding_nodes(room.clone());
                let len = file.bytes().len();
                assert!(!right_or_corrupt_in(&table, &model, len, &context), "{context}");
                for _ in 0..200 {
                    let key = random_bytes(&mut rng, 12);
                    let snapshot = rng.below(50);
                    let found = answer(&table, &key, snapshot).unwrap();
                    assert_eq!(found, expected(&model, &key, snapshot), "{context}, {key:?}");
                    let mut walk = TableIterator::new(&table, Uncached, Readahead::None);
                    walk.seek(&key).unwrap();
                    let next = model.range((key.clone(), Reverse(u64::MAX))..).next();
                    let stands = walk.valid().then(|| (walk.key().to_vec(), Reverse(walk.seq())));
                    assert_eq!(stands.as_ref(), next.map(|(at, _)| at), "{context}, {key:?}");
                }
                let (held, nodes) = nodes_held(&table);
                match most {
                    0 => assert_eq!((held, room.held()), (0, 0), "{context}"),
                    // Of nodes that lookups only walk into, for more versions of a key, none is
                    // held.
                    u64::MAX => assert!(held > 0 || nodes == 0, "{context}: {held} of {nodes}"),
                    _ => assert!(room.held() < most + ONE_NODE_BYTES, "{context}: {}", room.held()),
                }
                drop(table);
                assert_eq!(room.held(), 0, "{context}");
            }
        }
    }
}

/// A walk over a table without lookups would take the room of others.
#[test]
fn walks_make_a_table_hold_nothing_and_checks_read_the_file() {
    let model = many_entries();
    let (file, _) = write(&model, TableOptions { index: FORMS[1], ..options(1024) });
    let table = open(&file).unwrap().holding_nodes(Room::of(u64::MAX));
    let mut walk = TableIterator::new(&table, Uncached, Readahead::None);
    walk.seek_to_first().unwrap();
    while walk.valid() {
        walk.next().unwrap();
    }
    table.verify().unwrap();
    assert_eq!(nodes_held(&table).0, 0);
    for (key, _) in model.keys() {
        assert!(table.lookup(key, u64::MAX, &Uncached).unwrap().is_some());
    }
    let (held, nodes) = nodes_held(&table);
    assert!(2 * held >= nodes && nodes > 3, "{held} of {nodes}");
    // What is damaged on the disk is found, although lookups do not need it any more.
    let Index::Tree(index) = &table.index else { panic!("a flat index") };
    assert!(index.whole().is_some());
    let place = index.node_handle(1).unwrap();
    file.change(|bytes| bytes[place.offset as usize + 5] ^= 1);
    assert!(table.lookup(&model.keys().next().unwrap().0, u64::MAX, &Uncached).is_ok());
    assert_eq!(table.verify().unwrap_err().kind(), ErrorKind::Corruption);
}

/// A node that passes its checksum and contradicts itself is never held.
#[test]
fn a_node_with_a_gap_between_its_leaves_is_not_held() {
    let model = many_entries();
    let plain = TableOptions { compression: Compression::None, index: FORMS[1], ..options(1024) };
    let (file, _) = write(&model, plain);
    let table = open(&file).unwrap().holding_nodes(Room::of(u64::MAX));
    let Index::Tree(index) = &table.index else { panic!("a flat index") };
    let place = index.node_handle(0).unwrap();
    let node = table.read_block(place, &mut Vec::new()).unwrap();
    let second = index.leaf_handle(0, node.view(), 1).unwrap();
    // The value of the second entry begins with the offset of its leaf.
    let mut value = Vec::new();
    crate::sstable::index::tree::encode_leaf(second.offset, second.len, &mut value);
    let mut forged = value.clone();
    crate::sstable::index::tree::encode_leaf(second.offset + 1, second.len - 1, &mut forged);
    let forged = forged.split_off(value.len());
    assert_eq!(forged.len(), value.len());
    file.change(|bytes| {
        let (from, to) = (place.offset as usize, place.offset as usize + place.len as usize);
        let raw_len = place.len as usize - 13;
        let mut raw = bytes[from..from + raw_len].to_vec();
        let at = raw.windows(value.len()).position(|bytes| bytes == value).unwrap();
        raw[at..at + value.len()].copy_from_slice(&forged);
        let place = Place { identity: IDENTITY, offset: place.offset };
        let mut sealed = Vec::new();
        seal_stored(&raw, Compression::None, place, &mut Vec::new(), &mut sealed).unwrap();
        bytes[from..to].copy_from_slice(&sealed);
    });
    let (key, _) = model.keys().next().unwrap();
    assert!(table.lookup(key, u64::MAX, &Uncached).unwrap().is_some());
    assert_eq!(nodes_held(&table).0, 0);
    assert_eq!(table.verify().unwrap_err().kind(), ErrorKind::Corruption);
}

/// Once lookups have needed half of the nodes the table holds all of them, where there is room.
#[test]
fn all_nodes_are_held_in_one_piece_once_half_of_them_were_needed() {
    let model = many_entries();
    let (file, _) = write(&model, TableOptions { index: FORMS[1], ..options(1024) });
    let keys: Vec<_> = model.keys().map(|(key, _)| key.clone()).collect();
    let needed = |most: u64, share: usize| {
        let room = Room::of(most);
        let table = open(&file).unwrap().holding_nodes(room.clone());
        for key in keys.iter().take(keys.len() / share) {
            assert!(table.lookup(key, u64::MAX, &Uncached).unwrap().is_some());
        }
        let (held, nodes) = nodes_held(&table);
        let Index::Tree(index) = &table.index else { panic!("a flat index") };
        (index.whole().is_some(), held, nodes, room.held())
    };
    let (is_whole, held, nodes, _) = needed(u64::MAX, 4);
    assert!(!is_whole && held > 0 && held < nodes / 2 + 1, "{held} of {nodes}");
    let (is_whole, held, nodes, bytes) = needed(u64::MAX, 1);
    assert!(is_whole && held <= nodes / 2 + 1, "{held} of {nodes}");
    // With room for all of the nodes but not for the whole besides.
    let (is_whole, held, _, _) = needed(bytes - 1, 1);
    assert!(!is_whole && held == nodes, "{held} of {nodes}");
}

/// A want of memory that had passed kept a table from holding its nodes in one piece for good.
#[test]
fn all_nodes_are_held_in_one_piece_once_there_is_memory() {
    let model = many_entries();
    let (file, _) = write(&model, TableOptions { index: FORMS[1], ..options(1024) });
    let (room, before) = (Room::refusing(u64::MAX, 2), refusals::so_far());
    let table = open(&file).unwrap().holding_nodes(room.clone());
    for (key, _) in model.keys() {
        assert!(table.lookup(key, u64::MAX, &Uncached).unwrap().is_some());
    }
    assert_eq!(refusals::so_far() - before, 2);
    let Index::Tree(index) = &table.index else { panic!("a flat index") };
    assert!(index.whole().is_some());
    drop(table);
    assert_eq!(room.held(), 0);
}

/// The whole index shows what is behind the next block as a node does: a walk that did not see it
/// would read block by block.
#[test]
fn walks_read_as_far_ahead_in_a_table_that_holds_all_of_its_nodes() {
    let model = many_entries();
    let (file, _) = write(&model, TableOptions { index: FORMS[1], ..options(1024) });
    let table = open(&file).unwrap().holding_nodes(Room::of(u64::MAX));
    for (key, _) in model.keys() {
        assert!(table.lookup(key, u64::MAX, &Uncached).unwrap().is_some());
    }
    let Index::Tree(index) = &table.index else { panic!("a flat index") };
    assert!(index.whole().is_some());
    let before = file.reads();
    let mut walk = TableIterator::new(&table, Uncached, Readahead::Bytes(64 << 10));
    walk.seek_to_first().unwrap();
    while walk.valid() {
        walk.next().unwrap();
    }
    let pieces = index.leaf_bytes() >> 16;
    let reads = file.reads() - before;
    assert!(reads as u64 <= pieces + 2, "{reads} reads of {pieces} pieces");
}

/// A node that can't be read keeps lookups in others from nothing.
#[test]
fn a_damaged_node_leaves_lookups_elsewhere_as_they_were() {
    let model = many_entries();
    let (file, _) = write(&model, TableOptions { index: FORMS[1], ..options(1024) });
    let table = open(&file).unwrap().holding_nodes(Room::of(u64::MAX));
    let Index::Tree(index) = &table.index else { panic!("a flat index") };
    let place = index.node_handle(index.nodes() - 1).unwrap();
    file.change(|bytes| bytes[place.offset as usize + 5] ^= 1);
    let found = |key: &[u8]| table.lookup(key, u64::MAX, &Uncached).map(|found| found.is_some());
    let (mut answered, mut refused) = (0, 0);
    for (key, _) in model.keys() {
        match found(key) {
            Ok(is_there) => {
                assert!(is_there && refused == 0);
                answered += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && answered > refused, "{answered} and {refused}");
    assert!(index.whole().is_none());
}
