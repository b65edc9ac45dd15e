//! Tests of slots and pins: probing, counting, and the loom models of pin against eviction.

use super::*;

fn key(offset: u64) -> CacheKey {
    CacheKey { file: 1, offset }
}

/// A hash with the given home slot and a tag that differs by `tag`.
fn hash_at(home: u64, tag: u64) -> u64 {
    home << 16 | tag << 56
}

#[cfg(not(loom))]
mod threads {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn entries_beyond_a_gap_are_found_and_counts_of_passers_return_to_zero() {
        let table = Table::new(8);
        let slots: Vec<usize> =
            (0..6).map(|n| table.place(hash_at(6, n), &Pinned::new(key(n), n)).unwrap()).collect();
        assert_eq!(slots, [6, 7, 0, 1, 2, 3]);
        drop(table.take(slots[1]));
        drop(table.take(slots[3]));
        for n in 0..6 {
            let found = table.find(hash_at(6, n), key(n)).map(|pinned| *pinned);
            assert_eq!(found, (n != 1 && n != 3).then_some(n));
        }
        for n in [0, 2, 4, 5] {
            assert!(table.take(slots[n]).is_some());
        }
        for slot in &table.slots {
            assert_eq!(slot.tag.load(Ordering::Relaxed) & PROBED_PAST, 0);
        }
    }

    #[test]
    fn a_full_table_gives_the_handle_back_unharmed() {
        let table = Table::new(2);
        let pinned = [0, 1, 2].map(|n| Pinned::new(key(n), n));
        assert!(table.place(hash_at(0, 0), &pinned[0]).is_some());
        assert!(table.place(hash_at(0, 1), &pinned[1]).is_some());
        assert_eq!(table.place(hash_at(0, 2), &pinned[2]), None);
        assert_eq!(pinned[2].references(), 1);
    }

    #[test]
    fn equal_tags_are_told_apart_by_key() {
        let table = Table::new(4);
        table.place(hash_at(0, 0), &Pinned::new(key(0), 'a'));
        table.place(hash_at(0, 0), &Pinned::new(key(1), 'b'));
        assert_eq!(table.find(hash_at(0, 0), key(1)).as_deref(), Some(&'b'));
        assert_eq!(table.find(hash_at(0, 0), key(2)).as_deref(), None);
    }

    #[test]
    fn pins_past_the_slot_counter_are_neither_lost_nor_invented() {
        let rounds = if cfg!(miri) { PINS_MOVED + 10 } else { 5 * PINS_MOVED };
        let alive = Arc::new(());
        let table = Table::new(4);
        let slot = table.place(hash_at(0, 0), &Pinned::new(key(0), Arc::clone(&alive))).unwrap();
        let held: Vec<_> =
            (0..rounds).map(|_| table.find(hash_at(0, 0), key(0)).unwrap()).collect();
        for _ in 0..rounds {
            drop(table.find(hash_at(0, 0), key(0)));
        }
        let taken = table.take(slot).unwrap();
        assert_eq!(taken.references(), rounds + 1);
        drop(held);
        assert_eq!(taken.references(), 1);
        drop(taken);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn dropping_the_table_frees_what_is_not_pinned() {
        let alive = Arc::new(());
        let table = Table::new(4);
        for n in 0..3 {
            table.place(hash_at(n, n), &Pinned::new(key(n), Arc::clone(&alive)));
        }
        let pinned = table.find(hash_at(1, 1), key(1));
        drop(table);
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(pinned);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    /// Readers pin, clone and drop while entries come and go in three slots that all share one
    /// home; pins are moved between counts as well.
    #[test]
    fn readers_never_see_a_dead_or_foreign_value() {
        struct Checked(u64, Box<u64>);
        impl Drop for Checked {
            fn drop(&mut self) {
                *self.1 = u64::MAX;
            }
        }
        let rounds = if cfg!(miri) { 50 } else { 60_000 };
        let table: Table<Checked> = Table::new(4);
        let readers = std::sync::atomic::AtomicUsize::new(3);
        std::thread::scope(|scope| {
            for reader in 0..3 {
                let (table, readers) = (&table, &readers);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let n = (round + reader) % 5;
                        if let Some(found) = table.find(hash_at(0, n % 2), key(n)) {
                            let found = found.clone();
                            assert_eq!((found.0, *found.1), (n, n));
                        }
                    }
                    readers.fetch_sub(1, Ordering::Relaxed);
                });
            }
            let mut resident = std::collections::VecDeque::new();
            let mut n = 0;
            while readers.load(Ordering::Relaxed) > 0 {
                let pinned = Pinned::new(key(n), Checked(n, Box::new(n)));
                resident.push_back(table.place(hash_at(0, n % 2), &pinned).unwrap());
                drop(pinned);
                if resident.len() > 3 {
                    drop(table.take(resident.pop_front().unwrap()));
                }
                n = (n + 1) % 5;
            }
        });
    }
}

