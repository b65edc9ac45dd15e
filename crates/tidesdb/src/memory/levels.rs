//! What has to give way at a given use of memory.
//!
//! Four levels: normal under 80 % of the budget, elevated under 87, high under 95, critical. The
//! block cache and the recycled blocks of memtables take what the others leave up to a little less
//! than the first bound, within limits. What memtables once took is kept free for them: memory
//! that the cache gave back is in pieces that memtables cannot use. So the cache does not breathe
//! with each flush, and nothing moves in steps. Above the first
//! bound memtables are to be written out until enough comes back.

use tidesdb_base::event::MemoryLevel;

/// Bounds of the levels in per cent of the budget.
const ELEVATED_PERCENT: u64 = 80;
const HIGH_PERCENT: u64 = 87;
const CRITICAL_PERCENT: u64 = 95;

/// What block cache and recycled blocks fill up, and flushes bring the use of memory back to.
/// Tables, log, cache and compactions may take some 60 % for long. What is left up to here is for
/// memtables: were it little, each would be written out when it has hardly begun.
const TARGET_PERCENT: u64 = 75;

/// Bounds of the block cache in per cent of the budget.
const LEAST_CACHE_PERCENT: u64 = 10;
const MOST_CACHE_PERCENT: u64 = 40;

/// While writers wait for memory, memtables that together take more than one part in so many of the
/// budget are written out, however small each of them is.
const MANY_SMALL_PART: u64 = 4;

/// What is kept free for memtables even before they took it: per cent of the budget, and bytes.
const RESERVED_PERCENT: u64 = 30;
const RESERVED_BYTES: u64 = 80 << 20;

/// What is wanted of memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryWish {
    /// The budget.
    pub budget: u64,
    /// What the block cache would take if memory were unlimited.
    pub cache: u64,
    /// What recycled blocks would take.
    pub recycled: u64,
    /// The most that memtables took so far.
    pub memtables: u64,
}

/// Memory in use, in bytes, by who holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryUse {
    /// Memtables, active and frozen.
    pub memtables: u64,
    /// Blocks of former memtables, kept for the next.
    pub recycled: u64,
    /// The block cache.
    pub block_cache: u64,
    /// Indexes and filters of open tables.
    pub tables: u64,
    /// Buffers of scans.
    pub scans: u64,
    /// Open transactions.
    pub transactions: u64,
    /// Buffers of flushes and compactions.
    pub background: u64,
    /// Families themselves.
    pub families: u64,
    /// Mapped log segments.
    pub log: u64,
}

impl MemoryUse {
    /// All of it.
    pub(crate) const fn total(&self) -> u64 {
        self.cannot_shrink()
            .saturating_add(self.memtables)
            .saturating_add(self.recycled)
            .saturating_add(self.block_cache)
    }

    /// What no decision here can give back.
    const fn cannot_shrink(&self) -> u64 {
        self.tables
            .saturating_add(self.scans)
            .saturating_add(self.transactions)
            .saturating_add(self.background)
            .saturating_add(self.families)
            .saturating_add(self.log)
    }
}

/// What is to be done at a use of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    pub level: MemoryLevel,
    /// What the block cache may take, in bytes.
    pub cache_bytes: u64,
    /// What the recycled blocks may take, in bytes.
    pub recycled_bytes: u64,
    /// Memtables of so many bytes in all should be written out; 0 when there is no need.
    pub flush_bytes: u64,
    /// Memtables smaller than this are not worth it.
    pub least_flush_bytes: u64,
    /// The same while others are being written out, which will free more.
    pub least_flush_bytes_beside_others: u64,
    /// Where none is as large as that, the largest are worth it all the same.
    pub any_size: bool,
    /// Bytes of memtables from which on the plan has to be made anew.
    pub memtable_bound: u64,
    /// What is left before writers have to wait.
    pub room_bytes: u64,
}

const fn percent(of: u64, percent: u64) -> u64 {
    of / 100 * percent
}

