//! Loom models: every interleaving, up to a bound on preemptions, of two threads on a tiny index.
//!
//! The spawned thread is always the reader: loom derives what to try next from the races of what it
//! has tried, and sees a load race with an earlier store, but not a store with an earlier load when
//! the storing thread has loaded the same word in between, as every compare-and-swap loop does.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile models -p tidesdb-lockfree loom_` runs them. Two
//! planted bugs show that they can fail: `scripts/planted-bugs memtable_publish_early` (links
//! published without Release) and `memtable_skip_validation` (readers trust what they read).

use loom::sync::Arc;
use loom::thread;

use super::super::*;
use crate::arena::BlockPool;

type TinyTree = BPlusTree<3>;

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    // A scan of half a dozen keys alone makes several hundred.
    builder.max_branches = 10_000;
    // Counted outside the model's view; a model that hardly branches would prove nothing.
    let count = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let inside = std::sync::Arc::clone(&count);
    builder.check(move || {
        inside.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model();
    });
    let explored = count.load(std::sync::atomic::Ordering::Relaxed);
    println!("{explored} interleavings");
    assert!(explored > 2, "only {explored} interleavings");
}

fn index_with<I: OrderedIndex>(keys: &[&str]) -> Arc<I> {
    let index = I::with_arena(Arena::new(BlockPool::new(0), u64::MAX));
    for key in keys {
        put(&index, key, 1);
    }
    Arc::new(index)
}

fn put<I: OrderedIndex>(index: &I, key: &str, seq: u64) {
    let version = NewVersion { seq, kind: seq as u8, expires_at: 0, value: key.as_bytes() };
    index.insert(key.as_bytes(), version).unwrap();
}

/// The newest sequence number of a key; what is found must be complete.
fn seq_of<I: OrderedIndex>(index: &I, key: &str) -> Option<u64> {
    let version = index.get(key.as_bytes(), u64::MAX)?;
    assert_eq!((version.value, version.kind), (key.as_bytes(), version.seq as u8));
    Some(version.seq)
}

fn keys_of<I: OrderedIndex>(index: &I, forward: bool) -> Vec<String> {
    let mut cursor = index.cursor();
    let mut keys = Vec::new();
    if forward {
        cursor.seek_to_first()
    } else {
        cursor.seek_to_last()
    }
    while cursor.valid() {
        keys.push(String::from_utf8(cursor.key().to_vec()).unwrap());
        if forward { cursor.next() } else { cursor.prev() }
    }
    keys
}

/// A key that was there is found while another one moves it aside.
fn insert_and_read<I: OrderedIndex + 'static>() {
    let index = index_with::<I>(&["b"]);
    let reader = Arc::clone(&index);
    let reading = thread::spawn(move || {
        assert_eq!(seq_of(&*reader, "b"), Some(1));
        assert!(matches!(seq_of(&*reader, "a"), None | Some(2)));
    });
    put(&*index, "a", 2);
    reading.join().unwrap();
    assert_eq!(seq_of(&*index, "a"), Some(2));
}

#[test]
fn loom_btree_insert_and_read() {
    check(3, insert_and_read::<TinyTree>);
}

#[test]
fn loom_skiplist_insert_and_read() {
    check(3, insert_and_read::<SkipList>);
}

/// A new version of a key that is there, without any latch: complete when found.
fn version_and_read<I: OrderedIndex + 'static>() {
    let index = index_with::<I>(&["a"]);
    let reader = Arc::clone(&index);
    let reading = thread::spawn(move || {
        assert!(matches!(seq_of(&*reader, "a"), Some(1 | 2)));
        assert_eq!(reader.get(b"a", 1).map(|version| version.seq), Some(1));
    });
    put(&*index, "a", 2);
    reading.join().unwrap();
    assert_eq!(seq_of(&*index, "a"), Some(2));
}

#[test]
fn loom_btree_version_and_read() {
    check(3, version_and_read::<TinyTree>);
}

#[test]
fn loom_skiplist_version_and_read() {
    check(3, version_and_read::<SkipList>);
}

