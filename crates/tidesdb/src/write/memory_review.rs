//! The plan for memory, and what it asks of memtables.

use std::sync::atomic::Ordering;

use tidesdb_base::event::{Event, MemoryLevel};

use crate::core::Core;
use crate::memory::MemoryPlan;

/// Families that are frozen at once for the sake of memory.
const MOST_FROZEN_AT_ONCE: usize = 64;

impl Core {
    /// Makes a new plan for memory and does what it asks of memtables.
    #[cold]
    pub(crate) fn review_memory(&self) -> MemoryPlan {
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
        let mut active = Vec::new();
        let mut frozen_bytes = 0;
        for family in self.families.all() {
            let view = family.view.load();
            frozen_bytes += view.frozen.iter().map(|m| m.allocated_bytes()).sum::<u64>();
            let bytes = view.active.allocated_bytes();
            if !view.frozen.is_empty() {
                self.schedule_flush(&family);
            }
            if !view.active.is_empty() {
                drop(view);
                active.push((bytes, family));
            }
        }
        let least = match frozen_bytes {
            0 => plan.least_flush_bytes,
            _ => plan.least_flush_bytes_beside_others,
        };
        active.retain(|(bytes, _)| *bytes >= least);
        active.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        for (bytes, family) in active.into_iter().take(MOST_FROZEN_AT_ONCE) {
            if frozen_bytes >= plan.flush_bytes {
                break;
            }
            self.freeze_and_flush(&family, 0);
            frozen_bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidesdb_base::event::MemoryLevel;
    use tidesdb_base::options::{DbOptions, FamilyOptions};
    use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};

    use crate::db::{Components, Db};
    use crate::memory::Holder;

    /// What was put while megabytes were written out became a table of a few kilobytes, and the
    /// next few kilobytes another one.
    #[test]
    fn beside_a_flush_no_small_memtable_is_written_out() {
        let scheduler = Arc::new(ManualScheduler::new(1));
        let components = Components {
            vfs: SimVfs::new(1),
            scheduler: Arc::clone(&scheduler) as _,
            clock: Arc::new(ManualClock::new(1000)),
        };
        let options = DbOptions::default().max_memory_usage(16 << 20).log_segment_bytes(64 << 10);
        let db = Db::open_with("/db", options, components).unwrap();
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
}
