//! The segment that commits go to, and how another takes its place.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::error::Result;
use tidesdb_files::wal::{RECORDS_OFFSET, SegmentHeader};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::vfs::LogSegment;

use super::Wal;
use super::segments::{Retained, SegmentFiles};

/// The next segment is prepared once one part in so many of the active one is used. To create a
/// file and make its pages present takes a processor for milliseconds, which the first commits of a
/// process, and a process that commits little, do better without.
const UNPREPARED_PART: u64 = 8;

/// The segment that commits go to.
#[derive(Debug)]
pub(super) struct ActiveSegment {
    pub header: SegmentHeader,
    /// Position at which the segment's space ends.
    pub limit: u64,
    pub path: PathBuf,
    pub io: Arc<dyn LogSegment>,
}

impl ActiveSegment {
    pub(super) const fn offset_of(&self, position: u64) -> u64 {
        RECORDS_OFFSET + (position - self.header.base)
    }

    /// Position from which on the next segment should be prepared.
    pub(super) const fn prepare_from(&self) -> u64 {
        self.header.base + (self.limit - self.header.base) / UNPREPARED_PART
    }
}

/// Stands in for a segment where nothing may be written.
#[derive(Debug)]
pub(super) struct NoSegment;

impl LogSegment for NoSegment {
    fn capacity(&self) -> u64 {
        0
    }

    fn write(&self, _at: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self, _upto: u64) -> io::Result<()> {
        Ok(())
    }

    fn warm(&self, _from: u64, _to: u64) {}

    fn zero_fill(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

/// Where a log stands that has no segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoSegmentAt {
    /// Stands for its number; an edit of the manifest that names it says that no log is needed.
    pub number: u64,
    /// Position behind all that was recovered.
    pub position: u64,
    /// How far what was recovered is on disk.
    pub synced: u64,
}

impl Wal {
    /// File of the segment that commits go to.
    pub(crate) fn active_path(&self) -> PathBuf {
        self.active.load().path.clone()
    }

    /// Number of the segment that commits go to.
    pub(crate) fn active_segment(&self) -> u64 {
        self.active.load().header.number
    }

    pub(super) fn next_segment(&self, full: u64, needed: u64) -> Result<()> {
        self.close_surplus()?;
        let mut files = lock(&self.files);
        self.condition.check()?;
        if self.active.load().header.number != full {
            return Ok(());
        }
        files.ensure_prepared(&self.config, needed)?;
        let closed = self.gate.close();
        // A write may have failed while those inside were waited for.
        self.condition.check()?;
        let next = self.begin_segment(&mut files, self.sequencer.published(), needed)?;
        self.switch(&mut files, next);
        drop(closed);
        Ok(())
    }

    /// Starts another segment, whose records begin at `position`.
    pub(super) fn begin_segment(
        &self,
        files: &mut SegmentFiles,
        position: u64,
        needed: u64,
    ) -> Result<ActiveSegment> {
        let header = SegmentHeader {
            number: 0,
            base: position,
            previous_end: position,
            synced: self.group.synced(),
        };
        files.activate(&self.config, header, needed)
    }

    /// Sends commits to another segment. The gate is closed.
    pub(super) fn switch(&self, files: &mut SegmentFiles, next: ActiveSegment) {
        let (old, end) = (self.active.load_full(), self.sequencer.published());
        if old.io.capacity() > 0 {
            let unsynced = self.group.synced() < end;
            files.retain(Retained {
                number: old.header.number,
                base: old.header.base,
                end,
                path: old.path.clone(),
                file_bytes: old.io.capacity(),
                unsynced: unsynced.then(|| Arc::clone(&old.io)),
            });
            files.leave_full(&old.io);
        }
        debug_assert!(next.header.base >= end, "the log goes back");
        let (position, prepare_from) = (next.header.base, next.prepare_from());
        self.active.store(Arc::new(next));
        // ORDERING: relaxed; a commit that sees the old value asks for nothing, or once too often.
        self.prepare_from.store(prepare_from, Ordering::Relaxed);
        // No commit is inside the gate, and none outside of it waits for a range of its own.
        self.sequencer.reset(position);
    }
}
