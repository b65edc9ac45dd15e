//! What is left of a table that may be damaged anywhere.
//!
//! [`SalvagedTable::survey`] reads the whole file once and notes every data block whose checksum
//! matches, every stretch that is lost, and what is wrong with the other parts. Where the index, or
//! a node of it, is damaged, the blocks are found without it (`survey`). Behind a footer that is
//! damaged as well the sections are told from data blocks by what is in them. Nothing is believed
//! that no checksum covers. Blocks are read again when their entries are wanted.
//!
//! Immutable once made, but for parts that are taken. Memory: some forty bytes for each block, and
//! a stretch of the file while the survey walks.

mod survey;

use super::BlockHandle;
use super::block::{Block, BlockHolder, EntryMeta, Place, Unopened};
use super::footer::{FOOTER_BYTES, Footer};
use super::properties::TableSummary;
use crate::sink::Sink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidesdb_base::{Error, Result};
use tidesdb_sys::large_vec::NoMemory;
use tidesdb_sys::vfs::File;

/// What is wrong with a block whose checksum is right.
const NO_BLOCK: &str = "expected entries in order, found other bytes";

/// What lies somewhere in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A whole data block.
    Data(BlockHandle),
    /// Data that can't be read.
    Lost {
        /// Offset of its first byte.
        offset: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// A whole node of a tree index.
    IndexNode(BlockHandle),
}

impl Part {
    /// Where it begins.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        match self {
            Self::Data(handle) | Self::IndexNode(handle) => handle.offset,
            Self::Lost { offset, .. } => *offset,
        }
    }
}

/// A version of a key, as a data block holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvagedEntry {
    /// The key.
    pub key: Vec<u8>,
    /// Sequence number, kind and expiry.
    pub meta: EntryMeta,
    /// The value, its pointer, or nothing.
    pub value: Vec<u8>,
}

/// What is left of a table.
#[derive(Debug)]
pub struct SalvagedTable {
    file: Arc<dyn File>,
    path: PathBuf,
    identity: u64,
    file_len: u64,
    footer: Option<Footer>,
    summary: Option<TableSummary>,
    /// In the order in which they lie.
    parts: Vec<Part>,
    problems: Vec<Error>,
}

impl SalvagedTable {
    /// Reads the table in `file`, called `path` in reports, that was written as `identity`.
    ///
    /// # Errors
    /// [`Error::Io`] when the file can't be read, or [`Error::OutOfMemory`]. Damage is no error.
    pub fn survey(file: Arc<dyn File>, path: &Path, identity: u64) -> Result<Self> {
        Self::survey_in_steps(file, path, identity, &mut |_| Ok(()))
    }

    /// As [`SalvagedTable::survey`]. `progress` is called for each block, or stretch that is
    /// searched for some, with its length in bytes.
    ///
    /// # Errors
    /// As [`SalvagedTable::survey`], and what `progress` returns, which ends the work.
    pub fn survey_in_steps(
        file: Arc<dyn File>,
        path: &Path,
        identity: u64,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Self> {
        let file_len = file.len().map_err(|e| Error::io("read length", path, e))?;
        let mut remains = Self {
            file,
            path: path.to_path_buf(),
            identity,
            file_len,
            footer: None,
            summary: None,
            parts: Vec::new(),
            problems: Vec::new(),
        };
        remains.read_footer()?;
        match remains.footer {
            Some(footer) => remains.survey_sections(footer, progress)?,
            None => remains.walk((0, file_len), progress)?,
        }
        remains.check_counts()?;
        Ok(remains)
    }

    /// The number of the table that claims to lie in `file`, from its footer; `None` when that is
    /// damaged.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn claimed_identity(file: &dyn File, path: &Path) -> Result<Option<u64>> {
        let len = file.len().map_err(|e| Error::io("read length", path, e))?;
        let Some(at) = len.checked_sub(FOOTER_BYTES as u64) else { return Ok(None) };
        let mut bytes = [0; FOOTER_BYTES];
        file.read_exact_at(&mut bytes, at).map_err(|e| Error::io("read", path, e))?;
        let identity = bytes.get(FOOTER_BYTES - 16..).and_then(|rest| rest.first_chunk());
        let identity = identity.copied().map(u64::from_le_bytes);
        Ok(identity.filter(|&identity| Footer::decode(&bytes, identity, at).is_ok()))
    }

    /// The path that the table was opened as.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of the file.
    #[must_use]
    pub const fn identity(&self) -> u64 {
        self.identity
    }

    /// Length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// What the table says of itself; `None` when that is damaged. Counts of blocks and nodes are
    /// those that were found.
    #[must_use]
    pub const fn summary(&self) -> Option<&TableSummary> {
        self.summary.as_ref()
    }

    /// Whether the index is a tree; `None` when the footer is damaged.
    #[must_use]
    pub fn has_tree_index(&self) -> Option<bool> {
        self.footer.map(|footer| footer.has_tree_index)
    }

    /// The sections that the footer names, with their offsets and lengths.
    #[must_use]
    pub fn sections(&self) -> Vec<(&'static str, u64, u64)> {
        let Some(footer) = self.footer else { return Vec::new() };
        let sections =
            [("filter", footer.filter), ("index", footer.index), ("properties", footer.properties)];
        sections.map(|(name, section)| (name, section.offset, section.len)).to_vec()
    }

    /// Data blocks, index nodes and what is lost, in the order in which they lie.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Gives the parts away, for a caller that keeps less of them; there are none here then.
    #[must_use]
    pub fn take_parts(&mut self) -> Vec<Part> {
        std::mem::take(&mut self.parts)
    }

    /// What is wrong with the table, data that is lost included.
    #[must_use]
    pub fn problems(&self) -> &[Error] {
        &self.problems
    }

    /// The entries of a whole data block, in order.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`] when the block is not what it was any more, or
    /// [`Error::OutOfMemory`].
    pub fn entries(&self, handle: BlockHandle) -> Result<Vec<SalvagedEntry>> {
        let damaged = |text: String| Error::corruption(&self.path, handle.offset, text);
        let bytes = self.read(handle.offset, handle.len as usize)?;
        let block = self.block_of(&bytes, handle.offset).map_err(|e| e.or(damaged))?;
        let block = block.view();
        (0..block.len())
            .map(|position| {
                let (key, entry) = (block.key(position), block.entry(position));
                let (key, entry) = key.zip(entry).ok_or_else(|| damaged(NO_BLOCK.to_owned()))?;
                let mut value = Vec::new();
                value.put(block.value(&entry))?;
                Ok(SalvagedEntry { key, meta: entry.meta, value })
            })
            .collect()
    }

    fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| NoMemory)?;
        bytes.resize(len, 0);
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(|e| Error::io("read", &self.path, e))?;
        Ok(bytes)
    }

    fn block_of(&self, sealed: &[u8], offset: u64) -> std::result::Result<Block, Unopened> {
        let mut raw = Vec::new();
        super::block::open_stored(sealed, Place { identity: self.identity, offset }, &mut raw)?;
        let block = Block::from_raw(raw).map_err(|_| NO_BLOCK.to_owned())?;
        if block.view().is_exact() { Ok(block) } else { Err(NO_BLOCK.to_owned().into()) }
    }
}
