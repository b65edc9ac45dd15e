//! A range of keys that a scan went over.

use std::ops::Bound;

/// Where a range ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::transaction) enum RangeEnd {
    /// At this key, which belongs to it.
    Through(Vec<u8>),
    /// In front of this key.
    Before(Vec<u8>),
    /// Nowhere: every later key belongs to it.
    Unbounded,
}

impl RangeEnd {
    pub(in crate::transaction) fn of(bound: Bound<&[u8]>) -> Self {
        match bound {
            Bound::Included(key) => Self::Through(key.to_vec()),
            Bound::Excluded(key) => Self::Before(key.to_vec()),
            Bound::Unbounded => Self::Unbounded,
        }
    }

    pub(in crate::transaction) fn bound(&self) -> Bound<&[u8]> {
        match self {
            Self::Through(key) => Bound::Included(key),
            Self::Before(key) => Bound::Excluded(key),
            Self::Unbounded => Bound::Unbounded,
        }
    }

    /// True when `key`, which is not before the range, belongs to it.
    pub(in crate::transaction) fn admits(&self, key: &[u8]) -> bool {
        match self {
            Self::Through(last) => key <= last.as_slice(),
            Self::Before(end) => key < end.as_slice(),
            Self::Unbounded => true,
        }
    }

    /// The first key behind the range.
    pub(in crate::transaction) fn exclusive(&self) -> Option<Vec<u8>> {
        match self {
            Self::Through(last) => {
                let mut next = last.clone();
                next.push(0);
                Some(next)
            }
            Self::Before(end) => Some(end.clone()),
            Self::Unbounded => None,
        }
    }

    pub(super) const fn memory_bytes(&self) -> usize {
        match self {
            Self::Through(key) | Self::Before(key) => key.capacity(),
            Self::Unbounded => 0,
        }
    }

    pub(super) fn is_behind(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Unbounded) => false,
            (Self::Unbounded, _) => true,
            (Self::Through(a), Self::Before(b)) => a >= b,
            (Self::Through(a) | Self::Before(a), Self::Through(b) | Self::Before(b)) => a > b,
        }
    }
}

/// A part of a family's key space.
#[derive(Clone, Debug)]
pub(in crate::transaction) struct ReadRange {
    pub family: u32,
    /// First key; the empty one stands before all.
    pub start: Vec<u8>,
    pub end: RangeEnd,
}

impl ReadRange {
    /// Bytes of memory that its keys hold.
    pub(super) const fn key_bytes(&self) -> usize {
        self.start.capacity() + self.end.memory_bytes()
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        self.family == other.family && self.start <= other.start && !other.end.is_behind(&self.end)
    }

    /// Takes `later`, which does not begin before this one, in if they overlap.
    pub(in crate::transaction) fn join(&mut self, later: &mut Self) -> bool {
        let joins = self.family == later.family && self.end.admits(&later.start);
        if joins && later.end.is_behind(&self.end) {
            std::mem::swap(&mut self.end, &mut later.end);
        }
        joins
    }
}
