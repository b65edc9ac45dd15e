//! A flat index: all separators of consecutive blocks in one piece, resident in memory.
//!
//! In memory the separators lose their common prefix and are searched by their next eight bytes in
//! a flat array with a small tree above it ([`super::heads`]); ties compare whole separators. The
//! blocks lie back to back, so the file holds their lengths only.
//!
//! ```text
//! count u32 | prefix_len varint | prefix | count x { suffix_len varint | suffix | len varint }
//! ```
//!
//! Immutable once built, shared by all threads.

use super::super::{BlockHandle, common_prefix_len};
use super::heads::{Heads, Place};
use crate::decode_error::DecodeError;
use crate::sink::Sink;
use tidesdb_base::codec::{Decoder, Malformed, key_head, put_bytes, put_u32, put_varint};
use tidesdb_sys::large_vec::{LargeVec, NoMemory};

/// Collects the separators while a table is written.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    keys: LargeVec<u8>,
    ends: LargeVec<usize>,
    lens: LargeVec<u32>,
}

impl IndexBuilder {
    /// Adds the next block.
    ///
    /// # Errors
    /// [`NoMemory`]; what was added is of no use then.
    pub(crate) fn push(&mut self, separator: &[u8], len: u32) -> Result<(), NoMemory> {
        self.keys.extend_from_slice(separator)?;
        self.ends.push(self.keys.len())?;
        self.lens.push(len)
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Separator and length of block `at`.
    pub(crate) fn get(&self, at: usize) -> Option<(&[u8], u32)> {
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        Some((self.keys.get(start.unwrap_or(0)..end)?, *self.lens.get(at)?))
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.ends.clear();
        self.lens.clear();
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.capacity() + self.ends.capacity() * 8 + self.lens.capacity() * 4
    }

    /// Bytes the encoded form takes at most.
    pub(crate) fn encoded_bound(&self) -> usize {
        8 + self.keys.len() + self.ends.len() * 10
    }

    /// The index of these blocks.
    ///
    /// # Errors
    /// `Malformed` when there are more bytes of separators than an index can hold, or `NoMemory`.
    pub(crate) fn into_index(self) -> Result<FlatIndex, DecodeError> {
        let mut encoded = LargeVec::with_capacity(self.encoded_bound())?;
        self.encode(&mut encoded)?;
        FlatIndex::decode(&encoded)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        reason = "writes what it holds, one end for each key"
    )]
    pub(crate) fn encode(&self, out: &mut impl Sink) -> Result<(), NoMemory> {
        let key = |at: usize| {
            let start = if at == 0 { 0 } else { self.ends[at - 1] };
            &self.keys[start..self.ends[at]]
        };
        // Separators are sorted, so what the first and the last share, all share.
        let prefix_len = match self.ends.len() {
            0 => 0,
            count => common_prefix_len(key(0), key(count - 1)),
        };
        let mut some = Vec::new();
        put_u32(&mut some, self.ends.len() as u32);
        put_bytes(&mut some, &self.keys[..prefix_len]);
        for (at, &len) in self.lens.iter().enumerate() {
            put_bytes(&mut some, &key(at)[prefix_len..]);
            put_varint(&mut some, u64::from(len));
            out.put(&some)?;
            some.clear();
        }
        out.put(&some)
    }
}

/// The index of consecutive blocks.
#[derive(Debug, Default)]
pub(crate) struct FlatIndex {
    prefix: Vec<u8>,
    /// The separators' heads, each with the offset at which its block ends.
    heads: Heads,
    keys: LargeVec<u8>,
    key_ends: LargeVec<u32>,
}

impl FlatIndex {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut decoder = Decoder::new(bytes);
        let count = decoder.u32()? as usize;
        // Each block takes at least two bytes here: a count beyond that is not believed.
        if count > bytes.len() / 2 {
            return Err(DecodeError::Malformed);
        }
        let mut index = Self {
            prefix: decoder.bytes()?.to_vec(),
            heads: Heads::default(),
            keys: LargeVec::with_capacity(decoder.remaining().len().saturating_sub(count * 2))?,
            key_ends: LargeVec::with_capacity(count)?,
        };
        let mut places = LargeVec::with_capacity(count)?;
        let mut block_end = 0u64;
        for _ in 0..count {
            let suffix = decoder.bytes()?;
            let len = u32::try_from(decoder.varint()?).map_err(|_| Malformed)?;
            block_end += u64::from(len);
            places.push(Place { head: key_head(suffix), end: block_end })?;
            index.keys.extend_from_slice(suffix)?;
            index.key_ends.push(u32::try_from(index.keys.len()).map_err(|_| Malformed)?)?;
        }
        index.heads = Heads::of(places)?;
        if decoder.is_empty() { Ok(index) } else { Err(DecodeError::Malformed) }
    }

    /// Number of blocks.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.heads.places().len()
    }

    /// Bytes of all blocks together.
    pub(crate) fn indexed_bytes(&self) -> u64 {
        self.heads.places().last().map_or(0, |place| place.end)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.prefix.capacity()
            + self.keys.capacity()
            + self.heads.memory_bytes()
            + self.key_ends.capacity() * 4
    }

    #[inline]
    fn suffix(&self, at: usize) -> &[u8] {
        let end = self.key_ends.get(at).map_or(0, |&end| end as usize);
        let start = at.checked_sub(1).and_then(|before| self.key_ends.get(before));
        self.keys.get(start.map_or(0, |&start| start as usize)..end).unwrap_or_default()
    }

    /// Where block `at` lies; `None` past the last.
    #[inline]
    pub(crate) fn handle(&self, at: usize) -> Option<BlockHandle> {
        let places = self.heads.places();
        let end = places.get(at)?.end;
        let offset = at.checked_sub(1).and_then(|before| places.get(before));
        let offset = offset.map_or(0, |place| place.end);
        // As it was when it was decoded: the ends are sums of lengths of 32 bits.
        Some(BlockHandle { offset, len: u32::try_from(end.checked_sub(offset)?).ok()? })
    }

    /// The separator of block `at` in full.
    pub(crate) fn separator(&self, at: usize) -> Vec<u8> {
        [self.prefix.as_slice(), self.suffix(at)].concat()
    }

    /// Whether the separator of block `at` is `key`.
    pub(crate) fn separator_is(&self, at: usize, key: &[u8]) -> bool {
        at < self.len() && key.strip_prefix(self.prefix.as_slice()) == Some(self.suffix(at))
    }

    /// The first block whose separator is at or after `key`; the number of blocks if there is none.
    #[inline]
    pub(crate) fn first_at_or_after(&self, key: &[u8]) -> usize {
        let Some(suffix) = key.strip_prefix(self.prefix.as_slice()) else {
            return if key < self.prefix.as_slice() { 0 } else { self.len() };
        };
        let wanted = key_head(suffix);
        let mut low = self.heads.lower_bound(wanted);
        let ties = self.heads.places().get(low..).unwrap_or_default();
        if ties.first().is_none_or(|place| place.head != wanted) {
            return low;
        }
        let mut high = low + ties.partition_point(|place| place.head == wanted);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.suffix(middle) < suffix { low = middle + 1 } else { high = middle }
        }
        low
    }
}
