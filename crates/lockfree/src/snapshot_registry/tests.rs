//! Tests of the registry of snapshots: what one thread sees, a stress run, and the loom models.

use super::*;

fn at(sequence: u64) -> ReadPoint {
    ReadPoint { sequence, now: sequence * 10 }
}

#[cfg(not(loom))]
mod threads {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    #[test]
    fn a_snapshot_held_twice_is_listed_until_both_are_gone() {
        let registry = SnapshotRegistry::default();
        let first = registry.register(|| at(7));
        assert_eq!(first.read_point(), at(7));
        let again = registry.register_again(first);
        registry.register(|| at(9));
        assert!(registry.watch(&[7]));
        assert!(!registry.release(first), "held once more");
        assert_eq!((registry.list(), registry.oldest_time()), (vec![7, 9], Some(70)));
        assert!(registry.release(again));
        assert_eq!((registry.list(), registry.oldest_time()), (vec![9], Some(90)));
    }

    #[test]
    fn only_the_end_of_a_watched_snapshot_is_told_and_only_once() {
        let registry = SnapshotRegistry::default();
        let [three, seven, nine, eleven] = [3, 7, 9, 11].map(|n| registry.register(|| at(n)));
        assert!(!registry.watch(&[7, 8]), "there is no 8");
        assert!(registry.watch(&[7, 9]) && registry.watch(&[9]));
        assert!(!registry.release(three) && registry.release(nine), "not the oldest, but watched");
        let nine = registry.register(|| at(9));
        assert!(!registry.release(nine) && !registry.release(eleven) && registry.release(seven));
        assert!(!registry.watch(&[7]));
    }

    /// Each holder is in a stripe of its own.
    #[test]
    fn what_lies_in_many_stripes_is_one_registry() {
        let registry = SnapshotRegistry::default();
        let held: Vec<_> = (0..STRIPES).map(|n| registry.register_in(n, || at(7))).collect();
        let older = registry.register_in(STRIPES - 1, || at(5));
        assert_eq!((registry.list(), registry.oldest()), (vec![5, 7], Some(5)));
        assert_eq!(registry.oldest_time(), Some(50));
        assert!(!registry.watch_time(70), "another one is older");
        assert!(registry.watch_time(50) && registry.release(older), "the oldest time passes on");
        assert!(!registry.watch_time(50) && registry.watch_time(70) && registry.watch(&[7]));
        let reports = held.into_iter().filter(|&held| registry.release(held)).count();
        assert_eq!(reports, 1, "each stripe told of an end");
        assert_eq!((registry.list(), registry.oldest_time()), (vec![], None));
    }

    /// Readers that come to a watched snapshot later, in other stripes, keep it as well.
    #[test]
    fn the_end_of_a_watched_snapshot_comes_with_its_last_reader() {
        let registry = SnapshotRegistry::default();
        let first = registry.register_in(0, || at(7));
        assert!(registry.watch(&[7]) && registry.watch_time(70));
        let second = registry.register_in(1, || at(7));
        let third = registry.register_in(STRIPES - 1, || at(9));
        assert!(!registry.release(first) && registry.release(second));
        assert!(registry.watch(&[9]) && !registry.watch_time(70));
        assert!(registry.release(third));
    }

    /// A registration that another thread ends is not left behind.
    #[test]
    fn a_registration_ends_where_it_began() {
        let registry = SnapshotRegistry::default();
        let held: Vec<_> = (0..STRIPES).map(|n| registry.register_in(n, || at(1))).collect();
        std::thread::scope(|scope| {
            for registration in held {
                let registry = &registry;
                scope.spawn(move || registry.release(registration));
            }
        });
        assert_eq!(registry.list(), []);
    }

