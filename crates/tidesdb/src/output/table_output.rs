//! Writing the tables of a flush or a compaction, and their large values to value logs.

use std::path::PathBuf;
use std::sync::Arc;

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::limits::DIRECT_VALUE_BYTES;
use tidesdb_base::options::FamilyOptions;
use tidesdb_files::filter::FilterOptions;
use tidesdb_files::manifest::TableRecord;
use tidesdb_files::naming::FileKind;
use tidesdb_files::sstable::{
    EntryMeta, IndexForm, TableOptions, TableOrigin, TableSummary, TableWriter,
};
use tidesdb_sys::vfs::File;

use super::parts::{OutputParts, create};
use super::value_log_output::ValueLogOutput;
use super::written::{Syncs, Written, remove_all};
use crate::core::Storage;
use crate::family::{FamilyState, SliceBounds};

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

#[derive(Debug)]
struct OpenTable {
    number: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    writer: TableWriter,
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
    values: ValueLogOutput<'a>,
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
            values: ValueLogOutput::new(parts, family, options),
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
            let pointer = self.values.append(value, self.place.syncs, &mut self.written)?;
            let mut encoded = std::mem::take(&mut self.pointer);
            encoded.clear();
            pointer.encode(&mut encoded);
            meta.kind = ValueKind::ValuePointer;
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

    fn table(&mut self) -> Result<&mut OpenTable> {
        if self.table.is_none() {
            let number = self.parts.storage.numbers.next();
            let (path, file) = create(self.parts, &mut self.written, FileKind::Table(number))?;
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

    /// Completes all files, and syncs them and the directory unless that is for [`Written::sync`].
    /// Then what is returned may be named by the manifest; further versions go to other files.
    ///
    /// # Errors
    /// [`Error::Io`]; everything written since the last call is removed when the output is dropped.
    pub(crate) fn complete(&mut self) -> Result<Written> {
        self.finish_table()?;
        self.values.finish(self.place.syncs, &mut self.written)?;
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
