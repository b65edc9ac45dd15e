//! The block cache: decoded blocks of tables, of data and of indexes, shared by the whole database.
//!
//! A hit takes no lock: it searches a hash table, pins the entry by one atomic add and checks its
//! key. The budget is kept to the byte, the cache's own tables included, and eviction resists
//! scans (see `cache::shard`). Cached values are immutable; a [`Pinned`] handle borrows one
//! without a copy and keeps it alive even after it has been evicted.
//!
//! The cache is split by key hash into shards with a fixed share of the budget each. It starts
//! with next to no memory and grows with its content.
//!
//! Called by the engine's read path, iterators, flush and compaction, from any thread. Values may
//! use the cache in their destructors.
//!
//! Invariants: `usage_bytes() <= capacity` at every moment (see the exception at
//! [`BlockCache::set_capacity`]); a handle returned for a key holds a value inserted under that
//! very key.

mod shard;
mod slots;

use std::alloc::{Layout, handle_alloc_error};
use std::collections::BTreeSet;
use std::marker::PhantomData;

pub use slots::Pinned;

use self::shard::{Newcomer, Shard};
use crate::stripe::ThisThread;
use crate::sync::{AtomicU64, CachePadded, Ordering};

/// Which block of which file. A file's number must not be used again for other content while the
/// cache holds blocks under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// The table file's number.
    pub file: u64,
    /// Where the block starts in the file, in bytes.
    pub offset: u64,
}

/// A shard should hold hundreds of blocks.
const SHARD_BYTES: usize = 4 << 20;
const MOST_SHARDS: usize = 64;

/// Threads of numbers below this count their lookups in a stripe of their own.
const OWN_STRIPES: usize = 32;
/// Stripes that all other threads share.
const SHARED_STRIPES: usize = 32;
/// All stripes. Models have one: each word makes them slower.
const STRIPES: usize = if cfg!(loom) { 1 } else { OWN_STRIPES + SHARED_STRIPES };

