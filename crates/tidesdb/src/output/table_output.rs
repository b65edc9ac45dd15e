//! Writing the tables of a flush or a compaction, and the value log that goes with them.

use std::path::PathBuf;
use std::sync::Arc;

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::limits::DIRECT_VALUE_BYTES;
use tidesdb_base::options::FamilyOptions;
use tidesdb_files::filter::FilterOptions;
use tidesdb_files::manifest::{TableRecord, ValueLogRecord};
use tidesdb_files::naming::FileKind;
use tidesdb_files::sstable::{
    EntryMeta, IndexForm, TableOptions, TableOrigin, TableSummary, TableWriter,
};
use tidesdb_files::vlog::{VlogOptions, VlogWriter};
use tidesdb_sys::vfs::{File, OpenMode, Vfs};

use crate::core::{Environment, Storage};
use crate::family::{FamilyState, SliceBounds};
use crate::memory::Memory;

/// The parts of the database that an output uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputParts<'a> {
    pub env: &'a Environment,
    pub memory: &'a Memory,
    pub storage: &'a Storage,
}

/// Where the tables belong and what becomes of large values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputPlace {
    pub level: u32,
    pub run: u64,
    /// Bytes at which another table is started.
    pub table_bytes: u64,
    /// Nothing will come that a range tombstone with a sequence number up to this one hides.
    pub range_deletes_applied_through: SequenceNumber,
    /// About how many entries will come in all.
    pub expected_entries: usize,
    pub syncs: Syncs,
}

/// When files are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syncs {
    /// Each when it is complete, and the directory with the last.
    Each,
    /// Together with those of other outputs, by [`Written::sync`]: the file system has to do for
    /// them once what it does for each sync.
    Together,
}

/// Files of an output that wait open for their sync: a flush may make hundreds of small tables.
const MOST_UNSYNCED: usize = 16;

#[derive(Debug)]
struct OpenTable {
    number: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    writer: TableWriter,
}

#[derive(Debug)]
struct OpenValueLog {
    path: PathBuf,
    file: Arc<dyn File>,
    writer: VlogWriter,
}

/// What was written, and synced but for what is listed as unsynced, and is not yet named by the
/// manifest.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub tables: Vec<Arc<TableRecord>>,
    pub value_logs: Vec<ValueLogRecord>,
    pub bytes: u64,
    pub paths: Vec<PathBuf>,
    unsynced: Vec<(PathBuf, Arc<dyn File>)>,
}

impl Written {
    /// Both together.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.tables.extend(other.tables);
        self.value_logs.extend(other.value_logs);
        self.bytes += other.bytes;
        self.paths.extend(other.paths);
        self.unsynced.extend(other.unsynced);
        self
    }

    /// Syncs all files, and the directory.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn sync(&mut self, storage: &Storage) -> Result<()> {
        for (path, file) in std::mem::take(&mut self.unsynced) {
            file.sync_data().map_err(|e| Error::io("sync", &path, e))?;
        }
        match self.paths.as_slice() {
            [] => Ok(()),
            _ => storage.log.sync_directory(),
        }
    }

    fn completed(&mut self, syncs: Syncs, path: PathBuf, file: Arc<dyn File>) -> Result<()> {
        match syncs {
            Syncs::Each => file.sync_data().map_err(|e| Error::io("sync", &path, e)),
            Syncs::Together => {
                // Whole, while others are written still.
                file.start_write_back(0, 0);
                self.unsynced.push((path, file));
                // The one that has been written back for longest.
                if self.unsynced.len() > MOST_UNSYNCED {
                    let (path, file) = self.unsynced.remove(0);
                    file.sync_data().map_err(|e| Error::io("sync", &path, e))?;
                }
                Ok(())
            }
        }
    }
}

/// Takes versions in order and cuts them into tables. Dropped unfinished, it removes what it
/// wrote.
#[derive(Debug)]
pub(crate) struct TableOutput<'a> {
    parts: OutputParts<'a>,
    options: &'a FamilyOptions,
    origin: TableOrigin,
    place: OutputPlace,
    /// A table ends before each of these keys.
    bounds: SliceBounds,
    /// How many of them the output has passed.
    bounds_passed: usize,
    table: Option<OpenTable>,
    value_log: Option<OpenValueLog>,
    /// Bytes at which another value log is started.
    most_value_log_bytes: u64,
    written: Written,
    pointer: Vec<u8>,
}

