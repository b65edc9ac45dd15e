//! The manifest in force and the state that it describes.
//!
//! All changes of the set of files go through [`Catalog::commit`], one at a time. An edit that
//! could not be appended has no effect: its bytes may be on disk, so the catalog starts another
//! manifest file from the state before it, and refuses further edits until that has worked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::range_tombstone::RangeTombstone;
use tidesdb_files::manifest::{Change, Edit, ManifestWriter, TableRecord, ValueLogRecord, current};
use tidesdb_files::naming;
use tidesdb_sys::vfs::Vfs;

use crate::numbers::FileNumbers;

/// A manifest is restated in a new file when it is longer than this and mostly history.
const LONG_MANIFEST_BYTES: u64 = 1 << 20;

/// What the manifest says of one family.
#[derive(Clone, Debug, Default)]
pub(crate) struct FamilyRecord {
    pub name: String,
    pub options: String,
    pub tables: BTreeMap<u64, TableRecord>,
    pub value_logs: BTreeMap<u64, ValueLogRecord>,
    pub range_tombstones: BTreeSet<Arc<RangeTombstone>>,
    pub flushed_through: u64,
}

/// Everything the manifest says.
#[derive(Clone, Debug, Default)]
pub(crate) struct PersistedState {
    pub families: BTreeMap<u32, FamilyRecord>,
    pub next_family: u32,
    pub next_file: u64,
    pub log_start: u64,
    pub last_sequence: u64,
}

impl PersistedState {
    /// Applies an edit. False when it contradicts the state, which only damage can cause.
    #[must_use]
    pub(crate) fn apply(&mut self, edit: &Edit) -> bool {
        edit.changes.iter().all(|change| self.apply_change(change).is_some())
    }

    fn apply_change(&mut self, change: &Change) -> Option<()> {
        match change {
            Change::CreateFamily { family, name, options } => {
                let record = FamilyRecord {
                    name: name.clone(),
                    options: options.clone(),
                    ..FamilyRecord::default()
                };
                return self.families.insert(*family, record).is_none().then_some(());
            }
            Change::DropFamily { family } => {
                self.families.remove(family)?;
            }
            Change::SetOptions { family, options } => {
                self.families.get_mut(family)?.options.clone_from(options);
            }
            Change::AddTable { family, table } => {
                let tables = &mut self.families.get_mut(family)?.tables;
                return tables.insert(table.number, table.clone()).is_none().then_some(());
            }
            Change::RemoveTable { family, number } => {
                self.families.get_mut(family)?.tables.remove(number)?;
            }
            Change::AddValueLog { family, file } => {
                self.families.get_mut(family)?.value_logs.insert(file.number, *file);
            }
            Change::RemoveValueLog { family, number } => {
                self.families.get_mut(family)?.value_logs.remove(number)?;
            }
            Change::FlushedThrough { family, sequence } => {
                self.families.get_mut(family)?.flushed_through = *sequence;
            }
            Change::AddRangeTombstone { family, tombstone } => {
                self.families.get_mut(family)?.range_tombstones.insert(Arc::clone(tombstone));
            }
            Change::RemoveRangeTombstone { family, tombstone } => {
                let known = &mut self.families.get_mut(family)?.range_tombstones;
                return known.remove(tombstone).then_some(());
            }
            Change::LogStart { segment } => self.log_start = *segment,
            Change::NextFile { number } => self.next_file = self.next_file.max(*number),
            Change::NextFamily { family } => self.next_family = *family,
            Change::LastSequence { sequence } => {
                self.last_sequence = self.last_sequence.max(*sequence);
            }
        }
        Some(())
    }

    /// One edit that restates everything.
    pub(crate) fn restate(&self) -> Edit {
        let mut changes = vec![
            Change::NextFamily { family: self.next_family },
            Change::NextFile { number: self.next_file },
            Change::LogStart { segment: self.log_start },
            Change::LastSequence { sequence: self.last_sequence },
        ];
        for (&family, record) in &self.families {
            let (name, options) = (record.name.clone(), record.options.clone());
            changes.push(Change::CreateFamily { family, name, options });
            for table in record.tables.values() {
                changes.push(Change::AddTable { family, table: table.clone() });
            }
            for &file in record.value_logs.values() {
                changes.push(Change::AddValueLog { family, file });
            }
            for tombstone in &record.range_tombstones {
                let tombstone = Arc::clone(tombstone);
                changes.push(Change::AddRangeTombstone { family, tombstone });
            }
            changes.push(Change::FlushedThrough { family, sequence: record.flushed_through });
        }
        Edit::new(changes)
    }
}

/// The manifest in force.
#[derive(Debug)]
pub(crate) struct Catalog {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    numbers: Arc<FileNumbers>,
    writer: ManifestWriter,
    /// Length of the file after its first record.
    restated_bytes: u64,
    /// An append failed, so the file in force may end in an edit that was refused.
    uncertain: bool,
    /// Edits that were appended, or half of them.
    appends: u64,
    /// Files that the refused edit may name.
    doubtful: Vec<PathBuf>,
    pub state: PersistedState,
}

