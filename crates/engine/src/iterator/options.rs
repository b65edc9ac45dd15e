//! What a scan covers.

use tidesdb_base::key_ranges::prefix_end;

use crate::snapshot::Snapshot;

/// Bounds and snapshot of a scan. The default covers the whole family as it is when the scan is
/// made.
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
        self.lower = Some(key.to_vec());
        self
    }

    /// Only keys before this one.
    #[must_use]
    pub fn upper(mut self, key: &[u8]) -> Self {
        self.upper = Some(key.to_vec());
        self
    }

    /// Only keys that start with these bytes. Replaces both bounds.
    #[must_use]
    pub fn prefix(mut self, prefix: &[u8]) -> Self {
        self.lower = Some(prefix.to_vec());
        self.upper = prefix_end(prefix);
        self
    }

    /// What the snapshot sees, instead of what is there when the scan is made.
    #[must_use]
    pub fn snapshot(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self
    }
}
