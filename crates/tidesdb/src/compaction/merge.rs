//! All versions of several runs in order: keys ascending, of one key the newest first.
//!
//! A merge may cover a part of the key space only ([`KeySpan`]); several such parts are merged by
//! several threads. Where a table is met at its first entry and no other input has a key within it,
//! the merge can be asked to step over it as a whole, so that tables which overlap nothing are
//! moved or left where they are instead of being rewritten.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::sstable::{EntryMeta, Readahead, Table, TableIterator, Uncached};

use super::step_bounds::holds;
use crate::iterator::NumberHeap;
use crate::output::key_partitions::KeySpan;
use crate::version::TableFile;

/// Bytes of each input that are read at a time.
pub(super) const READAHEAD_BYTES: usize = 256 << 10;
/// The same where memory is scarce.
const LEAST_READAHEAD_BYTES: usize = 16 << 10;

/// Bytes of each of so many inputs that are read at a time where all may take `most`.
pub(super) fn readahead_bytes(inputs: usize, most: u64) -> usize {
    let each = usize::try_from(most).unwrap_or(usize::MAX) / inputs.max(1);
    each.clamp(LEAST_READAHEAD_BYTES, READAHEAD_BYTES)
}

/// One sorted run, read once from front to back, past the block cache.
#[derive(Debug)]
struct RunReader {
    tables: std::vec::IntoIter<Arc<TableFile>>,
    readahead: usize,
    /// The table under the iterator.
    table: Option<Arc<TableFile>>,
    iterator: Option<TableIterator<Arc<Table>, Uncached>>,
    /// Entries of the present table that were left behind.
    passed: u64,
    /// Number and entries read of each table before it.
    read: Vec<(u64, u64)>,
}

impl RunReader {
    fn open(tables: Vec<Arc<TableFile>>, range: &KeySpan, readahead: usize) -> Result<Self> {
        let ascend =
            |a: &Arc<TableFile>, b: &Arc<TableFile>| a.record.largest_key < b.record.smallest_key;
        // No bytes of a manifest lead here: an opening refuses one with such a run.
        debug_assert!(tables.is_sorted_by(ascend), "tables of a run overlap");
        let mut tables = tables.into_iter();
        if let Some(from) = &range.from {
            let before = tables.as_slice().partition_point(|t| t.record.largest_key < *from);
            tables.by_ref().take(before).for_each(drop);
        }
        let read = Vec::new();
        let mut reader = Self { tables, readahead, table: None, iterator: None, passed: 0, read };
        reader.enter_next(range)?;
        Ok(reader)
    }

    fn valid(&self) -> bool {
        self.iterator.is_some()
    }

    fn next(&mut self, range: &KeySpan) -> Result<()> {
        let Some(iterator) = &mut self.iterator else { return Ok(()) };
        iterator.next()?;
        self.passed += 1;
        if !iterator.valid() {
            self.note_read();
            return self.enter_next(range);
        }
        if !range.is_before_end(iterator.key()) {
            self.note_read();
            self.end();
        }
        Ok(())
    }

    fn note_read(&mut self) {
        let number = self.table.as_ref().map(|table| table.record.number);
        self.read.extend(number.map(|number| (number, self.passed)));
    }

    fn end(&mut self) {
        self.iterator = None;
        self.table = None;
        self.tables = Vec::new().into_iter();
    }

    /// Goes to the first entry of the next table that has one in the range.
    fn enter_next(&mut self, range: &KeySpan) -> Result<()> {
        self.iterator = None;
        self.table = None;
        self.passed = 0;
        for file in self.tables.by_ref() {
            let table = file.table()?.as_ref().map(Arc::clone);
            let table = table.ok_or_else(|| Error::Internal("a table is not open".to_owned()))?;
            let readahead = Readahead::Bytes(self.readahead);
            let mut iterator = TableIterator::new(table, Uncached, readahead);
            match &range.from {
                Some(from) => iterator.seek(from)?,
                None => iterator.seek_to_first()?,
            }
            let is_before = |from: &Vec<u8>| iterator.key() < from.as_slice();
            if iterator.valid() && range.from.as_ref().is_some_and(is_before) {
                let (from, found) = (&range.from, iterator.key());
                let detail = format!("expected a key from {from:02x?} on, found {found:02x?}");
                return Err(Error::corruption(file.path(), 0, detail));
            }
            if iterator.valid() && range.is_before_end(iterator.key()) {
                self.iterator = Some(iterator);
                self.table = Some(file);
                return Ok(());
            }
        }
        Ok(())
    }