impl Catalog {
    /// Starts a new manifest that restates `state` and makes it the one in force.
    ///
    /// # Errors
    /// [`Error::Io`] when a file operation fails.
    pub(crate) fn create(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        numbers: Arc<FileNumbers>,
        mut state: PersistedState,
    ) -> Result<Self> {
        let writer = Self::new_manifest(vfs.as_ref(), dir, &numbers, &mut state)?;
        Ok(Self::resume(vfs, dir, numbers, writer, state))
    }

    /// Goes on with the manifest in force.
    pub(crate) fn resume(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        numbers: Arc<FileNumbers>,
        writer: ManifestWriter,
        state: PersistedState,
    ) -> Self {
        Self {
            restated_bytes: writer.bytes(),
            vfs,
            dir: dir.to_path_buf(),
            numbers,
            writer,
            uncertain: false,
            appends: 0,
            doubtful: Vec::new(),
            state,
        }
    }

    /// Never writes to the manifest in force: the next edit begins with another one.
    pub(crate) fn without_appending(self) -> Self {
        Self { uncertain: true, ..self }
    }

    /// Whether there is anything that could be read.
    pub(crate) fn has_families(&self) -> bool {
        !self.state.families.is_empty()
    }

    fn new_manifest(
        vfs: &dyn Vfs,
        dir: &Path,
        numbers: &FileNumbers,
        state: &mut PersistedState,
    ) -> Result<ManifestWriter> {
        let number = numbers.next();
        state.next_file = numbers.peek();
        let made = ManifestWriter::create(vfs, dir, number, &state.restate()).and_then(|writer| {
            // The name must be durable before CURRENT points at it.
            vfs.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))?;
            current::set_current(vfs, dir, number)?;
            Ok(writer)
        });
        made.inspect_err(|_| {
            // A full disk is tried again and again, and what each try leaves would fill it further.
            if current::read_current(vfs, dir).is_ok_and(|current| current != Some(number)) {
                let _ = vfs.remove(&dir.join(naming::FileKind::Manifest(number).name()));
            }
        })
    }

    /// Makes an edit durable and applies it to the state.
    ///
    /// # Errors
    /// [`Error::Io`] when the manifest can't be written. The edit then has no effect.
    pub(crate) fn commit(&mut self, changes: Vec<Change>) -> Result<()> {
        self.commit_files(changes, Vec::new)
    }

    /// As [`Catalog::commit`], for an edit that makes files known. When it has no effect they are removed:
    /// at once, or as soon as it is certain that no manifest on disk names them.
    ///
    /// # Errors
    /// As [`Catalog::commit`].
    pub(crate) fn commit_files(
        &mut self,
        changes: Vec<Change>,
        files: impl FnOnce() -> Vec<PathBuf>,
    ) -> Result<()> {
        let appended = self.appends;
        let result = self.try_commit(changes);
        if matches!(result, Err(Error::Io { .. })) {
            let files = files();
            if self.uncertain && self.appends > appended {
                self.doubtful.extend(files);
            } else {
                self.remove(&files);
            }
        }
        result
    }

    fn remove(&self, files: &[PathBuf]) {
        for file in files {
            // One that stays is unknown to the manifest and removed at the next open.
            let _ = self.vfs.remove(file);
        }
    }

    fn try_commit(&mut self, mut changes: Vec<Change>) -> Result<()> {
        if self.uncertain || self.is_long() {
            self.replace()?;
        }
        self.appends += 1;
        changes.push(Change::NextFile { number: self.numbers.peek() });
        let edit = Edit::new(changes);
        if let Err(e) = self.writer.append(&edit) {
            self.uncertain = true;
            // Retried by the next edit if it fails.
            let _ = self.replace();
            return Err(e);
        }
        if self.state.apply(&edit) {
            Ok(())
        } else {
            Err(Error::Internal(format!("a manifest edit contradicts its state: {edit:?}")))
        }
    }

    fn is_long(&self) -> bool {
        let bytes = self.writer.bytes();
        bytes > LONG_MANIFEST_BYTES && bytes > 4 * self.restated_bytes
    }

    fn replace(&mut self) -> Result<()> {
        let old = self.dir.join(naming::FileKind::Manifest(self.writer.number()).name());
        let mut state = self.state.clone();
        let writer = Self::new_manifest(self.vfs.as_ref(), &self.dir, &self.numbers, &mut state)?;
        self.restated_bytes = writer.bytes();
        self.writer = writer;
        self.state = state;
        self.uncertain = false;
        let doubtful = std::mem::take(&mut self.doubtful);
        self.remove(&doubtful);
        // A leftover is dead, since CURRENT names another file, and removed at the next open.
        let _ = self.vfs.remove(&old);
        Ok(())
    }
}
