//! Snapshots: a sequence number up to which a reader sees everything, and a registry that keeps
//! merges from dropping what some snapshot still needs.

use std::sync::{Arc, Mutex};

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::live_sequences::LiveSequences;
use tidesdb_lockfree::sync::lock;

use crate::core::Core;

/// The sequence numbers of all live snapshots: 16 bytes for each moment that somebody sees.
#[derive(Debug, Default)]
pub(crate) struct SnapshotRegistry(Mutex<LiveSequences>);

impl SnapshotRegistry {
    /// Registers a snapshot at the sequence number that `now` returns. `now` is called with the
    /// registry locked, so that a merge that lists the snapshots either sees this one or started
    /// before everything it can see.
    #[inline]
    pub(crate) fn register(&self, now: impl FnOnce() -> SequenceNumber) -> SequenceNumber {
        let mut live = lock(&self.0);
        let sequence = now();
        live.add(sequence);
        sequence
    }

    /// Gives up a registration; true when it was the oldest snapshot and nobody else holds it.
    #[inline]
    pub(crate) fn release(&self, sequence: SequenceNumber) -> bool {
        lock(&self.0).remove(sequence)
    }

    /// All live snapshots, oldest first.
    pub(crate) fn list(&self) -> Vec<SequenceNumber> {
        lock(&self.0).iter().collect()
    }
}

#[derive(Debug)]
struct Registered {
    core: Arc<Core>,
    sequence: SequenceNumber,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.core.snapshots.release(self.sequence) {
            self.core.oldest_snapshot_gone();
        }
    }
}

/// A fixed view of the whole database: what was committed when it was taken, in every family.
///
/// It costs a few dozen bytes and holds no lock; but versions that it sees are kept on disk until
/// it is dropped. Clones share one registration.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # use tidesdb_engine as tidesdb;
/// use tidesdb::{Db, DbOptions, FamilyOptions};
/// let db = Db::open(directory.path(), DbOptions::default())?;
/// let family = db.open_family("default", FamilyOptions::default())?;
/// family.put(b"k", b"old")?;
/// let snapshot = db.snapshot();
/// family.put(b"k", b"new")?;
/// assert_eq!(family.get_at(&snapshot, b"k")?.as_deref(), Some(&b"old"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot(Arc<Registered>);

impl Snapshot {
    pub(crate) fn take(core: &Arc<Core>) -> Self {
        let sequence = core.snapshots.register(|| core.log.published());
        Self(Arc::new(Registered { core: Arc::clone(core), sequence }))
    }

    /// A snapshot at a sequence number that is registered already.
    pub(crate) fn again(core: &Arc<Core>, sequence: SequenceNumber) -> Self {
        core.snapshots.register(|| sequence);
        Self(Arc::new(Registered { core: Arc::clone(core), sequence }))
    }

    /// Everything committed up to this sequence number is visible in the snapshot.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.0.sequence
    }

    pub(crate) fn belongs_to(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(&self.0.core, core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_held_twice_is_listed_until_both_are_gone() {
        let registry = SnapshotRegistry::default();
        assert_eq!(registry.register(|| 7), 7);
        registry.register(|| 7);
        registry.register(|| 9);
        assert!(!registry.release(7), "held once more");
        assert_eq!(registry.list(), [7, 9]);
        assert!(registry.release(7));
        assert_eq!(registry.list(), [9]);
        registry.register(|| 11);
        assert!(!registry.release(11), "not the oldest");
    }
}
