//! Ranges of keys that are deleted: what several of them are together, and what one is without
//! others. Pure functions.

use tidesdb_base::range_tombstone::RangeTombstone;

/// Keys from `start` on and before `end`; all from `start` on where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeletedRange<'k> {
    pub start: &'k [u8],
    pub end: Option<&'k [u8]>,
}

impl<'k> DeletedRange<'k> {
    pub(super) fn of(tombstone: &'k RangeTombstone) -> Self {
        let end = Some(tombstone.end.as_ref()).filter(|end| !end.is_empty());
        Self { start: &tombstone.start, end }
    }

    /// Whether some key is in both.
    pub(super) fn meets(self, other: Self) -> bool {
        self.end.is_none_or(|end| end > other.start) && other.end.is_none_or(|end| end > self.start)
    }
}

/// Whether a range with the first end goes at least as far as one with the other.
fn reaches(end: Option<&[u8]>, other: Option<&[u8]>) -> bool {
    end.is_none_or(|end| other.is_some_and(|other| end >= other))
}

/// The same keys in ranges that ascend and do not touch.
pub(super) fn union<'k>(ranges: impl Iterator<Item = DeletedRange<'k>>) -> Vec<DeletedRange<'k>> {
    let mut sorted: Vec<_> = ranges.collect();
    sorted.sort_unstable();
    let mut together: Vec<DeletedRange<'k>> = Vec::new();
    for range in sorted {
        match together.last_mut().filter(|last| reaches(last.end, Some(range.start))) {
            Some(last) if reaches(last.end, range.end) => {}
            Some(last) => last.end = range.end,
            None => together.push(range),
        }
    }
    together
}

/// What is left of a range without others, which ascend and do not touch.
pub(super) fn without<'k>(
    range: DeletedRange<'k>,
    others: &[DeletedRange<'k>],
) -> Vec<DeletedRange<'k>> {
    let (mut left, mut start) = (Vec::new(), range.start);
    let near = others.partition_point(|other| !reaches(other.end, Some(start)));
    for other in others.get(near..).unwrap_or_default() {
        if range.end.is_some_and(|end| end <= other.start) {
            break;
        }
        if other.start > start {
            left.push(DeletedRange { start, end: Some(other.start) });
        }
        match other.end {
            Some(end) => start = start.max(end),
            None => return left,
        }
    }
    if range.end.is_none_or(|end| start < end) {
        left.push(DeletedRange { start, end: range.end });
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a-c` is from `a` on and before `c`, `a-` all from `a` on.
    fn ranges(text: &str) -> Vec<DeletedRange<'_>> {
        text.split_whitespace()
            .map(|range| {
                let (start, end) = range.split_once('-').unwrap();
                let end = Some(end.as_bytes()).filter(|end| !end.is_empty());
                DeletedRange { start: start.as_bytes(), end }
            })
            .collect()
    }

    #[test]
    fn ranges_that_meet_are_one() {
        for (given, together) in [
            ("", ""),
            ("a-c", "a-c"),
            ("e-g a-c", "a-c e-g"),
            ("a-c c-d", "a-d"),
            ("a-z b-c d-e", "a-z"),
            ("b-e a-c a-b d-f", "a-f"),
            ("c- a-b d-e", "a-b c-"),
            ("a- b-", "a-"),
        ] {
            assert_eq!(union(ranges(given).into_iter()), ranges(together), "{given}");
        }
    }

    #[test]
    fn ranges_meet_where_both_have_a_key() {
        for (one, other, meet) in [
            ("a-c", "c-d", false),
            ("a-d", "c-e", true),
            ("b-c", "a-d", true),
            ("a-", "z-", true),
            ("c-", "a-c", false),
        ] {
            let (one, other) = (ranges(one)[0], ranges(other)[0]);
            assert_eq!((one.meets(other), other.meets(one)), (meet, meet), "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_range_without_others_is_what_lies_between_them() {
        for (range, others, left) in [
            ("b-f", "", "b-f"),
            ("b-f", "a-b f-g", "b-f"),
            ("b-f", "a-c", "c-f"),
            ("b-f", "a-c d-e", "c-d e-f"),
            ("b-f", "e-", "b-e"),
            ("b-f", "a-", ""),
            ("b-f", "b-f", ""),
            ("b-", "c-d", "b-c d-"),
            ("b-", "a-c f-", "c-f"),
        ] {
            let found = without(ranges(range)[0], &ranges(others));
            assert_eq!(found, ranges(left), "{range} without {others}");
        }
    }
}
