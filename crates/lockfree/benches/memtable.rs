//! Memtable indexes side by side: inserts, look-ups and scans, by key order and thread count.
//!
//! `cargo bench -p tidesdb-lockfree --bench memtable [-- FILTER]` prints a Markdown
//! table. 500,000 keys of 16 bytes, values of 100 bytes, on warmed and recycled memory (each index
//! has been filled once before with the same pool). Every figure is nanoseconds per operation:
//! processor time of all threads (from the kernel's accounting, so that a busy machine disturbs it
//! less) and, in brackets, wall time. Every answer is checked. FILTER keeps the rows that contain
//! it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use tidesdb_lockfree::arena::{Arena, BlockPool};
use tidesdb_lockfree::ordered::{BPlusTree, Cursor, NewVersion, OrderedIndex, SkipList};

const ENTRIES: usize = 500_000;
const VALUE_BYTES: usize = 100;
type Key = [u8; 16];

/// What is measured; the reference map has no cursor, hence not `OrderedIndex` itself.
trait Candidate: Sync {
    fn put(&self, key: &Key, seq: u64, value: &[u8]);
    fn get(&self, key: &Key) -> Option<u8>;
    fn scan(&self) -> usize;
}

impl<I: OrderedIndex> Candidate for I {
    fn put(&self, key: &Key, seq: u64, value: &[u8]) {
        let version = NewVersion { seq, kind: 1, expires_at: 0, value };
        assert!(self.insert(key, version).is_ok(), "arena full");
    }

    fn get(&self, key: &Key) -> Option<u8> {
        Some(*OrderedIndex::get(self, key, u64::MAX)?.value.last()?)
    }

    fn scan(&self) -> usize {
        let mut cursor = self.cursor();
        cursor.seek_to_first();
        let mut bytes = 0;
        while cursor.valid() {
            bytes += cursor.key().len();
            bytes += cursor.version_at(u64::MAX).map_or(0, |version| version.value.len());
            cursor.next();
        }
        bytes
    }
}

type Versioned = (Key, std::cmp::Reverse<u64>);

#[derive(Default)]
struct LockedMap(Mutex<BTreeMap<Versioned, Box<[u8]>>>);

impl Candidate for LockedMap {
    fn put(&self, key: &Key, seq: u64, value: &[u8]) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.insert((*key, std::cmp::Reverse(seq)), value.into());
    }

    fn get(&self, key: &Key) -> Option<u8> {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = Bound::Included((*key, std::cmp::Reverse(u64::MAX)));
        let to = Bound::Included((*key, std::cmp::Reverse(0)));
        map.range((from, to)).next()?.1.last().copied()
    }

    fn scan(&self) -> usize {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.iter().map(|(key, value)| key.0.len() + value.len()).sum()
    }
}

fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn text_key(number: u64) -> Key {
    let mut key = *b"user000000000000";
    let digits = number.to_string();
    key[16 - digits.len()..].copy_from_slice(digits.as_bytes());
    key
}

/// Keys in the order in which they are inserted.
fn keys(order: &str) -> Vec<Key> {
    let number = |index: usize| index as u64;
    let scattered = |index: usize| (number(index) * 7_368_787) % 1_000_000;
    match order {
        "random" => (0..ENTRIES)
            .map(|index| {
                let mut key = [0; 16];
                key[..8].copy_from_slice(&mix(number(index)).to_be_bytes());
                key[8..].copy_from_slice(&number(index).to_be_bytes());
                key
            })
            .collect(),
        "user random" => (0..ENTRIES).map(|index| text_key(scattered(index))).collect(),
        "sequential" => (0..ENTRIES).map(|index| text_key(number(index))).collect(),
        _ => {
            // Zipfian with exponent 1 over 100,000 keys, drawn through its inverse integral.
            let range = 100_000_f64;
            let draw = |index: usize| {
                let uniform = (mix(number(index)) >> 11) as f64 / (1_u64 << 53) as f64;
                text_key(mix(range.powf(uniform) as u64) % 1_000_000_000)
            };
            (0..ENTRIES).map(draw).collect()
        }
    }
}

