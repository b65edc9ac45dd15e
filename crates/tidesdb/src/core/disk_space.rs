//! How much space there is on the disk for commits, flushes and compactions, see `flow/disk.rs`.

use std::sync::atomic::Ordering;

use super::Core;
use crate::family::FamilyState;
use crate::flow::disk;

impl Core {
    /// Looks at the disk. `wanted` bytes are to be written to other files than the log.
    pub(crate) fn review_disk(&self, wanted: u64) {
        let Some(disk) = self.env.disk_space() else { return };
        let memory = self.memory.pool.used_bytes();
        let largest = disk::largest_segment_bytes(disk.volume_bytes, false);
        // What is in memory takes a place in tables before its log goes. Until the next look the
        // log takes another segment, and memory as much and something for each key.
        let ahead = memory + 3 * self.env.options.log_segment_bytes.min(largest);
        let short = disk::is_short(disk, ahead + wanted);
        self.flow.disk.set_short(short, short && disk::is_half_used(disk, memory));
        self.storage.log.limit_segments(disk::largest_segment_bytes(disk.volume_bytes, short));
        if short {
            // Commits look at this flag alone. The next review of memory takes it back. ORDERING:
            // relaxed; see `admit`.
            self.flow.held.store(true, Ordering::Relaxed);
        }
    }

    /// Free bytes of the disk, and how many of them flushes and compactions of the family leave
    /// free. `None` when they are not bounded: what is freed next may be worth more than the bound,
    /// and a file system that does not say what is free lets the writes themselves fail.
    pub(crate) fn free_and_kept_bytes(&self, family: &FamilyState) -> Option<(u64, u64)> {
        // ORDERING: relaxed; a late look costs one refused or one allowed piece of work.
        if self.flow.disk.flush_anyway.load(Ordering::Relaxed) {
            return None;
        }
        let volume = self.env.vfs.volume_bytes(&self.env.path).ok();
        let kept = family.options.load().least_free_bytes(volume);
        Some((self.env.vfs.free_bytes(&self.env.path).ok()?, kept))
    }
}
