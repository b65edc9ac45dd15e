//! Sets of keys made of half-open ranges.
//!
//! A range runs from its start, which belongs to it, to its end, which does not. An empty end
//! stands for no end at all: the range reaches to the last key there can be. [`KeyRangeUnion`] is
//! the union of ranges given one by one; it is used where range deletions swallow each other: in
//! one batch (`files::wal`), and among those of one stripe of snapshots
//! ([`crate::range_tombstone`]).
//!
//! Threads: plain data. Invariant: the ranges kept are not empty and neither overlap nor touch.

use std::collections::BTreeMap;

/// Whether `key`, which is not before the start of a range, lies in front of its end.
#[inline]
#[must_use]
pub fn ends_behind(end: &[u8], key: &[u8]) -> bool {
    end.is_empty() || key < end
}

/// True when the range holds any key.
#[must_use]
pub fn is_range(start: &[u8], end: &[u8]) -> bool {
    ends_behind(end, start)
}

/// Whether everything in front of `other` is in front of `end`.
fn ends_at_or_behind(end: &[u8], other: &[u8]) -> bool {
    end.is_empty() || (!other.is_empty() && other <= end)
}

/// The stored range of all keys: from the smallest that there can be on, without an end.
pub const EVERYTHING: (&[u8], &[u8]) = (&[0], &[]);

/// The first key behind all keys that start with `prefix`; `None` when there is none, because the
/// prefix is empty or all ones.
#[must_use]
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}

/// A union of ranges of borrowed keys.
#[derive(Clone, Debug, Default)]
pub struct KeyRangeUnion<'a>(BTreeMap<&'a [u8], &'a [u8]>);

impl<'a> KeyRangeUnion<'a> {
    /// Adds a range. One without keys adds nothing.
    pub fn insert(&mut self, start: &'a [u8], end: &'a [u8]) {
        if !is_range(start, end) {
            return;
        }
        let (mut start, mut end) = (start, end);
        let before = self.0.range(..=start).next_back();
        if let Some((&first, &last)) = before
            && ends_at_or_behind(last, start)
        {
            start = first;
            end = if ends_at_or_behind(last, end) { last } else { end };
        }
        // What begins inside is swallowed, and may reach further.
        while let Some((&first, &last)) = self.0.range(start..).next() {
            if !end.is_empty() && first > end {
                break;
            }
            end = if ends_at_or_behind(last, end) { last } else { end };
            self.0.remove(first);
        }
        debug_assert!(!self.contains(start), "ranges of the union meet");
        self.0.insert(start, end);
    }

    /// True when the key lies in the union.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        let range = self.0.range(..=key).next_back();
        range.is_some_and(|(_, end)| ends_behind(end, key))
    }

    /// True when every key of the range lies in the union.
    #[must_use]
    pub fn contains_range(&self, start: &[u8], end: &[u8]) -> bool {
        let range = self.0.range(..=start).next_back();
        range.is_some_and(|(_, last)| ends_behind(last, start) && ends_at_or_behind(last, end))
    }

    /// Forgets all ranges.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }

    #[test]
    fn touching_ranges_become_one_and_an_empty_end_is_none() {
        let mut union = KeyRangeUnion::default();
        union.insert(b"b", b"d");
        union.insert(b"d", b"f");
        assert!(union.contains_range(b"b", b"f") && !union.contains_range(b"b", b"g"));
        assert!(!union.contains_range(b"b", b""));
        union.insert(b"c", b"");
        assert!(union.contains_range(b"b", b"") && union.contains(b"\xff\xff"));
        union.insert(b"z", b"y");
        assert!(!union.contains(b"a"));
    }

    proptest! {
        #[test]
        fn the_union_holds_what_any_of_its_ranges_holds(
            ranges: Vec<(u8, u8)>, from: u8, to: u8,
        ) {
            let ends: Vec<([u8; 1], Vec<u8>)> = ranges
                .iter()
                .map(|&(start, end)| ([start], if end == 0 { Vec::new() } else { vec![end] }))
                .collect();
            let mut union = KeyRangeUnion::default();
            for (start, end) in &ends {
                union.insert(start, end);
            }
            let holds = |key: u8| {
                ends.iter().any(|(start, end)| start[0] <= key && ends_behind(end, &[key]))
            };
            for key in 0..=255 {
                prop_assert_eq!(union.contains(&[key]), holds(key), "key {}", key);
            }
            // Over one-byte keys only: the union's own ends are one byte long as well.
            if from < to {
                let wanted = (from..to).all(holds);
                prop_assert_eq!(union.contains_range(&[from], &[to]), wanted);
            }
        }
    }
}
