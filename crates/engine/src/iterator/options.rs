//! What a scan covers.

use tidesdb_base::key_ranges::prefix_end;

use super::KeyRange;
use crate::snapshot::Snapshot;

/// Bounds and snapshot of a scan. The default covers the whole family as it is when the scan is
/// made. Bounds and prefixes intersect, in whatever order they are given: each narrows what the
/// ones before have left.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # use tidesdb_engine as tidesdb;
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
    pub(crate) lower: Option<Vec<u8>>,
    pub(crate) upper: Option<Vec<u8>>,
    pub(crate) snapshot: Option<Snapshot>,
}

impl ScanOptions {
    /// Everything, as of now.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only keys at or after this one.
    #[must_use]
    pub fn lower(mut self, key: &[u8]) -> Self {
        self.raise_lower(key);
        self
    }

    /// Only keys before this one.
    #[must_use]
    pub fn upper(mut self, key: &[u8]) -> Self {
        self.reduce_upper(key);
        self
    }

    /// Only keys that start with these bytes.
    #[must_use]
    pub fn prefix(mut self, prefix: &[u8]) -> Self {
        self.raise_lower(prefix);
        if let Some(end) = prefix_end(prefix) {
            self.reduce_upper(&end);
        }
        self
    }

    /// Only keys in this range, such as `"a".."b"`, `"a"..="b"` or `"a"..`.
    #[must_use]
    pub fn range(mut self, range: impl KeyRange) -> Self {
        let (lower, upper) = range.into_bounds();
        if let Some(lower) = lower {
            self.raise_lower(&lower);
        }
        if let Some(upper) = upper {
            self.reduce_upper(&upper);
        }
        self
    }

    /// What the snapshot sees, instead of what is there when the scan is made.
    #[must_use]
    pub fn snapshot(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    fn raise_lower(&mut self, key: &[u8]) {
        if self.lower.as_deref().is_none_or(|lower| lower < key) {
            self.lower = Some(key.to_vec());
        }
    }

    fn reduce_upper(&mut self, key: &[u8]) {
        if self.upper.as_deref().is_none_or(|upper| upper > key) {
            self.upper = Some(key.to_vec());
        }
    }
}
