//! Snapshots: a sequence number up to which a reader sees everything, and a registry that keeps
//! merges from dropping what some snapshot still needs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::live_sequences::LiveSequences;
use tidesdb_lockfree::sync::lock;

use crate::core::Core;

/// The sequence numbers of all live snapshots: 16 bytes for each moment that somebody sees.
#[derive(Debug, Default)]
pub(crate) struct SnapshotRegistry(Mutex<Registry>);

#[derive(Debug, Default)]
struct Registry {
    live: LiveSequences,
    /// Of live snapshots whose end somebody waits for: few, and mostly none.
    watched: BTreeSet<SequenceNumber>,
}

impl SnapshotRegistry {
    /// Registers a snapshot at the sequence number that `now` returns. `now` is called with the
    /// registry locked, so that a merge that lists the snapshots either sees this one or started
    /// before everything it can see.
    #[inline]
    pub(crate) fn register(&self, now: impl FnOnce() -> SequenceNumber) -> SequenceNumber {
        let mut registry = lock(&self.0);
        let sequence = now();
        registry.live.add(sequence);
        sequence
    }

    /// Gives up a registration; true when nobody else holds the snapshot and it was watched.
    #[inline]
    pub(crate) fn release(&self, sequence: SequenceNumber) -> bool {
        let mut registry = lock(&self.0);
        registry.live.remove(sequence);
        !registry.watched.is_empty() && registry.ends_watch(sequence)
    }

    /// All live snapshots, oldest first.
    pub(crate) fn list(&self) -> Vec<SequenceNumber> {
        lock(&self.0).live.iter().collect()
    }

    /// The oldest live snapshot.
    pub(crate) fn oldest(&self) -> Option<SequenceNumber> {
        lock(&self.0).live.oldest()
    }

    /// Has [`SnapshotRegistry::release`] tell when one of these snapshots goes. False when one is
    /// gone already; none is watched then.
    pub(crate) fn watch(&self, sequences: &[SequenceNumber]) -> bool {
        let mut registry = lock(&self.0);
        let all_live = sequences.iter().all(|&sequence| registry.live.holds(sequence));
        if all_live {
            registry.watched.extend(sequences);
        }
        all_live
    }
}

impl Registry {
    #[cold]
    fn ends_watch(&mut self, sequence: SequenceNumber) -> bool {
        !self.live.holds(sequence) && self.watched.remove(&sequence)
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
            self.core.watched_snapshot_gone();
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
        assert!(registry.watch(&[7]));
        assert!(!registry.release(7), "held once more");
        assert_eq!(registry.list(), [7, 9]);
        assert!(registry.release(7));
        assert_eq!(registry.list(), [9]);
    }

    #[test]
    fn only_the_end_of_a_watched_snapshot_is_told_and_only_once() {
        let registry = SnapshotRegistry::default();
        for sequence in [3, 7, 9, 11] {
            registry.register(|| sequence);
        }
        assert!(!registry.watch(&[7, 8]), "there is no 8");
        assert!(registry.watch(&[7, 9]) && registry.watch(&[9]));
        assert!(!registry.release(3) && registry.release(9), "not the oldest, but watched");
        registry.register(|| 9);
        assert!(!registry.release(9) && !registry.release(11) && registry.release(7));
        assert!(!registry.watch(&[7]));
    }
}
