//! Values too large for the log: written once, at commit, straight into a value log.
//!
//! The bytes are on disk before the log record that points at them is written, so no crash can
//! leave a pointer without its value. The file is named by the manifest before the first pointer
//! into it exists, and pinned until the commits that point into it are in tables.

use std::sync::{Arc, MutexGuard};

use tidesdb_base::entry::ValueKind;
use tidesdb_base::error::{Error, Result};
use tidesdb_base::limits::MAX_BATCH_BYTES;
use tidesdb_files::manifest::{Change, ValueLogRecord};
use tidesdb_files::naming::FileKind;
use tidesdb_files::vlog::{VlogOptions, VlogSummary, VlogWriter};
use tidesdb_files::wal::{BatchWriter, Operation};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::vfs::OpenMode;

use super::WriteBatch;
use super::batch::DirectValue;
use super::check::CommitCheck;
use super::commit::Visible;
use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::version::{DirectValueWriter, Extent, OpenDirectFile, ValueLogFile, ValueLogLife};

/// A file that is longer than this is closed and another one started.
const FULL_FILE_BYTES: u64 = 256 << 20;

/// Where a file ended before a commit.
#[derive(Clone, Copy, Debug)]
struct FileEnd {
    file: u64,
    summary: VlogSummary,
}

/// A family and its writer, which no other commit uses until the commit is done.
type LockedWriter<'a> = (&'a Arc<FamilyState>, MutexGuard<'a, Option<Box<DirectValueWriter>>>);

/// Where the file of a writer ends; `None` when there is none yet.
fn end_of(writer: &Option<Box<DirectValueWriter>>) -> Option<FileEnd> {
    let writer = writer.as_ref()?;
    Some(FileEnd { file: writer.options.number, summary: writer.summary })
}

impl Core {
    pub(super) fn write_with_direct_values(
        &self,
        batch: &WriteBatch,
        check: &mut impl CommitCheck,
    ) -> Result<Visible> {
        // The files are written and cut on this thread: the directory is not given up meanwhile.
        let _at_work = self.work.callers.enter()?;
        // Families in the order of their numbers, so that two such commits can't deadlock.
        let mut families: Vec<&Arc<FamilyState>> =
            batch.direct.iter().map(|value| &value.family).collect();
        families.sort_by_key(|family| family.id);
        families.dedup_by_key(|family| family.id);
        let mut writers: Vec<LockedWriter<'_>> =
            families.iter().map(|family| (*family, lock(&family.writes.direct_values))).collect();
        let mut pointers = Vec::with_capacity(batch.direct.len());
        let ends: Vec<_> = writers.iter().map(|(_, writer)| end_of(writer)).collect();
        for (family, writer) in &mut writers {
            if let Err(error) = self.append_values(family, writer, batch, &mut pointers) {
                self.take_values_back(&mut writers, &ends);
                return Err(error);
            }
        }
        pointers.sort_by_key(|(position, ..)| *position);
        let mut operations = Vec::new();
        let bytes = batch.record.len() + 64 * pointers.len();
        if operations.try_reserve_exact(bytes).is_err() {
            self.take_values_back(&mut writers, &ends);
            return Err(Error::OutOfMemory("the record of a commit"));
        }
        let mut from = 0;
        for (position, value, pointer) in &pointers {
            operations.extend_from_slice(batch.record.get(from..*position).unwrap_or_default());
            from = *position;
            BatchWriter::new(&mut operations).push(Operation {
                family: value.family.id,
                kind: ValueKind::ValuePointer,
                expires_at: value.expires_at,
                key: &value.key,
                value: pointer,
            });
        }
        operations.extend_from_slice(batch.record.get(from..).unwrap_or_default());
        // The locks are held until the commit is done, so that a file is closed only when all
        // commits that point into it have their sequence numbers.
        let committed = self.commit_operations(batch, &operations, check);
        // Of a log that failed it is not certain that the record is gone.
        if committed.is_err() && self.storage.log.failure().is_none() {
            self.take_values_back(&mut writers, &ends);
        } else {
            writers.iter_mut().filter_map(|(_, slot)| slot.as_mut()).for_each(|open| open.keep());
        }
        committed
    }

