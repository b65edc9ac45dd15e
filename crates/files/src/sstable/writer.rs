//! Writes one table from entries in order.
//!
//! Called by flush and merge jobs, one thread per writer. Bytes are gathered and written in large
//! pieces; nothing is synced, the caller does that after [`TableWriter::finish`] and before the
//! manifest names the file. After any error the file is unusable and the caller removes it.
//!
//! A block is finished when the entry that does not fit any more is at hand, because the
//! separator in the index lies between the two keys.

mod sections;

use super::block::{BlockBuilder, EntryMeta, Place, TRAILER_BYTES, seal_stored};
use super::expiry::ExpiryHistogram;
use super::footer::{FOOTER_BYTES, Footer};
use super::index::{IndexBuilder, shortest_separator};
use super::properties::{TableOrigin, TableSummary, ValueReferences};
use crate::filter::{FilterBuilder, FilterOptions, key_hash, prefix_hash};
use crate::vlog::{MAX_POINTER_BYTES, ValuePointer};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidesdb_base::compress::Compression;
use tidesdb_base::entry::{MAX_SEQUENCE, NEVER_EXPIRES};
use tidesdb_base::limits::MAX_KEY_BYTES;
use tidesdb_base::{Error, Result, ValueKind};
use tidesdb_sys::large_vec::LargeVec;
use tidesdb_sys::vfs::File;

/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 256 << 10;
/// Bytes that go to the disk together, before the sync at the end; each time is a call into the
/// device.
const WRITE_BACK_BYTES: u64 = 1 << 20;
/// Largest raw section or block; LZ4 takes no more, and every length fits 32 bits.
const MAX_SECTION_BYTES: usize = 0x7E00_0000;

/// The form of a table's index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexForm {
    /// One piece that is resident while the table is open.
    #[default]
    Flat,
    /// The nodes of a B+tree, of which the root alone is resident.
    Tree {
        /// Uncompressed bytes of one index node.
        node_bytes: usize,
        /// Most data blocks that one index node names; at least one.
        node_leaves: usize,
    },
}

/// How a table is written.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Form of the index.
    pub index: IndexForm,
    /// Uncompressed bytes of one data block; a larger entry gets a block of its own.
    pub block_size: usize,
    /// Codec of the data blocks.
    pub compression: Compression,
    /// What filters there are.
    pub filter: FilterOptions,
    /// Number of the file; checksums are bound to it, and opening needs it again.
    pub identity: u64,
    /// About how many entries will come; only saves allocations.
    pub expected_entries: usize,
    /// What time it is, in Unix seconds: what expires soon is told apart finer than what expires
    /// late.
    pub now_unix_seconds: u64,
    /// The family that the table is written for.
    pub origin: TableOrigin,
}

/// Memory of a writer that the next one can use again: a flush would otherwise fetch megabytes from
/// the system and give them back for every table.
#[derive(Debug, Default)]
pub struct WriterBuffers {
    block: BlockBuilder,
    index: IndexBuilder,
    filter: FilterBuilder,
    raw: Vec<u8>,
    compressed: Vec<u8>,
    /// A whole section, raw.
    section: LargeVec<u8>,
    /// Bytes not written to the file yet.
    output: LargeVec<u8>,
}

impl WriterBuffers {
    /// Bytes of memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.block.memory_bytes()
            + self.index.memory_bytes()
            + self.filter.memory_bytes()
            + self.raw.capacity()
            + self.compressed.capacity()
            + self.section.capacity()
            + self.output.capacity()
    }

    /// Forgets what a writer that did not finish has left.
    fn clear(&mut self) {
        self.block.clear();
        self.index.clear();
        self.filter.clear();
        self.output.clear();
    }
}

/// Writes one table.
#[derive(Debug)]
pub struct TableWriter {
    file: Arc<dyn File>,
    path: PathBuf,
    options: TableOptions,
    buffers: WriterBuffers,
    summary: TableSummary,
    expiry: ExpiryHistogram,
    last_key: Vec<u8>,
    last_seq: u64,
    separator: Vec<u8>,
    /// Bytes of the file so far; what is in the buffer follows.
    written: u64,
    /// Bytes of the file that the kernel was asked to write to the disk.
    handed_over: u64,
}

impl TableWriter {
    /// A writer for the empty file `file`, which is called `path` in errors.
    #[must_use]
    pub fn new(file: Arc<dyn File>, path: &Path, options: TableOptions) -> Self {
        Self::with_buffers(file, path, options, WriterBuffers::default())
    }

