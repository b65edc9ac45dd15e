//! Work that found no space on the disk is tried again when there is some, and so are files that
//! the system could not read.
//!
//! Where no one writes, nothing else would wake it: what another program freed would be of no use,
//! and the garbage that a compaction was to collect would stay.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidesdb_sys::sched::Lane;

use crate::core::Core;
use crate::family::FamilyState;

/// How long compactions do without a file that the system could not read.
const BETWEEN_READS: Duration = Duration::from_secs(600);

/// How long until the disk is looked at again.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

/// After so many looks the work is tried anyway: not every limit of space, a quota for one, shows
/// in what the volume says.
const MOST_LOOKS: u32 = 30;

impl Core {
    /// Tries flushes and compactions that are due again when more space is free than now.
    pub(super) fn retry_when_there_is_space(&self) {
        // ORDERING: pairs with the store in `look_for_space`, which comes before the retry.
        if self.work.jobs.awaits_space.swap(true, Ordering::AcqRel) {
            return;
        }
        let free = self.env.vfs.free_bytes(&self.env.path).unwrap_or(0);
        self.look_for_space_later(free, MOST_LOOKS);
    }

    fn look_for_space_later(&self, free: u64, looks: u32) {
        let core = self.this.clone();
        let look = move || {
            if let Some(core) = core.upgrade()
                && !core.health.is_closed()
            {
                core.look_for_space(free, looks);
            }
        };
        self.env.scheduler.submit_after(Lane::Housekeeping, BETWEEN_LOOKS, Box::new(look));
    }

    fn look_for_space(&self, free: u64, looks: u32) {
        let now = self.env.vfs.free_bytes(&self.env.path).unwrap_or(u64::MAX);
        if now <= free && looks > 1 {
            return self.look_for_space_later(free, looks - 1);
        }
        // ORDERING: release, so that a failure of what is queued now waits anew.
        self.work.jobs.awaits_space.store(false, Ordering::Release);
        for family in self.families.all() {
            self.schedule_flush(&family);
            self.schedule_compaction(&family);
        }
    }

    /// Has compactions try after a while to read files of the family that the system could not
    /// read, if there are any.
    pub(super) fn read_failed_files_later(&self, family: &FamilyState) {
        // ORDERING: pairs with the store below, which comes before the retry.
        if !family.current_version().has_failed_reads()
            || self.work.jobs.awaits_reads.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let core = self.this.clone();
        let again = move || {
            let Some(core) = core.upgrade().filter(|core| !core.health.is_closed()) else { return };
            // ORDERING: release, so that a failure of what is queued now waits anew.
            core.work.jobs.awaits_reads.store(false, Ordering::Release);
            for family in core.families.all() {
                family.current_version().forget_failed_reads();
                core.schedule_compaction(&family);
            }
        };
        self.env.scheduler.submit_after(Lane::Housekeeping, BETWEEN_READS, Box::new(again));
    }
}
