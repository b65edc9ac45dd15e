//! What a database has in memory.

use std::sync::Arc;

use tidesdb_lockfree::arena::BlockPool;

use crate::buffer_pool::BufferPool;
use crate::flow::MemoryBudget;

/// The budget of all memory, and what is lent to memtables and to writers of tables.
#[derive(Debug)]
pub(crate) struct Memory {
    pub budget: Arc<MemoryBudget>,
    /// Blocks of memtables.
    pub pool: Arc<BlockPool>,
    pub buffer_pool: BufferPool,
}
