//! The plan for memory, and what it asks of memtables.

use std::sync::atomic::Ordering;

use tidesdb_base::event::{Event, MemoryLevel};

use super::largest_memtables::MOST_FROZEN_AT_ONCE;
use crate::core::Core;
use crate::memory::{Holder, MemoryPlan};

impl Core {
    /// Makes a new plan for memory and does what it asks of memtables.
    #[cold]
    pub(crate) fn review_memory(&self) -> MemoryPlan {
        self.memory.budget.forget_burst(self.env.clock.monotonic_nanos());
        let plan = self.memory.budget.review();
        // ORDERING: relaxed; see `admit`.
        let held = plan.level >= MemoryLevel::High || self.flow.disk.is_short();
        self.flow.held.store(held, Ordering::Relaxed);
        if plan.flush_bytes > 0 {
            self.flush_largest(&plan);
        }
        self.report_level(&plan);
        plan
    }

    fn report_level(&self, plan: &MemoryPlan) {
        // ORDERING: relaxed; of two that report at once, one may be late.
        let reported = self.flow.reported_level.load(Ordering::Relaxed);
        let level = plan.level as u64;
        if reported != level && self.flow.level_reports.is_due(self.env.clock.monotonic_nanos()) {
            self.flow.reported_level.store(level, Ordering::Relaxed);
            let (used_bytes, budget_bytes) =
                (self.memory.budget.held().total(), self.memory.budget.bytes());
            self.telemetry.events.report(&Event::MemoryLevelChanged {
                level: plan.level,
                used_bytes,
                budget_bytes,
            });
        }
    }

