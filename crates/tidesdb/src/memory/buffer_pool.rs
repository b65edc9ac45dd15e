//! A pool of buffers that writers of tables use again.
//!
//! A table takes a few megabytes while it is written: hashes for its filter, its index, a block.
//! Fetched from the system for each table and given back, that costs page faults and, when it goes
//! back, interrupts of all threads of the process: a fifth of a flush was seen to go there. Flushes
//! and compactions take from here and give back; all of it goes when there is no writer any more.
//! What is kept counts as memory of background work, and is no more than a part of the memory
//! budget.

use std::sync::{Arc, Mutex};

use tidesdb_files::sstable::WriterBuffers;
use tidesdb_lockfree::sync::lock;

use super::{Holder, MemoryBudget};

/// Writers of tables at one time are rarely more.
const MOST_KEPT: usize = 8;
/// What a table of very large values took is not kept.
const LARGEST_KEPT_BYTES: u64 = 8 << 20;
/// Part of the memory budget that all of it may take: one in so many.
const BUDGET_SHARE: u64 = 32;

/// Buffers of writers of tables that wait for the next one.
#[derive(Debug)]
pub(crate) struct BufferPool {
    budget: Arc<MemoryBudget>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    buffers: Vec<WriterBuffers>,
    bytes: u64,
}

impl BufferPool {
    /// Keeps nothing yet; what it will keep is noted in `budget`.
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, kept: Mutex::default() }
    }

    /// Memory of an earlier writer, or none.
    pub(crate) fn take(&self) -> WriterBuffers {
        let mut kept = lock(&self.kept);
        let Some(buffers) = kept.buffers.pop() else { return WriterBuffers::default() };
        let bytes = buffers.memory_bytes() as u64;
        kept.bytes -= bytes;
        self.budget.give_back(Holder::Background, bytes);
        buffers
    }

    /// Keeps the memory, unless that is much or will not be needed.
    pub(crate) fn give(&self, buffers: WriterBuffers) {
        let bytes = buffers.memory_bytes() as u64;
        let mut kept = lock(&self.kept);
        if kept.buffers.len() == MOST_KEPT
            || bytes > LARGEST_KEPT_BYTES
            || kept.bytes + bytes > self.budget.bytes() / BUDGET_SHARE
        {
            return;
        }
        // Under the lock: no thread may give back what is not noted yet.
        self.budget.take(Holder::Background, bytes);
        kept.buffers.push(buffers);
        kept.bytes += bytes;
    }

    /// Gives all memory back.
    pub(crate) fn release(&self) {
        let kept = std::mem::take(&mut *lock(&self.kept));
        self.budget.give_back(Holder::Background, kept.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidesdb_base::compress::Compression;
    use tidesdb_base::entry::ValueKind;
    use tidesdb_files::filter::FilterOptions;
    use tidesdb_files::sstable::{EntryMeta, IndexForm, TableOptions, TableOrigin, TableWriter};
    use tidesdb_lockfree::arena::BlockPool;
    use tidesdb_sim::SimVfs;
    use tidesdb_sys::vfs::{OpenMode, Vfs};

    use super::*;
    use crate::cache::BlockCache;

    fn spare(budget_bytes: u64) -> BufferPool {
        let blocks = Arc::new(BlockCache::new(0, 4096));
        BufferPool::new(Arc::new(MemoryBudget::new(budget_bytes, 0, blocks, BlockPool::new(0))))
    }

    /// What a table of so many entries leaves behind.
    fn used(entries: u32) -> WriterBuffers {
        let sim = SimVfs::new(1);
        let path = Path::new("/table");
        let file = sim.open(path, OpenMode::CreateNew).unwrap();
        let options = TableOptions {
            index: IndexForm::Flat,
            block_size: 4096,
            compression: Compression::None,
            filter: FilterOptions::of_keys(0.01),
            identity: 1,
            expected_entries: entries as usize,
            now_unix_seconds: 0,
            origin: TableOrigin::default(),
        };
        let mut writer = TableWriter::new(file, path, options);
        for n in 0..entries {
            let meta = EntryMeta { seq: 1, kind: ValueKind::Value, expires_at: 0 };
            writer.add(&n.to_be_bytes(), meta, b"value").unwrap();
        }
        writer.finish().unwrap().1
    }

    #[test]
    fn what_is_kept_is_in_the_budget() {
        let spare = spare(1 << 30);
        let held = || spare.budget.held().background;
        let (small, large) = (used(10), used(10_000));
        let (few, many) = (small.memory_bytes() as u64, large.memory_bytes() as u64);
        assert!(many > few + 50_000, "{few} {many}");
        spare.give(small);
        spare.give(large);
        assert_eq!(held(), few + many);
        assert_eq!(spare.take().memory_bytes() as u64, many);
        assert_eq!(held(), few);
        spare.release();
        assert_eq!((held(), spare.take().memory_bytes()), (0, 0));
        assert_eq!(held(), 0);
    }

    #[test]
    fn a_small_budget_has_little_kept() {
        let buffers = used(10_000);
        let bytes = buffers.memory_bytes() as u64;
        let spare = spare(bytes * BUDGET_SHARE * 3 / 2);
        spare.give(buffers);
        spare.give(used(10_000));
        assert_eq!(spare.budget.held().background, bytes);
    }
}
