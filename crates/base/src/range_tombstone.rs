//! Range tombstones: what a deletion of a range of keys leaves behind.
//!
//! A tombstone hides every version of the keys in its range that is older than itself, from readers
//! that see the tombstone. [`RangeTombstones`] returns whether one of many does, by a balanced
//! search tree over the starts, laid out in an array, in which each subtree knows how far its
//! ranges reach and between which sequence numbers they lie. Memory is linear in the number of
//! tombstones however they overlap. The engine keeps one such tree per version of files and a few
//! per memtable; readers, flushes and compactions ask them.
//!
//! Threads: immutable once built. Invariants: sorted by start, then by sequence number.

mod sets;

pub use self::sets::RangeTombstoneSets;

use std::ops::Bound;
use std::sync::Arc;

use crate::entry::SequenceNumber;
use crate::key_ranges::{KeyRangeUnion, ends_behind};

/// One deletion of a range of keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RangeTombstone {
    /// First key deleted.
    pub start: Box<[u8]>,
    /// The key behind the last one deleted; empty when everything from the start on is.
    pub end: Box<[u8]>,
    /// Sequence number of the commit.
    pub sequence: SequenceNumber,
}

impl RangeTombstone {
    /// About what one takes in memory, in bytes, the places that point at it included.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        (size_of::<Self>() + 184 + self.start.len() + self.end.len()) as u64
    }
}

/// What is known of a subtree.
#[derive(Clone, Copy, Debug)]
struct Summary {
    /// Place of the tombstone that reaches furthest.
    furthest: usize,
    lowest_sequence: SequenceNumber,
    highest_sequence: SequenceNumber,
}

/// What a search looks for: a tombstone newer than `sequence` that `snapshot` sees, within bounds.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    /// It starts within this.
    starts_by: Bound<&'a [u8]>,
    /// It ends behind this.
    ends_behind: &'a [u8],
    sequence: SequenceNumber,
    snapshot: SequenceNumber,
}

/// Many range tombstones, to be searched.
#[derive(Clone, Debug, Default)]
pub struct RangeTombstones {
    sorted: Vec<Arc<RangeTombstone>>,
    /// Of the subtree whose root stands at this place.
    summaries: Vec<Summary>,
    /// About what all of them take.
    memory_bytes: u64,
}

impl RangeTombstones {
    /// The tombstones given, in any order.
    #[must_use]
    pub fn new(mut tombstones: Vec<Arc<RangeTombstone>>) -> Self {
        tombstones.sort_by(|a, b| (&a.start, a.sequence).cmp(&(&b.start, b.sequence)));
        let summaries = tombstones.iter().enumerate().map(|(furthest, tombstone)| Summary {
            furthest,
            lowest_sequence: tombstone.sequence,
            highest_sequence: tombstone.sequence,
        });
        let memory_bytes = tombstones.iter().map(|tombstone| tombstone.memory_bytes()).sum();
        let summaries = summaries.collect();
        let mut built = Self { summaries, sorted: tombstones, memory_bytes };
        built.summarize(0, built.sorted.len());
        built
    }

    /// Fills the summaries of the subtree over `low..high` and returns its root's.
    fn summarize(&mut self, low: usize, high: usize) -> Option<Summary> {
        if low >= high {
            return None;
        }
        let root = low.midpoint(high);
        let below = [self.summarize(low, root), self.summarize(root + 1, high)];
        let mut summary = *self.summaries.get(root)?;
        for child in below.into_iter().flatten() {
            let (own, other) =
                (self.sorted.get(summary.furthest)?, self.sorted.get(child.furthest)?);
            let further = !own.end.is_empty() && (other.end.is_empty() || other.end > own.end);
            if further {
                summary.furthest = child.furthest;
            }
            summary.lowest_sequence = summary.lowest_sequence.min(child.lowest_sequence);
            summary.highest_sequence = summary.highest_sequence.max(child.highest_sequence);
        }
        *self.summaries.get_mut(root)? = summary;
        Some(summary)
    }

    /// True when a reader at `snapshot` sees a tombstone over `key` that is newer than `sequence`.
    #[inline]
    #[must_use]
    pub fn hides(&self, key: &[u8], sequence: SequenceNumber, snapshot: SequenceNumber) -> bool {
        self.hides_all(key, key, sequence, snapshot)
    }

    /// True when a reader at `snapshot` sees one tombstone over everything from `first_key` to
    /// `last_key`, both included, that is newer than `sequence`.
    #[inline]
    #[must_use]
    pub fn hides_all(
        &self,
        first_key: &[u8],
        last_key: &[u8],
        sequence: SequenceNumber,
        snapshot: SequenceNumber,
    ) -> bool {
        let starts_by = Bound::Included(first_key);
        let wanted = Wanted { starts_by, ends_behind: last_key, sequence, snapshot };
        !self.sorted.is_empty() && self.search_all(&wanted)
    }

