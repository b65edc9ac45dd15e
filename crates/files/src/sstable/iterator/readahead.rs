//! Reading blocks of a table before a walk needs them, many with one read.

use super::super::{BlockHandle, BlockHolder, BlockSource, Table};
use super::{Current, TableIterator};
use std::ops::Deref;
use tidesdb_base::Result;
use tidesdb_sys::large_vec::LargeVec;

/// Whether an iterator reads more than the block it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readahead {
    /// Every block comes from the block source.
    #[default]
    None,
    /// Blocks come from the block source until the iterator has stepped forward over two block
    /// boundaries in a row; then blocks that the source does not have cached are read ahead, in
    /// pieces that double up to this many bytes.
    Auto(usize),
    /// Every block is read ahead in pieces of about this many bytes and the block source is
    /// never asked; for merges and checks that read a table once.
    Bytes(usize),
}

/// First piece of automatic read-ahead. The first three together hold a range of a thousand small
/// rows, in memory that comes from the allocator: a mapping for each range costs more than its
/// rows.
const FIRST_PIECE_BYTES: usize = 12 << 10;
/// From pieces of this size on, the next one is fetched while this one is walked over.
const LEAST_OVERLAPPED_BYTES: usize = 128 << 10;
/// Smaller blocks of the source are not reported: their readers count a usual block for each table.
const LEAST_REPORTED_BYTES: usize = 16 << 10;
/// Block boundaries crossed in a row at which automatic read-ahead starts.
const SEQUENTIAL_BLOCKS: u32 = 2;

/// Stored bytes of consecutive blocks, read before they are needed.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    how: Readahead,
    /// Block boundaries crossed forward since the last seek or backward step.
    pub(super) sequential: u32,
    /// The last piece of automatic read-ahead since then; 0 before the first one.
    pub(super) piece: usize,
    bytes: LargeVec<u8>,
    start: u64,
    len: usize,
    /// Where the last piece ends that could not be read as a whole: each block before that is read
    /// on its own, since a disk tries for long to read what it can't.
    failed_until: u64,
    /// Bytes of memory that were last reported to the source.
    reported: usize,
}

impl Ahead {
    pub(super) fn new(how: Readahead) -> Self {
        Self { how, ..Self::default() }
    }

    /// The stored bytes of a block when they were read.
    fn stored(&self, handle: BlockHandle) -> Option<&[u8]> {
        let start = usize::try_from(handle.offset.checked_sub(self.start)?).ok()?;
        let held = self.bytes.get(..self.len)?;
        held.get(start..start.checked_add(handle.len as usize)?)
    }
}

impl<T: Deref<Target = Table>, S: BlockSource> TableIterator<T, S> {
    /// The block, from what was prefetched, read ahead or cached, or else from the file.
    pub(super) fn fetch(&mut self, at: usize, handle: BlockHandle) -> Result<Current<S::Block>> {
        let known = self.prefetch.take(at);
        if let Some(Some(block)) = known {
            return Ok(Current::Shared(block));
        }
        let piece = match self.ahead.how {
            Readahead::Bytes(bytes) => bytes,
            Readahead::Auto(most) if self.ahead.sequential >= SEQUENTIAL_BLOCKS => {
                if known.is_none()
                    && let Some(block) = self.source.cached(&self.table, handle)
                {
                    return Ok(Current::Shared(block));
                }
                most.min(FIRST_PIECE_BYTES.max(2 * self.ahead.piece))
            }
            Readahead::Auto(_) | Readahead::None => {
                return self.source.block(&self.table, handle).map(Current::Shared);
            }
        };
        self.fetch_ahead(at, handle, piece)
    }

    /// Decodes a block from the bytes read ahead, reading the next piece first where needed.
    fn fetch_ahead(
        &mut self,
        at: usize,
        handle: BlockHandle,
        piece: usize,
    ) -> Result<Current<S::Block>> {
        let len = handle.len as usize;
        if self.ahead.stored(handle).is_none() {
            let mut wanted = len;
            let mut next = at + 1;
            while wanted < piece
                && handle.offset >= self.ahead.failed_until
                && let Some(more) = self.leaves.handle_at_hand(&self.table, next)
            {
                wanted += more.len as usize;
                next += 1;
            }
            // Nothing is held while the read may fail.
            self.ahead.len = 0;
            let mut read = self.table.read_ahead(handle.offset, wanted, &mut self.ahead.bytes);
            if read.is_err() && wanted > len {
                // What was not asked for may be what can't be read.
                self.ahead.failed_until = handle.offset + wanted as u64;
                wanted = len;
                read = self.table.read_ahead(handle.offset, wanted, &mut self.ahead.bytes);
            }
            read?;
            if piece >= LEAST_OVERLAPPED_BYTES {
                let behind = handle.offset + wanted as u64;
                self.table.start_reading(behind, wanted as u64);
            }
            self.ahead.start = handle.offset;
            self.ahead.len = wanted;
            self.ahead.piece = piece;
        }
        let raw = match std::mem::replace(&mut self.current, Current::None) {
            Current::Own(block) => block.into_raw(),
            Current::Shared(_) | Current::None => Vec::new(),
        };
        let stored = self.ahead.stored(handle).unwrap_or_default();
        let block = self.table.decode_block(handle, stored, raw)?;
        self.report_kept(self.ahead.bytes.capacity() + block.memory_bytes());
        Ok(Current::Own(block))
    }
}

impl<T, S: BlockSource> TableIterator<T, S> {
    /// Reports what a block that the source does not keep takes in memory, if that is much.
    #[inline]
    pub(super) fn report_shared(&mut self) {
        let Current::Shared(block) = &self.current else { return };
        let bytes = block.own_memory_bytes();
        if bytes >= LEAST_REPORTED_BYTES || self.ahead.reported > 0 {
            let bytes = if bytes >= LEAST_REPORTED_BYTES { bytes } else { 0 };
            self.report_kept(self.ahead.bytes.capacity() + bytes);
        }
    }

    pub(super) fn report_kept(&mut self, bytes: usize) {
        if bytes != self.ahead.reported {
            self.source.kept_by_reader(self.ahead.reported, bytes);
            self.ahead.reported = bytes;
        }
    }
}
