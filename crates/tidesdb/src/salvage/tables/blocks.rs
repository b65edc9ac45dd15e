//! Where the data blocks of a table lie, in few bytes: a salvage knows those of all tables at once.

use tidesdb_base::codec::{Decoder, put_varint};
use tidesdb_base::error::Result;
use tidesdb_files::sstable::{BlockHandle, Part, SalvagedTable};

/// The places of blocks, in order. Most lie back to back, and take three bytes then.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// Of each block the bytes in front of it that are no block, and its length.
    packed: Box<[u8]>,
}

impl Blocks {
    /// The data blocks among these parts.
    pub(crate) fn among(parts: &[Part]) -> Self {
        let (mut packed, mut end) = (Vec::new(), 0_u64);
        for part in parts {
            let Part::Data(handle) = part else { continue };
            put_varint(&mut packed, handle.offset.wrapping_sub(end));
            put_varint(&mut packed, u64::from(handle.len));
            end = handle.offset.wrapping_add(u64::from(handle.len));
        }
        Self { packed: packed.into_boxed_slice() }
    }

    /// The blocks, one after the other.
    pub(crate) fn iter(&self) -> BlockPlaces<'_> {
        BlockPlaces { packed: Decoder::new(&self.packed), end: 0 }
    }

    /// The first key in these blocks of a table. Empty where the first block can't be read, since
    /// another time it may be.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Io`] that says nothing of the table.
    pub(crate) fn first_key(&self, table: &SalvagedTable) -> Result<Vec<u8>> {
        let Some(first) = self.iter().next() else { return Ok(Vec::new()) };
        match table.entries(first) {
            Err(e) if e.is_corruption() => Ok(Vec::new()),
            entries => Ok(entries?.into_iter().next().map(|entry| entry.key).unwrap_or_default()),
        }
    }
}

/// Walks over [`Blocks`].
#[derive(Debug)]
pub(crate) struct BlockPlaces<'a> {
    packed: Decoder<'a>,
    /// Of the block before.
    end: u64,
}

impl Iterator for BlockPlaces<'_> {
    type Item = BlockHandle;

    fn next(&mut self) -> Option<BlockHandle> {
        let offset = self.end.wrapping_add(self.packed.varint().ok()?);
        let len = u32::try_from(self.packed.varint().ok()?).ok()?;
        self.end = offset.wrapping_add(u64::from(len));
        Some(BlockHandle { offset, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_kept_in_few_bytes_each() {
        let (mut parts, mut offset) = (Vec::new(), 0);
        for number in 0..1000 {
            let len = 2000 + number % 7 * 300;
            match number % 100 {
                50 => parts.push(Part::Lost { offset, len: u64::from(len) }),
                51 => parts.push(Part::IndexNode(BlockHandle { offset, len })),
                _ => parts.push(Part::Data(BlockHandle { offset, len })),
            }
            offset += u64::from(len);
        }
        let data = parts.iter().filter_map(|part| match part {
            Part::Data(handle) => Some(*handle),
            _ => None,
        });
        let blocks = Blocks::among(&parts);
        assert!(blocks.iter().eq(data));
        assert!(blocks.packed.len() < 3100, "{}", blocks.packed.len());
    }
}
