//! The commits that a transaction looks at when it looks for conflicts.

use tidesdb_base::entry::SequenceNumber;

/// Sequence numbers that matter: those behind `since`, up to `through`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub since: SequenceNumber,
    pub through: SequenceNumber,
}

impl Window {
    pub(super) const fn is_empty(self) -> bool {
        self.through <= self.since
    }

    pub(super) fn holds(self, sequence: SequenceNumber) -> bool {
        self.since < sequence && sequence <= self.through
    }
}
