//! Records of tables that were not written, for tests of what is decided by them.

use std::path::Path;
use std::sync::Arc;

use tidesdb_files::manifest::TableRecord;
use tidesdb_files::sstable::KeySketch;
use tidesdb_lockfree::arena::BlockPool;
use tidesdb_sim::SimVfs;
use tidesdb_sys::vfs::Vfs;

use super::{DirectoryLock, FileContext, ObsoleteFiles, SetAsideChanges, TableFile};
use crate::cache::{BlockCache, OpenFiles, TableMemory};
use crate::memory::MemoryBudget;

pub(crate) fn context() -> Arc<FileContext> {
    let vfs: Arc<dyn Vfs> = SimVfs::new(1);
    let lock = DirectoryLock::take(Arc::clone(&vfs), Path::new("/db"), true).unwrap();
    let blocks = Arc::new(BlockCache::new(0, 4096));
    let budget = MemoryBudget::new(u64::MAX, 0, Arc::clone(&blocks) as _, BlockPool::new(0));
    let budget = Arc::new(budget);
    Arc::new(FileContext {
        dir: "/db".into(),
        obsolete: ObsoleteFiles::new(vfs, Arc::clone(&blocks)),
        lock: Arc::new(lock),
        open_files: OpenFiles::new(0),
        blocks,
        table_memory: TableMemory::new(Arc::clone(&budget)),
        budget,
        set_aside_changes: SetAsideChanges::default(),
    })
}

/// Keys of one table.
pub(crate) const KEYS: u64 = 1000;

/// A table of keys from `first` on, with a value log of the table's own.
pub(crate) fn table(
    context: &Arc<FileContext>,
    place: (u32, u64),
    number: u64,
    first: u64,
) -> Arc<TableFile> {
    let mut keys = KeySketch::default();
    for key in first..first + KEYS {
        keys.add(key.wrapping_mul(0x2545_f491_4f6c_dd1d));
    }
    let record = TableRecord {
        number,
        level: place.0,
        run: place.1,
        bytes: 10 * KEYS,
        entries: KEYS,
        smallest_key: first.to_be_bytes().to_vec(),
        largest_key: (first + KEYS - 1).to_be_bytes().to_vec(),
        value_references: vec![(number, 90 * KEYS)],
        keys,
        ..TableRecord::default()
    };
    TableFile::new(context, record)
}
