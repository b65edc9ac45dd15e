//! Space on the disk that puts leave alone, so that a disk which is full can be freed by deleting.
//!
//! A deletion takes space itself: a log record, later a place in a table, and a new table before an
//! old one goes. So puts are refused while as much is left as that takes; commits that hold
//! deletions only go on, and so does what frees space (`background/full_disk.rs`). It is free space
//! and no file: there is nothing to make, to find again after a crash, or to give up, and the
//! value follows the volume. Looked at once for each segment of the log, so that hardly a commit
//! pays for it.
//!
//! The decision is pure; the rest is atomics.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Error;
use tidesdb_base::limits::MIN_LOG_SEGMENT_BYTES;
use tidesdb_lockfree::sync::lock;

/// Volumes below this size are used to the last byte.
const LEAST_VOLUME_BYTES: u64 = 32 << 20;

/// One in so many bytes of a volume is kept free.
const SHARE_OF_VOLUME: u64 = 50;

/// The most bytes that are kept free.
const MOST_BYTES: u64 = 256 << 20;

/// A table must be written anew within the reserve, beside the log and the memtable of deletions.
const TABLES_PER_RESERVE: u64 = 4;

/// A memtable takes one in so many bytes of a volume at most. Smaller ones make too many small
/// value logs.
const MEMTABLE_SHARE: u64 = 25;

/// Segments of the log while only the reserve is left.
const SEGMENTS_PER_RESERVE: u64 = 8;

/// Puts are let in again when so large a share of the reserve is free beyond it.
const SLACK_SHARE: u64 = 4;

/// What is known of a disk.
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

/// The most that a memtable should take: as a table, and until its log goes, it takes as much of
/// the disk again. Where nothing but what is in memory is left to be written, that must fit.
pub(crate) fn largest_memtable_bytes(volume_bytes: u64) -> u64 {
    match reserve_bytes(volume_bytes) {
        0 => u64::MAX,
        _ => volume_bytes / MEMTABLE_SHARE,
    }
}

/// The most that a log segment may have, which is less while only the reserve is left.
pub(crate) fn largest_segment_bytes(volume_bytes: u64, short: bool) -> u64 {
    let share = if short { SEGMENTS_PER_RESERVE } else { TABLES_PER_RESERVE };
    match reserve_bytes(volume_bytes) {
        0 => u64::MAX,
        reserve => (reserve / share / 4096 * 4096).max(MIN_LOG_SEGMENT_BYTES),
    }
}

/// Whether puts must be refused that would take `wanted` bytes.
pub(crate) fn is_short(disk: DiskSpace, wanted: u64) -> bool {
    disk.free_bytes < needed_for_puts(disk.volume_bytes, wanted)
}

/// Free bytes that are needed for puts which would take `wanted` bytes.
pub(crate) fn needed_for_puts(volume_bytes: u64, wanted: u64) -> u64 {
    match reserve_bytes(volume_bytes) {
        0 => 0,
        reserve => reserve + reserve / SLACK_SHARE + wanted,
    }
}

/// Free bytes that are needed when `memory_bytes` of memtables are still to become tables: as much
/// again, and half of the reserve for deletions and for what collects what they have freed.
pub(crate) fn needed_bytes(volume_bytes: u64, memory_bytes: u64) -> u64 {
    match reserve_bytes(volume_bytes) {
        0 => 0,
        reserve => reserve / 2 + memory_bytes,
    }
}

/// Whether deletions have used up half of the reserve: what they have freed must be collected now.
pub(crate) fn is_half_used(disk: DiskSpace, memory_bytes: u64) -> bool {
    disk.free_bytes < needed_bytes(disk.volume_bytes, memory_bytes)
}