    /// Gives back the space of values that no commit points at: `ends` says where the files ended
    /// before. Otherwise a call that fails because the disk is full would keep
    /// what was left of it, out of reach of flushes, which the full disk keeps from working too.
    fn take_values_back(&self, writers: &mut [LockedWriter<'_>], ends: &[Option<FileEnd>]) {
        for ((_, slot), end) in writers.iter_mut().zip(ends) {
            let Some(writer) = slot.as_mut() else { continue };
            // A file that was begun for this commit keeps its header.
            let same_file = end.filter(|end| end.file == writer.options.number);
            let summary = same_file.map_or(writer.started_with, |end| end.summary);
            if !writer.cut(summary)
                && let Some(failed) = slot.take()
            {
                // What lies behind is unknown, and the manifest never has the file as closed. The
                // next commit starts another one, and this one goes when nothing points into it any
                // more.
                let extent = Extent::whole(summary.file_len);
                failed.known.change_life(|life| life.close(self.storage.log.published(), extent));
            }
        }
    }

    /// Ends the value log that the family's largest values go to, so that compactions may collect
    /// it once the commits that point into it are in tables. One that is being appended to stays
    /// open. Returns what the manifest is to record, which may as well be lost.
    pub(crate) fn close_direct_file(&self, family: &FamilyState) -> Option<Change> {
        let mut writer = family.writes.direct_values.try_lock().ok()?;
        self.close_locked(family, &mut writer)
    }

    /// Records a closed file in the manifest.
    pub(crate) fn list_closed_file(&self, family: &FamilyState, closed: Change) {
        let mut catalog = lock(&self.storage.catalog);
        let closed = catalog.still_listed([closed]);
        if !family.is_dropped() && !closed.is_empty() {
            // Without it the next opening takes the length of the file.
            let _ = catalog.commit(closed);
        }
    }

    /// As [`Core::close_direct_file`], for a caller who has locked the place of the family's
    /// writer.
    pub(crate) fn close_locked(
        &self,
        family: &FamilyState,
        writer: &mut Option<Box<DirectValueWriter>>,
    ) -> Option<Change> {
        writer.take().map(|open| self.closed(family, &open))
    }

    /// The file is complete. No commit that points into it is under way: it would hold the lock
    /// that the caller holds.
    fn closed(&self, family: &FamilyState, complete: &DirectValueWriter) -> Change {
        let bytes = complete.summary.file_len;
        let through = self.storage.log.published();
        complete.known.change_life(|life| life.close(through, Extent::whole(bytes)));
        let file = ValueLogRecord { number: complete.options.number, bytes };
        Change::AddValueLog { family: family.id, file }
    }

    /// Appends and syncs the values of one family.
    fn append_values<'a>(
        &self,
        family: &Arc<FamilyState>,
        writer: &mut Option<Box<DirectValueWriter>>,
        batch: &'a WriteBatch,
        pointers: &mut Vec<(usize, &'a DirectValue, Vec<u8>)>,
    ) -> Result<()> {
        let full = writer.take_if(|open| open.summary.file_len >= FULL_FILE_BYTES);
        let closed = full.map(|full| self.closed(family, &full));
        if writer.is_none() {
            *writer = Some(Box::new(self.start_direct_file(family, closed)?));
        }
        let Some(writer) = writer else { return Ok(()) };
        let open = writer.open(self.env.vfs.as_ref())?;
        for value in batch.direct.iter().filter(|value| value.family.id == family.id) {
            let pointer = open.writer.append(&value.value)?;
            let mut encoded = Vec::new();
            pointer.encode(&mut encoded);
            pointers.push((value.position, value, encoded));
        }
        let encoded: usize = pointers.iter().map(|(_, value, _)| value.key.len() + 64).sum();
        if batch.record.len() + encoded > MAX_BATCH_BYTES {
            return Err(Error::TooLarge {
                what: "write batch",
                size: (batch.record.len() + encoded) as u64,
                limit: MAX_BATCH_BYTES as u64,
            });
        }
        open.writer.flush()?;
        if let Err(e) = open.file.sync_data() {
            // What a failed sync leaves behind is unknown, so it is final for the file.
            open.sync_failed = true;
            return Err(Error::io("sync", &writer.path, e));
        }
        Ok(())
    }

    /// Starts another file, and records the one before in the manifest with the same edit.
    fn start_direct_file(
        &self,
        family: &Arc<FamilyState>,
        closed: Option<Change>,
    ) -> Result<DirectValueWriter> {
        let number = self.storage.numbers.next();
        let path = self.env.path.join(FileKind::ValueLog(number).name());
        let file = self.env.vfs.open(&path, OpenMode::CreateNew);
        let file = file.map_err(|e| Error::io("create", &path, e))?;
        let compression = family.options.load().compression;
        let options = VlogOptions { number, compression };
        let started = VlogWriter::new(Arc::clone(&file), &path, options).and_then(|mut writer| {
            writer.flush()?;
            file.sync_data().map_err(|e| Error::io("sync", &path, e))?;
            self.env
                .vfs
                .sync_dir(&self.env.path)
                .map_err(|e| Error::io("sync", &self.env.path, e))?;
            Ok(writer)
        });
        let writer = started.inspect_err(|_| {
            let _ = self.env.vfs.remove(&path);
        })?;
        let life = ValueLogLife::Appending { bytes: writer.file_len() };
        let known = ValueLogFile::new(&self.storage.files, number, life);
        let mut catalog = lock(&self.storage.catalog);
        if family.is_dropped() {
            let _ = self.env.vfs.remove(&path);
            return Err(family.dropped_error());
        }
        let begun = Change::AddValueLog { family: family.id, file: ValueLogRecord::open(number) };
        let mut changes = catalog.still_listed(closed);
        changes.push(begun);
        catalog.commit_files(changes, || vec![path.clone()])?;
        self.restate_manifest_later(&mut catalog);
        family.change_view(|view| {
            let mut version = view.version.as_ref().clone();
            version.value_logs.insert(number, Arc::clone(&known));
            View { version: Arc::new(version), ..view.clone() }
        });
        drop(catalog);
        let summary = writer.summary();
        let open = Some(OpenDirectFile { file, writer, sync_failed: false });
        Ok(DirectValueWriter { path, options, open, known, summary, started_with: summary })
    }
}
