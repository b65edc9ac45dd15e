//! The memory of open tables: indexes and filters, which a share of the memory budget is for.
//!
//! A table is held as a whole, or, where there is no room for that, in parts: then its index and
//! filter are read through the block cache, and little stays here. Tables that are not used give
//! way to those that are (the CLOCK rule: one more round for each that was used since the hand
//! passed); those that are held in parts only when these alone are too many. Whoever opens a table
//! asks first; nothing polls.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, Weak};

use tidesdb_lockfree::sync::lock;

use crate::flow::MemoryBudget;

/// Open tables may take this part of the memory budget: one in so many.
const BUDGET_SHARE: u64 = 8;

/// So many entries are not worth a look for those that point at nothing any more.
const LEAST_LOOKED_THROUGH: usize = 64;

/// How much of a table is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldAs {
    /// Index and filter.
    Whole,
    /// What finds their parts.
    Parts,
}

/// A table that has something in memory.
pub(crate) trait HeldTable: Debug + Send + Sync {
    /// Closes the table if it is held like this and was not used since the last call; true when it
    /// is closed.
    fn close_if_idle(&self, held: HeldAs) -> bool;
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct TableMemory {
    budget: Arc<MemoryBudget>,
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    /// Every table that holds memory, once.
    tables: VecDeque<Weak<dyn HeldTable>>,
    /// With so many entries, those that point at nothing any more are looked for.
    looked_through_at: usize,
}

impl TableMemory {
    /// The share of `budget`.
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, ring: Mutex::default() }
    }

    /// Whether so many bytes more are within the share.
    fn has_room(&self, bytes: u64) -> bool {
        self.budget.table_bytes().saturating_add(bytes) <= self.budget.bytes() / BUDGET_SHARE
    }

    /// Has idle tables give way until there is room for a table of so many bytes; false when there
    /// is none: all tables are in use.
    pub(crate) fn make_room(&self, bytes: u64) -> bool {
        let has_room = self.has_room(bytes) || self.close_idle(HeldAs::Whole, bytes);
        if !has_room && !self.has_room(0) {
            self.close_idle(HeldAs::Parts, 0);
        }
        has_room
    }

    fn close_idle(&self, held: HeldAs, bytes: u64) -> bool {
        let mut ring = lock(&self.ring);
        // Once around: a second round would find idle all that the first one asked.
        for _ in 0..ring.tables.len() {
            let Some(weak) = ring.tables.pop_front() else { break };
            let Some(table) = weak.upgrade() else { continue };
            if !table.close_if_idle(held) {
                ring.tables.push_back(weak);
            }
            if self.has_room(bytes) {
                return true;
            }
        }
        false
    }

    /// Notes a table that holds memory now and did not before.
    pub(crate) fn opened(&self, table: Weak<dyn HeldTable>) {
        let mut ring = lock(&self.ring);
        ring.tables.push_back(table);
        if ring.tables.len() > ring.looked_through_at {
            // A table that is gone leaves its memory to holders that still point at it.
            ring.tables.retain(|table| table.strong_count() > 0);
            ring.looked_through_at = 2 * ring.tables.len() + LEAST_LOOKED_THROUGH;
        }
    }
}
