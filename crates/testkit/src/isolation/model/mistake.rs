//! The ways in which the model can be wrong.

/// A way of being wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Written keys are not checked at commit.
    LostUpdate,
    /// Only keys that were also read are checked for a newer version.
    BlindWritesUnchecked,
    /// Serializable transactions are checked like snapshots.
    WriteSkew,
    /// Reads of single keys see the newest version instead of the snapshot's.
    ReadSkew,
    /// Ranges are not remembered.
    Phantom,
    /// Absent keys are not remembered.
    AbsentReadsForgotten,
    /// Repeatable read does not check what it has read.
    RepeatableReadUnchecked,
    /// Reads see what others have not committed yet.
    DirtyRead,
    /// What is rolled back stays.
    AbortedRead,
    /// What is undone by a roll back to a savepoint stays.
    SavepointKept,
    /// A value that is overwritten in the same transaction is published.
    IntermediateRead,
    /// A refused commit leaves its first write behind.
    ConflictLeavesTrace,
    /// The first key of a commit is visible one read earlier than the others.
    Fractured,
    /// A snapshot is one commit older than it should be.
    StaleSnapshot,
    /// Scans do not see the transaction's own writes.
    OwnWritesMissed,
    /// Scans backwards pass over the second entry.
    ScanSkipsAKey,
    /// Two commits say each other's numbers.
    NumbersSwapped,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::LostUpdate,
        Self::BlindWritesUnchecked,
        Self::WriteSkew,
        Self::ReadSkew,
        Self::Phantom,
        Self::AbsentReadsForgotten,
        Self::RepeatableReadUnchecked,
        Self::DirtyRead,
        Self::AbortedRead,
        Self::SavepointKept,
        Self::IntermediateRead,
        Self::ConflictLeavesTrace,
        Self::Fractured,
        Self::StaleSnapshot,
        Self::OwnWritesMissed,
        Self::ScanSkipsAKey,
        Self::NumbersSwapped,
    ];
}