    /// Readers of many threads beside one that publishes, and looks that drop what none needs.
    #[test]
    fn nothing_that_a_live_snapshot_needs_is_dropped() {
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        let (registry, published) = (SnapshotRegistry::default(), AtomicU64::new(1));
        let (dropped, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        let mine = registry.register(|| at(published.load(Ordering::SeqCst)));
                        let needed = mine.sequence;
                        let dropped = dropped.load(Ordering::SeqCst);
                        assert!(dropped <= needed, "{dropped} are dropped, {needed} is read");
                        registry.release(mine);
                    }
                });
            }
            for now in 2..rounds {
                published.store(now, Ordering::SeqCst);
                dropped.store(registry.oldest().unwrap_or(now), Ordering::SeqCst);
            }
            ended.store(true, Ordering::Relaxed);
        });
    }
}

#[cfg(loom)]
mod models {
    use super::*;
    use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, thread};

    /// The registry, and a key with a version of each sequence number from 1 on.
    #[derive(Default)]
    struct Model {
        registry: SnapshotRegistry,
        published: AtomicU64,
        /// The version 1 was dropped, since a newer one hid it from all snapshots.
        is_dropped: AtomicBool,
    }

    impl Model {
        fn new() -> Arc<Self> {
            let model = Arc::new(Self::default());
            model.published.store(1, Ordering::Release);
            model
        }

        // ORDERING: release and acquire as of the engine's sequencer.
        fn publish(&self) {
            self.published.store(2, Ordering::Release);
        }

        fn register(&self, stripe: usize) -> Registration {
            self.registry.register_in(stripe, || at(self.published.load(Ordering::Acquire)))
        }

        /// A reader that needs version 1 must find it as long as it is registered.
        fn read(&self, stripe: usize) {
            let mine = self.register(stripe);
            if mine.sequence == 1 {
                assert!(!self.is_dropped.load(Ordering::Acquire), "a live snapshot needs it");
            }
            self.registry.release(mine);
        }
    }

    fn spawn(model: &Arc<Model>, work: impl FnOnce(&Model) + 'static) -> thread::JoinHandle<()> {
        let model = Arc::clone(model);
        thread::spawn(move || work(&model))
    }

    #[test]
    fn loom_nothing_a_snapshot_needs_is_dropped() {
        loom::model(|| {
            let model = Model::new();
            let readers = [0, 1].map(|stripe| spawn(&model, move |model| model.read(stripe)));
            model.publish();
            if !model.registry.list().contains(&1) {
                model.is_dropped.store(true, Ordering::Release);
            }
            for reader in readers {
                reader.join().unwrap();
            }
        });
    }

    /// The one that is found oldest is no newer than any that lives, or comes later.
    #[test]
    fn loom_the_oldest_snapshot_is_never_overestimated() {
        loom::model(|| {
            let model = Model::new();
            let first = spawn(&model, |model| {
                model.register(0);
            });
            let second = spawn(&model, |model| {
                model.publish();
                model.register(1);
            });
            let (oldest, time) = (model.registry.oldest(), model.registry.oldest_time());
            first.join().unwrap();
            second.join().unwrap();
            let now = model.registry.list();
            let is_lower_bound = |oldest: u64| now.iter().all(|&live| oldest <= live);
            assert!(oldest.is_none_or(is_lower_bound), "{oldest:?} of {now:?}");
            assert!(time.is_none_or(|time| is_lower_bound(time / 10)), "{time:?} of {now:?}");
        });
    }

    /// Who watches a snapshot is told when it has gone, or finds that it has.
    #[test]
    fn loom_the_end_of_a_watched_snapshot_is_never_missed() {
        loom::model(|| {
            let model = Model::new();
            let told = Arc::new(AtomicU64::new(0));
            let held = [model.register(0), model.register(1)];
            let readers = held.map(|registration| {
                let told = Arc::clone(&told);
                spawn(&model, move |model| {
                    let is_told = model.registry.release(registration);
                    told.fetch_add(u64::from(is_told), Ordering::Relaxed);
                })
            });
            let is_watched = model.registry.watch(&[1]);
            let watches_time = model.registry.watch_time(10);
            for reader in readers {
                reader.join().unwrap();
            }
            let told = told.load(Ordering::Relaxed);
            assert!(told > 0 || !is_watched && !watches_time, "nobody was told");
            assert!(told <= u64::from(is_watched) + u64::from(watches_time), "told again");
        });
    }
}
