//! The memory of open tables: indexes and filters, which a share of the memory budget is for.
//!
//! A table is held as a whole, or its filter is, or it is held in parts: what is not held is read
//! through the block cache, part by part. A get asks the filters of all runs that it meets, and the
//! index of one. So filters come first: where there is room for them alone, indexes give way. It
//! asks each run from the newest on, so a byte of a small run's filters is asked more often than
//! one of a large run's: a filter that is asked often takes the place of those of runs that are at
//! least twice as large. Tables that are not used give way to those that are; those that are held
//! in parts only when these alone are too many. A caller that opens a table asks first; nothing
//! polls.
//!
//! A table is idle when no call used it for a whole period. A period ends when a table that is held
//! in parts was asked often within it, or when room was sought as many times as there are tables.
//! So a caller that seeks room looks at the idle tables that the last period left, and takes
//! nothing from those in use: where all are in use, a table more is read in parts. Without periods,
//! each opening would find idle whatever was not used since the opening before. A database with
//! more tables than its share has room for opens some all the time, each of them would close
//! others, and these are opened again: an index and a filter are read and checked for each.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tidesdb_files::sstable::{HeldParts, HeldSizes};
use tidesdb_lockfree::sync::lock;

use crate::memory::{Holder, MemoryBudget};

/// Open tables may take so much of the memory budget, in per cent. What they do not take is left to
/// memtables and block cache. With less, a get in a database of thirty times the budget reads parts
/// of most filters that it asks: `docs/perf/2026-11-28-little-memory.md`.
const SHARE_PERCENT: u64 = 30;

/// What is known of tables takes its part of that, open or not, and leaves at least so much of the
/// budget, in per cent: with many tables both together would leave no room for anything else.
const LEAST_SHARE_PERCENT: u64 = 10;

/// So many entries are not worth a look for those that point at nothing any more.
const LEAST_LOOKED_THROUGH: usize = 64;

/// What a table that is held has to say for that; the larger one gives way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// It was used, and its run has so many bytes: the fewer, the more often it is asked for each.
    OfRun(u64),
    /// It was not used in the last period.
    Idle,
}

impl Claim {
    /// Whether a table with this claim gives way to one in use. A run has to be much smaller than
    /// the other: of two that are alike each would take the place of the other in turn.
    fn gives_way_to(self, other: Self) -> bool {
        match (self, other) {
            (Self::Idle, _) => true,
            (Self::OfRun(bytes), Self::OfRun(others)) => bytes / 2 >= others,
            (Self::OfRun(_), Self::Idle) => false,
        }
    }
}

/// A table that has something in memory.
pub(crate) trait HeldTable: Debug + Send + Sync {
    /// Begins a period. How the table is held, and what the last period says for that; none of a
    /// table that is not open.
    fn begin_period(&self) -> Option<(HeldParts, Claim)>;

    /// Closes the table if it is held like this, unless it was idle and is no more.
    fn give_way(&self, held: HeldParts, claim: Claim);

    /// Closes the table.
    fn close(&self);
}

/// What a table wants that is held in parts and asked often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub sizes: HeldSizes,
    /// What is held of it.
    pub held: HeldParts,
    /// Its filter spares gets something.
    pub needs_filter: bool,
}

impl Wanted {
    const fn more_for_all(self) -> u64 {
        match self.held {
            HeldParts::Filter => self.sizes.index,
            _ => self.sizes.both(),
        }
    }
}

/// The period in which a table began to count how often it is asked.
#[derive(Debug, Default)]
pub(crate) struct CountsSince(AtomicU32);

/// Which open tables are held, and which of them give their memory up next.
#[derive(Debug)]
pub(crate) struct TableMemory {
    budget: Arc<MemoryBudget>,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    /// Every table that was ever opened, once.
    all: Vec<Weak<dyn HeldTable>>,
    /// With so many entries, those that point at nothing any more are looked for.
    looked_through_at: usize,
    period: u32,
    /// How often room was sought in this period.
    sought: usize,
    /// Tables that were held as a whole when the period began, those of which the filter was, and
    /// those that were held in parts and idle: those that give way first are the last ones.
    held: [Vec<(Claim, Weak<dyn HeldTable>)>; 3],
}

impl Tables {
    fn begin_period(&mut self) {
        self.period = self.period.wrapping_add(1);
        self.sought = 0;
        self.held.iter_mut().for_each(Vec::clear);
        for weak in &self.all {
            let Some((held, claim)) = weak.upgrade().and_then(|table| table.begin_period()) else {
                continue;
            };
            if held != HeldParts::None || claim == Claim::Idle {
                self.held[held as usize].push((claim, Weak::clone(weak)));
            }
        }
        for held in [HeldParts::All, HeldParts::Filter] {
            self.held[held as usize].sort_by_key(|(claim, _)| *claim);
        }
    }
}

