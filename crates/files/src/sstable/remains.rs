//! What is left of a table that may be damaged anywhere.
//!
//! [`TableRemains::survey`] reads the whole file once and notes every data block whose checksum
//! matches, every stretch that is lost, and what is wrong with the other parts. Where the index, or
//! a node of it, is damaged, the blocks are found without it (`walk`). Behind a footer that is
//! damaged as well the sections are told from data blocks by what is in them. Nothing is believed
//! that no checksum covers. Blocks are read again when their entries are wanted.
//!
//! Immutable once made. Memory: some forty bytes for each block, and a stretch of the file while
//! the survey walks.

use super::block::{Block, BlockHolder, BlockRef, EntryMeta, Place, TRAILER_BYTES, Unopened};
use super::footer::{FOOTER_BYTES, Footer, Section};
use super::index::{FlatIndex, TreeIndex};
use super::properties::TableSummary;
use super::walk::{self, Found, LONGEST_BLOCK};
use super::{BlockHandle, Table};
use crate::decode_error::decoded;
use crate::filter::Filters;
use crate::sink::Sink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidesdb_base::codec::Decoder;
use tidesdb_base::{Error, Result, ValueKind};
use tidesdb_sys::large_vec::NoMemory;
use tidesdb_sys::vfs::File;

/// What is wrong with a block whose checksum is right.
const NO_BLOCK: &str = "expected entries in order, found other bytes";

/// Bytes that are walked at a time.
const WINDOW_BYTES: usize = 4 * LONGEST_BLOCK;

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
pub struct RemainingEntry {
    /// The key.
    pub key: Vec<u8>,
    /// Sequence number, kind and expiry.
    pub meta: EntryMeta,
    /// The value, its pointer, or nothing.
    pub value: Vec<u8>,
}

