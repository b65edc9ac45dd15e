//! Writing memtables out when those of all families together hold more than they may.

use super::largest_memtables::MOST_FROZEN_AT_ONCE;
use crate::core::Core;
use crate::memory::Holder;

impl Core {
    /// Has memtables written out after a commit if those that take commits hold more than
    /// `shared_write_buffer_bytes`.
    #[inline]
    pub(super) fn keep_to_shared_buffer(&self) {
        if self.flow.shared_buffer.is_look_due(|| self.unfrozen_bytes()) {
            self.empty_shared_buffer();
        }
    }

    /// What all memtables take but frozen ones: those that take commits, and those that readers
    /// hold.
    fn unfrozen_bytes(&self) -> u64 {
        let frozen = self.memory.budget.held_by(Holder::Frozen);
        self.memory.pool.used_bytes().saturating_sub(frozen)
    }

    /// Freezes the largest memtables until the others hold half of what they may, if they hold
    /// more. If those that are frozen at once are not enough, the next commit goes on.
    #[cold]
    fn empty_shared_buffer(&self) {
        self.with_largest_memtables(|active| {
            let mut all: u64 = active.iter().map(|(bytes, _)| bytes).sum();
            let most = self.flow.shared_buffer.most_bytes();
            if all > most {
                for (bytes, family) in active.into_iter().take(MOST_FROZEN_AT_ONCE) {
                    if all <= most / 2 {
                        break;
                    }
                    self.freeze_and_flush(&family, 0);
                    all -= bytes;
                }
                self.limit_retained_log();
            }
            self.flow.shared_buffer.note(all, self.unfrozen_bytes());
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidesdb_base::options::{DbOptions, FamilyOptions};
    use tidesdb_sim::ManualScheduler;

    use super::MOST_FROZEN_AT_ONCE;
    use crate::db::{Components, Db};

    const MOST: u64 = 2 << 20;

    fn open(most_bytes: u64) -> (Db, Arc<ManualScheduler>) {
        let scheduler = Arc::new(ManualScheduler::new(1));
        let components =
            Components { scheduler: Arc::clone(&scheduler) as _, ..Components::simulated() };
        let options = DbOptions::default().shared_write_buffer_bytes(most_bytes);
        (Db::open_with("/db", options, components).unwrap(), scheduler)
    }

    fn active_bytes(db: &Db) -> u64 {
        let families = db.core().families.all();
        families.iter().map(|family| family.view.load().active.allocated_bytes()).sum()
    }

    /// A reader that holds a memtable which was flushed does not have all others written out.
    #[test]
    fn memtables_of_all_families_together_hold_no_more_than_they_may() {
        let (db, scheduler) = open(MOST);
        let create = |n: usize| db.create_family(&n.to_string(), FamilyOptions::default()).unwrap();
        let families: Vec<_> = (0..8).map(create).collect();
        let mut scans = Vec::new();
        for round in 0..2000_usize {
            // One is written as often as all others together.
            let family = &families[if round % 2 == 0 { 0 } else { round / 2 % 8 }];
            family.put(round.to_be_bytes(), vec![7; 8000]).unwrap();
            assert!(active_bytes(&db) <= MOST, "{} in round {round}", active_bytes(&db));
            if round % 150 == 0 && round < 1200 {
                scans.push(families[0].iter().unwrap());
            }
            if round == 1400 {
                scans.clear();
            }
            if round % 100 == 0 {
                scheduler.run_until_idle();
            }
        }
        scheduler.run_until_idle();
        let flushes = db.stats().work.memtables_frozen;
        // Half of the bound leaves each time: about a fourth of it for each of eight families.
        assert!((8..120).contains(&flushes), "{flushes} memtables of 16 MB in all");
        for (n, family) in families.iter().enumerate() {
            let expected =
                (0..2000).filter(|r| (r % 2 == 0 && n == 0) || (r % 2 == 1 && r / 2 % 8 == n));
            assert_eq!(family.iter().unwrap().entries().count(), expected.count(), "family {n}");
        }
    }

    /// The commit that crossed the bound had all of thousands of families written out.
    #[test]
    fn one_commit_freezes_few_of_many_memtables() {
        let (db, _scheduler) = open(256 << 10);
        let frozen = || db.stats().work.memtables_frozen;
        for n in 0..200_u32 {
            let family = db.create_family(&n.to_string(), FamilyOptions::default()).unwrap();
            let before = frozen();
            family.put(b"key", b"value").unwrap();
            assert!(frozen() - before <= MOST_FROZEN_AT_ONCE as u64);
        }
        assert!(frozen() > 0, "nothing was put to the test");
    }

    #[test]
    fn without_the_option_no_memtable_is_written_out_early() {
        let (db, _scheduler) = open(0);
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        (0..2000_u32).for_each(|n| family.put(n.to_be_bytes(), vec![7; 1000]).unwrap());
        assert_eq!(db.stats().work.memtables_frozen, 0);
    }
}
