//! How much space there is on the disk for commits, flushes and compactions, see `flow/disk.rs`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::error::{Error, Result};

use super::Core;
use crate::family::FamilyState;
use crate::flow::disk;

impl Core {
    /// Looks at the disk. `wanted` bytes are to be written to other files than the log.
    pub(crate) fn review_disk(&self, wanted: u64) {
        let Some(disk) = self.env.disk_space() else { return };
        let memory = self.memory.pool.used_bytes() + self.manifest_bytes();
        let ahead = self.bytes_ahead(disk.volume_bytes, memory);
        let short = disk::is_short(disk, ahead + wanted);
        self.flow.disk.set_short(short, short && disk::is_half_used(disk, memory));
        self.storage.log.limit_segments(disk::largest_segment_bytes(disk.volume_bytes, short));
        if short {
            // Commits look at this flag alone. The next review of memory takes it back. ORDERING:
            // relaxed; see `admit`.
            self.flow.held.store(true, Ordering::Relaxed);
        }
    }

    /// What the log and what is in memory, so many bytes with the manifest, will take of the disk.
    /// Memory takes a place in tables before its log goes, and another manifest as much as this
    /// one. Until the next look the log takes another segment, and memory as much and something for
    /// each key.
    fn bytes_ahead(&self, volume_bytes: u64, memory: u64) -> u64 {
        let largest = disk::largest_segment_bytes(volume_bytes, false);
        memory + 3 * self.env.options.log_segment_bytes.min(largest)
    }

    /// Length of the manifest, as of the last time that nothing was written to it.
    fn manifest_bytes(&self) -> u64 {
        // ORDERING: relaxed; an estimate.
        if let Ok(catalog) = self.storage.catalog.try_lock() {
            self.flow.disk.manifest_bytes.store(catalog.bytes(), Ordering::Relaxed);
        }
        self.flow.disk.manifest_bytes.load(Ordering::Relaxed)
    }

    /// Bounds the memtables of families that are about to be used by what the volume has.
    pub(crate) fn limit_memtables(&self, families: &[Arc<FamilyState>]) {
        let Ok(volume) = self.env.vfs.volume_bytes(&self.env.path) else { return };
        for family in families {
            family.options.limit_freeze_bytes(disk::largest_memtable_bytes(volume));
        }
    }

    /// Bytes that a compaction of the family may write now; `None` when the file system does not
    /// say what is free. Without `min_disk_space` it leaves what memory will take: a flush that
    /// finds no space keeps its log, and then nothing is freed any more. The bound also holds while
    /// a full disk is freed, when that of flushes does not.
    pub(crate) fn room_for_compactions(&self, family: &FamilyState) -> Option<u64> {
        let free = self.env.vfs.free_bytes(&self.env.path).ok()?;
        let kept = self.kept_bytes(family);
        let memory = self.memory.pool.used_bytes() + self.manifest_bytes();
        let volume = self.env.vfs.volume_bytes(&self.env.path).unwrap_or(0);
        Some(free.saturating_sub(kept.max(disk::needed_bytes(volume, memory))))
    }

    /// Bytes that flushes and compactions of the family leave free.
    fn kept_bytes(&self, family: &FamilyState) -> u64 {
        let volume = self.env.vfs.volume_bytes(&self.env.path).ok();
        family.options.load().least_free_bytes(volume)
    }

    /// Free bytes of the disk, and how many of them flushes of the family leave free. `None` when
    /// they are not bounded: what is freed next may be worth more than the bound, and a file system
    /// that does not say what is free lets the writes themselves fail.
    pub(crate) fn free_and_kept_bytes(&self, family: &FamilyState) -> Option<(u64, u64)> {
        // ORDERING: relaxed; a late look costs one refused or one allowed piece of work.
        if self.flow.disk.flush_anyway.load(Ordering::Relaxed) {
            return None;
        }
        Some((self.env.vfs.free_bytes(&self.env.path).ok()?, self.kept_bytes(family)))
    }

    /// How much space a copy in `dir` may take. `None` when it is not bounded: it lies on another
    /// volume than the database, or the file system says nothing of its space. Volumes of the same
    /// size count as one: parts of one volume may have other numbers and the same free space.
    pub(crate) fn room_for_copy<'c>(&'c self, dir: &'c Path) -> Option<RoomForCopy<'c>> {
        let volume_bytes = self.env.vfs.volume_bytes(&self.env.path).ok()?;
        if self.env.vfs.volume_bytes(dir).ok()? != volume_bytes {
            return None;
        }
        let kept = self.families.all().iter().map(|family| self.kept_bytes(family)).max();
        Some(RoomForCopy { core: self, dir, volume_bytes, kept_for_flushes: kept.unwrap_or(0) })
    }
}

/// How much space a copy may take on the volume of its database, whose puts and flushes go on.
pub(crate) struct RoomForCopy<'c> {
    core: &'c Core,
    dir: &'c Path,
    volume_bytes: u64,
    /// The most that flushes of a family leave free.
    kept_for_flushes: u64,
}

impl RoomForCopy<'_> {
    /// Makes sure that so many bytes more may be taken.
    ///
    /// # Errors
    /// [`Error::Io`] of kind `Full`.
    pub(crate) fn check(&self, wanted: u64) -> Result<()> {
        let core = self.core;
        let Ok(free) = core.env.vfs.free_bytes(self.dir) else { return Ok(()) };
        let memory = core.memory.pool.used_bytes() + core.manifest_bytes();
        let ahead = core.bytes_ahead(self.volume_bytes, memory);
        let for_puts = disk::needed_for_puts(self.volume_bytes, ahead);
        let kept = for_puts.max(self.kept_for_flushes + ahead);
        if free >= kept.saturating_add(wanted) {
            return Ok(());
        }
        let what = format!(
            "{free} bytes are free, the database needs {kept} of them beside {wanted} for the copy"
        );
        let full = std::io::Error::new(std::io::ErrorKind::StorageFull, what);
        Err(Error::io("reserve space for a copy in", self.dir, full))
    }
}
