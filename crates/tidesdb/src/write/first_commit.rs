//! What the first commit does when the opening has left it to it.
//!
//! An opening after a clean close starts no log, so that a process that only reads writes nothing
//! and waits for no sync. The first commit creates a segment and has the manifest name it; where
//! that is the first edit as well, it starts another manifest, which begins with it.

use tidesdb_base::error::Result;
use tidesdb_lockfree::sync::lock;

use crate::core::Core;
use crate::version::begin_log_with;

impl Core {
    /// Makes sure that the log has begun. Called without locks that come behind the catalog's, and
    /// outside the commit gate.
    ///
    /// # Errors
    /// [`tidesdb_base::error::Error::Io`], `Full` when there is no space for a segment; the next
    /// commit tries again. [`tidesdb_base::error::Error::Closed`].
    #[inline(always)]
    pub(super) fn ensure_log_begun(&self) -> Result<()> {
        if self.storage.log.is_begun() { Ok(()) } else { self.begin_log() }
    }

    #[cold]
    fn begin_log(&self) -> Result<()> {
        // The files are made on this thread: the directory is not given up meanwhile.
        let _at_work = self.work.callers.enter()?;
        self.review_disk(0);
        let log = &self.storage.log;
        let mut catalog = lock(&self.storage.catalog);
        if log.is_begun() {
            return Ok(());
        }
        // CRASH: nothing refers to it, and it holds no record. The sync that makes the name of a
        // new manifest durable does so for both.
        let successor = log.begin_successor()?;
        if !catalog.starts_another_manifest() {
            log.sync_names().inspect_err(|_| drop(self.env.vfs.remove(&successor.path())))?;
        }
        // CRASH: before this edit is on disk there is no log, and nothing was committed; after it
        // the log is empty.
        let changes = begin_log_with(successor.number(), successor.position());
        catalog.commit_files(changes.to_vec(), || vec![successor.path()])?;
        log.note_names();
        log.begin(successor);
        Ok(())
    }
}
