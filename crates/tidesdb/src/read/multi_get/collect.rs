//! What becomes of the values that a look-up of many keys finds: copies, or pinned values.

use std::sync::Arc;

use tidesdb_base::error::Result;
use tidesdb_files::sstable::{BlockHolder, BlockRef, Found};

use super::super::shared_block::SharedBlock;
use super::super::{PinnedValue, copied};
use crate::cache::HeldBlock;
use crate::family::FamilyState;
use crate::memory::MemoryBudget;
use crate::memtable::MemtableVersion;

/// Takes values that are found, each with the place of its key.
pub(crate) trait Collect {
    /// A block while keys are looked for in it, and longer if a value keeps it.
    type Held: BlockHolder;

    /// Takes over a block before keys are looked for in it.
    fn hold(&self, block: HeldBlock) -> Self::Held;

    /// A value in a memtable; `pin` makes it keep the memtable.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::OutOfMemory`].
    fn in_memory(
        &mut self,
        at: usize,
        value: &[u8],
        pin: impl FnOnce() -> Option<MemtableVersion>,
    ) -> Result<()>;

    /// A value in a block.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::OutOfMemory`].
    fn in_block(&mut self, at: usize, found: Found<BlockRef<'_>>, block: &Self::Held)
    -> Result<()>;

    /// A value in memory of its own, as one that was read from a value log.
    fn fetched(&mut self, at: usize, value: Vec<u8>);

    /// Whether the key at a place has a value.
    fn has(&self, at: usize) -> bool;
}

/// Copies of the values, in the order of the keys.
impl Collect for Vec<Option<Vec<u8>>> {
    type Held = HeldBlock;

    fn hold(&self, block: HeldBlock) -> HeldBlock {
        block
    }

    fn in_memory(
        &mut self,
        at: usize,
        value: &[u8],
        _: impl FnOnce() -> Option<MemtableVersion>,
    ) -> Result<()> {
        self.fetched(at, copied(value)?);
        Ok(())
    }

    fn in_block(&mut self, at: usize, found: Found<BlockRef<'_>>, _: &HeldBlock) -> Result<()> {
        self.fetched(at, copied(found.value())?);
        Ok(())
    }

    fn fetched(&mut self, at: usize, value: Vec<u8>) {
        if let Some(place) = self.get_mut(at) {
            *place = Some(value);
        }
    }

    fn has(&self, at: usize) -> bool {
        self.get(at).is_some_and(Option::is_some)
    }
}

/// Values where they lie.
pub(crate) struct Pins<'a> {
    pub budget: &'a Arc<MemoryBudget>,
    pub family: &'a FamilyState,
    /// In the order of the keys.
    pub values: Vec<Option<PinnedValue>>,
}

impl Pins<'_> {
    fn put(&mut self, at: usize, value: PinnedValue) {
        if let Some(place) = self.values.get_mut(at) {
            *place = Some(value);
        }
    }
}

impl Collect for Pins<'_> {
    type Held = SharedBlock;

    fn hold(&self, block: HeldBlock) -> SharedBlock {
        SharedBlock::new(block, self.budget)
    }

    fn in_memory(
        &mut self,
        at: usize,
        _: &[u8],
        pin: impl FnOnce() -> Option<MemtableVersion>,
    ) -> Result<()> {
        if let Some(version) = pin() {
            self.put(at, PinnedValue::in_memory(self.family, version));
        }
        Ok(())
    }

    fn in_block(
        &mut self,
        at: usize,
        found: Found<BlockRef<'_>>,
        block: &SharedBlock,
    ) -> Result<()> {
        let found = found.map(|_| block.clone());
        self.put(at, PinnedValue::in_shared_block(self.family, found));
        Ok(())
    }

    fn fetched(&mut self, at: usize, value: Vec<u8>) {
        self.put(at, PinnedValue::own(self.budget, self.family, value));
    }

    fn has(&self, at: usize) -> bool {
        self.values.get(at).is_some_and(Option::is_some)
    }
}
