//! Commits of serializable transactions that were the second of a row: pivots.

use std::collections::BTreeMap;

use super::{Candidate, ENTRY_BYTES};

/// Commits that were the second of a row.
#[derive(Debug, Default)]
pub(super) struct Pivots {
    /// Sequence number of T2, and of the oldest T3.
    pub rows: BTreeMap<u64, u64>,
    /// Every commit up to this one counts as a pivot.
    through: u64,
}

impl Pivots {
    /// About how many bytes of memory are held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.rows.len() * ENTRY_BYTES
    }

    /// Whether a pivot has overwritten something that the candidate read.
    pub(super) fn overwrote_reads_of(&self, candidate: Candidate<'_>) -> bool {
        let conflicts = candidate.conflicts;
        let oldest = conflicts.oldest(candidate.snapshot);
        if oldest.is_some_and(|oldest| oldest <= self.through) {
            return true;
        }
        if self.rows.is_empty() {
            return false;
        }
        // Of a transaction that only read, the row's end must have been there before its snapshot.
        let first = |last: u64| candidate.commit.is_some() || last <= candidate.snapshot;
        let (sorted, others) = conflicts.commits.split_at(conflicts.sorted);
        let looked_up = |commits: &[u64]| {
            commits.iter().filter_map(|commit| self.rows.get(commit)).copied().any(first)
        };
        // Others wait for the judgement, and one of the two may be long.
        let found = looked_up(others)
            || if sorted.len() > self.rows.len() {
                let is_known = |commit: &u64| sorted.binary_search(commit).is_ok();
                self.rows.iter().any(|(commit, &last)| first(last) && is_known(commit))
            } else {
                looked_up(sorted)
            };
        if found {
            return true;
        }
        let through = conflicts.hidden_through.max(conflicts.any_through);
        through > candidate.snapshot && {
            let span = candidate.snapshot + 1..=through;
            self.rows.range(span).any(|(_, &last)| first(last))
        }
    }

    /// Forgets pivots up to `oldest`.
    pub(super) fn sweep(&mut self, oldest: u64) {
        while let Some(first) = self.rows.first_entry()
            && *first.key() <= oldest
        {
            first.remove();
        }
    }

    /// Lets one number stand for the older half: those who began lately are not concerned.
    #[cold]
    pub(super) fn halve(&mut self) {
        let middle = self.rows.keys().nth(self.rows.len() / 2).copied().unwrap_or(0);
        self.rows = self.rows.split_off(&(middle + 1));
        self.through = middle;
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.through = 0;
    }
}
