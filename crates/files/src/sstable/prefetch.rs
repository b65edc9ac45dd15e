//! The blocks that a walk comes to next, loaded beforehand where they are cached.
//!
//! A walk over cached blocks waits for memory at each of them, three times one after the other: for
//! the slot of the cache, for its entry, and for the block. Small blocks take no longer to walk
//! over than that. So the walk has the processor load each of these while it is at an earlier
//! block.

use super::index::Leaves;
use super::{BlockHandle, BlockSource, Table};

/// So many blocks before a block its slot is loaded, and then its entry; the block itself while the
/// walk is at the one before it.
const SLOT_DISTANCE: usize = 4;
const ENTRY_DISTANCE: usize = 2;

/// Where a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

/// The next blocks of a walk, as far as they are cached.
#[derive(Debug)]
pub(super) struct Prefetch<B> {
    /// Number of a block, and the block if it is cached.
    next: Option<(usize, Option<B>)>,
}

impl<B> Prefetch<B> {
    pub(super) const fn nothing() -> Self {
        Self { next: None }
    }

    /// What is known of block `at`: nothing, that it was not cached, or the block.
    pub(super) fn take(&mut self, at: usize) -> Option<Option<B>> {
        self.next.take().filter(|(number, _)| *number == at).map(|(_, block)| block)
    }

    /// Loads the blocks that come behind block `at`, as far as that can be told without
    /// reading.
    pub(super) fn look<S: BlockSource<Block = B>>(
        &mut self,
        (table, source): (&Table, &S),
        leaves: &Leaves<B>,
        at: usize,
        direction: Direction,
    ) where
        B: super::BlockHolder,
    {
        let place = |distance: usize| -> Option<(usize, BlockHandle)> {
            let number = match direction {
                Direction::Forward => at.checked_add(distance)?,
                Direction::Backward => at.checked_sub(distance)?,
            };
            Some((number, leaves.handle_at_hand(table, number)?))
        };
        if let Some((_, far)) = place(SLOT_DISTANCE) {
            source.expect(table, far);
        }
        if let Some((_, near)) = place(ENTRY_DISTANCE) {
            source.expect_soon(table, near);
        }
        self.next = place(1).map(|(number, next)| (number, source.cached_next(table, next)));
    }
}