/// Two threads insert the same new key: one record, both versions, newest first.
fn same_key<I: OrderedIndex + 'static>() {
    let index = index_with::<I>(&["a"]);
    let other = Arc::clone(&index);
    let writing = thread::spawn(move || put(&*other, "k", 3));
    put(&*index, "k", 2);
    writing.join().unwrap();
    let sequences: Vec<_> = index.versions(b"k").map(|version| version.seq).collect();
    assert_eq!(sequences, [3, 2]);
    assert_eq!(keys_of(&*index, true), ["a", "k"]);
}

#[test]
fn loom_btree_same_key() {
    check(3, same_key::<TinyTree>);
}

#[test]
fn loom_skiplist_same_key() {
    check(3, same_key::<SkipList>);
}

/// The first two keys of an empty tree race for planting the root.
#[test]
fn loom_btree_first_keys() {
    check(3, || {
        let index = index_with::<TinyTree>(&[]);
        let other = Arc::clone(&index);
        let writing = thread::spawn(move || put(&*other, "b", 1));
        put(&*index, "a", 1);
        writing.join().unwrap();
        assert_eq!(keys_of(&*index, true), ["a", "b"]);
    });
}

/// A split moves keys to a new leaf under a new root; a reader finds them before and after.
#[test]
fn loom_btree_split_and_read() {
    check(2, || {
        let index = index_with::<TinyTree>(&["b", "d", "f"]);
        let reader = Arc::clone(&index);
        let reading = thread::spawn(move || {
            assert_eq!(seq_of(&*reader, "f"), Some(1));
            assert_eq!(seq_of(&*reader, "b"), Some(1));
        });
        put(&*index, "c", 2);
        reading.join().unwrap();
        assert_eq!(keys_of(&*index, false), ["f", "d", "c", "b"]);
    });
}

/// Scans in both directions while a leaf in the middle splits.
#[test]
fn loom_btree_split_and_scan() {
    for forward in [true, false] {
        check(2, move || {
            // Leaves: b | d e f | h.
            let index = index_with::<TinyTree>(&["b", "d", "f", "h", "e"]);
            let reader = Arc::clone(&index);
            let reading = thread::spawn(move || {
                let mut seen = keys_of(&*reader, forward);
                if !forward {
                    seen.reverse();
                }
                seen.retain(|key| key != "dd");
                assert_eq!(seen, ["b", "d", "e", "f", "h"]);
            });
            put(&*index, "dd", 2);
            reading.join().unwrap();
        });
    }
}

/// Two threads insert different keys into a full leaf: one splits, the other starts over.
#[test]
fn loom_btree_two_splits() {
    check(2, || {
        let index = index_with::<TinyTree>(&["b", "d", "f"]);
        let other = Arc::clone(&index);
        let writing = thread::spawn(move || put(&*other, "c", 2));
        put(&*index, "e", 3);
        writing.join().unwrap();
        assert_eq!(keys_of(&*index, true), ["b", "c", "d", "e", "f"]);
        assert_eq!(keys_of(&*index, false), ["f", "e", "d", "c", "b"]);
    });
}

/// A row remembers a leaf that another thread splits: its next key goes to the new one.
#[test]
fn loom_btree_row_beside_splits() {
    check(2, || row_beside(&["d"]));
    // With two changes of threads these take two minutes.
    check(1, || row_beside(&["d", "e"]));
}

/// A row of keys is inserted while another thread puts single ones.
fn row_beside(puts: &'static [&'static str]) {
    let index = index_with::<TinyTree>(&["b", "f"]);
    let other = Arc::clone(&index);
    let writing = thread::spawn(move || puts.iter().for_each(|key| put(&*other, key, 2)));
    let mut row = index.row();
    for key in ["b", "c", "g"] {
        let value = key.as_bytes();
        let version = NewVersion { seq: 3, kind: 3, expires_at: 0, value };
        row.insert(value, version).unwrap();
    }
    writing.join().unwrap();
    let row = [("b", 3), ("c", 3), ("f", 1), ("g", 3)];
    let mut all: Vec<_> = row.into_iter().chain(puts.iter().map(|key| (*key, 2))).collect();
    all.sort_unstable();
    assert!(keys_of(&*index, true).iter().eq(all.iter().map(|(key, _)| key)));
    for (key, seq) in all {
        assert_eq!(seq_of(&*index, key), Some(seq), "{key}");
    }
}