    /// True when a tombstone newer than `sequence` holds any key from `first_key` to `last_key`,
    /// both included.
    #[must_use]
    pub fn meets(&self, first_key: &[u8], last_key: &[u8], sequence: SequenceNumber) -> bool {
        let within = (first_key, Bound::Included(last_key));
        self.meets_range(within, sequence, SequenceNumber::MAX)
    }

    /// True when a reader at `snapshot` sees a tombstone newer than `sequence` that holds any key
    /// from `first_key` to the bound.
    #[must_use]
    pub fn meets_range(
        &self,
        (first_key, until): (&[u8], Bound<&[u8]>),
        sequence: SequenceNumber,
        snapshot: SequenceNumber,
    ) -> bool {
        let wanted = Wanted { starts_by: until, ends_behind: first_key, sequence, snapshot };
        !self.sorted.is_empty() && self.search_all(&wanted)
    }

    /// Out of line, so that asking an empty set costs a comparison.
    #[cold]
    fn search_all(&self, wanted: &Wanted<'_>) -> bool {
        self.search(0, self.sorted.len(), wanted)
    }

    fn search(&self, low: usize, high: usize, wanted: &Wanted<'_>) -> bool {
        if low >= high {
            return false;
        }
        let root = low.midpoint(high);
        let (Some(here), Some(summary)) = (self.sorted.get(root), self.summaries.get(root)) else {
            return false;
        };
        let reaches = self
            .sorted
            .get(summary.furthest)
            .is_some_and(|furthest| ends_behind(&furthest.end, wanted.ends_behind));
        if summary.highest_sequence <= wanted.sequence
            || summary.lowest_sequence > wanted.snapshot
            || !reaches
        {
            return false;
        }
        let starts_within = match wanted.starts_by {
            Bound::Included(last) => *here.start <= *last,
            Bound::Excluded(end) => *here.start < *end,
            Bound::Unbounded => true,
        };
        if starts_within {
            let found = ends_behind(&here.end, wanted.ends_behind)
                && here.sequence > wanted.sequence
                && here.sequence <= wanted.snapshot;
            // The later starts first: they are often the later deletions, too.
            if found || self.search(root + 1, high, wanted) {
                return true;
            }
        }
        self.search(low, root, wanted)
    }

    /// All tombstones, by start.
    #[must_use]
    pub fn as_slice(&self) -> &[Arc<RangeTombstone>] {
        &self.sorted
    }

    /// Number of tombstones.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.sorted.len()
    }

    /// True when there is none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Highest sequence number of any; zero when there is none.
    #[must_use]
    pub fn highest_sequence(&self) -> SequenceNumber {
        let root = self.summaries.get(0usize.midpoint(self.sorted.len()));
        root.map_or(0, |summary| summary.highest_sequence)
    }
}