const fn level(used: u64, budget: u64) -> MemoryLevel {
    if used < percent(budget, ELEVATED_PERCENT) {
        MemoryLevel::Normal
    } else if used < percent(budget, HIGH_PERCENT) {
        MemoryLevel::Elevated
    } else if used < percent(budget, CRITICAL_PERCENT) {
        MemoryLevel::High
    } else {
        MemoryLevel::Critical
    }
}

/// What is to be done.
pub(crate) fn plan(held: &MemoryUse, wish: &MemoryWish) -> MemoryPlan {
    let budget = wish.budget;
    let (elevated, target) = (percent(budget, ELEVATED_PERCENT), percent(budget, TARGET_PERCENT));
    let others = held.cannot_shrink().saturating_add(held.memtables);
    let most = wish.cache.min(percent(budget, MOST_CACHE_PERCENT));
    let least = most.min(percent(budget, LEAST_CACHE_PERCENT));
    let reserved = percent(budget, RESERVED_PERCENT).min(RESERVED_BYTES);
    let reserved = reserved.max(wish.memtables).max(held.memtables);
    let cache_bytes = target.saturating_sub(held.cannot_shrink() + reserved).clamp(least, most);
    let kept = held.block_cache.min(cache_bytes);
    let recycled_bytes = target.saturating_sub(others + kept).min(wish.recycled);
    // As it will be when both have given way.
    let used = others.saturating_add(kept).saturating_add(held.recycled.min(recycled_bytes));
    let level = level(used, budget);
    // The next look is due when memtables reach the first bound with the cache as it is, or
    // have grown by another step beyond it.
    let step = (budget / 256).max(64 << 10);
    let first = elevated.saturating_sub(held.cannot_shrink().saturating_add(cache_bytes));
    MemoryPlan {
        level,
        cache_bytes,
        recycled_bytes,
        flush_bytes: match level {
            MemoryLevel::Normal => 0,
            _ => used - target,
        },
        least_flush_bytes: match level {
            MemoryLevel::Normal | MemoryLevel::Elevated => budget / 64,
            MemoryLevel::High => budget / 4096,
            // Ten thousand families with a little each may hold all of it (`any_size`); smaller
            // ones are not worth a file when scans do.
            MemoryLevel::Critical => budget / 16384,
        },
        least_flush_bytes_beside_others: match level {
            MemoryLevel::Critical => budget / 16384,
            _ => budget / 64,
        },
        any_size: level == MemoryLevel::Critical && held.memtables > budget / MANY_SMALL_PART,
        memtable_bound: first.max(held.memtables.saturating_add(step)),
        room_bytes: percent(budget, CRITICAL_PERCENT).saturating_sub(used),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn held(memtables: u64, block_cache: u64, others: u64) -> MemoryUse {
        MemoryUse {
            memtables: memtables * MIB,
            block_cache: block_cache * MIB,
            tables: others * MIB,
            ..MemoryUse::default()
        }
    }

    fn plan_of(held: &MemoryUse, budget_mib: u64, peak_mib: u64) -> MemoryPlan {
        let wish = MemoryWish {
            budget: budget_mib * MIB,
            cache: 64 * MIB,
            recycled: 64 * MIB,
            memtables: peak_mib * MIB,
        };
        plan(held, &wish)
    }

    #[test]
    fn levels_follow_from_what_cannot_be_given_back() {
        // memtables, cache, others in MiB of a budget of 100 -> level, cache capacity
        let table = [
            (0, 0, 0, MemoryLevel::Normal, 40),
            (20, 40, 0, MemoryLevel::Normal, 40),
            (40, 40, 0, MemoryLevel::Normal, 35),
            (20, 40, 10, MemoryLevel::Normal, 35),
            (69, 40, 0, MemoryLevel::Normal, 10),
            (72, 40, 0, MemoryLevel::Elevated, 10),
            (72, 0, 0, MemoryLevel::Normal, 10),
            (80, 40, 0, MemoryLevel::High, 10),
            (90, 10, 0, MemoryLevel::Critical, 10),
            (0, 0, 96, MemoryLevel::Critical, 10),
            (1, 0, 10_000, MemoryLevel::Critical, 10),
        ];
        for (memtables, cache, others, level, capacity) in table {
            let plan = plan_of(&held(memtables, cache, others), 100, 0);
            assert!(
                plan.level == level && plan.cache_bytes.abs_diff(capacity * MIB) < MIB,
                "{memtables} {cache} {others}: {plan:?}"
            );
        }
    }

    #[test]
    fn the_cache_does_not_take_what_memtables_come_back_for() {
        assert!(plan_of(&held(0, 0, 0), 100, 65).cache_bytes <= 10 * MIB);
        let (empty, full) = (held(5, 10, 5), held(65, 10, 5));
        let before = plan_of(&full, 100, 65).cache_bytes;
        assert_eq!(plan_of(&empty, 100, 65).cache_bytes, before);
    }

    #[test]
    fn a_large_budget_changes_nothing() {
        let plan = plan_of(&held(96, 64, 20), 16 << 10, 96);
        assert_eq!(plan.level, MemoryLevel::Normal);
        assert_eq!((plan.cache_bytes, plan.recycled_bytes), (64 * MIB, 64 * MIB));
        assert_eq!(plan.flush_bytes, 0);
        assert!(plan.memtable_bound > 9 << 30);
    }

    #[test]
    fn recycled_blocks_go_before_anything_is_flushed() {
        let use_now = MemoryUse { recycled: 50 * MIB, ..held(49, 20, 5) };
        let plan = plan_of(&use_now, 100, 0);
        assert_eq!((plan.level, plan.flush_bytes), (MemoryLevel::Normal, 0));
        assert!(plan.recycled_bytes <= 2 * MIB, "{plan:?}");
    }

    #[test]
    fn what_is_to_be_flushed_brings_the_level_back_to_normal() {
        for memtables in [71, 73, 75, 80, 94] {
            let before = held(memtables, 40, 0);
            let first = plan_of(&before, 100, memtables);
            assert!(first.flush_bytes > 0 && first.flush_bytes <= before.memtables, "{first:?}");
            let after = MemoryUse {
                memtables: before.memtables - first.flush_bytes,
                block_cache: before.block_cache.min(first.cache_bytes),
                ..before
            };
            assert_eq!(plan_of(&after, 100, memtables).level, MemoryLevel::Normal);
        }
    }

    /// Twenty-four kilobytes were written out at once while fourteen megabytes were being.
    #[test]
    fn beside_a_flush_only_what_is_large_is_written_out() {
        let plan = |memtables| plan_of(&held(memtables, 10, 10), 100, 0);
        let (high, critical) = (plan(70), plan(90));
        assert_eq!((high.level, critical.level), (MemoryLevel::High, MemoryLevel::Critical));
        assert!(high.least_flush_bytes < MIB / 16);
        assert!(high.least_flush_bytes_beside_others > MIB);
        assert!(critical.least_flush_bytes_beside_others < MIB / 16);
    }

    /// Ten thousand memtables took nearly two thirds of a budget before one was large enough.
    #[test]
    fn much_in_small_memtables_is_written_out_while_writers_wait() {
        for (memtables, others, any_size) in
            [(80, 20, true), (26, 70, true), (24, 72, false), (60, 0, false), (75, 15, false)]
        {
            let plan = plan_of(&held(memtables, 0, others), 100, 0);
            assert_eq!(plan.any_size, any_size, "{memtables} {others}: {plan:?}");
        }
    }

    #[test]
    fn the_next_look_is_never_behind_and_never_far_ahead() {
        for memtables in 0..200 {
            let now = held(memtables, 10, 10);
            let plan = plan_of(&now, 100, 0);
            let bound = plan.memtable_bound;
            assert!(bound > now.memtables);
            let expected = (60 * MIB).max(now.memtables + MIB);
            assert!(bound <= expected, "{memtables}: {}", bound / MIB);
        }
    }
}