/// What is left of a table.
#[derive(Debug)]
pub struct TableRemains {
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

impl TableRemains {
    /// Reads the table in `file`, called `path` in reports, that was written as `identity`.
    ///
    /// # Errors
    /// [`Error::Io`] when the file can't be read, or [`Error::OutOfMemory`]. Damage is no error.
    pub fn survey(file: Arc<dyn File>, path: &Path, identity: u64) -> Result<Self> {
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
            Some(footer) => remains.survey_sections(footer)?,
            None => remains.walk(0, file_len)?,
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
    pub fn entries(&self, handle: BlockHandle) -> Result<Vec<RemainingEntry>> {
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
                Ok(RemainingEntry { key, meta: entry.meta, value })
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

    fn problem(&mut self, offset: u64, text: impl Into<String>) {
        self.problems.push(Error::corruption(&self.path, offset, text));
    }

    fn lose(&mut self, offset: u64, len: u64, reason: String) {
        if len > 0 {
            self.parts.push(Part::Lost { offset, len });
            self.problem(offset, reason);
        }
    }

    fn read_footer(&mut self) -> Result<()> {
        let Some(at) = self.file_len.checked_sub(FOOTER_BYTES as u64) else {
            let text =
                format!("table has {} bytes, expected {FOOTER_BYTES} and more", self.file_len);
            self.problem(self.file_len, text);
            return Ok(());
        };
        let bytes = self.read(at, FOOTER_BYTES)?;
        match Footer::decode(&bytes, self.identity, at) {
            Ok(footer) => self.footer = Some(footer),
            Err(text) => self.problem(at, text),
        }
        Ok(())
    }

    /// The raw bytes of a section; `None` when it is damaged, which is noted.
    fn section(&mut self, section: Section, what: &str) -> Result<Option<Vec<u8>>> {
        // The footer was checked to lie behind all sections.
        let len = usize::try_from(section.len).unwrap_or(0);
        let sealed = self.read(section.offset, len)?;
        let place = Place { identity: self.identity, offset: section.offset };
        let raw = walk::opened(&sealed, place)?;
        if raw.is_none() {
            self.problem(
                section.offset,
                format!("expected the {what} with its checksum, found {len} other bytes"),
            );
        }
        Ok(raw)
    }

    fn survey_sections(&mut self, footer: Footer) -> Result<()> {
        let index = self.section(footer.index, "index")?;
        let data_end = footer.filter.offset;
        let flat = index.as_ref().filter(|_| !footer.has_tree_index);
        let tree = index.as_ref().filter(|_| footer.has_tree_index);
        let flat = decoded(flat.map(|raw| FlatIndex::decode(raw)))?;
        let tree = decoded(tree.map(|raw| TreeIndex::decode(raw)))?;
        match (flat, tree) {
            (Some(index), _) if index.indexed_bytes() == data_end => {
                for handle in (0..index.len()).filter_map(|at| index.handle(at)) {
                    self.survey_block(handle)?;
                }
            }
            (_, Some(index)) if index.nodes_end() == Some(data_end) => self.survey_tree(&index)?,
            _ => {
                if index.is_some() {
                    self.problem(
                        footer.index.offset,
                        "expected an index of all data blocks, found none",
                    );
                }
                self.walk(0, data_end)?;
            }
        }
        let has_filter = footer.filter.len > 0;
        let filter = if has_filter { self.section(footer.filter, "filter")? } else { None };
        let is_there = filter.is_some();
        if is_there && decoded(filter.map(|raw| Filters::decode(&raw)))?.is_none() {
            self.problem(footer.filter.offset, "expected a filter, found none");
        }
        if let Some(raw) = self.section(footer.properties, "properties section")? {
            match TableSummary::decode(&raw) {
                Ok(summary) => self.summary = Some(self.complete(summary, Some(footer))),
                Err(_) => self.problem(footer.properties.offset, "expected properties, found none"),
            }
        }
        Ok(())
    }

    fn complete(&self, summary: TableSummary, footer: Option<Footer>) -> TableSummary {
        TableSummary {
            file_len: self.file_len,
            entries: footer.map_or(0, |footer| footer.entries),
            tombstones: footer.map_or(0, |footer| footer.tombstones),
            ..summary
        }
    }

    /// Checks one data block that an index names.
    fn survey_block(&mut self, handle: BlockHandle) -> Result<()> {
        let bytes = self.read(handle.offset, handle.len as usize)?;
        match self.block_of(&bytes, handle.offset) {
            Ok(_) => self.parts.push(Part::Data(handle)),
            Err(Unopened::Damaged(text)) => {
                self.lose(handle.offset, u64::from(handle.len), text);
            }
            Err(Unopened::NoMemory) => return Err(NoMemory.into()),
        }
        Ok(())
    }

    fn survey_tree(&mut self, index: &TreeIndex) -> Result<()> {
        let mut nodes = Vec::new();
        for node in 0..index.nodes() {
            let Some(place) = index.node_handle(node) else { break };
            let bytes = self.read(place.offset, place.len as usize)?;
            let block = self.block_of(&bytes, place.offset);
            let leaves = block.as_ref().ok().and_then(|block| leaves_of(index, node, block.view()));
            match (leaves, block) {
                (Some(leaves), _) => {
                    for handle in leaves {
                        self.survey_block(handle)?;
                    }
                    nodes.push(Part::IndexNode(place));
                }
                (_, Err(Unopened::NoMemory)) => return Err(NoMemory.into()),
                (None, block) => {
                    let text = match block {
                        Err(Unopened::Damaged(text)) => text,
                        _ => {
                            let (from, to) =
                                (index.first_offset(node), index.first_offset(node + 1));
                            format!("expected data blocks from {from} to {to}, found others")
                        }
                    };
                    self.problem(place.offset, format!("index node {node}: {text}"));
                    self.walk(index.first_offset(node), index.first_offset(node + 1))?;
                }
            }
        }
        self.parts.extend(nodes);
        Ok(())
    }

    /// Finds the blocks from `start` to `end` without an index. What lies behind the data, of a
    /// table whose footer is damaged, is told from it.
    fn walk(&mut self, start: u64, end: u64) -> Result<()> {
        let mut at = start;
        let mut behind_data = false;
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(WINDOW_BYTES);
            let bytes = self.read(at, len)?;
            let last_window = at + len as u64 == end;
            let mut next = at;
            for found in walk::walk(&bytes, at, self.identity) {
                let from = found.offset();
                // A block that the window cuts is for the next one.
                let cut = at + (len - len.min(2 * LONGEST_BLOCK)) as u64;
                if !last_window && from >= cut.max(at + 1) && from > at {
                    break;
                }
                next = from + found.len();
                match found {
                    Found::Block(handle) => {
                        let within = usize::try_from(from - at).unwrap_or(usize::MAX);
                        let end = within.saturating_add(handle.len as usize);
                        let sealed = bytes.get(within..end);
                        self.sort_in(handle, sealed.unwrap_or_default(), &mut behind_data)?;
                    }
                    Found::Gap { offset, len }
                        if !last_window && offset + len == at + bytes.len() as u64 =>
                    {
                        // It may go on; what ends in the next window may begin here.
                        let kept = len.saturating_sub(LONGEST_BLOCK as u64).max(1);
                        next = offset + kept;
                        self.lose_unless(behind_data, offset, kept);
                    }
                    Found::Gap { offset, len } => {
                        self.lose_unless(behind_data, offset, len);
                    }
                }
            }
            at = next.max(at + 1);
        }
        Ok(())
    }

    fn lose_unless(&mut self, behind_data: bool, offset: u64, len: u64) {
        if behind_data {
            return;
        }
        // Stretches that touch were one before windows cut it.
        if let Some(Part::Lost { offset: before, len: known }) = self.parts.last_mut()
            && *before + *known == offset
        {
            *known += len;
            return;
        }
        self.lose(offset, len, "no whole block is found here, and no index names any".to_owned());
    }

    /// Says what a block is that was found without an index.
    fn sort_in(
        &mut self,
        handle: BlockHandle,
        sealed: &[u8],
        behind_data: &mut bool,
    ) -> Result<()> {
        let block = match self.block_of(sealed, handle.offset) {
            Ok(block) => block,
            // It may be data all the same, and what follows it as well.
            Err(Unopened::NoMemory) => return Err(NoMemory.into()),
            Err(Unopened::Damaged(_)) => {
                let place = Place { identity: self.identity, offset: handle.offset };
                if let Some(raw) = walk::opened(sealed, place)?
                    && let Ok(summary) = TableSummary::decode(&raw)
                {
                    self.summary = Some(self.complete(summary, self.footer));
                }
                *behind_data = true;
                return Ok(());
            }
        };
        if self.footer.is_none_or(|footer| footer.has_tree_index) && self.is_node(block.view()) {
            *behind_data = true;
            self.parts.push(Part::IndexNode(handle));
        } else if !*behind_data {
            self.parts.push(Part::Data(handle));
        }
        Ok(())
    }

    /// Whether a block lists where data blocks lie, back to back, one of which is known.
    fn is_node(&self, block: BlockRef<'_>) -> bool {
        let (mut next, mut lens) = (0, Vec::new());
        for position in 0..block.len() {
            let Some(entry) = block.entry(position) else { return false };
            let mut place = Decoder::new(block.value(&entry));
            let (Ok(offset), Ok(len)) = (place.varint(), place.varint()) else { return false };
            let plain = entry.meta.seq == 0 && entry.meta.kind == ValueKind::Value;
            if !plain || !place.is_empty() || offset != next || len <= TRAILER_BYTES as u64 {
                return false;
            }
            next = offset.saturating_add(len);
            lens.push(len);
        }
        let known = |part: &Part| match part {
            Part::Data(handle) => lens.contains(&u64::from(handle.len)),
            _ => false,
        };
        lens.len() > 1 || self.parts.iter().any(known)
    }

    /// Fills in what was counted, and looks whether all data is accounted for.
    fn check_counts(&mut self) -> Result<()> {
        self.parts.sort_by_key(Part::offset);
        let data = self.parts.iter().filter(|part| matches!(part, Part::Data(_))).count() as u64;
        let nodes = self.parts.iter().filter(|part| matches!(part, Part::IndexNode(_))).count();
        if let Some(summary) = &mut self.summary {
            summary.data_blocks = data;
            summary.index_nodes = nodes as u64;
        }
        if !self.problems.is_empty() {
            return Ok(());
        }
        // Whatever reads a table finds the same: what only they notice is reported as they do.
        let table = Table::open(Arc::clone(&self.file), &self.path, self.identity);
        match table.and_then(|table| table.verify()) {
            Err(other @ (Error::Io { .. } | Error::OutOfMemory(_))) => return Err(other),
            Err(problem) => self.problems.push(problem),
            Ok(_) => {}
        }
        Ok(())
    }
}

/// Where the leaves of a node lie; `None` when it is not the node that the root names.
fn leaves_of(index: &TreeIndex, node: usize, block: BlockRef<'_>) -> Option<Vec<BlockHandle>> {
    let mut next = index.first_offset(node);
    let mut leaves = Vec::new();
    for position in 0..block.len() {
        let handle = index.leaf_handle(node, block, position)?;
        if handle.offset != next {
            return None;
        }
        next += u64::from(handle.len);
        leaves.push(handle);
    }
    (next == index.first_offset(node + 1)).then_some(leaves)
}
