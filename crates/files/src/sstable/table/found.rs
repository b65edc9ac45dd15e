//! What a lookup in a table returns.

use super::super::block::{BlockHolder, BlockRef, EntryMeta, EntrySpan};

/// A version found by a lookup. Keeps its block alive, so the value is borrowed without a copy.
#[derive(Debug)]
pub struct Found<B> {
    pub(super) block: B,
    pub(super) entry: EntrySpan,
}

impl<B: BlockHolder> Found<B> {
    /// Sequence number, kind and expiry.
    #[must_use]
    pub const fn meta(&self) -> EntryMeta {
        self.entry.meta
    }

    /// The same version, in a handle on the block made of this one.
    #[must_use]
    pub fn map<C>(self, block: impl FnOnce(B) -> C) -> Found<C> {
        Found { block: block(self.block), entry: self.entry }
    }

    /// The block.
    #[must_use]
    pub fn block(&self) -> BlockRef<'_> {
        self.block.view()
    }

    /// What holds the block.
    #[must_use]
    pub const fn holder(&self) -> &B {
        &self.block
    }

    /// The value, or the encoded value pointer, or nothing for a tombstone.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.block.view().value(&self.entry)
    }
}

/// What one block says of a key.
#[derive(Debug)]
pub enum FoundInBlock<'b> {
    /// The version.
    Here(Found<BlockRef<'b>>),
    /// There is none that is visible.
    Absent,
    /// All of the block lies before it: usually there is none, but versions of one key may straddle
    /// blocks, and [`super::Table::lookup`] looks on.
    Beyond,
}
