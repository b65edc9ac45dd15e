//! Memory that one writer of a table leaves for the next.
//!
//! A table takes a few megabytes while it is written: hashes for its filter, its index, a block.
//! Fetched from the system for each table and given back, that costs page faults and, when it goes
//! back, interrupts of all threads of the process: a fifth of a flush was seen to go there. Flushes
//! and merges take from here and give back; all of it goes when nobody writes any more.

use std::sync::Mutex;

use tidesdb_files::sstable::WriterBuffers;
use tidesdb_lockfree::sync::lock;

/// Writers of tables at one time are rarely more.
const MOST_KEPT: usize = 8;
/// What a table of very large values took is not kept.
const LARGEST_KEPT_BYTES: usize = 8 << 20;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct SpareBuffers(Mutex<Vec<WriterBuffers>>);

impl SpareBuffers {
    /// Memory of an earlier writer, or none.
    pub(crate) fn take(&self) -> WriterBuffers {
        lock(&self.0).pop().unwrap_or_default()
    }

    /// Keeps the memory, unless that is much or nobody will need it.
    pub(crate) fn give(&self, buffers: WriterBuffers) {
        let mut kept = lock(&self.0);
        if kept.len() < MOST_KEPT && buffers.memory_bytes() <= LARGEST_KEPT_BYTES {
            kept.push(buffers);
        }
    }

    /// Gives all memory back.
    pub(crate) fn release(&self) {
        lock(&self.0).clear();
    }
}
