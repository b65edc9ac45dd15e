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
use tidesdb_sys::sched::Lane;
use tidesdb_sys::vfs::OpenMode;

use super::WriteBatch;
use super::batch::DirectValue;
use crate::core::{CallerAtWork, Core};
use crate::family::{FamilyState, View};
use crate::version::{Extent, OpenForAppending, ValueLogAppender, ValueLogFile, ValueLogLife};

/// A file that is longer than this is closed and another one started.
const FULL_FILE_BYTES: u64 = 256 << 20;

/// Full files that commits in memory alone point into are at most one part in so many of what the
/// family has on disk, and one more file.
const UNFLUSHED_PART: u64 = 4;

/// What an operation with a pointer takes beside its key, at most.
const POINTER_BYTES: usize = 64;

/// Where a file ended before a commit.
#[derive(Clone, Copy, Debug)]
struct FileEnd {
    file: u64,
    summary: VlogSummary,
}

/// A family and its writer, which no other commit uses until the commit is done.
type LockedWriter<'a> = (&'a Arc<FamilyState>, MutexGuard<'a, Option<Box<ValueLogAppender>>>);

/// Where the file of a writer ends; `None` when there is none yet.
fn end_of(writer: &Option<Box<ValueLogAppender>>) -> Option<FileEnd> {
    let writer = writer.as_ref()?;
    Some(FileEnd { file: writer.options.number, summary: writer.summary })
}

/// Where in a batch a large value belongs, the value, and the encoded pointer to it.
type Pointer<'a> = (usize, &'a DirectValue, Vec<u8>);

/// The operations of a batch, encoded, with these pointers.
///
/// # Errors
/// [`Error::OutOfMemory`].
fn with_pointers(batch: &WriteBatch, mut pointers: Vec<Pointer<'_>>) -> Result<Vec<u8>> {
    pointers.sort_by_key(|(position, ..)| *position);
    let mut operations = Vec::new();
    let of_pointers = pointers.iter().map(|(_, value, _)| value.key.len() + POINTER_BYTES);
    let bytes = batch.record.len() + of_pointers.sum::<usize>();
    if operations.try_reserve_exact(bytes).is_err() {
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
    Ok(operations)
}

/// Whether full files that commits in memory point into hold much of the family's space. Such a
/// commit takes a hundred bytes of the memtable, and all that it overwrites, in these files and in
/// older ones, stays until that is flushed.
fn is_due_for_flush(family: &FamilyState) -> bool {
    family.settle_value_logs();
    let version = family.current_version();
    let lives = version.value_logs.values().map(|file| file.life());
    let unflushed: u64 = lives.filter(|life| life.is_closed()).map(ValueLogLife::bytes).sum();
    unflushed >= FULL_FILE_BYTES.max(version.space.bytes / UNFLUSHED_PART)
}

/// The large values of a batch, in their value logs. They are taken back when this is dropped,
/// unless the batch was committed, or may have been.
pub(super) struct DirectValues<'a> {
    core: &'a Core,
    /// The locks are held until the commit is done, so that a file is closed only when all commits
    /// that point into it have their sequence numbers.
    writers: Vec<LockedWriter<'a>>,
    /// Where the files of the writers ended before.
    ends: Vec<Option<FileEnd>>,
    /// The operations of the batch, encoded, with pointers to the values.
    operations: Vec<u8>,
    /// The record of the commit may be in the log, even if that fails.
    may_be_logged: bool,
    /// The files are written and cut on this thread: the directory is not given up meanwhile.
    _at_work: CallerAtWork<'a>,
}

impl DirectValues<'_> {
    /// The operations of the batch, encoded, with pointers to the values.
    pub(super) fn operations(&self) -> &[u8] {
        &self.operations
    }

    /// The commit goes to the log now. Should that fail, it is not certain that the record is gone.
    pub(super) const fn may_be_logged(&mut self) {
        self.may_be_logged = true;
    }

    /// The values stay: a commit points at them.
    pub(super) fn keep(&mut self) {
        let mut kept = std::mem::take(&mut self.writers);
        kept.iter_mut().filter_map(|(_, slot)| slot.as_mut()).for_each(|open| open.keep());
    }

    /// Gives back the space of values that no commit points at. Otherwise a call that fails because
    /// the disk is full would keep what was left of it, out of reach of flushes, which the full
    /// disk keeps from working too.
    fn take_back(&mut self) {
        for ((_, slot), end) in self.writers.iter_mut().zip(&self.ends) {
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
                let (published, extent) =
                    (self.core.storage.log.published(), Extent::whole(summary.file_len));
                failed.known.change_life(|life| life.close(published, extent));
            }
        }
    }
}

impl Drop for DirectValues<'_> {
    fn drop(&mut self) {
        if self.may_be_logged && self.core.storage.log.failure().is_some() {
            self.keep();
        } else {
            self.take_back();
        }
    }
}

impl Core {
    /// Writes the large values of a batch to the value logs of their families, and syncs those.
    ///
    /// # Errors
    /// See [`crate::Db::write`]. Nothing is written then.
    pub(super) fn write_direct_values<'a>(
        &'a self,
        batch: &'a WriteBatch,
    ) -> Result<Box<DirectValues<'a>>> {
        let at_work = self.work.callers.enter()?;
        // Families in the order of their numbers, so that two such commits can't deadlock.
        let mut families: Vec<&Arc<FamilyState>> =
            batch.direct.iter().map(|value| &value.family).collect();
        families.sort_by_key(|family| family.id);
        families.dedup_by_key(|family| family.id);
        let writers: Vec<LockedWriter<'_>> =
            families.iter().map(|family| (*family, lock(&family.writes.direct_values))).collect();
        let mut values = Box::new(DirectValues {
            core: self,
            ends: writers.iter().map(|(_, writer)| end_of(writer)).collect(),
            writers,
            operations: Vec::new(),
            may_be_logged: false,
            _at_work: at_work,
        });
        let mut pointers = Vec::with_capacity(batch.direct.len());
        for (family, writer) in &mut values.writers {
            self.append_values(family, writer, batch, &mut pointers)?;
        }
        values.operations = with_pointers(batch, pointers)?;
        Ok(values)
    }

    /// Appends and syncs the values of one family.
    fn append_values<'a>(
        &self,
        family: &Arc<FamilyState>,
        writer: &mut Option<Box<ValueLogAppender>>,
        batch: &'a WriteBatch,
        pointers: &mut Vec<Pointer<'a>>,
    ) -> Result<()> {
        let full = writer.take_if(|open| open.summary.file_len >= FULL_FILE_BYTES);
        let closed = full.map(|full| self.storage.closed_value_log(family, &full));
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
        let encoded: usize =
            pointers.iter().map(|(_, value, _)| value.key.len() + POINTER_BYTES).sum();
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
    ) -> Result<ValueLogAppender> {
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
        if is_due_for_flush(family) {
            let family = Arc::clone(family);
            self.submit(Lane::Housekeeping, move |core| core.freeze_and_flush(&family, 0));
        }
        let summary = writer.summary();
        let open = Some(OpenForAppending { file, writer, sync_failed: false });
        Ok(ValueLogAppender { path, options, open, known, summary, started_with: summary })
    }
}
