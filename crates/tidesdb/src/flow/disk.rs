//! Space on the disk that puts leave alone, so that a disk which is full can be freed by deleting.
//!
//! A deletion takes space itself: a log record, later a place in a table, and a new table before an
//! old one goes. So puts are refused while as much is left as that takes; commits that hold
//! deletions only go on, and so does what frees space (`background/rescue.rs`). It is free space
//! and no file: there is nothing to make, to find again after a crash, or to give up, and the
//! figure follows the volume. Looked at when the log begins a segment, so that no commit pays for
//! it.
//!
//! The decision is pure; the rest is atomics.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Volumes below this size are used to the last byte.
const LEAST_VOLUME_BYTES: u64 = 32 << 20;

/// One in so many bytes of a volume is kept free.
const SHARE_OF_VOLUME: u64 = 50;

/// The most bytes that are kept free.
const MOST_BYTES: u64 = 256 << 20;

/// A table must be written anew within the reserve, beside the log and the memtable of deletions.
const TABLES_PER_RESERVE: u64 = 4;

/// Segments of the log while only the reserve is left.
const SEGMENTS_PER_RESERVE: u64 = 8;

/// Smallest segment of the log.
const LEAST_SEGMENT_BYTES: u64 = 64 << 10;

/// Puts are let in again when so large a share of the reserve is free beyond it.
const SLACK_SHARE: u64 = 4;

/// Figures of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskSpace {
    pub volume_bytes: u64,
    pub free_bytes: u64,
}

/// Bytes of a volume that puts leave free.
pub(crate) fn reserve_bytes(volume_bytes: u64) -> u64 {
    match volume_bytes {
        ..LEAST_VOLUME_BYTES => 0,
        bytes => (bytes / SHARE_OF_VOLUME).min(MOST_BYTES),
    }
}

/// The largest table that can be written anew within the reserve.
pub(crate) fn largest_table_bytes(volume_bytes: u64) -> u64 {
    match reserve_bytes(volume_bytes) {
        0 => u64::MAX,
        reserve => reserve / TABLES_PER_RESERVE,
    }
}

/// The most that a log segment may have, which is less while only the reserve is left.
pub(crate) fn largest_segment_bytes(volume_bytes: u64, short: bool) -> u64 {
    let share = if short { SEGMENTS_PER_RESERVE } else { TABLES_PER_RESERVE };
    match reserve_bytes(volume_bytes) {
        0 => u64::MAX,
        reserve => (reserve / share / 4096 * 4096).max(LEAST_SEGMENT_BYTES),
    }
}

/// Whether puts must be refused that would take `wanted` bytes.
pub(crate) fn is_short(disk: DiskSpace, wanted: u64) -> bool {
    let reserve = reserve_bytes(disk.volume_bytes);
    let needed = reserve + reserve / SLACK_SHARE + wanted;
    reserve > 0 && disk.free_bytes < needed
}

/// Whether deletions have used up half of the reserve, beside what `memory_bytes` of memtables take
/// as tables: what they have freed must be collected now.
pub(crate) fn is_half_used(disk: DiskSpace, memory_bytes: u64) -> bool {
    let reserve = reserve_bytes(disk.volume_bytes);
    reserve > 0 && disk.free_bytes < reserve / 2 + memory_bytes
}

/// What is known of the space on the disk.
#[derive(Debug, Default)]
pub(crate) struct DiskFlow {
    /// Only the reserve is left.
    short: AtomicBool,
    /// Deletions were committed since garbage was last collected: doing so may help.
    deleted: AtomicBool,
    /// They have used up half of the reserve.
    half_used: AtomicBool,
    /// Flushes ignore `min_disk_space`: what they write makes room for more than it takes.
    pub flush_anyway: AtomicBool,
    /// From when on, in monotonic nanoseconds, a refused put has garbage collected again.
    pub next_rescue_nanos: AtomicU64,
    /// Held while garbage is collected for the sake of space.
    pub rescue: Mutex<()>,
}

// ORDERING: relaxed throughout: each flag stands alone, and a late look costs one more try.
impl DiskFlow {
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    pub(crate) fn set_short(&self, short: bool, half_used: bool) {
        self.short.store(short, Ordering::Relaxed);
        self.half_used.store(half_used, Ordering::Relaxed);
    }

    /// A deletion was committed. True when garbage should be collected before the next.
    #[inline]
    pub(crate) fn note_deletion(&self) -> bool {
        if !self.deleted.load(Ordering::Relaxed) {
            self.deleted.store(true, Ordering::Relaxed);
        }
        self.half_used.load(Ordering::Relaxed) && self.half_used.swap(false, Ordering::Relaxed)
    }

    /// Whether something was deleted since garbage was last collected for the sake of space.
    pub(crate) fn has_deletions(&self) -> bool {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Garbage is collected from now on: deletions that come later are for the next time.
    pub(crate) fn begin_rescue(&self) {
        self.deleted.store(false, Ordering::Relaxed);
        self.flush_anyway.store(true, Ordering::Relaxed);
    }

    /// Garbage was collected.
    pub(crate) fn end_rescue(&self, next_nanos: u64) {
        self.flush_anyway.store(false, Ordering::Relaxed);
        self.next_rescue_nanos.store(next_nanos, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_leave_a_fiftieth_of_the_volume() {
        assert_eq!(reserve_bytes(31 << 20), 0);
        assert_eq!(reserve_bytes(100 << 20), 2 << 20);
        assert_eq!(reserve_bytes(1 << 40), 256 << 20);
        let disk = |free_bytes| DiskSpace { volume_bytes: 100 << 20, free_bytes };
        assert!(!is_short(disk(6 << 20), 3 << 20));
        assert!(is_short(disk(5 << 20), 3 << 20));
        assert!(!is_half_used(disk(2 << 20), 1 << 20) && is_half_used(disk(2 << 20), 2 << 20));
        let tiny = DiskSpace { volume_bytes: 1 << 20, free_bytes: 0 };
        assert!(!is_short(tiny, 1 << 20) && !is_half_used(tiny, 1));
        assert_eq!(largest_table_bytes(tiny.volume_bytes), u64::MAX);
    }
}
