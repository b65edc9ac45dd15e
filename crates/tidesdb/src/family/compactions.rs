//! Which runs of a family are being merged, and what compactions of it are queued.
//!
//! Several compactions of a family may be under way: one of old runs that takes long, and others of
//! runs that came since. Each has claimed its runs, the newest ones that were free when it began,
//! so the claimed runs of one are neighbours and no two compactions read or remove the same table.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tidesdb_lockfree::sync::lock;

use super::FamilyState;

/// Level and number of a run.
pub(crate) type RunPlace = (u32, u64);

/// Claims of runs, and queued compactions, of a family. Behind a lock, see
/// [`super::FamilyCompactions::lock`].
#[derive(Debug, Default)]
pub(crate) struct RunningClaims {
    claims: Vec<(u64, Vec<RunPlace>)>,
    last: u64,
    queued: BTreeSet<u64>,
}

impl RunningClaims {
    /// How many compactions are under way.
    pub(crate) const fn count(&self) -> usize {
        self.claims.len()
    }

    /// Whether a compaction has claimed the run.
    pub(crate) fn holds(&self, run: RunPlace) -> bool {
        self.claims.iter().any(|(_, runs)| runs.contains(&run))
    }

    /// Claims runs that are free, until the returned value is dropped. `whole`: all that they hold
    /// is merged.
    pub(crate) fn claim(
        &mut self,
        family: &Arc<FamilyState>,
        runs: Vec<RunPlace>,
        whole: bool,
    ) -> RunClaim {
        debug_assert!(!runs.iter().any(|&run| self.holds(run)), "a run is compacted twice");
        self.last += 1;
        let young = runs.iter().filter(|&&(level, _)| level == 1).count();
        let taken_along = if whole && young < runs.len() { young as u64 } else { 0 };
        // ORDERING: relaxed; for an estimate.
        family.writes.flow.young_runs_taken_along.fetch_add(taken_along, Ordering::Relaxed);
        self.claims.push((self.last, runs));
        RunClaim { family: Arc::clone(family), number: self.last, taken_along }
    }

    /// Notes that a job for a compaction of so many bytes is queued; false if one is that is no
    /// larger.
    pub(crate) fn queue(&mut self, bytes: u64) -> bool {
        let first = self.queued.first().is_none_or(|&least| bytes < least);
        first && self.queued.insert(bytes)
    }

    /// The job begins, and looks for its work after that.
    pub(crate) fn begin_queued(&mut self, bytes: u64) {
        self.queued.remove(&bytes);
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
        let mut running = self.family.compactions.lock();
        running.claims.retain(|(number, _)| *number != self.number);
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
