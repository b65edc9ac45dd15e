//! The memory of open tables: indexes and filters, which a share of the memory budget is for.
//!
//! Tables that are not used give way to those that are (the CLOCK rule: one more round for one that
//! was used since the hand passed). Who opens a table asks first; nothing polls.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, Weak};

use tidesdb_lockfree::sync::lock;

use crate::flow::MemoryBudget;

/// Open tables may take this part of the memory budget: one in so many.
const BUDGET_SHARE: u64 = 8;

/// So many entries are not worth a look for those that point at nothing any more.
const LEAST_LOOKED_THROUGH: usize = 64;

/// A table that has something in memory.
pub(crate) trait HeldTable: Debug + Send + Sync {
    /// Gives memory back unless the table was used since the last call; true when it holds none
    /// any more.
    fn give_way_if_idle(&self) -> bool;
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

    /// Has idle tables give way until there is room for so many bytes; false when there is none:
    /// all tables are in use.
    pub(crate) fn make_room(&self, bytes: u64) -> bool {
        if self.has_room(bytes) {
            return true;
        }
        let mut ring = lock(&self.ring);
        // Once around: a second round would find idle all that the first one asked.
        for _ in 0..ring.tables.len() {
            let Some(weak) = ring.tables.pop_front() else { break };
            let Some(table) = weak.upgrade() else { continue };
            if !table.give_way_if_idle() {
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
