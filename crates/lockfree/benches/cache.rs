//! Measures the block cache: the cost of a hit and of a miss with its insert, on 1, 2 and 8
//! threads, next to a hash map behind a mutex; and the hit ratio next to an exact LRU's.
//!
//! `cargo bench -p tidesdb-lockfree --bench cache`, about half a minute.
//!
//! Times are the threads' own processor time where the system reports it (Linux), so that other
//! work on the machine and more threads than processors do not count (nor does the time that a
//! thread spends asleep at the mutex, which flatters the reference); elsewhere wall time.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::Instant;

use tidesdb_lockfree::cache::{BlockCache, CacheKey};

const BLOCK_BYTES: usize = 4096;
const DRAWS: usize = 1 << 18;
const ROUNDS: usize = 4;

fn key(n: u64) -> CacheKey {
    CacheKey { file: n % 50, offset: n / 50 * BLOCK_BYTES as u64 }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// `draws` numbers below `count`: Zipfian with exponent 0.99 and scattered ranks, or uniform.
fn draw(count: u64, draws: usize, zipfian: bool, seed: u64) -> Vec<u64> {
    let mut random = Random(seed);
    if !zipfian {
        return (0..draws).map(|_| random.next() % count).collect();
    }
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=count)
        .map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        })
        .collect();
    (0..draws)
        .map(|_| {
            let target = random.next() as f64 / u64::MAX as f64 * sum;
            let rank = cumulative.partition_point(|&below| below < target) as u64;
            rank.min(count - 1).wrapping_mul(7_368_787) % count
        })
        .collect()
}

/// Nanoseconds that the calling thread has run, or that have passed since `start`.
fn thread_nanoseconds(start: Instant) -> f64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let running = schedule.split(' ').next().and_then(|field| field.parse().ok());
    running.unwrap_or(start.elapsed().as_nanos() as f64)
}

/// Runs `operation` over each thread's draws, and returns nanoseconds per operation and thread.
fn measure(threads: u64, draws: &[Vec<u64>], operation: impl Fn(u64) + Sync) -> f64 {
    let barrier = Barrier::new(threads as usize);
    let nanoseconds = Mutex::new(0.0);
    std::thread::scope(|scope| {
        for mine in draws.iter().take(threads as usize) {
            let (barrier, nanoseconds, operation) = (&barrier, &nanoseconds, &operation);
            scope.spawn(move || {
                barrier.wait();
                let start = Instant::now();
                let before = thread_nanoseconds(start);
                for _ in 0..ROUNDS {
                    for &n in mine {
                        operation(n);
                    }
                }
                let spent = thread_nanoseconds(start) - before;
                let each = spent / (ROUNDS * mine.len()) as f64;
                *nanoseconds.lock().unwrap_or_else(PoisonError::into_inner) += each;
            });
        }
    });
    nanoseconds.into_inner().unwrap_or_else(PoisonError::into_inner) / threads as f64
}

fn hits(resident: u64, zipfian: bool) {
    let cache = BlockCache::new(2 * resident as usize * BLOCK_BYTES, BLOCK_BYTES);
    let map = Mutex::new(HashMap::new());
    for n in 0..resident {
        drop(cache.insert(key(n), [n; 8], BLOCK_BYTES));
        let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
        map.insert(key(n), Arc::new([n; 8]));
    }
    let draws: Vec<_> = (0..8).map(|seed| draw(resident, DRAWS, zipfian, seed)).collect();
    for threads in [1, 2, 8] {
        let ours = measure(threads, &draws, |n| {
            black_box(cache.get(key(n)).map(|block| block[0]));
        });
        let reference = measure(threads, &draws, |n| {
            let found = map.lock().unwrap_or_else(PoisonError::into_inner).get(&key(n)).cloned();
            black_box(found.map(|block| block[0]));
        });
        let keys = if zipfian { "Zipfian" } else { "uniform" };
        println!(
            "hit, {keys} in {resident}, {threads} threads: {ours:.1} ns; map in a mutex {reference:.1} ns"
        );
    }
    assert_eq!(cache.misses(), 0);
}

fn misses() {
    for threads in [1, 2, 8] {
        let cache = BlockCache::new(64 << 20, BLOCK_BYTES);
        let draws: Vec<_> = (0..8).map(|seed| draw(1 << 32, DRAWS / 2, false, seed)).collect();
        let each = measure(threads, &draws, |n| {
            if cache.get(key(n)).is_none() {
                black_box(cache.insert(key(n), [n; 8], BLOCK_BYTES));
            }
        });
        let ratio = cache.misses() as f64 / (cache.hits() + cache.misses()) as f64;
        println!("get, and insert if missed ({ratio:.2}), {threads} threads: {each:.0} ns");
    }
}

/// An exact LRU of `room` entries: hits over a sequence.
fn least_recently_used(sequence: &[u64], room: usize) -> f64 {
    let (mut last_use, mut by_age, mut hits) = (HashMap::new(), BTreeMap::new(), 0);
    for (now, &n) in sequence.iter().enumerate() {
        if let Some(before) = last_use.insert(n, now) {
            by_age.remove(&before);
            hits += 1;
        } else if by_age.len() == room
            && let Some((_, oldest)) = by_age.pop_first()
        {
            last_use.remove(&oldest);
        }
        by_age.insert(now, n);
    }
    f64::from(hits) / sequence.len() as f64
}

fn hit_ratios() {
    let count = 1_000_000;
    let zipfian = draw(count, 1 << 20, true, 42);
    // Every other access belongs to a scan over keys that are not read otherwise.
    let scans = zipfian.iter().enumerate().flat_map(|(n, &hot)| [hot, count + n as u64]).collect();
    for (name, sequence) in [("Zipfian", zipfian), ("Zipfian and a scan", scans)] {
        let sequence: Vec<u64> = sequence;
        for room in [1 << 10, 1 << 14, 1 << 17] {
            let cache = BlockCache::new(room * BLOCK_BYTES, BLOCK_BYTES);
            for &n in &sequence {
                if cache.get(key(n)).is_none() && cache.admits(key(n), BLOCK_BYTES) {
                    drop(cache.insert(key(n), (), BLOCK_BYTES));
                }
            }
            let ours = cache.hits() as f64 / sequence.len() as f64;
            let reference = least_recently_used(&sequence, room);
            println!("{name}, room for {room} of 1,000,000: hits {ours:.4}; LRU {reference:.4}");
        }
    }
}

fn main() {
    // The second is what a cache of 64 MiB holds.
    for resident in [1_000, 16_000] {
        hits(resident, true);
        hits(resident, false);
    }
    misses();
    hit_ratios();
}
