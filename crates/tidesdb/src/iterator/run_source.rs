//! The keys of a sorted run as a snapshot sees them, across its tables.
//!
//! Versions of one key never straddle two tables of a run, so each table is walked by itself. A
//! table of which the snapshot sees nothing, since a range deletion covers it or all of it is
//! newer, is passed over unopened; so is one outside of the scan's bounds. One whose filter of
//! prefixes shows that it holds nothing within the bounds is passed over unread.

use std::path::PathBuf;
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

/// What a scan may be asked for: keys from `lower` on, and before `upper` if there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    pub lower: Vec<u8>,
    pub upper: Option<Vec<u8>>,
}

impl Bounds {
    fn begins_behind(&self, table: &TableFile) -> bool {
        self.upper.as_ref().is_some_and(|upper| *upper <= table.record.smallest_key)
    }

    fn ends_before(&self, table: &TableFile) -> bool {
        table.record.largest_key < self.lower
    }

    /// True when neither `key` nor what follows it is asked for.
    pub(super) fn end_at(&self, key: &[u8]) -> bool {
        self.upper.as_ref().is_some_and(|upper| upper.as_slice() <= key)
    }

    /// True when neither `key` nor what lies in front of it is asked for.
    pub(super) fn begin_behind(&self, key: &[u8]) -> bool {
        key < self.lower.as_slice()
    }
}

/// Walks the keys of run number `run` of a version.
#[derive(Debug)]
pub(super) struct RunSource {
    version: Arc<Version>,
    run: usize,
    snapshot: SequenceNumber,
    blocks: CachedBlocks,
    /// Range deletions, for passing over whole tables; the scan looks at each key.
    deleted: RangeTombstoneSets,
    /// Bounds, likewise.
    bounds: Arc<Bounds>,
    /// The table that is being walked.
    at: usize,
    iterator: Option<Tables>,
    /// Every version of the table is visible and no key has two: each entry is returned.
    plain: bool,
    key: Vec<u8>,
}

impl RunSource {
    pub(super) fn new(
        version: &Arc<Version>,
        run: usize,
        snapshot: SequenceNumber,
        blocks: CachedBlocks,
        (deleted, bounds): (RangeTombstoneSets, Arc<Bounds>),
    ) -> Self {
        Self {
            version: Arc::clone(version),
            run,
            snapshot,
            blocks,
            deleted,
            bounds,
            at: 0,
            iterator: None,
            plain: false,
            key: Vec::new(),
        }
    }

    /// See [`super::source::Source::show_through`].
    pub(super) fn show_through(&mut self, snapshot: SequenceNumber) {
        debug_assert!(snapshot >= self.snapshot, "a scan goes back from {}", self.snapshot);
        self.snapshot = snapshot;
        // Of a table that was not plain the later snapshot may see all.
        if !self.plain {
            self.iterator = None;
        }
    }

    fn tables(&self) -> &[Arc<TableFile>] {
        self.version.runs.get(self.run).map_or(&[], |run| &*run.tables)
    }

