//! Tests of the whole cache: its contract, and a stress run with random keys on eight threads.
#![cfg(not(loom))]

use super::*;

fn key(n: u64) -> CacheKey {
    CacheKey { file: n % 16, offset: n / 16 * 4096 }
}

#[test]
fn a_disabled_cache_hands_values_out_and_keeps_none() {
    let cache = BlockCache::new(0, 4096);
    assert_eq!(*cache.insert(key(1), 'x', 1), 'x');
    assert!(cache.get(key(1)).is_none());
    assert_eq!((cache.usage_bytes(), cache.entries()), (0, 0));
    assert_eq!((cache.hits(), cache.misses()), (0, 1));
}

#[test]
fn what_is_announced_is_neither_pinned_nor_counted() {
    let cache = BlockCache::new(1 << 20, 4096);
    let announce = |n| {
        cache.prefetch(key(n));
        cache.prefetch_entry(key(n));
    };
    // There is no table of slots yet.
    announce(1);
    let inserted = cache.insert(key(1), 1, 100);
    let references = inserted.references();
    (0..100).for_each(announce);
    assert_eq!((inserted.references(), cache.hits(), cache.misses()), (references, 0, 0));
    cache.erase_files(&[key(1).file].into());
    announce(1);
    assert_eq!((inserted.references(), *inserted), (1, 1));
}

#[test]
fn an_oversized_value_is_handed_out_and_harms_no_other() {
    let cache = BlockCache::new(1 << 20, 4096);
    drop(cache.insert(key(1), 1, 1000));
    for charge in [2 << 20, usize::MAX] {
        assert_eq!(*cache.insert(key(2), 2, charge), 2);
    }
    assert!(cache.get(key(2)).is_none());
    assert_eq!(*cache.get(key(1)).unwrap(), 1);
}

#[test]
fn the_first_value_of_a_key_stays() {
    let cache = BlockCache::new(1 << 20, 4096);
    let first = cache.insert(key(1), 1, 100);
    let second = cache.insert(key(1), 2, 100);
    assert_eq!((*first, *second, cache.entries()), (1, 1, 1));
}

#[test]
fn handles_outlive_eviction_and_the_cache() {
    let cache = BlockCache::new(1 << 20, 4096);
    let pinned = cache.insert(key(0), vec![7_u8; 4096], 4096);
    for n in 1..2000 {
        drop(cache.insert(key(n), vec![0; 4096], 4096));
    }
    assert!(cache.get(key(0)).is_none());
    assert!(cache.evictions() > 1000);
    drop(cache);
    assert!(pinned.iter().all(|&byte| byte == 7));
}

#[test]
fn a_full_cache_wants_what_was_missed_before() {
    let cache = BlockCache::with_shards(1 << 20, 1);
    let mut filled = 0;
    while cache.admits(key(filled), 4096) {
        drop(cache.insert(key(filled), (), 4096));
        filled += 1;
    }
    assert!((200..256).contains(&filled), "{filled} entries of 4 KiB in 1 MiB");
    assert_eq!(cache.evictions(), 0, "nothing was displaced while there was room");

    let newcomer = key(1000);
    assert!(cache.admits(newcomer, 16), "there is room for a small one");
    assert!(!cache.admits(newcomer, 4096), "missed for the first time");
    assert!(cache.admits(newcomer, 4096), "missed again");
    drop(cache.insert(newcomer, (), 4096));
    assert!(cache.get(newcomer).is_some());
    assert_eq!(cache.evictions(), 1);

    // It was admitted, copied and not kept at each miss but the first.
    let too_large = || cache.admits(key(1001), 2 << 20);
    assert!(!too_large() && !too_large() && !too_large());

    let disabled = BlockCache::<()>::new(0, 4096);
    assert!(!disabled.admits(key(1), 4096) && !disabled.admits(key(1), 4096));
}

/// What is read all the time moves from one set of keys to another, as large as the cache.
#[test]
fn a_cache_that_turns_first_misses_down_follows_a_change() {
    let cache = BlockCache::with_shards(1 << 20, 1);
    let read = |n| {
        if cache.get(key(n)).is_none() && cache.admits(key(n), 4096) {
            drop(cache.insert(key(n), (), 4096));
        }
    };
    for start in [0, 1000] {
        for _ in 0..20 {
            (start..start + 200).for_each(read);
        }
        let (hits, misses) = (cache.hits(), cache.misses());
        (start..start + 200).for_each(read);
        assert!(cache.hits() - hits >= 190, "{} misses of 200", cache.misses() - misses);
    }
}

