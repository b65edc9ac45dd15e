//! What the writer of a table puts behind the data blocks: index nodes, filter and other sections.

use super::super::block::EntryMeta;
use super::super::footer::Section;
use super::super::index::tree::encode_leaf;
use super::super::index::{IndexBuilder, RootBuilder};
use super::{MAX_SECTION_BYTES, TableWriter, WriterBuffers};
use std::ops::Range;
use tidesdb_base::compress::Compression;
use tidesdb_base::entry::NEVER_EXPIRES;
use tidesdb_base::{Result, ValueKind};

impl TableWriter {
    /// Writes the nodes of a tree index, and returns what the root will say of them.
    pub(super) fn write_index_nodes(
        &mut self,
        node_bytes: usize,
        node_leaves: usize,
    ) -> Result<RootBuilder> {
        let leaves = std::mem::take(&mut self.buffers.index);
        let mut root = RootBuilder::default();
        let (mut first, mut leaf_bytes, mut value) = (0, 0, Vec::new());
        for at in 0..leaves.len() {
            let Some((separator, len)) = leaves.get(at) else { break };
            value.clear();
            encode_leaf(leaf_bytes, len, &mut value);
            let node = &self.buffers.block;
            let full = at - first >= node_leaves || node.len_with(separator, &value) > node_bytes;
            if !node.is_empty() && full {
                self.finish_node(&leaves, first..at, leaf_bytes, &mut root)?;
                (first, leaf_bytes) = (at, 0);
                value.clear();
                encode_leaf(0, len, &mut value);
            }
            let meta = EntryMeta { seq: 0, kind: ValueKind::Value, expires_at: NEVER_EXPIRES };
            self.buffers.block.push(separator, meta, &value);
            leaf_bytes += u64::from(len);
        }
        if !self.buffers.block.is_empty() {
            self.finish_node(&leaves, first..leaves.len(), leaf_bytes, &mut root)?;
        }
        self.buffers.index = leaves;
        Ok(root)
    }

    fn finish_node(
        &mut self,
        leaves: &IndexBuilder,
        covered: Range<usize>,
        leaf_bytes: u64,
        root: &mut RootBuilder,
    ) -> Result<()> {
        let len = self.finish_block()?;
        let last = covered.end.checked_sub(1).and_then(|last| leaves.get(last));
        root.push(last.map_or(&[], |(separator, _)| separator), len, covered.len(), leaf_bytes)?;
        Ok(())
    }

    /// A filter of a table so large that it would not fit a section is left out.
    pub(super) fn write_filter(&mut self) -> Result<Section> {
        let none = Section { offset: self.data_len(), len: 0 };
        let WriterBuffers { filter, section, .. } = &mut self.buffers;
        section.clear();
        let options = self.options.filter;
        if options.is_none() || !filter.finish(options, MAX_SECTION_BYTES, section)? {
            return Ok(none);
        }
        self.write_section()
    }

    /// Writes `section` uncompressed as a section.
    pub(super) fn write_section(&mut self) -> Result<Section> {
        let offset = self.data_len();
        let section = std::mem::take(&mut self.buffers.section);
        let sealed = self.seal(&section, Compression::None);
        self.buffers.section = section;
        Ok(Section { offset, len: u64::from(sealed?) })
    }
}
