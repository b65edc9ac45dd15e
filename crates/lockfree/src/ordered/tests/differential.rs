//! Random operations against a `BTreeMap`, and directed cases that random keys would rarely meet.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::*;
use crate::arena::BlockPool;

/// What an index should hold: per key the versions, newest first, later inserts before equals.
pub(super) type Model = BTreeMap<Vec<u8>, Vec<(u64, u8, u64, Vec<u8>)>>;

pub(super) struct Random(u64);

impl Random {
    /// A generator whose seed is printed and may be set by the environment.
    pub(super) fn new(name: &str, default_seed: u64) -> Self {
        let seed = std::env::var("TIDESDB_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or(default_seed);
        println!("{name}: TIDESDB_SEED={seed}");
        Self(seed)
    }

    /// A generator derived from another one's seed.
    pub(super) fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

pub(super) fn new_index<I: OrderedIndex>() -> I {
    I::with_arena(Arena::new(BlockPool::new(0), u64::MAX))
}

pub(super) fn random_key(random: &mut Random, shape: u64) -> Vec<u8> {
    match shape {
        0 => random.next().to_be_bytes()[..1 + random.below(8) as usize].to_vec(),
        1 => format!("user{:012}", random.below(2000)).into_bytes(),
        2 => {
            // Zero bytes at the end, where padded heads are equal and lengths decide.
            let mut key = vec![b'k'; random.below(3) as usize];
            key.extend(vec![0; random.below(12) as usize]);
            key
        }
        3 => {
            let prefix = ["a", "tenant/one/", "tenant/two/", "zzzzzzzzzzzzzzzzzzzzzzzz/"];
            let prefix = prefix[random.below(4) as usize];
            format!("{prefix}{:x}", random.below(5000)).into_bytes()
        }
        _ => vec![random.below(256) as u8; 1 + random.below(40) as usize],
    }
}

pub(super) fn model_insert(model: &mut Model, key: &[u8], version: NewVersion<'_>) {
    let versions = model.entry(key.to_vec()).or_default();
    let at = versions.partition_point(|other| other.0 > version.seq);
    let stored = (version.seq, version.kind, version.expires_at, version.value.to_vec());
    versions.insert(at, stored);
}

fn owned(version: ValueVersion<'_>) -> (u64, u8, u64, Vec<u8>) {
    (version.seq, version.kind, version.expires_at, version.value.to_vec())
}

pub(super) fn check_all<I: OrderedIndex>(index: &I, model: &Model) {
    let mut cursor = index.cursor();
    cursor.seek_to_first();
    for (key, versions) in model {
        assert!(cursor.valid());
        assert_eq!(cursor.key(), key.as_slice());
        assert_eq!(&cursor.versions().map(owned).collect::<Vec<_>>(), versions);
        cursor.next();
    }
    assert!(!cursor.valid());
    cursor.seek_to_last();
    for key in model.keys().rev() {
        assert_eq!(cursor.key(), key.as_slice());
        cursor.prev();
    }
    assert!(!cursor.valid());
}

pub(super) fn check_place<I: OrderedIndex>(
    index: &I,
    model: &Model,
    random: &mut Random,
    key: &[u8],
) {
    let snapshot = random.below(60);
    let versions = model.get(key);
    let expected = versions.and_then(|all| all.iter().find(|v| v.0 <= snapshot)).cloned();
    assert_eq!(index.get(key, snapshot).map(owned), expected, "get {key:?} at {snapshot}");
    let mut cursor = index.cursor();
    cursor.seek(key);
    for (expected, _) in model.range(key.to_vec()..).take(5) {
        assert_eq!(cursor.key(), expected.as_slice(), "seek {key:?}");
        cursor.next();
    }
    cursor.seek_for_prev(key);
    for (expected, _) in model.range(..=key.to_vec()).rev().take(5) {
        assert_eq!(cursor.key(), expected.as_slice(), "seek_for_prev {key:?}");
        cursor.prev();
    }
    // Turning round must land on the neighbour, not skip it.
    cursor.seek(key);
    let after: Vec<_> = model.range(key.to_vec()..).take(2).map(|(key, _)| key).collect();
    if let [first, second] = after[..] {
        cursor.next();
        assert_eq!(cursor.key(), second.as_slice());
        cursor.prev();
        assert_eq!(cursor.key(), first.as_slice());
        cursor.prev();
        let before = model.range(..first.clone()).next_back();
        assert_eq!(cursor.valid(), before.is_some());
        assert_eq!(cursor.key(), before.map_or(&[][..], |(key, _)| key.as_slice()));
    }
}

fn random_operations<I: OrderedIndex>(name: &str) {
    let mut random = Random::new(name, 20_240_607);
    let (rounds, operations) = if cfg!(miri) { (2, 80) } else { (60, 3000) };
    for round in 0..rounds {
        let index = new_index::<I>();
        let mut model = Model::new();
        let shapes = 1 + random.below(5);
        for operation in 0..operations {
            let shape = (round + random.below(shapes)) % 5;
            let key = random_key(&mut random, shape);
            if random.below(4) > 0 {
                let value = vec![operation as u8; random.below(40) as usize];
                let version = NewVersion {
                    seq: random.below(50),
                    kind: random.below(256) as u8,
                    expires_at: if random.below(3) == 0 { random.next() } else { 0 },
                    value: &value,
                };
                index.insert(&key, version).unwrap();
                model_insert(&mut model, &key, version);
            } else {
                check_place(&index, &model, &mut random, &key);
            }
        }
        check_all(&index, &model);
    }
}

#[test]
fn random_operations_skiplist() {
    random_operations::<SkipList>("skiplist");
}

#[test]
fn random_operations_btree() {
    random_operations::<BPlusTree>("btree");
}

#[test]
fn random_operations_btree_tiny_nodes() {
    random_operations::<BPlusTree<3>>("btree of 3");
    random_operations::<BPlusTree<4>>("btree of 4");
    random_operations::<BPlusTree<7>>("btree of 7");
}

fn version(seq: u64, value: &[u8]) -> NewVersion<'_> {
    NewVersion { seq, kind: 1, expires_at: 0, value }
}

fn orders<I: OrderedIndex>() {
    let count: u64 = if cfg!(miri) { 12 } else { 20_000 };
    type KeyOf = fn(u64) -> Vec<u8>;
    let shapes: [KeyOf; 3] = [
        |n| n.to_be_bytes().to_vec(),
        |n| format!("user{n:016}").into_bytes(),
        |n| format!("{}/{n:08}", ["a", "bb", "c"][n as usize % 3]).into_bytes(),
    ];
    for key_of in shapes {
        for step in [1, count - 1, 7919] {
            let index = new_index::<I>();
            let mut model = Model::new();
            for n in 0..count {
                let key = key_of((n * step) % count);
                index.insert(&key, version(n, b"v")).unwrap();
                model_insert(&mut model, &key, version(n, b"v"));
            }
            check_all(&index, &model);
        }
    }
}

#[test]
fn ascending_descending_and_scattered_keys() {
    orders::<SkipList>();
    orders::<BPlusTree>();
    orders::<BPlusTree<3>>();
}

#[test]
fn ascending_keys_fill_their_leaves() {
    let index = new_index::<BPlusTree>();
    let count: u64 = if cfg!(miri) { 300 } else { 100_000 };
    for n in 0..count {
        index.insert(format!("user{n:012}").as_bytes(), version(n, &[])).unwrap();
    }
    let record_bytes = 8 + 16 + 24;
    let node_bytes = index.arena().used_bytes() - count * record_bytes;
    // Full leaves cost 13 lines for 64 keys, half-full ones twice that.
    assert!(node_bytes < count * 18 + 8192, "{} bytes of nodes for {count} keys", node_bytes);
}

fn edges<I: OrderedIndex>() {
    let index = new_index::<I>();
    let mut cursor = index.cursor();
    for seek in [I::Cursor::seek_to_first, I::Cursor::seek_to_last, I::Cursor::next] {
        seek(&mut cursor);
        assert!(!cursor.valid() && cursor.key().is_empty() && cursor.versions().next().is_none());
    }
    cursor.seek(b"");
    assert!(!cursor.valid());
    assert_eq!(index.get(b"x", u64::MAX), None);

    let long = vec![7; 3 << 20];
    index.insert(b"", version(1, b"empty key")).unwrap();
    index.insert(&long, version(2, &long)).unwrap();
    index.insert(b"k", version(u64::MAX, b"")).unwrap();
    index.insert(b"k", version(0, b"oldest")).unwrap();
    assert_eq!(index.get(b"", 1).unwrap().value, b"empty key");
    assert_eq!(index.get(&long, 2).unwrap().value, long);
    assert_eq!(index.get(b"k", u64::MAX - 1).unwrap().value, b"oldest");
    assert_eq!(index.versions(b"k").count(), 2);
    assert_eq!(index.versions(b"j").count(), 0);

    let used = index.arena().used_bytes();
    let too_long = vec![0; MAX_KEY_BYTES + 1];
    assert_eq!(index.insert(&too_long, version(1, b"")), Err(ArenaFull));
    assert_eq!(index.arena().used_bytes(), used);
}

#[test]
fn empty_index_and_extreme_sizes() {
    edges::<SkipList>();
    edges::<BPlusTree>();
}

fn full_arena<I: OrderedIndex>() {
    let index = I::with_arena(Arena::new(BlockPool::new(0), 24 << 10));
    let mut inserted = 0_u64;
    while index.insert(&inserted.to_be_bytes(), version(1, &[0; 50])).is_ok() {
        inserted += 1;
    }
    assert!(inserted > 100 && index.arena().allocated_bytes() <= 24 << 10);
    assert_eq!(index.insert(&inserted.to_be_bytes(), version(1, &[0; 50])), Err(ArenaFull));
    let found = (0..=inserted).filter(|n| index.get(&n.to_be_bytes(), 1).is_some()).count();
    assert_eq!(found as u64, inserted, "everything acknowledged is there and nothing else");
}

#[test]
fn full_arena_refuses_and_keeps_what_it_has() {
    full_arena::<SkipList>();
    full_arena::<BPlusTree>();
}

#[test]
fn an_index_that_is_hardly_used_is_small() {
    let index = new_index::<BPlusTree>();
    assert!(size_of::<BPlusTree>() < 2048, "{}", size_of::<BPlusTree>());
    assert_eq!(index.arena().allocated_bytes(), 0);
    index.insert(b"key", version(1, b"value")).unwrap();
    assert_eq!(index.arena().allocated_bytes(), 4096);
}

#[test]
fn owned_cursor_keeps_the_index_alive() {
    let index = Arc::new(new_index::<BPlusTree>());
    index.insert(b"a", version(1, b"1")).unwrap();
    index.insert(b"b", version(2, b"2")).unwrap();
    let mut cursor = OwnedCursor::new(Arc::clone(&index));
    drop(index);
    cursor.seek_to_first();
    cursor.next();
    assert_eq!((cursor.key(), cursor.version_at(9).unwrap().value), (&b"b"[..], &b"2"[..]));
    cursor.prev();
    assert_eq!(cursor.key(), b"a");
}

#[test]
fn heads_are_the_padded_bytes_behind_the_prefix() {
    for length in 0..20_u8 {
        let key: Vec<u8> = (1..=length).collect();
        for skip in 0..24 {
            let mut padded = key.get(skip..).unwrap_or(&[]).to_vec();
            padded.resize(8.max(padded.len()), 0);
            let expected = u64::from_be_bytes(*padded.first_chunk().unwrap());
            assert_eq!(head_of(&key, skip), expected, "{length} {skip}");
        }
    }
}

/// Parts between the keys, none much larger than its share.
fn check_parts<const FANOUT: usize>(keys: &[u64], parts: usize) {
    let index: BPlusTree<FANOUT> = new_index();
    for key in keys {
        let version = NewVersion { seq: 1, kind: 0, expires_at: 0, value: b"" };
        index.insert(&key.to_be_bytes(), version).unwrap();
    }
    let bounds = index.keys_between(parts);
    assert_eq!(bounds.len() + 1, parts, "{FANOUT}, {parts} parts of {}", keys.len());
    assert!(bounds.is_sorted_by(|a, b| a < b));
    let of_part = |key: &u64| bounds.partition_point(|bound| **bound <= key.to_be_bytes()[..]);
    let mut counts = vec![0; parts];
    keys.iter().for_each(|key| counts[of_part(key)] += 1);
    let most = keys.len() / parts * 3 / 2;
    assert!(counts.iter().all(|&count| count > 0 && count <= most), "{FANOUT}: {counts:?}");
}

#[test]
fn a_tree_is_cut_into_parts_of_about_equal_size() {
    let mut random = Random::new("a_tree_is_cut_into_parts_of_about_equal_size", 1);
    let ascending: Vec<u64> = (0..20_000).collect();
    let descending: Vec<u64> = ascending.iter().rev().copied().collect();
    let scattered: Vec<u64> = ascending.iter().map(|_| random.next()).collect();
    for keys in [&ascending, &descending, &scattered] {
        for parts in [1, 2, 3, 7] {
            check_parts::<3>(keys, parts);
            check_parts::<4>(keys, parts);
            check_parts::<64>(keys, parts);
        }
    }
    // Trees that just got a level, whose last nodes are nearly empty.
    (100..2_000).step_by(50).for_each(|count| check_parts::<4>(&ascending[..count], 2));
    let empty: BPlusTree = new_index();
    assert!(empty.keys_between(4).is_empty());
    check_parts::<64>(&ascending[..10], 1);
    assert!(empty.keys_between(0).is_empty());
}
