//! Bulk loads against a `BTreeMap`, and insertions into what was loaded.

use super::super::btree::Unlinked;
use super::super::*;
use super::differential::{Model, Random, check_all, check_place, model_insert, random_key};
use crate::arena::{BlockPool, Part};

/// Loads `keys`, of which the later is the newer version, in parts that a few bounds cut.
fn load<const FANOUT: usize>(
    keys: &[Vec<u8>],
    bounds: u64,
    random: &mut Random,
) -> BPlusTree<FANOUT> {
    let tree = BPlusTree::<FANOUT>::with_arena(Arena::new(BlockPool::new(0), u64::MAX));
    let first = keys.first().map_or(&[][..], Vec::as_slice);
    let shared = |key: &Vec<u8>| first.iter().zip(key).take_while(|(a, b)| a == b).count();
    let skip = keys.iter().map(shared).min().unwrap_or(0);
    let mut parts = [Part::default(), Part::default()];
    let mut prepare = |(n, key): (usize, &Vec<u8>)| {
        let version = version_of(n as u64, key);
        let part = &mut parts[random.below(2) as usize];
        tree.prepare(part, key, version, (skip, n as u64)).unwrap()
    };
    let unlinked: Vec<Unlinked> = keys.iter().enumerate().map(&mut prepare).collect();
    let mut bounds: Vec<u64> = (0..bounds)
        .filter_map(|_| Some(unlinked.get(random.below(unlinked.len() as u64) as usize)?.head()))
        .collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut buckets = vec![Vec::new(); bounds.len() + 1];
    // Threads note what they decode in any order of each other's.
    for unlinked in unlinked.iter().rev() {
        buckets[bounds.partition_point(|&bound| bound <= unlinked.head())].push(*unlinked);
    }
    let loaded = buckets.iter_mut().map(|bucket| tree.load_part(bucket, skip).unwrap()).collect();
    tree.join(loaded, skip).unwrap();
    tree
}

fn version_of(seq: u64, key: &[u8]) -> NewVersion<'_> {
    NewVersion { seq, kind: seq as u8, expires_at: seq % 3, value: key }
}

fn loads<const FANOUT: usize>(seed: u64) {
    let mut random = Random::new("loads", seed);
    let rounds = if cfg!(miri) { 3 } else { 60 };
    for round in 0..rounds {
        let most = [0, 1, 5, 60, 3000][round as usize % 5].min(if cfg!(miri) { 60 } else { 3000 });
        let (shapes, bounds) = (1 + random.below(5), random.below(6));
        let mut keys = Vec::new();
        for _ in 0..most {
            let shape = (round + random.below(shapes)) % 5;
            keys.push(random_key(&mut random, shape));
        }
        let tree = load::<FANOUT>(&keys, if keys.is_empty() { 0 } else { bounds }, &mut random);
        let mut model = Model::new();
        for (n, key) in keys.iter().enumerate() {
            model_insert(&mut model, key, version_of(n as u64, key));
        }
        check_all(&tree, &model);
        assert_eq!(tree.keys(), model.len() as u64);
        for n in 0..most + 100 {
            let shape = random.below(5);
            let key = random_key(&mut random, shape);
            let version = version_of(random.below(2 * most + 1), &key);
            tree.insert(&key, version).unwrap();
            model_insert(&mut model, &key, version);
            if n % 5 == 0 {
                check_place(&tree, &model, &mut random, &key);
            }
        }
        check_all(&tree, &model);
        assert_eq!(tree.keys(), model.len() as u64);
    }
}

#[test]
fn what_is_loaded_is_what_insertions_would_have_made() {
    loads::<64>(1);
    loads::<3>(2);
    loads::<4>(3);
    loads::<7>(4);
}

/// Heads that say nothing: long common parts behind the first byte, and zeros at the end.
#[test]
fn keys_with_equal_heads_are_loaded_in_their_order() {
    let mut random = Random::new("equal heads", 5);
    let count = if cfg!(miri) { 100 } else { 20_000 };
    let key = |n: u64| match n % 3 {
        0 => format!("a/the same for many/{:06}/{}", n * 7919 % 1000, n % 2).into_bytes(),
        1 => vec![0; (n * 7919 % 500) as usize],
        _ => format!("b/the same for many{}", n % 4).into_bytes(),
    };
    let keys: Vec<Vec<u8>> = (0..count).map(key).collect();
    let tree = load::<64>(&keys, 5, &mut random);
    let mut model = Model::new();
    for (n, key) in keys.iter().enumerate() {
        model_insert(&mut model, key, version_of(n as u64, key));
    }
    check_all(&tree, &model);
}

#[test]
fn a_tree_that_is_not_empty_refuses_a_load_and_takes_its_versions_one_by_one() {
    let tree = BPlusTree::<64>::with_arena(Arena::new(BlockPool::new(0), u64::MAX));
    tree.insert(b"there", version_of(1, b"there")).unwrap();
    let mut part = Part::default();
    let mut prepare =
        |key: &'static [u8], n| tree.prepare(&mut part, key, version_of(n, key), (0, n)).unwrap();
    let mut unlinked = [prepare(b"there", 3), prepare(b"here", 2)];
    let loaded = tree.load_part(&mut unlinked.clone(), 0).unwrap();
    assert_eq!(tree.join(vec![loaded], 0), Err(ArenaFull));
    assert_eq!(tree.get(b"here", 9), None);
    tree.sort_unlinked(&mut unlinked, 0);
    unlinked.iter().for_each(|unlinked| tree.insert_unlinked(unlinked).unwrap());
    assert_eq!(tree.get(b"here", 9).map(|version| version.seq), Some(2));
    assert_eq!(tree.versions(b"there").map(|version| version.seq).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(tree.keys(), 2);
}
