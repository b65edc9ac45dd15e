//! Several sets of range tombstones that are asked as one.

use std::sync::Arc;

use super::{RangeTombstone, RangeTombstones};
use crate::entry::SequenceNumber;

/// Several sets that are asked as one. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct RangeTombstoneSets(Vec<Arc<RangeTombstones>>);

impl RangeTombstoneSets {
    /// Adds a set.
    pub fn push(&mut self, tombstones: Arc<RangeTombstones>) {
        if !tombstones.is_empty() {
            self.0.push(tombstones);
        }
    }

    /// Adds tombstones: they are put into one set with the newest sets that are no larger. So there
    /// are few sets, each of more tombstones than the next, and one that is added after the other
    /// is copied about as often as there are sets.
    pub fn add(&mut self, mut tombstones: Vec<Arc<RangeTombstone>>) {
        if tombstones.is_empty() {
            return;
        }
        while let Some(last) = self.0.pop_if(|last| last.len() <= tombstones.len()) {
            tombstones.extend_from_slice(last.as_slice());
        }
        self.0.push(Arc::new(RangeTombstones::new(tombstones)));
    }

    /// The sets.
    #[must_use]
    pub fn as_slice(&self) -> &[Arc<RangeTombstones>] {
        &self.0
    }

    /// True when there is no tombstone in any.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As [`RangeTombstones::hides`].
    #[inline]
    #[must_use]
    pub fn hides(&self, key: &[u8], sequence: SequenceNumber, snapshot: SequenceNumber) -> bool {
        self.0.iter().any(|set| set.hides(key, sequence, snapshot))
    }

    /// As [`RangeTombstones::hides_all`].
    #[must_use]
    pub fn hides_all(
        &self,
        first_key: &[u8],
        last_key: &[u8],
        sequence: SequenceNumber,
        snapshot: SequenceNumber,
    ) -> bool {
        self.0.iter().any(|set| set.hides_all(first_key, last_key, sequence, snapshot))
    }

    /// As [`RangeTombstones::meets`].
    #[must_use]
    pub fn meets(&self, first_key: &[u8], last_key: &[u8], sequence: SequenceNumber) -> bool {
        self.0.iter().any(|set| set.meets(first_key, last_key, sequence))
    }

    /// About what they take in memory, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.0.iter().map(|set| set.memory_bytes).sum()
    }

    /// Number of tombstones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|set| set.len()).sum()
    }

    /// Highest sequence number of any; zero when there is none.
    #[must_use]
    pub fn highest_sequence(&self) -> SequenceNumber {
        self.0.iter().map(|set| set.highest_sequence()).max().unwrap_or(0)
    }

    /// Every tombstone of every set.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<RangeTombstone>> {
        self.0.iter().flat_map(|set| set.as_slice())
    }
}

impl Extend<Arc<RangeTombstones>> for RangeTombstoneSets {
    fn extend<T: IntoIterator<Item = Arc<RangeTombstones>>>(&mut self, sets: T) {
        sets.into_iter().for_each(|set| self.push(set));
    }
}

impl FromIterator<Arc<RangeTombstones>> for RangeTombstoneSets {
    fn from_iter<T: IntoIterator<Item = Arc<RangeTombstones>>>(sets: T) -> Self {
        let mut all = Self::default();
        all.extend(sets);
        all
    }
}
