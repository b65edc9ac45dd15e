//! A map from names to handles that lookups read without a lock.
//!
//! A lookup loads the table, then the one bucket that the name belongs to. A bucket is replaced as
//! a whole by each change of one of its names. When there are more names than buckets, a table of
//! twice as many takes the place of the old one. So a change copies a few handles, however many
//! there are, and each of the tables is made once: many names cost as much each as few.
//!
//! Threads: any number of lookups; the caller sees to it that one change is made at a time. A
//! lookup that has loaded a table before it was replaced sees none of the later changes, as if it
//! had ended before them, which it has begun before.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use tidesdb_base::checksum;

/// Buckets of an empty map; a power of two, as all numbers of buckets.
const FEWEST_BUCKETS: usize = 16;

/// The handles whose names belong to one bucket: mostly one or none.
type Bucket<V> = Vec<(Arc<str>, V)>;

/// Handles by name, of which each change replaces one bucket.
pub struct HandleMap<V> {
    table: ArcSwap<Table<V>>,
    /// Random, so that no list of names is known to fall into one bucket.
    seed: u64,
    len: AtomicUsize,
}

struct Table<V>(Box<[ArcSwap<Bucket<V>>]>);

impl<V> Table<V> {
    fn of(buckets: impl IntoIterator<Item = Bucket<V>>) -> Self {
        Self(buckets.into_iter().map(ArcSwap::from_pointee).collect())
    }
}

impl<V: Clone> Default for HandleMap<V> {
    fn default() -> Self {
        let buckets = std::iter::repeat_with(Bucket::new).take(FEWEST_BUCKETS);
        let table = ArcSwap::from_pointee(Table::of(buckets));
        let seed = RandomState::new().build_hasher().finish();
        Self { table, seed, len: AtomicUsize::new(0) }
    }
}

impl<V: Clone> HandleMap<V> {
    /// The handle of a name.
    pub fn get(&self, name: &str) -> Option<V> {
        let table = self.table.load();
        let bucket = table.0.get(self.place(name, table.0.len()))?.load();
        bucket.iter().find(|(known, _)| **known == *name).map(|(_, handle)| handle.clone())
    }

    fn place(&self, name: &str, buckets: usize) -> usize {
        let hash = checksum::placed(self.seed, 0, name.as_bytes());
        let lowest_bits = hash & (buckets as u64 - 1);
        usize::try_from(lowest_bits).unwrap_or(0)
    }

    /// Gives a name to a handle; returns that which had it.
    pub fn insert(&self, name: Arc<str>, handle: V) -> Option<V> {
        let replaced = self.change(&Arc::clone(&name), |bucket| bucket.push((name, handle)));
        // ORDERING: relaxed, here and below; only changes use it, of which there is one at a time.
        let len = self.len.load(Ordering::Relaxed) + usize::from(replaced.is_none());
        self.len.store(len, Ordering::Relaxed);
        if len > self.table.load().0.len() {
            self.grow();
        }
        replaced
    }

    /// Takes a name away; returns the handle that had it.
    pub fn remove(&self, name: &str) -> Option<V> {
        let removed = self.change(name, |_| {})?;
        self.len.store(self.len.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        Some(removed)
    }

    /// Replaces the bucket of a name by one without the name, as `then` has changed it.
    fn change(&self, name: &str, then: impl FnOnce(&mut Bucket<V>)) -> Option<V> {
        let table = self.table.load();
        let place = table.0.get(self.place(name, table.0.len()))?;
        let mut bucket = Bucket::clone(&place.load());
        let known = bucket.iter().position(|(known, _)| **known == *name);
        let removed = known.map(|at| bucket.swap_remove(at).1);
        then(&mut bucket);
        place.store(Arc::new(bucket));
        removed
    }

    fn grow(&self) {
        let old = self.table.load();
        let count = old.0.len() * 2;
        let mut buckets: Vec<Bucket<V>> = std::iter::repeat_with(Bucket::new).take(count).collect();
        for bucket in &old.0 {
            for (name, handle) in bucket.load().iter() {
                if let Some(new) = buckets.get_mut(self.place(name, count)) {
                    new.push((Arc::clone(name), handle.clone()));
                }
            }
        }
        self.table.store(Arc::new(Table::of(buckets)));
    }

    /// All handles, in no order.
    pub fn handles(&self) -> Vec<V> {
        let table = self.table.load();
        let buckets = table.0.iter().map(ArcSwap::load);
        buckets
            .flat_map(|bucket| bucket.iter().map(|(_, v)| v.clone()).collect::<Vec<_>>())
            .collect()
    }
}
