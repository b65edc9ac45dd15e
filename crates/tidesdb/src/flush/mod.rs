//! Flush: frozen memtables become tables.
//!
//! A flush writes and syncs its tables, makes sure that the log is on disk as far as other
//! families depend on it, commits one manifest edit, swaps the tables in, and gives up the log
//! segments that are not needed any more, in this order.

mod consistent_files;
mod prepare;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use self::consistent_files::ConsistentFiles;
use self::prepare::Prepared;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_base::event::{Event, LogLevel};
use tidesdb_base::latency::TimedOperation;
use tidesdb_base::range_tombstone::RangeTombstone;
use tidesdb_files::manifest::{Change, TableRecord};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sync_points::sync_point;
use tidesdb_sys::vfs::Vfs;

use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::memtable::Memtable;
use crate::output::written::{Written, remove_all};
use crate::telemetry::Telemetry;
use crate::telemetry::counters::Work;
use crate::telemetry::spans::span;
use crate::version::{TableFile, ValueLogFile, begin_log_with};

/// Tables of one memtable, written and synced.
struct Flushed {
    family: Arc<FamilyState>,
    memtable: Arc<Memtable>,
    written: Written,
    /// What is in `written`, as it is in versions.
    tables: Vec<Arc<TableFile>>,
    value_logs: Vec<(u64, Arc<ValueLogFile>)>,
    /// Range deletions of the memtable that readers and compactions may still need.
    range_tombstones: Vec<Arc<RangeTombstone>>,
    started_nanos: u64,
    /// Time that all threads took together to write the tables.
    thread_nanos: u64,
}

/// Reports that a memtable was written to so many tables of so many bytes.
fn report_flush(
    telemetry: &Telemetry,
    family: &FamilyState,
    (tables, bytes): (u64, u64),
    nanos: u64,
) {
    if telemetry.events.are_wanted(LogLevel::Info) {
        let (family, milliseconds) = (family.name().to_string(), nanos / 1_000_000);
        telemetry.events.report(&Event::Flushed { family, tables, bytes, milliseconds });
    }
}

/// Removes the files of flushes that come to nothing.
fn remove_outputs(vfs: &dyn Vfs, flushes: &[Flushed]) {
    for flushed in flushes {
        remove_all(vfs, &flushed.written.paths);
    }
}

impl Core {
    /// Writes out the oldest frozen memtable of a family. False when there is none.
    ///
    /// # Errors
    /// [`Error::Io`] when files can't be written; the memtable stays, and so does its log.
    pub(crate) fn flush_oldest(&self, family: &Arc<FamilyState>) -> Result<bool> {
        let one_at_a_time = lock(&family.flushes.writing_out);
        let view = family.view.load_full();
        let Some(memtable) = view.frozen.last().map(Arc::clone) else { return Ok(false) };
        let _span = span!(INFO, "flush", family = family.name(), bytes = memtable.used_bytes());
        self.check_disk_space(family)?;
        let bytes = memtable.used_bytes();
        let flushed = self.write_tables(family, &view, memtable)?;
        let boundary = flushed.memtable.sealed_through();
        if self.families.others_depend_on_log(family, boundary)
            && let Err(e) = self.storage.log.sync_through(boundary)
        {
            remove_all(self.env.vfs.as_ref(), &flushed.written.paths);
            return Err(e);
        }
        let (started, thread_nanos) = (flushed.started_nanos, flushed.thread_nanos);
        let written = (flushed.written.tables.len() as u64, flushed.written.bytes);
        self.install(vec![flushed])?;
        drop(one_at_a_time);
        let nanos = self.env.clock.monotonic_nanos().saturating_sub(started);
        self.flow.flushes.finished(bytes, nanos, thread_nanos);
        report_flush(&self.telemetry, family, written, nanos);
        self.review_memory();
        Ok(true)
    }

    /// Writes out all frozen memtables of all families in one manifest edit. The log may be
    /// unreadable from some point on: afterwards nothing needs it.
    ///
    /// # Errors
    /// As [`Core::flush_oldest`].
    pub(crate) fn flush_everything_at_once(&self) -> Result<()> {
        let mut families = self.families.all();
        // In the order of numbers, which never change.
        families.sort_by_key(|family| family.id);
        let _one_at_a_time: Vec<_> =
            families.iter().map(|family| lock(&family.flushes.writing_out)).collect();
        self.install(self.write_frozen(&families, SequenceNumber::MAX)?)
    }

    /// Writes out all memtables of these families that were frozen at this point or before. The
    /// caller holds `writing_out` of each.
    fn write_frozen(
        &self,
        families: &[Arc<FamilyState>],
        through: SequenceNumber,
    ) -> Result<Vec<Flushed>> {
        let mut all = Vec::new();
        for family in families {
            let view = family.view.load_full();
            let frozen = view.frozen.iter().rev();
            for memtable in frozen.take_while(|memtable| memtable.sealed_through() <= through) {
                match self.write_tables(family, &view, Arc::clone(memtable)) {
                    Ok(flushed) => all.push(flushed),
                    Err(e) => {
                        remove_outputs(self.env.vfs.as_ref(), &all);
                        return Err(e);
                    }
                }
            }
        }
        Ok(all)
    }

