//! Values too large for the log: written once, at commit, straight into a value log.
//!
//! The bytes are on disk before the log record that points at them is written, so no crash can
//! leave a pointer without its value. The file is named by the manifest before the first pointer
//! into it exists, and pinned until the commits that point into it are in tables.

use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};

use tidesdb_base::entry::ValueKind;
use tidesdb_base::error::{Error, Result};
use tidesdb_base::limits::MAX_BATCH_BYTES;
use tidesdb_files::manifest::{Change, ValueLogRecord};
use tidesdb_files::naming::FileKind;
use tidesdb_files::vlog::{VlogOptions, VlogSummary, VlogWriter};
use tidesdb_files::wal::{BatchWriter, Operation};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::vfs::{File, OpenHow};

use super::WriteBatch;
use super::batch::DirectValue;
use super::commit::{CommitCheck, Visible};
use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::version::ValueLogFile;

/// A file that is longer than this is closed and another one started.
const FULL_FILE_BYTES: u64 = 256 << 20;

/// The value log that a family's largest values go to.
#[derive(Debug)]
pub(crate) struct DirectValueWriter {
    path: PathBuf,
    file: Arc<dyn File>,
    writer: VlogWriter,
    known: Arc<ValueLogFile>,
    /// What the file holds without any value.
    started_with: VlogSummary,
    sync_failed: bool,
}

/// Where a file ended before a commit.
#[derive(Clone, Copy, Debug)]
struct FileEnd {
    file: u64,
    summary: VlogSummary,
}

/// A family and its writer, which nobody else uses until the commit is done.
type LockedWriter<'a> = (&'a Arc<FamilyState>, MutexGuard<'a, Option<DirectValueWriter>>);

/// Where the file of a writer ends; `None` when there is none yet.
fn end_of(writer: &Option<DirectValueWriter>) -> Option<FileEnd> {
    let writer = &writer.as_ref()?.writer;
    Some(FileEnd { file: writer.number(), summary: writer.summary() })
}

impl Core {
    pub(super) fn write_with_direct_values(
        &self,
        batch: &WriteBatch,
        check: &mut impl CommitCheck,
    ) -> Result<Visible> {
        // Families in the order of their numbers, so that two such commits can't deadlock.
        let mut families: Vec<&Arc<FamilyState>> =
            batch.direct.iter().map(|value| &value.family).collect();
        families.sort_by_key(|family| family.id);
        families.dedup_by_key(|family| family.id);
        let mut writers: Vec<LockedWriter<'_>> =
            families.iter().map(|family| (*family, lock(&family.direct_values))).collect();
        let mut pointers = Vec::with_capacity(batch.direct.len());
        let ends: Vec<_> = writers.iter().map(|(_, writer)| end_of(writer)).collect();
        for (family, writer) in &mut writers {
            if let Err(error) = self.append_values(family, writer, batch, &mut pointers) {
                self.take_values_back(&mut writers, &ends);
                return Err(error);
            }
        }
        pointers.sort_by_key(|(position, ..)| *position);
        let mut operations = Vec::with_capacity(batch.record.len() + 64 * pointers.len());
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
        self.commit_operations(batch, &operations, check).inspect_err(|_| {
            // Of a log that failed it is not certain that the record is gone.
            if self.log.failure().is_none() {
                self.take_values_back(&mut writers, &ends);
            }
        })
    }