/// What is known of the space on the disk.
#[derive(Debug, Default)]
pub(crate) struct DiskFlow {
    /// Only the reserve is left.
    short: AtomicBool,
    /// Deletions were committed since garbage was last collected: doing so may help.
    deleted: AtomicBool,
    kept: Mutex<Kept>,
    /// Deletions have used up half of the reserve.
    half_used: AtomicBool,
    /// Flushes ignore `min_disk_space`: what they write makes room for more than it takes.
    pub flush_anyway: AtomicBool,
    /// From when on, in monotonic nanoseconds, a refused put has garbage collected again.
    pub next_reclaim_nanos: AtomicU64,
    /// Length of the manifest when that was last looked at: the first edit of an opening, and one
    /// after a failure, write another beside it.
    pub manifest_bytes: AtomicU64,
    /// Held while garbage is collected for the sake of space.
    pub reclaim: Mutex<()>,
    promises: Mutex<Promises>,
}

/// What snapshots kept when garbage was last collected.
#[derive(Debug, Default)]
struct Kept {
    /// Deletions through here were looked at.
    deleted_through: SequenceNumber,
    /// The snapshots that were live then and do not see all of these.
    by: Vec<SequenceNumber>,
}

/// Space that steps of compactions have been promised.
#[derive(Debug, Default)]
struct Promises {
    /// Bytes that steps under way will write in all. What they have written counts until they end,
    /// as space that is not free as well: too much rather than too little.
    bytes: u64,
    /// Families of which a step was refused for which there might have been space without these.
    refused: BTreeSet<u32>,
    /// Those of them since whose refusal one of these has ended.
    may_fit: BTreeSet<u32>,
}

/// Space for one step of a compaction, which counts as taken while this lives.
#[derive(Debug)]
pub(crate) struct PromisedSpace<'d> {
    disk: &'d DiskFlow,
    bytes: u64,
}

impl Drop for PromisedSpace<'_> {
    fn drop(&mut self) {
        let mut promises = lock(&self.disk.promises);
        promises.bytes -= self.bytes;
        let mut refused = std::mem::take(&mut promises.refused);
        promises.may_fit.append(&mut refused);
    }
}

/// There is no space for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooShort {
    /// Bytes that compactions may write, and how many of them are promised to others.
    pub room: u64,
    pub promised: u64,
}

impl TooShort {
    /// As an error of a compaction that needs so many bytes.
    pub(crate) fn error(self, path: &Path, needed: u64) -> Error {
        let Self { room, promised } = self;
        let mut what =
            format!("{room} bytes are free beside min_disk_space, a compaction needs {needed}");
        if promised > 0 {
            what.push_str(&format!(" and others {promised}"));
        }
        let full = std::io::Error::new(std::io::ErrorKind::StorageFull, what);
        Error::io("reserve space for tables", path, full)
    }
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

    /// A deletion was committed, which a put that finds no space has collected.
    #[inline]
    pub(crate) fn note_deletion(&self) {
        if !self.deleted.load(Ordering::Relaxed) {
            self.deleted.store(true, Ordering::Relaxed);
        }
    }

    /// True when garbage should be collected before the next deletion. Once only.
    #[inline]
    pub(crate) fn take_half_used(&self) -> bool {
        self.half_used.load(Ordering::Relaxed) && self.half_used.swap(false, Ordering::Relaxed)
    }

    /// Whether something was deleted that is not collected: no collection for the sake of space has
    /// looked at it, or a snapshot kept it then that is none of `snapshots`, those that are live,
    /// any more.
    pub(crate) fn has_deletions(&self, snapshots: &[SequenceNumber]) -> bool {
        let is_gone = |snapshot: &SequenceNumber| snapshots.binary_search(snapshot).is_err();
        self.deleted.load(Ordering::Relaxed) || lock(&self.kept).by.iter().any(is_gone)
    }