/// One stripe's counters.
#[derive(Default)]
struct Lookups {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Adds one to a counter of the stripe that belongs to thread number `thread`.
#[inline]
fn count_lookup(stripes: &[CachePadded<Lookups>], thread: usize, hit: bool) {
    let owned = thread < OWN_STRIPES && !cfg!(loom);
    let stripe = if owned { thread } else { STRIPES - 1 - thread % SHARED_STRIPES.min(STRIPES) };
    let lookups = &stripes[stripe];
    let counter = if hit { &lookups.hits } else { &lookups.misses };
    if owned {
        // No other living thread has this number, so no other writes here.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    } else {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A sharded cache of immutable values with a budget in bytes.
///
/// ```
/// use tidesdb_lockfree::cache::{BlockCache, CacheKey};
/// let cache = BlockCache::new(1 << 20, 4096);
/// let key = CacheKey { file: 7, offset: 0 };
/// assert!(cache.get(key).is_none());
/// let inserted = cache.insert(key, vec![1_u8; 4096], 4096);
/// assert_eq!(*cache.get(key).unwrap(), *inserted);
/// cache.erase_files(&[7].into());
/// assert!(cache.get(key).is_none());
/// assert_eq!(inserted.len(), 4096); // the handle outlives the entry
/// ```
pub struct BlockCache<V> {
    shards: Box<[CachePadded<Shard<V>>]>,
    lookups: Box<[CachePadded<Lookups>]>,
    /// Shards keep entries as plain words; this says to the compiler what they stand for.
    owns: PhantomData<Pinned<V>>,
}

impl<V> BlockCache<V> {
    /// A cache of at most `capacity_bytes`; 0 disables it. `expected_entry_bytes` is the usual
    /// size of an entry, and keeps shards from becoming smaller than a few hundred of them.
    #[must_use]
    pub fn new(capacity_bytes: usize, expected_entry_bytes: usize) -> Self {
        let shard_bytes = expected_entry_bytes.saturating_mul(256).max(SHARD_BYTES);
        let wanted = (capacity_bytes / shard_bytes).clamp(1, MOST_SHARDS);
        Self::with_shards(capacity_bytes, 1 << wanted.ilog2())
    }

    fn with_shards(capacity_bytes: usize, shards: usize) -> Self {
        Self {
            shards: (0..shards).map(|_| CachePadded(Shard::new(capacity_bytes / shards))).collect(),
            lookups: (0..STRIPES).map(|_| CachePadded(Lookups::default())).collect(),
            owns: PhantomData,
        }
    }

    /// The value cached under `key`, pinned. Lock-free; it may miss an entry that another thread
    /// is inserting or moving to a bigger table at this moment.
    #[inline]
    #[must_use]
    pub fn get(&self, key: CacheKey) -> Option<Pinned<V>> {
        self.get_by(key, ThisThread::get())
    }

    /// As [`get`](Self::get), where the thread's number is known.
    #[inline]
    #[must_use]
    pub fn get_by(&self, key: CacheKey, thread: ThisThread) -> Option<Pinned<V>> {
        let hash = hash(key);
        let found = self.shard(hash).find(hash, key);
        count_lookup(&self.lookups, thread.number(), found.is_some());
        found
    }

    /// Whether a value is cached under `key`, as far as [`get`](Self::get) would find it. No lookup
    /// for the counters.
    #[must_use]
    pub fn contains(&self, key: CacheKey) -> bool {
        let hash = hash(key);
        self.shard(hash).find(hash, key).is_some()
    }

    /// Asks the processor to load what [`get`](Self::get) looks at first.
    #[inline]
    pub fn prefetch(&self, key: CacheKey) {
        let hash = hash(key);
        self.shard(hash).prefetch(hash);
    }

    /// Asks the processor to load what [`get`](Self::get) looks at after that. Best called when
    /// what
    /// [`prefetch`](Self::prefetch) asked for has come.
    #[inline]
    pub fn prefetch_entry(&self, key: CacheKey) {
        let hash = hash(key);
        self.shard(hash).prefetch_entry(hash);
    }

    /// Puts `value` under `key`, evicting others until the budget holds, and returns it pinned.
    ///
    /// `charge_bytes` is all memory that the value owns, itself included; the cache adds its own
    /// bytes per entry. If `key` is cached already, the present value is returned and `value` is
    /// dropped: two threads that missed at once end up sharing one copy. A value that is larger
    /// than a shard's budget is returned but not kept.
    #[must_use]
    pub fn insert(&self, key: CacheKey, value: V, charge_bytes: usize) -> Pinned<V> {
        let inserted = self.insert_with_tail(key, value, &[], charge_bytes);
        inserted.unwrap_or_else(|| handle_alloc_error(Layout::new::<V>()))
    }

    /// As [`insert`](Self::insert), of a value and bytes that belong to it, [`Pinned::tail`]. A
    /// copy of them lies right behind the value, where a reader that has the one has the other.
    /// They count in `charge_bytes`. `None`, and nothing is inserted, where there is no memory for
    /// the copy.
    #[must_use]
    pub fn insert_with_tail(
        &self,
        key: CacheKey,
        value: V,
        tail: &[u8],
        charge_bytes: usize,
    ) -> Option<Pinned<V>> {
        let hash = hash(key);
        let shard = self.shard(hash);
        let charge_bytes = charge_bytes.saturating_add(Pinned::<V>::OVERHEAD_BYTES);
        let pinned = Pinned::with_tail(key, value, tail)?;
        if charge_bytes > shard.capacity_bytes() {
            return Some(pinned);
        }
        let newcomer = Newcomer { pinned: &pinned, hash, charge_bytes };
        Some(shard.insert(&newcomer).unwrap_or(pinned))
    }

    /// Whether a value that [`get`](Self::get) has just missed is worth inserting: when there is
    /// room for `charge_bytes` more, or when the key was missed before not long ago. A key that is
    /// turned down is remembered for its next miss. What is larger than a shard's budget is never
    /// worth it. Inserting nevertheless is no error.
    ///
    /// A caller that asks, and uses what is turned down from a buffer of its own, pays for no
    /// allocation and no eviction where most keys are read once (the doorkeeper of TinyLFU,
    /// Einziger, Friedman and Manes, ACM Transactions on Storage 13(4), 2017).
    #[must_use]
    pub fn admits(&self, key: CacheKey, charge_bytes: usize) -> bool {
        let hash = hash(key);
        let charge_bytes = charge_bytes.saturating_add(Pinned::<V>::OVERHEAD_BYTES);
        self.shard(hash).admits(hash, charge_bytes)
    }

    /// Drops all entries of files that have been deleted, to make room early. Looks at every
    /// entry of the cache, so it belongs on a background thread. Best effort: an insert running
    /// at the same time may bring one back, which then leaves by eviction.
    pub fn erase_files(&self, files: &BTreeSet<u64>) {
        for shard in &self.shards {
            shard.erase_files(files);
        }
    }

    /// Number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Changes the budget, evicting what no longer fits. The number of shards stays what
    /// [`new`](Self::new) made it. The hash tables, up to a few per cent of the highest budget so
    /// far, do not shrink: a budget below their size keeps no entries.
    pub fn set_capacity(&self, capacity_bytes: usize) {
        for shard in &self.shards {
            shard.set_capacity(capacity_bytes / self.shards.len());
        }
    }

    /// The budget, in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.capacity_bytes()).sum()
    }

    /// Bytes in use: charges and per-entry costs of all entries, and the cache's own tables.
    /// Values that were evicted while pinned are not included.
    #[must_use]
    pub fn usage_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.usage_bytes()).sum()
    }

    /// How many entries are cached.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.shards.iter().map(|shard| shard.entries()).sum()
    }

    /// How many lookups found their key since the cache was made.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.lookups.iter().map(|stripe| stripe.hits.load(Ordering::Relaxed)).sum()
    }

    /// How many lookups did not find their key since the cache was made.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.lookups.iter().map(|stripe| stripe.misses.load(Ordering::Relaxed)).sum()
    }

    /// How many entries were evicted for room since the cache was made.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.shards.iter().map(|shard| shard.evictions() as u64).sum()
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard<V> {
        // The lower 16 bits, which the slots do not use.
        &self.shards[hash as usize & (self.shards.len() - 1)]
    }
}

impl<V> std::fmt::Debug for BlockCache<V> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("BlockCache")
            .field("capacity_bytes", &self.capacity_bytes())
            .field("usage_bytes", &self.usage_bytes())
            .field("entries", &self.entries())
            .finish_non_exhaustive()
    }
}

/// Mixes a key into 64 evenly used bits: multiply to 128 bits and fold, twice.
#[inline]
fn hash(key: CacheKey) -> u64 {
    let fold = |value: u64, factor: u64| {
        let product = u128::from(value) * u128::from(factor);
        (product >> 64) as u64 ^ product as u64
    };
    let file = fold(key.file ^ 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db);
    fold(file ^ key.offset, 0x8ebc_6af0_9c88_c6e3)
}

#[cfg(test)]
mod tests;
