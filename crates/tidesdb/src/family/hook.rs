//! Commit hooks: functions of users that are called after each commit to a family.
//!
//! A hook is called by the committing thread, once per commit and family, when the commit is
//! visible and as durable as it was asked to be, or its durability is in doubt; no lock of the
//! engine is held and the commit gate is behind, so a hook may read, write and start transactions
//! itself. Commits of different threads may be reported in another order than that of their
//! sequence numbers. A hook can't change the outcome any more: if it panics, the panic ends here.
//! The first time that a hook does so is an event.
//!
//! Families without a hook pay one relaxed load per commit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tidesdb_base::entry::ValueKind;
use tidesdb_base::user_code::{FirstPanic, call_out};
use tidesdb_files::wal::Operation;
use tidesdb_lockfree::sync::lock;

/// Called after each commit to a family. See [`crate::Family::set_commit_hook`].
pub type CommitHook = Arc<dyn Fn(&CommittedBatch<'_>) + Send + Sync>;

/// What an operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommittedKind {
    /// Stored a value.
    Put,
    /// Deleted the key.
    Delete,
    /// Deleted the key, which had been put at most once.
    SingleDelete,
    /// Deleted every key from `key` on that comes before `value`: from the first if `key` is empty,
    /// to the last if `value` is.
    DeleteRange,
    /// Deleted every key that starts with `key`. Only in families in reverse and in
    /// case-insensitive order, where no two keys are the bounds of these; elsewhere such a deletion
    /// is a [`Self::DeleteRange`].
    DeletePrefix,
}

/// One operation of a commit, or of a batch that is still to be committed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CommittedOperation<'a> {
    /// What was done.
    pub kind: CommittedKind,
    /// The key.
    pub key: &'a [u8],
    /// The value of a put, the end of a range; empty for other deletions.
    pub value: &'a [u8],
    /// Unix second at which the value expires; zero for never.
    pub expires_at_unix_seconds: u64,
}

impl<'a> CommittedOperation<'a> {
    pub(super) const fn of(operation: &Operation<'a>) -> Self {
        let kind = match operation.kind {
            ValueKind::Tombstone => CommittedKind::Delete,
            ValueKind::SingleTombstone => CommittedKind::SingleDelete,
            ValueKind::RangeTombstone => CommittedKind::DeleteRange,
            ValueKind::Value | ValueKind::ValuePointer => CommittedKind::Put,
        };
        let expires_at_unix_seconds = operation.expires_at;
        Self { kind, key: operation.key, value: operation.value, expires_at_unix_seconds }
    }
}

/// The part of a commit that concerns one family.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CommittedBatch<'a> {
    /// Name of the family.
    pub family: &'a str,
    /// Sequence number of the commit, the same in all of its families; later commits have greater
    /// ones.
    pub sequence: u64,
    /// The operations in the order in which they were given; a key may occur more than once.
    pub operations: &'a [CommittedOperation<'a>],
}

/// A hook that is called no more. What it has captured may call the database when it is dropped, so
/// it is let go of with no lock held.
#[must_use]
pub(crate) struct RetiredHook(Option<CommitHook>);

impl RetiredHook {
    /// Drops it. A panic of what it has captured ends here.
    pub(crate) fn let_go(self) {
        call_out(|| drop(self.0));
    }
}

/// The place of a family's hook.
#[derive(Default)]
pub(crate) struct CommitHookSlot {
    set: AtomicBool,
    hook: Mutex<Option<CommitHook>>,
    panicked: FirstPanic,
}

impl std::fmt::Debug for CommitHookSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitHookSlot").field("set", &self.set).finish_non_exhaustive()
    }
}

impl CommitHookSlot {
    /// Replaces or removes the hook, and returns the old one.
    pub(crate) fn exchange(&self, hook: Option<CommitHook>) -> RetiredHook {
        let mut slot = lock(&self.hook);
        // ORDERING: relaxed; the hook itself is read with the lock held.
        self.set.store(hook.is_some(), Ordering::Relaxed);
        self.panicked.forget();
        RetiredHook(std::mem::replace(&mut *slot, hook))
    }

    /// True when there is something to call.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        // ORDERING: as in `replace`.
        self.set.load(Ordering::Relaxed)
    }

    /// Calls the hook, if one is set. True when it panicked for the first time.
    #[cold]
    pub(super) fn call(
        &self,
        family: &str,
        sequence: u64,
        operations: &[CommittedOperation<'_>],
    ) -> bool {
        let hook = lock(&self.hook).clone();
        hook.is_some_and(|hook| {
            let batch = CommittedBatch { family, sequence, operations };
            // The commit is done; a panic of the hook must not look as if it were not.
            self.panicked.call_out(|| hook(&batch))
        })
    }
}
