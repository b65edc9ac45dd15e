//! Flush: frozen memtables become tables.
//!
//! A flush writes and syncs its tables, makes sure that the log is on disk as far as other
//! families depend on it, commits one manifest edit, swaps the tables in, and gives up the log
//! segments that nobody needs any more, in this order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::range_tombstone::{RangeTombstone, part_swallowed};
use tidesdb_files::manifest::{Change, TableRecord};
use tidesdb_files::sstable::EntryMeta;
use tidesdb_lockfree::sync::lock;

use crate::compaction::drop_rules::DropRules;
use crate::compaction::rewrite::{Rewriter, ValueRewrite};
use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::flow::{FamilyFlow, FlushMeter, Holder, TABLE_WRITER_BYTES, TABLE_WRITER_ENTRY_BYTES};
use crate::memtable::{Memtable, kind_of};
use crate::table_output::{OutputPlace, TableOutput, Written, remove_all};
use crate::version::{TableChange, TableFile, ValueLogFile, table_needs, table_overlaps};

/// About what an entry takes in a memtable; only the size of a first allocation follows from it.
const USUAL_ENTRY_BYTES: u64 = 128;

/// Bytes between two reports of progress.
const PROGRESS_BYTES: u64 = 256 << 10;

/// Tables of one memtable, written and synced.
struct Flushed {
    family: Arc<FamilyState>,
    memtable: Arc<Memtable>,
    written: Written,
    /// Range deletions of the memtable that readers and merges still need.
    range_tombstones: Vec<Arc<RangeTombstone>>,
}

impl Flushed {
    /// The range deletions that hide something in a table. `flushes` are all that are installed
    /// together with this one.
    fn needed_tombstones(&self, flushes: &[Self]) -> Vec<Arc<RangeTombstone>> {
        if self.range_tombstones.is_empty() {
            return Vec::new();
        }
        let version = Arc::clone(&self.family.view.load().version);
        let same_family = flushes.iter().filter(|other| Arc::ptr_eq(&other.family, &self.family));
        let new: Vec<&TableRecord> =
            same_family.flat_map(|flushed| &flushed.written.tables).collect();
        let needed = |tombstone: &&Arc<RangeTombstone>| {
            let needs = |table: &&TableRecord| {
                table_overlaps(table, tombstone) && table_needs(table, tombstone)
            };
            version.needs_tombstone(tombstone) || new.iter().any(needs)
        };
        self.range_tombstones.iter().filter(needed).cloned().collect()
    }
}

/// Tells waiting writers how far a flush has got.
struct FlushProgress<'a> {
    meter: &'a FlushMeter,
    family: &'a FamilyFlow,
    untold_bytes: u64,
}

impl<'a> FlushProgress<'a> {
    fn new(meter: &'a FlushMeter, family: &'a FamilyFlow) -> Self {
        // ORDERING: relaxed here and below; estimates.
        family.flushed_bytes.store(0, Ordering::Relaxed);
        Self { meter, family, untold_bytes: 0 }
    }

    fn add(&mut self, bytes: usize) {
        self.untold_bytes += bytes as u64;
        if self.untold_bytes >= PROGRESS_BYTES {
            self.family.flushed_bytes.fetch_add(self.untold_bytes, Ordering::Relaxed);
            self.meter.advanced(self.untold_bytes);
            self.untold_bytes = 0;
        }
    }
}

impl Core {
    /// Writes out the oldest frozen memtable of a family. False when there is none.
    ///
    /// # Errors
    /// [`Error::Io`] when files can't be written; the memtable stays, and so does its log.
    pub(crate) fn flush_oldest(&self, family: &Arc<FamilyState>) -> Result<bool> {
        let view = family.view.load_full();
        let Some(memtable) = view.frozen.last().map(Arc::clone) else { return Ok(false) };
        self.check_disk_space(family)?;
        let (started, bytes) = (self.clock.monotonic_nanos(), memtable.used_bytes());
        let flushed = self.write_tables(family, &view, memtable)?;
        let boundary = flushed.memtable.sealed_through();
        if self.others_depend_on_log(family, boundary)
            && !cfg!(planted_bug = "flush_before_log_sync")
            && let Err(e) = self.log.sync_through(boundary)
        {
            remove_all(self.vfs.as_ref(), &flushed.written.paths);
            return Err(e);
        }
        self.install(vec![flushed])?;
        let nanos = self.clock.monotonic_nanos().saturating_sub(started);
        self.flow.flushes.finished(bytes, nanos);
        self.review_memory();
        Ok(true)
    }

