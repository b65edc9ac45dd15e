//! Walks one table in both directions.
//!
//! Where a seek lands depends on its target alone, whatever the iterator stood on before: the index
//! names the block. Only where the target lies between two entries of the block at hand is there
//! nothing to look up ([`TableIterator::seek_in_block`]). Keys are put together in a buffer, values
//! are borrowed from the block.
//!
//! A walk over many blocks may read ahead ([`Readahead`]): then one read fetches many stored
//! blocks, which are decoded into a block of the iterator's own, past the cache. After an error
//! the iterator is invalid, and every step repeats the error until the next seek, so that an
//! unreadable block cannot be taken for the end of the table. One thread per iterator.

mod readahead;

pub use self::readahead::Readahead;

use self::readahead::Ahead;
use super::block::{Block, BlockHolder, BlockRef, EntryMeta, EntrySpan};
use super::index::Leaves;
use super::prefetch::{Direction, Prefetch};
use super::{BlockHandle, BlockSource, Table};
use std::ops::Deref;
use tidesdb_base::{Error, Result, SequenceNumber, ValueKind};

#[derive(Debug)]
enum Current<B> {
    None,
    Shared(B),
    Own(Block),
}

impl<B: BlockHolder> Current<B> {
    #[inline]
    fn block(&self) -> Option<BlockRef<'_>> {
        match self {
            Self::None => None,
            Self::Shared(block) => Some(block.view()),
            Self::Own(block) => Some(block.view()),
        }
    }
}

/// Walks one table. `T` is how the table is held: `&Table`,
/// `Arc<Table>` or a handle that keeps it open.
// More than a dozen fields: a step reads most of them, and they lie together.
#[derive(Debug)]
pub struct TableIterator<T, S: BlockSource> {
    table: T,
    source: S,
    ahead: Ahead,
    leaves: Leaves<S::Block>,
    current: Current<S::Block>,
    prefetch: Prefetch<S::Block>,
    /// Number of the block in `current`.
    at: usize,
    position: usize,
    count: usize,
    /// The current key; its first `prefix_len` bytes are the block's prefix.
    key: Vec<u8>,
    prefix_len: usize,
    /// The current entry when the iterator is valid.
    entry: Option<EntrySpan>,
    failure: Option<Error>,
}

impl<T: Deref<Target = Table>, S: BlockSource> TableIterator<T, S> {
    /// An iterator that stands nowhere: seek first.
    #[must_use]
    pub fn new(table: T, source: S, readahead: Readahead) -> Self {
        Self {
            table,
            source,
            ahead: Ahead::new(readahead),
            leaves: Leaves::new(),
            current: Current::None,
            prefetch: Prefetch::nothing(),
            at: 0,
            position: 0,
            count: 0,
            key: Vec::new(),
            prefix_len: 0,
            entry: None,
            failure: None,
        }
    }

    /// The table walked.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Whether the iterator stands on an entry.
    #[inline]
    #[must_use]
    pub const fn valid(&self) -> bool {
        self.entry.is_some()
    }

