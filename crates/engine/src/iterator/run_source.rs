//! The keys of a sorted run as a snapshot sees them, across its tables.
//!
//! Versions of one key never straddle two tables of a run, so each table is walked by itself. A table
//! of which the snapshot sees nothing, since a range deletion covers it, is passed over unopened.

use std::sync::Arc;

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::error::Result;
use tidesdb_base::range_tombstone::RangeTombstoneSets;
use tidesdb_files::sstable::{Readahead, Table, TableIterator};

use crate::cache::CachedBlocks;
use crate::version::{TableFile, Version};

/// Bytes read at a time once a scan is known to be long.
const SCAN_READAHEAD_BYTES: usize = 256 << 10;

type Tables = TableIterator<Arc<Table>, CachedBlocks>;

/// Walks the keys of run number `run` of a version.
#[derive(Debug)]
pub(super) struct RunSource {
    version: Arc<Version>,
    run: usize,
    snapshot: SequenceNumber,
    blocks: CachedBlocks,
    /// Range deletions, for passing over whole tables; the scan looks at each key.
    deleted: RangeTombstoneSets,
    /// The table that is being walked.
    at: usize,
    iterator: Option<Tables>,
    /// Every version of the table is visible and no key has two: each entry is an answer.
    plain: bool,
    key: Vec<u8>,
}

impl RunSource {
    pub(super) fn new(
        version: &Arc<Version>,
        run: usize,
        snapshot: SequenceNumber,
        blocks: CachedBlocks,
        deleted: RangeTombstoneSets,
    ) -> Self {
        let version = Arc::clone(version);
        let (at, iterator, plain) = (0, None, false);
        Self { version, run, snapshot, blocks, deleted, at, iterator, plain, key: Vec::new() }
    }

    fn tables(&self) -> &[Arc<TableFile>] {
        self.version.runs.get(self.run).map_or(&[], |run| run.tables.as_slice())
    }

    #[inline]
    pub(super) fn valid(&self) -> bool {
        self.iterator.as_ref().is_some_and(TableIterator::valid)
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.iterator.as_ref().map_or(&[], TableIterator::key)
    }

    #[inline]
    pub(super) fn kind(&self) -> ValueKind {
        self.iterator.as_ref().map_or(ValueKind::Tombstone, TableIterator::kind)
    }

    #[inline]
    pub(super) fn sequence(&self) -> SequenceNumber {
        self.iterator.as_ref().map_or(0, TableIterator::seq)
    }

    #[inline]
    pub(super) fn expires_at(&self) -> u64 {
        self.iterator.as_ref().map_or(0, TableIterator::expires_at)
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        self.iterator.as_ref().map_or(&[], TableIterator::value)
    }

    /// True when a range deletion hides all of table `at` from the snapshot.
    fn is_covered(&self, at: usize) -> bool {
        !self.deleted.is_empty()
            && self.tables().get(at).is_some_and(|table| {
                let record = &table.record;
                let (smallest, largest) = (&record.smallest_key, &record.largest_key);
                self.deleted.hides_all(smallest, largest, record.highest_sequence, self.snapshot)
            })
    }

    /// The first table from `at` on that is not covered; behind the last when all are.
    fn uncovered_from(&self, mut at: usize) -> usize {
        while self.is_covered(at) {
            at += 1;
        }
        at
    }

    /// The last table before `end` that is not covered.
    fn uncovered_before(&self, mut end: usize) -> Option<usize> {
        loop {
            end = end.checked_sub(1)?;
            if !self.is_covered(end) {
                return Some(end);
            }
        }
    }

    /// Goes to table `at`, unpositioned; false when there is none.
    fn enter(&mut self, at: usize) -> Result<bool> {
        if self.iterator.is_some() && self.at == at {
            return Ok(true);
        }
        self.iterator = None;
        let Some(file) = self.tables().get(at).cloned() else { return Ok(false) };
        let Some(table) = file.table()?.as_ref().map(Arc::clone) else { return Ok(false) };
        let summary = table.summary();
        self.plain = summary.max_seq <= self.snapshot && summary.entries == summary.distinct_keys;
        self.at = at;
        let readahead = Readahead::Auto(SCAN_READAHEAD_BYTES);
        self.iterator = Some(TableIterator::new(table, self.blocks.clone(), readahead));
        Ok(true)
    }

