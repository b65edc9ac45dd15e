//! Opening a table: all but its data blocks is read and checked.

use super::super::block::{Place, TRAILER_BYTES, is_stored_as_it_is, open_stored};
use super::super::footer::{FOOTER_BYTES, Footer, Section};
use super::super::index::{FlatIndex, Index, TreeIndex};
use super::super::properties::TableSummary;
use super::super::sections_in_parts::Parts;
use super::super::writer::MIN_TABLE_BYTES;
use super::reading::read_exact;
use super::{HeldParts, HeldSizes, Memory, Table};
use crate::filter::Filters;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use tidesdb_base::{Error, Result};
use tidesdb_sys::large_vec::LargeVec;
use tidesdb_sys::vfs::File;

impl Table {
    /// Opens the table in `file`, called `path` in errors, that was written as `identity`.
    ///
    /// # Errors
    /// [`Error::Corruption`] when anything but the data blocks is damaged, [`Error::Io`], or
    /// [`Error::OutOfMemory`].
    pub fn open(file: Arc<dyn File>, path: &Path, identity: u64) -> Result<Self> {
        Self::open_within(file, path, identity, |_| HeldParts::All)
    }

    /// As [`Table::open`], with as much of index and filter in memory as `choose` says, which is
    /// told about how many bytes they take; the rest is read part by part through the block source
    /// of each call.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn open_within(
        file: Arc<dyn File>,
        path: &Path,
        identity: u64,
        choose: impl FnOnce(HeldSizes) -> HeldParts,
    ) -> Result<Self> {
        let len = file.len().map_err(|error| Error::io("read length", path, error))?;
        if len < MIN_TABLE_BYTES {
            let text = format!("table has {len} bytes, expected {MIN_TABLE_BYTES} and more");
            return Err(Error::corruption(path, len, text));
        }
        let footer = read_footer(file.as_ref(), path, identity, len - FOOTER_BYTES as u64)?;
        let section = |section: Section| read_section(file.as_ref(), path, identity, section);
        let damaged = |section: Section, what: &str| {
            let len = section.len;
            let text = format!("expected {what}, found {len} bytes that are none");
            Error::corruption(path, section.offset, text)
        };
        // In memory an index has another form, of about twice the size.
        let sizes = HeldSizes { filter: footer.filter.len, index: 2 * footer.index.len };
        let held = choose(sizes);
        let mut parts =
            (held != HeldParts::All).then(|| Box::new(Parts::new(footer.filter.offset, sizes)));
        let bytes = section(footer.index)?;
        let index = match (&mut parts, footer.has_tree_index) {
            (_, true) => TreeIndex::decode(&bytes).map(Index::Tree),
            // Parts are read where they lie, so the section must lie there as it is.
            (Some(parts), false) if is_stored_raw(footer.index, &bytes) => {
                parts.cut_index(identity, footer.index, &bytes).map(Index::Tree)
            }
            (_, false) => FlatIndex::decode(&bytes).map(Index::Flat),
        };
        let index = index.map_err(|error| error.or(|| damaged(footer.index, "an index")))?;
        let blocks_end = match (&parts, footer.has_tree_index) {
            (Some(_), false) => Some(index.data_bytes()),
            _ => index.blocks_end(),
        };
        if blocks_end != Some(footer.filter.offset) {
            let (end, found) = (footer.filter.offset, blocks_end.unwrap_or(0));
            let text = format!("the index has blocks up to {found}, expected {end}");
            return Err(Error::corruption(path, footer.index.offset, text));
        }
        drop(bytes);
        let filters = match footer.filter.len {
            0 => Filters::default(),
            _ => {
                let bytes = section(footer.filter)?;
                let read_in_parts = parts.as_mut().filter(|_| held == HeldParts::None);
                let in_parts = read_in_parts.is_some_and(|parts| {
                    is_stored_raw(footer.filter, &bytes)
                        && parts.cut_filter(identity, footer.filter, &bytes)
                });
                let all = if in_parts { Ok(Filters::default()) } else { Filters::decode(&bytes) };
                all.map_err(|error| error.or(|| damaged(footer.filter, "a filter")))?
            }
        };
        let properties = TableSummary::decode(&section(footer.properties)?)
            .map_err(|_| damaged(footer.properties, "properties"))?;
        let summary = TableSummary {
            file_len: len,
            entries: footer.entries,
            tombstones: footer.tombstones,
            data_blocks: index.len() as u64,
            index_nodes: if footer.has_tree_index { index.nodes() as u64 } else { 0 },
            ..properties
        };
        let (path, memory) = (path.to_path_buf(), Memory::default());
        Ok(Self { file, path, identity, index, filters, parts, summary, memory })
    }
}

fn read_footer(file: &dyn File, path: &Path, identity: u64, offset: u64) -> Result<Footer> {
    let mut bytes = vec![0; FOOTER_BYTES];
    read_exact(file, path, &mut bytes, offset)?;
    Footer::decode(&bytes, identity, offset).map_err(|text| Error::corruption(path, offset, text))
}

/// A section of a table, which was checked.
enum SectionBytes {
    /// As it lies in the file, with its trailer.
    Stored(LargeVec<u8>),
    Decoded(Vec<u8>),
}

impl Deref for SectionBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Stored(bytes) => {
                bytes.get(..bytes.len().saturating_sub(TRAILER_BYTES)).unwrap_or_default()
            }
            Self::Decoded(bytes) => bytes,
        }
    }
}

fn read_section(
    file: &dyn File,
    path: &Path,
    identity: u64,
    section: Section,
) -> Result<SectionBytes> {
    // The footer was checked to lie behind all sections, so this allocates at most the file.
    let len = usize::try_from(section.len).map_err(|_| {
        Error::corruption(
            path,
            section.offset,
            format!("section has {} bytes, expected what fits into memory", section.len),
        )
    })?;
    let mut stored = LargeVec::filled(len, 0)?;
    read_exact(file, path, &mut stored, section.offset)?;
    let place = Place { identity, offset: section.offset };
    let damaged = |text| Error::corruption(path, section.offset, text);
    // Sections are large and never compressed: most of them are not copied once more.
    if is_stored_as_it_is(&stored, place).map_err(damaged)? {
        return Ok(SectionBytes::Stored(stored));
    }
    let mut raw = Vec::new();
    open_stored(&stored, place, &mut raw).map_err(|error| error.or(damaged))?;
    Ok(SectionBytes::Decoded(raw))
}

/// Whether the raw bytes of a section lie in the file as they are.
const fn is_stored_raw(section: Section, raw: &[u8]) -> bool {
    section.len == (raw.len() + TRAILER_BYTES) as u64
}