/// Parts tombstones into those that are needed and those that are not: their range lies under newer
/// ones, and no snapshot is so old that it sees them and not those. `snapshots` are all that are
/// live, oldest first; every tombstone is visible to whatever comes later.
#[must_use]
pub fn part_swallowed(
    mut tombstones: Vec<Arc<RangeTombstone>>,
    snapshots: &[SequenceNumber],
) -> (Vec<Arc<RangeTombstone>>, Vec<Arc<RangeTombstone>>) {
    tombstones.sort_by_key(|tombstone| std::cmp::Reverse(tombstone.sequence));
    let mut union = KeyRangeUnion::default();
    let mut stripe = None;
    let swallowed: Vec<bool> = tombstones
        .iter()
        .map(|tombstone| {
            let own = snapshots.partition_point(|&snapshot| snapshot < tombstone.sequence);
            if stripe.replace(own) != Some(own) {
                union.clear();
            }
            let under = union.contains_range(&tombstone.start, &tombstone.end);
            union.insert(&tombstone.start, &tombstone.end);
            under
        })
        .collect();
    drop(union);
    let mut parts = (Vec::new(), Vec::new());
    for (tombstone, swallowed) in tombstones.into_iter().zip(swallowed) {
        let part = if swallowed { &mut parts.1 } else { &mut parts.0 };
        part.push(tombstone);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tombstone(start: u8, end: u8, sequence: u64) -> Arc<RangeTombstone> {
        let end = if end == 0 { Box::default() } else { Box::from([end]) };
        Arc::new(RangeTombstone { start: Box::from([start]), end, sequence })
    }

    fn covers(tombstone: &RangeTombstone, first: u8, last: u8) -> bool {
        tombstone.start.as_ref() <= &[first][..] && ends_behind(&tombstone.end, &[last])
    }

    #[test]
    fn a_tombstone_hides_what_is_older_from_those_who_see_it() {
        let set = RangeTombstones::new(vec![tombstone(10, 20, 7)]);
        assert!(set.hides(&[10], 6, 7) && set.hides(&[19, 255], 0, u64::MAX));
        assert!(!set.hides(&[20], 6, 7), "the end is not deleted");
        assert!(!set.hides(&[10], 7, 9), "of the same commit");
        assert!(!set.hides(&[10], 6, 6), "not visible yet");
        assert!(set.hides_all(&[10], &[19], 6, 7) && !set.hides_all(&[10], &[20], 6, 7));
        assert_eq!((set.highest_sequence(), RangeTombstones::default().highest_sequence()), (7, 0));
    }

    #[test]
    fn a_swallowed_tombstone_stays_for_a_snapshot_between() {
        let given = || vec![tombstone(1, 5, 3), tombstone(5, 9, 4), tombstone(1, 8, 2)];
        let kept = |snapshots: &[u64]| {
            let mut kept: Vec<u64> =
                part_swallowed(given(), snapshots).0.iter().map(|t| t.sequence).collect();
            kept.sort_unstable();
            kept
        };
        assert_eq!(kept(&[]), [3, 4]);
        assert_eq!(kept(&[1]), [3, 4]);
        assert_eq!(kept(&[2]), [2, 3, 4]);
        assert_eq!(kept(&[3]), [2, 3, 4], "the snapshot at 3 does not see 4");
        assert_eq!(kept(&[4]), [3, 4]);
    }

    proptest! {
        #[test]
        fn a_search_finds_what_a_walk_finds(
            ranges: Vec<(u8, u8, u8)>,
            questions: Vec<(u8, u8, u8, u8)>,
        ) {
            let all: Vec<_> =
                ranges.iter().map(|&(s, e, seq)| tombstone(s, e, u64::from(seq))).collect();
            let set = RangeTombstones::new(all.clone());
            for (a, b, sequence, snapshot) in questions {
                let (first, last) = (a.min(b), a.max(b));
                let (sequence, snapshot) = (u64::from(sequence), u64::from(snapshot));
                let found = all.iter().any(|t| {
                    covers(t, first, last) && t.sequence > sequence && t.sequence <= snapshot
                });
                prop_assert_eq!(set.hides_all(&[first], &[last], sequence, snapshot), found);
                let meets = all.iter().any(|t| {
                    let holds = (first..=last).any(|key| covers(t, key, key));
                    holds && t.sequence > sequence
                });
                // A range of no keys meets none; the set is never given one but here.
                if all.iter().all(|t| ends_behind(&t.end, &t.start)) {
                    prop_assert_eq!(set.meets(&[first], &[last], sequence), meets);
                    for (bound, until) in [
                        (Bound::Excluded(&[last][..]), u16::from(last)),
                        (Bound::Unbounded, 256),
                    ] {
                        let meets = all.iter().any(|t| {
                            let starts = u16::from(t.start[0]) < until;
                            let ends = ends_behind(&t.end, &[first]);
                            starts && ends && t.sequence > sequence && t.sequence <= snapshot
                        });
                        let within = (&[first][..], bound);
                        prop_assert_eq!(set.meets_range(within, sequence, snapshot), meets);
                    }
                }
            }
        }

        #[test]
        fn swallowed_tombstones_are_missed_by_no_reader(
            ranges: Vec<(u8, u8, u8)>,
            mut snapshots: Vec<u8>,
            key: u8,
        ) {
            let all: Vec<_> =
                ranges.iter().map(|&(s, e, seq)| tombstone(s, e, u64::from(seq))).collect();
            snapshots.sort_unstable();
            let snapshots: Vec<u64> = snapshots.into_iter().map(u64::from).collect();
            let (kept, gone) = part_swallowed(all.clone(), &snapshots);
            prop_assert_eq!(kept.len() + gone.len(), all.len());
            let (before, after) = (RangeTombstones::new(all), RangeTombstones::new(kept));
            for sequence in 0..=256 {
                for &snapshot in snapshots.iter().chain([&u64::MAX]) {
                    // Versions newer than the snapshot are not looked at.
                    if sequence <= snapshot {
                        prop_assert_eq!(
                            before.hides(&[key], sequence, snapshot),
                            after.hides(&[key], sequence, snapshot)
                        );
                    }
                }
            }
        }
    }
}