impl<'a> TableOutput<'a> {
    pub(crate) fn new(
        parts: OutputParts<'a>,
        family: &FamilyState,
        options: &'a FamilyOptions,
        place: OutputPlace,
        bounds: SliceBounds,
    ) -> Self {
        Self {
            parts,
            options,
            origin: origin_of(parts.storage, family, options),
            place,
            bounds,
            bounds_passed: 0,
            table: None,
            value_log: None,
            most_value_log_bytes: parts.env.largest_table_bytes().saturating_mul(2),
            written: Written::default(),
            pointer: Vec::new(),
        }
    }

    /// Adds a version.
    ///
    /// # Errors
    /// [`Error::Io`] when a file can't be written.
    pub(crate) fn add(&mut self, key: &[u8], mut meta: EntryMeta, value: &[u8]) -> Result<()> {
        let full = self.table.as_ref().is_some_and(|table| {
            // Versions of one key never straddle tables.
            table.writer.data_len() >= self.place.table_bytes && table.writer.last_key() != key
        });
        if self.passes_bound(key) || full {
            self.finish_table()?;
        }
        // As commits do it: a block of a table has no value that is larger than the log would take.
        let threshold = self.options.klog_value_threshold.min(DIRECT_VALUE_BYTES);
        if meta.kind == ValueKind::Value && value.len() >= threshold {
            let pointer = self.value_log()?.writer.append(value)?;
            let mut encoded = std::mem::take(&mut self.pointer);
            encoded.clear();
            pointer.encode(&mut encoded);
            meta.kind = ValueKind::ValuePointer;
            if self.value_log()?.writer.file_len() >= self.most_value_log_bytes {
                self.finish_value_log()?;
            }
            let added = self.table().and_then(|table| table.writer.add(key, meta, &encoded));
            self.pointer = encoded;
            return added;
        }
        self.table()?.writer.add(key, meta, value)
    }

    /// Whether a bound lies between the version before and `key`.
    fn passes_bound(&mut self, key: &[u8]) -> bool {
        let before = self.bounds_passed;
        while self.bounds.get(self.bounds_passed).is_some_and(|bound| bound.as_slice() <= key) {
            self.bounds_passed += 1;
        }
        self.bounds_passed > before
    }

    fn create(&mut self, kind: FileKind) -> Result<(PathBuf, Arc<dyn File>)> {
        let path = self.parts.env.path.join(kind.name());
        let file = self.parts.env.vfs.open(&path, OpenMode::CreateNew);
        let file = file.map_err(|e| Error::io("create", &path, e))?;
        self.written.paths.push(path.clone());
        Ok((path, file))
    }

    fn table(&mut self) -> Result<&mut OpenTable> {
        if self.table.is_none() {
            let number = self.parts.storage.numbers.next();
            let (path, file) = self.create(FileKind::Table(number))?;
            let (index, block_size) = index_form(self.options);
            let options = TableOptions {
                index,
                block_size,
                compression: self.options.compression,
                filter: filters(self.options),
                identity: number,
                expected_entries: self.place.expected_entries,
                now_unix_seconds: self.parts.env.clock.unix_seconds(),
                origin: self.origin.clone(),
            };
            let buffers = self.parts.memory.buffer_pool.take();
            let writer = TableWriter::with_buffers(Arc::clone(&file), &path, options, buffers);
            self.table = Some(OpenTable { number, path, file, writer });
        }
        self.table.as_mut().ok_or_else(|| Error::Internal("no open table".to_owned()))
    }

    fn value_log(&mut self) -> Result<&mut OpenValueLog> {
        if self.value_log.is_none() {
            let number = self.parts.storage.numbers.next();
            let (path, file) = self.create(FileKind::ValueLog(number))?;
            let options = VlogOptions { number, compression: self.options.compression };
            let writer = VlogWriter::new(Arc::clone(&file), &path, options)?;
            self.value_log = Some(OpenValueLog { path, file, writer });
        }
        self.value_log.as_mut().ok_or_else(|| Error::Internal("no open value log".to_owned()))
    }