/// Nanoseconds per operation.
#[derive(Clone, Copy)]
struct Cost {
    processor: f64,
    wall: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.0} ({:.0})", self.processor, self.wall)
    }
}

/// Nanoseconds this thread has run; 0 where the kernel does not say.
fn processor_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Runs `work` for every key; thread t takes keys t, t + threads, and so on.
fn timed(threads: usize, keys: &[Key], work: impl Fn(usize, &Key) + Sync) -> Cost {
    let start = Barrier::new(threads + 1);
    let processor = AtomicU64::new(0);
    let wall = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, work, processor) = (&start, &work, &processor);
                scope.spawn(move || {
                    start.wait();
                    let before = processor_nanos();
                    for (index, key) in keys.iter().enumerate().skip(thread).step_by(threads) {
                        work(index, key);
                    }
                    processor.fetch_add(processor_nanos() - before, Ordering::Relaxed);
                })
            })
            .collect();
        let began = Instant::now();
        start.wait();
        for worker in workers {
            assert!(worker.join().is_ok());
        }
        began.elapsed()
    });
    let operations = keys.len() as f64;
    let processor = processor.into_inner() as f64 / operations;
    Cost { processor, wall: wall.as_nanos() as f64 / operations }
}

fn fill<C: Candidate>(candidate: &C, threads: usize, keys: &[Key]) -> Cost {
    // As in an engine: a thread that is about to insert draws the next number, so that the versions
    // of a hot key arrive in order or nearly so.
    let seq = AtomicU64::new(1);
    timed(threads, keys, |index, key| {
        let mut value = [index as u8; VALUE_BYTES];
        value[VALUE_BYTES - 1] = key[15];
        candidate.put(key, seq.fetch_add(1, Ordering::Relaxed), &value);
    })
}

fn measure<C: Candidate>(name: &str, order: &str, new: impl Fn() -> C) {
    let keys = keys(order);
    let place = |index: &usize| mix(*index as u64 ^ 0xA5A5_5A5A_0F0F);
    let mut shuffle: Vec<usize> = (0..keys.len()).collect();
    shuffle.sort_unstable_by_key(place);
    let shuffled: Vec<Key> = shuffle.into_iter().map(|index| keys[index]).collect();
    let mut distinct = keys.clone();
    distinct.sort_unstable();
    distinct.dedup();
    for threads in [1, 2, 8] {
        fill(&new(), threads, &keys);
        let candidate = new();
        let insert = fill(&candidate, threads, &keys);
        let lookup = timed(threads, &shuffled, |_, key| {
            assert_eq!(candidate.get(key), Some(key[15]));
        });
        let before = processor_nanos();
        let bytes = candidate.scan();
        let scan = (processor_nanos() - before) as f64 / distinct.len() as f64;
        assert!(bytes >= distinct.len() * 116);
        println!("| {order} | {threads} | {name} | {insert} | {lookup} | {scan:.0} |");
    }
}
/// The arguments, without the one that `cargo bench` adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}

fn main() {
    let filter = arguments().next().unwrap_or_default();
    println!("| keys | threads | index | insert ns | look-up ns | scan ns |");
    println!("|---|---|---|---|---|---|");
    let pool = BlockPool::new(256 << 20);
    pool.warm(100);
    let arena = || Arena::new(Arc::clone(&pool), u64::MAX);
    for order in ["random", "user random", "sequential", "Zipfian"] {
        let wanted = |name: &str| format!("{order} {name}").contains(&filter);
        if wanted("B+tree") {
            measure("B+tree", order, || <BPlusTree>::with_arena(arena()));
        }
        if wanted("skip list") {
            measure("skip list", order, || SkipList::with_arena(arena()));
        }
        if wanted("locked BTreeMap") {
            measure("locked BTreeMap", order, LockedMap::default);
        }
    }
}
