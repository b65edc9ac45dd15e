//! A decoded block in memory of its own, and the checks that make one.

use super::{BlockHolder, BlockRef, BlockShape, FLAG_WIDE_LENGTHS, offsets_at};
use tidesdb_base::codec::{Decoder, Malformed};

/// A decoded block that nothing shares.
#[derive(Debug, Default)]
pub struct Block {
    raw: Vec<u8>,
    shape: BlockShape,
}

impl BlockHolder for Block {
    #[inline]
    fn view(&self) -> BlockRef<'_> {
        BlockRef::new(self.shape, &self.raw)
    }
}

impl Block {
    /// Takes the raw bytes of a block after checking its header and the lengths of its entries.
    pub(crate) fn from_raw(mut raw: Vec<u8>) -> Result<Self, Malformed> {
        let mut header = Decoder::new(&raw);
        let count = header.u32()?;
        let prefix_len = header.u16()?;
        let flags = header.u16()?;
        if flags & !FLAG_WIDE_LENGTHS != 0 {
            return Err(Malformed);
        }
        let wide_offsets = flags & FLAG_WIDE_LENGTHS != 0;
        let offset_bytes = if wide_offsets { 4 } else { 2 };
        // A u32 count times eight cannot overflow a 64-bit usize.
        let offsets_at = offsets_at(count as usize);
        let prefix_at = offsets_at + count as usize * offset_bytes;
        let entries_at = prefix_at + usize::from(prefix_len);
        if entries_at > raw.len() || count == 0 {
            return Err(Malformed);
        }
        let entries_len = raw.len() - entries_at;
        let lengths = raw.get_mut(offsets_at..prefix_at).unwrap_or_default();
        let total = if wide_offsets {
            offsets_of_lengths(lengths.as_chunks_mut().0, u32::from_le_bytes, u32::to_le_bytes)
        } else {
            offsets_of_lengths(lengths.as_chunks_mut().0, u16::from_le_bytes, u16::to_le_bytes)
        };
        if total != Some(entries_len) {
            return Err(Malformed);
        }
        let entries_at = u32::try_from(entries_at).map_err(|_| Malformed)?;
        let shape = BlockShape { count, entries_at, prefix_len, wide_offsets };
        Ok(Self { raw, shape })
    }

    /// Bytes that hold no entries: a part of a filter.
    pub(crate) fn of_bytes(raw: Vec<u8>) -> Self {
        Self { raw, ..Self::default() }
    }

    /// Gives the allocation back for the next block, with whatever is in it.
    #[must_use]
    pub fn into_raw(self) -> Vec<u8> {
        self.raw
    }

    /// Bytes of memory held.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.raw.capacity()
    }
}

/// Turns the lengths of entries into where each one starts; returns where the last one ends, or
/// `None` when that does not fit the width.
fn offsets_of_lengths<const N: usize, T: Copy + Default + Into<u32> + TryFrom<u32>>(
    cells: &mut [[u8; N]],
    decode: impl Fn([u8; N]) -> T,
    encode: impl Fn(T) -> [u8; N],
) -> Option<usize> {
    let mut start = 0u32;
    for cell in cells {
        let len: u32 = decode(*cell).into();
        *cell = encode(T::try_from(start).ok()?);
        start = start.checked_add(len)?;
    }
    usize::try_from(start).ok()
}
