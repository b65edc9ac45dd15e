//! Ranges of keys as Rust writes them.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys: `"a".."b"`, `"a"..="b"`, `"a"..`, `.."b"`, `..="b"`, `..`, or a pair of bounds,
/// with keys of any type that is bytes.
///
/// A trait of its own, because the ranges of references to arrays are ranges of two types of keys
/// to [`std::ops::RangeBounds`].
pub trait KeyRange {
    /// The first key in the range, and the first one behind it; `None` where it is open.
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>);
}

/// The key that comes next after `key`.
fn after(key: &[u8]) -> Vec<u8> {
    [key, b"\0"].concat()
}

fn at(key: &impl AsRef<[u8]>) -> Option<Vec<u8>> {
    Some(key.as_ref().to_vec())
}

impl<K: AsRef<[u8]>> KeyRange for Range<K> {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (at(&self.start), at(&self.end))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeInclusive<K> {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (at(self.start()), Some(after(self.end().as_ref())))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeFrom<K> {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (at(&self.start), None)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeTo<K> {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (None, at(&self.end))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeToInclusive<K> {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (None, Some(after(self.end.as_ref())))
    }
}

impl KeyRange for RangeFull {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (None, None)
    }
}

impl<K: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<K>) {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let start = match self.0 {
            Bound::Included(key) => at(&key),
            Bound::Excluded(key) => Some(after(key.as_ref())),
            Bound::Unbounded => None,
        };
        let end = match self.1 {
            Bound::Included(key) => Some(after(key.as_ref())),
            Bound::Excluded(key) => at(&key),
            Bound::Unbounded => None,
        };
        (start, end)
    }
}