#[test]
fn a_value_keeps_a_copy_of_its_tail_as_long_as_a_handle_lives() {
    let cache = BlockCache::with_shards(1 << 20, 1);
    let alive = std::sync::Arc::new(());
    for len in [0, 1, 7, 64, 5000] {
        let tail: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let value = (len, std::sync::Arc::clone(&alive));
        drop(cache.insert_with_tail(key(len), value, &tail, 100 + tail.len()).unwrap());
        let found = cache.get(key(len)).unwrap();
        cache.erase_files(&[key(len).file].into());
        assert!(cache.get(key(len)).is_none());
        assert_eq!((found.0, found.tail()), (len, tail.as_slice()));
    }
    assert_eq!(std::sync::Arc::strong_count(&alive), 1, "a value was not dropped");
}

#[test]
fn a_destructor_may_use_the_cache() {
    struct Reentrant(std::sync::Weak<BlockCache<Self>>);
    impl Drop for Reentrant {
        fn drop(&mut self) {
            if let Some(cache) = self.0.upgrade() {
                drop(cache.get(key(3)));
                cache.erase_files(&[u64::MAX].into());
            }
        }
    }
    let cache = std::sync::Arc::new(BlockCache::with_shards(1 << 16, 1));
    for n in 0..500 {
        let value = Reentrant(std::sync::Arc::downgrade(&cache));
        drop(cache.insert(key(n), value, 4096));
    }
    cache.erase_files(&[3].into());
    cache.set_capacity(1 << 12);
}

#[test]
fn keys_spread_over_shards_and_slots() {
    let buckets = 1 << 10;
    let mut by_shard = vec![0_u32; buckets];
    let mut by_slot = vec![0_u32; buckets];
    for file in 1..=64 {
        for block in 0..1024 {
            let hash = hash(CacheKey { file, offset: block * 4096 });
            by_shard[hash as usize % buckets] += 1;
            by_slot[(hash >> 16) as usize % buckets] += 1;
        }
    }
    for counts in [by_shard, by_slot] {
        // 64 expected, standard deviation 8.
        assert!(counts.iter().all(|&count| (24..=112).contains(&count)));
    }
}

fn seed() -> u64 {
    let from_clock = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| now.as_nanos() as u64)
    };
    let given = std::env::var("TIDESDB_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(from_clock);
    println!("TIDESDB_SEED={seed}");
    seed
}

/// A value that knows its key, and that fails every check once it has been dropped.
struct Block {
    n: u64,
    words: Vec<u64>,
}

impl Block {
    fn new(n: u64) -> Self {
        Self { n, words: vec![n; 16 + n as usize % 64] }
    }

    fn charge_bytes(&self) -> usize {
        size_of::<Self>() + self.words.capacity() * size_of::<u64>()
    }

    fn check(&self, n: u64) {
        assert_eq!(self.n, n);
        assert!(self.words.iter().all(|&word| word == n), "a block changed under its reader");
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.words.fill(u64::MAX);
    }
}

/// One thread's random gets, inserts, held pins, erasures and resizes.
fn churn(cache: &BlockCache<Block>, mut random: u64, rounds: u32) {
    let mut held = std::collections::VecDeque::new();
    for _ in 0..rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let dice = random >> 33;
        // The square of a uniform number makes low keys hot.
        let n = (dice % 1024) * (dice / 1024 % 1024) / 256;
        let block = cache.get(key(n)).unwrap_or_else(|| {
            let block = Block::new(n);
            let charge_bytes = block.charge_bytes();
            cache.insert(key(n), block, charge_bytes)
        });
        block.check(n);
        if dice.is_multiple_of(8) {
            held.push_back((n, block.clone()));
        }
        if held.len() > 20
            && let Some((n, block)) = held.pop_front()
        {
            block.check(n);
        }
        match dice % 4096 {
            0 => cache.erase_files(&[dice / 4096 % 16].into()),
            1 => cache.set_capacity(96 << 10),
            2 => cache.set_capacity(256 << 10),
            _ => {}
        }
        // Only ever resized to less than this.
        assert!(cache.usage_bytes() <= 256 << 10);
    }
}

#[test]
fn eight_threads_never_see_a_wrong_value_or_a_broken_budget() {
    let rounds = if cfg!(miri) { 60 } else { 40_000 };
    let seed = seed();
    let cache = BlockCache::with_shards(256 << 10, 2);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let cache = &cache;
            scope.spawn(move || churn(cache, seed ^ (thread << 56), rounds));
        }
    });
    let lookups = cache.hits() + cache.misses();
    assert_eq!(lookups, 8 * u64::from(rounds));
    assert!(cfg!(miri) || cache.evictions() > 1000);
    // How many depends on how long the threads leave the cache small.
    assert!(cache.hits() > lookups / 50, "{} hits of {lookups}", cache.hits());
}
