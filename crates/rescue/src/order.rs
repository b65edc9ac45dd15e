//! The order of keys in a family.

use std::cmp::Ordering;

/// How the keys of a family are ordered.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyOrder;

impl KeyOrder {
    /// Compares two keys.
    pub(crate) fn compare(&self, one: &[u8], other: &[u8]) -> Ordering {
        one.cmp(other)
    }
}
