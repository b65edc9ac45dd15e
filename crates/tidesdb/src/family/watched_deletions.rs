//! Whether the deletions in a family's memtable will be looked at, see `background/deletions.rs`.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the first deletion after a look. Each deletion costs a load, and no shared write.
#[derive(Debug, Default)]
pub(crate) struct WatchedDeletions {
    look_is_due: AtomicBool,
}

// ORDERING: relaxed throughout. The swap decides which deletion sets the timer. One that takes
// effect just as a look begins may be met by neither; it waits for the next deletion or flush.
impl WatchedDeletions {
    /// A deletion is in the memtable. True for the caller that is to set the timer.
    #[inline]
    pub(crate) fn note(&self) -> bool {
        !self.look_is_due.load(Ordering::Relaxed) && !self.look_is_due.swap(true, Ordering::Relaxed)
    }

    /// The memtable is looked at now: the next deletion sets the timer again.
    pub(crate) fn look_begins(&self) {
        self.look_is_due.store(false, Ordering::Relaxed);
    }
}
