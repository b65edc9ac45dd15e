//! Writing the tables of one memtable.
//!
//! A flush that one thread could not do as fast as writers fill memtables is cut at keys of the
//! memtable, and free threads of the compaction lane help with the parts. All parts belong to
//! one run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Result;
use tidesdb_base::options::FamilyOptions;
use tidesdb_base::range_tombstone::{RangeTombstoneSets, part_swallowed};
use tidesdb_files::sstable::EntryMeta;

use super::Flushed;
use crate::core::Core;
use crate::family::{FamilyState, SliceBounds, View};
use crate::flow::{ENTRY_OVERHEAD_BYTES, FamilyFlow, FlushMeter, flush_parts};
use crate::memory::{Holder, table_writer_bytes};
use crate::memtable::{Memtable, kind_of};
use crate::output::drop_rules::DropRules;
use crate::output::key_partitions::{KeyPartitions, KeySpan};
use crate::output::parts::OutputParts;
use crate::output::rewrite::{Rewriter, ValueRewrite};
use crate::output::slices;
use crate::output::table_output::{OutputPlace, TableOutput};
use crate::output::written::{Syncs, Written, remove_written};
use crate::version::TableFile;

/// About what an entry takes in a memtable; only the size of a first allocation follows from it.
const USUAL_ENTRY_BYTES: u64 = 128;

/// Bytes between two reports of progress.
const PROGRESS_BYTES: u64 = 256 << 10;

/// A part of a flush takes at least this share of what fills a table.
const LEAST_PART_SHARE: u64 = 8;

/// Reports to waiting writers how far a flush has got.
struct FlushProgress<'a> {
    meter: &'a FlushMeter,
    family: &'a FamilyFlow,
    untold_bytes: u64,
}

impl FlushProgress<'_> {
    /// Adds an entry with so many bytes of key and value: what it took in the memtable.
    fn add(&mut self, bytes: usize) {
        self.untold_bytes += bytes as u64 + ENTRY_OVERHEAD_BYTES;
        if self.untold_bytes >= PROGRESS_BYTES {
            // ORDERING: relaxed; an estimate.
            self.family.flushed_bytes.fetch_add(self.untold_bytes, Ordering::Relaxed);
            self.meter.advanced(self.untold_bytes);
            self.untold_bytes = 0;
        }
    }
}

/// A memtable being written, shared by the threads that do its parts.
struct MemtableFlush {
    family: Arc<FamilyState>,
    options: Arc<FamilyOptions>,
    memtable: Arc<Memtable>,
    snapshots: Vec<SequenceNumber>,
    range_tombstones: RangeTombstoneSets,
    slice_bounds: SliceBounds,
    /// Nothing older lies below.
    bottom: bool,
    now: u64,
    run: u64,
    /// Entries of a part, about.
    expected_entries: u64,
    /// Time that all threads took together.
    thread_nanos: AtomicU64,
}

impl MemtableFlush {
    fn write_part(&self, core: &Core, range: &KeySpan) -> Result<Written> {
        let started = core.env.clock.monotonic_nanos();
        let buffers = table_writer_bytes(&self.options, self.expected_entries);
        let _reservation = core.memory.budget.reserve(Holder::Background, buffers);
        let rules = DropRules::new(self.snapshots.clone(), self.bottom, self.now)
            .with_range_tombstones(self.range_tombstones.clone());
        let place = OutputPlace {
            level: 1,
            run: self.run,
            table_bytes: self.options.target_table_bytes.min(core.env.largest_table_bytes()),
            range_deletes_applied_through: rules.range_deletes_applied_through(),
            expected_entries: usize::try_from(self.expected_entries).unwrap_or(0),
            syncs: Syncs::Together,
        };
        let no_values = ValueRewrite::default();
        let bounds = Arc::clone(&self.slice_bounds);
        let parts = OutputParts { env: &core.env, memory: &core.memory, storage: &core.storage };
        let output = TableOutput::new(parts, &self.family, &self.options, place, bounds);
        let mut rewriter = Rewriter::new(rules, output, &no_values).cancelling_pairs();
        let (meter, family) = (&core.flow.flushes, &self.family.writes.flow);
        let mut progress = FlushProgress { meter, family, untold_bytes: 0 };
        let mut cursor = self.memtable.cursor();
        match &range.from {
            Some(from) => cursor.seek(from),
            None => cursor.seek_to_first(),
        }
        // What lies above the boundary was refused, and is dropped with the memtable.
        let boundary = self.memtable.sealed_through();
        while cursor.valid() && range.is_before_end(cursor.key()) {
            for version in cursor.versions().skip_while(|version| version.seq > boundary) {
                progress.add(cursor.key().len() + version.value.len());
                let meta = EntryMeta {
                    seq: version.seq,
                    kind: kind_of(&version),
                    expires_at: version.expires_at,
                };
                let version = (cursor.key(), meta, version.value);
                rewriter.push(version, || core.env.path.clone())?;
            }
            cursor.next();
        }
        let written = rewriter.complete()?;
        let nanos = core.env.clock.monotonic_nanos().saturating_sub(started);
        // ORDERING: read after all parts have ended.
        self.thread_nanos.fetch_add(nanos, Ordering::Relaxed);
        Ok(written)
    }
}

