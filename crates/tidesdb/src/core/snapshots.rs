//! The registry of snapshots: what readers may still see.

use std::sync::atomic::Ordering;

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

    /// Has compactions begin of what snapshots kept that have gone. Families that wait for none are
    /// not looked at.
    fn look_for_released(&self) {
        self.work.jobs.looks_for_released.store(false, Ordering::SeqCst);
        for family in self.families.all() {
            if self.health.is_closed() {
                return;
            }
            if family.compactions.take_awaits_snapshots() {
                self.schedule_compaction(&family);
            }
        }
    }

    /// A snapshot went that kept a table from being removed, or versions from being dropped. The
    /// reader whose it was does not look through all families itself.
    #[cold]
    fn watched_snapshot_gone(&self) {
        if !self.health.is_closed() {
            // One look is for all snapshots that go before it. It comes before compactions that
            // wait, and in a pause of one that runs.
            // ORDERING: SeqCst; the mark goes before the look, which is to see the end of each
            // snapshot that has found the mark.
            if !self.work.jobs.looks_for_released.swap(true, Ordering::SeqCst) {
                let look = self.job(|core| core.look_for_released());
                self.env.scheduler.submit_sized(Lane::Compaction, 0, look);
            }
        }
    }
}