impl TableMemory {
    /// The share of `budget`.
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, tables: Mutex::default() }
    }

    /// The share of a budget of so many bytes, with next to no tables.
    pub(crate) const fn share_of(budget: u64) -> u64 {
        budget / 100 * SHARE_PERCENT
    }

    /// What open tables may take now.
    fn share(&self) -> u64 {
        let (budget, known) = (self.budget.bytes(), self.budget.held_by(Holder::TableRecords));
        Self::share_of(budget).saturating_sub(known).max(budget / 100 * LEAST_SHARE_PERCENT)
    }

    /// Whether so many bytes more are within the share.
    fn has_room(&self, bytes: u64) -> bool {
        self.budget.table_bytes().saturating_add(bytes) <= self.share()
    }

    /// Closes idle tables until there is room for a table of these sizes, or else for its filter.
    /// What of it is to be held: nothing where all tables are in use.
    pub(crate) fn make_room(&self, sizes: HeldSizes) -> HeldParts {
        if self.has_room(sizes.both()) {
            return HeldParts::All;
        }
        let mut tables = lock(&self.tables);
        tables.sought += 1;
        if tables.sought > tables.all.len() {
            tables.begin_period();
        }
        let is_idle = |claim| claim == Claim::Idle;
        if self.close_of_both(&mut tables, is_idle, sizes.both()) {
            return HeldParts::All;
        }
        if self.has_room(sizes.filter) {
            return HeldParts::Filter;
        }
        if !self.has_room(0) {
            self.close_for(&mut tables, HeldParts::None, is_idle, 0);
        }
        HeldParts::None
    }

    /// As [`TableMemory::make_room`], for a table that is held in parts and was asked often since
    /// it was said so last. Where what is wanted is its filter, tables give way that were not
    /// asked at all meanwhile, then indexes, then filters of much larger runs.
    pub(crate) fn make_room_for_asked(
        &self,
        wanted: Wanted,
        claim: Claim,
        counts: &CountsSince,
    ) -> HeldParts {
        let (sizes, held) = (wanted.sizes, wanted.held);
        if self.has_room(wanted.more_for_all()) {
            return HeldParts::All;
        }
        let mut tables = lock(&self.tables);
        // ORDERING: relaxed; changed with the lock held.
        if counts.0.load(Ordering::Relaxed) == tables.period {
            tables.begin_period();
        }
        counts.0.store(tables.period, Ordering::Relaxed);
        let is_idle = |claim| claim == Claim::Idle;
        if self.close_of_both(&mut tables, is_idle, wanted.more_for_all()) {
            return HeldParts::All;
        }
        if held != HeldParts::None || !wanted.needs_filter {
            return held;
        }
        let gives_way = |its: Claim| its.gives_way_to(claim);
        let has_room = self.close_for(&mut tables, HeldParts::All, |_| true, sizes.filter)
            || self.close_for(&mut tables, HeldParts::Filter, gives_way, sizes.filter);
        if has_room { HeldParts::Filter } else { HeldParts::None }
    }

    /// As [`TableMemory::close_for`], of tables of which at least the filter is held.
    fn close_of_both(
        &self,
        tables: &mut Tables,
        gives_way: impl Fn(Claim) -> bool + Copy,
        bytes: u64,
    ) -> bool {
        self.close_for(tables, HeldParts::All, gives_way, bytes)
            || self.close_for(tables, HeldParts::Filter, gives_way, bytes)
    }

    /// Closes tables that are held like this and of which the claim gives way, until there is
    /// room.
    fn close_for(
        &self,
        tables: &mut Tables,
        held: HeldParts,
        gives_way: impl Fn(Claim) -> bool,
        bytes: u64,
    ) -> bool {
        while !self.has_room(bytes) {
            let last = tables.held[held as usize].pop_if(|(its, _)| gives_way(*its));
            let Some((its, weak)) = last else { return false };
            if let Some(table) = weak.upgrade() {
                table.give_way(held, its);
            }
        }
        true
    }

    /// Closes tables until the others are within the share, those that are idle first: the budget
    /// was lowered.
    pub(crate) fn keep_to_share(&self) {
        if self.has_room(0) {
            return;
        }
        let mut tables = lock(&self.tables);
        self.close_of_both(&mut tables, |claim| claim == Claim::Idle, 0);
        for table in tables.all.iter().filter_map(Weak::upgrade) {
            if self.has_room(0) {
                return;
            }
            table.close();
        }
    }

    /// Notes a table that is opened for the first time.
    pub(crate) fn opened(&self, table: Weak<dyn HeldTable>) {
        let mut tables = lock(&self.tables);
        tables.all.push(table);
        if tables.all.len() > tables.looked_through_at {
            // A table that is gone leaves its memory to holders that still point at it.
            tables.all.retain(|table| table.strong_count() > 0);
            tables.looked_through_at = 2 * tables.all.len() + LEAST_LOOKED_THROUGH;
        }
    }
}

#[cfg(test)]
mod tests;
