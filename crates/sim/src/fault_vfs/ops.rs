//! The operations that can be counted and made to fail, and sets of them.

/// One kind of call on a file system, a file or a log segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "each variant is named after the call it stands for")]
pub enum Op {
    Open,
    Create,
    CreateDir,
    Rename,
    Link,
    Remove,
    RemoveDir,
    List,
    SyncDir,
    SegmentCreate,
    SegmentReuse,
    Lock,
    FreeBytes,
    Read,
    Write,
    Len,
    SetLen,
    Allocate,
    Sync,
    SegmentWrite,
    SegmentSync,
    SegmentZero,
}

/// A set of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpSet(u32);

impl OpSet {
    /// Every operation.
    pub const ALL: Self = Self(u32::MAX);

    /// Operations that change the disk.
    pub const CHANGES: Self = Self::of(&[
        Op::Create,
        Op::CreateDir,
        Op::Rename,
        Op::Link,
        Op::Remove,
        Op::RemoveDir,
        Op::SyncDir,
        Op::SegmentCreate,
        Op::SegmentReuse,
        Op::Write,
        Op::SetLen,
        Op::Allocate,
        Op::Sync,
        Op::SegmentWrite,
        Op::SegmentSync,
        Op::SegmentZero,
    ]);

    /// Operations that fail on a full disk. A log segment's space is reserved when it is created,
    /// so its writes are not among them.
    pub const SPACE: Self = Self::of(&[
        Op::Create,
        Op::CreateDir,
        Op::Link,
        Op::SegmentCreate,
        Op::Write,
        Op::SetLen,
        Op::Allocate,
    ]);

    /// Operations that make something durable.
    pub const SYNCS: Self = Self::of(&[Op::SyncDir, Op::Sync, Op::SegmentSync, Op::SegmentZero]);

    /// Operations that only look.
    pub const LOOKS: Self = Self::of(&[Op::Open, Op::List, Op::FreeBytes, Op::Read, Op::Len]);

    /// The set of these operations.
    #[must_use]
    pub const fn of(ops: &[Op]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < ops.len() {
            bits |= 1 << ops[index] as u32;
            index += 1;
        }
        Self(bits)
    }

    /// This set without `op`.
    #[must_use]
    pub const fn without(self, op: Op) -> Self {
        Self(self.0 & !(1 << op as u32))
    }

    /// This set and `op`.
    #[must_use]
    pub const fn with(self, op: Op) -> Self {
        Self(self.0 | 1 << op as u32)
    }

    /// Whether `op` is in the set.
    #[must_use]
    pub const fn contains(self, op: Op) -> bool {
        self.0 & (1 << op as u32) != 0
    }
}
