//! How a log ends that failed, and goes on in another segment. `background/repair.rs` takes the
//! steps. A log that has not begun begins with some of them (`write/first_commit.rs`).

use std::path::PathBuf;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::sync::lock;

use super::Wal;
use super::active::ActiveSegment;

/// The segment with which a log is to begin, or to go on after a failure.
#[derive(Debug)]
pub(crate) struct Successor(ActiveSegment);

impl Successor {
    /// Number in its header.
    pub(crate) const fn number(&self) -> u64 {
        self.0.header.number
    }

    /// Position at which its records begin.
    pub(crate) const fn position(&self) -> SequenceNumber {
        self.0.header.base
    }

    /// Its file.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.path.clone()
    }
}

impl Wal {
    /// Refuses all commits from now on; those under way are finished, and so is a sync.
    pub(crate) fn seal(&self) {
        // The order of locks of `next_segment`.
        let files = lock(&self.files);
        let closed = self.gate.close();
        self.condition.seal();
        drop(closed);
        drop(files);
        self.group.wait_for_leader();
    }

    /// The failure that stopped the log, if one did.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.condition.failure()
    }

    /// As if a sync had failed.
    #[cfg(test)]
    pub(crate) fn fail_for_tests(&self, cause: Error) {
        self.condition.fail(super::state::Fault::Sync, cause);
    }

    /// Takes the right to repair a log that failed; false when it is in order, sealed or under
    /// repair.
    pub(crate) fn begin_repair(&self) -> bool {
        self.condition.begin_repair()
    }

    /// Whether a thread has taken the right to repair the log, or a job that is queued.
    pub(crate) fn is_under_repair(&self) -> bool {
        self.condition.is_under_repair()
    }

    /// Creates the segment with which a log begins, or one that failed goes on, once everything
    /// published is in tables. Its records begin behind all that was ever reserved. Nothing refers
    /// to it yet.
    ///
    /// # Errors
    /// [`Error::Io`] when it can't be created.
    pub(crate) fn begin_successor(&self) -> Result<Successor> {
        let mut files = lock(&self.files);
        files.discard_prepared(&self.config);
        files.ensure_prepared(&self.config, 0)?;
        // No commit is let in: what has been reserved stays as it is.
        let reserved = self.sequencer.tail().max(self.sequencer.published());
        let next = self.begin_segment(&mut files, reserved.next_multiple_of(8), 0)?;
        Ok(Successor(next))
    }

    /// Whether commits can be logged, or could be once.
    #[inline]
    pub(crate) fn is_begun(&self) -> bool {
        self.condition.is_begun()
    }

    /// Lets commits in for the first time. As for [`Wal::go_on`], which this calls.
    pub(crate) fn begin(&self, successor: Successor) {
        self.go_on(successor);
        self.condition.begin();
    }

    /// Goes on with a segment that the manifest, on disk, names as the first that is needed.
    pub(crate) fn go_on(&self, successor: Successor) {
        let mut files = lock(&self.files);
        let closed = self.gate.close();
        let position = successor.position();
        self.switch(&mut files, successor.0);
        files.mark_all_synced();
        self.group.advance(position);
        drop(closed);
    }

    /// Ends a repair. Unless it has `healed` the log, another one may be tried.
    pub(crate) fn end_repair(&self, healed: bool) {
        self.condition.end_repair(healed);
    }
}
