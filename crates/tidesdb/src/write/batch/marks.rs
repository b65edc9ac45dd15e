//! Places in a batch to go back to.

use super::WriteBatch;

impl WriteBatch {
    /// How far the batch has got.
    pub(crate) fn end(&self) -> BatchMark {
        BatchMark {
            record_bytes: self.record.len(),
            direct: self.direct.len(),
            families: self.families.len(),
            count: self.count,
            user_bytes: self.user_bytes,
            signature: self.signature,
            has_puts: self.has_puts,
            has_deletions: self.has_deletions,
            deletes_ranges: self.deletes_ranges,
        }
    }

    /// Removes the operations that were added since `mark` was taken.
    pub(crate) fn truncate(&mut self, mark: BatchMark) {
        self.record.truncate(mark.record_bytes);
        self.direct.truncate(mark.direct);
        self.families.truncate(mark.families);
        self.count = mark.count;
        self.user_bytes = mark.user_bytes;
        self.signature = mark.signature;
        self.has_puts = mark.has_puts;
        self.has_deletions = mark.has_deletions;
        self.deletes_ranges = mark.deletes_ranges;
    }
}

/// An extent of a batch, to go back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchMark {
    pub record_bytes: usize,
    pub direct: usize,
    families: usize,
    count: usize,
    user_bytes: u64,
    signature: u64,
    has_puts: bool,
    has_deletions: bool,
    deletes_ranges: bool,
}

impl BatchMark {
    /// True when the batch was longer at this mark than at the other.
    pub(crate) const fn is_behind(&self, other: Self) -> bool {
        self.count > other.count
    }
}