impl Core {
    /// Writes and syncs the tables of `memtable`, which is one of `view`.
    pub(super) fn write_tables(
        &self,
        family: &Arc<FamilyState>,
        view: &View,
        memtable: Arc<Memtable>,
    ) -> Result<Flushed> {
        let started_nanos = self.env.clock.monotonic_nanos();
        let options = family.options.load_full();
        let (bytes, parts) = (memtable.used_bytes(), self.parts_of(&memtable, &options));
        // Listed before the first version is read: later snapshots see the newest of each key.
        let snapshots = self.isolation.snapshots.list();
        let oldest = view.frozen.last().is_some_and(|last| Arc::ptr_eq(last, &memtable));
        let mut range_tombstones = memtable.range_tombstones();
        let (own, _) = part_swallowed(range_tombstones.iter().cloned().collect(), &snapshots);
        range_tombstones.extend(view.version.range_tombstones.as_slice().iter().cloned());
        // ORDERING: relaxed; an estimate.
        family.writes.flow.flushed_bytes.store(0, Ordering::Relaxed);
        self.flow.flushes.begun(started_nanos);
        let slice_bounds = slices::renew(family, &view.version);
        let slice_bounds = slices::for_flush(&slice_bounds, bytes, options.target_table_bytes);
        let flush = Arc::new(MemtableFlush {
            family: Arc::clone(family),
            options,
            expected_entries: bytes / USUAL_ENTRY_BYTES / parts.len() as u64,
            memtable: Arc::clone(&memtable),
            snapshots,
            range_tombstones,
            slice_bounds,
            bottom: oldest && view.version.runs.is_empty(),
            now: self.expired_for_all(),
            run: self.storage.numbers.next(),
            thread_nanos: AtomicU64::new(0),
        });
        let shared = Arc::clone(&flush);
        let work = move |core: &Core, range: &KeySpan| shared.write_part(core, range);
        let results = KeyPartitions::new(parts).run(self, &Arc::new(work));
        if let Some(failure) = results.failure {
            remove_written(self.env.vfs.as_ref(), &results.done);
            return Err(failure);
        }
        let mut written = results.done.into_iter().fold(Written::default(), Written::and);
        if let Err(failure) = written.sync(&self.storage) {
            remove_written(self.env.vfs.as_ref(), &[written]);
            return Err(failure);
        }
        // ORDERING: all parts have ended.
        let thread_nanos = flush.thread_nanos.load(Ordering::Relaxed);
        let family = Arc::clone(family);
        let files = &self.storage.files;
        let tables = written.tables.iter().cloned();
        let tables = tables.map(|record| TableFile::new(files, record)).collect();
        let value_logs = written.value_log_files().collect();
        Ok(Flushed {
            family,
            memtable,
            written,
            tables,
            value_logs,
            range_tombstones: own,
            started_nanos,
            thread_nanos,
        })
    }

    fn parts_of(&self, memtable: &Memtable, options: &FamilyOptions) -> Vec<KeySpan> {
        let bytes = memtable.used_bytes();
        let worth = bytes / (options.target_table_bytes / LEAST_PART_SHARE).max(1);
        let most = worth.min(1 + self.env.options.resolved_compaction_threads() as u64);
        let rate = self.flow.flushes.thread_bytes_per_second();
        let parts = flush_parts(bytes, memtable.fill_nanos(), rate, most);
        KeySpan::between(memtable.keys_between(parts))
    }
}
