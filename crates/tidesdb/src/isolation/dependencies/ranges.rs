//! Ranges of keys that serializable transactions have read, with a limit each.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use super::{ENTRY_BYTES, FEW_ENTRIES};

/// Ranges that were read.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// By the family's number.
    pub of: HashMap<u32, RangeLimits>,
    /// About what they take; not less.
    pub bytes: usize,
}

impl Ranges {
    /// The limit of a key, zero if no range that was read holds it.
    pub(super) fn limit(&self, family: u32, key: &[u8]) -> u64 {
        self.of.get(&family).map_or(0, |ranges| ranges.limit(key))
    }

    /// Number of steps in all families.
    pub(super) fn steps(&self) -> usize {
        self.of.values().map(|ranges| ranges.steps.len()).sum()
    }

    /// One of the keys `written`, which are sorted, with a limit of at least `first`.
    pub(super) fn any_of<'a>(
        &self,
        first: u64,
        written: &[(u32, &'a [u8])],
    ) -> Option<(u32, &'a [u8])> {
        self.of.iter().find_map(|(&family, ranges)| {
            let mut steps = ranges.steps.iter().peekable();
            while let Some((start, &limit)) = steps.next() {
                let end = steps.peek().map(|(end, _)| end.as_slice());
                if limit < first {
                    continue;
                }
                let at = written.partition_point(|known| *known < (family, start.as_slice()));
                let is_inside =
                    |(of, key): &&(u32, &[u8])| *of == family && end.is_none_or(|end| *key < end);
                if let Some(found) = written.get(at).filter(is_inside) {
                    return Some(*found);
                }
            }
            None
        })
    }

    /// Raises the limit of `[start, end)` to at least `limit`. Limits up to `oldest` are forgotten
    /// when the family's table has doubled.
    pub(super) fn raise(
        &mut self,
        family: u32,
        (start, end): (&[u8], Option<&[u8]>),
        limit: u64,
        oldest: u64,
    ) {
        let ranges = self.of.entry(family).or_default();
        ranges.raise(start, end, limit);
        // Steps that went meanwhile are counted until the next sweep.
        self.bytes += start.len() + end.map_or(0, <[u8]>::len) + 2 * ENTRY_BYTES;
        if ranges.steps.len() > 2 * ranges.kept + FEW_ENTRIES {
            ranges.sweep(oldest);
            self.count();
        }
    }

    /// Forgets limits up to `oldest` in all families.
    #[cold]
    pub(super) fn sweep(&mut self, oldest: u64) {
        self.of.values_mut().for_each(|ranges| ranges.sweep(oldest));
        self.of.retain(|_, ranges| !ranges.steps.is_empty());
        self.count();
    }

    /// Forgets all ranges, and returns the number that stands for them.
    #[cold]
    pub(super) fn take_highest(&mut self) -> u64 {
        let limits = self.of.values().flat_map(|ranges| ranges.steps.values());
        let highest = limits.max().copied().unwrap_or(0);
        *self = Self::default();
        highest
    }

    pub(super) fn clear(&mut self) {
        self.of.clear();
        self.bytes = 0;
    }

    fn count(&mut self) {
        self.bytes = self.of.values().map(bytes_of).sum();
    }
}

/// Limits of ranges of one family: each entry holds from its key up to the next entry's.
#[derive(Debug, Default)]
pub(super) struct RangeLimits {
    pub steps: BTreeMap<Vec<u8>, u64>,
    /// Number of steps after the last sweep.
    kept: usize,
}

/// About what the steps of a family take.
fn bytes_of(ranges: &RangeLimits) -> usize {
    ranges.steps.keys().map(|key| key.len() + ENTRY_BYTES).sum()
}

impl RangeLimits {
    pub(super) fn limit(&self, key: &[u8]) -> u64 {
        let below = (Bound::Unbounded, Bound::Included(key));
        self.steps.range::<[u8], _>(below).next_back().map_or(0, |(_, &limit)| limit)
    }

    /// Raises the limit of `[start, end)` to at least `limit`.
    pub(super) fn raise(&mut self, start: &[u8], end: Option<&[u8]>, limit: u64) {
        if end.is_some_and(|end| end <= start) {
            return;
        }
        if let Some(end) = end {
            let behind = self.limit(end);
            self.steps.entry(end.to_vec()).or_insert(behind);
        }
        let before = self.limit(start);
        self.steps.entry(start.to_vec()).or_insert(before);
        let covered = (Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded));
        let mut last = None;
        let mut merged = Vec::new();
        for (key, step) in self.steps.range_mut::<[u8], _>(covered) {
            *step = limit.max(*step);
            if last == Some(*step) {
                merged.push(key.clone());
            }
            last = Some(*step);
        }
        for key in merged {
            self.steps.remove(&key);
        }
    }

    pub(super) fn sweep(&mut self, oldest: u64) {
        let mut last = 0;
        self.steps.retain(|_, limit| {
            if *limit <= oldest {
                *limit = 0;
            }
            let needed = *limit != last;
            last = *limit;
            needed
        });
        self.kept = self.steps.len();
    }
}