    fn check_disk_space(&self, family: &FamilyState) -> Result<()> {
        match self.free_and_kept_bytes(family) {
            Some((free, kept)) if free < kept => {
                let why = format!("{free} bytes are free, min_disk_space is {kept}");
                let full = std::io::Error::new(std::io::ErrorKind::StorageFull, why);
                Err(Error::io("reserve space for tables", &self.env.path, full))
            }
            _ => Ok(()),
        }
    }

    /// Commits the manifest edit of finished flushes and swaps their tables in.
    fn install(&self, mut flushes: Vec<Flushed>) -> Result<()> {
        // One that is taken later sees all that is flushed here.
        let oldest_snapshot = self.isolation.snapshots.oldest();
        let (mut catalog, prepared) = self.prepare_flushes(&flushes);
        let needed_from = self.first_needed_position(&flushes);
        let (segment, base) = self.storage.log.first_needed_segment(needed_from);
        // The manifest must not name a segment that a power cut can take with its name.
        if let Err(e) = self.storage.log.sync_names() {
            remove_outputs(self.env.vfs.as_ref(), &flushes);
            return Err(e);
        }
        let mut changes = begin_log_with(segment, base).to_vec();
        let present = flushes.iter_mut().zip(&prepared).filter(|(f, _)| !f.family.is_dropped());
        for (flushed, prepared) in present {
            let family = flushed.family.id;
            let boundary = flushed.memtable.sealed_through();
            let is_of_it = |table: &Arc<TableRecord>| table.highest_sequence <= boundary;
            let tables = &flushed.written.tables;
            debug_assert!(tables.iter().all(is_of_it), "more than was frozen is flushed");
            changes.extend(flushed.written.changes(family));
            for tombstone in &prepared.needed {
                let tombstone = Arc::clone(tombstone);
                changes.push(Change::AddRangeTombstone { family, tombstone });
            }
            changes.push(Change::FlushedThrough { family, sequence: boundary });
            changes.push(Change::LastSequence { sequence: boundary });
        }
        // What lies in front of that is in tables, or of dropped families, and not replayed.
        changes.push(Change::LastSequence { sequence: needed_from });
        let outputs = || flushes.iter().flat_map(|flushed| flushed.written.paths.clone()).collect();
        let committed = catalog.commit_files(changes, outputs);
        if committed.is_err() && catalog.is_on_disk() {
            flushes.iter_mut().for_each(|flushed| flushed.written.note_not_named());
        }
        committed?;
        sync_point("flush in the manifest");
        self.restate_manifest_later(&mut catalog);
        for (mut flushed, prepared) in flushes.into_iter().zip(prepared) {
            if flushed.family.is_dropped() {
                // The drop empties the view, and what is put into it later would stay.
                remove_all(self.env.vfs.as_ref(), &flushed.written.paths);
                continue;
            }
            let forgotten = &flushed.family.reads.forgotten_deletions;
            forgotten.note(&prepared.forgotten, oldest_snapshot);
            flushed.written.keep_value_logs();
            self.swap_in(&flushed, prepared);
        }
        drop(catalog);
        self.storage.log.retire_before(needed_from);
        Ok(())
    }

    /// Log position up to which all commits are in tables once `flushes` are. The published
    /// position is read first: whatever is published later lies behind it.
    fn first_needed_position(&self, flushes: &[Flushed]) -> u64 {
        let published = self.storage.applied_through();
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

    fn swap_in(&self, flushed: &Flushed, prepared: Prepared) {
        let Flushed { family, memtable, written, started_nanos, .. } = flushed;
        let counters = &family.counters;
        counters.add(Work::Flushes, 1);
        let nanos = self.env.clock.monotonic_nanos().saturating_sub(*started_nanos);
        self.telemetry.latencies.record(TimedOperation::Flush, nanos);
        counters.add(Work::FlushNanos, nanos);
        counters.add(Work::FlushBytes, written.bytes);
        counters.add(Work::FlushTables, written.tables.len() as u64);
        // ORDERING: relaxed; an estimate. What is the oldest from now on was not begun.
        family.writes.flow.flushed_bytes.store(0, Ordering::Relaxed);
        family.reads.activity.note_flush();
        family.change_view(|view| {
            let oldest = view.frozen.last();
            debug_assert!(oldest.is_none_or(|m| Arc::ptr_eq(m, memtable)), "an older one is left");
            let version = prepared.next(flushed, &view.version);
            let frozen = view.frozen.iter().filter(|m| !Arc::ptr_eq(m, memtable)).cloned();
            View { active: Arc::clone(&view.active), frozen: frozen.collect(), version }
        });
        let view = family.view.load();
        let left_time = view.active.used_bytes() < family.options.freeze_bytes() / 2;
        if left_time && view.frozen.is_empty() {
            // ORDERING: relaxed; an estimate.
            family.writes.flow.paced.store(false, Ordering::Relaxed);
        }
    }
}
