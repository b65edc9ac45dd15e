//! Checkpoints and backups.

use std::path::Path;

use tidesdb_base::error::Result;
use tidesdb_base::progress::Progress;

use super::super::copies::{CopyOptions, Sharing};
use super::Db;

impl Db {
    /// Makes a copy of the database in another directory of the same file system, which shares its
    /// files: it costs a flush and a name per file, whatever the size, and no space at first. The
    /// copy is a database of its own: it shows all families at one point of the order of commits,
    /// no earlier than the call, and nothing that is done to one of the two changes the other.
    /// Where files can't have two names, on another file system for one, they are copied. Readers
    /// and writers go on meanwhile.
    ///
    /// `path` is an empty directory, or one that an interrupted copy left, or is created (one
    /// level). To go back to a copy, open it, or put a copy of its directory in the place of the
    /// database's; no other step is needed. When this returns, the copy survives a power cut. What
    /// one that was interrupted leaves never opens.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path().join("db"), DbOptions::default())?;
    /// let family = db.create_family("default", FamilyOptions::default())?;
    /// family.put(b"key", b"before")?;
    /// db.checkpoint(directory.path().join("copy"))?;
    /// family.put(b"key", b"after")?;
    /// let copy = Db::open(directory.path().join("copy"), DbOptions::default())?;
    /// assert_eq!(copy.family("default")?.get(b"key")?, Some(b"before".to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Exists` when the directory is not empty, `Invalid` for the database's own directory and
    /// what lies in it, `Locked` when another process or handle uses it, `Full`, also when what is
    /// copied would take what the database needs of their common volume, `Stalled` while flushes
    /// are paused or get nowhere, `ReadOnly`, `Broken`, `Closed`, `Io`. What was written of the
    /// copy is removed then.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        self.checkpoint_with(path, CopyOptions::default())
    }

    /// As [`Db::checkpoint`], with options.
    ///
    /// # Errors
    /// As [`Db::checkpoint`]; `Corruption` when the copy does not verify.
    pub fn checkpoint_with(&self, path: impl AsRef<Path>, options: CopyOptions) -> Result<()> {
        self.checkpoint_with_progress(path, options, &mut |_| Ok(()))
    }

    /// As [`Db::checkpoint_with`]. `progress` is called with how far the work is; an error that it
    /// returns ends the work. It may read and write the database. Closing the database in it is
    /// refused with an error of kind `Invalid`: the close would wait for this call.
    ///
    /// # Errors
    /// As [`Db::checkpoint_with`], and what `progress` returns.
    pub fn checkpoint_with_progress(
        &self,
        path: impl AsRef<Path>,
        options: CopyOptions,
        progress: &mut dyn FnMut(Progress) -> Result<()>,
    ) -> Result<()> {
        self.core().copy_to(path.as_ref(), Sharing::Linked, options, progress)
    }

    /// As [`Db::checkpoint`], and every byte is copied, so that the copy shares nothing with the
    /// database and may lie anywhere. It takes as long as reading and writing that much. Writers
    /// and compactions go on; files that compactions replace meanwhile stay until all are copied.
    /// Closing the database ends it with an error.
    ///
    /// # Errors
    /// As [`Db::checkpoint`].
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        self.backup_with(path, CopyOptions::default())
    }

    /// As [`Db::backup`], with options.
    ///
    /// # Errors
    /// As [`Db::checkpoint_with`].
    pub fn backup_with(&self, path: impl AsRef<Path>, options: CopyOptions) -> Result<()> {
        self.backup_with_progress(path, options, &mut |_| Ok(()))
    }

    /// As [`Db::backup_with`], and as [`Db::checkpoint_with_progress`].
    ///
    /// # Errors
    /// As [`Db::checkpoint_with_progress`].
    pub fn backup_with_progress(
        &self,
        path: impl AsRef<Path>,
        options: CopyOptions,
        progress: &mut dyn FnMut(Progress) -> Result<()>,
    ) -> Result<()> {
        self.core().copy_to(path.as_ref(), Sharing::Copied, options, progress)
    }
}
