//! A block that the pinned values of one look-up share.

use std::sync::Arc;

use tidesdb_files::sstable::{BlockHolder, BlockRef};

use crate::cache::HeldBlock;
use crate::memory::{Holder, MemoryBudget, MemoryReservation};

/// A block that several values keep. Its memory counts once.
#[derive(Clone, Debug)]
pub(crate) struct SharedBlock(Arc<(HeldBlock, MemoryReservation)>);

impl BlockHolder for SharedBlock {
    fn view(&self) -> BlockRef<'_> {
        self.0.0.view()
    }
}

impl SharedBlock {
    /// Takes over a block and counts its memory.
    pub(super) fn new(block: HeldBlock, budget: &Arc<MemoryBudget>) -> Self {
        let reservation = budget.reserve(Holder::Scans, block.memory_bytes() as u64);
        Self(Arc::new((block, reservation)))
    }
}
