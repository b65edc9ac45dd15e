//! One data block in decoded form: the unit that is cached and searched.
//!
//! ```text
//! count u32 | prefix_len u16 | flags u16
//! heads    u32 x count      first four key bytes after the prefix, as a big-endian number
//! lengths  u16|u32 x count  length of each entry (u32 if flags bit 0)
//! prefix   prefix_len bytes  what all keys of the block have in common
//! entries  tag u8 | seq, 0 to 7 bytes | [expires_at varint]
//!          | suffix_len varint | value_len varint | tail | value
//! tail     the key behind prefix and head; suffix_len counts the head as well
//! tag      bits 0-3 kind, bits 4-6 bytes of seq, bit 7 expiry follows
//! ```
//!
//! Lengths, unlike offsets, repeat and so compress to nothing; decoding turns them into offsets in
//! place. Entries are sorted by key ascending, then sequence number descending. A head is only a
//! hint: equal heads always fall back to comparing whole keys. The header is checked when a block
//! is made; entries are parsed with bounds checks at each access, which costs less than validating
//! all of them for one lookup, and a malformed one returns `None`, which callers turn into a
//! corruption error. Immutable, shared by all threads.

mod builder;
mod fields;
mod owned;
mod stored;

pub(crate) use builder::BlockBuilder;
pub use owned::Block;
pub(crate) use stored::{
    Place, TRAILER_BYTES, Unopened, is_stored_as_it_is, open_stored, seal_stored,
};

use self::fields::{long_fields, short_fields};
use std::cmp::Ordering;
use tidesdb_base::{SequenceNumber, ValueKind};

const HEADER_BYTES: usize = 8;
const HEAD_BYTES: usize = 4;
const FLAG_WIDE_LENGTHS: u16 = 1;
const TAG_KIND: u8 = 0x0F;
const TAG_SEQ_SHIFT: u32 = 4;
const TAG_HAS_EXPIRY: u8 = 0x80;
/// What processors load at a time, and how much of it a search in a block begins with.
const LINE_BYTES: usize = 64;
const FRONT_LINES: usize = 4;
/// Up to this many heads are counted in one straight run, which vectorises.
const LINEAR_HEADS: usize = 64;
/// Bytes that are copied of a tail of up to as many.
const SHORT_TAIL_BYTES: usize = 16;

/// What a version says besides its key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryMeta {
    /// Sequence number of the commit; 0 when every snapshot sees the version.
    pub seq: SequenceNumber,
    /// What the version says about the key.
    pub kind: ValueKind,
    /// Expiry in Unix seconds, 0 for never.
    pub expires_at: u64,
}

/// One parsed entry: where its key suffix and value lie in the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntrySpan {
    pub(crate) meta: EntryMeta,
    /// First bytes of the key behind the block's prefix, of which `head_len` count.
    head: [u8; HEAD_BYTES],
    head_len: usize,
    tail_at: usize,
    value_at: usize,
    end: usize,
}

impl EntrySpan {
    /// The key's bytes between the block's prefix and its tail.
    #[inline]
    pub(crate) fn head(&self) -> &[u8] {
        self.head.get(..self.head_len).unwrap_or_default()
    }

    /// Appends [`EntrySpan::head`]. To copy four bytes and drop some takes fewer steps than to
    /// copy as many as there are.
    #[inline]
    pub(crate) fn append_head(&self, key: &mut Vec<u8>) {
        key.extend_from_slice(&self.head);
        key.truncate(key.len() - (HEAD_BYTES - self.head_len));
    }
}

/// What the header of a block says, checked.
///
/// A cache keeps this and the bytes of the block in one piece, so that what a search begins with is
/// in one or two lines of memory. So where a part begins is computed from these few numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockShape {
    count: u32,
    entries_at: u32,
    prefix_len: u16,
    wide_offsets: bool,
}

/// A decoded block, wherever its bytes are.
#[derive(Clone, Copy, Debug)]
pub struct BlockRef<'b> {
    raw: &'b [u8],
    shape: BlockShape,
}

/// What has a decoded block, and keeps it alive.
pub trait BlockHolder {
    /// The block.
    fn view(&self) -> BlockRef<'_>;

    /// Bytes of memory that this keeps and that count nowhere else.
    fn own_memory_bytes(&self) -> usize {
        self.view().memory_bytes()
    }
}

impl BlockHolder for BlockRef<'_> {
    #[inline]
    fn view(&self) -> BlockRef<'_> {
        *self
    }
}

impl<H: BlockHolder + ?Sized> BlockHolder for Box<H> {
    fn view(&self) -> BlockRef<'_> {
        (**self).view()
    }
}

impl<H: BlockHolder + ?Sized> BlockHolder for std::sync::Arc<H> {
    fn view(&self) -> BlockRef<'_> {
        (**self).view()
    }
}

impl<'b> BlockRef<'b> {
    /// The block of this shape and these bytes, which [`BlockRef::shape`] and
    /// [`BlockRef::bytes`] returned of one block. With others lookups go astray, and no more.
    #[inline]
    #[must_use]
    pub const fn new(shape: BlockShape, raw: &'b [u8]) -> Self {
        Self { raw, shape }
    }

