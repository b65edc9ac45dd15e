//! How callers that wait for background work learn that it has got on.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use tidesdb_lockfree::sync::lock;

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

    /// Waits until the bell has rung since `seen`, or `longest` has passed.
    pub(crate) fn wait(&self, seen: u64, longest: Duration) {
        let rings = lock(&self.rings);
        let waited = self.bell.wait_timeout_while(rings, longest, |rings| *rings == seen);
        drop(waited.unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}
