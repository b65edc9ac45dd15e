//! What a transaction is protected from.

/// What a transaction is protected from.
///
/// Whatever the level, uncommitted data is never seen, a commit is visible at once or not at all,
/// and a transaction sees its own writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum IsolationLevel {
    /// Each read sees the newest committed state; so does each positioning of an iterator. Commits
    /// never conflict.
    ReadUncommitted = 0,
    /// Each read sees the newest committed state; an iterator keeps to what it was when the
    /// iterator was made. Commits never conflict, the last one wins.
    #[default]
    ReadCommitted = 1,
    /// Reads see a snapshot, taken when the transaction began. The commit conflicts if a key that
    /// was read and found has changed since, even when nothing was written. Keys found absent, and
    /// keys written without having been read, are not checked.
    RepeatableRead = 2,
    /// Reads see a snapshot, taken when the transaction began. The commit conflicts if a key that
    /// was written has been changed by another commit since. Reads never conflict, so write skew is
    /// possible.
    Snapshot = 3,
    /// As [`IsolationLevel::Snapshot`], and the outcome is that of running the serializable
    /// transactions one after the other, in an order that agrees with real time; ranges that were
    /// scanned count with the keys that were not there. Commits of other levels count as writes
    /// without reads. [`crate::Transaction::refuse_overwritten_reads`] refuses more.
    Serializable = 4,
}

impl IsolationLevel {
    /// Reads see a snapshot, taken when the transaction began.
    pub(crate) const fn has_snapshot(self) -> bool {
        self as u8 >= Self::RepeatableRead as u8
    }

    /// Reads are remembered until the commit.
    pub(crate) const fn tracks_reads(self) -> bool {
        matches!(self, Self::RepeatableRead | Self::Serializable)
    }

    /// Written keys must not have changed since the snapshot.
    pub(crate) const fn checks_writes(self) -> bool {
        self as u8 >= Self::Snapshot as u8
    }
}
