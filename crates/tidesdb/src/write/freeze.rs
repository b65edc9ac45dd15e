//! Freezing a full memtable and putting an empty one in its place.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sync_points::sync_point;

use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::memtable::Memtable;
use crate::telemetry::counters::Work;

impl Core {
    /// Freezes the family's memtable if it has reached its size. Called after a commit that found
    /// it so.
    #[cold]
    pub(crate) fn freeze_if_full(&self, family: &Arc<FamilyState>) {
        let limit = family.options.freeze_bytes();
        if family.view.load().active.used_bytes() >= limit {
            self.freeze_and_flush(family, limit);
            self.limit_retained_log();
        }
    }

    /// Freezes the family's memtable when it holds at least `least_bytes`, and queues its flush
    /// in the background. An empty one stays.
    pub(crate) fn freeze_and_flush(&self, family: &Arc<FamilyState>, least_bytes: u64) {
        if self.freeze(family, least_bytes) {
            self.schedule_flush(family);
        }
    }

    /// Freezes the family's memtable when it holds at least `least_bytes`; an empty one stays.
    /// True when it did.
    pub(crate) fn freeze(&self, family: &Arc<FamilyState>, least_bytes: u64) -> bool {
        let _one_at_a_time = lock(&family.writes.freezing);
        let active = Arc::clone(&family.view.load().active);
        if active.used_bytes() < least_bytes || active.is_empty() {
            return false;
        }
        let fresh = Arc::new(Memtable::new(&self.memory.pool));
        // Every commit lies wholly on one side of the boundary: none is under way here.
        let _closed = self.storage.log.close_gate();
        sync_point("gate closed");
        self.exchange_memtable(family, fresh);
        true
    }

    /// Freezes the memtables of all these families at one point of the commit order, which it
    /// returns; empty ones stay. The caller has the families in the order of their numbers.
    pub(crate) fn freeze_all(&self, families: &[Arc<FamilyState>]) -> SequenceNumber {
        // Other callers take one of them.
        let _freezings: Vec<_> =
            families.iter().map(|family| lock(&family.writes.freezing)).collect();
        let _closed = self.storage.log.close_gate();
        sync_point("gate closed for all");
        for family in families {
            if !family.view.load().active.is_empty() {
                self.exchange_memtable(family, Arc::new(Memtable::new(&self.memory.pool)));
            }
        }
        self.storage.log.published()
    }

    /// Freezes the active memtable, with the gate closed and the lock of freezing.
    fn exchange_memtable(&self, family: &FamilyState, fresh: Arc<Memtable>) {
        let now = self.env.clock.monotonic_nanos();
        // ORDERING: relaxed; guarded by the lock of freezing.
        let before = family.writes.flow.frozen_nanos.swap(now, Ordering::Relaxed);
        let applied = self.storage.applied_through();
        family.change_view(|view| {
            view.active.seal(applied, now.saturating_sub(before));
            let mut frozen = Vec::with_capacity(view.frozen.len() + 1);
            frozen.push(Arc::clone(&view.active));
            frozen.extend(view.frozen.iter().cloned());
            View { active: fresh, frozen, version: Arc::clone(&view.version) }
        });
        family.counters.add(Work::MemtablesFrozen, 1);
    }
}
