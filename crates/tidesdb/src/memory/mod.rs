//! The memory of a database: how much it may take, who holds how much, what has to give way.
//!
//! `budget` counts, `levels` decides what has to give way (pure), and `buffer_pool` keeps the
//! buffers of writers of tables for the next ones.

mod budget;
mod buffer_pool;
mod levels;

use std::sync::Arc;

use tidesdb_lockfree::arena::BlockPool;

pub(crate) use self::budget::{
    BoundedCache, Holder, MemoryBudget, MemoryReservation, table_writer_bytes,
};
pub(crate) use self::buffer_pool::BufferPool;
pub(crate) use self::levels::MemoryPlan;

/// The budget of all memory, and what memtables and writers of tables take their memory from.
#[derive(Debug)]
pub(crate) struct Memory {
    pub budget: Arc<MemoryBudget>,
    /// Blocks of memtables.
    pub pool: Arc<BlockPool>,
    pub buffer_pool: BufferPool,
}