    /// Writes out all frozen memtables of all families in one manifest edit. The log may be
    /// unreadable from some point on: afterwards nothing needs it.
    ///
    /// # Errors
    /// As [`Core::flush_oldest`].
    pub(crate) fn flush_everything_at_once(&self) -> Result<()> {
        let mut all = Vec::new();
        for family in self.families.all() {
            let view = family.view.load_full();
            for memtable in view.frozen.iter().rev() {
                all.push(self.write_tables(&family, &view, Arc::clone(memtable))?);
            }
        }
        self.install(all)
    }

    /// Whether a power cut that takes the log's unsynced part, with a flush of `family` through
    /// `boundary` on disk, could tear a commit or leave a hole: some other family has commits in
    /// that part of the log.
    fn others_depend_on_log(&self, family: &Arc<FamilyState>, boundary: u64) -> bool {
        self.families.all().iter().any(|other| {
            !Arc::ptr_eq(other, family) && other.view.load().first_unflushed() <= boundary
        })
    }

    fn check_disk_space(&self, family: &FamilyState) -> Result<()> {
        let least = family.options.load().min_disk_space;
        let free = self.vfs.free_bytes(&self.path);
        match free {
            Ok(free) if free < least => Err(Error::io(
                "reserve space for tables",
                &self.path,
                std::io::Error::new(
                    std::io::ErrorKind::StorageFull,
                    format!("{free} bytes are free, min_disk_space is {least}"),
                ),
            )),
            // Not knowing is no reason to refuse: the writes themselves will tell.
            _ => Ok(()),
        }
    }

    fn write_tables(
        &self,
        family: &Arc<FamilyState>,
        view: &View,
        memtable: Arc<Memtable>,
    ) -> Result<Flushed> {
        let options = family.options.load_full();
        // Listed before the first version is read: later snapshots see the newest of each key.
        let snapshots = self.snapshots.list();
        let oldest = view.frozen.last().is_some_and(|last| Arc::ptr_eq(last, &memtable));
        let bottom = oldest && view.version.runs.is_empty();
        let mut range_tombstones = memtable.range_tombstones();
        let (own, _) = part_swallowed(range_tombstones.iter().cloned().collect(), &snapshots);
        range_tombstones.extend([Arc::clone(&view.version.range_tombstones)]);
        let rules = DropRules::new(snapshots, bottom, self.clock.unix_seconds())
            .with_range_tombstones(range_tombstones);
        let expected_entries = memtable.used_bytes() / USUAL_ENTRY_BYTES;
        let buffers = TABLE_WRITER_BYTES + expected_entries * TABLE_WRITER_ENTRY_BYTES;
        let _lent = self.budget.lend(Holder::Background, buffers);
        let place = OutputPlace {
            level: 1,
            run: self.numbers.next(),
            table_bytes: options.target_table_bytes,
            range_deletes_applied_through: rules.range_deletes_applied_through(),
            expected_entries: usize::try_from(expected_entries).unwrap_or(0),
        };
        let no_values = ValueRewrite::default();
        let output = TableOutput::new(self, &options, place);
        let mut rewriter = Rewriter::new(rules, output, &no_values);
        let mut cursor = memtable.cursor();
        cursor.seek_to_first();
        let mut progress = FlushProgress::new(&self.flow.flushes, &family.flow);
        while cursor.valid() {
            for version in cursor.versions() {
                progress.add(cursor.key().len() + version.value.len());
                let meta = EntryMeta {
                    seq: version.seq,
                    kind: kind_of(&version),
                    expires_at: version.expires_at,
                };
                rewriter.push(cursor.key(), meta, version.value)?;
            }
            cursor.next();
        }
        drop(cursor);
        let (family, written) = (Arc::clone(family), rewriter.complete()?);
        Ok(Flushed { family, memtable, written, range_tombstones: own })
    }

