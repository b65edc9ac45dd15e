//! Freezing a full memtable and putting an empty one in its place.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_lockfree::sync::lock;

use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::memtable::Memtable;

impl Core {
    /// Freezes the family's memtable if it has reached its size. Called after each commit.
    #[inline]
    pub(crate) fn rotate_if_full(&self, family: &Arc<FamilyState>) {
        self.rotate_at(family, family.view.load().active.used_bytes());
    }

    /// As [`Core::rotate_if_full`] for a caller that knows how full the memtable is.
    #[inline]
    pub(crate) fn rotate_at(&self, family: &Arc<FamilyState>, used_bytes: u64) {
        // ORDERING: relaxed; a setting.
        let limit = family.freeze_bytes.load(Ordering::Relaxed);
        if used_bytes >= limit {
            self.rotate(family, limit);
            self.limit_retained_log();
        }
    }

    /// Freezes the family's memtable when it holds at least `least_bytes`, and has it written out
    /// in the background. An empty one stays.
    pub(crate) fn rotate(&self, family: &Arc<FamilyState>, least_bytes: u64) {
        let _one_at_a_time = lock(&family.rotation);
        let active = Arc::clone(&family.view.load().active);
        if active.used_bytes() < least_bytes || active.is_empty() {
            return;
        }
        let fresh = Arc::new(Memtable::new(&self.memory));
        {
            // Every commit lies wholly on one side of the boundary: none is under way here.
            let _closed = self.log.close_gate();
            active.seal(self.log.published());
            family.change_view(|view| {
                let mut frozen = Vec::with_capacity(view.frozen.len() + 1);
                frozen.push(Arc::clone(&view.active));
                frozen.extend(view.frozen.iter().cloned());
                View { active: fresh, frozen, version: Arc::clone(&view.version) }
            });
        }
        self.schedule_flush(family);
    }

    /// Writes out the family with the oldest unflushed commit when the log has grown past its
    /// bound, so that a family that is rarely written can't keep the whole log alive.
    fn limit_retained_log(&self) {
        let families = self.families.all();
        let bound = match self.options.max_retained_log_bytes {
            0 => families
                .iter()
                .map(|family| 4 * family.options.load().write_buffer_size as u64)
                .max()
                .unwrap_or(0)
                .max(256 << 20),
            bytes => bytes,
        };
        if self.log.retained_bytes() <= bound {
            return;
        }
        let oldest = families.iter().min_by_key(|family| family.view.load().first_unflushed());
        if let Some(family) = oldest {
            if family.view.load().frozen.is_empty() {
                self.rotate(family, 0);
            } else {
                self.schedule_flush(family);
            }
        }
    }
}
