//! Range deletions that no table needs any more, and that transactions may still have to meet.
//!
//! A flush and a compaction leave out the versions that a range deletion hides from all readers,
//! and forget the deletion once no table holds such a version. For reads nothing is lost. But a
//! transaction whose snapshot is older asks whether a key has changed since, and a key that was put
//! and deleted since has: a commit between the two may have read what this one writes. The point
//! deletion of a key stays for such a transaction (`output/drop_rules.rs`); a range deletion is
//! remembered here, in memory, since no transaction outlives the process.
//!
//! Memory is bounded: beyond [`MOST_RANGES`] all are joined in pairs of neighbours, with what lies
//! between, and long keys are cut. That can only add conflicts.
//!
//! Threads: any. Those who note take a lock; those who ask take none, and find what was noted
//! before the view that they have loaded was put in force.

use std::ops::Bound;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwapOption;
use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::key_ranges::{ends_behind, prefix_end};
use tidesdb_base::range_tombstone::RangeTombstone;
use tidesdb_lockfree::sync::lock;

/// Ranges that are kept apart.
const MOST_RANGES: usize = 64;

/// Longer keys are cut to a shorter one that is further out.
const LONGEST_KEY_BYTES: usize = 256;

/// A range of keys, and the lowest and the highest sequence number of the deletions in it.
#[derive(Clone, Debug)]
struct ForgottenRange {
    start: Box<[u8]>,
    /// Empty for no end.
    end: Box<[u8]>,
    lowest_sequence: SequenceNumber,
    highest_sequence: SequenceNumber,
}

impl ForgottenRange {
    fn of(tombstone: &RangeTombstone) -> Self {
        let (start, end) = (&*tombstone.start, &*tombstone.end);
        let start = start.get(..LONGEST_KEY_BYTES).unwrap_or(start);
        let end = match end.get(..LONGEST_KEY_BYTES) {
            Some(cut) if cut.len() < end.len() => prefix_end(cut).unwrap_or_default(),
            _ => end.to_vec(),
        };
        let sequence = tombstone.sequence;
        let (lowest_sequence, highest_sequence) = (sequence, sequence);
        Self { start: start.into(), end: end.into(), lowest_sequence, highest_sequence }
    }

    /// Takes in one that does not start before it, and what lies between.
    fn take_in(&mut self, next: &mut Self) {
        if !self.end.is_empty() && (next.end.is_empty() || next.end > self.end) {
            std::mem::swap(&mut self.end, &mut next.end);
        }
        self.lowest_sequence = self.lowest_sequence.min(next.lowest_sequence);
        self.highest_sequence = self.highest_sequence.max(next.highest_sequence);
    }
}

/// The range deletions of a family that were forgotten while a snapshot was older.
#[derive(Debug, Default)]
pub(crate) struct ForgottenDeletions {
    ranges: ArcSwapOption<Vec<ForgottenRange>>,
    noting: Mutex<()>,
}

impl ForgottenDeletions {
    /// Remembers tombstones that leave the files. The caller does this before it puts the view
    /// without them in force. `oldest` is the oldest live snapshot, asked for when all of them were
    /// published. Snapshots see what is no newer than themselves, so that only tombstones newer
    /// than the oldest are kept.
    pub(crate) fn note(&self, gone: &[Arc<RangeTombstone>], oldest: Option<SequenceNumber>) {
        let (Some(oldest), false) = (oldest, gone.is_empty()) else { return };
        let _one_at_a_time = lock(&self.noting);
        let before = self.ranges.load_full();
        let mut ranges: Vec<_> = before.iter().flat_map(|known| known.iter().cloned()).collect();
        ranges.extend(gone.iter().map(|tombstone| ForgottenRange::of(tombstone)));
        ranges.retain(|range| range.highest_sequence > oldest);
        if ranges.len() > MOST_RANGES {
            ranges.sort_by(|a, b| a.start.cmp(&b.start));
        }
        while ranges.len() > MOST_RANGES {
            let mut second = false;
            ranges.dedup_by(|next, kept| {
                second = !second;
                if second {
                    kept.take_in(next);
                }
                second
            });
        }
        self.ranges.store((!ranges.is_empty()).then(|| Arc::new(ranges)));
    }

    /// True when a deletion that was forgotten, newer than `since` and no newer than `through`,
    /// meets the keys from `start` to the bound.
    #[inline]
    pub(crate) fn meet(
        &self,
        (start, until): (&[u8], Bound<&[u8]>),
        (since, through): (SequenceNumber, SequenceNumber),
    ) -> bool {
        let ranges = self.ranges.load();
        ranges.as_ref().is_some_and(|ranges| {
            ranges.iter().any(|range| {
                let starts_within = match until {
                    Bound::Included(last) => *range.start <= *last,
                    Bound::Excluded(end) => *range.start < *end,
                    Bound::Unbounded => true,
                };
                starts_within
                    && ends_behind(&range.end, start)
                    && range.highest_sequence > since
                    && range.lowest_sequence <= through
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tombstone(start: &[u8], end: &[u8], sequence: u64) -> Arc<RangeTombstone> {
        Arc::new(RangeTombstone { start: start.into(), end: end.into(), sequence })
    }

    fn meets(forgotten: &ForgottenDeletions, key: &[u8], since: u64, through: u64) -> bool {
        forgotten.meet((key, Bound::Included(key)), (since, through))
    }

    #[test]
    fn a_deletion_is_met_in_its_range_by_those_whose_snapshot_is_older() {
        let forgotten = ForgottenDeletions::default();
        forgotten.note(&[tombstone(b"b", b"d", 7)], None);
        assert!(!meets(&forgotten, b"b", 0, 9), "there was no snapshot");
        forgotten.note(&[tombstone(b"b", b"d", 7), tombstone(b"x", b"", 9)], Some(5));
        for (key, met) in [(b"a", false), (b"b", true), (b"c", true), (b"d", false), (b"z", true)] {
            assert_eq!(meets(&forgotten, key, 5, 9), met, "{key:?}");
        }
        assert!(!meets(&forgotten, b"c", 7, 9) && !meets(&forgotten, b"c", 5, 6));
        let range = |start, until| forgotten.meet((start, until), (5, 9));
        assert!(range(b"a", Bound::Excluded(b"c")) && !range(b"a", Bound::Excluded(b"b")));
        assert!(range(b"", Bound::Unbounded) && !range(b"d", Bound::Included(b"e")));
        forgotten.note(&[tombstone(b"m", b"n", 11)], Some(8));
        assert!(!meets(&forgotten, b"c", 5, 11) && meets(&forgotten, b"m", 8, 11));
    }

    #[test]
    fn many_deletions_and_long_keys_take_little_memory_and_none_is_missed() {
        let forgotten = ForgottenDeletions::default();
        let key = |n: u64| {
            let mut key = vec![if n < 500 { b'k' } else { u8::MAX }; 60_000];
            key[100..108].copy_from_slice(&n.to_be_bytes());
            key
        };
        for n in 0..1000 {
            let number = n * 7919 % 1000;
            forgotten.note(&[tombstone(&key(number), &key(number + 1), 10 + n)], Some(5));
        }
        for n in 0..1000 {
            let number = n * 7919 % 1000;
            assert!(meets(&forgotten, &key(number), 9 + n, 10 + n), "{n}");
        }
        let ranges = forgotten.ranges.load_full().unwrap();
        let bytes: usize = ranges.iter().map(|range| range.start.len() + range.end.len()).sum();
        assert!(ranges.len() <= MOST_RANGES && bytes <= 2 * MOST_RANGES * LONGEST_KEY_BYTES);
    }
}
