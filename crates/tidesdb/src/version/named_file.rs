//! A file of the directory that one family names, or several.
//!
//! A copy of a family begins with the files of its source, and each family lets go of them in its
//! own time. The file goes when the manifest on disk names it no more and its last reader has gone.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::FileKind;

use super::FileContext;

/// A table or value-log file, shared by all that belongs to it in memory. When no family names it
/// any more, the last one to let go of it notes it for deletion.
#[derive(Debug)]
pub(crate) struct NamedFile {
    kind: FileKind,
    path: PathBuf,
    context: Arc<FileContext>,
    /// How many families of the manifest's state name it. Derived from that state, when it is
    /// loaded and with each edit, and changed with the catalog locked.
    families: AtomicUsize,
}

impl NamedFile {
    /// The file of that kind and number, named by one family.
    pub(crate) fn new(context: &Arc<FileContext>, kind: FileKind) -> Arc<Self> {
        Arc::new(Self {
            kind,
            path: context.dir.join(kind.name()),
            context: Arc::clone(context),
            families: AtomicUsize::new(1),
        })
    }

    /// The same file, which another family names as well.
    pub(crate) fn named_again(self: &Arc<Self>) -> Arc<Self> {
        // ORDERING: relaxed; counts change with the catalog locked, and the drop that looks at them
        // comes after every other use of the `Arc`.
        self.families.fetch_add(1, Ordering::Relaxed);
        Arc::clone(self)
    }

    /// One family fewer names the file, by the manifest on disk. When it was the last, the file may
    /// be deleted once its last reader has gone.
    pub(crate) fn let_go(&self) {
        // ORDERING: as in `named_again`.
        let less_one = |families: usize| families.checked_sub(1);
        let _ = self.families.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less_one);
    }

    /// Whether the file takes its space even when this family lets go of it: another family names
    /// it as well, or another directory, as that of a checkpoint does.
    ///
    /// # Errors
    /// As [`super::DirectoryLock::open`]; [`Error::Io`].
    pub(crate) fn is_shared(&self) -> Result<bool> {
        // ORDERING: relaxed; one that comes or goes at this moment may as well come later.
        if self.families.load(Ordering::Relaxed) > 1 {
            return Ok(true);
        }
        let file = self.context.lock.open(&self.path)?;
        let links = file.links().map_err(|e| Error::io("count names of", &self.path, e))?;
        Ok(links > 1)
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What files need to be opened.
    pub(crate) const fn context(&self) -> &Arc<FileContext> {
        &self.context
    }
}

impl Drop for NamedFile {
    fn drop(&mut self) {
        if *self.families.get_mut() > 0 {
            return;
        }
        let path = std::mem::take(&mut self.path);
        match self.kind {
            FileKind::Table(number) => self.context.obsolete.add_table(number, path),
            _ => self.context.obsolete.add(path),
        }
    }
}
