//! Several real threads on one index; everything they promise is checked while and after they run.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::super::*;
use super::differential::{Random, new_index};

const WRITERS: u64 = 3;

fn shape() -> (u64, u64) {
    if cfg!(miri) { (1, 6) } else { (12, 8000) }
}

/// A key that all writers use, and a value that says who wrote it, when, and under which key.
fn key_for(number: u64, style: u64) -> Vec<u8> {
    match style % 3 {
        0 => number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec(),
        1 => format!("user{number:012}").into_bytes(),
        _ => [&[0xFF; 20][..], &number.to_be_bytes()[..]].concat(),
    }
}

fn value_for(key: &[u8], seq: u64) -> Vec<u8> {
    let mut value = seq.to_le_bytes().to_vec();
    value.extend_from_slice(key);
    value
}

fn check_version(key: &[u8], version: ValueVersion<'_>) {
    assert_eq!(version.value, value_for(key, version.seq), "a foreign or half-written value");
    assert_eq!(version.kind, version.seq as u8);
}

/// Writer `writer` inserts its keys; sequence numbers are unique over all writers.
fn write<I: OrderedIndex>(index: &I, round: &Round, writer: u64, done: &AtomicU64) {
    let mut random = Random::from_seed(round.seed ^ writer);
    for step in 0..round.inserts {
        let seq = 1 + step * WRITERS + writer;
        // Own keys in an order of this round's style, and now and then a key that all fight for.
        let number = match random.below(8) {
            0 => 1_000_000 + random.below(10),
            _ => step * WRITERS + writer,
        };
        let key = key_for(number, round.style);
        let value = value_for(&key, seq);
        let version = NewVersion { seq, kind: seq as u8, expires_at: seq % 2, value: &value };
        index.insert(&key, version).unwrap();
        done.store(seq, Ordering::Release);
        if step % 16 == 0 {
            let found = index.get(&key, u64::MAX).expect("own write is visible");
            assert!(found.seq >= seq);
            check_version(&key, index.get(&key, seq).expect("own version is visible"));
        }
    }
}

/// Reads while the writers are at it: what was done before a read must be found by it.
fn read<I: OrderedIndex>(index: &I, round: &Round, done: &[AtomicU64]) {
    let mut random = Random::from_seed(round.seed ^ 99);
    let last = round.inserts.saturating_sub(1) * WRITERS;
    let running = || done.iter().any(|seq| seq.load(Ordering::Acquire) <= last);
    while running() {
        let mut cursor = index.cursor();
        let mut before: Option<&[u8]> = None;
        let forward = random.below(2) == 0;
        if forward {
            cursor.seek_to_first()
        } else {
            cursor.seek_to_last()
        }
        let bound = random.below(2 * round.inserts);
        let mut steps = 0;
        while cursor.valid() && steps < bound {
            let key = cursor.key();
            if let Some(before) = before {
                assert!(if forward { before < key } else { before > key }, "out of order");
            }
            let sequences: Vec<_> = cursor.versions().map(|version| version.seq).collect();
            assert!(sequences.is_sorted_by(|newer, older| newer > older), "{sequences:?}");
            check_version(key, cursor.versions().next().expect("a key has a version"));
            before = Some(key);
            steps += 1;
            if forward { cursor.next() } else { cursor.prev() }
        }
        count_is_complete(index, round, done, forward);
    }
}

/// A scan sees at least the keys whose insert returned before the scan began.
fn count_is_complete<I: OrderedIndex>(index: &I, round: &Round, done: &[AtomicU64], forward: bool) {
    let mut expected: Vec<Vec<u8>> = Vec::new();
    for (writer, seq) in done.iter().enumerate() {
        let mut random = Random::from_seed(round.seed ^ writer as u64);
        let upto = seq.load(Ordering::Acquire);
        for step in 0..round.inserts {
            if 1 + step * WRITERS + writer as u64 > upto {
                break;
            }
            if random.below(8) == 0 {
                random.below(10);
            } else {
                expected.push(key_for(step * WRITERS + writer as u64, round.style));
            }
        }
    }
    expected.sort();
    let mut seen = Vec::new();
    let mut cursor = index.cursor();
    if forward {
        cursor.seek_to_first()
    } else {
        cursor.seek_to_last()
    }
    while cursor.valid() {
        seen.push(cursor.key());
        if forward { cursor.next() } else { cursor.prev() }
    }
    if !forward {
        seen.reverse();
    }
    let mut seen = seen.into_iter();
    for key in &expected {
        assert!(seen.any(|found| found == key), "{key:?} was inserted and is not in the scan");
    }
}

struct Round {
    seed: u64,
    style: u64,
    inserts: u64,
}

fn stress<I: OrderedIndex>(name: &str, keys: impl Fn(&I) -> Option<u64>) {
    let mut random = Random::new(name, 7_041_776);
    let (rounds, inserts) = shape();
    for style in 0..rounds {
        let round = Round { seed: random.next(), style, inserts };
        let index = new_index::<I>();
        let done: Vec<_> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
        let start = Barrier::new(WRITERS as usize + 1);
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (index, round, done, start) = (&index, &round, &done[writer as usize], &start);
                scope.spawn(move || {
                    start.wait();
                    write(index, round, writer, done);
                });
            }
            start.wait();
            read(&index, &round, &done);
        });
        check_final(&index, &round, keys(&index));
    }
}

/// Every insert of every writer is there, under its own sequence number, and each key was counted
/// once by an index that counts them.
fn check_final<I: OrderedIndex>(index: &I, round: &Round, keys: Option<u64>) {
    let mut expected: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
    for writer in 0..WRITERS {
        let mut random = Random::from_seed(round.seed ^ writer);
        for step in 0..round.inserts {
            let number = match random.below(8) {
                0 => 1_000_000 + random.below(10),
                _ => step * WRITERS + writer,
            };
            let seq = 1 + step * WRITERS + writer;
            expected.entry(key_for(number, round.style)).or_default().push(seq);
        }
    }
    assert!(keys.is_none_or(|keys| keys == expected.len() as u64), "{keys:?}");
    let mut cursor = index.cursor();
    cursor.seek_to_first();
    for (key, sequences) in &mut expected {
        sequences.sort_by_key(|seq| std::cmp::Reverse(*seq));
        assert_eq!(cursor.key(), key.as_slice());
        let found: Vec<_> = cursor.versions().map(|version| version.seq).collect();
        assert_eq!(&found, sequences);
        cursor.versions().for_each(|version| check_version(key, version));
        cursor.next();
    }
    assert!(!cursor.valid());
}

#[test]
fn stress_skiplist() {
    stress::<SkipList>("skiplist", |_| None);
}

#[test]
fn stress_btree() {
    stress::<BPlusTree>("btree", |tree| Some(tree.keys()));
}

#[test]
fn stress_btree_tiny_nodes() {
    stress::<BPlusTree<4>>("btree of 4", |tree| Some(tree.keys()));
}
