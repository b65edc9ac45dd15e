//! The bound on what the memtables of all families that take commits hold together.

use std::sync::atomic::{AtomicU64, Ordering};

/// When memtables are to be written out because all together hold too much.
#[derive(Debug)]
pub(crate) struct SharedBuffer {
    /// What they may hold, in bytes; `u64::MAX` for no bound.
    most_bytes: u64,
    /// Memory of memtables that are in no family any more, as of the last look: readers hold them.
    retired_bytes: AtomicU64,
}

impl Default for SharedBuffer {
    fn default() -> Self {
        Self::new(0)
    }
}

impl SharedBuffer {
    /// A bound of so many bytes, 0 for none.
    pub(crate) fn new(most_bytes: u64) -> Self {
        let most_bytes = if most_bytes == 0 { u64::MAX } else { most_bytes };
        Self { most_bytes, retired_bytes: AtomicU64::new(0) }
    }

    /// What memtables that take commits may hold, in bytes.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Whether they may hold too much. `memtables` says what all memtables take, and how much of it
    /// frozen ones take.
    #[inline]
    pub(crate) fn may_be_full(&self, memtables: impl FnOnce() -> (u64, u64)) -> bool {
        if self.most_bytes == u64::MAX {
            return false;
        }
        let (all, frozen) = memtables();
        // ORDERING: relaxed; a hint that the next look corrects.
        let others = self.retired_bytes.load(Ordering::Relaxed).saturating_add(frozen);
        all.saturating_sub(others) > self.most_bytes
    }

    /// Takes note of a look at all families: what their memtables that take commits hold, of what
    /// [`SharedBuffer::may_be_full`] was given.
    pub(crate) fn note(&self, active: u64, (all, frozen): (u64, u64)) {
        let retired = all.saturating_sub(frozen).saturating_sub(active);
        self.retired_bytes.store(retired, Ordering::Relaxed);
    }
}
