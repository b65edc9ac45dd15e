//! The footer: the fixed-size end of a table, from which everything else is found.
//!
//! ```text
//! magic 8 | version u8 | index_kind u8 | zero x 6
//! filter offset u64, len u64 | index offset u64, len u64 | properties offset u64, len u64
//! entries u64 | tombstones u64 | file identity u64 | checksum u64
//! ```
//!
//! The checksum covers the rest of the footer and is seeded with the file's identity and the
//! footer's offset, so a table that was cut, extended or renamed does not open. The sections must
//! lie back to back between the data blocks and the footer: nothing in the file is unaccounted
//! for. `index_kind` 0 is a flat index; 1 is a tree index, whose nodes lie between the data blocks
//! and the filter.

use tidesdb_base::checksum;
use tidesdb_base::codec::{Decoder, Malformed, put_u32, put_u64};

pub(crate) const FOOTER_BYTES: usize = 8 + 8 + 3 * 16 + 3 * 8 + 8;
const MAGIC: [u8; 8] = *b"TDBTABLE";
pub(crate) const VERSION: u8 = 1;
const INDEX_FLAT: u8 = 0;
const INDEX_TREE: u8 = 1;

/// A stretch of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// What the footer says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footer {
    /// The index is a tree, whose root is the index section.
    pub(crate) has_tree_index: bool,
    /// Empty (length 0) when the table has no filter.
    pub(crate) filter: Section,
    pub(crate) index: Section,
    pub(crate) properties: Section,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) identity: u64,
}

impl Footer {
    /// Appends the footer, which will lie at `offset`.
    #[expect(clippy::indexing_slicing, reason = "begins at what was the end")]
    pub(crate) fn encode(&self, offset: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        let index_kind = if self.has_tree_index { INDEX_TREE } else { INDEX_FLAT };
        out.extend_from_slice(&[VERSION, index_kind, 0, 0]);
        put_u32(out, 0);
        for section in [self.filter, self.index, self.properties] {
            put_u64(out, section.offset);
            put_u64(out, section.len);
        }
        for number in [self.entries, self.tombstones, self.identity] {
            put_u64(out, number);
        }
        let sum = checksum::placed(self.identity, offset, &out[start..]);
        put_u64(out, sum);
    }

    /// Reads the footer of the file called `identity` that lies at `offset`.
    ///
    /// # Errors
    /// A text saying what is wrong.
    pub(crate) fn decode(bytes: &[u8], identity: u64, offset: u64) -> Result<Self, String> {
        let Some((covered, sum)) = bytes.split_last_chunk() else {
            return Err(format!(
                "expected a footer of {FOOTER_BYTES} bytes, found {}",
                bytes.len()
            ));
        };
        if !covered.starts_with(&MAGIC) {
            let (found, expected) = (covered.get(..MAGIC.len()), MAGIC.escape_ascii());
            let found = found.unwrap_or(covered).escape_ascii();
            return Err(format!("footer begins with '{found}', expected '{expected}'"));
        }
        let (found, expected) =
            (checksum::placed(identity, offset, covered), u64::from_le_bytes(*sum));
        if found != expected {
            return Err(format!("footer checksum is {found:016x}, expected {expected:016x}"));
        }
        let footer = Self::parse(covered).map_err(|Malformed| {
            let found = covered.get(MAGIC.len()..MAGIC.len() + 8).unwrap_or_default();
            format!("footer has the form {found:02x?}, expected version {VERSION}")
        })?;
        footer.check(identity, offset)?;
        Ok(footer)
    }

    fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        decoder.take(MAGIC.len())?;
        let has_tree_index = match decoder.take(8)? {
            [VERSION, INDEX_FLAT, 0, 0, 0, 0, 0, 0] => false,
            [VERSION, INDEX_TREE, 0, 0, 0, 0, 0, 0] => true,
            _ => return Err(Malformed),
        };
        let mut section = || -> Result<_, Malformed> {
            Ok(Section { offset: decoder.u64()?, len: decoder.u64()? })
        };
        let (filter, index, properties) = (section()?, section()?, section()?);
        let (entries, tombstones) = (decoder.u64()?, decoder.u64()?);
        let identity = decoder.u64()?;
        Ok(Self { has_tree_index, filter, index, properties, entries, tombstones, identity })
    }

    fn check(&self, identity: u64, offset: u64) -> Result<(), String> {
        if self.identity != identity {
            return Err(format!("footer is of file {}, expected {identity}", self.identity));
        }
        let mut end = self.filter.offset;
        for section in [self.filter, self.index, self.properties] {
            if section.offset != end {
                return Err(format!("a section begins at {}, expected {end}", section.offset));
            }
            end = end
                .checked_add(section.len)
                .ok_or("a section has more bytes than any file, expected fewer")?;
        }
        if end != offset {
            return Err(format!("sections end at {end}, expected the footer at {offset}"));
        }
        Ok(())
    }
}
