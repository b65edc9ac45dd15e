//! One table of a family: what the manifest knows of it, and the open file when it is in use.

mod in_parts;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use arc_swap::ArcSwapOption;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::manifest::TableRecord;
use tidesdb_files::naming::FileKind;
use tidesdb_files::sstable::{HeldParts, HeldSizes, Table};
use tidesdb_lockfree::sync::lock;

use self::in_parts::AskedInParts;
pub(crate) use self::in_parts::FilterAnswer;
use super::measured_deletions::{MeasuredDeletions, RangeDeletedSum};
use super::set_aside::SetAside;
use super::table_descriptor::TableDescriptor;
use super::{FileContext, NamedFile};
use crate::cache::{Claim, HeldTable};
use crate::memory::Holder;

/// An open table that stays open while this is held; nothing when it was not open.
pub(crate) type OpenTable = arc_swap::Guard<Option<Arc<Table>>>;

/// A table of a family. Another family that has the same file has an own one of these.
#[derive(Debug)]
pub(crate) struct TableFile {
    /// Level and run are those that the table was opened or written with: a table that was moved
    /// since is elsewhere, see `Run`.
    pub record: Arc<TableRecord>,
    file: Arc<NamedFile>,
    open: ArcSwapOption<Table>,
    /// Used in this period of [`crate::cache::TableMemory`].
    recently_used: AtomicBool,
    /// What gets asked of it while it was held in parts.
    asked_in_parts: AskedInParts,
    /// Bytes of the run that the table belongs to in the newest version.
    run_bytes: AtomicU64,
    /// [`crate::cache::TableMemory`] knows the table.
    was_opened: AtomicBool,
    pub set_aside: SetAside,
    /// Whether it holds one version of each key, and when the first of them expires (0 for never),
    /// once it was asked for: a table is not opened again and again for what never changes.
    contents: OnceLock<(bool, u64)>,
    /// How much of it range tombstones hide, as far as that was measured.
    pub(super) measured: Mutex<MeasuredDeletions>,
}

impl TableFile {
    /// The table of this record; opened at its first use.
    pub(crate) fn new(
        context: &Arc<FileContext>,
        record: impl Into<Arc<TableRecord>>,
    ) -> Arc<Self> {
        let record = record.into();
        let file = NamedFile::new(context, FileKind::Table(record.number));
        Self::of(file, record)
    }

    /// As [`TableFile::new`], of a file that other families may have as well.
    pub(crate) fn of(file: Arc<NamedFile>, record: Arc<TableRecord>) -> Arc<Self> {
        let budget = &file.context().budget;
        budget.take(Holder::TableRecords, known_bytes(&record));
        let set_aside = SetAside::new(&file.context().set_aside_changes);
        Arc::new(Self {
            record,
            file,
            open: ArcSwapOption::empty(),
            recently_used: AtomicBool::new(false),
            asked_in_parts: AskedInParts::default(),
            run_bytes: AtomicU64::new(u64::MAX),
            was_opened: AtomicBool::new(false),
            set_aside,
            contents: OnceLock::new(),
            measured: Mutex::default(),
        })
    }

    /// The table if it is open.
    #[inline]
    pub(crate) fn if_open(&self) -> OpenTable {
        self.open.load()
    }

    /// The open table, with its index and filter in memory.
    ///
    /// # Errors
    /// [`Error::Corruption`] when the file is missing, damaged, or not the one that the manifest
    /// names; [`Error::Closed`] when it was not opened before the database was closed;
    /// [`Error::Io`].
    #[inline]
    pub(crate) fn table(self: &Arc<Self>) -> Result<OpenTable> {
        self.opened(self.if_open())
    }

    /// As [`TableFile::table`], with what [`TableFile::if_open`] returned.
    ///
    /// # Errors
    /// As [`TableFile::table`].
    #[inline]
    pub(crate) fn opened(self: &Arc<Self>, open: OpenTable) -> Result<OpenTable> {
        if open.is_some() {
            // A load first: the flag is nearly always set, and a store would bounce its line.
            // ORDERING: relaxed; a hint.
            if !self.recently_used.load(Ordering::Relaxed) {
                self.recently_used.store(true, Ordering::Relaxed);
            }
            return Ok(open);
        }
        drop(open);
        self.open_file()
    }

