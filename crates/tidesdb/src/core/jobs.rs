//! Background work of all families that is queued or runs.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::family::RunningMerges;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// Jobs queued or running.
    count: AtomicU64,
    /// When timers go off that look for what has expired, in Unix seconds.
    pub expiry_timers: Mutex<BTreeSet<u64>>,
    /// A timer is set that looks whether there is space for work that found none.
    pub awaits_space: AtomicBool,
    /// Merges that started by themselves and run.
    pub running_merges: RunningMerges,
}

// ORDERING: SeqCst: a caller that waits for all work to end must not miss a job queued before.
impl Jobs {
    /// A job is queued.
    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// A job has run, or was dropped unrun.
    pub(crate) fn remove(&self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// No job is queued or runs.
    pub(crate) fn are_done(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }
}