    /// Like [`TableWriter::new`], in the memory of an earlier writer.
    #[must_use]
    pub fn with_buffers(
        file: Arc<dyn File>,
        path: &Path,
        options: TableOptions,
        mut buffers: WriterBuffers,
    ) -> Self {
        buffers.clear();
        if options.filter.of_keys {
            // The estimate may be far off: it never reserves more than 32 MiB.
            buffers.filter.reserve(options.expected_entries.min(4 << 20));
        }
        Self {
            file,
            path: path.to_path_buf(),
            expiry: ExpiryHistogram::new(options.now_unix_seconds),
            options,
            buffers,
            summary: TableSummary::default(),
            last_key: Vec::new(),
            last_seq: 0,
            separator: Vec::new(),
            written: 0,
            handed_over: 0,
        }
    }

    /// Adds a version. Keys come in ascending order, versions of one key newest first.
    ///
    /// # Errors
    /// [`Error::Internal`] when the order is broken, or sequence number or value pointer malformed,
    /// [`Error::TooLarge`], [`Error::OutOfMemory`] or [`Error::Io`]. The table is of no use then.
    pub fn add(&mut self, key: &[u8], meta: EntryMeta, value: &[u8]) -> Result<()> {
        check_size("key", key.len(), MAX_KEY_BYTES)?;
        check_size("value in a table", value.len(), MAX_SECTION_BYTES - (4 * MAX_KEY_BYTES))?;
        if meta.seq > MAX_SEQUENCE {
            return Err(Error::Internal(format!("sequence number {} is not possible", meta.seq)));
        }
        let new_key = self.check_order(key, meta.seq)?;
        if !self.buffers.block.is_empty()
            && self.buffers.block.len_with(key, value) > self.options.block_size
        {
            let len = self.finish_block()?;
            shortest_separator(&self.last_key, key, &mut self.separator);
            debug_assert!(
                self.last_key <= self.separator
                    && (self.separator.as_slice() < key || self.last_key == key),
                "a separator does not separate"
            );
            self.buffers.index.push(&self.separator, len)?;
        }
        self.account(key, &meta, value)?;
        if new_key {
            self.summary.distinct_keys += 1;
            let hash = key_hash(key);
            self.summary.keys.add(hash);
            self.add_to_filters(key, hash)?;
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        self.last_seq = meta.seq;
        self.buffers.block.push(key, meta, value);
        Ok(())
    }

    /// Adds a key that is not the last one to the filters.
    #[inline]
    fn add_to_filters(&mut self, key: &[u8], hash: u64) -> Result<()> {
        let FilterOptions { of_keys, prefix_bytes, .. } = self.options.filter;
        if of_keys {
            self.buffers.filter.add(hash)?;
        }
        // Keys of one prefix come one after the other.
        if prefix_bytes > 0
            && key.get(..prefix_bytes) != self.last_key.get(..prefix_bytes)
            && let Some(hash) = prefix_hash(key, prefix_bytes)
        {
            self.buffers.filter.add_prefix(hash)?;
        }
        Ok(())
    }

    /// Whether `key` is another one than the last.
    fn check_order(&self, key: &[u8], seq: u64) -> Result<bool> {
        if self.summary.entries == 0 {
            return Ok(true);
        }
        match key.cmp(&self.last_key) {
            Ordering::Greater => Ok(true),
            Ordering::Equal if seq < self.last_seq => Ok(false),
            _ => Err(Error::Internal(format!(
                "entries of {} come out of order: {} @{seq} after {} @{}",
                self.path.display(),
                key.escape_ascii(),
                self.last_key.escape_ascii(),
                self.last_seq
            ))),
        }
    }

    fn account(&mut self, key: &[u8], meta: &EntryMeta, value: &[u8]) -> Result<()> {
        let referred = match meta.kind {
            ValueKind::ValuePointer => self.account_reference(value)?,
            _ => 0,
        };
        let bytes = (key.len() + value.len()) as u64;
        let summary = &mut self.summary;
        if summary.entries == 0 {
            summary.min_key = key.to_vec();
            summary.min_seq = meta.seq;
        }
        summary.entries += 1;
        summary.tombstones += u64::from(meta.kind.is_tombstone());
        summary.min_seq = summary.min_seq.min(meta.seq);
        summary.max_seq = summary.max_seq.max(meta.seq);
        summary.raw_bytes += bytes;
        if meta.expires_at != NEVER_EXPIRES {
            if summary.earliest_expiry == 0 || meta.expires_at < summary.earliest_expiry {
                summary.earliest_expiry = meta.expires_at;
            }
            self.expiry.add(meta.expires_at, bytes + referred);
        }
        Ok(())
    }

    /// Returns the bytes of the record that is referred to.
    fn account_reference(&mut self, value: &[u8]) -> Result<u64> {
        let pointer = ValuePointer::decode(value).map_err(|_| not_a_pointer(value))?;
        let references = &mut self.summary.value_references;
        let at = match references.binary_search_by_key(&pointer.file, |known| known.file) {
            Ok(at) => at,
            Err(at) => {
                references.insert(at, ValueReferences { file: pointer.file, bytes: 0, count: 0 });
                at
            }
        };
        if let Some(known) = references.get_mut(at) {
            known.bytes += pointer.record_bytes();
            known.count += 1;
        }
        Ok(pointer.record_bytes())
    }

    /// Number of versions added so far.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.summary.entries
    }

