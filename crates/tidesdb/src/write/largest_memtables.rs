//! The largest memtables of all families, which are written out first where memory is short.

use std::cmp::Reverse;
use std::sync::{Arc, TryLockError};

use tidesdb_sys::sync_points::sync_point;

use crate::core::Core;
use crate::family::FamilyState;

/// Families that are frozen at once for the sake of memory.
pub(super) const MOST_FROZEN_AT_ONCE: usize = 64;

impl Core {
    /// Hands over the families whose memtables hold something, with how many bytes these take, the
    /// largest first. What is frozen already is written out in any case. There may be very many
    /// families: of all threads that ask, one looks at them, and the others do nothing.
    pub(super) fn with_largest_memtables(&self, choose: impl FnOnce(Vec<(u64, Arc<FamilyState>)>)) {
        let _one_at_a_time = match self.flow.choosing_memtables.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        sync_point("memtables looked through");
        let mut active = Vec::new();
        for family in self.families.all() {
            let view = family.view.load();
            let bytes = view.active.allocated_bytes();
            if !view.frozen.is_empty() {
                self.schedule_flush(&family);
            }
            if !view.active.is_empty() {
                drop(view);
                active.push((bytes, family));
            }
        }
        active.sort_by_key(|(bytes, _)| Reverse(*bytes));
        choose(active);
    }
}
