//! Which segments are kept: those that recovery would read, and those that wait to be used.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_lockfree::sync::lock;

use super::Wal;
use super::segments::SegmentFiles;

impl Wal {
    /// Creates and warms the segment that will be needed next, unless a repair will. In the
    /// background.
    pub(crate) fn prepare_next(&self) {
        // A failure is met again, and reported, by the commit that needs the segment.
        let prepare = |()| SegmentFiles::prepare(&self.files, &self.config);
        let _ = self.condition.check().and_then(prepare);
    }

    /// Makes segments no larger than this from now on, and prepares none if that is less than
    /// usual.
    pub(crate) fn limit_segments(&self, bytes: u64) {
        lock(&self.files).limit(bytes);
    }

    /// True for one commit into each segment, told by its sequence number: some of the segment is
    /// used, and another should be prepared.
    #[inline]
    pub(crate) fn wants_preparation(&self, sequence: SequenceNumber) -> bool {
        // ORDERING: relaxed; a hint, and preparing twice does nothing.
        sequence >= self.prepare_from.load(Ordering::Relaxed)
            && self.prepare_from.swap(u64::MAX, Ordering::Relaxed) != u64::MAX
    }

    /// Number and base of the oldest segment with records behind `position`, which recovery would
    /// need if everything up to `position` were in tables.
    pub(crate) fn first_needed_segment(&self, position: u64) -> (u64, u64) {
        let files = lock(&self.files);
        files.first_needed(position).unwrap_or_else(|| {
            let header = self.active.load().header;
            (header.number, header.base)
        })
    }

    /// Gives up the segments whose records all end at or before `position`. Only after the
    /// manifest, on disk, no longer needs them.
    pub(crate) fn retire_before(&self, position: u64) {
        debug_assert!(position <= self.published(), "records that no table has yet are let go");
        let surplus = lock(&self.files).retire_before(&self.config, position);
        for path in surplus {
            // A file that stays behind is dead by the manifest and removed at the next open.
            let _ = self.config.vfs.remove(&path);
        }
    }

    /// As [`Wal::retire_before`] of a log that failed. No file is used again: what a failed sync
    /// left in it, and whether the disk is sound there, is not known.
    pub(crate) fn remove_before(&self, position: u64) {
        let dead = lock(&self.files).take_before(position);
        dead.iter().for_each(|path| drop(self.config.vfs.remove(path)));
    }

    /// Gives the disk back what is kept for writers, when there are none.
    pub(crate) fn remove_free_segments(&self) {
        let free = lock(&self.files).take_all_free();
        for path in free {
            // A file that stays behind is dead by the manifest and removed at the next open.
            let _ = self.config.vfs.remove(&path);
        }
    }

    /// Bytes of log that recovery would read.
    pub(crate) fn retained_bytes(&self) -> u64 {
        let oldest = lock(&self.files).oldest_base();
        let oldest = oldest.unwrap_or_else(|| self.active.load().header.base);
        // After a failure the segment that goes on begins behind what is published.
        self.published().saturating_sub(oldest)
    }

    /// Bytes of the disk that the log takes: files of full segments, in which space may have been
    /// left empty by a record that had no room in it, and what is used of the active one.
    pub(crate) fn retained_file_bytes(&self) -> u64 {
        let files = lock(&self.files);
        let base = self.active.load().header.base;
        files.retained_file_bytes() + self.published().saturating_sub(base)
    }

    /// Position of the first of the newest records for which the log takes no more than so many
    /// bytes of the disk; 0 when it takes no more for all of them.
    pub(crate) fn newest_from(&self, bytes: u64) -> u64 {
        let files = lock(&self.files);
        let (base, published) = (self.active.load().header.base, self.published());
        match bytes.checked_sub(published.saturating_sub(base)) {
            Some(rest) => files.newest_from(rest).unwrap_or(0),
            None => published - bytes,
        }
    }

    /// Removes every segment file; the tables hold everything.
    pub(crate) fn remove_all(&self) {
        let paths = lock(&self.files).take_all_paths();
        let active = self.active.load();
        for path in paths.iter().map(PathBuf::as_path).chain([active.path.as_path()]) {
            let _ = self.config.vfs.remove(path);
        }
    }
}