    /// Bytes of finished blocks so far: what the file will at least be long.
    #[must_use]
    pub fn data_len(&self) -> u64 {
        self.written + self.buffers.output.len() as u64
    }

    /// The last key added; empty at first.
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Writes out what is left and the sections behind the data. Does not sync. The memory that
    /// comes back is for the next writer.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::OutOfMemory`] or [`Error::TooLarge`].
    pub fn finish(mut self) -> Result<(TableSummary, WriterBuffers)> {
        if !self.buffers.block.is_empty() {
            let len = self.finish_block()?;
            let last_key = std::mem::take(&mut self.last_key);
            self.buffers.index.push(&last_key, len)?;
            self.summary.max_key = last_key;
        }
        self.summary.data_blocks = self.buffers.index.len() as u64;
        let mut footer = Footer {
            entries: self.summary.entries,
            tombstones: self.summary.tombstones,
            identity: self.options.identity,
            ..Footer::default()
        };
        match self.options.index {
            IndexForm::Flat => {
                footer.filter = self.write_filter()?;
                check_size("index", self.buffers.index.encoded_bound(), MAX_SECTION_BYTES)?;
                self.buffers.section.clear();
                self.buffers.index.encode(&mut self.buffers.section)?;
            }
            IndexForm::Tree { node_bytes, node_leaves } => {
                footer.has_tree_index = true;
                let nodes_at = self.data_len();
                let root = self.write_index_nodes(node_bytes, node_leaves)?;
                self.summary.index_nodes = root.len() as u64;
                footer.filter = self.write_filter()?;
                check_size("index", root.encoded_bound(), MAX_SECTION_BYTES)?;
                self.buffers.section.clear();
                root.encode(nodes_at, &mut self.buffers.section)?;
            }
        }
        footer.index = self.write_section()?;
        self.summary.expiry = self.expiry.octiles(self.summary.bytes_with_values());
        self.summary.origin = std::mem::take(&mut self.options.origin);
        self.buffers.raw.clear();
        self.summary.encode(&mut self.buffers.raw);
        self.buffers.section.clear();
        self.buffers.section.extend_from_slice(&self.buffers.raw)?;
        footer.properties = self.write_section()?;
        self.buffers.raw.clear();
        footer.encode(self.data_len(), &mut self.buffers.raw);
        self.buffers.output.extend_from_slice(&self.buffers.raw)?;
        self.write_buffer()?;
        self.summary.file_len = self.written;
        Ok((self.summary, self.buffers))
    }

    /// Seals the block under construction; returns its stored length.
    fn finish_block(&mut self) -> Result<u32> {
        self.buffers.block.finish(&mut self.buffers.raw);
        self.seal_raw(self.options.compression)
    }

    fn seal_raw(&mut self, codec: Compression) -> Result<u32> {
        let raw = std::mem::take(&mut self.buffers.raw);
        let sealed = self.seal(&raw, codec);
        self.buffers.raw = raw;
        sealed
    }

    fn seal(&mut self, raw: &[u8], codec: Compression) -> Result<u32> {
        check_size("block", raw.len(), MAX_SECTION_BYTES)?;
        let place = Place { identity: self.options.identity, offset: self.data_len() };
        let WriterBuffers { compressed, output, .. } = &mut self.buffers;
        let start = output.len();
        seal_stored(raw, codec, place, compressed, output)?;
        let len = output.len() - start;
        if output.len() >= WRITE_BYTES {
            self.write_buffer()?;
        }
        Ok(u32::try_from(len).unwrap_or(u32::MAX))
    }

    fn write_buffer(&mut self) -> Result<()> {
        self.file
            .write_all_at(&self.buffers.output, self.written)
            .map_err(|error| Error::io("write", &self.path, error))?;
        self.written += self.buffers.output.len() as u64;
        self.buffers.output.clear();
        let waiting = self.written - self.handed_over;
        if waiting >= WRITE_BACK_BYTES {
            self.file.start_write_back(self.handed_over, waiting);
            self.handed_over = self.written;
        }
        Ok(())
    }
}

/// Smallest file a table can be.
pub(crate) const MIN_TABLE_BYTES: u64 = (FOOTER_BYTES + 2 * TRAILER_BYTES) as u64;

#[cold]
fn not_a_pointer(value: &[u8]) -> Error {
    let (most, bytes) = (MAX_POINTER_BYTES, value.len());
    let begin = value.get(..bytes.min(most)).unwrap_or_default().escape_ascii();
    let detail = "expected four numbers that say where a value lies";
    Error::Internal(format!("{detail}, of at most {most} bytes, found {bytes} bytes: {begin}"))
}

fn check_size(what: &'static str, size: usize, limit: usize) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { what, size: size as u64, limit: limit as u64 })
}