    /// Promises a step of a compaction of the family so many bytes, if `room` has them beside what
    /// is promised. The room is looked at meanwhile: a step that ends at the same time counts as
    /// not ended.
    ///
    /// # Errors
    /// [`TooShort`].
    pub(crate) fn promise(
        &self,
        family: u32,
        bytes: u64,
        room: impl FnOnce() -> u64,
    ) -> Result<PromisedSpace<'_>, TooShort> {
        let mut promises = lock(&self.promises);
        let (room, promised) = (room(), promises.bytes);
        if bytes > room.saturating_sub(promised) {
            if promised > 0 {
                promises.refused.insert(family);
            }
            return Err(TooShort { room, promised });
        }
        promises.bytes += bytes;
        Ok(PromisedSpace { disk: self, bytes })
    }

    /// The families of which a step was refused for the sake of others, if one of these has ended
    /// since: compactions should be looked for in them. Once only.
    pub(crate) fn take_may_fit(&self) -> BTreeSet<u32> {
        std::mem::take(&mut lock(&self.promises).may_fit)
    }

    /// Garbage is collected from now on: deletions that come later, and what snapshots keep, are
    /// for the next time. `published` and `snapshots` say where the log is and which are live.
    pub(crate) fn begin_reclaim(
        &self,
        published: impl FnOnce() -> SequenceNumber,
        snapshots: impl FnOnce() -> Vec<SequenceNumber>,
    ) {
        let mut kept = lock(&self.kept);
        // One after the other: a deletion that was noted is published, and a snapshot that comes
        // after the list sees it. Those keep nothing, however many come and go.
        if self.deleted.swap(false, Ordering::Relaxed) {
            kept.deleted_through = published();
        }
        kept.by = snapshots();
        let through = kept.deleted_through;
        kept.by.retain(|&snapshot| snapshot < through);
        self.flush_anyway.store(true, Ordering::Relaxed);
    }

    /// What was deleted is not all collected: a pause or a full disk has ended that early.
    pub(crate) fn leave_deletions(&self) {
        self.deleted.store(true, Ordering::Relaxed);
    }

    /// Garbage was collected. What that has not freed is not tried again for each deletion: the
    /// next segment of the log is soon enough.
    pub(crate) fn end_reclaim(&self, next_nanos: u64) {
        self.flush_anyway.store(false, Ordering::Relaxed);
        self.half_used.store(false, Ordering::Relaxed);
        self.next_reclaim_nanos.store(next_nanos, Ordering::Relaxed);
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

    /// One that went while an older one stayed was overlooked.
    #[test]
    fn what_a_snapshot_kept_is_looked_at_when_that_has_gone() {
        let disk = DiskFlow::default();
        disk.note_deletion();
        assert!(disk.has_deletions(&[]));
        disk.begin_reclaim(|| 100, || vec![10, 50, 100, 120]);
        assert!(!disk.has_deletions(&[10, 50]), "newer ones see that it is deleted");
        assert!(disk.has_deletions(&[10]) && disk.has_deletions(&[50, 60]));
        disk.begin_reclaim(|| 200, || vec![10, 150]);
        assert!(!disk.has_deletions(&[10]), "nothing was deleted since");
        disk.leave_deletions();
        assert!(disk.has_deletions(&[10]));
        disk.begin_reclaim(|| 200, Vec::new);
        assert!(!disk.has_deletions(&[]));
    }

    /// All families were looked at, however many had been refused nothing.
    #[test]
    fn what_is_promised_is_promised_once() {
        let disk = DiskFlow::default();
        let (room, none) = (|| 100, BTreeSet::new());
        let first = disk.promise(1, 60, room).unwrap();
        assert_eq!(disk.promise(2, 41, room).unwrap_err(), TooShort { room: 100, promised: 60 });
        assert_eq!(disk.promise(7, 50, room).unwrap_err(), TooShort { room: 100, promised: 60 });
        assert_eq!(disk.take_may_fit(), none, "nothing has ended since");
        let second = disk.promise(3, 40, room).unwrap();
        drop(second);
        assert_eq!(disk.promise(5, 50, room).unwrap_err(), TooShort { room: 100, promised: 60 });
        assert_eq!(disk.take_may_fit(), BTreeSet::from([2, 7]));
        drop(first);
        assert_eq!(disk.take_may_fit(), BTreeSet::from([5]), "the others once only");
        assert_eq!(disk.promise(1, 101, room).unwrap_err(), TooShort { room: 100, promised: 0 });
        drop(disk.promise(1, 100, room).unwrap());
        assert_eq!(disk.take_may_fit(), none, "nothing would help");
    }
}
