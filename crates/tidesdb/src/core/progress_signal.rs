//! How callers that wait for background work learn that it has got on.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use tidesdb_lockfree::sync::lock;

/// How long a caller sleeps before it looks again even without a signal.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Signalled whenever background work has got on.
#[derive(Debug, Default)]
pub(crate) struct ProgressSignal {
    count: Mutex<u64>,
    changed: Condvar,
}

impl ProgressSignal {
    /// Number of signals so far.
    pub(crate) fn now(&self) -> u64 {
        *lock(&self.count)
    }

    /// Wakes all callers that wait.
    pub(crate) fn notify(&self) {
        *lock(&self.count) += 1;
        self.changed.notify_all();
    }

    /// Waits until there was a signal since `seen`, but not for long.
    pub(crate) fn wait(&self, seen: u64) {
        let count = lock(&self.count);
        let waited = self.changed.wait_timeout_while(count, LONGEST_SLEEP, |count| *count == seen);
        drop(waited.unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}
