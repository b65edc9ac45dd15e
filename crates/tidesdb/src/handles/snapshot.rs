//! Snapshots as users hold them: a read point that is registered until the last handle of it is
//! gone.

use std::sync::Arc;

use tidesdb_lockfree::snapshot_registry::{ReadPoint, Registration};

use crate::core::Core;

#[derive(Debug)]
struct Registered {
    core: Arc<Core>,
    registration: Registration,
}

impl Drop for Registered {
    fn drop(&mut self) {
        // In a forked child the registry may be locked for good, and no compaction asks it.
        if self.core.health.is_opening_process() {
            self.core.release_snapshot(self.registration);
        }
    }
}

/// A fixed view of the whole database: what was committed when it was taken, in every family.
///
/// Values that were there and had not expired when it was taken stay visible in it, whatever time
/// passes. It costs a few dozen bytes and holds no lock; but versions that it sees, and all values
/// that have expired since, are kept on disk until it is dropped. Clones share one registration.
///
/// ```
/// # let directory = tempfile::tempdir()?;
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
        let registration = core.register_snapshot();
        Self(Arc::new(Registered { core: Arc::clone(core), registration }))
    }

    /// A snapshot at a read point that is registered already, and stays so during the call.
    pub(crate) fn again(core: &Arc<Core>, registration: Registration) -> Self {
        let registration = core.isolation.snapshots.register_again(registration);
        Self(Arc::new(Registered { core: Arc::clone(core), registration }))
    }

    pub(crate) fn read_point(&self) -> ReadPoint {
        self.0.registration.read_point()
    }

    /// Everything committed up to this sequence number is visible in the snapshot.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.0.registration.sequence
    }

    pub(crate) fn belongs_to(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(&self.0.core, core)
    }
}
