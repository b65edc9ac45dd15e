//! What a scan covers.

use std::ops::Bound;

use tidesdb_base::error::Result;
use tidesdb_base::key_order::KeyOrder;
use tidesdb_base::key_ranges::prefix_end;

use super::KeyRange;
use crate::family::dead_ranges::successor;
use crate::handles::Snapshot;

/// Bounds and snapshot of a scan. The default covers the whole family as it is when the scan is
/// made. Bounds and prefixes intersect, in whatever order they are given: each narrows what the
/// ones before have left.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// use tidesdb::{Db, DbOptions, FamilyOptions, ScanOptions};
/// let db = Db::open(directory.path(), DbOptions::default())?;
/// let family = db.open_family("default", FamilyOptions::default())?;
/// for key in ["job/1", "job/2", "job/3", "user/1"] {
///     family.put(key.as_bytes(), b"")?;
/// }
/// let options = ScanOptions::new().lower(b"job/2").prefix(b"job/");
/// assert_eq!(family.scan(options)?.entries().count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    limits: Vec<Limit>,
    pub(crate) snapshot: Option<Snapshot>,
}

/// What keys a scan may show, by keys as they are given.
#[derive(Clone, Debug)]
pub(crate) enum Limit {
    From(Vec<u8>),
    After(Vec<u8>),
    Before(Vec<u8>),
    Through(Vec<u8>),
    Prefix(Vec<u8>),
}

/// What a scan covers, by stored keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub lower: Option<Vec<u8>>,
    pub upper: Option<Vec<u8>>,
    pub snapshot: Option<Snapshot>,
}

impl ScanOptions {
    /// Everything, as of now.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only keys at or after this one.
    #[must_use]
    pub fn lower(self, key: impl AsRef<[u8]>) -> Self {
        self.limited(Limit::From(key.as_ref().to_vec()))
    }

    /// Only keys before this one.
    #[must_use]
    pub fn upper(self, key: impl AsRef<[u8]>) -> Self {
        self.limited(Limit::Before(key.as_ref().to_vec()))
    }

    /// Only keys that start with these bytes, in a family whose order takes different bytes for the
    /// same key also those that start with others for them. A scan of a family in an order of
    /// integers refuses it.
    #[must_use]
    pub fn prefix(self, prefix: impl AsRef<[u8]>) -> Self {
        self.limited(Limit::Prefix(prefix.as_ref().to_vec()))
    }

    /// Only keys in this range, such as `"a".."b"`, `"a"..="b"` or `"a"..`.
    #[must_use]
    pub fn range(self, range: impl KeyRange) -> Self {
        let (lower, upper) = range.into_bounds();
        let limited = match lower {
            Bound::Included(key) => self.limited(Limit::From(key)),
            Bound::Excluded(key) => self.limited(Limit::After(key)),
            Bound::Unbounded => self,
        };
        match upper {
            Bound::Included(key) => limited.limited(Limit::Through(key)),
            Bound::Excluded(key) => limited.limited(Limit::Before(key)),
            Bound::Unbounded => limited,
        }
    }

    /// What the snapshot sees, instead of what is there when the scan is made.
    #[must_use]
    pub fn snapshot(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    fn limited(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// What the scan covers in a family of this order, and the limits that only the application's
    /// own order can show.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::InvalidArgument`] for a prefix in an order of integers.
    pub(crate) fn into_bounds(self, order: &KeyOrder) -> Result<(Bounds, Vec<Limit>)> {
        let mut bounds = Bounds { lower: None, upper: None, snapshot: self.snapshot };
        let mut left = Vec::new();
        for limit in self.limits {
            if let (KeyOrder::Custom(_), false) = (order, matches!(limit, Limit::Prefix(_))) {
                left.push(limit);
                continue;
            }
            match limit {
                Limit::From(key) => bounds.raise_lower(stored(order, key)),
                Limit::After(key) => bounds.raise_lower(successor(&stored(order, key))),
                Limit::Before(key) => bounds.reduce_upper(stored(order, key)),
                Limit::Through(key) => bounds.reduce_upper(successor(&stored(order, key))),
                Limit::Prefix(prefix) => {
                    let prefix = order.stored_prefix(&prefix)?.into_owned();
                    if let Some(end) = prefix_end(&prefix) {
                        bounds.reduce_upper(end);
                    }
                    bounds.raise_lower(prefix);
                }
            }
        }
        Ok((bounds, left))
    }
}

/// The stored key of a key, copied only where it differs.
fn stored(order: &KeyOrder, key: Vec<u8>) -> Vec<u8> {
    if order.stores_keys_as_given() { key } else { order.stored_key(&key).into_owned() }
}

impl Bounds {
    fn raise_lower(&mut self, key: Vec<u8>) {
        if self.lower.as_ref().is_none_or(|lower| *lower < key) {
            self.lower = Some(key);
        }
    }

    fn reduce_upper(&mut self, key: Vec<u8>) {
        if self.upper.as_ref().is_none_or(|upper| *upper > key) {
            self.upper = Some(key);
        }
    }
}