#[cfg(loom)]
mod models {
    use super::*;
    use crate::sync::{Arc, thread};
    use loom::cell::UnsafeCell;

    /// A value whose reads and whose end loom must find ordered.
    struct Watched {
        content: UnsafeCell<u64>,
    }
    // SAFETY: loom's cell tracks and reports unordered accesses instead of racing.
    unsafe impl Send for Watched {}
    // SAFETY: as above.
    unsafe impl Sync for Watched {}

    impl Watched {
        fn pinned(n: u64) -> Pinned<Self> {
            Pinned::new(key(n), Self { content: UnsafeCell::new(n) })
        }

        fn read(&self) -> u64 {
            self.content.with(|content| {
                // SAFETY: loom checks that no thread writes meanwhile.
                unsafe { *content }
            })
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            self.content.with_mut(|content| {
                // SAFETY: loom checks that no other thread reads or writes.
                unsafe { *content = u64::MAX }
            });
        }
    }

    fn bounded(body: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(body);
    }

    fn table(slots: usize) -> Arc<Table<Watched>> {
        Arc::new(Table::new(slots))
    }

    fn reader(table: &Arc<Table<Watched>>, n: u64) -> thread::JoinHandle<()> {
        let table = Arc::clone(table);
        thread::spawn(move || {
            if let Some(found) = table.find(hash_at(0, 0), key(n)) {
                assert_eq!(found.read(), n, "a value of another key");
            }
        })
    }

    /// Two readers pin while the entry is evicted: it dies once, after its last reader.
    #[test]
    fn loom_cache_pin_against_evict() {
        bounded(|| {
            let table = table(1);
            let slot = table.place(hash_at(0, 0), &Watched::pinned(0)).unwrap();
            let readers = [reader(&table, 0), reader(&table, 0)];
            drop(table.take(slot));
            for reader in readers {
                reader.join().unwrap();
            }
        });
    }

    /// A reader between its look at the tag and its pin finds another key in the slot.
    #[test]
    fn loom_cache_pin_against_reuse_of_the_slot() {
        bounded(|| {
            let table = table(1);
            let slot = table.place(hash_at(0, 0), &Watched::pinned(0)).unwrap();
            let first = reader(&table, 0);
            drop(table.take(slot));
            assert_eq!(table.place(hash_at(0, 0), &Watched::pinned(1)), Some(slot));
            first.join().unwrap();
            assert!(table.take(slot).is_some());
        });
    }

    /// The entry is published while readers search for it.
    #[test]
    fn loom_cache_pin_against_insert() {
        bounded(|| {
            let table = table(1);
            let first = reader(&table, 0);
            let placed = Watched::pinned(0);
            assert!(table.place(hash_at(0, 0), &placed).is_some());
            assert_eq!(placed.read(), 0);
            drop(placed);
            first.join().unwrap();
            assert_eq!(table.find(hash_at(0, 0), key(0)).unwrap().read(), 0);
        });
    }

    /// The slot's count is moved to the entry while the entry is taken out.
    #[test]
    fn loom_cache_move_pins_against_evict() {
        bounded(|| {
            let table = table(1);
            let placed = Watched::pinned(0);
            let slot = table.place(hash_at(0, 0), &placed).unwrap();
            // As if that many pins had been taken and given back: the next one moves them.
            table.slots[slot].word.fetch_add(PIN * PINS_MOVED, Ordering::Relaxed);
            placed.entry().references.fetch_sub(PINS_MOVED, Ordering::Relaxed);
            drop(placed);
            let readers = [reader(&table, 0), reader(&table, 0)];
            let taken = table.take(slot).unwrap();
            for reader in readers {
                reader.join().unwrap();
            }
            assert_eq!(taken.references(), 1);
        });
    }
}
