//! Files that nothing refers to any more, deleted off the critical path.
//!
//! The last reader of an obsolete file may be a foreground thread in the middle of a get, so it
//! only notes the file here; background jobs sweep. The first file that is noted asks for one: with
//! nothing else to do, files that a scan had kept would stay as long as the program only reads.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, TryLockError};

use tidesdb_lockfree::sync::lock;
use tidesdb_sys::forks::ProcessMark;
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

/// Sweeps the obsolete files soon, in the background.
type SweepLater = Box<dyn Fn() + Send + Sync>;

/// Files waiting to be deleted, and to be forgotten by the block cache.
pub(crate) struct ObsoleteFiles {
    vfs: Arc<dyn Vfs>,
    blocks: Arc<BlockCache>,
    dead: Mutex<Dead>,
    /// Held by a sweep to its end, so that one that finds nothing left returns when the files are
    /// gone, not while another still deletes them. Taken before `dead`.
    sweeping: Mutex<()>,
    sweep_later: OnceLock<SweepLater>,
    /// Whose files they are.
    opened_in: ProcessMark,
}

impl std::fmt::Debug for ObsoleteFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObsoleteFiles").field("dead", &self.dead).finish_non_exhaustive()
    }
}

impl ObsoleteFiles {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, blocks: Arc<BlockCache>) -> Self {
        Self {
            vfs,
            blocks,
            dead: Mutex::default(),
            sweeping: Mutex::default(),
            sweep_later: OnceLock::new(),
            opened_in: ProcessMark::of_this(),
        }
    }

    /// Has `sweep_later` called by the thread that notes the first file. It must not sweep itself.
    pub(crate) fn on_first(&self, sweep_later: impl Fn() + Send + Sync + 'static) {
        // Set once, by the opening.
        let _ = self.sweep_later.set(Box::new(sweep_later));
    }

    /// Notes a value log for deletion. The manifest on disk must no longer name it.
    pub(crate) fn add(&self, path: PathBuf) {
        self.note(path, None);
    }

    /// As [`ObsoleteFiles::add`], for the table of this number.
    pub(crate) fn add_table(&self, number: u64, path: PathBuf) {
        self.note(path, Some(number));
    }

    fn note(&self, path: PathBuf, table: Option<u64>) {
        // In a forked child, where the last reader may be as well, files stay and the lock may be
        // held for good (I-238).
        if !self.opened_in.is_here() {
            return;
        }
        let mut dead = lock(&self.dead);
        let is_first = dead.paths.is_empty();
        dead.paths.push(path);
        dead.tables.extend(table);
        drop(dead);
        if is_first && let Some(sweep_later) = self.sweep_later.get() {
            sweep_later();
        }
    }

    /// Deletes what was noted, and has the cache forget it. Waits for other sweeps: what was noted
    /// before is gone afterwards. A file that can't be deleted is left for the next open,
    /// which removes what the manifest does not name.
    pub(crate) fn sweep(&self) {
        let turn = lock(&self.sweeping);
        self.delete_noted();
        drop(turn);
        // Those who did not wait left to this call what they noted meanwhile.
        self.try_sweep();
    }

    /// As [`ObsoleteFiles::sweep`], for those whom nothing waits for: where another sweep is under
    /// way, it is left to that one. A drop of a family may delete a hundred thousand files.
    pub(crate) fn try_sweep(&self) {
        while !lock(&self.dead).paths.is_empty() {
            let _turn = match self.sweeping.try_lock() {
                Ok(turn) => turn,
                Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
                // It looks here once it has let go.
                Err(TryLockError::WouldBlock) => return,
            };
            self.delete_noted();
        }
    }

    /// All of it in one walk through the cache. The caller holds `sweeping`.
    fn delete_noted(&self) {
        let Dead { paths, tables } = std::mem::take(&mut *lock(&self.dead));
        for path in paths {
            let _ = self.vfs.remove(&path);
        }
        if !tables.is_empty() {
            self.blocks.erase_files(&tables);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc;
    use std::time::Duration;

    use tidesdb_base::options::{DbOptions, FamilyOptions};
    use tidesdb_sim::{FaultVfs, ManualScheduler, Op};

    use super::*;
    use crate::db::{Components, Db};
    use crate::iterator::ScanOptions;

    /// A sweep that stands before the deletion of a file until `go_on` gets a word.
    struct Standing {
        obsolete: Arc<ObsoleteFiles>,
        reached: mpsc::Receiver<PathBuf>,
        go_on: mpsc::Sender<()>,
        first: std::thread::JoinHandle<()>,
    }

    fn standing() -> Standing {
        let vfs = FaultVfs::new(Components::simulated().vfs);
        let blocks = Arc::new(BlockCache::new(1 << 20, 4096));
        let obsolete = Arc::new(ObsoleteFiles::new(Arc::clone(&vfs) as Arc<dyn Vfs>, blocks));
        let ((reach, reached), (go_on, blocked)) = (mpsc::channel(), mpsc::channel());
        let blocked = Mutex::new(blocked);
        vfs.before_calls(Some(Arc::new(move |op, path| {
            if op == Op::Remove {
                reach.send(path.to_path_buf()).unwrap();
                lock(&blocked).recv().unwrap();
            }
        })));
        obsolete.add(PathBuf::from("/db/1.vlog"));
        let swept = Arc::clone(&obsolete);
        let first = std::thread::spawn(move || swept.sweep());
        assert_eq!(reached.recv().unwrap(), Path::new("/db/1.vlog"));
        Standing { obsolete, reached, go_on, first }
    }

    /// A caller that waits for background work looked at a directory whose files another thread was
    /// about to delete.
    #[test]
    fn a_sweep_waits_for_the_one_under_way() {
        let Standing { obsolete, reached: _reached, go_on, first } = standing();
        let second_ended = mpsc::channel();
        let second = std::thread::spawn(move || {
            obsolete.sweep();
            second_ended.0.send(()).unwrap();
        });
        let early = second_ended.1.recv_timeout(Duration::from_millis(50));
        go_on.send(()).unwrap();
        first.join().unwrap();
        second.join().unwrap();
        assert!(early.is_err(), "it returned while the file was being deleted");
    }

    /// Jobs that ended while the files of a large family were deleted stood until all were gone,
    /// flushes among them.
    #[test]
    fn jobs_leave_their_files_to_the_sweep_under_way() {
        let Standing { obsolete, reached, go_on, first } = standing();
        obsolete.add(PathBuf::from("/db/2.vlog"));
        let (swept, ended) = (Arc::clone(&obsolete), mpsc::channel());
        std::thread::spawn(move || {
            swept.try_sweep();
            ended.0.send(()).unwrap();
        });
        assert!(ended.1.recv_timeout(Duration::from_secs(10)).is_ok(), "it waits");
        go_on.send(()).unwrap();
        assert_eq!(reached.recv().unwrap(), Path::new("/db/2.vlog"));
        go_on.send(()).unwrap();
        first.join().unwrap();
        assert!(lock(&obsolete.dead).paths.is_empty());
    }

    /// It was the last to read a table, and walked the cache, under the locks of its shards, in the
    /// middle of a get.
    #[test]
    fn a_reader_that_lets_go_of_a_table_leaves_the_cache_to_the_background() {
        let components = Components::simulated();
        let scheduler = Arc::new(ManualScheduler::new(1));
        let components = Components { scheduler: Arc::clone(&scheduler) as _, ..components };
        let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        (0..1000_u32).for_each(|n| family.put(n.to_be_bytes(), [7; 100]).unwrap());
        family.flush().unwrap();
        let mut scan = family.scan(ScanOptions::new()).unwrap();
        scan.seek_to_first().unwrap();
        (0..1000_u32).for_each(|n| assert!(family.get(n.to_be_bytes()).unwrap().is_some()));
        family.delete_range([0], [1]).unwrap();
        db.compact_and_wait().unwrap();
        scheduler.run_until_idle();
        let blocks = &db.core().storage.files.blocks;
        let before = blocks.entries();
        assert!(before > 0);
        drop(scan);
        assert_eq!(blocks.entries(), before);
        scheduler.run_until_idle();
        assert_eq!(blocks.entries(), 0);
    }

    /// I-238. A thread of the parent may have held the lock at the fork.
    #[test]
    fn a_forked_child_does_not_wait_to_note_a_file() {
        let vfs = Components::simulated().vfs;
        let blocks = Arc::new(BlockCache::new(1 << 20, 4096));
        let mut obsolete = ObsoleteFiles::new(vfs, blocks);
        obsolete.add(PathBuf::from("/db/1.vlog"));
        obsolete.opened_in = ProcessMark::of_another();
        let obsolete = Arc::new(obsolete);
        let held = lock(&obsolete.dead);
        let (noted, ended) = (Arc::clone(&obsolete), mpsc::channel());
        std::thread::spawn(move || {
            noted.add_table(2, PathBuf::from("/db/2.klog"));
            ended.0.send(()).unwrap();
        });
        assert!(ended.1.recv_timeout(Duration::from_secs(10)).is_ok(), "it waits");
        assert_eq!(held.paths.len(), 1);
    }
}
