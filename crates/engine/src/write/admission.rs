//! Letting writers in only as fast as memory and the background work allow.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidesdb_base::error::Result;
use tidesdb_lockfree::sync::lock;

use crate::core::Core;
use crate::family::FamilyState;

/// Runs of the first level, as a multiple of the trigger of merges, at which writers wait.
const STALLING_RUNS_PER_TRIGGER: usize = 9;

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
        if self.has_room(family) { Ok(()) } else { self.wait_for_room(family) }
    }

    fn has_room(&self, family: &FamilyState) -> bool {
        let view = family.view.load();
        // The usual case first: nothing waits to be written out.
        if view.frozen.is_empty() && view.version.runs.len() < 8 {
            return true;
        }
        let options = family.options.load();
        let runs = view.version.runs.iter().filter(|run| run.level == 1).count();
        view.frozen.len() < options.l0_queue_stall_threshold
            && runs < options.l1_file_count_trigger * STALLING_RUNS_PER_TRIGGER
    }

    #[cold]
    fn wait_for_room(&self, family: &Arc<FamilyState>) -> Result<()> {
        let started = self.clock.monotonic_nanos();
        let mut failures = 0;
        let result = loop {
            if self.has_room(family) {
                break Ok(());
            }
            if let Err(e) = self.check_writable(family) {
                break Err(e);
            }
            let seen = self.progress.now();
            if let Some(cause) = lock(&family.background_error).take() {
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
