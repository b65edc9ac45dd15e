//! How callers that wait for background work learn that it has got on.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use tidesdb_lockfree::sync::lock;

/// How long a caller sleeps before it looks again even if the bell did not ring.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// A bell that rings whenever background work has got somewhere.
#[derive(Debug, Default)]
pub(crate) struct ProgressBell {
    rings: Mutex<u64>,
    bell: Condvar,
}

impl ProgressBell {
    /// Number of rings so far.
    pub(crate) fn now(&self) -> u64 {
        *lock(&self.rings)
    }

    /// Wakes everyone who waits.
    pub(crate) fn ring(&self) {
        *lock(&self.rings) += 1;
        self.bell.notify_all();
    }

    /// Waits until the bell has rung since `seen`, but not for long.
    pub(crate) fn wait(&self, seen: u64) {
        let rings = lock(&self.rings);
        let waited = self.bell.wait_timeout_while(rings, LONGEST_SLEEP, |rings| *rings == seen);
        drop(waited.unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}