    /// The table that it stands in.
    pub(super) fn table_path(&self) -> Option<PathBuf> {
        self.tables().get(self.at).map(|table| table.path().to_path_buf())
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

    #[inline(always)]
    pub(super) fn key_value(&self) -> (&[u8], &[u8]) {
        match &self.iterator {
            Some(iterator) => iterator.key_value(),
            None => (&[], &[]),
        }
    }

    /// True when a range deletion hides all of a table from the snapshot.
    fn is_covered(&self, table: &TableFile) -> bool {
        !self.deleted.is_empty() && {
            let record = &table.record;
            let (smallest, largest) = (&record.smallest_key, &record.largest_key);
            self.deleted.hides_all(smallest, largest, record.highest_sequence, self.snapshot)
        }
    }

    /// True when the snapshot sees nothing within the bounds in a table.
    #[inline]
    fn is_passed_over(&self, table: &Arc<TableFile>) -> Result<bool> {
        if table.record.lowest_sequence > self.snapshot {
            return Ok(true);
        }
        // Without a lower bound there is no prefix that all keys share.
        if self.deleted.is_empty() && self.bounds.lower.is_empty() {
            return Ok(false);
        }
        self.shows_nothing_of(table)
    }

    #[inline(never)]
    fn shows_nothing_of(&self, table: &Arc<TableFile>) -> Result<bool> {
        if self.is_covered(table) {
            return Ok(true);
        }
        let Bounds { lower, upper } = self.bounds.as_ref();
        Ok(!lower.is_empty()
            && !table
                .table()?
                .as_ref()
                .is_none_or(|open| open.may_hold_between(lower, upper.as_deref())))
    }

    /// The first table from `at` on that is not passed over; behind the last when all are.
    fn next_from(&self, mut at: usize) -> Result<usize> {
        while let Some(table) = self.tables().get(at) {
            if self.bounds.begins_behind(table) {
                return Ok(self.tables().len());
            }
            if !self.is_passed_over(table)? {
                break;
            }
            at += 1;
        }
        Ok(at)
    }

    /// The last table before `end` that is not passed over.
    fn last_before(&self, end: usize) -> Result<Option<usize>> {
        let tables = self.tables().iter().enumerate().take(end).rev();
        for (at, table) in tables.take_while(|(_, table)| !self.bounds.ends_before(table)) {
            if !self.is_passed_over(table)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
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
    /// in `self.key` were returned already.
    fn settle_forward(&mut self, mut skipping: bool) -> Result<()> {
        loop {
            let Some(iterator) = &mut self.iterator else { return Ok(()) };
            while iterator.valid() {
                if self.plain {
                    return Ok(());
                }
                let returned = skipping && iterator.key() == self.key.as_slice();
                if !returned && iterator.seq() <= self.snapshot {
                    return Ok(());
                }
                // What the snapshot does not see is walked as far as the scan goes, and no further.
                if self.bounds.end_at(iterator.key()) {
                    self.iterator = None;
                    return Ok(());
                }
                iterator.next()?;
            }
            let next = self.next_from(self.at + 1)?;
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
                let returned = skipping && iterator.key() == self.key.as_slice();
                if !returned && iterator.seq() <= self.snapshot {
                    return Self::newest_visible(iterator, &mut self.key, self.snapshot);
                }
                if self.bounds.begin_behind(iterator.key()) {
                    self.iterator = None;
                    return Ok(());
                }
                iterator.prev()?;
            }
            skipping = false;
            let Some(before) = self.last_before(self.at)? else {
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
        // A table with a version before this one and one that is not is the only one to look into:
        // those of one key lie in one table.
        if let Some(iterator) = &mut self.iterator
            && iterator.seek_in_block(key, self.snapshot)?
        {
            return self.settle_forward(false);
        }
        let at = self.tables().partition_point(|t| t.record.largest_key.as_slice() < key);
        if self.enter(self.next_from(at)?)?
            && let Some(iterator) = &mut self.iterator
        {
            iterator.seek_version(key, self.snapshot)?;
        }
        self.settle_forward(false)
    }

    pub(super) fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        let after = self.tables().partition_point(|t| t.record.smallest_key.as_slice() <= key);
        let Some(at) = self.last_before(after)? else {
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
        if self.enter(self.next_from(0)?)?
            && let Some(iterator) = &mut self.iterator
        {
            iterator.seek_to_first()?;
        }
        self.settle_forward(false)
    }

    pub(super) fn seek_to_last(&mut self) -> Result<()> {
        let Some(last) = self.last_before(self.tables().len())? else {
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

    #[inline]
    pub(super) fn prev(&mut self) -> Result<()> {
        let Some(iterator) = &mut self.iterator else { return Ok(()) };
        if !self.plain {
            self.key.clear();
            self.key.extend_from_slice(iterator.key());
        }
        iterator.prev()?;
        if self.plain && iterator.valid() {
            return Ok(());
        }
        let skipping = !self.plain;
        self.settle_backward(skipping)
    }
}

#[cfg(test)]
mod tests;
