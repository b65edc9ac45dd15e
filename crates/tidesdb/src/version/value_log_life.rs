//! The life of a value log: who may point into it besides tables, and how long it is.
//!
//! ```text
//! Appending --close--> Closed --settle--> Settled        a file that commits append to
//! Appending ---full, or ended-----------> Settled        that flushes and compactions append to
//!                      Closed <--replay-- Settled        commits of the log point into it
//! ```
//!
//! Plain data; its holder guards it with a lock.

use tidesdb_base::entry::SequenceNumber;

/// How long a file is to which nothing is appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Length of the file.
    pub bytes: u64,
    /// Up to here each record is whole. What a power cut or a failed write left of commits that
    /// never were may lie behind it.
    pub whole: u64,
}

impl Extent {
    /// Of a file that was completed and synced.
    pub(crate) const fn whole(bytes: u64) -> Self {
        Self { bytes, whole: bytes }
    }

    /// Of a file that was not closed: how much of it is whole is not known.
    pub(crate) const fn left_open(bytes: u64) -> Self {
        Self { bytes, whole: 0 }
    }
}

/// The state of a value log between its creation and its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueLogLife {
    /// Values are appended to the file, by commits or by flushes and compactions. So many bytes are
    /// synced.
    Appending { bytes: u64 },
    /// Nothing is appended any more. Commits up to this one may point into the file although no
    /// table does.
    Closed { through: SequenceNumber, extent: Extent },
    /// Tables alone point into the file.
    Settled { extent: Extent },
}

impl ValueLogLife {
    /// Nothing will be appended, and no commit after this one will point into the file.
    pub(crate) fn close(&mut self, through: SequenceNumber, extent: Extent) {
        *self = Self::Closed { through, extent };
    }

    /// All commits before this one are in tables.
    pub(crate) fn settle(&mut self, first_unflushed: SequenceNumber) {
        if let Self::Closed { through, extent } = *self
            && through < first_unflushed
        {
            *self = Self::Settled { extent };
        }
    }

    /// A commit that was replayed, and so is in memory, points into the file.
    pub(crate) fn note_replayed(&mut self, sequence: SequenceNumber) {
        match *self {
            Self::Settled { extent } => self.close(sequence, extent),
            Self::Closed { through, extent } => self.close(through.max(sequence), extent),
            Self::Appending { .. } => {}
        }
    }

    /// Of the same file in a family of which tables alone point into it.
    pub(crate) const fn for_tables_alone(self) -> Self {
        let extent = match self {
            Self::Appending { bytes } => Extent { bytes, whole: bytes },
            Self::Closed { extent, .. } | Self::Settled { extent } => extent,
        };
        Self::Settled { extent }
    }

    /// Length of the file.
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::Appending { bytes } => bytes,
            Self::Closed { extent, .. } | Self::Settled { extent } => extent.bytes,
        }
    }

    /// Up to here each record is whole.
    pub(crate) const fn whole_bytes(self) -> u64 {
        match self {
            Self::Appending { bytes } => bytes,
            Self::Closed { extent, .. } | Self::Settled { extent } => extent.whole,
        }
    }

    /// Whether nothing is appended, and commits outside of tables may point into the file.
    pub(crate) const fn is_closed(self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    /// Whether tables alone point into the file.
    pub(crate) const fn is_settled(self) -> bool {
        matches!(self, Self::Settled { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_settled_when_the_last_commit_that_may_point_into_it_is_in_a_table() {
        let mut life = ValueLogLife::Appending { bytes: 100 };
        life.settle(u64::MAX);
        assert!(!life.is_settled(), "more may come");
        life.close(7, Extent { bytes: 120, whole: 100 });
        life.settle(7);
        assert!(!life.is_settled());
        assert_eq!((life.bytes(), life.whole_bytes()), (120, 100));
        life.settle(8);
        assert!(life.is_settled());
        assert_eq!((life.bytes(), life.whole_bytes()), (120, 100));
    }

    #[test]
    fn commits_that_are_replayed_keep_a_file() {
        let mut life = ValueLogLife::Settled { extent: Extent::left_open(100) };
        life.note_replayed(9);
        life.note_replayed(5);
        life.settle(9);
        assert!(!life.is_settled());
        life.settle(10);
        assert_eq!(life, ValueLogLife::Settled { extent: Extent::left_open(100) });
    }
}
