//! The registry of snapshots: what readers may still see.

use tidesdb_lockfree::snapshot_registry::{ReadPoint, Registration};
use tidesdb_sys::sched::Lane;
use tidesdb_sys::sync_points::sync_point;

use super::Core;

impl Core {
    /// Registers a snapshot of what is published.
    #[inline]
    pub(crate) fn register_snapshot(&self) -> Registration {
        sync_point("snapshot");
        self.isolation.snapshots.register(|| self.read_point())
    }

    /// What a snapshot that is taken now sees.
    #[inline]
    pub(crate) fn read_point(&self) -> ReadPoint {
        ReadPoint { sequence: self.storage.log.published(), now: self.env.clock.unix_seconds() }
    }

    /// Gives up a registered snapshot.
    #[inline]
    pub(crate) fn release_snapshot(&self, registration: Registration) {
        if self.isolation.snapshots.release(registration) {
            self.watched_snapshot_gone();
        }
    }

    /// The Unix second by which what has expired has done so for all readers, now or later.
    pub(crate) fn expired_for_all(&self) -> u64 {
        // The clock first: it does not go back, so a snapshot that is registered later has no
        // earlier time.
        let now = self.env.clock.unix_seconds();
        self.isolation.snapshots.oldest_time().map_or(now, |oldest| oldest.min(now))
    }

    /// A snapshot went that kept a table from being removed, or versions from being dropped. The
    /// reader whose it was does not look through all families itself.
    #[cold]
    fn watched_snapshot_gone(&self) {
        if !self.health.is_closed() {
            self.submit(Lane::Compaction, |core| {
                core.families.all().iter().for_each(|family| core.schedule_compaction(family));
            });
        }
    }
}
