//! Making published commits durable; commits that wait together share one sync.
//!
//! The leader syncs through the published position (`GroupSync` of the lockfree crate), so that
//! every commit published before the sync started is covered. A hole in the log is never passed by
//! the published position, hence never by a sync mark.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::wal::SYNC_MARK_OFFSET;
use tidesdb_files::wal::segment::encode_sync_mark;
use tidesdb_lockfree::sync::lock;

use super::state::Fault;
use super::{Acknowledge, Retained, Wal};

/// Full segments that are not known to be on disk keep their files open. Beyond so many the oldest
/// are synced in the background.
const USUALLY_OPEN: usize = 32;

/// Beyond so many open segments the writer that needs another one syncs the oldest itself.
const MOST_OPEN: usize = 48;

/// Times a leader lets other writers run before it syncs, as long as each brings new commits.
const GATHERING_YIELDS: usize = 4;

impl Wal {
    /// Returns once everything up to `sequence` survives a power cut.
    ///
    /// # Errors
    /// The failure of this sync or of an earlier one. No commit is let in then until the log was
    /// repaired. [`Error::Closed`] when the log is sealed.
    pub(crate) fn sync_through(&self, sequence: SequenceNumber) -> Result<()> {
        self.group.sync_through(
            sequence,
            || {
                self.condition.check_sync()?;
                // What lies behind a hole is never published, and no sync would ever reach it.
                let visible = self.acknowledged_through(Acknowledge::Visible) >= sequence;
                if visible { Ok(()) } else { Err(self.lost()) }
            },
            || {
                self.gather();
                self.sync_published()
            },
        )
    }

    /// Syncs a sealed log as far as everything is published, if it has not failed: no other thread
    /// may write to it or sync it any more.
    ///
    /// # Errors
    /// The failure of the sync or an earlier one.
    pub(crate) fn sync_sealed(&self) -> Result<()> {
        if let Some(cause) = self.failure() {
            return Err(cause);
        }
        self.group.advance(self.sync_published()?);
        Ok(())
    }

    /// As [`Wal::sync_through`] for a commit of the caller, and counts it as one that waited.
    ///
    /// # Errors
    /// As [`Wal::sync_through`].
    pub(crate) fn sync_commit(&self, sequence: SequenceNumber) -> Result<()> {
        // ORDERING: a statistic.
        self.counters.synced_commits.fetch_add(1, Ordering::Relaxed);
        self.sync_through(sequence)
    }

    /// Lets writers that are about to commit join this sync.
    fn gather(&self) {
        let mut seen = self.published();
        for _ in 0..GATHERING_YIELDS {
            std::thread::yield_now();
            let now = self.published();
            if now == seen {
                break;
            }
            seen = now;
        }
    }

    /// Syncs everything published, and returns how far that is.
    pub(super) fn sync_published(&self) -> Result<SequenceNumber> {
        let (target, earlier, active) = {
            // Segments change only with this lock held, so the three belong together.
            let files = lock(&self.files);
            let published = self.acknowledged_through(Acknowledge::Visible);
            (published, files.unsynced(), self.active.load_full())
        };
        let started = self.config.clock.monotonic_nanos();
        let outcome = self.sync_names().and_then(|()| self.sync_earlier(&earlier)).and_then(|()| {
            let upto = active.offset_of(target);
            active.io.sync(upto).map_err(|e| Error::io("sync", &active.path, e))
        });
        let nanos = self.config.clock.monotonic_nanos().saturating_sub(started);
        self.counters.sync_times.record(nanos);
        // ORDERING: a statistic.
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        if let Err(cause) = outcome {
            self.condition.fail(Fault::Sync, cause.clone());
            return Err(cause);
        }
        let mark = encode_sync_mark(active.header.number, target);
        // The file may be in use under another number by now. With the lock held it stays what it
        // is (I-304).
        let files = lock(&self.files);
        if self.active.load().header.number == active.header.number {
            // The mark only sharpens the diagnosis of later damage.
            let _ = active.io.write(SYNC_MARK_OFFSET, &mark);
        }
        drop(files);
        Ok(target)
    }

    /// Makes the names of all segments created so far durable. Comes before a commit is promised
    /// to be on disk, and before the manifest names a segment.
    ///
    /// # Errors
    /// [`Error::Io`] when the directory can't be synced.
    pub(crate) fn sync_names(&self) -> Result<()> {
        let created = lock(&self.files).created;
        // ORDERING: acquire pairs with the release below; a stale value costs one more sync.
        if self.named.load(Ordering::Acquire) >= created {
            return Ok(());
        }
        self.sync_directory()
    }

    /// Makes all names in the directory durable: those of segments need no other sync then.
    ///
    /// # Errors
    /// As [`Wal::sync_names`].
    pub(crate) fn sync_directory(&self) -> Result<()> {
        let created = lock(&self.files).created;
        let dir = &self.config.dir;
        self.config.vfs.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))?;
        // ORDERING: release; a thread that skips the sync relies on this one having been done.
        self.named.fetch_max(created, Ordering::AcqRel);
        Ok(())
    }

    /// Notes that the directory was synced since all segments were created.
    pub(crate) fn note_names(&self) {
        let created = lock(&self.files).created;
        // ORDERING: release; see `sync_names`.
        self.named.fetch_max(created, Ordering::AcqRel);
    }

    /// Whether more full segments than usual have their files open.
    pub(crate) fn has_many_open(&self) -> bool {
        lock(&self.files).oldest_unsynced_beyond(USUALLY_OPEN).is_some()
    }

    /// Syncs the oldest full segment and closes its file, if more than usual are open.
    ///
    /// # Errors
    /// The failure of a sync: the log has failed.
    pub(crate) fn close_oldest(&self) -> Result<()> {
        self.close_oldest_beyond(USUALLY_OPEN).map(drop)
    }

    /// As [`Wal::close_oldest`], until no more are open than may be at all: the background did not
    /// keep up.
    ///
    /// # Errors
    /// As [`Wal::close_oldest`].
    pub(super) fn close_surplus(&self) -> Result<()> {
        while self.close_oldest_beyond(MOST_OPEN)? {}
        Ok(())
    }

    /// False when no more than so many are open.
    fn close_oldest_beyond(&self, most: usize) -> Result<bool> {
        self.condition.check_sync()?;
        let oldest = lock(&self.files).oldest_unsynced_beyond(most);
        let Some(oldest) = oldest else { return Ok(false) };
        let synced = self.sync_earlier(&[oldest]);
        synced.inspect_err(|cause| self.condition.fail(Fault::Sync, cause.clone()))?;
        Ok(true)
    }

    fn sync_earlier(&self, segments: &[Retained]) -> Result<()> {
        for segment in segments {
            let Some(io) = segment.unsynced.as_ref().map(Arc::clone) else { continue };
            io.sync(u64::MAX).map_err(|e| Error::io("sync", &segment.path, e))?;
            lock(&self.files).mark_synced(segment.number);
        }
        Ok(())
    }
}