    /// The present table, when nothing of it was read yet and all of it lies in the range.
    fn whole_table(&self, range: &KeySpan) -> Option<&Arc<TableFile>> {
        self.table.as_ref().filter(|table| self.passed == 0 && holds(range, *table))
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
    range: KeySpan,
    runs: Vec<RunReader>,
    /// Numbers of the runs that are not exhausted, as a heap.
    heap: Vec<usize>,
}

impl NumberHeap for VersionMerge {
    fn numbers(&self) -> &[usize] {
        &self.heap
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
    }

    /// By key, then newest first.
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
}

impl VersionMerge {
    /// Reads `readahead` bytes of each run at a time.
    pub(super) fn open(
        runs: Vec<Vec<Arc<TableFile>>>,
        range: KeySpan,
        readahead: usize,
    ) -> Result<Self> {
        let open = |tables| RunReader::open(tables, &range, readahead);
        let runs = runs.into_iter().map(open).collect::<Result<Vec<_>>>()?;
        let heap = (0..runs.len()).filter(|&at| runs[at].valid()).collect();
        let mut merge = Self { range, runs, heap };
        merge.make_heap();
        Ok(merge)
    }

    /// The present version: key, meaning, value.
    pub(super) fn current(&self) -> Option<(&[u8], EntryMeta, &[u8])> {
        let iterator = self.runs.get(*self.heap.first()?)?.iterator.as_ref()?;
        Some((iterator.key(), iterator.meta(), iterator.value()))
    }

    /// The file that the present version is in.
    pub(super) fn present_path(&self) -> PathBuf {
        let run = self.present_run().and_then(|run| self.runs.get(run));
        let table = run.and_then(|run| run.table.as_ref());
        table.map_or_else(PathBuf::new, |table| table.path().to_path_buf())
    }

    /// Number of the run that the present version is in.
    pub(super) fn present_run(&self) -> Option<usize> {
        self.heap.first().copied()
    }

    /// Goes to the next version.
    pub(super) fn next(&mut self) -> Result<()> {
        let Some(&root) = self.heap.first() else { return Ok(()) };
        self.runs[root].next(&self.range)?;
        self.restore();
        Ok(())
    }

    /// How many versions were read of each table that lies behind: its number and these.
    pub(super) fn read(self) -> Vec<(u64, u64)> {
        self.runs.into_iter().flat_map(|run| run.read).collect()
    }

    /// The table that begins with the present version and whose keys no other input shares from
    /// here on, with the number of its run. A newer version of its first key may lie behind
    /// already.
    pub(super) fn lone_table(&self) -> Option<(usize, &Arc<TableFile>)> {
        let &root = self.heap.first()?;
        let table = self.runs.get(root)?.whole_table(&self.range)?;
        let others = self.heap.get(1..3.min(self.heap.len())).unwrap_or_default();
        let largest = table.record.largest_key.as_slice();
        let alone = others.iter().all(|&other| largest < self.runs[other].key());
        alone.then_some((root, table))
    }

    /// Steps over the table that [`VersionMerge::lone_table`] returned.
    pub(super) fn skip_table(&mut self) -> Result<()> {
        let Some(&root) = self.heap.first() else { return Ok(()) };
        self.runs[root].enter_next(&self.range)?;
        self.restore();
        Ok(())
    }

    fn restore(&mut self) {
        if self.heap.first().is_some_and(|&root| !self.runs[root].valid()) {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
    }
}