    /// Where the parts of the block lie.
    #[must_use]
    pub const fn shape(self) -> BlockShape {
        self.shape
    }

    /// The decoded bytes.
    #[must_use]
    pub const fn bytes(self) -> &'b [u8] {
        self.raw
    }

    /// A byte of each line of memory that a search in the block begins with, for a caller that
    /// wants them loaded beforehand.
    pub fn front(self) -> impl Iterator<Item = &'b u8> {
        self.raw.iter().step_by(LINE_BYTES).take(FRONT_LINES)
    }

    /// Number of entries.
    #[inline]
    #[must_use]
    pub const fn len(self) -> usize {
        self.shape.count as usize
    }

    /// Whether there is no entry. Blocks read from a table have at least one.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.shape.count == 0
    }

    /// Bytes of memory that the block takes at least, for the accounting of a cache.
    #[must_use]
    pub const fn memory_bytes(self) -> usize {
        size_of::<BlockShape>() + self.raw.len()
    }

    /// What all keys have in common.
    #[inline]
    pub(crate) fn prefix(self) -> &'b [u8] {
        let end = self.shape.entries_at as usize;
        self.raw.get(end - usize::from(self.shape.prefix_len)..end).unwrap_or_default()
    }

    #[inline]
    fn heads(self) -> &'b [[u8; HEAD_BYTES]] {
        self.raw.get(HEADER_BYTES..offsets_at(self.len())).unwrap_or_default().as_chunks().0
    }

    /// Whether entries fill the block without gaps and heads of short keys are padded with zeros.
    pub(crate) fn is_exact(self) -> bool {
        let mut end = self.shape.entries_at as usize;
        for position in 0..self.len() {
            let starts_there = self.entry_start(position) == Some(end);
            let Some(entry) = self.entry(position).filter(|_| starts_there) else {
                return false;
            };
            if entry.head.iter().skip(entry.head_len).any(|&byte| byte != 0) {
                return false;
            }
            end = entry.end;
        }
        end == self.raw.len()
    }

    /// The key at `position` in full; `None` when the block is malformed there.
    pub(crate) fn key(self, position: usize) -> Option<Vec<u8>> {
        let entry = self.entry(position)?;
        Some([self.prefix(), entry.head(), self.tail(&entry)].concat())
    }

    #[inline]
    fn entry_start(self, position: usize) -> Option<usize> {
        let offsets_at = offsets_at(self.len());
        let relative = if self.shape.wide_offsets {
            let at = offsets_at + position * 4;
            u32::from_le_bytes(*self.raw.get(at..)?.first_chunk()?) as usize
        } else {
            let at = offsets_at + position * 2;
            u16::from_le_bytes(*self.raw.get(at..)?.first_chunk()?) as usize
        };
        Some(self.shape.entries_at as usize + relative)
    }

    /// Parses the entry at `position`; `None` when the block is malformed there or too short.
    // A step of a walk parses one: a call would copy the block's numbers and the entry's.
    #[inline(always)]
    pub(crate) fn entry(self, position: usize) -> Option<EntrySpan> {
        if position >= self.len() {
            return None;
        }
        let start = self.entry_start(position)?;
        let bytes = self.raw.get(start..)?;
        let fields = match bytes.first_chunk().and_then(short_fields) {
            Some(fields) => fields,
            None => long_fields(bytes)?,
        };
        let head_len = fields.suffix_len.min(HEAD_BYTES);
        let tail_at = start + fields.len;
        let value_at = tail_at.checked_add(fields.suffix_len - head_len)?;
        let end = value_at.checked_add(fields.value_len)?;
        if end > self.raw.len() {
            return None;
        }
        let head = self.raw.get(HEADER_BYTES + position * HEAD_BYTES..)?.first_chunk()?;
        let head = u32::from_le_bytes(*head).to_be_bytes();
        // Field by field: as a whole it would be copied with the gap behind its kind.
        let EntryMeta { seq, kind, expires_at } = fields.meta;
        let meta = EntryMeta { seq, kind, expires_at };
        Some(EntrySpan { meta, head, head_len, tail_at, value_at, end })
    }

    /// The entry's key behind the block's prefix and the entry's head.
    #[inline]
    pub(crate) fn tail(self, entry: &EntrySpan) -> &'b [u8] {
        self.raw.get(entry.tail_at..entry.value_at).unwrap_or_default()
    }

    /// Appends [`BlockRef::tail`]. To copy a fixed number of bytes and drop some takes fewer steps
    /// than to copy as many as there are, which is a call.
    #[inline]
    pub(crate) fn append_tail(self, entry: &EntrySpan, key: &mut Vec<u8>) {
        let len = entry.value_at - entry.tail_at;
        match self.raw.get(entry.tail_at..).and_then(<[u8]>::first_chunk) {
            Some(bytes) if len <= SHORT_TAIL_BYTES => {
                let bytes: &[u8; SHORT_TAIL_BYTES] = bytes;
                key.extend_from_slice(bytes);
                key.truncate(key.len() - (SHORT_TAIL_BYTES - len));
            }
            _ => key.extend_from_slice(self.tail(entry)),
        }
    }

    /// The entry's value.
    #[inline]
    pub(crate) fn value(self, entry: &EntrySpan) -> &'b [u8] {
        self.raw.get(entry.value_at..entry.end).unwrap_or_default()
    }

    /// Position of the first entry that is at or after version `seq` of `key` in the block's
    /// order; the block's length when there is none; `None` when the block is malformed.
    #[inline]
    pub(crate) fn lower_bound(self, key: &[u8], seq: SequenceNumber) -> Option<usize> {
        let Some(suffix) = key.strip_prefix(self.prefix()) else {
            return Some(if key < self.prefix() { 0 } else { self.len() });
        };
        self.lower_bound_of_suffix(suffix, seq)
    }

    /// As [`BlockRef::lower_bound`], and `None` also where that is the first entry, or behind the
    /// last: the version may lie in another block then. For most keys of other blocks a look at the
    /// prefix and two heads tells.
    #[inline]
    pub(crate) fn position_inside(self, key: &[u8], seq: SequenceNumber) -> Option<usize> {
        let suffix = key.strip_prefix(self.prefix())?;
        let wanted = head_of(suffix);
        let (first, last) = (*self.heads().first()?, *self.heads().last()?);
        if wanted <= u32::from_le_bytes(first) || wanted > u32::from_le_bytes(last) {
            return None;
        }
        self.lower_bound_of_suffix(suffix, seq)
            .filter(|position| (1..self.len()).contains(position))
    }

    #[inline]
    fn lower_bound_of_suffix(self, suffix: &[u8], seq: SequenceNumber) -> Option<usize> {
        let heads = self.heads();
        let wanted = head_of(suffix);
        let low = count_below(heads, wanted);
        match heads.get(low) {
            Some(&head) if u32::from_le_bytes(head) == wanted => {}
            _ => return Some(low),
        }
        let ties = match wanted.checked_add(1) {
            None => heads.len() - low,
            Some(above) => count_below(heads.get(low..)?, above),
        };
        self.bound_among_ties(low, low + ties, suffix, seq)
    }

    fn bound_among_ties(
        &self,
        mut low: usize,
        mut high: usize,
        suffix: &[u8],
        seq: SequenceNumber,
    ) -> Option<usize> {
        let (head_len, tail) = split_head(suffix);
        while low < high {
            let middle = usize::midpoint(low, high);
            let entry = self.entry(middle)?;
            // Equal heads: where a key ends within its head, it is a prefix of the other one.
            let order = entry.head_len.cmp(&head_len).then_with(|| self.tail(&entry).cmp(tail));
            let before = match order {
                Ordering::Less => true,
                Ordering::Equal => entry.meta.seq > seq,
                Ordering::Greater => false,
            };
            if before { low = middle + 1 } else { high = middle }
        }
        Some(low)
    }

    /// Whether the entry's key is `key`.
    #[inline]
    pub(crate) fn has_key(self, entry: &EntrySpan, key: &[u8]) -> bool {
        key.strip_prefix(self.prefix()).is_some_and(|suffix| {
            let (head_len, tail) = split_head(suffix);
            head_len == entry.head_len
                && head_of(suffix) == u32::from_be_bytes(entry.head)
                && tail == self.tail(entry)
        })
    }
}