    /// Notes how many bytes the run has that the table belongs to.
    pub(super) fn set_run_bytes(&self, bytes: u64) {
        // ORDERING: relaxed; a hint.
        self.run_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What range tombstones hide of the table counts in the sum of a run.
    pub(super) fn count_range_deleted_in(&self, sum: &RangeDeletedSum) {
        lock(&self.measured).count_in(sum);
    }

    /// A get asks each run for its key, so the smaller a run is, the more often it is asked for
    /// each byte of its indexes and filters.
    fn claim(&self) -> Claim {
        // ORDERING: relaxed; a hint.
        Claim::OfRun(self.run_bytes.load(Ordering::Relaxed))
    }

    #[cold]
    fn open_file(self: &Arc<Self>) -> Result<OpenTable> {
        self.open_as(|sizes| self.file.context().table_memory.make_room(sizes))
    }

    fn open_as(self: &Arc<Self>, choose: impl FnOnce(HeldSizes) -> HeldParts) -> Result<OpenTable> {
        let (number, context) = (self.record.number, self.file.context());
        let file = TableDescriptor::open(&self.file)?;
        let mut table = Table::open_within(file, self.path(), number, choose)?;
        if !table.is_in_parts() {
            let budget = Arc::clone(&context.budget);
            table = table.holding_nodes(budget);
        }
        let (found, known) = (table.summary().entries, self.record.entries);
        if found != known || table.summary().file_len != self.record.bytes {
            let detail = format!("expected {known} entries, as the manifest says, found {found}");
            return Err(Error::corruption(self.path(), 0, detail));
        }
        let (summary, record) = (table.summary(), &self.record);
        if summary.min_key < record.smallest_key || summary.max_key > record.largest_key {
            let found = format!("{:02x?} to {:02x?}", summary.min_key, summary.max_key);
            let (from, to) = (&record.smallest_key, &record.largest_key);
            let detail = format!("expected keys {from:02x?} to {to:02x?}, found {found}");
            return Err(Error::corruption(self.path(), 0, detail));
        }
        // Until its last reader has gone: a scan may hold it long after it was closed here.
        let budget = Arc::clone(&context.budget);
        let table = Arc::new(table.counted_in(budget));
        // ORDERING: relaxed; a hint. An opened table was used.
        self.recently_used.store(true, Ordering::Relaxed);
        // Two threads that open it at once store one after the other; the first is let go.
        drop(self.open.swap(Some(Arc::clone(&table))));
        // ORDERING: relaxed; one thread finds that it is the first.
        if !self.was_opened.swap(true, Ordering::Relaxed) {
            let this: Weak<Self> = Arc::downgrade(self);
            context.table_memory.opened(this);
        }
        Ok(arc_swap::Guard::from_inner(Some(table)))
    }

    /// Whether the table holds one version of each key, and none that has expired by `now`: nothing
    /// that a compaction could drop for its own sake.
    ///
    /// # Errors
    /// As [`TableFile::table`].
    pub(crate) fn is_free_of_garbage(self: &Arc<Self>, now_unix_seconds: u64) -> Result<bool> {
        let (is_distinct, expiry) = match self.contents.get() {
            Some(contents) => *contents,
            None => {
                let open = self.table()?;
                let Some(open) = open.as_ref() else { return Ok(false) };
                let summary = open.summary();
                let is_distinct = summary.entries == summary.distinct_keys;
                *self.contents.get_or_init(|| (is_distinct, summary.earliest_expiry))
            }
        };
        let expired = expiry != 0 && expiry <= now_unix_seconds;
        Ok(is_distinct && !expired)
    }

    /// The table as it is for another family, in this run.
    pub(super) fn for_another_family(&self, (level, run): (u32, u64)) -> Arc<Self> {
        let record = TableRecord { level, run, ..(*self.record).clone() };
        Self::of(self.file.named_again(), Arc::new(record))
    }

    /// The table as a forged record would have it.
    #[cfg(test)]
    pub(crate) fn with_entries(&self, entries: u64) -> Arc<Self> {
        let record = TableRecord { entries, ..(*self.record).clone() };
        Self::of(Arc::clone(&self.file), Arc::new(record))
    }

    /// The manifest on disk names the table no more as one of its family.
    pub(crate) fn let_go(&self) {
        self.file.let_go();
    }

    /// Whether others keep the table's space when this family lets go of it.
    ///
    /// # Errors
    /// As [`NamedFile::is_shared`].
    pub(crate) fn is_shared(&self) -> Result<bool> {
        self.file.is_shared()
    }

    /// True once a compaction could not read the table.
    pub(crate) fn is_damaged(&self) -> bool {
        self.set_aside.is_set()
    }

    /// How often a file of its database was set aside, or was no more.
    pub(super) fn set_aside_changes(&self) -> u64 {
        self.file.context().set_aside_changes.count()
    }

    /// Makes sure that so many versions are all that the table holds (I-33).
    ///
    /// # Errors
    /// [`Error::Corruption`].
    pub(crate) fn check_read(&self, versions: u64) -> Result<()> {
        let entries = self.record.entries;
        if versions == entries {
            return Ok(());
        }
        let detail = format!("expected {entries} entries, a compaction found {versions}");
        Err(Error::corruption(self.path(), 0, detail))
    }

    /// Whether the table may hold a key from `start` on and before `end`.
    pub(crate) fn overlaps(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        start.is_none_or(|start| self.record.largest_key.as_slice() >= start)
            && end.is_none_or(|end| self.record.smallest_key.as_slice() < end)
    }

    /// The table's file.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }
}

impl HeldTable for TableFile {
    fn begin_period(&self) -> Option<(HeldParts, Claim)> {
        let held = self.open.load().as_deref().map(Table::held_parts)?;
        // ORDERING: relaxed; a hint.
        let was_used = self.recently_used.swap(false, Ordering::Relaxed);
        Some((held, if was_used { self.claim() } else { Claim::Idle }))
    }

    fn give_way(&self, held: HeldParts, claim: Claim) {
        // ORDERING: relaxed; a hint.
        let is_used = claim == Claim::Idle && self.recently_used.load(Ordering::Relaxed);
        let Some(table) = self.open.load_full().filter(|_| !is_used) else { return };
        // What a scan holds as well takes its memory until the scan lets go of it.
        let is_held = Arc::strong_count(&table) > 2;
        if !is_held && table.held_parts() == held {
            self.close();
        }
    }

    fn close(&self) {
        drop(self.open.swap(None));
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        self.close();
        let budget = &self.file.context().budget;
        budget.give_back(Holder::TableRecords, known_bytes(&self.record));
    }
}

/// What the run that a table belongs to keeps of it, its path, and what the allocator adds to each
/// of its parts, about.
const PLACES_BYTES: usize = 512;

/// What a table takes in memory as long as it is in a version, open or not: for the value logs that
/// it points into, here and in the sums over its run.
fn known_bytes(record: &TableRecord) -> u64 {
    let references = 2 * record.value_references.len() * size_of::<(u64, u64)>();
    (size_of::<TableFile>() + record.memory_bytes() + PLACES_BYTES + references) as u64
}

#[cfg(test)]
mod tests;
