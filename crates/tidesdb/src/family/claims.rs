//! Which runs of a family are being merged, and what compactions of it are queued.
//!
//! Several compactions of a family may be under way: one of old runs that takes long, and others of
//! runs that came since. Each has claimed its runs, the newest ones that were free when it began,
//! so the claimed runs of one are neighbours and no two compactions read or remove the same table.

use std::collections::BTreeSet;

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

    /// Claims runs that are free. Returns the number of the claim.
    pub(super) fn add(&mut self, runs: Vec<RunPlace>) -> u64 {
        debug_assert!(!runs.iter().any(|&run| self.holds(run)), "a run is compacted twice");
        self.last += 1;
        self.claims.push((self.last, runs));
        self.last
    }

    /// Ends a claim.
    pub(super) fn remove(&mut self, number: u64) {
        self.claims.retain(|(known, _)| *known != number);
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
