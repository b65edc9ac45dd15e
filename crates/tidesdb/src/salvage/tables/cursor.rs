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
            let Some(handle) = self.blocks.next() else {
                // A cursor may live on long behind its end, and there may be many.
                self.entries = VecDeque::new();
                break;
            };
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

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use super::*;
    use crate::Db;
    use crate::salvage::catalog::Catalog;
    use crate::salvage::findings::Findings;
    use crate::salvage::source::Source;
    use crate::salvage::tables::Tables;

    #[test]
    fn cursors_at_their_end_keep_no_memory() {
        let place = tempfile::tempdir().unwrap();
        let db = Db::open(place.path(), DbOptions::default()).unwrap();
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        for first in [0, 500] {
            for number in first..first + 500 {
                family.put(format!("{number:05}").as_bytes(), b"value").unwrap();
            }
            family.flush().unwrap();
        }
        db.close().unwrap();
        let source = Source::open(place.path()).unwrap();
        let catalog = Catalog::read(&source).unwrap();
        let mut findings = Findings::default();
        let tables = Tables::survey(&source, &catalog, &mut findings, &mut |_| Ok(())).unwrap();
        let mut cursors: Vec<_> = tables.used.iter().map(TableCursor::new).collect();
        let (mut failed, mut keys) = (Vec::new(), 0);
        for cursor in &mut cursors {
            while cursor.next(&mut failed).unwrap().0.is_some() {
                keys += 1;
            }
        }
        assert_eq!((keys, failed.len()), (1000, 0));
        let kept: usize = cursors.iter().map(|cursor| cursor.entries.capacity()).sum();
        assert_eq!(kept, 0);
    }
}
