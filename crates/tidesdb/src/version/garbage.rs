//! Files that nothing refers to any more, deleted off the critical path.
//!
//! The last reader of an obsolete file may be a foreground thread in the middle of a get, so it
//! only notes the file here; background jobs sweep.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tidesdb_lockfree::sync::lock;
use tidesdb_sys::vfs::Vfs;

use crate::cache::BlockCache;

/// What waits to be deleted.
#[derive(Debug, Default)]
struct Dead {
    paths: Vec<PathBuf>,
    /// Numbers of the tables among them. No other file will ever have one of these, so what the
    /// block cache holds of them only takes room.
    tables: BTreeSet<u64>,
}

/// Files waiting to be deleted, and to be forgotten by the block cache.
#[derive(Debug)]
pub(crate) struct Garbage {
    vfs: Arc<dyn Vfs>,
    blocks: Arc<BlockCache>,
    dead: Mutex<Dead>,
}

impl Garbage {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, blocks: Arc<BlockCache>) -> Self {
        Self { vfs, blocks, dead: Mutex::default() }
    }

    /// Notes a value log for deletion. The manifest on disk must no longer name it.
    pub(crate) fn add(&self, path: PathBuf) {
        lock(&self.dead).paths.push(path);
    }

    /// As [`Garbage::add`], for the table of this number.
    pub(crate) fn add_table(&self, number: u64, path: PathBuf) {
        let mut dead = lock(&self.dead);
        dead.paths.push(path);
        dead.tables.insert(number);
    }

    /// Deletes what was noted, and has the cache forget it: all of it in one walk. A file that
    /// can't be deleted is left for the next open, which removes what the manifest does not name.
    pub(crate) fn sweep(&self) {
        let Dead { paths, tables } = std::mem::take(&mut *lock(&self.dead));
        for path in paths {
            let _ = self.vfs.remove(&path);
        }
        if !tables.is_empty() {
            self.blocks.erase_files(&tables);
        }
    }
}