    /// Commits the manifest edit of finished flushes and swaps their tables in.
    fn install(&self, mut flushes: Vec<Flushed>) -> Result<()> {
        let mut catalog = lock(&self.catalog);
        let needed: Vec<_> = flushes.iter().map(|f| f.needed_tombstones(&flushes)).collect();
        for (flushed, needed) in flushes.iter_mut().zip(needed) {
            flushed.range_tombstones = needed;
        }
        let mut changes = Vec::new();
        for flushed in flushes.iter().filter(|flushed| !flushed.family.is_dropped()) {
            let family = flushed.family.id;
            let boundary = flushed.memtable.sealed_through();
            for table in &flushed.written.tables {
                changes.push(Change::AddTable { family, table: table.clone() });
            }
            if let Some(file) = flushed.written.value_log {
                changes.push(Change::AddValueLog { family, file });
            }
            for tombstone in &flushed.range_tombstones {
                let tombstone = Arc::clone(tombstone);
                changes.push(Change::AddRangeTombstone { family, tombstone });
            }
            changes.push(Change::FlushedThrough { family, sequence: boundary });
            changes.push(Change::LastSequence { sequence: boundary });
        }
        let needed_from = self.first_needed_position(&flushes);
        let segment = self.log.first_needed_segment(needed_from);
        // The manifest must not name a segment that a power cut can take with its name.
        if let Err(e) = self.log.sync_names() {
            for flushed in &flushes {
                remove_all(self.vfs.as_ref(), &flushed.written.paths);
            }
            return Err(e);
        }
        changes.push(Change::LogStart { segment });
        // What lies in front of that is in tables, or of dropped families, and not replayed.
        changes.push(Change::LastSequence { sequence: needed_from });
        if cfg!(planted_bug = "log_released_before_the_edit") {
            self.log.retire_before(needed_from);
        }
        if let Err(e) = catalog.commit(changes) {
            if catalog.is_certain() {
                for flushed in &flushes {
                    remove_all(self.vfs.as_ref(), &flushed.written.paths);
                }
            }
            return Err(e);
        }
        for flushed in flushes {
            if flushed.family.is_dropped() {
                remove_all(self.vfs.as_ref(), &flushed.written.paths);
            }
            self.swap_in(flushed);
        }
        drop(catalog);
        self.log.retire_before(needed_from);
        Ok(())
    }

    /// Log position up to which all commits are in tables once `flushes` are. The published
    /// position is read first: whatever is published later lies behind it.
    fn first_needed_position(&self, flushes: &[Flushed]) -> u64 {
        let published = self.log.published();
        let first_in_memory = self.families.all().into_iter().map(|family| {
            let view = family.view.load();
            let frozen = view.frozen.iter().filter(|memtable| {
                !flushes.iter().any(|flushed| Arc::ptr_eq(&flushed.memtable, memtable))
            });
            frozen.map(|m| m.first_sequence()).fold(view.active.first_sequence(), u64::min)
        });
        // The record that a sequence number names ends there, so it begins before.
        first_in_memory.min().map_or(published, |first| published.min(first.saturating_sub(1)))
    }

    fn swap_in(&self, flushed: Flushed) {
        let Flushed { family, memtable, written, range_tombstones } = flushed;
        let counters = &family.counters;
        // ORDERING: statistics.
        counters.flush_bytes.fetch_add(written.bytes, Ordering::Relaxed);
        counters.flush_count.fetch_add(written.tables.len() as u64, Ordering::Relaxed);
        let tables: Vec<_> =
            written.tables.into_iter().map(|record| TableFile::new(&self.files, record)).collect();
        let value_log = written
            .value_log
            .map(|record| Arc::new(ValueLogFile::new(&self.files, record.number, record.bytes)));
        // ORDERING: relaxed; an estimate. What is the oldest from now on was not begun.
        family.flow.flushed_bytes.store(0, Ordering::Relaxed);
        family.change_view(|view| {
            let change = TableChange { added: tables, ..TableChange::default() };
            let mut version = view.version.with_tables(change);
            if let Some(file) = value_log {
                version.value_logs.insert(file.number, file);
            }
            version.add_tombstones(&range_tombstones);
            for file in version.value_logs.values() {
                file.unpin(memtable.sealed_through());
            }
            let frozen =
                view.frozen.iter().filter(|m| !Arc::ptr_eq(m, &memtable)).cloned().collect();
            View { active: Arc::clone(&view.active), frozen, version: Arc::new(version) }
        });
    }
}
