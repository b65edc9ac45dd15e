//! Group sync: commits that wait together share one sync.
//!
//! One waiter at a time is the leader. It syncs through the published position, so that every
//! commit published before the sync started is covered, and wakes the others; those published
//! meanwhile elect the next leader.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::wal::SYNC_MARK_OFFSET;
use tidesdb_files::wal::segment::encode_sync_mark;
use tidesdb_lockfree::sync::{lock, wait};
use tidesdb_sys::vfs::OpenHow;

use super::Log;

/// Times a leader lets other writers run before it syncs, as long as each brings new commits.
const GATHERING_YIELDS: usize = 4;

#[derive(Debug)]
pub(super) struct GroupSync {
    synced: AtomicU64,
    /// Segment files whose names are durable, in the order of their creation.
    named: AtomicU64,
    leading: Mutex<bool>,
    done: Condvar,
}

impl GroupSync {
    pub(super) fn new(synced: u64) -> Self {
        Self {
            synced: AtomicU64::new(synced),
            named: AtomicU64::new(0),
            leading: Mutex::new(false),
            done: Condvar::new(),
        }
    }

    pub(super) fn synced(&self) -> u64 {
        // ORDERING: acquire; whoever sees a position may rely on what the leader did before.
        self.synced.load(Ordering::Acquire)
    }

    fn advance(&self, position: u64) {
        // ORDERING: release pairs with the load in `synced`.
        self.synced.fetch_max(position, Ordering::AcqRel);
    }

    pub(super) fn restarted_at(&self, position: u64) {
        self.advance(position);
    }
}

impl Log {
    /// Returns once everything up to `sequence` survives a power cut.
    ///
    /// # Errors
    /// The failure of this sync or of an earlier one. The log is poisoned then: what the kernel
    /// did not write is gone although a second sync would succeed.
    pub(crate) fn sync_through(&self, sequence: SequenceNumber) -> Result<()> {
        let mut leading = lock(&self.group.leading);
        loop {
            if self.group.synced() >= sequence {
                return Ok(());
            }
            self.check_health()?;
            if !*leading {
                break;
            }
            leading = wait(&self.group.done, leading);
        }
        *leading = true;
        drop(leading);
        self.gather();
        let result = self.sync_published();
        *lock(&self.group.leading) = false;
        self.group.done.notify_all();
        result
    }

    /// As [`Log::sync_through`] for a commit of the caller, and counts it as one that waited.
    ///
    /// # Errors
    /// As [`Log::sync_through`].
    pub(crate) fn sync_commit(&self, sequence: SequenceNumber) -> Result<()> {
        // ORDERING: a statistic.
        self.counters.synced_commits.fetch_add(1, Ordering::Relaxed);
        if cfg!(planted_bug = "acknowledge_before_sync") {
            return Ok(());
        }
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

    fn sync_published(&self) -> Result<()> {
        let (target, earlier, active) = {
            // Segments change only with this lock held, so the three belong together.
            let files = lock(&self.files);
            (self.published(), files.unsynced(), self.active.load_full())
        };
        let outcome = self.sync_names().and_then(|()| self.sync_earlier(&earlier)).and_then(|()| {
            let upto = active.offset_of(target);
            active.io.sync(upto).map_err(|e| Error::io("sync", &active.path, e))
        });
        // ORDERING: a statistic.
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        match outcome {
            Ok(()) => {
                self.group.advance(target);
                let mark = encode_sync_mark(active.header.number, target);
                // The mark only sharpens the diagnosis of later damage.
                let _ = active.io.write(SYNC_MARK_OFFSET, &mark);
                Ok(())
            }
            Err(cause) => {
                if cfg!(planted_bug = "failed_sync_retried") {
                    return Err(cause);
                }
                self.set_poison(cause.clone(), self.group.synced());
                Err(cause)
            }
        }
    }

    /// Makes the names of all segments created so far durable. Comes before a commit is promised
    /// to be on disk, and before the manifest names a segment.
    ///
    /// # Errors
    /// [`Error::Io`] when the directory can't be synced.
    pub(crate) fn sync_names(&self) -> Result<()> {
        let created = lock(&self.files).created;
        // ORDERING: acquire pairs with the release below; a stale value costs one more sync.
        if self.group.named.load(Ordering::Acquire) >= created
            || cfg!(planted_bug = "no_log_directory_sync")
        {
            return Ok(());
        }
        let dir = &self.config.dir;
        self.config.vfs.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))?;
        // ORDERING: release; whoever skips the sync relies on this one having been done.
        self.group.named.fetch_max(created, Ordering::AcqRel);
        Ok(())
    }

    fn sync_earlier(&self, segments: &[super::Retained]) -> Result<()> {
        for segment in segments {
            let path = &segment.path;
            let file = match self.config.vfs.open(path, OpenHow::ReadWrite) {
                Ok(file) => file,
                // Retired meanwhile: its records are in tables.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(Error::io("open", path, e)),
            };
            file.sync_data().map_err(|e| Error::io("sync", path, e))?;
            lock(&self.files).mark_synced(segment.number);
        }
        Ok(())
    }
}