    /// The key; empty when not valid.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        if self.valid() { &self.key } else { &[] }
    }

    /// Sequence number, kind and expiry; those of a tombstone of sequence 0 when not valid.
    #[inline]
    #[must_use]
    pub fn meta(&self) -> EntryMeta {
        const NOTHING: EntryMeta = EntryMeta { seq: 0, kind: ValueKind::Tombstone, expires_at: 0 };
        self.entry.as_ref().map_or(NOTHING, |entry| entry.meta)
    }

    /// The sequence number.
    #[inline]
    #[must_use]
    pub fn seq(&self) -> SequenceNumber {
        self.meta().seq
    }

    /// What the version says about the key.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> ValueKind {
        self.meta().kind
    }

    /// Expiry in Unix seconds, 0 for never.
    #[inline]
    #[must_use]
    pub fn expires_at(&self) -> u64 {
        self.meta().expires_at
    }

    /// The value or the encoded value pointer, borrowed from the block; empty when not valid.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match (self.current.block(), &self.entry) {
            (Some(block), Some(entry)) => block.value(entry),
            _ => &[],
        }
    }

    /// The key and the value; both empty when not valid.
    // Two slices that a call returns go through memory.
    #[inline(always)]
    #[must_use]
    pub fn key_value(&self) -> (&[u8], &[u8]) {
        match (self.current.block(), &self.entry) {
            (Some(block), Some(entry)) => (&self.key, block.value(entry)),
            _ => (&[], &[]),
        }
    }

    /// Goes to the newest version of the first key at or after `key`.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Io`], as all movements; the iterator is invalid then.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_version(key, SequenceNumber::MAX)
    }

    /// Goes to the first entry at or after version `snapshot` of `key`: the newest version of
    /// `key` that the snapshot sees, or else the newest version of the next key.
    ///
    /// # Errors
    /// As [`TableIterator::seek`].
    pub fn seek_version(&mut self, key: &[u8], snapshot: SequenceNumber) -> Result<()> {
        self.restart();
        let first = self.leaves.first_for(&self.table, &self.source, key);
        let mut at = first.map_err(|error| self.fail(error))?;
        while self.load(at)? {
            let found = self.current.block().and_then(|block| block.lower_bound(key, snapshot));
            let Some(position) = found else {
                return self.fail_malformed();
            };
            if position < self.count {
                return self.stand_on(position);
            }
            at += 1;
        }
        Ok(())
    }

    /// Does what [`TableIterator::seek_version`] does where the block at hand alone shows where
    /// that is: behind its first entry, and not behind its last. Returns `false` otherwise, and
    /// goes nowhere. Seeks that follow each other closely need no index then, and no cache.
    ///
    /// # Errors
    /// As [`TableIterator::seek`].
    #[inline]
    pub fn seek_in_block(&mut self, key: &[u8], snapshot: SequenceNumber) -> Result<bool> {
        let found = self.current.block().and_then(|block| block.position_inside(key, snapshot));
        let Some(position) = found else { return Ok(false) };
        self.restart();
        self.stand_on(position).map(|()| true)
    }

    /// Goes to the last entry whose key is at or before `key`: the oldest version of that key.
    ///
    /// # Errors
    /// As [`TableIterator::seek`].
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        // The first key above `key` is `key` with a zero byte appended, or later.
        let mut above = Vec::with_capacity(key.len() + 1);
        above.extend_from_slice(key);
        above.push(0);
        self.seek_before(&above)
    }

    /// Goes to the last entry whose key is before `key`: the oldest version of that key.
    ///
    /// # Errors
    /// As [`TableIterator::seek`].
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek(key)?;
        if self.valid() { self.prev() } else { self.seek_to_last() }
    }

    /// Goes to the first entry.
    ///
    /// # Errors
    /// As [`TableIterator::seek`].
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.seek_to_block(0)
    }

    /// Goes to the first entry of data block `at`; past the last block the iterator is invalid.
    ///
    /// # Errors
    /// As [`TableIterator::seek`].
    pub fn seek_to_block(&mut self, at: usize) -> Result<()> {
        self.restart();
        if self.load(at)? { self.stand_on(0) } else { Ok(()) }
    }

    /// Goes to the last entry.
    ///
    /// # Errors
    /// As [`TableIterator::seek`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.restart();
        let Some(last) = self.table.block_count().checked_sub(1) else {
            return Ok(());
        };
        if self.load(last)? { self.stand_on(self.count - 1) } else { Ok(()) }
    }

    /// Goes to the next entry; past the last one the iterator is invalid, and stays so.
    ///
    /// # Errors
    /// As [`TableIterator::seek`]; an earlier error again when nothing was sought since.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "lends its entries, which Iterator cannot")]
    pub fn next(&mut self) -> Result<()> {
        let next = self.position + 1;
        if self.entry.is_some() && next < self.count {
            return self.stand_on(next);
        }
        self.next_block()
    }

    // Not inlined: a step within a block would save registers that only this needs.
    #[inline(never)]
    fn next_block(&mut self) -> Result<()> {
        if !self.valid() {
            return self.failure.clone().map_or(Ok(()), Err);
        }
        self.ahead.sequential = self.ahead.sequential.saturating_add(1);
        self.entry = None;
        if !self.load(self.at + 1)? {
            return Ok(());
        }
        // A short scan often ends in its second block.
        if self.ahead.sequential > 1 {
            self.look_ahead(Direction::Forward);
        }
        self.stand_on(0)
    }

    /// Loads cached blocks that come next. Walks that read ahead have no use for it.
    #[inline]
    fn look_ahead(&mut self, direction: Direction) {
        if matches!(self.current, Current::Shared(_)) {
            self.prefetch.look((&self.table, &self.source), &self.leaves, self.at, direction);
        }
    }

    /// Goes to the entry before; before the first one the iterator is invalid, and stays so.
    ///
    /// # Errors
    /// As [`TableIterator::next`].
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        match self.position.checked_sub(1) {
            Some(before) if self.entry.is_some() => self.stand_on(before),
            _ => self.block_before(),
        }
    }

    #[inline(never)]
    fn block_before(&mut self) -> Result<()> {
        if !self.valid() {
            return self.failure.clone().map_or(Ok(()), Err);
        }
        (self.ahead.sequential, self.ahead.piece) = (0, 0);
        self.entry = None;
        let Some(before) = self.at.checked_sub(1) else {
            return Ok(());
        };
        if !self.load(before)? {
            return Ok(());
        }
        self.look_ahead(Direction::Backward);
        self.stand_on(self.count - 1)
    }

    fn restart(&mut self) {
        (self.ahead.sequential, self.ahead.piece) = (0, 0);
        self.entry = None;
        self.failure = None;
    }

    /// Makes `position` of the current block the current entry.
    #[inline]
    fn stand_on(&mut self, position: usize) -> Result<()> {
        let Some(block) = self.current.block() else {
            return Ok(());
        };
        let Some(entry) = block.entry(position) else {
            return self.fail_malformed();
        };
        self.key.truncate(self.prefix_len);
        entry.append_head(&mut self.key);
        block.append_tail(&entry, &mut self.key);
        self.position = position;
        self.entry = Some(entry);
        Ok(())
    }

    #[cold]
    fn fail_malformed(&mut self) -> Result<()> {
        let handle = self.leaves.handle_at_hand(&self.table, self.at);
        let handle = handle.unwrap_or(BlockHandle { offset: 0, len: 0 });
        let error = self.table.malformed(handle);
        Err(self.fail(error))
    }

    /// Leaves no block at hand: its index node may be gone, which knows where the block lies.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        self.entry = None;
        self.current = Current::None;
        self.failure = Some(error.clone());
        error
    }

    /// Makes block `at` the current one; `false` past the last. The iterator is invalid after.
    fn load(&mut self, at: usize) -> Result<bool> {
        let held = self.at == at && self.current.block().is_some();
        if !held {
            let fetched = match self.leaves.handle(&self.table, &self.source, at) {
                Ok(Some(handle)) => self.fetch(at, handle),
                Ok(None) => return Ok(false),
                Err(error) => Err(error),
            };
            match fetched {
                Ok(current) => {
                    self.current = current;
                    self.report_shared();
                }
                Err(error) => return Err(self.fail(error)),
            }
        }
        self.at = at;
        self.key.clear();
        if let Some(block) = self.current.block() {
            self.count = block.len();
            self.key.extend_from_slice(block.prefix());
        }
        self.prefix_len = self.key.len();
        Ok(true)
    }
}

impl<T, S: BlockSource> Drop for TableIterator<T, S> {
    fn drop(&mut self) {
        self.report_kept(0);
    }
}