    /// From wherever the table iterator stands, goes forward to a visible version that is the
    /// newest of its key, into later tables if need be. `skipping` says that versions of the key
    /// in `self.key` were answered already.
    fn settle_forward(&mut self, mut skipping: bool) -> Result<()> {
        loop {
            let Some(iterator) = &mut self.iterator else { return Ok(()) };
            while iterator.valid() {
                if self.plain {
                    return Ok(());
                }
                let answered = skipping && iterator.key() == self.key.as_slice();
                if !answered && iterator.seq() <= self.snapshot {
                    return Ok(());
                }
                iterator.next()?;
            }
            let next = self.uncovered_from(self.at + 1);
            if !self.enter(next)? {
                return Ok(());
            }
            skipping = false;
            if let Some(iterator) = &mut self.iterator {
                iterator.seek_to_first()?;
            }
        }
    }

    /// From wherever the table iterator stands, goes backward to a key that has a visible version
    /// and stands on the newest such. `skipping` as for [`RunSource::settle_forward`].
    fn settle_backward(&mut self, mut skipping: bool) -> Result<()> {
        loop {
            let Some(iterator) = &mut self.iterator else { return Ok(()) };
            while iterator.valid() {
                if self.plain {
                    return Ok(());
                }
                let answered = skipping && iterator.key() == self.key.as_slice();
                if !answered && iterator.seq() <= self.snapshot {
                    return Self::newest_visible(iterator, &mut self.key, self.snapshot);
                }
                iterator.prev()?;
            }
            skipping = false;
            let Some(before) = self.uncovered_before(self.at) else {
                self.iterator = None;
                return Ok(());
            };
            if !self.enter(before)? {
                return Ok(());
            }
            if let Some(iterator) = &mut self.iterator {
                iterator.seek_to_last()?;
            }
        }
    }

    /// The iterator stands on a visible version of a key, with newer ones in front of it: goes to
    /// the newest that is visible.
    fn newest_visible(
        iterator: &mut Tables,
        key: &mut Vec<u8>,
        snapshot: SequenceNumber,
    ) -> Result<()> {
        key.clear();
        key.extend_from_slice(iterator.key());
        loop {
            iterator.prev()?;
            let better =
                iterator.valid() && iterator.key() == key.as_slice() && iterator.seq() <= snapshot;
            if !better {
                break;
            }
        }
        // One step too far, or off the front of the table.
        if iterator.valid() { iterator.next() } else { iterator.seek_to_first() }
    }

    pub(super) fn seek(&mut self, key: &[u8]) -> Result<()> {
        let at = self.tables().partition_point(|t| t.record.largest_key.as_slice() < key);
        if self.enter(self.uncovered_from(at))?
            && let Some(iterator) = &mut self.iterator
        {
            iterator.seek_version(key, self.snapshot)?;
        }
        self.settle_forward(false)
    }

    pub(super) fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        let after = self.tables().partition_point(|t| t.record.smallest_key.as_slice() <= key);
        let Some(at) = self.uncovered_before(after) else {
            self.iterator = None;
            return Ok(());
        };
        if self.enter(at)?
            && let Some(iterator) = &mut self.iterator
        {
            iterator.seek_for_prev(key)?;
        }
        self.settle_backward(false)
    }

    pub(super) fn seek_to_first(&mut self) -> Result<()> {
        if self.enter(self.uncovered_from(0))?
            && let Some(iterator) = &mut self.iterator
        {
            iterator.seek_to_first()?;
        }
        self.settle_forward(false)
    }

    pub(super) fn seek_to_last(&mut self) -> Result<()> {
        let Some(last) = self.uncovered_before(self.tables().len()) else {
            self.iterator = None;
            return Ok(());
        };
        if self.enter(last)?
            && let Some(iterator) = &mut self.iterator
        {
            iterator.seek_to_last()?;
        }
        self.settle_backward(false)
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<()> {
        let Some(iterator) = &mut self.iterator else { return Ok(()) };
        if !self.plain {
            self.key.clear();
            self.key.extend_from_slice(iterator.key());
        }
        iterator.next()?;
        if self.plain && iterator.valid() {
            return Ok(());
        }
        let skipping = !self.plain;
        self.settle_forward(skipping)
    }

    pub(super) fn prev(&mut self) -> Result<()> {
        let Some(iterator) = &mut self.iterator else { return Ok(()) };
        if !self.plain {
            self.key.clear();
            self.key.extend_from_slice(iterator.key());
        }
        iterator.prev()?;
        let skipping = !self.plain;
        self.settle_backward(skipping)
    }
}