    /// Freezes the largest memtables until what waits for a flush is as much as the plan wants.
    fn flush_largest(&self, plan: &MemoryPlan) {
        self.with_largest_memtables(|mut active| {
            let frozen_bytes = || self.memory.budget.held_by(Holder::Frozen);
            let least = match frozen_bytes() {
                0 => plan.least_flush_bytes,
                _ => plan.least_flush_bytes_beside_others,
            };
            let is_worth_it = |(bytes, _): &(u64, _)| *bytes >= least;
            if !plan.any_size || active.iter().any(is_worth_it) {
                active.retain(is_worth_it);
            }
            for (_, family) in active.into_iter().take(MOST_FROZEN_AT_ONCE) {
                if frozen_bytes() >= plan.flush_bytes {
                    break;
                }
                self.freeze_and_flush(&family, 0);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::Arc;

    use tidesdb_base::options::{DbOptions, FamilyOptions};
    use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};
    use tidesdb_sys::sync_points::on_sync_points;

    use super::*;
    use crate::db::{Components, Db};
    use crate::family::FamilyState;
    use crate::memory::BoundedCache;

    fn open(scheduler: &Arc<ManualScheduler>, mib: u64) -> Db {
        let components = Components {
            vfs: SimVfs::new(1),
            scheduler: Arc::clone(scheduler) as _,
            clock: Arc::new(ManualClock::new(1000)),
        };
        let options = DbOptions::default().max_memory_usage(mib << 20).log_segment_bytes(64 << 10);
        Db::open_with("/db", options, components).unwrap()
    }

    /// So many families with something in memory.
    fn written(db: &Db, families: usize) {
        for n in 0..families {
            let options = FamilyOptions::default().min_disk_space(0);
            let family = db.create_family(&n.to_string(), options).unwrap();
            family.put(b"key", vec![7; 1000 * (n + 1)]).unwrap();
        }
    }

    fn frozen(core: &Core) -> usize {
        core.families.all().iter().map(|family| family.view.load().frozen.len()).sum()
    }

    /// Writers waited for a flush of memtables none of which was large enough for one.
    #[test]
    fn where_none_is_large_enough_the_largest_memtables_are_written_out() {
        let scheduler = Arc::new(ManualScheduler::new(1));
        let db = open(&scheduler, 256);
        written(&db, 100);
        let of_family = |n: usize| db.family(&n.to_string()).unwrap();
        let put_more = |n: usize| of_family(n).put(b"large", vec![7; 900_000]).unwrap();
        let is_frozen = |n: usize| !of_family(n).state().view.load().frozen.is_empty();
        put_more(99);
        let core = db.core();
        let mut plan = core.memory.budget.review();
        let largest = |core: &Core| {
            let bytes = |f: &Arc<FamilyState>| f.view.load().active.allocated_bytes();
            core.families.all().iter().map(bytes).max().unwrap()
        };
        let most = largest(core);
        (plan.least_flush_bytes, plan.flush_bytes) = (most + 1, u64::MAX);
        plan.least_flush_bytes_beside_others = most + 1;
        core.flush_largest(&plan);
        assert_eq!(frozen(core), 0);
        plan.any_size = true;
        core.flush_largest(&plan);
        assert_eq!(frozen(core), MOST_FROZEN_AT_ONCE);
        assert!(is_frozen(99), "the largest go first");
        scheduler.run_until_idle();
        assert_eq!(core.memory.budget.held_by(Holder::Frozen), 0);
        // One that is large enough goes alone.
        put_more(50);
        plan.least_flush_bytes = largest(core);
        core.flush_largest(&plan);
        assert!(frozen(core) == 1 && is_frozen(50));
        scheduler.run_until_idle();
    }

    /// Each of many waiting writers looked at all families, to find what another had found.
    #[test]
    fn one_thread_at_a_time_looks_for_the_largest_memtables() {
        let scheduler = Arc::new(ManualScheduler::new(1));
        let db = Arc::new(open(&scheduler, 16));
        written(&db, 3);
        let budget = &db.core().memory.budget;
        let left = budget.bytes() / 10 * 9 - budget.held().total();
        let _scans = budget.reserve(Holder::Scans, left);
        let looks = Rc::new(Cell::new(0));
        let hook = {
            let (db, looks) = (Arc::clone(&db), Rc::clone(&looks));
            move |place: &'static str| {
                if place == "memtables looked through" {
                    looks.set(looks.get() + 1);
                    if looks.get() == 1 {
                        for _ in 0..10 {
                            db.core().review_memory();
                        }
                    }
                }
            }
        };
        on_sync_points(Some(Rc::new(hook)));
        db.core().review_memory();
        assert_eq!(looks.get(), 1);
        db.core().review_memory();
        assert_eq!(looks.get(), 2);
        on_sync_points(None);
        // What was counted on the way is what the views say.
        let in_views = || -> u64 {
            let families = db.core().families.all();
            let views = families.iter().map(|family| family.view.load_full());
            let bytes = |m: &Arc<crate::memtable::Memtable>| m.allocated_bytes();
            views.map(|view| view.frozen.iter().map(bytes).sum::<u64>()).sum()
        };
        assert!(in_views() > 0);
        assert_eq!(budget.held_by(Holder::Frozen), in_views());
        db.drop_family("0").unwrap();
        assert_eq!(budget.held_by(Holder::Frozen), in_views());
        scheduler.run_until_idle();
        assert_eq!(budget.held_by(Holder::Frozen), 0);
    }

    /// What was put while megabytes were written out became a table of a few kilobytes, and the
    /// next few kilobytes another one.
    #[test]
    fn beside_a_flush_no_small_memtable_is_written_out() {
        let scheduler = Arc::new(ManualScheduler::new(1));
        let db = open(&scheduler, 16);
        let options = FamilyOptions::default().min_disk_space(0);
        let family = db.create_family("family", options).unwrap();
        let (core, state) = (db.core(), family.state());
        let frozen = || state.view.load().frozen.len();
        let put = || (0..100_u8).for_each(|n| family.put(&[n], &[n; 100]).unwrap());
        put();
        core.freeze_and_flush(state, 0);
        assert_eq!(frozen(), 1);
        put();
        let budget = &core.memory.budget;
        let _scans = budget.reserve(Holder::Scans, budget.bytes() / 10 * 9 - budget.held().total());
        assert_eq!(core.review_memory().level, MemoryLevel::High);
        assert_eq!(frozen(), 1);
        // With nothing else to write out, it is worth it.
        scheduler.run_until_idle();
        assert_eq!(frozen(), 0);
        assert!(state.view.load().active.is_empty());
    }

    /// Reads that follow a load had the block cache that the memtables of the load had left.
    #[test]
    fn at_rest_the_block_cache_takes_what_memtables_once_took() {
        let options = DbOptions::default().max_memory_usage(64 << 20).block_cache_bytes(64 << 20);
        let db = Db::open_with("/db", options, Components::simulated()).unwrap();
        let options = FamilyOptions::default().write_buffer_size(64 << 20);
        let family = db.create_family("family", options.klog_value_threshold(1 << 20)).unwrap();
        let cache_bytes = || db.core().storage.files.blocks.capacity_bytes();
        let before = cache_bytes();
        for n in 0..30_000_u32 {
            family.put(n.to_be_bytes(), [7; 1000]).unwrap();
        }
        family.flush().unwrap();
        let loaded = cache_bytes();
        db.wait_idle().unwrap();
        let at_rest = cache_bytes();
        assert!(loaded < before / 4 * 3, "{loaded} of {before}: nothing was put to the test");
        assert!(at_rest > before / 10 * 9, "{at_rest} of {before}");
    }
}