    /// Ends the present table, so that the next version starts another.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn finish_table(&mut self) -> Result<()> {
        let Some(table) = self.table.take() else { return Ok(()) };
        let (summary, buffers) = table.writer.finish()?;
        self.parts.memory.buffer_pool.give(buffers);
        self.written.completed(self.place.syncs, table.path, table.file)?;
        self.written.bytes += summary.file_len;
        self.written.tables.push(Arc::new(record_of(table.number, self.place, summary)));
        Ok(())
    }

    /// Ends the present table if it has so many bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn end_table_of(&mut self, least_bytes: u64) -> Result<()> {
        match &self.table {
            Some(table) if table.writer.data_len() >= least_bytes => self.finish_table(),
            _ => Ok(()),
        }
    }

    fn finish_value_log(&mut self) -> Result<()> {
        let Some(log) = self.value_log.take() else { return Ok(()) };
        let number = log.writer.number();
        let summary = log.writer.finish()?;
        self.written.completed(self.place.syncs, log.path, log.file)?;
        self.written.bytes += summary.file_len;
        self.written.value_logs.push(ValueLogRecord { number, bytes: summary.file_len });
        Ok(())
    }

    /// Completes all files, and syncs them and the directory unless that is for [`Written::sync`].
    /// Then what is returned may be named by the manifest; further versions go to other files.
    ///
    /// # Errors
    /// [`Error::Io`]; everything written since the last call is removed when the output is dropped.
    pub(crate) fn complete(&mut self) -> Result<Written> {
        self.finish_table()?;
        self.finish_value_log()?;
        if self.place.syncs == Syncs::Each && !self.written.paths.is_empty() {
            self.parts.storage.log.sync_directory()?;
        }
        Ok(std::mem::take(&mut self.written))
    }
}

impl Drop for TableOutput<'_> {
    fn drop(&mut self) {
        // What was completed is no longer listed.
        remove_all(self.parts.env.vfs.as_ref(), &self.written.paths);
    }
}

/// Removes files that no manifest ever named.
pub(crate) fn remove_all(vfs: &dyn Vfs, paths: &[PathBuf]) {
    for path in paths {
        // One that stays is unknown to the manifest and removed at the next open.
        let _ = vfs.remove(path);
    }
}

/// As [`remove_all`] for what outputs have completed.
pub(crate) fn remove_written(vfs: &dyn Vfs, written: &[Written]) {
    for written in written {
        remove_all(vfs, &written.paths);
    }
}

/// The smallest data block of a table with a tree index, unless `block_size` is smaller.
const LEAST_LEAF_BYTES: usize = 512;

/// A node that is to have so many entries ends here, whatever the number.
const LARGEST_NODE_BYTES: usize = 1 << 20;

/// Form of the index and size of data blocks. The index nodes of a tree cost no memory for a data
/// block, so these can be small: less is read, checked and decoded for one key.
fn index_form(options: &FamilyOptions) -> (IndexForm, usize) {
    let node_bytes = options.block_size;
    if options.use_btree {
        let leaf_bytes = (node_bytes / 4).max(LEAST_LEAF_BYTES).min(node_bytes);
        // Nodes are as small: most gets read one of each.
        return (IndexForm::Tree { node_bytes: leaf_bytes, node_leaves: usize::MAX }, leaf_bytes);
    }
    let form = match (options.enable_block_indexes, options.index_sample_ratio) {
        (true, 1) => IndexForm::Flat,
        (true, node_leaves) => IndexForm::Tree { node_bytes: LARGEST_NODE_BYTES, node_leaves },
        (false, _) => IndexForm::Tree { node_bytes, node_leaves: usize::MAX },
    };
    (form, options.block_size)
}

fn filters(options: &FamilyOptions) -> FilterOptions {
    FilterOptions {
        kind: options.filter_kind,
        rate: options.bloom_fpr,
        of_keys: options.enable_bloom_filter,
        prefix_bytes: options.prefix_bytes,
    }
}

/// What the tables of a family say of it.
fn origin_of(storage: &Storage, family: &FamilyState, options: &FamilyOptions) -> TableOrigin {
    // Read first: what is published by now is in memtables of the view, or in tables.
    let published = storage.log.published();
    let first_unflushed = family.view.load().first_unflushed();
    TableOrigin {
        family: family.id,
        name: family.name().to_string(),
        options: options.text_beside_default(),
        in_tables_through: published.min(first_unflushed.saturating_sub(1)),
    }
}

fn record_of(number: u64, place: OutputPlace, summary: TableSummary) -> TableRecord {
    debug_assert!(summary.entries > 0 && summary.min_key <= summary.max_key, "an empty table");
    debug_assert!(summary.min_seq <= summary.max_seq && place.level > 0, "{place:?}");
    TableRecord {
        number,
        level: place.level,
        run: place.run,
        bytes: summary.file_len,
        entries: summary.entries,
        tombstones: summary.tombstones,
        smallest_key: summary.min_key,
        largest_key: summary.max_key,
        lowest_sequence: summary.min_seq,
        highest_sequence: summary.max_seq,
        value_references: summary.value_references.iter().map(|r| (r.file, r.bytes)).collect(),
        keys: summary.keys,
        range_deletes_applied_through: place.range_deletes_applied_through,
        expiry: summary.expiry,
    }
}
