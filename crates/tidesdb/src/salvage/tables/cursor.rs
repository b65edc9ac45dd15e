//! Walks what is left of a table.

use std::collections::VecDeque;

use tidesdb_base::error::Result;
use tidesdb_files::sstable::{BlockHandle, SalvagedEntry};

use super::blocks::BlockPlaces;
use super::{LostRange, UsedTable};

/// A block of a table that was whole, and could not be read once more.
#[derive(Debug)]
pub(crate) struct FailedBlock {
    pub(crate) handle: BlockHandle,
    pub(crate) reason: String,
    pub(crate) range: LostRange,
}

/// Walks the entries of a table that are left, in the table's order.
#[derive(Debug)]
pub(crate) struct TableCursor<'a> {
    pub(crate) table: &'a UsedTable,
    /// Blocks that are not read yet.
    blocks: BlockPlaces<'a>,
    entries: VecDeque<SalvagedEntry>,
    /// The last entry's, once there was one.
    last_key: Option<Vec<u8>>,
}

impl<'a> TableCursor<'a> {
    pub(crate) fn new(table: &'a UsedTable) -> Self {
        Self { table, blocks: table.blocks.iter(), entries: VecDeque::new(), last_key: None }
    }

    /// The next entry, and the bytes of the blocks that were read for it. A block that can't be
    /// read any more is passed over, and added to `failed`.
    ///
    /// # Errors
    /// [`Error::Io`] that says nothing of the table.
    pub(crate) fn next(
        &mut self,
        failed: &mut Vec<FailedBlock>,
    ) -> Result<(Option<SalvagedEntry>, u64)> {
        let (mut read, before) = (0, failed.len());
        while self.entries.is_empty() {
            let Some(handle) = self.blocks.next() else { break };
            read += u64::from(handle.len);
            match self.table.remains.entries(handle) {
                Ok(entries) => self.entries = entries.into(),
                Err(e) if e.is_corruption() => {
                    let range = LostRange { first: self.last_key.clone(), last: None };
                    failed.push(FailedBlock { handle, reason: e.to_string(), range });
                }
                Err(other) => return Err(other),
            }
        }
        let entry = self.entries.pop_front();
        for block in failed.iter_mut().skip(before) {
            block.range.last = entry.as_ref().map(|entry| entry.key.clone());
        }
        if self.entries.is_empty() {
            // Needed only where the next block can't be read.
            self.last_key = entry.as_ref().map(|entry| entry.key.clone());
        }
        Ok((entry, read))
    }
}
