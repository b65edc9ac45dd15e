//! The outgoing conflicts of a committing transaction: commits that have overwritten what it read
//! (rw-antidependencies).

/// Commits that one transaction's reads were overwritten by and that are kept apart, half a MiB of
/// them; a power of two, as the list grows.
pub(super) const MOST_OVERWRITERS: usize = 64 << 10;

/// Commits that have overwritten what a committing transaction has read.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutConflicts {
    /// Sequence numbers of the commits that did.
    pub(super) commits: Vec<u64>,
    /// The oldest of all.
    oldest: Option<u64>,
    /// Newest sequence number whose version may hide others, down to the snapshot; zero for none.
    pub(super) hidden_through: u64,
    /// Any commit up to here may be one: there were too many to tell them apart. Zero for none.
    pub(super) any_through: u64,
    /// So many of the commits are sorted, and came before the others.
    pub(super) sorted: usize,
}

impl OutConflicts {
    /// Prepares a long list for being judged.
    pub(crate) fn sort(&mut self) {
        self.commits.sort_unstable();
        self.commits.dedup();
        self.sorted = self.commits.len();
    }

    /// Notes a newer version of something read. `hides` when older ones that are newer than the
    /// snapshot may have been dropped.
    pub(crate) fn add(&mut self, sequence: u64, hides: bool) {
        if hides {
            self.hidden_through = self.hidden_through.max(sequence);
        }
        self.oldest = Some(self.oldest.map_or(sequence, |oldest| oldest.min(sequence)));
        if self.commits.last() != Some(&sequence) {
            self.commits.push(sequence);
        }
        if self.commits.len() == self.commits.capacity() {
            self.sort();
            if self.commits.len() >= MOST_OVERWRITERS {
                let newest = self.commits.last().copied().unwrap_or(0);
                self.any_through = self.any_through.max(newest);
                self.commits.clear();
                self.sorted = 0;
                return;
            }
            // Room for as many before all are sorted again, however few went.
            self.commits.reserve(self.commits.len());
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.oldest.is_none()
    }

    /// How many commits are not sorted.
    #[cfg(test)]
    pub(crate) const fn unsorted(&self) -> usize {
        self.commits.len() - self.sorted
    }

    pub(super) fn oldest(&self, snapshot: u64) -> Option<u64> {
        if self.hidden_through > 0 {
            return Some(snapshot + 1);
        }
        self.oldest
    }
}