/// Where the offsets of so many entries begin: behind their heads.
#[inline]
const fn offsets_at(count: usize) -> usize {
    HEADER_BYTES + count * HEAD_BYTES
}

/// Length of a suffix's head, and what follows the head.
#[inline]
fn split_head(suffix: &[u8]) -> (usize, &[u8]) {
    let head_len = suffix.len().min(HEAD_BYTES);
    (head_len, suffix.get(head_len..).unwrap_or_default())
}

/// First four bytes as a big-endian number, padded with zeros.
#[inline]
fn head_of(suffix: &[u8]) -> u32 {
    if let Some(head) = suffix.first_chunk() {
        return u32::from_be_bytes(*head);
    }
    let mut head = [0; HEAD_BYTES];
    for (to, &from) in head.iter_mut().zip(suffix) {
        *to = from;
    }
    u32::from_be_bytes(head)
}

/// How many of the sorted heads are below `wanted`.
#[inline]
fn count_below(heads: &[[u8; HEAD_BYTES]], wanted: u32) -> usize {
    let mut window = heads;
    let mut base = 0;
    while window.len() > LINEAR_HEADS {
        let half = window.len() / 2;
        let (left, right) = window.split_at(half);
        if right.first().is_some_and(|&head| u32::from_le_bytes(head) < wanted) {
            base += half;
            window = right;
        } else {
            window = left;
        }
    }
    let below: u32 = window.iter().map(|&head| u32::from(u32::from_le_bytes(head) < wanted)).sum();
    base + below as usize
}

#[cfg(test)]
mod tests;
