//! The bound on what the memtables of all families that take commits hold together.

use std::sync::atomic::{AtomicU64, Ordering};

/// When memtables are to be written out because all together hold too much.
///
/// To add all of them up takes a look at each family. The next look is due when the memory of
/// memtables, frozen ones aside, has grown by what the last one found left, or is less than it was:
/// then a memtable was frozen, or a reader has let go of a former one, and how much of the growth
/// since belongs to memtables that take commits is not known any more.
#[derive(Debug)]
pub(crate) struct SharedBuffer {
    /// What they may hold, in bytes; `u64::MAX` for no bound.
    most_bytes: u64,
    /// What all memtables but frozen ones took at the last look.
    found_bytes: AtomicU64,
    /// By how much more the next look is due: what the last one found left.
    room_bytes: AtomicU64,
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
        Self { most_bytes, found_bytes: AtomicU64::new(0), room_bytes: AtomicU64::new(most_bytes) }
    }

    /// What memtables that take commits may hold, in bytes.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Whether a look is due. `memtables` says what all memtables take but frozen ones.
    #[inline]
    pub(crate) fn is_look_due(&self, memtables: impl FnOnce() -> u64) -> bool {
        if self.most_bytes == u64::MAX {
            return false;
        }
        let now = memtables();
        // ORDERING: relaxed; when the next look is made, which counts anew.
        let found = self.found_bytes.load(Ordering::Relaxed);
        now < found || now - found > self.room_bytes.load(Ordering::Relaxed)
    }

    /// Takes note of a look: what memtables that take commits hold, and what all take but frozen
    /// ones.
    pub(crate) fn note(&self, active: u64, memtables: u64) {
        self.found_bytes.store(memtables, Ordering::Relaxed);
        self.room_bytes.store(self.most_bytes.saturating_sub(active), Ordering::Relaxed);
    }
}
