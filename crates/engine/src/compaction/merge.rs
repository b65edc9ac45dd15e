//! All versions of several runs in order: keys ascending, of one key the newest first.

use std::cmp::Ordering;
use std::sync::Arc;

use tidesdb_base::error::Result;
use tidesdb_files::sstable::{EntryMeta, Readahead, Table, TableIterator, Uncached};

use crate::version::TableFile;

/// Bytes of each input read at a time.
const READAHEAD_BYTES: usize = 256 << 10;

/// One sorted run, read once from front to back, past the block cache.
#[derive(Debug)]
struct RunReader {
    tables: std::vec::IntoIter<Arc<TableFile>>,
    iterator: Option<TableIterator<Arc<Table>, Uncached>>,
}

impl RunReader {
    fn open(tables: Vec<Arc<TableFile>>) -> Result<Self> {
        let mut reader = Self { tables: tables.into_iter(), iterator: None };
        reader.settle()?;
        Ok(reader)
    }

    fn valid(&self) -> bool {
        self.iterator.is_some()
    }

    fn next(&mut self) -> Result<()> {
        if let Some(iterator) = &mut self.iterator {
            iterator.next()?;
        }
        self.settle()
    }

    /// Goes on to the next table when this one is exhausted.
    fn settle(&mut self) -> Result<()> {
        while !self.iterator.as_ref().is_some_and(TableIterator::valid) {
            self.iterator = None;
            let Some(file) = self.tables.next() else { return Ok(()) };
            let Some(table) = file.table()?.as_ref().map(Arc::clone) else { return Ok(()) };
            let readahead = Readahead::Bytes(READAHEAD_BYTES);
            let mut iterator = TableIterator::new(table, Uncached, readahead);
            iterator.seek_to_first()?;
            self.iterator = Some(iterator);
        }
        Ok(())
    }

    fn key(&self) -> &[u8] {
        self.iterator.as_ref().map_or(&[], TableIterator::key)
    }

    fn sequence(&self) -> u64 {
        self.iterator.as_ref().map_or(0, TableIterator::seq)
    }
}

/// Merges runs, given newest first.
#[derive(Debug)]
pub(super) struct VersionMerge {
    runs: Vec<RunReader>,
    /// Numbers of the runs that are not exhausted, as a heap.
    heap: Vec<usize>,
}

impl VersionMerge {
    pub(super) fn open(runs: Vec<Vec<Arc<TableFile>>>) -> Result<Self> {
        let runs = runs.into_iter().map(RunReader::open).collect::<Result<Vec<_>>>()?;
        let heap = (0..runs.len()).filter(|&at| runs[at].valid()).collect();
        let mut merge = Self { runs, heap };
        for at in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(at);
        }
        Ok(merge)
    }

    /// The present version: key, meaning, value.
    pub(super) fn current(&self) -> Option<(&[u8], EntryMeta, &[u8])> {
        let iterator = self.runs.get(*self.heap.first()?)?.iterator.as_ref()?;
        Some((iterator.key(), iterator.meta(), iterator.value()))
    }

    pub(super) fn next(&mut self) -> Result<()> {
        let Some(&root) = self.heap.first() else { return Ok(()) };
        self.runs[root].next()?;
        if !self.runs[root].valid() {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Ok(())
    }

    fn before(&self, a: usize, b: usize) -> bool {
        let (left, right) = (&self.runs[a], &self.runs[b]);
        // Settled versions of different runs may share sequence zero; the newer run comes first.
        let order = left
            .key()
            .cmp(right.key())
            .then_with(|| right.sequence().cmp(&left.sequence()))
            .then(a.cmp(&b));
        order == Ordering::Less
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let left = 2 * at + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let right_first =
                right < self.heap.len() && self.before(self.heap[right], self.heap[left]);
            let child = if right_first { right } else { left };
            if self.before(self.heap[at], self.heap[child]) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }
}
