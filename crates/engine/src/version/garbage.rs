//! Files that nothing refers to any more, deleted off the critical path.
//!
//! The last reader of an obsolete file may be a foreground thread in the middle of a get, so it
//! only notes the file here; background jobs sweep.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tidesdb_lockfree::sync::lock;
use tidesdb_sys::vfs::Vfs;

/// Paths waiting to be deleted.
#[derive(Debug)]
pub(crate) struct Garbage {
    vfs: Arc<dyn Vfs>,
    paths: Mutex<Vec<PathBuf>>,
}

impl Garbage {
    pub(crate) fn new(vfs: Arc<dyn Vfs>) -> Self {
        Self { vfs, paths: Mutex::new(Vec::new()) }
    }

    /// Notes a file for deletion. The manifest on disk must no longer name it.
    pub(crate) fn add(&self, path: PathBuf) {
        lock(&self.paths).push(path);
    }

    /// Deletes what was noted. A file that can't be deleted is left for the next open, which
    /// removes what the manifest does not name.
    pub(crate) fn sweep(&self) {
        let paths = std::mem::take(&mut *lock(&self.paths));
        for path in paths {
            let _ = self.vfs.remove(&path);
        }
    }
}
