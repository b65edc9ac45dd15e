//! Commits on a full disk: puts that leave the reserve to deletions, and a commit that finds no
//! space. See `core/disk_space.rs` and `flow/disk.rs`.

use tidesdb_base::error::{Error, Result};

use crate::core::Core;

impl Core {
    /// Refuses a put while only the reserve is left.
    ///
    /// # Errors
    /// [`Error::Io`] of kind `Full`.
    #[cold]
    pub(crate) fn check_disk(&self) -> Result<()> {
        self.review_disk(0);
        if !self.flow.disk.is_short() {
            return Ok(());
        }
        let what = "what is left of the disk is kept for deletions";
        let full = std::io::Error::new(std::io::ErrorKind::StorageFull, what);
        Err(Error::io("reserve space for", &self.env.path, full))
    }

    /// Commits, and has garbage collected where that may help a commit that found no space. One
    /// that got no memory is refused at once: the repair of the log, which writes memory to tables,
    /// is queued by then.
    ///
    /// # Errors
    /// What `commit` returns.
    #[inline]
    pub(crate) fn with_room(
        &self,
        deletes: bool,
        mut commit: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        match commit() {
            Err(e) if e.is_disk_full() => self.make_room(deletes, e, &mut commit)?,
            other => other?,
        }
        if deletes {
            self.flow.disk.note_deletion();
            if self.flow.disk.take_half_used() {
                self.reclaim_disk();
            }
        }
        Ok(())
    }
}
