//! The ranges that a transaction has read, sorted, so that many keys are looked up in them fast.

use tidesdb_base::key_ranges::ends_behind;

use super::{ReadRange, ReadSet};

/// Ranges of a read set in the order of families and keys; none overlaps another.
#[derive(Debug, Default)]
pub(in crate::transaction) struct RangeIndex(Vec<ReadRange>);

impl RangeIndex {
    pub(in crate::transaction) fn of(reads: &ReadSet) -> Self {
        Self::over(reads.ranges().cloned().collect())
    }

    fn over(mut ranges: Vec<ReadRange>) -> Self {
        // A seek beyond the bounds of its scan leaves a range that ends in front of its start.
        ranges.retain(|range| range.end.admits(&range.start));
        ranges.sort_by(|a, b| (a.family, &a.start).cmp(&(b.family, &b.start)));
        ranges.dedup_by(|later, kept| kept.join(later));
        Self(ranges)
    }

    /// The number of ranges that begin at or before a key of a family, or in an earlier family.
    fn begun(&self, family: u32, key: &[u8]) -> usize {
        self.0.partition_point(|range| (range.family, range.start.as_slice()) <= (family, key))
    }

    /// Whether a key is in one of the ranges.
    pub(in crate::transaction) fn holds(&self, family: u32, key: &[u8]) -> bool {
        let before = self.begun(family, key).checked_sub(1).and_then(|at| self.0.get(at));
        before.is_some_and(|range| range.family == family && range.end.admits(key))
    }

    /// The start of a range that `[start, end)` meets; an empty end stands for no end.
    pub(in crate::transaction) fn met(
        &self,
        family: u32,
        start: &[u8],
        end: &[u8],
    ) -> Option<&[u8]> {
        let begun = self.begun(family, start);
        let meets = |range: &&ReadRange| {
            range.family == family && ends_behind(end, &range.start) && range.end.admits(start)
        };
        let around = self.0.get(begun.saturating_sub(1)..).unwrap_or_default().iter().take(2);
        around.filter(meets).map(|range| range.start.as_slice()).next()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tidesdb_sim::rng::SplitMix64;

    use super::super::RangeEnd;
    use super::*;

    /// Against a look at each of the ranges.
    #[test]
    fn keys_and_ranges_are_found_where_one_of_the_ranges_has_them() {
        let mut random = SplitMix64::new(1);
        let key = |n: u64| format!("{n:02}").into_bytes();
        for _ in 0..300 {
            let ranges: Vec<ReadRange> = (0..random.below(12))
                .map(|_| {
                    let start = random.below(60);
                    let last = key((start + random.below(12)).saturating_sub(3));
                    let end = match random.below(8) {
                        0 => RangeEnd::Unbounded,
                        1..4 => RangeEnd::Before(last),
                        _ => RangeEnd::Through(last),
                    };
                    ReadRange { family: random.below(2) as u32, start: key(start), end }
                })
                .collect();
            let index = RangeIndex::over(ranges.clone());
            let has = |family, key: &[u8]| {
                let mut all = ranges.iter().filter(|range| range.family == family);
                all.any(|range| range.start.as_slice() <= key && range.end.admits(key))
            };
            for n in 0..70 {
                for family in 0..2 {
                    assert_eq!(
                        index.holds(family, &key(n)),
                        has(family, &key(n)),
                        "{ranges:?} {n}"
                    );
                    let end = n + 1 + random.below(9);
                    let inside: BTreeSet<bool> = (n..end).map(|n| has(family, &key(n))).collect();
                    let met = index.met(family, &key(n), &key(end)).is_some();
                    // A range may lie between two of the keys.
                    assert!(met || !inside.contains(&true), "{ranges:?} {n} to {end}");
                    let inside = (n..70).any(|n| has(family, &key(n)));
                    let met = index.met(family, &key(n), b"").is_some();
                    assert!(met || !inside, "{ranges:?} from {n} on");
                }
            }
        }
    }
}