    /// Gives back the space of values that no commit points at: `ends` says where the files ended
    /// before. Otherwise a call that fails because the disk is full would keep
    /// what was left of it, out of reach of flushes, which the full disk keeps from working too.
    fn take_values_back(&self, writers: &mut [LockedWriter<'_>], ends: &[Option<FileEnd>]) {
        for ((_, slot), end) in writers.iter_mut().zip(ends) {
            let Some(open) = slot.as_mut() else { continue };
            // A file that was begun for this commit keeps its header.
            let same_file = end.filter(|end| end.file == open.writer.number());
            let summary = same_file.map_or(open.started_with, |end| end.summary);
            let cut = open.file.set_len(summary.file_len);
            if cut.is_ok() && !open.sync_failed {
                open.writer.rewind(summary);
                open.known.set_bytes(summary.file_len);
            } else if let Some(failed) = slot.take() {
                // What is in the file is unknown. The next commit starts another one, and this one
                // goes when nothing points at it any more.
                failed.known.pin_through(self.log.published());
            }
        }
    }

    /// Ends the value log that the family's largest values go to, so that merges may collect it once
    /// the commits that point into it are in tables. One that is being appended to stays open.
    pub(crate) fn close_direct_file(&self, family: &FamilyState) {
        if let Ok(mut writer) = family.direct_values.try_lock()
            && let Some(open) = writer.take()
        {
            // No commit that points into the file is under way: it would hold the lock.
            open.known.pin_through(self.log.published());
        }
    }

    /// Drops the pins of value logs that no commit outside of tables points into.
    pub(crate) fn unpin_flushed_values(&self, family: &FamilyState) {
        let _catalog = lock(&self.catalog);
        let view = family.view.load();
        let flushed = view.first_unflushed().saturating_sub(1);
        view.version.value_logs.values().for_each(|file| file.unpin(flushed));
    }

    /// Appends and syncs the values of one family.
    fn append_values<'a>(
        &self,
        family: &Arc<FamilyState>,
        writer: &mut Option<DirectValueWriter>,
        batch: &'a WriteBatch,
        pointers: &mut Vec<(usize, &'a DirectValue, Vec<u8>)>,
    ) -> Result<()> {
        if writer.as_ref().is_some_and(|w| w.writer.file_len() >= FULL_FILE_BYTES)
            && let Some(full) = writer.take()
        {
            // No commit that points into the file is under way: it would hold the lock.
            full.known.pin_through(self.log.published());
        }
        if writer.is_none() {
            *writer = Some(self.start_direct_file(family)?);
        }
        let Some(open) = writer else { return Ok(()) };
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
            // What a failed sync leaves behind is anybody's guess, so it is final for the file.
            open.sync_failed = true;
            return Err(Error::io("sync", &open.path, e));
        }
        open.known.set_bytes(open.writer.file_len());
        Ok(())
    }

    fn start_direct_file(&self, family: &Arc<FamilyState>) -> Result<DirectValueWriter> {
        let _at_work = self.callers.enter()?;
        let number = self.numbers.next();
        let path = self.path.join(FileKind::ValueLog(number).name());
        let file = self.vfs.open(&path, OpenHow::CreateNew);
        let file = file.map_err(|e| Error::io("create", &path, e))?;
        let compression = family.options.load().compression;
        let started =
            VlogWriter::new(Arc::clone(&file), &path, VlogOptions { number, compression })
                .and_then(|mut writer| {
                    writer.flush()?;
                    file.sync_data().map_err(|e| Error::io("sync", &path, e))?;
                    self.vfs.sync_dir(&self.path).map_err(|e| Error::io("sync", &self.path, e))?;
                    Ok(writer)
                });
        let writer = started.inspect_err(|_| {
            let _ = self.vfs.remove(&path);
        })?;
        let known = Arc::new(ValueLogFile::new(&self.files, number, 0));
        known.pin();
        let mut catalog = lock(&self.catalog);
        if family.is_dropped() {
            let _ = self.vfs.remove(&path);
            return Err(Error::FamilyDropped(family.name.clone()));
        }
        let file_record = ValueLogRecord { number, bytes: 0 };
        let change = Change::AddValueLog { family: family.id, file: file_record };
        catalog.commit_files(vec![change], || vec![path.clone()])?;
        family.change_view(|view| {
            let mut version = view.version.as_ref().clone();
            version.value_logs.insert(number, Arc::clone(&known));
            View { version: Arc::new(version), ..view.clone() }
        });
        drop(catalog);
        let started_with = writer.summary();
        Ok(DirectValueWriter { path, file, writer, known, started_with, sync_failed: false })
    }
}
