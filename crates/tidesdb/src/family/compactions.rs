//! The right to compact some runs of a family, and the compactions that run in a database.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tidesdb_lockfree::sync::lock;

use super::{FamilyState, RunPlace, RunningClaims};

impl RunningClaims {
    /// Claims runs that are free, until the returned value is dropped. `whole`: all that they hold
    /// is merged.
    pub(crate) fn claim(
        &mut self,
        family: &Arc<FamilyState>,
        runs: Vec<RunPlace>,
        whole: bool,
    ) -> RunClaim {
        let young = runs.iter().filter(|&&(level, _)| level == 1).count();
        let taken_along = if whole && young < runs.len() { young as u64 } else { 0 };
        // ORDERING: relaxed; for an estimate.
        family.writes.flow.young_runs_taken_along.fetch_add(taken_along, Ordering::Relaxed);
        RunClaim { family: Arc::clone(family), number: self.add(runs), taken_along }
    }
}

/// The right to merge some runs of a family.
#[derive(Debug)]
#[must_use = "the claim ends when it is dropped"]
pub(crate) struct RunClaim {
    family: Arc<FamilyState>,
    number: u64,
    /// Flushed runs that it merges with larger ones.
    taken_along: u64,
}

impl Drop for RunClaim {
    fn drop(&mut self) {
        // ORDERING: as in `claim`.
        let taken_along = &self.family.writes.flow.young_runs_taken_along;
        taken_along.fetch_sub(self.taken_along, Ordering::Relaxed);
        self.family.compactions.lock().remove(self.number);
    }
}

/// Bytes of the compactions that run in a database, for the choice of those that may interrupt one.
#[derive(Debug, Default)]
pub(crate) struct RunningCompactions(Mutex<Vec<u64>>);

/// A compaction interrupts one that is this many times as large.
const INTERRUPTED_TIMES: u64 = 2;

impl RunningCompactions {
    /// A compaction of so many bytes runs until the returned value is dropped.
    pub(crate) fn begin(&self, bytes: u64) -> RunningCompaction<'_> {
        lock(&self.0).push(bytes);
        RunningCompaction { compactions: self, bytes }
    }

    /// Bytes of a compaction that could begin at once, by interrupting another if all of so many
    /// threads are busy.
    pub(crate) fn most_now(&self, threads: usize) -> u64 {
        let running = lock(&self.0);
        let largest = running.iter().copied().max().unwrap_or(0);
        if running.len() < threads { u64::MAX } else { interrupting(largest) }
    }
}

/// Bytes that a compaction may have to interrupt one of `bytes`.
pub(crate) const fn interrupting(bytes: u64) -> u64 {
    bytes / INTERRUPTED_TIMES
}

/// See [`RunningCompactions::begin`].
#[derive(Debug)]
pub(crate) struct RunningCompaction<'a> {
    compactions: &'a RunningCompactions,
    bytes: u64,
}

impl Drop for RunningCompaction<'_> {
    fn drop(&mut self) {
        let mut running = lock(&self.compactions.0);
        if let Some(at) = running.iter().position(|&bytes| bytes == self.bytes) {
            running.swap_remove(at);
        }
    }
}
