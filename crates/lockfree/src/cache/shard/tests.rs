//! Tests of one shard: who stays and who leaves, growth, and the budget.

use super::*;

#[cfg(not(loom))]
mod policy {
    use super::*;
    use crate::cache::hash;

    const CHARGE: usize = 1000;

    struct Harness {
        shard: Shard<u64>,
    }

    impl Harness {
        fn new(capacity_bytes: usize) -> Self {
            Self { shard: Shard::new(capacity_bytes) }
        }

        fn key(n: u64) -> CacheKey {
            CacheKey { file: n % 7, offset: n * 4096 }
        }

        /// Looks the key up and inserts it if absent. Says whether it was a hit.
        fn touch(&self, n: u64) -> bool {
            let key = Self::key(n);
            let hash = hash(key);
            if let Some(found) = self.shard.find(hash, key) {
                assert_eq!(*found, n);
                return true;
            }
            let pinned = Pinned::new(key, n);
            let newcomer = Newcomer { pinned: &pinned, hash, charge_bytes: CHARGE };
            assert!(self.shard.insert(&newcomer).is_none());
            self.check();
            false
        }

        fn resident(&self, n: u64) -> bool {
            let key = Self::key(n);
            self.shard.find(hash(key), key).is_some()
        }

        fn check(&self) {
            let state = lock(&self.shard.state);
            let queued: usize = state.small.iter().chain(&state.main).map(|r| r.charge_bytes).sum();
            assert_eq!(queued, state.small_bytes + state.main_bytes);
            assert_eq!(queued, state.entries() * CHARGE);
            assert!(state.usage() <= self.shard.capacity_bytes(), "over budget");
            assert_eq!(state.usage(), self.shard.usage_bytes());
            assert_eq!(state.entries(), self.shard.entries());
        }
    }

    #[test]
    fn a_scan_leaves_the_working_set_alone() {
        let cache = Harness::new(200 * CHARGE);
        for round in 0..6 {
            for n in 0..100 {
                assert_eq!(cache.touch(n), round > 0);
            }
        }
        for n in 10_000..20_000 {
            cache.touch(n);
        }
        let kept = (0..100).filter(|&n| cache.resident(n)).count();
        assert!(kept >= 95, "a scan left {kept} of 100 hot entries");
    }

    #[test]
    fn a_key_that_returns_soon_after_leaving_goes_to_main() {
        let cache = Harness::new(100 * CHARGE);
        for n in 0..100 {
            cache.touch(n);
        }
        assert!(!cache.resident(0), "the oldest entry without a hit should have left");
        cache.touch(0);
        assert_eq!(lock(&cache.shard.state).main.len(), 1);
        for n in 1000..1400 {
            cache.touch(n);
        }
        assert!(cache.resident(0));
    }

    #[test]
    fn growth_keeps_every_entry_and_what_is_known_of_it() {
        let cache = Harness::new(1 << 24);
        for n in 0..10_000 {
            cache.touch(n);
        }
        assert!(cache.shard.generations.load(Ordering::Relaxed) > 8);
        assert!((0..10_000).all(|n| cache.resident(n)));
        assert_eq!(cache.shard.evictions(), 0);
    }

    #[test]
    fn erasing_a_file_takes_its_entries_and_no_others() {
        let cache = Harness::new(1 << 20);
        for n in 0..700 {
            cache.touch(n);
        }
        cache.shard.erase_files(&[3].into());
        cache.check();
        for n in 0..700 {
            assert_eq!(cache.resident(n), n % 7 != 3, "entry {n}");
        }
    }

    #[test]
    fn a_smaller_budget_holds_at_once_and_a_larger_one_is_used() {
        let cache = Harness::new(1 << 20);
        for n in 0..1000 {
            cache.touch(n);
        }
        cache.shard.set_capacity(1 << 18);
        cache.check();
        assert!((100..250).contains(&cache.shard.entries()), "{}", cache.shard.entries());
        cache.shard.set_capacity(0);
        assert_eq!(cache.shard.entries(), 0);
        cache.shard.set_capacity(1 << 20);
        for n in 0..900 {
            cache.touch(n);
        }
        assert_eq!(cache.shard.entries(), 900);
    }

    #[test]
    fn tiny_budgets_keep_nothing_and_break_nothing() {
        for capacity in [0, 1, CHARGE, CHARGE + 1500, 3 * CHARGE, 4 * CHARGE] {
            let cache = Harness::new(capacity);
            for n in 0..300 {
                let key = Harness::key(n % 50);
                let pinned = Pinned::new(key, n);
                let hash = hash(key);
                let new = Newcomer { pinned: &pinned, hash, charge_bytes: CHARGE };
                drop(cache.shard.insert(&new));
            }
            assert!(cache.shard.entries() * CHARGE <= capacity);
            assert!(cache.shard.entries() > 0 || capacity < 4 * CHARGE, "{capacity}");
        }
    }
}

#[cfg(loom)]
mod models {
    use super::*;
    use crate::sync::{Arc, thread};

    fn key(n: u64) -> CacheKey {
        CacheKey { file: 1, offset: n }
    }

    fn insert(shard: &Shard<u64>, n: u64, value: u64) -> u64 {
        let pinned = Pinned::new(key(n), value);
        let new = Newcomer { pinned: &pinned, hash: n << 16, charge_bytes: 100 };
        let present = shard.insert(&new);
        *present.unwrap_or(pinned)
    }

    /// Insert and lookup of the same key, then two inserts of it: one value wins for all threads.
    #[test]
    fn loom_cache_insert_insert_get_of_one_key() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let shard = Arc::new(Shard::new(1 << 16));
            let other = {
                let shard = Arc::clone(&shard);
                thread::spawn(move || insert(&shard, 0, 10))
            };
            let seen = shard.find(0, key(0)).map(|found| *found);
            let mine = insert(&shard, 0, 11);
            let others = other.join().unwrap();
            assert_eq!(mine, others);
            assert!(seen.is_none_or(|seen| seen == mine));
            assert_eq!(shard.find(0, key(0)).map(|found| *found), Some(mine));
            assert_eq!(shard.entries(), 1);
        });
    }

    /// A reader searches while the table doubles: it finds the right value or none.
    #[test]
    fn loom_cache_get_against_growth() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let shard = Arc::new(Shard::new(1 << 16));
            insert(&shard, 0, 10);
            let other = {
                let shard = Arc::clone(&shard);
                thread::spawn(move || shard.find(0, key(0)).map(|found| *found))
            };
            insert(&shard, 1, 20);
            assert!(matches!(other.join().unwrap(), None | Some(10)));
            assert_eq!(shard.find(0, key(0)).map(|found| *found), Some(10));
            assert_eq!(shard.find(1 << 16, key(1)).map(|found| *found), Some(20));
        });
    }
}
