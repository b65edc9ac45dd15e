//! Letting writers in only as fast as memory and the background work allow.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidesdb_base::error::Result;
use tidesdb_lockfree::sync::lock;

use crate::core::Core;
use crate::family::FamilyState;

/// How long a waiting writer sleeps before it looks again even if nobody wakes it.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

impl Core {
    /// Returns once the family has room for another commit.
    ///
    /// # Errors
    /// Why the flush that would make room fails, such as a full disk. The commit had no effect
    /// and may be repeated.
    #[inline]
    pub(crate) fn admit(&self, family: &Arc<FamilyState>) -> Result<()> {
        // ORDERING: acquire pairs with the release where the view is changed.
        if family.stalled.load(Ordering::Acquire) { self.wait_for_room(family) } else { Ok(()) }
    }

    #[cold]
    fn wait_for_room(&self, family: &Arc<FamilyState>) -> Result<()> {
        let started = self.clock.monotonic_nanos();
        let mut failures = 0;
        let result = loop {
            // ORDERING: as in `admit`.
            if !family.stalled.load(Ordering::Acquire) {
                break Ok(());
            }
            if let Err(e) = self.check_writable(family) {
                break Err(e);
            }
            let seen = self.progress.now();
            // Taken in a statement of its own: the lock must be free again when it is given back.
            let failed = lock(&family.background_error).take();
            if let Some(cause) = failed {
                failures += 1;
                if failures > 1 {
                    *lock(&family.background_error) = Some(cause.clone());
                    break Err(cause);
                }
            }
            self.schedule_flush(family);
            self.schedule_compaction(family);
            if !self.scheduler.help() {
                self.progress.wait(seen, LONGEST_SLEEP);
            }
        };
        let waited = self.clock.monotonic_nanos().saturating_sub(started);
        // ORDERING: a statistic.
        self.counters.stall_nanos.fetch_add(waited, Ordering::Relaxed);
        result
    }
}
