//! The families of a database as its manifest describes them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::Arc;

use tidesdb_base::entry::MAX_SEQUENCE;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::file_numbers::FILE_NUMBERS_END;
use tidesdb_files::manifest::{TableRecord, ValueLogRecord};
use tidesdb_files::naming::FileKind;
use tidesdb_lockfree::arena::BlockPool;

use crate::family::{DatabaseId, FamilyState, SharedOptions, StoredOptions, View};
use crate::memtable::Memtable;
use crate::version::{
    Extent, FamilyRecord, FileContext, NamedFile, PersistedState, TableFile, ValueLogFile,
    ValueLogLife, Version,
};

/// The families, whose memtables are empty still. `lengths` has the files of the directory.
/// `manifest` describes them.
///
/// # Errors
/// [`Error::Corruption`] when the manifest has options that are none, or tables that can't be as it
/// says.
pub(super) fn load_families(
    database: DatabaseId,
    state: &mut PersistedState,
    shared_options: &SharedOptions,
    lengths: &BTreeMap<FileKind, u64>,
    files: &Arc<FileContext>,
    (memory, manifest): (&Arc<BlockPool>, &Path),
) -> Result<BTreeMap<u32, Arc<FamilyState>>> {
    let mut families = BTreeMap::new();
    let mut known = KnownFiles { context: files, lengths, files: BTreeMap::new() };
    for (&id, record) in &mut state.families {
        let StoredOptions { text, options } = shared_options.of_text(&record.options)?;
        record.options = text;
        check_record(record, manifest)?;
        let version = Arc::new(load_version(record, &mut known));
        check_disjoint(&version, manifest)?;
        let view = View { active: Arc::new(Memtable::new(memory)), frozen: Vec::new(), version };
        let family = FamilyState::new(database, id, &record.name, options, view, &files.budget);
        families.insert(id, Arc::new(family));
    }
    Ok(families)
}

/// The files of the families loaded so far: several may have the same.
struct KnownFiles<'a> {
    context: &'a Arc<FileContext>,
    /// As they were found in the directory.
    lengths: &'a BTreeMap<FileKind, u64>,
    files: BTreeMap<FileKind, Arc<NamedFile>>,
}

impl KnownFiles<'_> {
    /// The file, named by one family more.
    fn name(&mut self, kind: FileKind) -> Arc<NamedFile> {
        match self.files.entry(kind) {
            Entry::Occupied(known) => known.get().named_again(),
            Entry::Vacant(place) => Arc::clone(place.insert(NamedFile::new(self.context, kind))),
        }
    }

    /// A table as the manifest describes it.
    fn table(&mut self, record: &Arc<TableRecord>) -> Arc<TableFile> {
        TableFile::of(self.name(FileKind::Table(record.number)), Arc::clone(record))
    }

    /// A value log as the manifest describes it. One that was not closed is as long as its file.
    fn value_log(&mut self, record: &ValueLogRecord) -> Arc<ValueLogFile> {
        let kind = FileKind::ValueLog(record.number);
        let extent = if record.is_closed() {
            Extent::whole(record.bytes)
        } else {
            Extent::left_open(self.lengths.get(&kind).copied().unwrap_or(0))
        };
        let life = ValueLogLife::Settled { extent };
        ValueLogFile::of(self.name(kind), record.number, life)
    }
}

/// Refuses what no flush or compaction has written, and what they rely on not being there.
///
/// # Errors
/// [`Error::Corruption`].
fn check_record(record: &FamilyRecord, manifest: &Path) -> Result<()> {
    let is_possible = |table: &TableRecord| {
        table.level > 0
            && table.smallest_key <= table.largest_key
            && table.lowest_sequence <= table.highest_sequence
            && table.highest_sequence <= MAX_SEQUENCE
            && table.run < FILE_NUMBERS_END
    };
    if let Some(table) = record.tables.values().find(|table| !is_possible(table)) {
        let detail = format!(
            "expected a level from 1 on, keys and sequence numbers of a table from the lowest to \
             the highest, found level {}, keys {:02x?} to {:02x?}, numbers {} to {}, run {}",
            table.level,
            table.smallest_key,
            table.largest_key,
            table.lowest_sequence,
            table.highest_sequence,
            table.run
        );
        return Err(Error::corruption(manifest, 0, detail));
    }
    if record.flushed_through > MAX_SEQUENCE {
        let found = record.flushed_through;
        let detail = format!("expected commits to be flushed up to one below 2^56, found {found}");
        return Err(Error::corruption(manifest, 0, detail));
    }
    Ok(())
}

/// The tables of a run share no key: readers and compactions go from one to the next.
///
/// # Errors
/// [`Error::Corruption`].
fn check_disjoint(version: &Version, manifest: &Path) -> Result<()> {
    let Some(run) = version.runs.iter().find(|run| !version.is_disjoint(run.place())) else {
        return Ok(());
    };
    let (level, number) = run.place();
    let detail = format!("expected tables that share no key in run {number} of level {level}");
    Err(Error::corruption(manifest, 0, format!("{detail}, found some that do")))
}

fn load_version(record: &FamilyRecord, files: &mut KnownFiles<'_>) -> Version {
    let value_logs = record.value_logs.values();
    let value_logs = value_logs.map(|file| (file.number, files.value_log(file))).collect();
    let tables = record.tables.values().map(|table| files.table(table));
    let mut version = Version::of_tables(tables, value_logs);
    let tombstones = record.range_tombstones.iter().cloned().collect();
    version.range_tombstones.add(tombstones);
    version
}
