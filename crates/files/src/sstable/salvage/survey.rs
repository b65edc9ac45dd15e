//! Reading a table that may be damaged anywhere: which of its blocks are whole, and what is lost.
//!
//! Blocks are looked for where the index says, and where that is damaged in all bytes in order
//! ([`unindexed_blocks`]).

use super::super::block::{BlockHolder, BlockRef, Place, TRAILER_BYTES, Unopened};
use super::super::footer::{FOOTER_BYTES, Footer, Section};
use super::super::index::{FlatIndex, TreeIndex};
use super::super::properties::TableSummary;
use super::super::unindexed_blocks::{self, Found, LONGEST_BLOCK};
use super::super::{BlockHandle, Table};
use super::{Part, SalvagedTable};
use crate::decode_error::decoded;
use crate::filter::Filters;
use std::sync::Arc;
use tidesdb_base::codec::Decoder;
use tidesdb_base::{Error, Result, ValueKind};
use tidesdb_sys::large_vec::NoMemory;

/// Bytes that are searched for blocks at a time.
const WINDOW_BYTES: usize = 4 * LONGEST_BLOCK;

impl SalvagedTable {
    fn problem(&mut self, offset: u64, text: impl Into<String>) {
        self.problems.push(Error::corruption(&self.path, offset, text));
    }

    fn lose(&mut self, offset: u64, len: u64, reason: String) {
        if len > 0 {
            self.parts.push(Part::Lost { offset, len });
            self.problem(offset, reason);
        }
    }

    pub(super) fn read_footer(&mut self) -> Result<()> {
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
        let raw = unindexed_blocks::opened(&sealed, place)?;
        if raw.is_none() {
            self.problem(
                section.offset,
                format!("expected the {what} with its checksum, found {len} other bytes"),
            );
        }
        Ok(raw)
    }

    pub(super) fn survey_sections(
        &mut self,
        footer: Footer,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let index = self.section(footer.index, "index")?;
        let data_end = footer.filter.offset;
        let flat = index.as_ref().filter(|_| !footer.has_tree_index);
        let tree = index.as_ref().filter(|_| footer.has_tree_index);
        let flat = decoded(flat.map(|raw| FlatIndex::decode(raw)))?;
        let tree = decoded(tree.map(|raw| TreeIndex::decode(raw)))?;
        match (flat, tree) {
            (Some(index), _) if index.indexed_bytes() == data_end => {
                for handle in (0..index.len()).filter_map(|at| index.handle(at)) {
                    self.survey_block(handle, progress)?;
                }
            }
            (_, Some(index)) if index.nodes_end() == Some(data_end) => {
                self.survey_tree(&index, progress)?;
            }
            _ => {
                if index.is_some() {
                    self.problem(
                        footer.index.offset,
                        "expected an index of all data blocks, found none",
                    );
                }
                self.walk((0, data_end), progress)?;
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
    fn survey_block(
        &mut self,
        handle: BlockHandle,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        progress(u64::from(handle.len))?;
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

    fn survey_tree(
        &mut self,
        index: &TreeIndex,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let mut nodes = Vec::new();
        for node in 0..index.nodes() {
            let Some(place) = index.node_handle(node) else { break };
            let bytes = self.read(place.offset, place.len as usize)?;
            let block = self.block_of(&bytes, place.offset);
            let leaves = block.as_ref().ok().and_then(|block| leaves_of(index, node, block.view()));
            match (leaves, block) {
                (Some(leaves), _) => {
                    for handle in leaves {
                        self.survey_block(handle, progress)?;
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
                    let place = (index.first_offset(node), index.first_offset(node + 1));
                    self.walk(place, progress)?;
                }
            }
        }
        self.parts.extend(nodes);
        Ok(())
    }

    /// Finds the blocks from `start` to `end` without an index. What lies behind the data, of a
    /// table whose footer is damaged, is told from it.
    pub(super) fn walk(
        &mut self,
        (start, end): (u64, u64),
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let mut at = start;
        let mut behind_data = false;
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(WINDOW_BYTES);
            let bytes = self.read(at, len)?;
            let last_window = at + len as u64 == end;
            let mut next = at;
            for found in unindexed_blocks::find_blocks(&bytes, at, self.identity) {
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
            let reached = next.max(at + 1);
            progress(reached - at)?;
            at = reached;
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
                if let Some(raw) = unindexed_blocks::opened(sealed, place)?
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
    pub(super) fn check_counts(&mut self) -> Result<()> {
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
